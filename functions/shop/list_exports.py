"""Export the orders, invoices, payments or refunds of a time range to files, as CSV and as NDJSON.

A request stores a ListExport item. Through the table's stream, a worker gets a message and writes the first part of the
list: two objects, one for each format. Then it saves the position in the ListExport item, and this change requests the
next part in the same way. So an invocation never runs long, and a crash repeats one part at most.

The names of the objects contain a hash of the rows. If two deliveries of a message read different rows, because an
order changed in between, they write different objects. Only the one that saves its hash in the item is a part.
"""

import csv
import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from functions.dynamodb.keys import Instant
from functions.dynamodb.writes import Write, WriteConflict, put_if_absent, update
from functions.model.entities import ListExport, ListName
from functions.model.errors import InvalidInput
from functions.model.flat_columns import FLAT_LISTS
from functions.model.patterns import LIST_EXPORT_BY_ID
from functions.model.retention import EXPORT_DAYS
from functions.model.table import LIST_EXPORT
from functions.shop.feed import MoneyEntry, read_list
from functions.shop.idempotency import IdempotentResult, run_idempotently
from functions.shop.shop import Caller, ShopContext, require_found

MAX_DAYS = 366
ROWS_PER_PART = 10_000
MAX_PARTS = 500
"""With more parts, the answer with two links for each part could exceed the 6 MB of a Lambda's answer."""
PAGE = 500
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A spreadsheet runs a cell that begins so as a formula. https://owasp.org/www-community/attacks/CSV_Injection"""

FlatRow = Mapping[str, Any]
"""A row by column name. A value is a text, a number, a boolean or None."""
StorePart = Callable[[str, bytes, str], None]
"""Stores an object of a part: gets its key, its content and its media type. Safe to repeat."""


def request_export(
    shop: ShopContext, caller: Caller, key: str, name: ListName, since: Instant, until: Instant
) -> IdempotentResult:
    """Request the export of a list from `since` (included) to `until` (excluded). Only staff may call it.

    `key`: the idempotency key. The result is {"export_id"}. Raises InvalidInput if the range is empty or has more than
    MAX_DAYS days, IdempotencyKeyReused and NotAllowed.
    """
    caller.require_group("staff")
    check_range(since, until)

    def decide(shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        now, ttl = shop.now_instant(), int((shop.now() + timedelta(days=EXPORT_DAYS)).timestamp())
        made = ListExport(
            export_id=shop.new_id(),
            list=name,
            since=since,
            until=until,
            status="REQUESTED",
            created_at=now,
            updated_at=now,
            ttl=ttl,
        )
        return [put_if_absent(LIST_EXPORT, made)], {"export_id": made.export_id}

    body = {"list": name, "from": since, "to": until}
    return run_idempotently(shop, caller.id, key, "request_export", body, decide)


def check_range(since: Instant, until: Instant) -> None:
    """Raise InvalidInput if the time range is empty or has more than MAX_DAYS days."""
    if since >= until:
        raise InvalidInput("from", "must be before to")
    if datetime.fromisoformat(until) - datetime.fromisoformat(since) > timedelta(days=MAX_DAYS):
        raise InvalidInput("to", f"must be at most {MAX_DAYS} days after from")


def get_export(shop: ShopContext, caller: Caller, export_id: str) -> ListExport:
    """Return an export with its progress (access pattern B4). Only staff may call it. Raises NotFound, NotAllowed."""
    caller.require_group("staff")
    return require_found(shop.table.get(LIST_EXPORT_BY_ID, export_id=export_id), "export")


# writing the parts ----------------------------------------------------------------------------------------------------
def write_next_part(
    shop: ShopContext, export_id: str, version: int, store: StorePart, is_out_of_time: Callable[[], bool]
) -> ListExport | None:
    """Write the next part of an export, and save the position after it. Safe to repeat.

    `version`: the version of the export that requested the part. If time runs out, the part is shorter. Returns the
    export after the write, or None if the export has expired or another delivery has saved the part. Raises TableBusy,
    and the errors of `store`; then nothing is saved.
    """
    before = shop.table.get(LIST_EXPORT_BY_ID, export_id=export_id)
    if before is None or before.version != version:
        return None
    read = read_rows(shop, before.list, before.since, before.until, before.position, is_out_of_time)
    ndjson = to_ndjson(read.rows)
    hashes = (*before.part_hashes, *([hashlib.sha256(ndjson).hexdigest()[:16]] if read.rows else []))
    after = replace(
        before,
        status="DONE" if read.after is None else "FAILED" if len(hashes) >= MAX_PARTS else "RUNNING",
        updated_at=shop.now_instant(),
        rows=before.rows + len(read.rows),
        part_hashes=hashes,
        position=read.after,
        version=version + 1,
    )
    if read.rows:
        store(f"{after.object_names[-1]}.csv", to_csv(before.list, read.rows), "text/csv")
        store(f"{after.object_names[-1]}.ndjson", ndjson, "application/x-ndjson")
    try:
        shop.table.write(update(LIST_EXPORT, before, after))
    except WriteConflict:
        return None
    return after


@dataclass(frozen=True)
class RowsRead:
    """Rows of a list. `after`: the position after which the next rows start; None if these are the last rows."""

    rows: Sequence[FlatRow]
    after: str | None


def read_rows(
    shop: ShopContext,
    name: ListName,
    since: Instant,
    until: Instant,
    after: str | None,
    is_out_of_time: Callable[[], bool] = lambda: False,
) -> RowsRead:
    """Return the next rows of a list, oldest first: about ROWS_PER_PART, or fewer if time runs out. Safe to repeat."""
    rows: list[FlatRow] = []
    while True:
        page = read_list(shop, name, since=since, until=until, after=after, limit=min(PAGE, ROWS_PER_PART))
        rows += (_flatten(name, item) for item in page.items)
        after = page.after
        if after is None or len(rows) >= ROWS_PER_PART or is_out_of_time():
            return RowsRead(rows, after)


def _flatten(name: ListName, item: Any) -> FlatRow:
    """Return the row of an item, with None for what it lacks: of archived items, most amounts or all but ids."""
    columns, known = FLAT_LISTS[name].columns, {}
    if isinstance(item, MoneyEntry):
        entry, item = item.entry, item.item
        known = {columns[0]: entry.id, "order_id": entry.order_id, "created_at": entry.created_at}
    return {column: known.get(column, getattr(item, column, None)) for column in columns}


# the two formats ------------------------------------------------------------------------------------------------------
def to_csv(name: ListName, rows: Sequence[FlatRow], *, has_header: bool = True) -> bytes:
    """Return rows as CSV (RFC 4180, UTF-8). A text that begins like a formula gets a single quote before it."""
    text = io.StringIO()
    columns = FLAT_LISTS[name].columns
    writer = csv.writer(text)
    if has_header:
        writer.writerow(columns)
    writer.writerows([_to_cell(row[column]) for column in columns] for row in rows)
    return text.getvalue().encode()


def _to_cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


def to_ndjson(rows: Sequence[FlatRow]) -> bytes:
    """Return rows as NDJSON: one JSON object on each line, with numbers as numbers, and null for an unknown value."""
    return "".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n" for row in rows).encode()
