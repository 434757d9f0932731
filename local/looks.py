"""What the page shows beside what the API answers: an order's copies, mails and archive, and what was put aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import boto3

from functions.archive import restored
from functions.dynamodb.images import Image, Unreadable
from functions.dynamodb.store import Table
from functions.model import derived
from functions.model.entities import ArchivedOrder, Order
from functions.model.patterns import A12, A12b, A25b
from functions.model.table import BY_TYPE, TIMELINE
from local.aws import Mail
from local.running import Running
from local.server import Gone
from ops import place
from ops.failures import Failures, Missing, redrive
from ops.recover import publisher

SNAPSHOTS_BESIDE = {snapshot.into.type for snapshot in derived.SNAPSHOTS}

Shown = dict[str, Any]


class Looks:
    """Reads the table, the buckets and the mails of the running shop. Thread-safe, as clients of boto3 are."""

    def __init__(self, running: Running) -> None:
        self._running, self._place = running, place.here(running)
        self._table = Table(running.engine.dynamodb(), running.table_name, BY_TYPE)
        self._s3 = boto3.client("s3", **running.aws.access)
        self._failures = Failures.of(self._place)
        self._archive = running.stack.outputs["ArchiveBucket"]

    # an order ---------------------------------------------------------------------------------------------------------
    def copies(self, order_id: str) -> Shown:
        """Whether each copy of an order is as it must be by now. Raises Gone."""
        order = self._order(order_id)
        expected = derived.copies_of(BY_TYPE[type(order).__name__], order)
        there = {_place(image): image for image in self._table.partition(A12b, order_id=order_id)}
        keys = [{"PK": {"S": pk}, "SK": {"S": sk}} for pk, sk in expected if (pk, sk) not in there]
        there |= {_place(image): image for image in self._images(keys)}
        copies = [self._compared(place, into, copy, there.get(place)) for place, (into, copy) in expected.items()]
        copies += [
            {"type": image["type"]["S"], "PK": place[0], "SK": place[1], "state": "left over", "found": _plain(image)}
            for place, image in there.items()
            if image["type"]["S"] in SNAPSHOTS_BESIDE and place not in expected
        ]
        if isinstance(order, Order):
            copies.append(_timeline(order, there.values()))
        return {
            "in_sync": all(copy["state"] == "in sync" for copy in copies),
            "checked_at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "copies": copies,
        }

    def _compared(self, place: tuple[str, str], into: Any, copy: Any, image: Image | None) -> Shown:
        found = into.read(image) if image else None
        state = "missing" if found is None else "behind" if derived.differ(found, copy) else "in sync"
        shown = {"type": into.type, "PK": place[0], "SK": place[1], "state": state}
        return shown | {"expected": asdict(copy), "found": asdict(found) if found else None}

    def archived(self, order_id: str) -> Shown:
        """Where an order lies in the archive, and what is in there. Raises Gone."""
        stub = self._order(order_id)
        if not isinstance(stub, ArchivedOrder):
            raise Gone("the order is not archived")
        answer = self._s3.get_object(Bucket=self._archive, Key=stub.object_key)
        body = answer["Body"].read()
        return {
            "bucket": self._archive,
            "key": stub.object_key,
            "bytes": len(body),
            "sha256": stub.sha256,
            "stored_at": _utc(answer["LastModified"]),
            "storage_class": answer.get("StorageClass", "STANDARD"),
            "items": dict(sorted(Counter(image["type"]["S"] for image in restored(body)).items())),
        }

    def mails(self, order_id: str) -> Shown:
        """The mails that were sent for an order, newest first."""
        self._running.aws.collect_mails()
        page = self._table.query(A25b, order_id=order_id, limit=100)
        found = [self._running.aws.mail(told.message_id) for told in page.items if told.message_id]
        return {"items": [_mail(mail) for mail in found if mail]}

    def mail_as_it_looks(self, message_id: str) -> str:
        """A mail's HTML. Raises Gone."""
        mail = self._running.aws.mail(message_id)
        if mail is None:
            raise Gone("no such mail")
        return str(mail["BodyHtml"])

    def _order(self, order_id: str) -> Order | ArchivedOrder:
        try:
            found = self._table.get(A12, order_id=order_id)
        except Unreadable as error:
            raise Gone(f"it cannot be read: {error}") from None
        if found is None:
            raise Gone("no such order")
        return found

    def _images(self, keys: list[Shown]) -> list[Image]:
        if not keys:
            return []
        request: Any = {self._table.name: {"Keys": keys, "ConsistentRead": True}}
        return list(self._table.client.batch_get_item(RequestItems=request)["Responses"][self._table.name])

    # what was put aside -----------------------------------------------------------------------------------------------
    def failures(self, limit: int, after: str | None) -> Shown:
        """A page of what was parked, given up or left for dead, newest first. `cursor`: its last one's time and key."""
        items, cursor = self._failures.listed(limit, before=after)
        return {"items": items, "cursor": cursor}

    def failure(self, key: str) -> Any:
        """What was put aside under that key, as a document. Raises Gone."""
        try:
            return self._failures.show(key)
        except (Missing, ValueError) as error:
            raise Gone(str(error)) from None

    def redrive(self, key: str) -> Shown:
        """Have it worked again: whether it was, and else why not. Raises Gone."""
        publish = publisher(self._place.shop, self._place.client("events"), self._place.bus)
        found = redrive(self._failures, self._place.shop, publish, lambda entry: entry.key == key)
        left = {**found.refused, **found.stumbled}
        if key not in {*found.done, *left}:
            raise Gone("it is not there any more")
        return {"redriven": key in found.done, "why": left.get(key)}


def _timeline(order: Order, images: Any) -> Shown:
    """The order's log: one entry for each version."""
    versions = {int(image["version"]["N"]) for image in images if image["type"]["S"] == TIMELINE.type}
    missing = sorted(set(range(1, order.version + 1)) - versions)
    shown = {"type": TIMELINE.type, "PK": f"ORDER#{order.order_id}", "SK": "TIMELINE#…"}
    return shown | {
        "state": "missing" if missing else "in sync",
        "expected": {"versions": order.version},
        "found": {"versions": len(versions), "missing": missing},
    }


def _place(image: Image) -> tuple[str, str]:
    return image["PK"]["S"], image["SK"]["S"]


def _plain(image: Mapping[str, Any]) -> Shown:
    """An image for people: each attribute's value without its type, but in collections."""
    return {name: next(iter(value.values())) for name, value in image.items()}


def _mail(mail: Mail) -> Shown:
    at = _utc(datetime.fromtimestamp(mail["Timestamp"], UTC))
    to = ", ".join(mail["To"])
    return {"id": mail["MessageId"], "at": at, "to": to, "subject": mail["Subject"], "text": mail["BodyText"]}


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
