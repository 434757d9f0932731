"""Copies: declare which items are derived from which primary items, and derive them.

A primary item is an item that commands write, such as an order. It is the source of its copies. There are three kinds
of copies:
- A snapshot is a copy of a primary item under another key. It is overwritten only by a copy of a later version of that
  item.
- A log has one entry for each change of a primary item. An entry is written only if there is no entry for this change.
- Copied attributes are fields of a primary item that are also stored in another primary item. They are overwritten only
  if the source has a later version.

When an operator processes a failed stream record again, only the log entry is derived from the record. Snapshots and
copied attributes are derived from the source item in the table, because the record may be outdated. Totals are in
totals.py.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar, cast

from functions.dynamodb.keys import Row
from functions.model import entities as e
from functions.model import table as t
from functions.model.changes import Change
from functions.model.retention import ACTIVITY_DAYS, SALE_DAYS
from functions.model.totals import COUNTERS

S = TypeVar("S")
C = TypeVar("C")


@dataclass(frozen=True)
class Snapshot(Generic[S, C]):
    """Declares snapshots: copies of primary items under other keys.

    `derive`: returns the snapshots of one primary item. `is_last`: whether the snapshot is written after all other
    copies of a change, for each version of the primary item. So if it has this version, all other copies are complete,
    too. Of several snapshots, this is the first. `stays`: whether the snapshot stays when its primary item is deleted,
    such as a payment whose order is archived.
    """

    source_row: Row[S]
    target_row: Row[C]
    derive: Callable[[S], Iterable[C]]
    is_last: bool = False
    stays: bool = False


@dataclass(frozen=True)
class Log(Generic[S, C]):
    """Declares a log: entries that record changes of primary items. `derive`: returns the entries for one change."""

    source_row: Row[S]
    target_row: Row[C]
    derive: Callable[[Change], Iterable[C]]


@dataclass(frozen=True)
class CopiedAttributes(Generic[S, C]):
    """Declares attributes that are copied from one primary item (the source) into another primary item (the target).

    `version_field`: the target's field that stores the version of the source. `derive`: returns the attributes by name;
    None removes one. `only_where`: fields of the target, each with the values with which it is updated. The target's
    own version stays, so `changes` reports no change of it.
    """

    source_rows: tuple[Row[S], ...]
    target_row: Row[C]
    version_field: str
    derive: Callable[[S], Mapping[str, str | None]]
    only_where: Mapping[str, tuple[str, ...]]


def copy_fields(source: Any, into: type[C], **others: Any) -> C:
    """Return an instance of `into` with the field values in `others`, and with all other values from `source`."""
    names = (field.name for field in fields(cast(Any, into)))
    return into(**{name: getattr(source, name) for name in names if hasattr(source, name)} | others)


def order_summary(order: e.Order) -> Iterator[e.OrderSummary]:
    lines = {
        id: e.PurchasedLine(name=line.name, quantity=line.quantity_to_ship, price=line.price, returned=line.returned)
        for id, line in order.lines.items()
    }
    summary = copy_fields(
        order,
        e.OrderSummary,
        items=sum(line.quantity for line in order.lines.values()),
        lines=lines if order.status in e.SOLD_STATUSES else None,
    )
    yield from (summary, *_summary_of_guest(order, summary))


def _summary_of_guest(order: e.Order | e.ArchivedOrder, summary: e.OrderSummary) -> Iterator[e.OrderSummary]:
    """Yield the summary in the partition of the guest who placed an order, if the order has moved to an account.

    It is not deleted, because a late stream record of the order could write it again.
    """
    if order.guest_id:
        yield replace(summary, customer_id=order.guest_id)


def archived_order_summary(order: e.ArchivedOrder) -> Iterator[e.OrderSummary]:
    summary = copy_fields(order, e.OrderSummary, archived=True)
    yield from (summary, *_summary_of_guest(order, summary))


def number_of_order(order: e.Order | e.ArchivedOrder) -> Iterator[e.OrderNumber]:
    yield copy_fields(order, e.OrderNumber)


def feed_entry_of_payment(payment: e.Payment) -> Iterator[e.FeedEntry]:
    yield copy_fields(payment, e.FeedEntry, list="PAYMENTS", id=payment.payment_id)


def feed_entry_of_refund(refund: e.Refund) -> Iterator[e.FeedEntry]:
    yield copy_fields(refund, e.FeedEntry, list="REFUNDS", id=refund.refund_id)


def sales_of_order(order: e.Order) -> Iterator[e.Sale]:
    """Yield a copy of each line of a paid order: one Sale item for each product.

    The quantity of a copy excludes pieces that were cancelled before shipping. If the whole order is cancelled, the
    copies stay in the table with quantity 0. They are not deleted, because a late stream record of the order could
    write them again. When the order is archived, they stay too, until SALE_DAYS after the order was placed.

    Yields nothing if the order is not paid or is being archived.
    """
    if order.paid_at is None or order.status == "ARCHIVING":
        return
    ends = datetime.fromisoformat(order.placed_at) + timedelta(days=SALE_DAYS)
    for product_id, line in order.lines.items():
        yield copy_fields(
            order,
            e.Sale,
            product_id=product_id,
            name=line.name,
            quantity=line.quantity_to_ship if order.status in e.SOLD_STATUSES else 0,
            price=line.price,
            returned=line.returned,
            shard=str(e.hash_to_bucket(order.order_id, order.sales_shards or 1)),
            ttl=int(ends.timestamp()),
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
    """Return {"customer_name": name} to copy into orders. For an erased customer, the value None removes the name."""
    return {"customer_name": customer.name if isinstance(customer, e.Customer) else None}


SNAPSHOTS: tuple[Snapshot[Any, Any], ...] = (
    # The archive Lambda waits until the summary has the version of the order.
    Snapshot(t.ORDER, t.ORDER_SUMMARY, order_summary, is_last=True),
    Snapshot(t.ORDER, t.SALE, sales_of_order),
    Snapshot(t.ORDER, t.ORDER_NUMBER, number_of_order),
    Snapshot(t.ARCHIVED_ORDER, t.ORDER_SUMMARY, archived_order_summary),
    Snapshot(t.ARCHIVED_ORDER, t.ORDER_NUMBER, number_of_order),
    Snapshot(t.PAYMENT, t.FEED_ENTRY, feed_entry_of_payment, stays=True),
    Snapshot(t.REFUND, t.FEED_ENTRY, feed_entry_of_refund, stays=True),
)
LOGS: tuple[Log[Any, Any], ...] = (Log(t.ORDER, t.ACTIVITY, activity_entries),)
CUSTOMER_NAME_COPY: CopiedAttributes[Any, e.Order] = CopiedAttributes(
    (t.CUSTOMER, t.ERASED_CUSTOMER),
    t.ORDER,
    "customer_version",
    customer_name_attribute,
    only_where={"status": e.OPEN_STATUSES},
)
SOURCE_ROWS: tuple[Row[Any], ...] = tuple(
    dict.fromkeys(
        [
            *(s.source_row for s in SNAPSHOTS),
            *(log.source_row for log in LOGS),
            *(counter.source_row for counter in COUNTERS),
        ]
    )
)
"""The types of the items from which snapshots, logs and totals are derived, as rows of model/table.py."""


def copies_of(row: Row[Any], item: Any) -> dict[tuple[str, str], tuple[Row[Any], Any]]:
    """Return the snapshots of a primary item, with their rows, by (partition key, sort key).

    Not for an order with the status ARCHIVING: its snapshots stay as they were before.
    """
    copies = (
        (snapshot.target_row, copy)
        for snapshot in SNAPSHOTS
        if snapshot.source_row is row
        for copy in snapshot.derive(item)
    )
    return {key_pair(into, copy): (into, copy) for into, copy in copies}


def is_last(source_row: Row[Any], target_row: Row[Any]) -> bool:
    """Return whether this snapshot of a primary item is written after all other copies of a change."""
    return any(one.is_last and (one.source_row, one.target_row) == (source_row, target_row) for one in SNAPSHOTS)


def key_pair(row: Row[Any], item: Any) -> tuple[str, str]:
    """Return an item's partition key and sort key."""
    key = row.key_of(item)
    return key["PK"]["S"], key["SK"]["S"]


@dataclass(frozen=True)
class CopyChanges:
    """The writes that are due after a change, as pairs of row and item. `last`: the copy to write after all others."""

    put: tuple[tuple[Row[Any], Any], ...]
    delete: tuple[tuple[Row[Any], Any], ...]
    append: tuple[tuple[Row[Any], Any], ...]
    last: tuple[Row[Any], Any] | None = None


def plan_copy_changes(change: Change) -> CopyChanges:
    """Return the copies to put and delete, and the log entries to append, after a change of their source item.

    A copy is not written if only its version would change, except the copy that is written last (`Snapshot.is_last`).
    """
    if change.name == "OrderArchiving":
        # This change only locks the order while the archive Lambda moves its items to S3. The S3 object must show the
        # order and its copies as they were before the lock. So no copy is written.
        return CopyChanges((), (), ())
    before = {} if change.before is None else copies_of(t.ROWS_BY_TYPE[type(change.before).__name__], change.before)
    after = {} if change.after is None else copies_of(change.row, change.after)
    last = next((pair for pair in after.values() if is_last(change.row, pair[0])), None)
    put = tuple(
        pair
        for place, pair in after.items()
        if pair is not last
        and (place not in before or is_last(change.row, pair[0]) or copies_differ(before[place][1], pair[1]))
    )
    # A stored copy is deleted only if the delete request has a higher version than the copy. A removed source item has
    # no new version, so use its last version plus 1.
    later = change.version if change.after is not None else change.version + 1
    stay = {one.target_row for one in SNAPSHOTS if one.stays}
    left = [pair for place, pair in before.items() if place not in after and pair[0] not in stay]
    delete = tuple((into, replace(copy, version=later)) for into, copy in left)
    return CopyChanges(put, delete, tuple(log_entries(change)), last)


def log_entries(change: Change) -> Iterator[tuple[Row[Any], Any]]:
    """Yield the log entries of a change, each with the declaration of its item type."""
    for log in LOGS:
        if log.source_row is change.row and change.after is not None:
            yield from ((log.target_row, entry) for entry in log.derive(change))


def copies_differ(one: Any, two: Any) -> bool:
    """Return whether two copies differ in more than their version. If not, the stored copy keeps a lower version."""
    return bool(replace(one, version=two.version) != two)
