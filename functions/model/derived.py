"""Copies, as data: which rows are derived from which, and the functions that derive them.

A snapshot is what one primary looks like elsewhere, guarded by that primary's version. A log is one entry per change,
put if absent under the change's id. Attributes are what one primary shows of another, guarded by that one's version.
What is derived never comes from an image that comes back late: who redrives or repairs reads the primary again. (A
further kind, totals, is in counters.py.)
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
    """Copies of one primary in another place."""

    source_row: Row[S]
    target_row: Row[C]
    derive: Callable[[S], Iterable[C]]


@dataclass(frozen=True)
class Log(Generic[S, C]):
    """Entries for the changes of a primary. `gapless`: one for each of its versions."""

    source_row: Row[S]
    target_row: Row[C]
    derive: Callable[[Change], Iterable[C]]
    is_gapless: bool = False


@dataclass(frozen=True)
class CopiedAttributes(Generic[S, C]):
    """Attributes of a primary that are copied from another, of the version that `version` holds. They raise no version
    of their own, so `changes` passes over them. `among`: a field, and the values with which they follow."""

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
    """A line is a sale once its order was paid for, of the pieces that were not dropped; of none while the order does
    not count as paid for. There it stays: were it deleted, a record that is late could bring it back."""
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
    """Who was forgotten has none."""
    return {"customer_name": customer.name if isinstance(customer, e.Customer) else None}


SNAPSHOTS: tuple[Snapshot[Any, Any], ...] = (
    Snapshot(t.ORDER, t.ORDER_SUMMARY, order_summary),
    Snapshot(t.ORDER, t.ORDER_LINE, order_line_copies),
    Snapshot(t.ARCHIVED_ORDER, t.ORDER_SUMMARY, archived_order_summary),
)
LOGS: tuple[Log[Any, Any], ...] = (
    Log(t.ORDER, t.ACTIVITY, activity_entries),
    Log(
        t.ORDER, t.TIMELINE, timeline_events, is_gapless=True
    ),  # the last to be written: the archive waits for this one alone
)
CUSTOMER_NAME_COPY: CopiedAttributes[Any, e.Order] = CopiedAttributes(
    (t.CUSTOMER, t.ERASED_CUSTOMER),
    t.ORDER,
    "customer_version",
    customer_name_attribute,
    only_where=("status", e.OPEN_STATUSES),
)
COPIES_REMOVED_BY: Mapping[Row[Any], tuple[Row[Any], ...]] = {
    # A copy may be applied again after the archive deleted it (a batch is sent again from its lowest failure on). The
    # stub's own record comes after all of its order's, every time: with it, what lies there again is deleted again.
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
"""The rows whose changes the copies follow."""


def copies_of(row: Row[Any], item: Any) -> dict[tuple[str, str], tuple[Row[Any], Any]]:
    """All snapshots of one primary by their key, as they must be; of an order that is ARCHIVING they are as before."""
    copies = (
        (snapshot.target_row, copy)
        for snapshot in SNAPSHOTS
        if snapshot.source_row is row
        for copy in snapshot.derive(item)
    )
    return {key_pair(into, copy): (into, copy) for into, copy in copies}


def key_pair(row: Row[Any], item: Any) -> tuple[str, str]:
    """Where an item lies."""
    key = row.key_of(item)
    return key["PK"]["S"], key["SK"]["S"]


@dataclass(frozen=True)
class CopyChanges:
    """What a change means for the copies: what to put, what to delete, and what to append."""

    put: tuple[tuple[Row[Any], Any], ...]
    delete: tuple[tuple[Row[Any], Any], ...]
    append: tuple[tuple[Row[Any], Any], ...]


def plan_copy_changes(change: Change) -> CopyChanges:
    """Only what the change makes different: a copy that it leaves as it was costs nothing."""
    if change.name == "OrderArchiving":  # what the archive does to an order is no part of what it archives
        return CopyChanges((), (), ())
    before = {} if change.before is None else copies_of(t.ROWS_BY_TYPE[type(change.before).__name__], change.before)
    after = {} if change.after is None else copies_of(change.row, change.after)
    put = tuple(
        pair for place, pair in after.items() if place not in before or copies_differ(before[place][1], pair[1])
    )
    later = change.version if change.after is not None else change.version + 1  # than the newest copy of what is gone
    delete = tuple((into, replace(copy, version=later)) for place, (into, copy) in before.items() if place not in after)
    entries = tuple(
        (log.target_row, entry)
        for log in LOGS
        if log.source_row is change.row and change.after is not None
        for entry in log.derive(change)
    )
    return CopyChanges(put, delete, entries)


def copies_removed_by(change: Change) -> tuple[Row[Any], ...]:
    """The copies in the item's own partition that have no place there after this change."""
    return COPIES_REMOVED_BY.get(change.row, ()) if change.after is not None else ()


def copies_differ(one: Any, two: Any) -> bool:
    """Whether two copies of the same differ; a copy that a change leaves as it was keeps its older version."""
    return bool(replace(one, version=two.version) != two)
