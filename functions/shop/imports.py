"""Imports: products and stock from a file, accepted by one write, then written line by line.

One transaction takes the whole file: the import, its parts, and the lines of each. The table's stream tells of every
part, and each line is written by one transaction with the part that counts it. So a part that comes again goes on where
it was, no line is written twice, and the report is what happened: it is kept by the same writes.
"""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from functions.dynamodb.keys import BadKey, Instant
from functions.dynamodb.patience import Impossible
from functions.dynamodb.store import Page
from functions.dynamodb.streams import Permanent
from functions.dynamodb.writes import Changed, Write, change, put
from functions.model.entities import Import, ImportLines, ImportPart, Product, Rejected
from functions.model.errors import Invalid, NotFound
from functions.model.lives import IMPORT_DAYS
from functions.model.patterns import A7, B1, B2, B3
from functions.model.table import IMPORT, IMPORT_LINES, IMPORT_PART, PRODUCT
from functions.shop.keyed import Answer, once_per_key
from functions.shop.products import first_stock, more_stock, must_have_one_debt
from functions.shop.shop import Caller, Shop

MOST_LINES = 5_000
PART_LINES = 125
"""Two items for each part, the import and its command: 82 of the 100 that a transaction takes. Written at 10 lines
a second, the least there may be, a part takes 13 of the 30 seconds that its function may run."""


@dataclass(frozen=True)
class Line:
    """A line that can be written. `product`: what it says of one, by field; what it leaves out is not there."""

    number: int
    product: Mapping[str, Any]
    quantity: int


# accepting it ---------------------------------------------------------------------------------------------------------
def import_products(
    shop: Shop, caller: Caller, key: str, body: Mapping[str, Any], read: Callable[[], Sequence[Line | Rejected]]
) -> Answer:
    """Take a file, whole or not at all; its lines are written afterwards. Keyed. For staff.

    `body` tells it from any other, `read` reads its lines. A product that stands in it twice is taken once, as it comes
    first: nothing says which of two parts is written first. Result: {"import_id", "lines", "rejected"}. Raises
    Invalid, KeyReused, NotAllowed, and whatever `read` does.
    """
    caller.must_be("staff")

    def decide() -> tuple[list[Write[Any]], dict[str, Any]]:
        lines = _each_once(read())
        if not 0 < len(lines) <= MOST_LINES:
            raise Invalid("body", f"has {len(lines)} lines, and must have 1 to {MOST_LINES}")
        chunks = [lines[start : start + PART_LINES] for start in range(0, len(lines), PART_LINES)]
        now, ttl = shop.instant(), int((shop.now() + timedelta(days=IMPORT_DAYS)).timestamp())
        made = Import(import_id=shop.new_id(), count=len(lines), parts=len(chunks), created_at=now, ttl=ttl)
        writes: list[Write[Any]] = [put(IMPORT, made)]
        for part, chunk in enumerate(chunks):
            writes += _of_part(made, part, chunk)
        rejected = sum(isinstance(line, Rejected) for line in lines)
        return writes, {"import_id": made.import_id, "lines": len(lines), "rejected": rejected}

    return once_per_key(shop, caller.id, key, "import_products", body, decide)


def _each_once(lines: Sequence[Line | Rejected]) -> list[Line | Rejected]:
    """The lines, those rejected that are about a product which one before is about."""
    first: dict[str, int] = {}

    def once(line: Line | Rejected) -> Line | Rejected:
        if isinstance(line, Rejected):
            return line
        before = first.setdefault(line.product["product_id"], line.number)
        if before == line.number:
            return line
        return Rejected(line=line.number, field="product_id", why=f"stands in line {before} already")

    return [once(line) for line in lines]


def _of_part(made: Import, number: int, chunk: Sequence[Line | Rejected]) -> list[Write[Any]]:
    lines = [line for line in chunk if isinstance(line, Line)]
    part = ImportPart(
        import_id=made.import_id,
        part=number,
        status="QUEUED" if lines else "DONE",
        count=len(lines),
        rejected=tuple(line for line in chunk if isinstance(line, Rejected)),
        created_at=made.created_at,
        updated_at=made.created_at,
        ttl=made.ttl,
    )
    if not lines:
        return [put(IMPORT_PART, part)]
    kept = ImportLines(
        import_id=made.import_id, part=number, ndjson=_packed(lines), created_at=made.created_at, ttl=made.ttl
    )
    return [put(IMPORT_PART, part), put(IMPORT_LINES, kept)]


def _packed(lines: Sequence[Line]) -> bytes:
    text = "\n".join(json.dumps(asdict(line), separators=(",", ":"), ensure_ascii=False) for line in lines)
    return gzip.compress(text.encode(), mtime=0)


def _unpacked(kept: ImportLines) -> list[Line]:
    return [Line(**json.loads(line)) for line in gzip.decompress(kept.ndjson).splitlines()]


# writing it -----------------------------------------------------------------------------------------------------------
def write_part(shop: Shop, import_id: str, number: int, *, again: bool, wait: Callable[[], None]) -> ImportPart | None:
    """Write the lines of a part that are not done yet, in their order; None where its time is over. Repeatable.

    `again`: it was tried before, and broke off. `wait` is called before each line. Raises Busy, and Permanent where its
    lines are gone.
    """
    part = shop.table.get(B2, import_id=import_id, part=number)
    if part is None or part.status == "DONE":
        return part
    kept = shop.table.get(B3, import_id=import_id, part=number)
    if kept is None:
        raise Permanent("the lines of this part of an import are not there")
    lines = _unpacked(kept)
    while part is not None and part.status == "QUEUED":
        wait()
        part, again = _one_more(shop, part, lines[part.done], again), False
    return part


Outcome = Literal["written", "unchanged"] | Rejected


def _one_more(shop: Shop, part: ImportPart, line: Line, again: bool) -> ImportPart | None:
    """The part with one line more done: by this, or by another that was faster."""
    waiting = shop.table.patience()
    writes, outcome = _decided(shop, line)
    while True:
        after = _counted(part, outcome, again, shop.instant())
        try:
            shop.table.write(change(IMPORT_PART, part, after), *writes)
        except Impossible:
            if not writes:  # so it is not the line that the table does not take
                raise
            writes, outcome = [], Rejected(line=line.number, field="line", why="cannot be stored")
        except Changed as changed:
            if changed.row is IMPORT_PART:
                return shop.table.get(B2, import_id=part.import_id, part=part.part)
            again = True
            waiting.pause()
            writes, outcome = _decided(shop, line)
        else:
            return after


def _counted(part: ImportPart, outcome: Outcome, again: bool, now: Instant) -> ImportPart:
    """The part with a line more, counted as what it came to."""
    done = part.done + 1
    return replace(
        part,
        status="DONE" if done == part.count else "QUEUED",
        done=done,
        written=part.written + (outcome == "written"),
        unchanged=part.unchanged + (outcome == "unchanged"),
        rejected=(*part.rejected, outcome) if isinstance(outcome, Rejected) else part.rejected,
        retried=part.retried + again,
        updated_at=now,
        version=part.version + 1,
    )


def _decided(shop: Shop, line: Line) -> tuple[list[Write[Any]], Outcome]:
    """What a line comes to, as things stand, and the writes that make it so."""
    try:
        before = shop.table.get(A7, product_id=line.product["product_id"])
        writes = _new(shop, line) if before is None else _changed(shop, before, line)
    except BadKey as error:
        return [], Rejected(line=line.number, field=error.name, why="cannot stand in a key")
    except Invalid as error:
        return [], Rejected(line=line.number, field=error.field, why=error.why)
    return writes, "written" if writes else "unchanged"


def _new(shop: Shop, line: Line) -> list[Write[Any]]:
    now = shop.instant()
    product = Product(**line.product, created_at=now, updated_at=now)
    must_have_one_debt(product)
    return [put(PRODUCT, product), *first_stock(product, line.quantity)]


STAYS = ("currency", "parts")
"""What no line changes: orders were placed in the one, and the stock lies in the others."""


def _changed(shop: Shop, before: Product, line: Line) -> list[Write[Any]]:
    """The writes for a product that is there; what the line leaves out stays as it is."""
    for name in STAYS:
        if line.product.get(name, getattr(before, name)) != getattr(before, name):
            raise Invalid(name, f"is {getattr(before, name)} for this product, and stays so")
    wanted = replace(before, **line.product)
    must_have_one_debt(wanted)
    writes: list[Write[Any]] = []
    if wanted != before:
        writes.append(change(PRODUCT, before, replace(wanted, updated_at=shop.instant(), version=before.version + 1)))
    return [*writes, *more_stock(before, line.quantity)]


# asking for it --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Progress:
    """How far an import is. `retried`: lines that took more than one try, among the others. `ended_at`: once all are
    done."""

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


def progress(shop: Shop, caller: Caller, import_id: str) -> Progress:
    """B1: the sum of what its parts say. For staff. Raises NotFound, NotAllowed."""
    made, parts = _whole(shop, caller, import_id)
    waiting = sum(part.count - part.done for part in parts)
    return Progress(
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


def rejected_lines(shop: Shop, caller: Caller, import_id: str, limit: int, after: str | None) -> Page[Rejected]:
    """B1: which lines are not written and why, in their order. For staff. Raises NotFound, NotAllowed.

    An import has at most so many parts that all of them are read for every page.
    """
    _, parts = _whole(shop, caller, import_id)
    behind = int(after or 0)
    found = sorted((one for part in parts for one in part.rejected if one.line > behind), key=lambda one: one.line)
    return Page(tuple(found[:limit]), str(found[limit - 1].line) if len(found) > limit else None)


def _whole(shop: Shop, caller: Caller, import_id: str) -> tuple[Import, list[ImportPart]]:
    caller.must_be("staff")
    found = list(shop.table.every(B1, import_id=import_id))
    for made in found:
        if isinstance(made, Import):
            return made, [part for part in found if isinstance(part, ImportPart)]
    raise NotFound("import")
