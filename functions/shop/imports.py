"""Bulk imports of products and stock from a file: one transaction stores the file, then a worker writes its lines.

An import part is a group of at most LINES_PER_PART lines of the file. The transaction stores the import, its import
parts, and the lines of each import part. Through the table's stream, a worker then gets one message for each import
part. The worker writes each line in its own transaction, which also counts the line in the import part. So if the
message is delivered again, the worker resumes at the next line. No line is written twice, and the counts are exact.
"""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from functions.dynamodb.errors import Permanent, TableBusy, WriteImpossible
from functions.dynamodb.keys import Instant, InvalidKeyValue
from functions.dynamodb.writes import Write, WriteConflict, put_if_absent, update
from functions.model.entities import Import, ImportLines, ImportPart, Product, Rejected
from functions.model.errors import InvalidInput, NotFound, UnknownCategory
from functions.model.patterns import IMPORT_LINES_BY_PART, IMPORT_PART_BY_NUMBER, IMPORT_WITH_PARTS, PRODUCT_BY_ID
from functions.model.retention import IMPORT_DAYS
from functions.model.table import IMPORT, IMPORT_LINES, IMPORT_PART, PRODUCT
from functions.shop.idempotency import IdempotentResult, run_idempotently
from functions.shop.lists import ListPage, ListRequest, PagedQuery
from functions.shop.products import add_stock, check_backorder_parts, check_category, create_stock
from functions.shop.shop import Caller, ShopContext
from functions.shop.stock_parts import spread_stock, with_part_count

MAX_LINES = 5_000
LINES_PER_PART = 125
"""How many lines of a file one import part contains.

DynamoDB allows 100 items in a transaction, and that of at most 40 import parts has 82: two for each, the import and its
Command item. The worker's timeout is 30 seconds, and at 10 lines per second, the lowest rate, a part takes 13.
"""


@dataclass(frozen=True)
class ParsedLine:
    """A valid line of an import file.

    `number`: the number of the line in the file. `product`: the values of the product fields that the line contains, by
    field name. `quantity`: the number of pieces to add to the stock.
    """

    number: int
    product: Mapping[str, Any]
    quantity: int


# accepting an import --------------------------------------------------------------------------------------------------
def import_products(
    shop: ShopContext,
    caller: Caller,
    key: str,
    body: Mapping[str, Any],
    read_lines: Callable[[], Sequence[ParsedLine | Rejected]],
) -> IdempotentResult:
    """Store a product file in one transaction. Workers then write its products and stock. Only staff may call it.

    `key`: the idempotency key. `body`: identifies the file, to detect that `key` is used again with another.
    `read_lines`: parses the lines, and returns Rejected for an invalid line. If several lines name the same product,
    only the first is imported, because workers write lines in any order. A rejected line is stored with the reason.

    The result is {"import_id", "lines", "rejected"} with numbers of lines. Raises InvalidInput, IdempotencyKeyReused,
    NotAllowed, and the errors of `read_lines`.
    """
    caller.require_group("staff")

    def decide(shop: ShopContext) -> tuple[list[Write[Any]], dict[str, Any]]:
        lines = _reject_duplicates(read_lines())
        if not 0 < len(lines) <= MAX_LINES:
            raise InvalidInput("body", f"has {len(lines)} lines, but must have 1 to {MAX_LINES}")
        chunks = [lines[start : start + LINES_PER_PART] for start in range(0, len(lines), LINES_PER_PART)]
        now, ttl = shop.now_instant(), int((shop.now() + timedelta(days=IMPORT_DAYS)).timestamp())
        made = Import(import_id=shop.new_id(), count=len(lines), parts=len(chunks), created_at=now, ttl=ttl)
        writes: list[Write[Any]] = [put_if_absent(IMPORT, made)]
        for part, chunk in enumerate(chunks):
            writes += _put_part(made, part, chunk)
        rejected = sum(isinstance(line, Rejected) for line in lines)
        return writes, {"import_id": made.import_id, "lines": len(lines), "rejected": rejected}

    return run_idempotently(shop, caller.id, key, "import_products", body, decide)


def _reject_duplicates(lines: Sequence[ParsedLine | Rejected]) -> list[ParsedLine | Rejected]:
    """Return the lines of a file. A line whose product is already in an earlier line is replaced with Rejected."""
    first: dict[str, int] = {}

    def once(line: ParsedLine | Rejected) -> ParsedLine | Rejected:
        if isinstance(line, Rejected):
            return line
        before = first.setdefault(line.product["product_id"], line.number)
        if before == line.number:
            return line
        return Rejected(line=line.number, field="product_id", why=f"is already in line {before}")

    return [once(line) for line in lines]


def _put_part(import_item: Import, number: int, chunk: Sequence[ParsedLine | Rejected]) -> list[Write[Any]]:
    lines = [line for line in chunk if isinstance(line, ParsedLine)]
    part = ImportPart(
        import_id=import_item.import_id,
        part=number,
        status="QUEUED" if lines else "DONE",
        count=len(lines),
        rejected=tuple(line for line in chunk if isinstance(line, Rejected)),
        created_at=import_item.created_at,
        updated_at=import_item.created_at,
        ttl=import_item.ttl,
    )
    if not lines:
        return [put_if_absent(IMPORT_PART, part)]
    import_lines = ImportLines(
        import_id=import_item.import_id,
        part=number,
        ndjson=_pack_lines(lines),
        created_at=import_item.created_at,
        ttl=import_item.ttl,
    )
    return [put_if_absent(IMPORT_PART, part), put_if_absent(IMPORT_LINES, import_lines)]


def _pack_lines(lines: Sequence[ParsedLine]) -> bytes:
    text = "\n".join(json.dumps(asdict(line), separators=(",", ":"), ensure_ascii=False) for line in lines)
    return gzip.compress(text.encode(), mtime=0)


def _unpack_lines(import_lines: ImportLines) -> list[ParsedLine]:
    return [ParsedLine(**json.loads(line)) for line in gzip.decompress(import_lines.ndjson).splitlines()]


# writing the lines ----------------------------------------------------------------------------------------------------
def write_part(
    shop: ShopContext, import_id: str, number: int, *, is_retry: bool, wait: Callable[[], None]
) -> ImportPart | None:
    """Write the remaining lines of an import part, a group of lines of the file. Safe to repeat.

    Returns the import part with its new counts, or None if it has expired. `number`: that of the part, from 0.
    `is_retry`: whether an earlier attempt did not complete. `wait` is called before each line, to limit the rate.
    Raises TableBusy, and Permanent if the lines of the part do not exist.
    """
    part = shop.table.get(IMPORT_PART_BY_NUMBER, import_id=import_id, part=number)
    if part is None or part.status == "DONE":
        return part
    import_lines = shop.table.get(IMPORT_LINES_BY_PART, import_id=import_id, part=number)
    if import_lines is None:
        raise Permanent("the lines of this import part do not exist")
    lines = _unpack_lines(import_lines)
    while part is not None and part.status == "QUEUED":
        wait()
        part, is_retry = _write_next_line(shop, part, lines[part.done], is_retry, wait), False
    return part


LineOutcome = Literal["written", "unchanged"] | Rejected


@dataclass(frozen=True)
class LinePlan:
    """The writes and the outcome for a line. `resizes`: whether it changes the number of the product's stock items."""

    writes: Sequence[Write[Any]]
    outcome: LineOutcome
    resizes: bool = False


def _write_next_line(
    shop: ShopContext, part: ImportPart, line: ParsedLine, is_retry: bool, wait: Callable[[], None]
) -> ImportPart | None:
    """Write the next line of an import part, count it there, and return the import part.

    If another worker was first, this returns the stored import part, or None if it has expired. A new number of stock
    parts spreads the stock after the write. If this is interrupted, all pieces can still be ordered.
    """
    backoff = shop.table.new_backoff()
    plan = _plan_line(shop, line)
    while True:
        after = _count_line(part, plan.outcome, is_retry, shop.now_instant())
        try:
            shop.table.write(update(IMPORT_PART, part, after), *plan.writes)
        except WriteImpossible:
            # DynamoDB will never accept this transaction, for example because an item is too large. The transaction
            # counts the line in the import part, and `writes` stores the product and its stock. If `writes` is empty,
            # the product cannot be the cause, so raise the error.
            if not plan.writes:
                raise
            # The product may be the cause, so reject the line. The next attempt of this loop does not write the
            # product. It only counts the line as rejected.
            plan = LinePlan([], Rejected(line=line.number, field="line", why="cannot be stored"))
        except WriteConflict as changed:
            if changed.item_type == IMPORT_PART.type:
                return shop.table.get(IMPORT_PART_BY_NUMBER, import_id=part.import_id, part=part.part)
            is_retry = True
            backoff.wait()
            plan = _plan_line(shop, line)
        else:
            if plan.resizes:
                with suppress(TableBusy):
                    spread_stock(shop, line.product["product_id"], wait)
            return after


def _count_line(part: ImportPart, outcome: LineOutcome, is_retry: bool, now: Instant) -> ImportPart:
    """Return the import part with one more finished line, counted as written, unchanged or rejected."""
    done = part.done + 1
    return replace(
        part,
        status="DONE" if done == part.count else "QUEUED",
        done=done,
        written=part.written + (outcome == "written"),
        unchanged=part.unchanged + (outcome == "unchanged"),
        rejected=(*part.rejected, outcome) if isinstance(outcome, Rejected) else part.rejected,
        retried=part.retried + is_retry,
        updated_at=now,
        version=part.version + 1,
    )


def _plan_line(shop: ShopContext, line: ParsedLine) -> LinePlan:
    """Read the stored product of a line. Return what to write for the line."""
    try:
        before = shop.table.get(PRODUCT_BY_ID, product_id=line.product["product_id"])
        return _plan_new_product(shop, line) if before is None else _plan_change(shop, before, line)
    except InvalidKeyValue as error:
        why = "must not be empty, too long, or contain '#' or unprintable characters"
        return LinePlan([], Rejected(line=line.number, field=error.name, why=why))
    except (InvalidInput, UnknownCategory) as error:
        return LinePlan([], Rejected(line=line.number, field=error.field, why=error.why))


def _plan_new_product(shop: ShopContext, line: ParsedLine) -> LinePlan:
    now = shop.now_instant()
    fields = {**line.product}
    parts = fields.pop("parts", 1)
    product = with_part_count(Product(**fields, created_at=now, updated_at=now), parts)
    check_backorder_parts(product)
    check_category(shop, product)
    return LinePlan([put_if_absent(PRODUCT, product), *create_stock(product, line.quantity)], "written")


def _plan_change(shop: ShopContext, before: Product, line: ParsedLine) -> LinePlan:
    """Return the writes for an existing product, without the fields that the line lacks.

    Raises InvalidInput if it changes the currency, which existing orders use, and UnknownCategory.
    """
    if line.product.get("currency", before.currency) != before.currency:
        raise InvalidInput("currency", f"is {before.currency} for this product and cannot be changed by an import")
    wanted = replace(before, **{name: value for name, value in line.product.items() if name != "parts"})
    if "parts" in line.product:
        wanted = with_part_count(wanted, line.product["parts"])
    check_backorder_parts(wanted)
    check_category(shop, wanted, before)
    writes: list[Write[Any]] = []
    now = shop.now_instant()
    if wanted != before:
        writes.append(update(PRODUCT, before, replace(wanted, updated_at=now, version=before.version + 1)))
    writes += add_stock(wanted, line.quantity, now, before)
    return LinePlan(writes, "written" if writes else "unchanged", wanted.parts != before.parts)


# read the progress of an import ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ImportProgress:
    """The progress of an import. `lines`: the number of lines in the file.

    `written`, `unchanged`, `rejected` and `waiting`: how many lines are in each of these states. An unchanged line is
    equal to the stored product. `retried`: how many finished lines needed more than one attempt. `ended_at`: None until
    all lines are finished.
    """

    import_id: str
    state: Literal["RUNNING", "DONE"]
    lines: int
    written: int
    unchanged: int
    rejected: int
    waiting: int
    retried: int
    started_at: Instant
    ended_at: Instant | None


def get_import_progress(shop: ShopContext, caller: Caller, import_id: str) -> ImportProgress:
    """Return the progress of an import, summed over its parts (access pattern B1). Raises NotFound, NotAllowed."""
    made, parts = _get_import_with_parts(shop, caller, import_id)
    waiting = sum(part.count - part.done for part in parts)
    return ImportProgress(
        import_id=import_id,
        state="RUNNING" if waiting else "DONE",
        lines=made.count,
        written=sum(part.written for part in parts),
        unchanged=sum(part.unchanged for part in parts),
        rejected=sum(len(part.rejected) for part in parts),
        waiting=waiting,
        retried=sum(part.retried for part in parts),
        started_at=made.created_at,
        ended_at=None if waiting else max(part.updated_at for part in parts),
    )


def list_rejected_lines(shop: ShopContext, request: ListRequest, import_id: str) -> ListPage[Rejected]:
    """Return the rejected lines of an import with the reasons, in line order (access pattern B1). Only staff may call
    it.

    The cursor is a line number. Each call reads all import parts of the file (at most 40). Raises NotFound, NotAllowed.
    """
    _, parts = _get_import_with_parts(shop, request.caller, import_id)
    paged = PagedQuery(shop, request, IMPORT_WITH_PARTS, {"import_id": import_id})
    last_line_shown = int(paged.after or 0)
    found = sorted(
        (one for part in parts for one in part.rejected if one.line > last_line_shown), key=lambda one: one.line
    )
    limit = request.limit
    return paged.page(found[:limit], str(found[limit - 1].line) if len(found) > limit else None)


def _get_import_with_parts(shop: ShopContext, caller: Caller, import_id: str) -> tuple[Import, list[ImportPart]]:
    caller.require_group("staff")
    found = list(shop.table.query_all(IMPORT_WITH_PARTS, import_id=import_id))
    for made in found:
        if isinstance(made, Import):
            return made, [part for part in found if isinstance(part, ImportPart)]
    raise NotFound("import")
