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

from functions.dynamodb.keys import to_instant
from functions.objects import REDRIVEN_PREFIX
from ops.ends import RecordNotFound
from ops.kept import current_operator
from ops.place import ShopTarget

PARKED_PREFIX, DEAD_LETTER_PREFIX = "parked/", "dead/"
VISIBILITY_SECONDS = 120
"""How long a queue's dead letters are in hand, beside the time to work them. Who is killed leaves them to the next one
after that."""
MAX_VISIBILITY_SECONDS = 12 * 3600
MAX_DEAD_LETTERS = 2000
"""How many dead letters of a queue are taken in hand at a time: as many as are sent back while they are."""
SQS_BATCH_SIZE = 10
COUNT_ATTRIBUTES = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
REACTION_QUEUE_NAME = re.compile(r"([A-Z][a-z]+)ReactionQueue")

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class FailureEntry:
    """`at`: when it was put there. `redriven`: whether it was, since."""

    at: str
    key: str
    bytes: int
    redriven: bool = False


@dataclass(frozen=True)
class DeadLetterQueueInfo:
    """A dead-letter queue. `name`: whose messages end there; `source`: their queue, None where none is; `deliveries`:
    after how many a message is a dead letter."""

    name: str
    url: str
    source: str | None
    max_receive_count: int


@dataclass(frozen=True)
class DeadLetter:
    """A message of a dead-letter queue."""

    queue: DeadLetterQueueInfo
    message: Mapping[str, Any]

    @property
    def key(self) -> str:
        return f"{DEAD_LETTER_PREFIX}{self.queue.name}/{self.message['MessageId']}"

    @property
    def entry(self) -> FailureEntry:
        sent_at = int(self.message["Attributes"]["SentTimestamp"]) / 1000
        return FailureEntry(
            to_instant(datetime.fromtimestamp(sent_at, UTC)), self.key, len(self.message["Body"].encode())
        )

    def summary(self) -> JsonObject:
        """Its own count of deliveries goes on with each look at it, so it is none of what happened."""
        reason = (
            f"failed at all {self.queue.max_receive_count} deliveries" if self.queue.source else "a call that never was"
        )
        return {"kind": "dead letter", "reader": self.queue.name, "reason": reason}

    def to_document(self) -> JsonObject:
        return {"queue": self.queue.name, "message": self.message, "event": event_detail_in(self.message["Body"])}


def sort_newest_first(entries: Iterable[FailureEntry]) -> list[FailureEntry]:
    return sorted(entries, key=lambda entry: (entry.at, entry.key), reverse=True)


class FailureRepository:
    """The failure store and the dead-letter queues of a shop. `wait_seconds`: how long to wait for messages of which a
    queue does not say at once that it has them, as SQS may. `most_letters`: how many dead letters of a queue are taken
    in hand at a time. Thread-safe, as clients of boto3 are."""

    max_dead_letters = MAX_DEAD_LETTERS

    def __init__(self, s3: Any, sqs: Any, bucket: str, queue_urls: Sequence[str], *, wait_seconds: int = 0) -> None:
        self.s3, self.sqs, self.bucket = s3, sqs, bucket
        self._urls, self._wait_seconds = queue_urls, wait_seconds

    @classmethod
    def for_target(cls, target: ShopTarget, *, wait_seconds: int = 0) -> FailureRepository:
        bucket, queues = target.outputs["FailuresBucket"], target.resources("AWS::SQS::Queue")
        return cls(target.client("s3"), target.client("sqs"), bucket, queues, wait_seconds=wait_seconds)

    # the queues -------------------------------------------------------------------------------------------------------
    @cached_property
    def source_queue_urls(self) -> Mapping[str, str]:
        """The URL of each queue that is no dead-letter queue, by its ARN."""
        dead = {queue.url for queue in self.dead_letter_queues}
        return {arn: url for url, (arn, _) in self._queue_attributes.items() if url not in dead}

    @cached_property
    def dead_letter_queues(self) -> Sequence[DeadLetterQueueInfo]:
        arns = {arn: url for url, (arn, _) in self._queue_attributes.items()}
        leads = {
            arns[policy["deadLetterTargetArn"]]: (url, int(policy["maxReceiveCount"]))
            for url, (_, policy) in self._queue_attributes.items()
            if policy
        }
        alone = {
            url: (None, 0) for url, (_, policy) in self._queue_attributes.items() if not policy and url not in leads
        }
        return [
            DeadLetterQueueInfo(_queue_label(source or url), url, source, most)
            for url, (source, most) in {**leads, **alone}.items()
        ]

    @cached_property
    def _queue_attributes(self) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
        """Of each queue its ARN, and where its dead letters go, if anywhere."""

        def fetch(url: str) -> tuple[str, Mapping[str, Any]]:
            found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
            return found["QueueArn"], json.loads(found.get("RedrivePolicy") or "{}")

        return {url: fetch(url) for url in self._urls}

    @contextmanager
    def receive_dead_letters(
        self, queues: Sequence[DeadLetterQueueInfo] | None = None, working_seconds: float = 0
    ) -> Iterator[list[DeadLetter]]:
        """The dead letters there are (of these queues), in hand for as long as it takes to work them; those that are
        not deleted meanwhile are there again afterwards."""
        queues = self.dead_letter_queues if queues is None else queues
        received = [
            letter for queue in queues for letter in self._receive_all(queue, int(VISIBILITY_SECONDS + working_seconds))
        ]
        try:
            yield received
        finally:
            for queue in queues:
                self._release(queue, [letter for letter in received if letter.queue is queue])

    def count_in_flight(self) -> int:
        """How many dead letters are in somebody else's hands, about: another redrive's, or one's that was killed."""
        return sum(self.count_messages(queue.url)[1] for queue in self.dead_letter_queues)

    def count_messages(self, url: str) -> tuple[int, int]:
        """How many messages wait in a queue, and how many somebody has in hand, about."""
        found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[*COUNT_ATTRIBUTES]).get("Attributes", {})
        waiting, in_hand = (int(found.get(name, 0)) for name in COUNT_ATTRIBUTES)
        return waiting, in_hand

    def _receive_all(self, queue: DeadLetterQueueInfo, visibility_seconds: int) -> Iterable[DeadLetter]:
        received: dict[str, DeadLetter] = {}
        while len(received) < self.max_dead_letters:
            found = self.sqs.receive_message(
                QueueUrl=queue.url,
                MaxNumberOfMessages=SQS_BATCH_SIZE,
                VisibilityTimeout=min(visibility_seconds, MAX_VISIBILITY_SECONDS),
                WaitTimeSeconds=self._wait_seconds,
                MessageSystemAttributeNames=["SentTimestamp", "ApproximateReceiveCount"],
                MessageAttributeNames=["All"],
            ).get("Messages", [])
            if {message["MessageId"] for message in found} <= received.keys():
                break
            received |= {message["MessageId"]: DeadLetter(queue, message) for message in found}
        return received.values()

    def _release(self, queue: DeadLetterQueueInfo, letters: Sequence[DeadLetter]) -> None:
        entries = [
            {"Id": str(number), "ReceiptHandle": letter.message["ReceiptHandle"], "VisibilityTimeout": 0}
            for number, letter in enumerate(letters)
        ]
        with suppress(ClientError, BotoCoreError):  # then they are there again when they are held no more
            for start in range(0, len(entries), SQS_BATCH_SIZE):  # it does not matter which of them are gone
                self.sqs.change_message_visibility_batch(
                    QueueUrl=queue.url, Entries=entries[start : start + SQS_BATCH_SIZE]
                )

    # looking ----------------------------------------------------------------------------------------------------------
    def list_entries(self, letters: Iterable[DeadLetter] = ()) -> list[FailureEntry]:
        """Everything there is, with these letters, newest first."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        objects = [found for page in pages for found in page.get("Contents", ())]
        marked = {
            found["Key"].removeprefix(REDRIVEN_PREFIX) for found in objects if found["Key"].startswith(REDRIVEN_PREFIX)
        }
        found = [
            FailureEntry(_utc_instant(one["LastModified"]), one["Key"], one["Size"], one["Key"] in marked)
            for one in objects
            if not one["Key"].startswith(REDRIVEN_PREFIX)
        ]
        return sort_newest_first([*found, *(letter.entry for letter in letters)])

    def summarize(self, key: str) -> JsonObject:
        """What a list says of a document: its kind, whose it was, and why; whatever somebody has put there."""
        try:
            document = self.read_document(key)
            if key.startswith(PARKED_PREFIX):
                return {"kind": "parked", "reader": document["reader"], "reason": document["reason"]}
            context = document["requestContext"]
            whose = context["functionArn"].rpartition(":")[2]
            return {"kind": "given up", "reader": whose, "reason": context["condition"]}
        except (RecordNotFound, LookupError, TypeError, ValueError, AttributeError) as error:
            return {"kind": "parked", "reader": "nobody", "reason": f"no document of ours: {type(error).__name__}"}

    def read_document(self, key: str) -> Any:
        """What lies in the store under that key, what is JSON in it as such. Raises Missing, or ValueError."""
        try:
            body = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] not in ("NoSuchKey", "404"):
                raise
            raise RecordNotFound("no such document") from None
        document: Any = json.loads(body)
        if isinstance(document, dict) and isinstance(document.get("payload"), str):
            document["payload"] = json.loads(document["payload"])
        return document

    def read_failure(self, key: str) -> Any:
        """The whole of what lies under a key of the list. Raises Missing, or ValueError."""
        if not key.startswith(DEAD_LETTER_PREFIX):
            return self.read_document(key)
        with self.receive_dead_letters() as letters:
            for letter in letters:
                if letter.key == key:
                    return letter.to_document()
        raise RecordNotFound("it is not in the dead-letter queue any more")

    def list_page(
        self, limit: int, *, before: str | None = None, redriven: bool = True
    ) -> tuple[list[JsonObject], str | None]:
        """A page, newest first, and where the next one begins, if there is one: `before` that."""
        with self.receive_dead_letters() as letters:
            by_key = {letter.key: letter for letter in letters}
            found = [entry for entry in self.list_entries(letters) if redriven or not entry.redriven]
        if before is not None:
            found = [entry for entry in found if f"{entry.at} {entry.key}" < before]
        shown = [
            {"key": entry.key, "at": entry.at, "bytes": entry.bytes, "redriven": entry.redriven}
            | (by_key[entry.key].summary() if entry.key in by_key else self.summarize(entry.key))
            for entry in found[:limit]
        ]
        return shown, f"{shown[-1]['at']} {shown[-1]['key']}" if len(found) > limit else None

    # redriven ---------------------------------------------------------------------------------------------------------
    def mark_redriven(self, key: str, at: str) -> None:
        """Remember that a document was redriven. Nobody's data is in a mark, and the first one stays."""
        body = json.dumps({"redriven_at": at, "by": current_operator()}).encode()
        try:
            self.s3.put_object(Bucket=self.bucket, Key=f"{REDRIVEN_PREFIX}{key}", Body=body, IfNoneMatch="*")
        except ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise

    def send_to_queue(self, url: str, body: str, attributes: Mapping[str, Mapping[str, Any]]) -> None:
        """Put a message into a queue, where it counts as new."""
        told = {
            name: {part: value[part] for part in ("DataType", "StringValue", "BinaryValue") if part in value}
            for name, value in attributes.items()
        }
        self.sqs.send_message(QueueUrl=url, MessageBody=body, **({"MessageAttributes": told} if told else {}))

    def delete_dead_letter(self, letter: DeadLetter) -> None:
        self.sqs.delete_message(QueueUrl=letter.queue.url, ReceiptHandle=letter.message["ReceiptHandle"])


def event_detail_in(body: str) -> Mapping[str, Any]:
    """The event that a message's body holds; {} where it holds none."""
    try:
        detail = json.loads(body)["detail"]
    except (LookupError, TypeError, ValueError):
        return {}
    return detail if isinstance(detail, dict) else {}


def _queue_label(url: str) -> str:
    """Whose a queue is, where its name says so."""
    name = url.rpartition("/")[2]
    ours = REACTION_QUEUE_NAME.search(name)
    return ours[1].lower() if ours else name


def _utc_instant(at: datetime) -> str:
    return to_instant(at.astimezone(UTC))
