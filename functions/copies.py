"""The stream reader that keeps every copy as its primary says.

Snapshots are guarded by their source's version, logs by the change's id, totals by what is counted already: applying a
record again changes nothing.
"""

from typing import Any

from functions import wiring
from functions.dynamodb.store import Table
from functions.dynamodb.streams import Batch, Record
from functions.dynamodb.writes import Changed, Write, change, delete_older, delete_older_unless, put, put_newer
from functions.environment import Copies, current
from functions.model import changes, counters, derived
from functions.model.changes import Change
from functions.model.derived import Following
from functions.model.entities import ArchivedOrder, Counted
from functions.model.patterns import A12b
from functions.model.table import ARCHIVED_ORDER, BY_TYPE, COUNTED, ORDER
from functions.shop import names
from functions.shop.shop import Shop, decided_again


@wiring.observed("copies")
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: a batch of stream records in, the records to send again out."""
    environment = current(Copies)
    shop = wiring.shop(environment.table_name)
    batch = Batch(event["Records"], wiring.parking(environment.failures_bucket, "copies"), wiring.failing("copies"))
    followed: list[dict[str, Any]] = []
    for record in batch.waiting():
        batch.apply(record, lambda record: followed.extend(follow(shop, record)))
    told = {"records": len(event["Records"]), "changes": followed, "units": wiring.units.taken()}
    wiring.log.info("copied", extra=told)
    return batch.response()


def follow(shop: Shop, record: Record) -> list[dict[str, Any]]:
    """Bring the copies and totals of a record's item up to it. Returns what was followed, for the log."""
    changed = changes.read(record)
    if changed is None:
        return []
    # Both are known before anything is written: what cannot be read leaves nothing half done.
    copying, counting = derived.following(changed), counters.counting(changed)
    copy(shop.table, changed, copying)
    if counting:
        decided_again(shop, lambda: count(shop, counting))
    if changed.row is ORDER and changed.on == "INSERT":  # once its summary is there, whoever is renamed finds it
        names.bring_up(shop, changed.item)
    return [{"change": changed.name, "event_id": changed.id, "order_id": getattr(changed.item, "order_id", None)}]


def copy(table: Table, changed: Change, todo: Following) -> None:
    """Bring the copies of a changed item up to it."""
    for row, item in todo.put:
        unless_newer(table, put_newer(row, item))
    for row, item in todo.delete:
        unless_newer(table, delete_older(row, item))
    for row, entry in todo.append:
        unless_newer(table, put(row, entry))
    if derived.ended_by(changed):
        for write in ended_copies(table, changed.after):
            unless_newer(table, write)


def ended_copies(table: Table, stub: ArchivedOrder) -> list[Write[Any]]:
    """The writes that delete the copies that have no place beside a stub, unless they are of a later life of the order,
    or belong to one that is being restored."""
    types = {row.type: row for row in derived.ENDED_BY[ARCHIVED_ORDER]}
    return [
        delete_older_unless(row, {"PK": image["PK"], "SK": image["SK"]}, stub.version, changes.RESTORED)
        for image in table.partition(A12b, order_id=stub.order_id)
        if (row := types.get(image["type"]["S"])) and changes.RESTORED not in image
    ]


def unless_newer(table: Table, write: Write[Any]) -> None:
    """Write a copy, unless the table has it, or a newer one, already."""
    try:
        table.write(write)
    except Changed:
        return


def count(shop: Shop, todo: counters.Counting) -> None:
    """Bring the totals up to what an item counts for: one BatchGet, one transaction with the mark that it is counted.

    Raises Changed where another item was counted in the same totals meanwhile.
    """
    if writes := to_count(shop, todo):
        shop.table.write(*writes)


def to_count(shop: Shop, todo: counters.Counting) -> list[Write[Any]]:
    """The writes that bring the totals up to what an item counts for; none where they are."""
    keys = [COUNTED.key(source=todo.source), *(row.key_of(part) for row, part in todo.parts.values())]
    found = shop.table.batch_get(keys, consistent=True)
    mark = next((item for item in found if isinstance(item, Counted)), None)
    if elsewhere := counters.elsewhere(todo, mark):
        found += shop.table.batch_get(elsewhere, consistent=True)
    totals = {counters.place(BY_TYPE[type(item).__name__], item): item for item in found if item is not mark}
    return [
        put(row, after) if before is None else change(row, before, after)
        for row, before, after in counters.counted(todo, mark, totals, shop.now())
    ]
