"""The stream reader that keeps every copy as its primary says.

Snapshots are guarded by their source's version, logs by the change's id: applying a record again changes nothing.
"""

from typing import Any

from functions import wiring
from functions.dynamodb.store import Table
from functions.dynamodb.streams import Batch, Record
from functions.dynamodb.writes import Changed, Write, delete_older, put, put_newer
from functions.environment import Copies, current
from functions.model import changes, derived
from functions.model.patterns import A12b


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: a batch of stream records in, the records to send again out."""
    environment = current(Copies)
    table = wiring.shop(environment.table_name).table
    batch = Batch(event["Records"], wiring.parking(environment.failures_bucket, "copies"), wiring.failing("copies"))
    followed: list[dict[str, Any]] = []
    for record in batch.waiting():
        batch.apply(record, lambda record: followed.extend(follow(table, record)))
    told = {"records": len(event["Records"]), "changes": followed, "units": wiring.units.taken()}
    wiring.log.info("copied", extra=told)
    return batch.response()


def follow(table: Table, record: Record) -> list[dict[str, Any]]:
    """Bring the copies of a record's item up to it. Returns what was followed, for the log."""
    change = changes.read(record)
    if change is None:
        return []
    todo = derived.following(change)
    for row, copy in todo.put:
        unless_newer(table, put_newer(row, copy))
    for row, copy in todo.delete:
        unless_newer(table, delete_older(row, copy))
    for row, entry in todo.append:
        unless_newer(table, put(row, entry))
    if ended := derived.ended_by(change):
        left = table.partition(A12b, order_id=change.item.order_id)
        types = {row.type for row in ended}
        table.delete([{"PK": image["PK"], "SK": image["SK"]} for image in left if image["type"]["S"] in types])
    return [{"change": change.name, "id": change.id, "order_id": getattr(change.item, "order_id", None)}]


def unless_newer(table: Table, write: Write[Any]) -> None:
    """Write a copy, unless the table has it, or a newer one, already."""
    try:
        table.write(write)
    except Changed:
        return
