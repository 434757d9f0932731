"""Copies Lambda: it reads the table's stream and updates all copies and totals of an item when the item changes.

A copy repeats data of one item, its source, under another key. An example is the summary of an order. A total is a sum
over several items, such as a product's rating. It is safe to apply a stream record twice, because:
- A snapshot (a copy of the latest version of its source) is overwritten only with a later version of its source.
- A log entry (a copy that records one change of its source) is written only if no entry has the id of the change.
- The amount that an item adds to a total is stored. The total changes only by the difference from the stored amount.
"""

from typing import Any

from functions.dynamodb.record_batch import Record
from functions.dynamodb.stream_batch import StreamBatch
from functions.dynamodb.table import Table
from functions.dynamodb.writes import (
    Write,
    WriteConflict,
    delete_if_older,
    delete_if_older_without,
    put_if_absent,
    put_if_newer,
    update,
)
from functions.model import changes, copies, totals
from functions.model.changes import Change
from functions.model.copies import CopyChanges
from functions.model.entities import ArchivedOrder, Counted
from functions.model.patterns import ORDER_ITEM_COLLECTION
from functions.model.table import ARCHIVED_ORDER, COUNTED, ORDER, ROWS_BY_TYPE
from functions.runtime import clients, dead_letters, observability
from functions.runtime.environment import CopiesEnvironment, load_environment
from functions.runtime.log import log
from functions.shop import customer_names
from functions.shop.shop import Shop, decide_with_eventual_reads


@observability.instrument_handler
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: process a batch of stream records and return the failed ones for retry."""
    environment = load_environment(CopiesEnvironment)
    shop = clients.create_shop(environment.table_name)
    batch = StreamBatch(
        event["Records"],
        dead_letters.dead_letter_writer(environment.failures_bucket, "copies"),
        observability.failure_logger("copies"),
    )
    followed: list[dict[str, Any]] = []
    for record in batch.ready_records():
        batch.apply(record, lambda record: followed.extend(apply_record(shop, record)))
    summary = {
        "records": len(event["Records"]),
        "changes": followed,
        "units": clients.capacity_units.consumed_since_last_call(),
    }
    log.info("copies_updated", extra=summary)
    return batch.response()


def apply_record(shop: Shop, record: Record) -> list[dict[str, Any]]:
    """Update the copies and totals that are derived from the item in a stream record.

    Returns a list with one summary of the change for the log. Returns [] if the record does not count as a change, for
    example because a migration wrote it.
    """
    changed = changes.parse_change(record)
    if changed is None:
        return []
    # Compute both plans before the first write, so that a malformed record fails before anything is written.
    copies_todo, totals_todo = copies.plan_copy_changes(changed), totals.contribution_change_of(changed)
    write_copies(shop.table, changed, copies_todo)
    if totals_todo:
        decide_with_eventual_reads(shop, lambda shop: update_totals(shop, totals_todo))
    # When a customer is renamed, a worker finds the customer's orders by their summaries, which are copies. The summary
    # of a new order was written only now, and the worker may have missed the order. So update the customer's name in
    # the order.
    if changed.row is ORDER and changed.event_name == "INSERT":
        customer_names.refresh_name(shop, changed.item)
    return [{"change": changed.name, "event_id": changed.id, "order_id": getattr(changed.item, "order_id", None)}]


def write_copies(table: Table, changed: Change, todo: CopyChanges) -> None:
    """Write the planned changes to the copies of a changed item.

    Puts snapshots (copies of the latest version), adds log entries (copies that record one change), and deletes copies
    that are no longer needed.
    """
    for row, item in todo.put:
        write_unless_newer(table, put_if_newer(row, item))
    for row, item in todo.delete:
        write_unless_newer(table, delete_if_older(row, item))
    for row, entry in todo.append:
        write_unless_newer(table, put_if_absent(row, entry))
    if copies.copies_removed_by(changed):
        for write in copy_deletions(table, changed.after):
            write_unless_newer(table, write)


def copy_deletions(table: Table, stub: ArchivedOrder) -> list[Write[Any]]:
    """Return the writes that delete the copies of an archived order (its lines and timeline) from the table.

    `stub`: the small item that replaced the order. The writes do not delete copies of a later version of the order, or
    copies that were restored from the archive.
    """
    types = {row.type: row for row in copies.COPIES_REMOVED_BY[ARCHIVED_ORDER]}
    return [
        delete_if_older_without(row, {"PK": image["PK"], "SK": image["SK"]}, stub.version, changes.RESTORED_ATTRIBUTE)
        for image in table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=stub.order_id)
        if (row := types.get(image["type"]["S"])) and changes.RESTORED_ATTRIBUTE not in image
    ]


def write_unless_newer(table: Table, write: Write[Any]) -> None:
    """Send a conditional write of a copy. Ignore a failed condition: this change or a later one is already stored."""
    try:
        table.write(write)
    except WriteConflict:
        return


def update_totals(shop: Shop, todo: totals.ContributionChange) -> None:
    """Update the totals (such as a rating) to which an item adds amounts. Safe to repeat.

    One transaction writes the totals and stores the item's amounts, so that a repeated call does not add them a second
    time. Raises WriteConflict if another writer changed the same totals after this function read them.
    """
    if writes := total_writes(shop, todo):
        shop.table.write(*writes)


def total_writes(shop: Shop, todo: totals.ContributionChange) -> list[Write[Any]]:
    """Return the writes that update the totals to which an item adds amounts. Returns [] if they are up to date.

    For example, a review adds its stars to the rating of its product. `todo`: the amounts that the item adds now.
    """
    keys = [COUNTED.key(source=todo.source_id), *(row.key_of(part) for row, part in todo.contributions.values())]
    found = shop.table.batch_get(keys, consistent=True)
    mark = next((item for item in found if isinstance(item, Counted)), None)
    if elsewhere := totals.obsolete_total_keys(todo, mark):
        found += shop.table.batch_get(elsewhere, consistent=True)
    stored = {totals.total_key(ROWS_BY_TYPE[type(item).__name__], item): item for item in found if item is not mark}
    return [
        put_if_absent(row, after) if before is None else update(row, before, after)
        for row, before, after in totals.plan_total_writes(todo, mark, stored, shop.now())
    ]
