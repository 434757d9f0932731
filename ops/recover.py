"""Make good what the stream's readers could not do: of a record that was kept, by the record; of lost ones, by state.

A record that comes back late tells what happened then, not what is now. So what is copied is read anew, and only what
the record alone knows is taken from it: the entry of the log, and the event, under the change's own id, by which
everybody who has seen it knows it again. All of it is safe to repeat, and safe beside readers and the archive at work.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from functions.copies import copy_deletions, total_writes, update_totals, write_unless_newer
from functions.dynamodb.images import Image
from functions.dynamodb.keys import Row, to_instant
from functions.dynamodb.streams import Record
from functions.dynamodb.writes import Write, check_unchanged, delete, put_if_absent, put_if_newer
from functions.model import changes, counters, derived, events
from functions.model.changes import Change
from functions.model.entities import ArchivedOrder, Counted, Expiry, Order
from functions.model.lives import MAX_REPLAY_AGE_DAYS
from functions.model.patterns import CUSTOMER_ACTIVITY, ORDER_ITEM_COLLECTION
from functions.model.states import CLOSED_STATUSES
from functions.model.table import ACTIVITY, COUNTED, EXPIRY, ROWS_BY_TYPE, TIMELINE
from functions.relay import MAX_ENTRIES_PER_CALL, to_put_events_entry
from functions.shop import names
from functions.shop.shop import Shop, retry_on_conflict
from ops.history import expected_log_entries, make_stream_record, reconstruct_history
from ops.items import item_key, load_existing, match_key
from ops.kept import Checkpoint
from ops.progress import SweepProgress
from ops.sweep import SweepResult, sweep

PublishEvents = Callable[[Sequence[Mapping[str, Any]]], None]
"""Publishes events, given as `events.detail` makes them. Raises Busy where the bus goes on refusing some."""
ENDED_STATES = {*CLOSED_STATUSES, "ARCHIVING"}
TTL_IDENTITY = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}


def make_publisher(shop: Shop, client: Any, bus_name: str) -> PublishEvents:
    """Publish through this EventBridge client, what is refused again."""

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
    """Do again what both readers would have done at a stream record that was kept, in Lambda's shape.

    Raises Permanent where it cannot be read: a newer version of this code may.
    """
    change = changes.parse_change(record)
    if change is None:
        return
    if change.after is None and (todo := counters.contribution_change_of(change)):
        retry_on_conflict(shop, lambda: update_totals(shop, todo))
    if change.row in derived.SOURCE_ROWS:
        entries = derived.plan_copy_changes(change).append

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
    """Bring every copy of every primary up to it, fill what is missing in the logs, and take off the totals what counts
    in them and is no more.

    Of a change that neither reader's record nor the log tells of, only the latest possible time is known: that of the
    next one that is known. `dry`: find what there is to do, without doing it.
    """

    def act(image: Image) -> bool | None:
        if image.get("type", {}).get("S") == COUNTED.type:
            return _remove_contribution(shop, COUNTED.decode(image), dry=dry)
        change = _latest_change(image)
        if change is None or change.row not in derived.SOURCE_ROWS:
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
    """Publish again the event that each primary's present state stands for, under the id it had, and the end of each
    closed order whose marker has gone without its order being archived.

    Whoever has reacted before knows the event again. What is not told is what an item was before: an order that is
    shipped gets no belated mail that it was paid.
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
    """Count a primary, and write its copies as it is now, and log entries, unless they are there: those that a record
    tells of (`logged`), else those that its own state tells of. Returns whether there was anything to do; `dry`:
    without doing it.

    Raises Changed where the item is no more as it was read.
    """
    row = ROWS_BY_TYPE[type(item).__name__]
    if getattr(item, "status", None) == "ARCHIVING":
        return False  # from here on the archive alone has it in hand
    if isinstance(item, ArchivedOrder):
        writes, ended = _write_missing_copies(shop, derived.copies_of(row, item)), copy_deletions(shop.table, item)
    else:
        copies = derived.copies_of(row, item)
        writes = [*_write_missing_copies(shop, copies), *_write_missing_entries(shop, item, recorded_entries)]
        ended = []
    todo = counters.current_contribution(row, item, shop.now_instant())
    counting = total_writes(shop, todo) if todo else []
    renamed = names.get_newer_customer(shop, item) if isinstance(item, Order) else None
    if not dry:
        for write in ended:
            write_unless_newer(shop.table, write)
        for write in writes:
            _write_if_source_unchanged(shop, row, item, write)
        if counting:
            shop.table.write(check_unchanged(row, item), *counting)
        if renamed:
            names.set_customer_name(shop, item.order_id, renamed)
    return bool(writes or ended or counting or renamed)


def _remove_contribution(shop: Shop, contribution: Counted, *, dry: bool) -> bool:
    """Take off the totals what counts in them and is no more."""
    found = counters.possibly_missed_deletion(contribution, shop.now_instant())
    if found is None or shop.table.batch_get([found[0]], consistent=True):
        return False
    if not dry:
        update_totals(shop, found[1])
    return True


class CopyExists(Exception):
    """The copy is there already, or a newer one."""


def _write_missing_copies(shop: Shop, copies: Mapping[tuple[str, str], tuple[Row[Any], Any]]) -> list[Write[Any]]:
    """Writes of the copies that do not lie there as they must be; a copy may be of an older version, and right."""
    lie = load_existing(shop, list(copies))
    found = []
    for place, (into, copy) in copies.items():
        wanted = into.encode(copy)
        if {**lie.get(place, {}), "version": wanted["version"]} != wanted:
            found.append(put_if_newer(into, copy, or_same_version=True))
    return found


def _write_missing_entries(shop: Shop, item: Any, recorded_entries: LogEntries | None) -> Iterator[Write[Any]]:
    """Writes of the log entries that are not there. When a change was, its record knows: an entry of it at another time
    was made up without the record, and goes."""
    of_record = recorded_entries is not None
    if recorded_entries is None and isinstance(item, Order):
        recorded_entries = list(
            expected_log_entries(
                shop, item, shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=item.order_id)
            )
        )
    places = {
        derived.key_pair(into, one): (into, one) for into, one in recorded_entries or () if not _is_expired(shop, one)
    }
    lie = load_existing(shop, list(places))
    for into, one in (pair for place, pair in places.items() if place not in lie):
        if of_record:
            yield from (delete(into, other) for other in _find_entries_of_change(shop, into, one))
        yield put_if_absent(into, one)


def _find_entries_of_change(shop: Shop, into: Row[Any], entry: Any) -> Iterator[Any]:
    """What this log tells of the same change."""
    beside = {
        TIMELINE: lambda: shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=entry.order_id),
        ACTIVITY: lambda: shop.table.query_raw(CUSTOMER_ACTIVITY, customer_id=entry.customer_id, since=entry.at),
    }
    for image in beside[into]():
        key = match_key(into, item_key(image))
        if key and key["change_id"] == entry.change_id:
            yield into.decode(image)


def _write_if_source_unchanged(shop: Shop, row: Row[Any], item: Any, write: Write[Any]) -> None:
    """Write a copy while its primary is as it was read: nothing is put into a partition that the archive has cleared.

    Raises Changed where it is not.
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
    """The change by which an order came to its present state; what it has been through since leaves that as it is."""
    if order.status != "ARCHIVING":  # of that nobody is told
        beside = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order.order_id)
        yield from (change for change in reconstruct_history(shop, order, beside) if change.version == order.reached)


def _expiry_change(shop: Shop, order: Order) -> Iterator[Change]:
    """The end of a closed order whose marker is gone, or has ended: what the archive waits for."""
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
    """The change by which a primary became what it is; None for what is none. Raises Permanent."""
    row = ROWS_BY_TYPE.get(image.get("type", {}).get("S", ""))
    return changes.parse_change(make_stream_record(image)) if row is None or row.kind == "primary" else None
