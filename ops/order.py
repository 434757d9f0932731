"""All there is of one order: what it is, what happened to it, its copies, mails, effects and object in the archive.

Reads only. What the laptop's page shows of an order beside the API's answers comes from here, too.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from functions.archive import restored
from functions.dynamodb.images import Image, Unreadable
from functions.dynamodb.keys import instant, instant_of
from functions.dynamodb.store import Table
from functions.dynamodb.streams import Permanent
from functions.model import derived
from functions.model.entities import ArchivedOrder, Notification, Order
from functions.model.patterns import A12, A12b, A25b
from functions.model.table import ACTIVITY, BY_TYPE, TIMELINE
from functions.shop.shop import Shop
from ops import place
from ops.ends import Missing
from ops.estates import faults_of, read
from ops.items import Place, fields_of, place_of, there
from ops.plain import item_of
from ops.story import effects_of, known
from ops.story import story as whole

LOGS = (TIMELINE, ACTIVITY)
MOST_MAILS = 100

Shown = dict[str, Any]


def order_at(table: Table, order_id: str) -> Order | ArchivedOrder:
    """The order, or its stub. Raises Missing, Unreadable."""
    found = table.get(A12, order_id=order_id)
    if found is None:
        raise Missing("no such order")
    return found


# its copies -----------------------------------------------------------------------------------------------------------
STATES = {"missing": "missing", "wrong": "behind", "orphaned": "left over", "foreign": "left over", "name": "behind"}
"""What is said of a copy, by the last word of what is wrong with it."""


def copies(shop: Shop, order_id: str) -> Shown:
    """Whether each copy of an order is as it must be by now, as a look for drift judges it. Raises Missing, Unreadable,
    Permanent."""
    order = order_at(shop.table, order_id)
    images = shop.table.partition(A12b, order_id=order_id)
    faults = {fault.place: fault for fault in faults_of(shop, order_id, images)}
    expected = derived.copies_of(BY_TYPE[type(order).__name__], order)
    lie = {place_of(image): image for image in images}
    lie |= there(shop, [at for at in expected if at not in lie])
    states = {at: STATES[fault.kind.rpartition(" ")[2]] for at, fault in faults.items()}
    found = [_copy(at, states.get(at, "in sync"), lie.get(at), copy) for at, (_, copy) in expected.items()]
    beside = [at for at in states if at not in expected and not any(fields_of(log, at) for log in LOGS)]
    found += [_copy(at, states[at], faults[at].found) for at in beside]
    if isinstance(order, Order):
        found.append(_log(order, images, {at for at in states if at not in expected and at not in beside}))
    return {
        "in_sync": all(copy["state"] == "in sync" for copy in found),
        "checked_at": shop.instant(),
        "copies": found,
    }


def _copy(at: Place, state: str, image: Image | None, expected: Any = None) -> Shown:
    kind = type(expected).__name__ if expected else str((image or {}).get("type", {}).get("S", ""))
    shown: Shown = {"type": kind, "PK": at[0], "SK": at[1], "state": state}
    return shown | {"expected": asdict(expected) if expected else None, "found": _read(image) if image else None}


def _read(image: Image) -> Shown:
    """An image as its class has it, or as it lies there where that cannot be."""
    try:
        return asdict(read(image)[1])
    except Unreadable:
        return item_of(image)


def _log(order: Order, images: Iterable[Image], wrong: Collection[Place]) -> Shown:
    """The order's logs: one entry for each version that one tells of."""
    versions = {int(image["version"]["N"]) for image in images if image["type"]["S"] == TIMELINE.type}
    missing = sorted(set(order.told) - versions)
    shown = {"type": TIMELINE.type, "PK": f"ORDER#{order.order_id}", "SK": "TIMELINE#…"}
    return shown | {
        "state": "missing" if missing else "behind" if wrong else "in sync",
        "expected": {"versions": len(order.told)},
        "found": {"versions": len(versions), "missing": missing},
    }


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
    "Effect":        ("created_at", "reaction", "result"),
    "Notification":  ("at", "event", "status", "message_id"),
}
# fmt: on


TOLD = ("at", "kind", "text")


def story(where: place.Place, order_id: str) -> Iterator[str]:
    """All of an order, line by line: of one that is archived what its object holds. Raises Missing, Unreadable,
    Permanent."""
    table = where.table
    stub = order = order_at(table, order_id)
    images = {image["SK"]["S"]: image for image in table.partition(A12b, order_id=order_id)}
    state = "archived, was " if isinstance(order, ArchivedOrder) else ""
    yield f"order {order_id}: {state}{order.status}, version {order.version}, of customer {order.customer_id}"
    told: Shown = {}
    if isinstance(order, ArchivedOrder):
        told, held = _object(where.client("s3"), where.outputs["ArchiveBucket"], order)
        yield f"  archive: {told['key']} in {told['bucket']}, {told['bytes']:,} bytes, stored {told['stored_at']}"
        yield f"  it holds {', '.join(f'{count} {kind}' for kind, count in told['items'].items())}"
        images = {image["SK"]["S"]: image for image in held} | images
        order = next((BY_TYPE["Order"].read(image) for image in held if image["type"]["S"] == "Order"), order)
    yield from _standing(order, images.values())
    groups: dict[str, list[Any]] = {kind: [] for kind in COLUMNS}
    for image in images.values():
        if image["type"]["S"] in groups:
            groups[image["type"]["S"]].append(BY_TYPE[image["type"]["S"]].read(image))
    groups["TimelineEvent"].sort(key=lambda event: event.version)
    mails = notifications(table, order_id)
    effects = effects_of(table, order)
    groups |= {"Effect": effects, "Notification": [*mails]}
    for kind, items in groups.items():
        yield from _group(kind, COLUMNS[kind], [[getattr(item, name) for name in COLUMNS[kind]] for item in items])
    items = [item for kind in groups if kind not in ("Effect", "Notification") for item in groups[kind]]
    entries = whole(where.seen(order_id), known(stub, items, mails, effects))
    yield from _group("story", TOLD, [[one[name] for name in TOLD] for one in entries])
    compared = copies(where.shop, order_id)
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
        for line in story(where, given.order_id):
            print(line)
    except (Missing, Permanent, Unreadable) as error:
        sys.exit(f"order {given.order_id}: {error}")
