"""Copies as data: which rows are derived from which, and the functions that derive them.

A snapshot is a copy of one primary under another key, guarded by that primary's version. A log has one entry per
change, put if absent under the change's id. Copied attributes are fields of one primary stored in another, guarded by
the first one's version. Redrive and repair never derive copies from an old stream image: they read the primary again.
Totals, a further kind, are in counters.py.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from functions.dynamodb.keys import Row
from functions.model import entities as e
from functions.model import table as t
from functions.model.changes import Change
from functions.model.counters import COUNTERS
from functions.model.lives import ACTIVITY_DAYS

S = TypeVar("S")
C = TypeVar("C")


@dataclass(frozen=True)
class Snapshot(Generic[S, C]):
    """Copies of one primary under other keys."""

    source_row: Row[S]
    target_row: Row[C]
    derive: Callable[[S], Iterable[C]]


@dataclass(frozen=True)
class Log(Generic[S, C]):
    """Log entries for the changes of a primary. `is_gapless`: there is one entry for each of its versions."""

    source_row: Row[S]
    target_row: Row[C]
    derive: Callable[[Change], Iterable[C]]
    is_gapless: bool = False


@dataclass(frozen=True)
class CopiedAttributes(Generic[S, C]):
    """Attributes that are copied from one primary to another.

    `version_field`: holds the source's version. Copying does not raise the target's version, so `changes` ignores these
    writes. `only_where`: a field of the target, and the values with which it is updated.
    """

    source_rows: tuple[Row[S], ...]
    target_row: Row[C]
    version_field: str
    derive: Callable[[S], Mapping[str, str | None]]
    only_where: tuple[str, tuple[str, ...]]


def order_summary(order: e.Order) -> Iterator[e.OrderSummary]:
    yield e.OrderSummary(
        customer_id=order.customer_id,
        order_id=order.order_id,
        placed_at=order.placed_at,
        status=order.status,
        currency=order.currency,
        total=order.total,
        items=sum(line.quantity for line in order.lines.values()),
        version=order.version,
    )


def archived_order_summary(order: e.ArchivedOrder) -> Iterator[e.OrderSummary]:
    yield e.OrderSummary(
        customer_id=order.customer_id,
        order_id=order.order_id,
        placed_at=order.placed_at,
        status=order.status,
        currency=order.currency,
        total=order.total,
        archived=True,
        version=order.version,
    )


def order_line_copies(order: e.Order) -> Iterator[e.OrderLine]:
    """Yield an order's sales: one per product once the order was paid, without dropped pieces.

    If the order later does not count as paid, the copy stays, with quantity 0. If it were deleted, a late record could
    restore it.
    """
    if order.paid_at is None or order.status == "ARCHIVING":
        return
    for product_id, line in order.lines.items():
        yield e.OrderLine(
            order_id=order.order_id,
            product_id=product_id,
            customer_id=order.customer_id,
            placed_at=order.placed_at,
            name=line.name,
            quantity=line.quantity_to_ship if order.status in e.SOLD_STATUSES else 0,
            price=line.price,
            currency=order.currency,
            version=order.version,
            returned=line.returned,
        )


def timeline_events(change: Change) -> Iterator[e.TimelineEvent]:
    yield e.TimelineEvent(
        order_id=change.item.order_id,
        at=change.at,
        change_id=change.id,
        event=change.name,
        status=change.item.status,
        version=change.version,
    )


def activity_entries(change: Change) -> Iterator[e.Activity]:
    ends = datetime.fromisoformat(change.at) + timedelta(days=ACTIVITY_DAYS)
    yield e.Activity(
        customer_id=change.item.customer_id,
        at=change.at,
        change_id=change.id,
        event=change.name,
        order_id=change.item.order_id,
        ttl=int(ends.timestamp()),
        version=change.version,
    )


def customer_name_attribute(customer: e.Customer | e.ErasedCustomer) -> Mapping[str, str | None]:
    """Return the name to copy; None for an erased customer."""
    return {"customer_name": customer.name if isinstance(customer, e.Customer) else None}


SNAPSHOTS: tuple[Snapshot[Any, Any], ...] = (
    Snapshot(t.ORDER, t.ORDER_SUMMARY, order_summary),
    Snapshot(t.ORDER, t.ORDER_LINE, order_line_copies),
    Snapshot(t.ARCHIVED_ORDER, t.ORDER_SUMMARY, archived_order_summary),
)
LOGS: tuple[Log[Any, Any], ...] = (
    Log(t.ORDER, t.ACTIVITY, activity_entries),
    Log(t.ORDER, t.TIMELINE, timeline_events, is_gapless=True),  # written last: the archive waits only for the timeline
)
CUSTOMER_NAME_COPY: CopiedAttributes[Any, e.Order] = CopiedAttributes(
    (t.CUSTOMER, t.ERASED_CUSTOMER),
    t.ORDER,
    "customer_version",
    customer_name_attribute,
    only_where=("status", e.OPEN_STATUSES),
)
COPIES_REMOVED_BY: Mapping[Row[Any], tuple[Row[Any], ...]] = {
    # A redelivered record may restore a copy that the archive deleted (Lambda retries from the lowest failure on).
    # The ArchivedOrder's record always follows its order's records; processing it deletes such copies again.
    t.ARCHIVED_ORDER: (t.ORDER_LINE, t.TIMELINE),
}
SOURCE_ROWS: tuple[Row[Any], ...] = tuple(
    dict.fromkeys(
        [
            *(s.source_row for s in SNAPSHOTS),
            *(log.source_row for log in LOGS),
            *(counter.source_row for counter in COUNTERS),
        ]
    )
)
"""The rows that copies and totals are derived from."""


def copies_of(row: Row[Any], item: Any) -> dict[tuple[str, str], tuple[Row[Any], Any]]:
    """Return all snapshots of one primary by their key, with their expected content.

    An order that is ARCHIVING still has the copies it had before.
    """
    copies = (
        (snapshot.target_row, copy)
        for snapshot in SNAPSHOTS
        if snapshot.source_row is row
        for copy in snapshot.derive(item)
    )
    return {key_pair(into, copy): (into, copy) for into, copy in copies}


def key_pair(row: Row[Any], item: Any) -> tuple[str, str]:
    """Return an item's partition key and sort key."""
    key = row.key_of(item)
    return key["PK"]["S"], key["SK"]["S"]


@dataclass(frozen=True)
class CopyChanges:
    """The effect of a change on the copies: copies to put, copies to delete, and log entries to append."""

    put: tuple[tuple[Row[Any], Any], ...]
    delete: tuple[tuple[Row[Any], Any], ...]
    append: tuple[tuple[Row[Any], Any], ...]


def plan_copy_changes(change: Change) -> CopyChanges:
    """Return the copies that a change affects. Copies that stay equal are not written."""
    if change.name == "OrderArchiving":  # the archive stores the order without this change
        return CopyChanges((), (), ())
    before = {} if change.before is None else copies_of(t.ROWS_BY_TYPE[type(change.before).__name__], change.before)
    after = {} if change.after is None else copies_of(change.row, change.after)
    put = tuple(
        pair for place, pair in after.items() if place not in before or copies_differ(before[place][1], pair[1])
    )
    later = (
        change.version if change.after is not None else change.version + 1
    )  # newer than the newest copy of the deleted item
    delete = tuple((into, replace(copy, version=later)) for place, (into, copy) in before.items() if place not in after)
    entries = tuple(
        (log.target_row, entry)
        for log in LOGS
        if log.source_row is change.row and change.after is not None
        for entry in log.derive(change)
    )
    return CopyChanges(put, delete, entries)


def copies_removed_by(change: Change) -> tuple[Row[Any], ...]:
    """Return the rows whose copies, in the item's own partition, must be deleted after this change."""
    return COPIES_REMOVED_BY.get(change.row, ()) if change.after is not None else ()


def copies_differ(one: Any, two: Any) -> bool:
    """Return whether two copies differ, ignoring their version. A copy that stays equal keeps its older version."""
    return bool(replace(one, version=two.version) != two)
