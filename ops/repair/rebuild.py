"""Repeat the work of the stream's Lambda functions, from a stored stream record or from the items in the table.

These Lambda functions update copies, logs and totals, and publish events. If stream records were lost, use the items in
the table.

A stored stream record describes an old state of its item. So copies are derived from the item as it is in the table
now. The record is used only for the log entry, the event, and the subtraction of a deleted item from the totals. The
event keeps its original id, so a consumer that has already handled the event recognizes it.

All functions are safe to repeat, also while the stream's Lambda functions and the archive Lambda are running.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from functions.dynamodb.codec import Image
from functions.dynamodb.keys import Row, to_instant
from functions.dynamodb.record_batch import Record
from functions.dynamodb.writes import Write, check_unchanged, delete, put_if_absent, put_if_newer
from functions.handlers.copies_reader import copy_deletions, total_writes, update_totals, write_unless_newer
from functions.handlers.event_publisher import MAX_ENTRIES_PER_CALL, to_put_events_entry
from functions.model import changes, copies, events, totals
from functions.model.changes import Change
from functions.model.entities import ArchivedOrder, Counted, Expiry, Order
from functions.model.patterns import CUSTOMER_ACTIVITY, ORDER_ITEM_COLLECTION
from functions.model.retention import MAX_REPLAY_AGE_DAYS
from functions.model.states import CLOSED_STATUSES
from functions.model.table import ACTIVITY, COUNTED, EXPIRY, ROWS_BY_TYPE, TIMELINE
from functions.shop import customer_names
from functions.shop.shop import Shop, retry_on_conflict
from ops.item_keys import item_key, load_existing, match_key
from ops.repair.order_history import expected_log_entries, make_stream_record, reconstruct_history
from ops.scan.checkpoint import Checkpoint
from ops.scan.progress import SweepProgress
from ops.scan.sweep import sweep
from ops.scan.sweep_result import SweepResult

PublishEvents = Callable[[Sequence[Mapping[str, Any]]], None]
"""Function that publishes a list of events. Each event is a mapping as returned by `events.build_event_detail`.

Raises TableBusy if the event bus still rejects some events after all retries.
"""
ENDED_STATES = {*CLOSED_STATUSES, "ARCHIVING"}
TTL_IDENTITY = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}


def make_publisher(shop: Shop, client: Any, bus_name: str) -> PublishEvents:
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


def redrive_record(shop: Shop, publish: PublishEvents, record: Record) -> None:
    """Process a stored stream record again: update totals, copies and logs, and publish the record's event.

    `record`: the record in the format of a Lambda event. Safe to repeat. Raises Permanent if this version of the code
    cannot read the record. A newer version of the code may be able to read it.
    """
    change = changes.parse_change(record)
    if change is None:
        return
    if change.after is None and (todo := totals.contribution_change_of(change)):
        retry_on_conflict(shop, lambda: update_totals(shop, todo))
    if change.row in copies.SOURCE_ROWS:
        entries = copies.plan_copy_changes(change).append

        def attempt() -> None:
            for item in shop.table.batch_get([record["dynamodb"]["Keys"]], consistent=True):
                refresh_copies(shop, item, entries)

        retry_on_conflict(shop, attempt)
    if detail := events.build_event_detail(change):
        publish([detail])


def rebuild_copies(
    shop: Shop,
    *,
    dry: bool = False,
    progress: SweepProgress | None = None,
    units_per_second: float | None = None,
    checkpoint: Checkpoint | None = None,
) -> SweepResult:
    """Scan the table, write all missing or outdated copies and missing log entries, and update the totals.

    A primary item is an item from which copies and totals are derived. If the totals do not include such an item yet,
    its amounts are added. If the totals still include a deleted item, its amounts are subtracted. If the time of a
    change is unknown, its log entry gets the time of the next change with a known time.

    `dry`: only count, write nothing. Returns the counts of the scan.
    """

    def act(image: Image) -> bool | None:
        if image.get("type", {}).get("S") == COUNTED.type:
            return _remove_contribution(shop, COUNTED.decode(image), dry=dry)
        change = _latest_change(image)
        if change is None or change.row not in copies.SOURCE_ROWS:
            return None
        return refresh_copies(shop, change.after, dry=dry)

    return sweep(shop.table, act, progress=progress, units_per_second=units_per_second, checkpoint=checkpoint)


def republish_events(
    shop: Shop,
    publish: PublishEvents,
    *,
    progress: SweepProgress | None = None,
    units_per_second: float | None = None,
    checkpoint: Checkpoint | None = None,
) -> SweepResult:
    """Publish again, for each primary item, the event of the change that led to its current state.

    A primary item is an item that commands write, such as an order. Each event has its original id, so a consumer that
    has already handled the event ignores the duplicate. Events of earlier states are not published, so no customer gets
    a "paid" mail after the order was shipped. Events older than MAX_REPLAY_AGE_DAYS are not published.

    The archiving of a closed order starts when its expiry marker, an item with a ttl, is deleted. If a closed order has
    no such marker, its expiry event is published too. Returns the counts of the scan.
    """
    oldest = to_instant(shop.now() - timedelta(days=MAX_REPLAY_AGE_DAYS))

    def publish_current(image: Image) -> bool | None:
        change = _latest_change(image)
        if change is None:
            return None
        told = [change]
        if isinstance(change.after, Order):
            told = [*_change_to_current_status(shop, change.after), *_expiry_change(shop, change.after)]
        details = [detail for one in told if one.at >= oldest and (detail := events.build_event_detail(one))]
        publish(details)
        return bool(details)

    return sweep(
        shop.table, publish_current, progress=progress, units_per_second=units_per_second, checkpoint=checkpoint
    )


# copies ---------------------------------------------------------------------------------------------------------------
LogEntries = Sequence[tuple[Row[Any], Any]]


def refresh_copies(shop: Shop, item: Any, recorded_entries: LogEntries | None = None, *, dry: bool = False) -> bool:
    """Write the missing or outdated copies and log entries of a primary item, and add the item to its totals.

    A primary item is an item from which copies and totals are derived. For an order, the customer's current name is
    copied too.

    `recorded_entries`: the log entries of a stream record. If None, they are derived from the order and its existing
    logs.
    `dry`: write nothing.

    Returns whether there was anything to write. Raises WriteConflict if the item has changed since it was read.
    """
    row = ROWS_BY_TYPE[type(item).__name__]
    if getattr(item, "status", None) == "ARCHIVING":
        return False  # the archive Lambda is moving the order to S3, so write nothing
    if isinstance(item, ArchivedOrder):
        writes, ended = _write_missing_copies(shop, copies.copies_of(row, item)), copy_deletions(shop.table, item)
    else:
        expected = copies.copies_of(row, item)
        writes = [*_write_missing_copies(shop, expected), *_write_missing_entries(shop, item, recorded_entries)]
        ended = []
    todo = totals.current_contribution(row, item, shop.now_instant())
    counting = total_writes(shop, todo) if todo else []
    renamed = customer_names.get_newer_customer(shop, item) if isinstance(item, Order) else None
    if not dry:
        for write in ended:
            write_unless_newer(shop.table, write)
        for write in writes:
            _write_if_source_unchanged(shop, row, item, write)
        if counting:
            shop.table.write(check_unchanged(row, item), *counting)
        if renamed:
            customer_names.set_customer_name(shop, item.order_id, renamed)
    return bool(writes or ended or counting or renamed)


def _remove_contribution(shop: Shop, contribution: Counted, *, dry: bool) -> bool:
    """Subtract what a deleted item has added to totals, if the totals still include the item.

    `contribution`: the item that records what the deleted item has added. Returns whether the totals still included the
    deleted item. `dry`: write nothing.
    """
    found = totals.possibly_missed_deletion(contribution, shop.now_instant())
    if found is None or shop.table.batch_get([found[0]], consistent=True):
        return False
    if not dry:
        update_totals(shop, found[1])
    return True


class CopyExists(Exception):
    """The table already has the copy, with the same version as the copy to write or a newer one."""


def _write_missing_copies(shop: Shop, expected: Mapping[tuple[str, str], tuple[Row[Any], Any]]) -> list[Write[Any]]:
    """Return the writes for the copies that are missing or outdated.

    `expected`: the correct copies by key, each with its row of the key table. A stored copy that differs only in its
    version is correct and gets no write.
    """
    lie = load_existing(shop, list(expected))
    found = []
    for place, (into, copy) in expected.items():
        wanted = into.encode(copy)
        if {**lie.get(place, {}), "version": wanted["version"]} != wanted:
            found.append(put_if_newer(into, copy, or_same_version=True))
    return found


def _write_missing_entries(shop: Shop, item: Any, recorded_entries: LogEntries | None) -> Iterator[Write[Any]]:
    """Yield the writes for the log entries of an item that are missing in the table.

    `recorded_entries`: the entries from a stream record. If None, they are derived from the order and its existing
    logs.

    An earlier run without the stream record may have written an entry for the same change with an estimated time. The
    time in the stream record is correct. So the entry with the estimated time is deleted.
    """
    of_record = recorded_entries is not None
    if recorded_entries is None and isinstance(item, Order):
        recorded_entries = list(
            expected_log_entries(
                shop, item, shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=item.order_id)
            )
        )
    places = {
        copies.key_pair(into, one): (into, one) for into, one in recorded_entries or () if not _is_expired(shop, one)
    }
    lie = load_existing(shop, list(places))
    for into, one in (pair for place, pair in places.items() if place not in lie):
        if of_record:
            yield from (delete(into, other) for other in _find_entries_of_change(shop, into, one))
        yield put_if_absent(into, one)


def _find_entries_of_change(shop: Shop, into: Row[Any], entry: Any) -> Iterator[Any]:
    """Yield the stored entries of a log that describe the same change as `entry`.

    `into`: the row of the key table that declares the log.
    """
    beside = {
        TIMELINE: lambda: shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=entry.order_id),
        ACTIVITY: lambda: shop.table.query_raw(CUSTOMER_ACTIVITY, customer_id=entry.customer_id, since=entry.at),
    }
    for image in beside[into]():
        key = match_key(into, item_key(image))
        if key and key["change_id"] == entry.change_id:
            yield into.decode(image)


def _write_if_source_unchanged(shop: Shop, row: Row[Any], item: Any, write: Write[Any]) -> None:
    """Write a copy in a transaction that fails if the primary item (its source) has changed since it was read.

    So no copy is added to the partition of an order that was archived in the meantime. `item`: the primary item. `row`:
    its row of the key table. `write`: the write of the copy. If the table already has the copy with the same version or
    a newer one, nothing is written. Raises WriteConflict if the primary item has changed.
    """
    try:
        shop.table.write(check_unchanged(row, item), replace(write, condition_error=lambda _: CopyExists()))
    except CopyExists:
        return


def _is_expired(shop: Shop, item: Any) -> bool:
    ttl: int | None = getattr(item, "ttl", None)
    return ttl is not None and ttl <= shop.now().timestamp()


# events ---------------------------------------------------------------------------------------------------------------
def _change_to_current_status(shop: Shop, order: Order) -> Iterator[Change]:
    """Yield the change that brought an order to its current status, even if later changes kept this status."""
    if order.status != "ARCHIVING":  # an order that is being archived has no event for this status
        beside = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order.order_id)
        yield from (change for change in reconstruct_history(shop, order, beside) if change.version == order.reached)


def _expiry_change(shop: Shop, order: Order) -> Iterator[Change]:
    """Yield the change that starts the archiving of a closed order, if the order has no expiry marker.

    An expiry marker is an item with a ttl. When DynamoDB deletes the marker, an event is published and the order is
    archived. Without the marker, the order would never be archived.
    """
    if order.status not in ENDED_STATES or shop.table.batch_get([EXPIRY.key(order_id=order.order_id)], consistent=True):
        return
    marker = Expiry(
        order_id=order.order_id,
        customer_id=order.customer_id,
        created_at=order.updated_at,
        ttl=int(shop.now().timestamp()),
    )
    removal = {"eventName": "REMOVE", "userIdentity": TTL_IDENTITY, "dynamodb": {"OldImage": EXPIRY.encode(marker)}}
    if change := changes.parse_change(removal):
        yield change


def _latest_change(image: Image) -> Change | None:
    """Return the latest change of a primary item (an item that commands write), as its stream record would describe it.

    Returns None for an item that is not primary, such as a copy, and for an item that a restore from the archive has
    inserted. Raises Permanent if this code cannot read the item.
    """
    row = ROWS_BY_TYPE.get(image.get("type", {}).get("S", ""))
    return changes.parse_change(make_stream_record(image)) if row is None or row.kind == "primary" else None
