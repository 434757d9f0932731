"""List and read failed stream records and messages, in the failure store (S3) and in dead-letter queues."""

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

from functions.adapters.object_store import REDRIVEN_PREFIX
from functions.dynamodb.keys import to_instant
from functions.model.lambdas import resource_prefix
from functions.model.reactions import REACTIONS
from ops.cli_errors import RecordNotFound
from ops.scan.checkpoint import current_operator
from ops.targets import ShopTarget

PARKED_PREFIX, DEAD_LETTER_PREFIX = "parked/", "dead/"
VISIBILITY_SECONDS = 120
"""The visibility timeout of received dead letters, in addition to the expected time to process them."""
MAX_VISIBILITY_SECONDS = 12 * 3600
MAX_DEAD_LETTERS = 2000
"""The maximum number of dead letters that a run receives from one queue, so that their timeouts do not end before."""
SQS_BATCH_SIZE = 10
COUNT_ATTRIBUTES = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
REACTION_QUEUE_NAME = re.compile(r"([A-Z][A-Za-z]+)ReactionQueue")
REACTION_NAMES = {resource_prefix(reaction.name): reaction.name for reaction in REACTIONS}

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class FailureEntry:
    """A document in the failure store, or a message in a dead-letter queue. `at`: stored, or first sent."""

    at: str
    key: str
    bytes: int
    redriven: bool = False


@dataclass(frozen=True)
class DeadLetterQueueInfo:
    """A dead-letter queue. `name`: that of the reaction, else of the source queue, else its own.

    `source`: the URL of the queue from which failed messages come, or None. `max_receive_count`: after how many
    receives.
    """

    name: str
    url: str
    source: str | None
    max_receive_count: int


@dataclass(frozen=True)
class DeadLetter:
    """A message that was received from a dead-letter queue."""

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
        """Return the `kind` of failure, the `reader` (the queue) and the `reason` (its number of receives)."""
        reason = (
            f"failed at all {self.queue.max_receive_count} deliveries"
            if self.queue.source
            else "a scheduled run failed or did not start"
        )
        return {"kind": "dead letter", "reader": self.queue.name, "reason": reason}

    def to_document(self) -> JsonObject:
        return {"queue": self.queue.name, "message": self.message, "event": event_detail_in(self.message["Body"])}


def sort_newest_first(entries: Iterable[FailureEntry]) -> list[FailureEntry]:
    return sorted(entries, key=lambda entry: (entry.at, entry.key), reverse=True)


class FailureRepository:
    """The failure store and the dead-letter queues of a shop. Thread-safe, as boto3 clients are.

    `wait_seconds`: of long polling; with 0, SQS may return no message although there are some. `max_dead_letters`: how
    many a run receives from one queue.
    """

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
        """The URL of each queue that is not a dead-letter queue, by its ARN."""
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
        """The ARN and the redrive policy of each queue, by its URL."""

        def fetch(url: str) -> tuple[str, Mapping[str, Any]]:
            found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
            return found["QueueArn"], json.loads(found.get("RedrivePolicy") or "{}")

        return {url: fetch(url) for url in self._urls}

    @contextmanager
    def receive_dead_letters(
        self, queues: Sequence[DeadLetterQueueInfo] | None = None, working_seconds: float = 0
    ) -> Iterator[list[DeadLetter]]:
        """Receive the dead letters of these queues (default: all), hidden from others in the `with` block.

        They stay hidden for VISIBILITY_SECONDS plus `working_seconds`. Those that were not deleted are then released.
        """
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
        """Return the approximate number of dead letters that another run, also a killed one, has received."""
        return sum(self.count_messages(queue.url)[1] for queue in self.dead_letter_queues)

    def count_messages(self, url: str) -> tuple[int, int]:
        """Return how many messages of a queue are waiting, and how many are in flight. Both numbers are approximate."""
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
        # An error is ignored: if a request fails, its messages become visible later, when their timeout ends.
        with suppress(ClientError, BotoCoreError):
            for start in range(0, len(entries), SQS_BATCH_SIZE):
                # The response is not checked, because it reports a failure for each message that is already deleted.
                self.sqs.change_message_visibility_batch(
                    QueueUrl=queue.url, Entries=entries[start : start + SQS_BATCH_SIZE]
                )

    # list and show ----------------------------------------------------------------------------------------------------
    def list_entries(self, letters: Iterable[DeadLetter] = ()) -> list[FailureEntry]:
        """Return all documents in the failure store and the given dead letters as one list, newest first."""
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
        """Return `kind`, `reader` and `reason` of a document; for an unknown one, "unknown" and the error."""
        try:
            document = self.read_document(key)
            if key.startswith(PARKED_PREFIX):
                return {"kind": "parked", "reader": document["reader"], "reason": document["reason"]}
            context = document["requestContext"]
            whose = context["functionArn"].rpartition(":")[2]
            return {"kind": "given up", "reader": whose, "reason": context["condition"]}
        except (RecordNotFound, LookupError, TypeError, ValueError, AttributeError) as error:
            return {"kind": "parked", "reader": "unknown", "reason": f"unknown document format: {type(error).__name__}"}

    def read_document(self, key: str) -> Any:
        """Return a document as parsed JSON, also its `payload`. Raises RecordNotFound, and ValueError without JSON."""
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
        """Return the full content of a document or dead letter. Raises RecordNotFound; ValueError if it is not JSON."""
        if not key.startswith(DEAD_LETTER_PREFIX):
            return self.read_document(key)
        with self.receive_dead_letters() as letters:
            for letter in letters:
                if letter.key == key:
                    return letter.to_document()
        raise RecordNotFound("it is no longer in the dead-letter queue")

    def list_page(
        self, limit: int, *, before: str | None = None, redriven: bool = True
    ) -> tuple[list[JsonObject], str | None]:
        """Return a page of failures, newest first, and the cursor of the next page or None."""
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

    # redrive (process again) ------------------------------------------------------------------------------------------
    def mark_redriven(self, key: str, at: str) -> None:
        """Record that a document was redriven, in a marker object without customer data. An old marker is kept."""
        body = json.dumps({"redriven_at": at, "by": current_operator()}).encode()
        try:
            self.s3.put_object(Bucket=self.bucket, Key=f"{REDRIVEN_PREFIX}{key}", Body=body, IfNoneMatch="*")
        except ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise

    def send_to_queue(self, url: str, body: str, attributes: Mapping[str, Mapping[str, Any]]) -> None:
        """Send a message to a queue as a new message, with the given body and message attributes."""
        told = {
            name: {part: value[part] for part in ("DataType", "StringValue", "BinaryValue") if part in value}
            for name, value in attributes.items()
        }
        self.sqs.send_message(QueueUrl=url, MessageBody=body, **({"MessageAttributes": told} if told else {}))

    def delete_dead_letter(self, letter: DeadLetter) -> None:
        self.sqs.delete_message(QueueUrl=letter.queue.url, ReceiptHandle=letter.message["ReceiptHandle"])


def event_detail_in(body: str) -> Mapping[str, Any]:
    """Return the `detail` of the EventBridge event in a message body; {} if the body has no valid `detail`."""
    try:
        detail = json.loads(body)["detail"]
    except (LookupError, TypeError, ValueError):
        return {}
    return detail if isinstance(detail, dict) else {}


def _queue_label(url: str) -> str:
    """Return the name of the reaction (a queue with its worker) that a queue belongs to, or else the queue's name."""
    name = url.rpartition("/")[2]
    ours = REACTION_QUEUE_NAME.search(name)
    return REACTION_NAMES.get(ours[1], ours[1]) if ours else name


def _utc_instant(at: datetime) -> str:
    return to_instant(at.astimezone(UTC))
