"""Repeat the work of the stream's readers, from a stored record or, if records were lost, from the items in the table.

A stored record shows an old state of its item. So copies and log entries are derived from the item in the table, and
the record is used to publish its event, with its original id, and to subtract a deleted item from its totals.

All functions are safe to repeat, also while the readers and the archive Lambda are running.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from functions.dynamodb.codec import Image
from functions.dynamodb.keys import to_instant
from functions.dynamodb.record_batch import Record
from functions.dynamodb.writes import check_unchanged
from functions.handlers.copies_reader import total_writes
from functions.handlers.event_publisher import MAX_ENTRIES_PER_CALL, to_put_events_entry
from functions.model import changes, copies, events, totals
from functions.model.changes import Change
from functions.model.entities import ArchivedOrder, ExpiryMarker, Order
from functions.model.patterns import ORDER_ITEM_COLLECTION
from functions.model.reactions import REACTIONS
from functions.model.retention import MAX_REPLAY_AGE_DAYS
from functions.model.states import CLOSED_STATUSES
from functions.model.table import EXPIRY_MARKER, ROWS_BY_TYPE
from functions.shop.credit_notes import lacks_credit_note
from functions.shop.shop import ShopContext, retry_on_conflict
from ops.repair.copy_checks import Discrepancy, find_order_discrepancies, find_snapshot_discrepancies
from ops.repair.order_history import list_changes, list_status_changes
from ops.scan.checkpoint import Checkpoint
from ops.scan.progress import SweepProgress
from ops.scan.sweep import sweep
from ops.scan.sweep_result import SweepResult

PublishEvents = Callable[[Sequence[Mapping[str, Any]]], None]
"""Function that publishes a list of events. Each event is a mapping as returned by `events.build_event_detail`.

Raises TableBusy if the event bus still rejects some events after all retries.
"""
ENDED_STATES = {*CLOSED_STATUSES, "ARCHIVING"}
FULFILMENT_EVENTS = next(one.event_names for one in REACTIONS if one.name == "fulfilment")
TTL_IDENTITY = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}


def make_publisher(shop: ShopContext, client: Any, bus_name: str) -> PublishEvents:
    """Return a function that publishes events to this event bus, and retries the events that the bus rejects."""

    def publish(details: Sequence[Mapping[str, Any]]) -> None:
        for start in range(0, len(details), MAX_ENTRIES_PER_CALL):
            entries = [
                to_put_events_entry(bus_name, detail) for detail in details[start : start + MAX_ENTRIES_PER_CALL]
            ]
            backoff = shop.table.new_backoff()
            while entries:
                results = client.put_events(Entries=entries)["Entries"]
                entries = [one for one, result in zip(entries, results, strict=True) if result.get("ErrorCode")]
                if entries:
                    backoff.wait()

    return publish


def redrive_record(shop: ShopContext, publish: PublishEvents, record: Record) -> None:
    """Process a stored stream record again: update totals, copies and logs, and publish the record's event.

    Safe to repeat. Raises Permanent if this version of the code cannot read the record.
    """
    change = changes.parse_change(record)
    if change is None:
        return
    if change.row in copies.SOURCE_ROWS:

        def attempt() -> None:
            for item in shop.table.batch_get([record["dynamodb"]["Keys"]], consistent=True):
                refresh_copies(shop, item)

        retry_on_conflict(shop, attempt)
    if detail := events.build_event_detail(change):
        publish([detail])


def rebuild_copies(
    shop: ShopContext,
    *,
    dry: bool = False,
    progress: SweepProgress | None = None,
    units_per_second: float | None = None,
    checkpoint: Checkpoint | None = None,
) -> SweepResult:
    """Scan the table, write all missing or outdated copies and log entries, and add what totals do not include yet.

    `dry`: only count, write nothing. Returns the counts of the scan.
    """

    def act(image: Image) -> bool | None:
        change = _latest_change(image)
        if change is None or change.row not in copies.SOURCE_ROWS:
            return None
        return refresh_copies(shop, change.after, dry=dry)

    return sweep(shop.table, act, progress=progress, units_per_second=units_per_second, checkpoint=checkpoint)


def republish_events(
    shop: ShopContext,
    publish: PublishEvents,
    *,
    progress: SweepProgress | None = None,
    units_per_second: float | None = None,
    checkpoint: Checkpoint | None = None,
) -> SweepResult:
    """Publish again, for each primary item, the event of the change that led to its current state.

    Each event has its original id, so a consumer that has handled it ignores it. Earlier states are not published, and
    nothing older than MAX_REPLAY_AGE_DAYS. If an order lacks a credit note, its last change that needed one is
    published, too. So is the expiry of a closed order without expiry marker. Returns the counts of the scan.
    """
    oldest = to_instant(shop.now() - timedelta(days=MAX_REPLAY_AGE_DAYS))

    def publish_current(image: Image) -> bool | None:
        change = _latest_change(image)
        if change is None:
            return None
        told = [change]
        if isinstance(change.after, Order):
            beside = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=change.after.order_id)
            told = [
                *_change_to_current_status(change.after, beside),
                *_credit_change(change.after, beside),
                *_expiry_change(shop, change.after),
            ]
        details = [detail for one in told if one.at >= oldest and (detail := events.build_event_detail(one))]
        publish(details)
        return bool(details)

    return sweep(
        shop.table, publish_current, progress=progress, units_per_second=units_per_second, checkpoint=checkpoint
    )


# copies ---------------------------------------------------------------------------------------------------------------
REBUILT_KINDS = ("snapshot missing", "snapshot wrong", "log missing", "name")
"""The kinds of discrepancies that `refresh_copies` repairs.

`drift` repairs the others after a second check, because the readers may correct such an item meanwhile.
"""


def refresh_copies(shop: ShopContext, item: Any, *, dry: bool = False) -> bool:
    """Write the missing or outdated copies and log entries of a primary item, and add the item to its totals.

    `dry`: write nothing. Returns whether there was anything to write. Raises WriteConflict if the item has changed
    since it was read.
    """
    row = ROWS_BY_TYPE[type(item).__name__]
    if getattr(item, "status", None) == "ARCHIVING":
        return False  # the archive Lambda is moving the order to S3, so write nothing
    faults = (
        _find_rebuilt(shop, item)
        if isinstance(item, Order | ArchivedOrder)
        else list(find_snapshot_discrepancies(shop, row, item))
    )
    contribution = totals.current_contribution(row, item, shop.now_instant())
    counting = total_writes(shop, contribution) if contribution else []
    if not dry:
        for fault in faults:
            fault.repair(shop)
        if counting:
            shop.table.write(check_unchanged(row, item), *counting)
    return bool(faults or counting)


def _find_rebuilt(shop: ShopContext, order: Order | ArchivedOrder) -> list[Discrepancy]:
    """Return the discrepancies of an order that `refresh_copies` repairs, without those of its payments and refunds."""
    images = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order.order_id)
    found = find_order_discrepancies(shop, order.order_id, images)
    return [fault for fault in found if fault.kind in REBUILT_KINDS and fault.source[1] == order]


# changes to publish again ---------------------------------------------------------------------------------------------
def _change_to_current_status(order: Order, partition: Sequence[Image]) -> Iterator[Change]:
    """Yield the change that brought an order to its current status, even if later changes kept this status."""
    if order.status != "ARCHIVING":  # the change to ARCHIVING has no event
        yield from list_status_changes(order, partition)[-1:]


def _credit_change(order: Order, partition: Sequence[Image]) -> Iterator[Change]:
    """If an invoiced order lacks a credit note, yield its last change to which the fulfilment Lambda reacts."""
    if order.status != "ARCHIVING" and lacks_credit_note(order, partition):
        yield from [one for one in list_changes(order, partition) if one.name in FULFILMENT_EVENTS][-1:]


def _expiry_change(shop: ShopContext, order: Order) -> Iterator[Change]:
    """If a closed order has no expiry marker, yield the change "the marker has expired", which archives the order.

    An order whose archiving has started, but not ended, counts as closed.
    """
    if order.status not in ENDED_STATES or shop.table.batch_get(
        [EXPIRY_MARKER.key(order_id=order.order_id)], consistent=True
    ):
        return
    marker = ExpiryMarker(
        order_id=order.order_id,
        customer_id=order.customer_id,
        created_at=order.updated_at,
        ttl=int(shop.now().timestamp()),
    )
    removal = {
        "eventName": "REMOVE",
        "userIdentity": TTL_IDENTITY,
        "dynamodb": {"OldImage": EXPIRY_MARKER.encode(marker)},
    }
    if change := changes.parse_change(removal):
        yield change


def _latest_change(image: Image) -> Change | None:
    """Return the latest change of a primary item as its stream record would describe it; None for all other items.

    None also for an item that a restore has inserted. Raises Permanent if this code cannot read the item.
    """
    row = ROWS_BY_TYPE.get(image.get("type", {}).get("S", ""))
    return changes.parse_change(changes.make_stream_record(image)) if row is None or row.kind == "primary" else None
