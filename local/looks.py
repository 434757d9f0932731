"""What the page shows beside what the API answers: an order's copies, mails and archive, and what was put aside."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import boto3
from botocore.exceptions import ClientError

from functions.dynamodb.images import Unreadable
from functions.dynamodb.store import Table
from functions.model.table import BY_TYPE
from functions.shop.shop import Shop
from local.aws import Mail
from local.queues import Queue, Queues, event_in
from local.running import Running
from local.server import Gone, Wrong
from ops import order
from ops.restore import HERE_SETTLES, Back, StaysArchived, archive_of, restore

DEAD = "dead"
MOST_ENTRIES = 1000

Shown = dict[str, Any]


class Looks:
    """Reads the table, the buckets and the mails of the running shop. Thread-safe, as clients of boto3 are."""

    def __init__(self, running: Running, queues: Queues) -> None:
        self._running, self._queues = running, queues
        self._table = Table(running.engine.dynamodb(), running.table_name, BY_TYPE)
        self._s3 = boto3.client("s3", **running.aws.access)
        self._failures = running.stack.outputs["FailuresBucket"]
        self._archive = running.stack.outputs["ArchiveBucket"]

    # an order ---------------------------------------------------------------------------------------------------------
    def copies(self, order_id: str) -> Shown:
        """Whether each copy of an order is as it must be by now. Raises Gone."""
        return self._told(lambda: order.copies(self._table, order_id))

    def archived(self, order_id: str) -> Shown:
        """Where an order lies in the archive, and what is in there. Raises Gone."""
        return self._told(lambda: order.archived(self._table, self._s3, self._archive, order_id))

    def restore(self, order_id: str) -> Shown:
        """Bring an archived order back, as an operator does. Raises Gone where there is none, Wrong where it stays."""
        shop = Shop(table=self._table, new_id=lambda: uuid.uuid4().hex)
        try:
            outcome = restore(shop, archive_of(self._s3, self._archive), order_id, settles=HERE_SETTLES)
        except StaysArchived as error:
            raise Wrong("order", f"stays archived: {error}") from None
        if outcome == "no such order":
            raise Gone(outcome)
        return {"ends_at": outcome.ends_at if isinstance(outcome, Back) else None}

    def mails(self, order_id: str) -> Shown:
        """The mails that were sent for an order, newest first."""
        self._running.aws.collect_mails()
        told = order.notifications(self._table, order_id)
        found = [self._running.aws.mail(one.message_id) for one in told if one.message_id]
        return {"items": [_mail(mail) for mail in found if mail]}

    def mail_as_it_looks(self, message_id: str) -> str:
        """A mail's HTML. Raises Gone."""
        mail = self._running.aws.mail(message_id)
        if mail is None:
            raise Gone("no such mail")
        return str(mail["BodyHtml"])

    def _told(self, tell: Callable[[], Shown]) -> Shown:
        try:
            return tell()
        except Unreadable as error:
            raise Gone(f"it cannot be read: {error}") from None
        except order.Missing as error:
            raise Gone(str(error)) from None

    # what was put aside -----------------------------------------------------------------------------------------------
    def failures(self, limit: int, after: str | None) -> Shown:
        """A page of what was parked, given up or left for dead, newest first. `cursor`: its last one's time and key."""
        objects = [
            (_utc(entry["LastModified"]), entry["Key"], entry["Size"])
            for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._failures)
            for entry in page.get("Contents", [])
        ]
        letters = {_key_of(queue, message): (queue, message) for queue, message in self._queues.dead_letters()}
        dead = [(_utc(_sent_at(message)), key, len(message["Body"])) for key, (_, message) in letters.items()]
        found = sorted([*objects, *dead], reverse=True)
        if after is not None:
            found = [entry for entry in found if f"{entry[0]} {entry[1]}" < after]
        shown = [
            {"key": key, "at": at, "bytes": size}
            | (_dead_letter(letters[key][0]) if key in letters else self._aside(key))
            for at, key, size in found[:limit]
        ]
        more = len(found) > limit
        return {"items": shown, "cursor": f"{shown[-1]['at']} {shown[-1]['key']}" if more else None}

    def _aside(self, key: str) -> Shown:
        """What a list says of a document, whatever somebody has put there."""
        try:
            return _put_aside(key, self.failure(key))
        except (Gone, LookupError, TypeError, ValueError) as error:
            return {"kind": "parked", "reader": "nobody", "reason": f"no document of ours: {type(error).__name__}"}

    def failure(self, key: str) -> Any:
        """What was put aside under that key, as a document. Raises Gone."""
        if key.startswith(f"{DEAD}/"):
            for queue, message in self._queues.dead_letters():
                if key == _key_of(queue, message):
                    return {"queue": queue.name, "message": message, "event": event_in(message)}
            raise Gone("it is not in the dead-letter queue any more")
        try:
            body = self._s3.get_object(Bucket=self._failures, Key=key)["Body"].read()
        except ClientError:
            raise Gone("no such document") from None
        document: Any = json.loads(body)
        if isinstance(document, dict) and isinstance(document.get("payload"), str):
            document["payload"] = json.loads(document["payload"])
        return document


def _key_of(queue: Queue, message: Mapping[str, Any]) -> str:
    return f"{DEAD}/{queue.name}/{message['MessageId']}"


def _dead_letter(queue: Queue) -> Shown:
    """What a list says of it. The message's own count goes on with each look at it, so it is none of what happened."""
    return {"kind": "dead letter", "reader": queue.name, "reason": f"failed at all {queue.deliveries} deliveries"}


def _put_aside(key: str, document: Any) -> Shown:
    """What a list says of a document: which kind it is, whose it was, and why."""
    if key.startswith("parked/"):
        return {"kind": "parked", "reader": document["reader"], "reason": document["reason"]}
    context = document["requestContext"]
    return {"kind": "given up", "reader": context["functionArn"].rpartition(":")[2], "reason": context["condition"]}


def _mail(mail: Mail) -> Shown:
    at = _utc(datetime.fromtimestamp(mail["Timestamp"], UTC))
    to = ", ".join(mail["To"])
    return {"id": mail["MessageId"], "at": at, "to": to, "subject": mail["Subject"], "text": mail["BodyText"]}


def _sent_at(message: Mapping[str, Any]) -> datetime:
    return datetime.fromtimestamp(int(message["Attributes"]["SentTimestamp"]) / 1000, UTC)


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
