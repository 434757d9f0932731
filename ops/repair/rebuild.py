"""Repeat the work of the stream's readers, from a stored record or, if records were lost, from the items in the table.

A stored record shows an old state of its item. So copies and log entries are derived from the item in the table, and
the record is used to publish its event, with its original id, and to subtract a deleted item from its totals.

All functions are safe to repeat, also while the readers and the archive Lambda are running.
"""

from typing import Any

from functions.adapters.event_bus import PublishEvents
from functions.dynamodb.codec import Image
from functions.dynamodb.record_batch import Record
from functions.dynamodb.writes import check_unchanged
from functions.handlers.copies_reader import total_writes, write_audit_entry
from functions.model import changes, copies, totals
from functions.model.entities import ArchivedOrder, Order
from functions.model.patterns import ORDER_ITEM_COLLECTION
from functions.model.table import ROWS_BY_TYPE
from functions.shop.republishing import build_recent_events, changes_to_current_state, latest_change
from functions.shop.shop import ShopContext, retry_on_conflict
from functions.shop.webhook_deliveries import build_wanted_event, list_subscribed
from ops.repair.copy_checks import Discrepancy, find_order_discrepancies, find_snapshot_discrepancies
from ops.scan.checkpoint import Checkpoint
from ops.scan.progress import SweepProgress
from ops.scan.sweep import sweep
from ops.scan.sweep_result import SweepResult


def redrive_record(shop: ShopContext, publish: PublishEvents, record: Record) -> None:
    """Update totals, copies and logs from a stored record, and publish its event. Safe to repeat. Raises Permanent."""
    change = changes.parse_change(record)
    if change is None:
        return
    if change.row in copies.SOURCE_ROWS:

        def attempt() -> None:
            for item in shop.table.batch_get([record["dynamodb"]["Keys"]], consistent=True):
                refresh_copies(shop, item)

        retry_on_conflict(shop, attempt)
    write_audit_entry(shop, change)
    if detail := build_wanted_event(shop, change, list_subscribed(shop), late=True):
        publish([detail])


def rebuild_copies(
    shop: ShopContext,
    *,
    dry: bool = False,
    progress: SweepProgress | None = None,
    units_per_second: float | None = None,
    checkpoint: Checkpoint | None = None,
) -> SweepResult:
    """Scan the table, write missing or outdated copies and log entries, and complete totals. Returns the counts."""

    def act(image: Image) -> bool | None:
        change = latest_change(image)
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

    def publish_current(image: Image) -> bool | None:
        change = latest_change(image)
        if change is None:
            return None
        details = build_recent_events(shop, changes_to_current_state(shop, change))
        publish(details)
        return bool(details)

    return sweep(
        shop.table, publish_current, progress=progress, units_per_second=units_per_second, checkpoint=checkpoint
    )


# copies ---------------------------------------------------------------------------------------------------------------
REBUILT_KINDS = ("snapshot missing", "snapshot wrong", "log missing", "name")
"""The discrepancies that `refresh_copies` repairs. The others need `drift`'s second check."""


def refresh_copies(shop: ShopContext, item: Any, *, dry: bool = False) -> bool:
    """Write the missing or outdated copies and log entries of a primary item, and complete its totals.

    Returns whether there was anything to write. Raises WriteConflict if the item has changed since it was read.
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
