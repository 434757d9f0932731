"""Where lies what could not be worked: the failure store, and the queues' dead letters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from functions.dynamodb.keys import instant
from functions.objects import REDRIVEN
from ops.ends import Missing
from ops.kept import who
from ops.place import Place

PARKED, DEAD = "parked/", "dead/"
HELD_SECONDS = 120
"""How long a queue's dead letters are in hand, beside the time to work them. Who is killed leaves them to the next one
after that."""
LONGEST_HELD_SECONDS = 12 * 3600
MOST_LETTERS = 2000
"""How many dead letters of a queue are taken in hand at a time: as many as are sent back while they are."""
A_BATCH = 10
COUNTS = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
OURS = re.compile(r"([A-Z][a-z]+)ReactionQueue")

Shown = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """`at`: when it was put there. `redriven`: whether it was, since."""

    at: str
    key: str
    bytes: int
    redriven: bool = False


@dataclass(frozen=True)
class DeadLetters:
    """A dead-letter queue. `name`: whose messages end there; `source`: their queue, None where none is; `deliveries`:
    after how many a message is a dead letter."""

    name: str
    url: str
    source: str | None
    deliveries: int


@dataclass(frozen=True)
class Letter:
    """A message of a dead-letter queue."""

    queue: DeadLetters
    message: Mapping[str, Any]

    @property
    def key(self) -> str:
        return f"{DEAD}{self.queue.name}/{self.message['MessageId']}"

    @property
    def entry(self) -> Entry:
        sent_at = int(self.message["Attributes"]["SentTimestamp"]) / 1000
        return Entry(instant(datetime.fromtimestamp(sent_at, UTC)), self.key, len(self.message["Body"].encode()))

    def told(self) -> Shown:
        """Its own count of deliveries goes on with each look at it, so it is none of what happened."""
        reason = f"failed at all {self.queue.deliveries} deliveries" if self.queue.source else "a call that never was"
        return {"kind": "dead letter", "reader": self.queue.name, "reason": reason}

    def document(self) -> Shown:
        return {"queue": self.queue.name, "message": self.message, "event": detail_in(self.message["Body"])}


def newest_first(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (entry.at, entry.key), reverse=True)


class Failures:
    """The failure store and the dead-letter queues of a shop. `wait_seconds`: how long to wait for messages of which a
    queue does not say at once that it has them, as SQS may. `most_letters`: how many dead letters of a queue are taken
    in hand at a time. Thread-safe, as clients of boto3 are."""

    most_letters = MOST_LETTERS

    def __init__(self, s3: Any, sqs: Any, bucket: str, queue_urls: Sequence[str], *, wait_seconds: int = 0) -> None:
        self.s3, self.sqs, self.bucket = s3, sqs, bucket
        self._urls, self._wait_seconds = queue_urls, wait_seconds

    @classmethod
    def of(cls, shop: Place, *, wait_seconds: int = 0) -> Failures:
        bucket, queues = shop.outputs["FailuresBucket"], shop.resources("AWS::SQS::Queue")
        return cls(shop.client("s3"), shop.client("sqs"), bucket, queues, wait_seconds=wait_seconds)

    # the queues -------------------------------------------------------------------------------------------------------
    @cached_property
    def queues(self) -> Mapping[str, str]:
        """The URL of each queue that is no dead-letter queue, by its ARN."""
        dead = {queue.url for queue in self.dead}
        return {arn: url for url, (arn, _) in self._attributes.items() if url not in dead}

    @cached_property
    def dead(self) -> Sequence[DeadLetters]:
        arns = {arn: url for url, (arn, _) in self._attributes.items()}
        leads = {
            arns[policy["deadLetterTargetArn"]]: (url, int(policy["maxReceiveCount"]))
            for url, (_, policy) in self._attributes.items()
            if policy
        }
        alone = {url: (None, 0) for url, (_, policy) in self._attributes.items() if not policy and url not in leads}
        return [
            DeadLetters(_name(source or url), url, source, most) for url, (source, most) in {**leads, **alone}.items()
        ]

    @cached_property
    def _attributes(self) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
        """Of each queue its ARN, and where its dead letters go, if anywhere."""

        def asked(url: str) -> tuple[str, Mapping[str, Any]]:
            found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
            return found["QueueArn"], json.loads(found.get("RedrivePolicy") or "{}")

        return {url: asked(url) for url in self._urls}

    @contextmanager
    def letters(
        self, queues: Sequence[DeadLetters] | None = None, working_seconds: float = 0
    ) -> Iterator[list[Letter]]:
        """The dead letters there are (of these queues), in hand for as long as it takes to work them; those that are
        not deleted meanwhile are there again afterwards."""
        queues = self.dead if queues is None else queues
        taken = [letter for queue in queues for letter in self._taken(queue, int(HELD_SECONDS + working_seconds))]
        try:
            yield taken
        finally:
            for queue in queues:
                self._give_back(queue, [letter for letter in taken if letter.queue is queue])

    def elsewhere(self) -> int:
        """How many dead letters are in somebody else's hands, about: another redrive's, or one's that was killed."""
        return sum(self.counted(queue.url)[1] for queue in self.dead)

    def counted(self, url: str) -> tuple[int, int]:
        """How many messages wait in a queue, and how many somebody has in hand, about."""
        found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[*COUNTS]).get("Attributes", {})
        waiting, in_hand = (int(found.get(name, 0)) for name in COUNTS)
        return waiting, in_hand

    def _taken(self, queue: DeadLetters, held_seconds: int) -> Iterable[Letter]:
        taken: dict[str, Letter] = {}
        while len(taken) < self.most_letters:
            found = self.sqs.receive_message(
                QueueUrl=queue.url,
                MaxNumberOfMessages=A_BATCH,
                VisibilityTimeout=min(held_seconds, LONGEST_HELD_SECONDS),
                WaitTimeSeconds=self._wait_seconds,
                MessageSystemAttributeNames=["SentTimestamp", "ApproximateReceiveCount"],
                MessageAttributeNames=["All"],
            ).get("Messages", [])
            if {message["MessageId"] for message in found} <= taken.keys():
                break
            taken |= {message["MessageId"]: Letter(queue, message) for message in found}
        return taken.values()

    def _give_back(self, queue: DeadLetters, letters: Sequence[Letter]) -> None:
        entries = [
            {"Id": str(number), "ReceiptHandle": letter.message["ReceiptHandle"], "VisibilityTimeout": 0}
            for number, letter in enumerate(letters)
        ]
        with suppress(ClientError, BotoCoreError):  # then they are there again when they are held no more
            for start in range(0, len(entries), A_BATCH):  # it does not matter which of them are gone
                self.sqs.change_message_visibility_batch(QueueUrl=queue.url, Entries=entries[start : start + A_BATCH])

    # looking ----------------------------------------------------------------------------------------------------------
    def entries(self, letters: Iterable[Letter] = ()) -> list[Entry]:
        """Everything there is, with these letters, newest first."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        objects = [found for page in pages for found in page.get("Contents", ())]
        marked = {found["Key"].removeprefix(REDRIVEN) for found in objects if found["Key"].startswith(REDRIVEN)}
        found = [
            Entry(_utc(one["LastModified"]), one["Key"], one["Size"], one["Key"] in marked)
            for one in objects
            if not one["Key"].startswith(REDRIVEN)
        ]
        return newest_first([*found, *(letter.entry for letter in letters)])

    def told(self, key: str) -> Shown:
        """What a list says of a document: its kind, whose it was, and why; whatever somebody has put there."""
        try:
            document = self.document(key)
            if key.startswith(PARKED):
                return {"kind": "parked", "reader": document["reader"], "reason": document["reason"]}
            context = document["requestContext"]
            whose = context["functionArn"].rpartition(":")[2]
            return {"kind": "given up", "reader": whose, "reason": context["condition"]}
        except (Missing, LookupError, TypeError, ValueError, AttributeError) as error:
            return {"kind": "parked", "reader": "nobody", "reason": f"no document of ours: {type(error).__name__}"}

    def document(self, key: str) -> Any:
        """What lies in the store under that key, what is JSON in it as such. Raises Missing, or ValueError."""
        try:
            body = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] not in ("NoSuchKey", "404"):
                raise
            raise Missing("no such document") from None
        document: Any = json.loads(body)
        if isinstance(document, dict) and isinstance(document.get("payload"), str):
            document["payload"] = json.loads(document["payload"])
        return document

    def show(self, key: str) -> Any:
        """The whole of what lies under a key of the list. Raises Missing, or ValueError."""
        if not key.startswith(DEAD):
            return self.document(key)
        with self.letters() as letters:
            for letter in letters:
                if letter.key == key:
                    return letter.document()
        raise Missing("it is not in the dead-letter queue any more")

    def listed(self, limit: int, *, before: str | None = None, redriven: bool = True) -> tuple[list[Shown], str | None]:
        """A page, newest first, and where the next one begins, if there is one: `before` that."""
        with self.letters() as letters:
            by_key = {letter.key: letter for letter in letters}
            found = [entry for entry in self.entries(letters) if redriven or not entry.redriven]
        if before is not None:
            found = [entry for entry in found if f"{entry.at} {entry.key}" < before]
        shown = [
            {"key": entry.key, "at": entry.at, "bytes": entry.bytes, "redriven": entry.redriven}
            | (by_key[entry.key].told() if entry.key in by_key else self.told(entry.key))
            for entry in found[:limit]
        ]
        return shown, f"{shown[-1]['at']} {shown[-1]['key']}" if len(found) > limit else None

    # redriven ---------------------------------------------------------------------------------------------------------
    def mark(self, key: str, at: str) -> None:
        """Remember that a document was redriven. Nobody's data is in a mark, and the first one stays."""
        body = json.dumps({"redriven_at": at, "by": who()}).encode()
        try:
            self.s3.put_object(Bucket=self.bucket, Key=f"{REDRIVEN}{key}", Body=body, IfNoneMatch="*")
        except ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise

    def send_back(self, url: str, body: str, attributes: Mapping[str, Mapping[str, Any]]) -> None:
        """Put a message into a queue, where it counts as new."""
        told = {
            name: {part: value[part] for part in ("DataType", "StringValue", "BinaryValue") if part in value}
            for name, value in attributes.items()
        }
        self.sqs.send_message(QueueUrl=url, MessageBody=body, **({"MessageAttributes": told} if told else {}))

    def remove(self, letter: Letter) -> None:
        self.sqs.delete_message(QueueUrl=letter.queue.url, ReceiptHandle=letter.message["ReceiptHandle"])


def detail_in(body: str) -> Mapping[str, Any]:
    """The event that a message's body holds; {} where it holds none."""
    try:
        detail = json.loads(body)["detail"]
    except (LookupError, TypeError, ValueError):
        return {}
    return detail if isinstance(detail, dict) else {}


def _name(url: str) -> str:
    """Whose a queue is, where its name says so."""
    name = url.rpartition("/")[2]
    ours = OURS.search(name)
    return ours[1].lower() if ours else name


def _utc(at: datetime) -> str:
    return instant(at.astimezone(UTC))
