"""The `order` command: show the timeline of one order, and with `--all` its items, copies, mails and archive object.

The command writes nothing. The web page of the local shop also uses this module, for data that the API does not return.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from functions.adapters import mail_suppression
from functions.dynamodb.codec import Image
from functions.dynamodb.errors import Unreadable
from functions.dynamodb.keys import Instant, instant_from_epoch, to_instant
from functions.dynamodb.table import Table
from functions.handlers.archive_worker import parse_archive
from functions.model import copies
from functions.model.entities import ArchivedOrder, Customer, Notification, Order, order_number
from functions.model.money import format_amount
from functions.model.patterns import ORDER_BY_ID, ORDER_ITEM_COLLECTION, ORDERS_BY_NUMBER
from functions.model.table import ACTIVITY, ROWS_BY_TYPE
from functions.model.timelines import merge_timeline
from functions.shop.diagnosis import Finding, Match, diagnose
from functions.shop.order_notifications import query_notifications_of_order
from functions.shop.shop import ShopContext
from ops import targets
from ops.cli_errors import RecordNotFound
from ops.failures.failure_store import FailureRepository
from ops.item_codec import decode_item
from ops.item_keys import ItemKey, item_key, load_existing, match_key
from ops.repair.copy_checks import Discrepancy, find_order_discrepancies, read_source
from ops.targets import ShopTarget
from ops.terminal_text import align_columns, colored
from ops.timeline import build_timeline, list_effects

MAX_NOTIFICATIONS = 100
MAX_FAILURES = 200

JsonObject = dict[str, Any]


def get_order(table: Table, order_id: str) -> Order | ArchivedOrder:
    """Return the order, or the ArchivedOrder that replaces it. Raises RecordNotFound, Unreadable."""
    found = table.get(ORDER_BY_ID, order_id=order_id)
    if found is None:
        raise RecordNotFound("no such order")
    return found


def find_order_id(table: Table, text: str) -> str:
    """Return the id of the order with this id or number, in any case. Raises RecordNotFound for none or several."""
    if table.get(ORDER_BY_ID, order_id=text.lower()):
        return text.lower()
    found = table.query(ORDERS_BY_NUMBER, number=order_number(text)).items
    ids = sorted({one.order_id for one in found if one.order_id.startswith(text.lower())})
    if len(ids) > 1:
        raise RecordNotFound(f"several orders have this number, give the id: {', '.join(ids)}")
    if not ids:
        raise RecordNotFound("no such order")
    return ids[0]


# copies ---------------------------------------------------------------------------------------------------------------
COPY_STATES = {
    "missing": "missing",
    "wrong": "behind",
    "orphaned": "left over",
    "foreign": "left over",
    "name": "behind",
}
"""The state that is printed for a wrong copy, by the last word of `Discrepancy.kind`."""


def compare_copies(shop: ShopContext, order_id: str) -> JsonObject:
    """Return the state of each copy, by the rules of `drift`. Raises RecordNotFound, Unreadable, Permanent."""
    order = get_order(shop.table, order_id)
    images = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order_id)
    faults = {fault.key: fault for fault in find_order_discrepancies(shop, order_id, images)}
    expected = copies.copies_of(ROWS_BY_TYPE[type(order).__name__], order)
    existing = {item_key(image): image for image in images}
    existing |= load_existing(shop, [at for at in expected if at not in existing])
    states = {at: COPY_STATES[fault.kind.rpartition(" ")[2]] for at, fault in faults.items()}
    found = [
        _describe_copy(at, states.get(at, "in sync"), existing.get(at), copy) for at, (_, copy) in expected.items()
    ]
    unexpected = [at for at in states if at not in expected]
    found += [_describe_copy(at, states[at], faults[at].actual) for at in unexpected if not match_key(ACTIVITY, at)]
    if isinstance(order, Order):
        found.append(_describe_log(order, [faults[at] for at in unexpected if match_key(ACTIVITY, at)]))
    return {
        "in_sync": all(copy["state"] == "in sync" for copy in found),
        "checked_at": shop.now_instant(),
        "copies": found,
    }


def _describe_copy(target: ItemKey, state: str, image: Image | None, expected: Any = None) -> JsonObject:
    kind = type(expected).__name__ if expected else str((image or {}).get("type", {}).get("S", ""))
    shown: JsonObject = {"type": kind, "PK": target[0], "SK": target[1], "state": state}
    return shown | {"expected": asdict(expected) if expected else None, "found": _read_or_raw(image) if image else None}


def _read_or_raw(image: Image) -> JsonObject:
    """Decode a stored item and return its fields. If the item cannot be decoded, return its plain attribute values."""
    try:
        return asdict(read_source(image)[1])
    except Unreadable:
        return decode_item(image)


def _describe_log(order: Order, wrong: Sequence[Discrepancy]) -> JsonObject:
    """Return the state of the order's entries in the customer's activity log. `wrong`: missing and wrong entries."""
    missing = [fault.key[1] for fault in wrong if fault.actual is None]
    return {
        "type": ACTIVITY.type,
        "PK": f"CUSTOMER#{order.customer_id}",
        "SK": "ACTIVITY#…",
        "state": "missing" if missing else "behind" if wrong else "in sync",
        "expected": {"versions": len(order.logged_versions)},
        "found": {"missing": missing},
    }


# archive and mails ----------------------------------------------------------------------------------------------------
def describe_archived(table: Table, s3: Any, bucket: str, order_id: str) -> JsonObject:
    """Return the S3 object of an archived order, with its contents. Raises RecordNotFound, Unreadable."""
    stub = get_order(table, order_id)
    if not isinstance(stub, ArchivedOrder):
        raise RecordNotFound("the order is not archived")
    return _read_archive_object(s3, bucket, stub)[0]


def _read_archive_object(s3: Any, bucket: str, stub: ArchivedOrder) -> tuple[JsonObject, list[Image]]:
    answer = s3.get_object(Bucket=bucket, Key=stub.object_key)
    body = answer["Body"].read()
    images = parse_archive(body)
    summary = {
        "bucket": bucket,
        "key": stub.object_key,
        "bytes": len(body),
        "sha256": stub.sha256,
        "stored_at": to_instant(answer["LastModified"]),
        "storage_class": answer.get("StorageClass", "STANDARD"),
        "items": dict(sorted(Counter(image["type"]["S"] for image in images).items())),
    }
    return summary, images


def list_notifications(table: Table, order: Order | ArchivedOrder) -> Sequence[Notification]:
    """Return at most MAX_NOTIFICATIONS notifications (mails to the customer) about an order, newest first."""
    found: list[Notification] = []
    after: str | None = None
    while True:
        page = query_notifications_of_order(table, order, MAX_NOTIFICATIONS - len(found), after)
        found += page.items
        if page.after is None or len(found) == MAX_NOTIFICATIONS:
            return found
        after = page.after


# show the whole order -------------------------------------------------------------------------------------------------
TIME_FIELDS = ("placed_at", "paid_at", "delivered_at", "updated_at", "restored_at")
# fmt: off
COLUMNS: Mapping[str, Sequence[str]] = {
    "OrderEvent":    ("at", "version", "event", "status"),
    "Payment":       ("payment_id", "status", "method", "amount", "refunded", "disputes", "reason", "updated_at"),
    "KeptEvent":     ("kind", "object_id", "payment_id", "status", "amount", "reason", "updated_at"),
    "Refund":        ("refund_id", "status", "amount", "why", "attempt", "account_id", "reason", "updated_at"),
    "Shipment":      ("shipment_id", "status", "quantities", "carrier", "tracking_number", "updated_at"),
    "Return":        ("return_id", "quantities", "amount", "owed", "created_at"),
    "Invoice":       ("invoice_id", "total", "issued_at"),
    "ReactionProgress":        ("created_at", "reaction", "result"),
    "Notification":  ("at", "event", "status", "message_id"),
}
# fmt: on
MONEY_COLUMNS = {"amount", "refunded", "owed", "total"}


FINDING_COLUMNS = ("name", "since", "next try", "what", "what to do")


def describe_order(target: ShopTarget, order_id: str, *, with_records: bool = False) -> Iterator[str]:
    """Yield lines about an order: its goods, its timeline, what it waits for, and whether copies are in sync.

    `with_records`: also its items (of the S3 object, if archived) and copies. Raises RecordNotFound, Unreadable,
    Permanent.
    """
    table = target.table
    stub = order = get_order(table, order_id)
    images = {image["SK"]["S"]: image for image in table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order_id)}
    state = "archived, was " if isinstance(order, ArchivedOrder) else ""
    head = f"order {order_id}: {state}{order.status}, version {order.version}, of customer {order.customer_id}"
    yield colored(head, "bold")
    archive_summary: JsonObject = {}
    if isinstance(order, ArchivedOrder):
        archive_summary, archived_images = _read_archive_object(
            target.client("s3"), target.outputs["ArchiveBucket"], order
        )
        size, stored_at = archive_summary["bytes"], archive_summary["stored_at"]
        yield f"  archive: {archive_summary['key']} in {archive_summary['bucket']}, {size:,} bytes, stored {stored_at}"
        yield f"  it contains {', '.join(f'{count} {kind}' for kind, count in archive_summary['items'].items())}"
        images = {image["SK"]["S"]: image for image in archived_images} | images
        order = next(
            (ROWS_BY_TYPE["Order"].decode(image) for image in archived_images if image["type"]["S"] == "Order"), order
        )
    yield from _format_order(order, images.values())
    groups: dict[str, list[Any]] = {kind: [] for kind in COLUMNS}
    for image in images.values():
        if image["type"]["S"] in groups:
            groups[image["type"]["S"]].append(ROWS_BY_TYPE[image["type"]["S"]].decode(image))
    owned = [order, *(ROWS_BY_TYPE[image["type"]["S"]].decode(image) for image in images.values())]
    groups["OrderEvent"] = merge_timeline(owned)
    mails = list_notifications(table, stub)
    effects = list_effects(table, order)
    groups |= {"ReactionProgress": effects, "Notification": [*mails]}
    story = [[_format_time(at), text] for at, text in build_timeline(stub, owned, mails, effects)]
    yield from _format_table("timeline", ("time (UTC)", "what"), story)
    diagnosis = diagnose(target.shop, order_id, lambda customer: find_outside_table(target, order_id, customer))
    yield from _format_table("cause", FINDING_COLUMNS, [*map(_format_finding, diagnosis.causes)])
    yield from _format_table("next step", FINDING_COLUMNS, [_format_finding(diagnosis.next_step)])
    compared = compare_copies(target.shop, order_id)
    if with_records:
        for kind, items in groups.items():
            rows = [[_read_field(item, name) for name in COLUMNS[kind]] for item in items]
            yield from _format_table(kind, COLUMNS[kind], rows)
        copied = [[copy["type"], copy["SK"], copy["state"]] for copy in compared["copies"]]
        yield from _format_table("copy", ("type", "SK", "state"), copied)
    else:
        yield ""
        yield f"To see its records, too: {target.ops_command(f'order {order_id} --all')}"
    if not archive_summary:
        yield (
            colored("its copies are in sync", "green")
            if compared["in_sync"]
            else colored("its copies are not in sync: run the command again in a moment", "yellow")
        )


def find_outside_table(target: ShopTarget, order_id: str, customer: Customer | None) -> dict[str, list[Match]]:
    """Return what the table does not show: the newest failures about the order, and a suppressed address."""
    found: dict[str, list[Match]] = {"record_parked": [], "dead_letter": [], "address_suppressed": []}
    failures = FailureRepository.for_target(target, wait_seconds=int("--stack" in target.options))
    with failures.receive_dead_letters() as letters:
        by_key = {letter.key: letter for letter in letters}
        entries = [entry for entry in failures.list_entries(letters) if not entry.redriven][:MAX_FAILURES]
        for entry in entries:
            letter = by_key.get(entry.key)
            with suppress(RecordNotFound, ValueError):  # it was redriven meanwhile, or is no JSON
                if order_id in json.dumps(letter.to_document() if letter else failures.read_document(entry.key)):
                    summary = letter.summary() if letter else failures.summarize(entry.key)
                    match = Match(Instant(entry.at), entry.key, reason=f"{summary['reader']}: {summary['reason']}")
                    found["dead_letter" if letter else "record_parked"].append(match)
    if customer and (suppression := mail_suppression.get_suppression(customer.email, target.client("sesv2"))):
        found["address_suppressed"].append(Match(suppression.since, reason=suppression.reason))
    return found


def _format_finding(found: Finding) -> list[Any]:
    about = " ".join(filter(None, (found.text, found.subject, found.reason and f"({found.reason})")))
    return [found.name, found.since, found.next_at, about, found.advice]


def _format_order(order: Any, images: Iterable[Image]) -> Iterator[str]:
    times = [f"{name.removesuffix('_at')} {at}" for name in TIME_FIELDS if (at := getattr(order, name, None))]
    yield "  " + ", ".join(times)
    if isinstance(order, Order):
        amounts = ("total", "paid", "refunded", "owed", *(("over_refunded",) if order.over_refunded else ()))
        yield "  " + ", ".join(f"{name} {format_amount(getattr(order, name), order.currency)}" for name in amounts)
        for id, line in order.lines.items():
            counts = {"shipped": line.shipped, "delivered": line.delivered, "returned": line.returned}
            price = format_amount(line.price, order.currency)
            yield f"  {line.quantity} x {id} at {price}: {', '.join(f'{n} {what}' for what, n in counts.items())}"
    for image in images:
        if image["type"]["S"] == "ExpiryMarker":
            yield f"  expires {instant_from_epoch(int(image['ttl']['N']))}, then it is archived"


def _format_table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield colored(f"{title} ({len(rows)})", "bold")
    yield from align_columns(head, ([_format_cell(cell) for cell in row] for row in rows))


def _read_field(item: Any, name: str) -> Any:
    """Return the value of a field. An amount of money becomes text, such as 12.50 EUR."""
    value = getattr(item, name)
    return format_amount(value, item.currency) if name in MONEY_COLUMNS and value is not None else value


def _format_time(at: Instant) -> str:
    return at[:19].replace("T", " ")


def _format_cell(cell: Any) -> str:
    if isinstance(cell, Mapping):
        return ", ".join(f"{name}: {value}" for name, value in cell.items()) or "-"
    return "-" if cell is None else str(cell)


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "order", parents=[targets.target_options(needs_stack=True)], help="show what happened to one order"
    )
    parser.add_argument("order_id", metavar="ID", help="the id of the order, or the number that customers are given")
    parser.add_argument("--all", action="store_true", help="also show its records and each copy")
    parser.set_defaults(run=show_order)


def show_order(args: argparse.Namespace) -> None:
    """Print the timeline of an order, and with `--all` its records. Raises RecordNotFound, Permanent, Unreadable."""
    where = targets.resolve_target(args)
    for line in describe_order(where, find_order_id(where.table, args.order_id), with_records=args.all):
        print(line)
