"""Imports: products and stock from a file, and how far that is."""

import csv
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Request, Response
from pydantic import ConfigDict, Field, ValidationError

from functions.api.context import SignedIn, shop
from functions.api.fields import Answer, Id, IdempotencyKey, Listed
from functions.api.guard import NOT_DECODED, File, parsed
from functions.api.paging import Asked, Cursor, Limit, page
from functions.api.problems import LONGEST_FIELD, Malformed, field_of, refuses, why_of
from functions.api.products import NewProduct
from functions.api.routes import Router
from functions.model.entities import Rejected
from functions.model.errors import Invalid, NotAllowed
from functions.model.patterns import B1
from functions.shop import imports
from functions.shop.imports import Line

router = Router()
TAKES_FILES = "POST /products:import"
NDJSON, CSV = "application/x-ndjson", "text/csv"
MEDIA_TYPES = (NDJSON, CSV)
MOST_BYTES = 1024 * 1024
"""Of a file: all of it is one transaction, which takes 4 MB, and one event of a function, which takes 6 as base64."""
LONGEST_LINE_BYTES = 4096


# what is sent ---------------------------------------------------------------------------------------------------------
class ImportLine(NewProduct):
    """A line of an import: a product as it is offered anew. `quantity`: so many of it came in, too."""

    quantity: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    model_config = ConfigDict(json_schema_extra={"examples": []})


NUMBERS = ("price", "parts", "quantity")
SWITCHES = {"true": True, "false": False}
NDJSON_EXAMPLE = (
    '{"product_id": "mug", "name": "Blue mug", "price": 1250, "currency": "EUR", "quantity": 100}\n'
    '{"product_id": "pot", "name": "Tea pot", "price": 3990, "currency": "EUR", "category": "/kitchen/"}\n'
)
CSV_EXAMPLE = (
    "product_id,name,price,currency,category,quantity\n"
    "mug,Blue mug,1250,EUR,,100\n"
    'pot,"Pot, for tea",3990,EUR,/kitchen/,\n'
)
BODY = {
    "required": True,
    "description": "One product a line, as `POST /products` takes it, and how many came in as `quantity`.",
    "content": {
        NDJSON: {"schema": {"type": "string"}, "example": NDJSON_EXAMPLE},
        CSV: {"schema": {"type": "string"}, "example": CSV_EXAMPLE},
    },
}


def lines_of(file: File) -> list[Line | Rejected]:
    """What is in a file, line by line: what can be written, and what cannot, and why. Blank lines are passed over.

    Raises Invalid where the file has no columns that are known.
    """
    numbered = list(enumerate(file.content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1))
    if file.media_type == NDJSON:
        return [_line(number, raw, parsed) for number, raw in numbered if raw.strip()]
    rows = [(number, raw) for number, raw in numbered if raw.strip()]
    if not rows:
        return []
    columns = _columns(*rows[0])
    return [_line(number, raw, lambda text: _of_row(columns, text)) for number, raw in rows[1:]]


def _line(number: int, raw: bytes, read: Callable[[str], Mapping[str, Any]]) -> Line | Rejected:
    try:
        given = dict(ImportLine.model_validate(read(_text(raw))).model_dump(exclude_unset=True))
    except Malformed as error:
        field, why = error.errors[0]
        why = why.replace("line 1, ", "")  # it is the line that is told beside it
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field, why = field_of(found["loc"]), why_of(found)
    else:
        return Line(number, given, given.pop("quantity", 0))
    return Rejected(line=number, field="line" if field == "body" else field[:LONGEST_FIELD], why=why)


def _text(raw: bytes) -> str:
    if len(raw) > LONGEST_LINE_BYTES:
        raise Malformed(("line", f"is longer than {LONGEST_LINE_BYTES} bytes"))
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise Malformed(("line", "is not UTF-8")) from None
    if NOT_DECODED in text:
        raise Malformed(("line", "is not UTF-8"))
    return text.strip()


def _columns(number: int, raw: bytes) -> list[str]:
    """The names of a CSV file's columns, from its first line. Raises Invalid."""
    try:
        names = [cell.strip() for cell in _cells(_text(raw))]
    except Malformed as error:
        raise Invalid(f"line {number}", error.errors[0][1]) from None
    for name in names:
        if name not in ImportLine.model_fields:
            raise Invalid(f"line {number}", "names columns, and one of these is not known here")
        if names.count(name) > 1:
            raise Invalid(f"line {number}", f"names {name} twice")
    return names


def _of_row(columns: list[str], text: str) -> Mapping[str, Any]:
    """What a row says, by column; an empty cell says nothing. Raises Malformed."""
    cells = _cells(text)
    if len(cells) != len(columns):
        raise Malformed(("line", f"has {len(cells)} cells, and there are {len(columns)} columns"))
    return {name: _value(name, cell) for name, cell in zip(columns, cells, strict=True) if cell}


def _cells(text: str) -> list[str]:
    """The cells of one line; none goes on in the next, so that one that is never closed spoils no other."""
    try:
        ((*cells,),) = csv.reader([text], strict=True)
    except csv.Error as error:
        raise Malformed(("line", f"is not CSV: {error}")) from None
    return cells


def _value(name: str, cell: str) -> Any:
    """A cell as the type its column has; as it is, where it is none, for the model to refuse."""
    if name in NUMBERS and re.fullmatch(r"-?[0-9]{1,18}", cell):
        return int(cell)
    return SWITCHES.get(cell, cell) if name == "backorder" else cell


# what is answered -----------------------------------------------------------------------------------------------------
class ImportAccepted(Answer):
    """An import that is on its way. `lines`: how many there are; so many of them were `rejected` at once."""

    import_id: str
    lines: int
    rejected: int


class ImportAnswer(Answer):
    """How far an import is. `lines` are `written`, `unchanged` (the product was like that), `rejected`, or `waiting`.

    `retried`: so many of them took more than one try. `state`: RUNNING until none is waiting, then DONE.
    """

    import_id: str
    state: str
    lines: int
    written: int
    unchanged: int
    rejected: int
    waiting: int
    retried: int
    started_at: str
    ended_at: str | None


class RejectedLine(Answer):
    """A line that is not written: which, what is wrong with which of its fields (`line`: with all of it)."""

    line: int
    field: str
    why: str


@router.post("/products:import", status_code=202, openapi_extensions={**refuses(NotAllowed), "x-body": BODY})
def import_products(caller: SignedIn, request: Request, key: IdempotencyKey) -> Response[ImportAccepted]:
    """Offer the products of a file, or change those there are, and put into stock what came in. For staff.

    NDJSON, or CSV whose first line names the columns; up to 5,000 lines and 1 MiB. What a line leaves out stays as it
    is, of a new product as `POST /products` has it. A line that is wrong is rejected and stops no other; a product that
    stands in the file twice is taken as it comes first. Lines are written soon, in no certain order, each of them once:
    `Location` says how far that is.
    """
    file: File = request.context["file"]
    body = {"media_type": file.media_type, "sha256": hashlib.sha256(file.content).hexdigest()}
    done = imports.import_products(shop(), caller, key, body, lambda: lines_of(file))
    headers = {"Location": f"/imports/{done.result['import_id']}"}
    if done.replayed:
        headers["Idempotent-Replayed"] = "true"
    return Response(202, "application/json", ImportAccepted(**done.result), headers=headers)


@router.get("/imports/<import_id>", openapi_extensions=refuses(NotAllowed))
def import_(caller: SignedIn, import_id: Id) -> ImportAnswer:
    """How far an import is. For staff, for 90 days."""
    return ImportAnswer.of(imports.progress(shop(), caller, import_id))


@router.get("/imports/<import_id>/rejected", openapi_extensions=refuses(NotAllowed))
def rejected_lines(caller: SignedIn, import_id: Id, limit: Limit = 20, cursor: Cursor = None) -> Listed[RejectedLine]:
    """The lines of an import that are not written, in their order, each with what is wrong with it. For staff."""
    return page(
        Asked(caller, B1, (import_id,), cursor),
        lambda after: imports.rejected_lines(shop(), caller, import_id, limit, after),
        RejectedLine.of,
    )
