"""All there is of one order: what it is, what happened to it, its copies, mails, effects and object in the archive.

Reads only. What the laptop's page shows of an order beside the API's answers comes from here, too.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from functions.archive import restored
from functions.dynamodb.images import Image, Unreadable
from functions.dynamodb.keys import instant, instant_of
from functions.dynamodb.store import Table
from functions.model import derived
from functions.model.entities import ArchivedOrder, Notification, Order
from functions.model.patterns import A12, A12b, A25b
from functions.model.table import BY_TYPE, EFFECT, TIMELINE
from functions.shop.invoices import REACTION as INVOICING
from ops import place
from ops.ends import Missing

SNAPSHOTS_BESIDE = {snapshot.into.type for snapshot in derived.SNAPSHOTS}
MOST_MAILS = 100

Shown = dict[str, Any]


def order_at(table: Table, order_id: str) -> Order | ArchivedOrder:
    """The order, or its stub. Raises Missing, Unreadable."""
    found = table.get(A12, order_id=order_id)
    if found is None:
        raise Missing("no such order")
    return found


# its copies -----------------------------------------------------------------------------------------------------------
def copies(table: Table, order_id: str) -> Shown:
    """Whether each copy of an order is as it must be by now. Raises Missing, Unreadable."""
    order = order_at(table, order_id)
    expected = derived.copies_of(BY_TYPE[type(order).__name__], order)
    there = {_place(image): image for image in table.partition(A12b, order_id=order_id)}
    keys = [{"PK": {"S": pk}, "SK": {"S": sk}} for pk, sk in expected if (pk, sk) not in there]
    there |= {_place(image): image for image in table.images(keys, consistent=True)}
    found = [_compared(place, into, copy, there.get(place)) for place, (into, copy) in expected.items()]
    found += [
        {"type": image["type"]["S"], "PK": place[0], "SK": place[1], "state": "left over", "found": _plain(image)}
        for place, image in there.items()
        if image["type"]["S"] in SNAPSHOTS_BESIDE and place not in expected
    ]
    if isinstance(order, Order):
        found.append(_log(order, there.values()))
    return {
        "in_sync": all(copy["state"] == "in sync" for copy in found),
        "checked_at": instant(datetime.now(UTC)),
        "copies": found,
    }


def _compared(place: tuple[str, str], into: Any, copy: Any, image: Image | None) -> Shown:
    found = into.read(image) if image else None
    state = "missing" if found is None else "behind" if derived.differ(found, copy) else "in sync"
    shown = {"type": into.type, "PK": place[0], "SK": place[1], "state": state}
    return shown | {"expected": asdict(copy), "found": asdict(found) if found else None}


def _log(order: Order, images: Iterable[Image]) -> Shown:
    """The order's log: one entry for each version that one tells of."""
    versions = {int(image["version"]["N"]) for image in images if image["type"]["S"] == TIMELINE.type}
    missing = sorted(set(order.told) - versions)
    shown = {"type": TIMELINE.type, "PK": f"ORDER#{order.order_id}", "SK": "TIMELINE#…"}
    return shown | {
        "state": "missing" if missing else "in sync",
        "expected": {"versions": len(order.told)},
        "found": {"versions": len(versions), "missing": missing},
    }


def _place(image: Image) -> tuple[str, str]:
    return image["PK"]["S"], image["SK"]["S"]


def _plain(image: Mapping[str, Any]) -> Shown:
    """An image for people: each attribute's value without its type, but in collections."""
    return {name: next(iter(value.values())) for name, value in image.items()}


# its archive, its mails -----------------------------------------------------------------------------------------------
def archived(table: Table, s3: Any, bucket: str, order_id: str) -> Shown:
    """Where an order lies in the archive, and what is in there. Raises Missing, Unreadable."""
    stub = order_at(table, order_id)
    if not isinstance(stub, ArchivedOrder):
        raise Missing("the order is not archived")
    return _object(s3, bucket, stub)[0]


def _object(s3: Any, bucket: str, stub: ArchivedOrder) -> tuple[Shown, list[Image]]:
    answer = s3.get_object(Bucket=bucket, Key=stub.object_key)
    body = answer["Body"].read()
    images = restored(body)
    told = {
        "bucket": bucket,
        "key": stub.object_key,
        "bytes": len(body),
        "sha256": stub.sha256,
        "stored_at": instant(answer["LastModified"]),
        "storage_class": answer.get("StorageClass", "STANDARD"),
        "items": dict(sorted(Counter(image["type"]["S"] for image in images).items())),
    }
    return told, images


def notifications(table: Table, order_id: str) -> Sequence[Notification]:
    """What its customer was told of an order, newest first."""
    return table.query(A25b, order_id=order_id, limit=MOST_MAILS).items


# the whole story ------------------------------------------------------------------------------------------------------
TIMES = ("placed_at", "paid_at", "reached_at", "delivered_at", "updated_at", "restored_at")
# fmt: off
COLUMNS: Mapping[str, Sequence[str]] = {
    "TimelineEvent": ("at", "version", "event", "status", "change_id"),
    "Payment":       ("payment_id", "status", "method", "amount", "refunded", "disputes", "reason", "updated_at"),
    "Refund":        ("refund_id", "status", "amount", "why", "attempt", "account_id", "reason", "updated_at"),
    "Shipment":      ("shipment_id", "status", "quantities", "carrier", "tracking_number", "updated_at"),
    "Return":        ("return_id", "quantities", "amount", "owed", "created_at"),
    "Invoice":       ("invoice_id", "total", "currency", "issued_at"),
}
# fmt: on


def story(table: Table, s3: Any, bucket: str, order_id: str) -> Iterator[str]:
    """All of an order, line by line: of one that is archived what its object holds. Raises Missing, Unreadable."""
    order = order_at(table, order_id)
    images = {image["SK"]["S"]: image for image in table.partition(A12b, order_id=order_id)}
    state = "archived, was " if isinstance(order, ArchivedOrder) else ""
    yield f"order {order_id}: {state}{order.status}, version {order.version}, of customer {order.customer_id}"
    told: Shown = {}
    if isinstance(order, ArchivedOrder):
        told, held = _object(s3, bucket, order)
        yield f"  archive: {told['key']} in {bucket}, {told['bytes']:,} bytes, stored {told['stored_at']}"
        yield f"  it holds {', '.join(f'{count} {kind}' for kind, count in told['items'].items())}"
        images = {image["SK"]["S"]: image for image in held} | images
        order = next((BY_TYPE["Order"].read(image) for image in held if image["type"]["S"] == "Order"), order)
    yield from _standing(order, images.values())
    groups: dict[str, list[Any]] = {kind: [] for kind in COLUMNS}
    for image in images.values():
        if image["type"]["S"] in groups:
            groups[image["type"]["S"]].append(BY_TYPE[image["type"]["S"]].read(image))
    groups["TimelineEvent"].sort(key=lambda event: event.version)
    for kind, items in groups.items():
        yield from _group(kind, COLUMNS[kind], [[getattr(item, name) for name in COLUMNS[kind]] for item in items])
    yield from _effects(table, order_id)
    mails = [[one.at, one.event, one.status, one.message_id] for one in notifications(table, order_id)]
    yield from _group("Notification", ("at", "event", "status", "message_id"), mails)
    compared = copies(table, order_id)
    yield from _group("copy", ("type", "SK", "state"), [[c["type"], c["SK"], c["state"]] for c in compared["copies"]])
    if not told:
        yield f"its copies are {'in sync' if compared['in_sync'] else 'not in sync: look again in a moment'}"


def _standing(order: Any, images: Iterable[Image]) -> Iterator[str]:
    times = [f"{name.removesuffix('_at')} {at}" for name in TIMES if (at := getattr(order, name, None))]
    yield "  " + ", ".join(times)
    if isinstance(order, Order):
        money = f"total {order.total}, paid {order.paid}, refunded {order.refunded}, owed {order.owed} {order.currency}"
        yield f"  {money} (minor units)"
        for id, line in order.lines.items():
            counts = {"shipped": line.shipped, "delivered": line.delivered, "returned": line.returned}
            yield f"  {line.quantity} x {id} at {line.price}: {', '.join(f'{n} {what}' for what, n in counts.items())}"
    for image in images:
        if image["type"]["S"] == "Expiry":
            yield f"  ends {instant_of(int(image['ttl']['N']))}, then it is archived"


def _effects(table: Table, order_id: str) -> Iterator[str]:
    """What reactions remember to have done for it, as far as an Effect makes it happen once."""
    found = table.batch_get([EFFECT.key(effect_id=order_id, reaction=INVOICING)])
    yield from _group(
        "Effect", ("created_at", "reaction", "result"), [[e.created_at, e.reaction, e.result] for e in found]
    )


def _group(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield f"{title} ({len(rows)})"
    lines = [list(head), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        yield "  " + "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()


def _text(cell: Any) -> str:
    if isinstance(cell, Mapping):
        return ", ".join(f"{name}: {value}" for name, value in cell.items()) or "-"
    return "-" if cell is None else str(cell)


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: place.Commands) -> None:
    telling = commands.add_parser("order", parents=[place.where(whole=True)], help="all there is of one order, as text")
    telling.add_argument("order_id", metavar="ID", help="its id")
    telling.set_defaults(run=tell)


def tell(given: argparse.Namespace) -> None:
    """Tell all of an order. Exits with 1 where there is none, or it cannot be read."""
    where = place.place_of(given)
    try:
        for line in story(where.table, where.client("s3"), where.outputs["ArchiveBucket"], given.order_id):
            print(line)
    except (Missing, Unreadable) as error:
        sys.exit(f"order {given.order_id}: {error}")
