"""Copies Lambda: it reads the table's stream and updates all copies and totals of an item when the item changes.

A copy repeats data of one item, its source, under another key. An example is the summary of an order. A total is a sum
over several items, such as a product's rating. It is safe to apply a stream record twice, because:
- A snapshot (a copy of the latest version of its source) is overwritten only with a later version of its source.
- A log entry (a copy that records one change of its source) is written only if no entry has the id of the change.
- The amount that an item adds to a total is stored. The total changes only by the difference from the stored amount.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from functions.dynamodb.keys import Row
from functions.dynamodb.record_batch import Record
from functions.dynamodb.stream_batch import StreamBatch
from functions.dynamodb.table import Table
from functions.dynamodb.writes import (
    ConditionFailed,
    Write,
    WriteConflict,
    conflict_if_busy,
    delete_if_older,
    put_if_absent,
    put_if_newer,
    put_if_next,
    update,
)
from functions.model import changes, copies, totals
from functions.model.audit import audit_entry
from functions.model.changes import Change
from functions.model.copies import CopyChanges
from functions.model.entities import Contribution
from functions.model.table import AUDIT_ENTRY, CONTRIBUTION, ORDER, ROWS_BY_TYPE
from functions.model.timelines import merge_timeline
from functions.model.totals import ContributionChange
from functions.runtime import clients, dead_letters, observability
from functions.runtime.environment import CopiesEnvironment, load_environment
from functions.runtime.log import log
from functions.runtime.time_limit import TimeLimit
from functions.shop import customer_names
from functions.shop.shop import ShopContext, retry_on_conflict

TOTALS_SECONDS = 30
"""The time reserved for the totals of a batch, after its last copy. No record is started if less time is left."""

ITEMS_AT_ONCE = 8
"""For how many items of a batch copies are written at the same time. `make bench` compares this number with 1."""


@observability.instrument_handler
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Lambda entry point: process a batch of stream records and return the failed records for retry."""
    environment = load_environment(CopiesEnvironment)
    shop = clients.create_shop(environment.table_name, audit_days=environment.audit_days)
    batch = StreamBatch(
        event["Records"],
        dead_letters.dead_letter_writer(environment.failures_bucket, "copies_reader"),
        observability.failure_logger("copies_reader"),
        TimeLimit(context, TOTALS_SECONDS).is_reached,
    )
    applied: list[AppliedRecord] = []
    batch.apply_by_item(
        lambda record: applied.extend(apply_record(shop, record)), shop.table.run_concurrently, ITEMS_AT_ONCE
    )
    applied.sort(key=lambda one: int(batch.id_of(one.record)))  # in stream order, because threads end in any order
    count_records(shop, batch, [(one.record, one.contribution) for one in applied if one.contribution])
    summary = {
        "records": len(event["Records"]),
        "changes": [one.summary for one in applied],
        "units": clients.capacity_units.consumed_since_last_call(),
    }
    log.info("copies_updated", extra=summary)
    return batch.response()


class AppliedRecord(NamedTuple):
    """A stream record whose copies are written. `contribution`: what it adds to totals. `summary`: for the log."""

    record: Record
    contribution: ContributionChange | None
    summary: dict[str, Any]


def apply_record(shop: ShopContext, record: Record) -> Iterator[AppliedRecord]:
    """Update the copies of the item in a stream record. Yields nothing for no change, such as by a migration."""
    changed = changes.parse_change(record)
    if changed is None:
        return
    # Compute both plans before the first write, so that a malformed record fails before anything is written.
    copies_todo, totals_todo = copies.plan_copy_changes(changed), totals.contribution_change_of(changed)
    write_copies(shop.table, changed, copies_todo)
    write_audit_entry(shop, changed)
    # When a customer is renamed, a worker finds the customer's orders by their summaries, which are copies. The summary
    # of a new order was written only now, and the worker may have missed the order. So update the customer's name in
    # the order.
    if changed.row is ORDER and changed.event_name == "INSERT":
        customer_names.refresh_name(shop, changed.item)
    order_id = getattr(changed.item, "order_id", None)
    yield AppliedRecord(record, totals_todo, {"change": changed.name, "event_id": changed.id, "order_id": order_id})


def write_copies(table: Table, changed: Change, todo: CopyChanges) -> None:
    """Write the planned changes to the copies of a changed item: put snapshots, add log entries, and delete old copies.

    These writes have different keys and conditions of their own, so they are sent at the same time. The copy that shows
    that all other copies are complete (`Snapshot.is_last`) is written last.
    """
    writes: list[Write[Any]] = [put_if_newer(row, item) for row, item in todo.put]
    writes += [delete_if_older(row, item) for row, item in todo.delete]
    writes += [put_if_absent(row, entry) for row, entry in todo.append]
    table.run_concurrently([partial(write_unless_newer, table, write) for write in writes])
    if todo.last:
        _write_last(table, changed, *todo.last)


def write_audit_entry(shop: ShopContext, changed: Change) -> None:
    """Write the entry of the audit trail, if staff made this change. Safe to repeat: a change has one entry."""
    if entry := audit_entry(changed, shop.audit_days):
        write_unless_newer(shop.table, put_if_absent(AUDIT_ENTRY, entry))


def _write_last(table: Table, changed: Change, row: Row[Any], item: Any) -> None:
    """Write the copy that shows that all other copies of this version are complete (`Snapshot.is_last`).

    The caller has written those of this change. If an earlier record could not be processed, this writes all others,
    and the log entries since the stored copy's version.
    """
    previous = changed.before.version if changed.before is not None else 0
    try:
        if previous:
            table.write(put_if_next(row, item, previous, condition_error=ConditionFailed))
        else:
            table.write(put_if_absent(row, item, condition_error=ConditionFailed))
    except ConditionFailed as failed:  # the stored copy does not have the source's previous version
        stored = failed.item.version if failed.item else 0
        if stored >= item.version:
            return  # this record was processed before
        for into, copy in copies.copies_of(changed.row, changed.after).values():
            if into is not row:
                write_unless_newer(table, put_if_newer(into, copy))
        for event in merge_timeline([changed.after]):
            if stored < event.version < changed.version:
                for into, entry in copies.log_entries(changes.past_change(changed.after, event)):
                    write_unless_newer(table, put_if_absent(into, entry))
        write_unless_newer(table, put_if_newer(row, item))


def write_unless_newer(table: Table, write: Write[Any]) -> None:
    """Send a conditional write of a copy. Ignore a failed condition: this or a later change is already stored."""
    try:
        table.write(write)
    except WriteConflict:
        return


# totals ---------------------------------------------------------------------------------------------------------------
CountedRecord = tuple[Record, ContributionChange]
"""A stream record, and what its item adds to totals after the change."""
MAX_FOLDED_ITEMS = 80
"""The most items in a transaction. DynamoDB allows 100; 20 are for totals that lose a contribution."""


def count_records(shop: ShopContext, batch: StreamBatch, counted: Sequence[CountedRecord]) -> None:
    """Update the totals for all records of a batch, whose copies are written already.

    Many orders change the same totals, and DynamoDB runs only one transaction at a time on an item. So several records
    share a transaction. If it fails, each record is counted alone, so that none fails because of another.
    """
    for group in _fold(counted):
        if len(group) > 1:
            try:
                _update(shop, [contribution for _, contribution in group])
                continue
            except Exception as error:  # noqa: BLE001  the calls below find out which record fails, and why
                log.info("totals_split", extra={"records": len(group), "error": type(error).__name__})
        for record, contribution in group:
            batch.apply(record, lambda _, contribution=contribution: _update(shop, [contribution]))  # type: ignore[misc]


def _fold(counted: Sequence[CountedRecord]) -> Iterator[list[CountedRecord]]:
    """Group the latest record of each source item by transaction, so that few change a busy total."""
    latest = {contribution.source_id: (record, contribution) for record, contribution in counted}
    uses = Counter(where for _, contribution in latest.values() for where in contribution.contributions)
    group: list[CountedRecord] = []
    keys: set[str] = set()
    for record, contribution in sorted(latest.values(), key=lambda one: _busiest_total(one[1], uses)):
        more = keys | contribution.contributions.keys()
        if group and len(group) + 1 + len(more) > MAX_FOLDED_ITEMS:
            yield group
            group, more = [], set(contribution.contributions)
        group.append((record, contribution))
        keys = more
    if group:
        yield group


def _busiest_total(contribution: ContributionChange, uses: Mapping[str, int]) -> tuple[int, str]:
    """Return a key that sorts contributions: first those to the totals that most records of the batch change."""
    return min((-uses[where], where) for where in contribution.contributions)


def _update(shop: ShopContext, contributions: Sequence[ContributionChange]) -> None:
    retry_on_conflict(shop, lambda: update_totals(shop, *contributions))


def update_totals(shop: ShopContext, *contributions: ContributionChange) -> None:
    """Update the totals (such as a rating) to which items add amounts, and store the amounts. Safe to repeat.

    Raises WriteConflict if another writer changed the same totals after this function read them.
    """
    if writes := total_writes(shop, *contributions):
        shop.table.write(*writes)


def total_writes(shop: ShopContext, *contributions: ContributionChange) -> list[Write[Any]]:
    """Return the writes that update the totals to which items add amounts. Returns [] if they are up to date.

    `contributions`: for each source item, such as a review, the amounts that it adds now.
    """
    keys = {
        totals.total_key(row, item): row.key_of(item)
        for contribution in contributions
        for row, item in contribution.contributions.values()
    }
    marks = [CONTRIBUTION.key(source=contribution.source_id) for contribution in contributions]
    found = shop.table.batch_get([*marks, *keys.values()], consistent=True)
    counted = {item.source: item for item in found if isinstance(item, Contribution)}
    obsolete = {
        f"{key['PK']['S']} / {key['SK']['S']}": key
        for contribution in contributions
        for key in totals.obsolete_total_keys(contribution, counted.get(contribution.source_id))
    }
    if elsewhere := [key for where, key in obsolete.items() if where not in keys]:
        # This read must be consistent: no condition of the write checks that a missing total is still missing.
        found += shop.table.batch_get(elsewhere, consistent=True)
    stored = {
        totals.total_key(row, item): item
        for item in found
        if (row := ROWS_BY_TYPE[type(item).__name__]) is not CONTRIBUTION
    }
    current, planned = dict(stored), dict[str, tuple[Row[Any], Any, Any]]()
    for contribution in contributions:
        mark = counted.get(contribution.source_id)
        for row, _, after in totals.plan_total_writes(contribution, mark, current, shop.now()):
            where = totals.total_key(row, after)
            current[where] = after
            planned[where] = (row, mark if row is CONTRIBUTION else stored.get(where), after)
    return [
        conflict_if_busy(
            put_if_absent(row, replace(after, version=1))
            if before is None
            else update(row, before, replace(after, version=before.version + 1))
        )
        for row, before, after in planned.values()
    ]
