"""Imports: create or change products and add stock from a file, and show the progress of an import."""

import csv
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Request, Response
from pydantic import Field, ValidationError

from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import Id, IdempotencyKey, Listed, ResponseModel, examples
from functions.api.http.guard import CSV, NDJSON, REPLACEMENT_CHARACTER, UploadedFile, parse_json_object
from functions.api.http.paging import Cursor, Limit, list_answer
from functions.api.http.problems import (
    MAX_FIELD_LENGTH,
    MalformedRequest,
    field_path,
    problem_responses,
    validation_message,
)
from functions.api.http.router import Router
from functions.api.routes.products import NewProduct
from functions.model.entities import Rejected
from functions.model.errors import InvalidInput, NotAllowed
from functions.shop import imports
from functions.shop.imports import ParsedLine
from functions.shop.lists import ListRequest

router = Router()
MAX_LINE_BYTES = 4096
MAX_NAME = 40
"""How many characters of an unknown column name an error repeats."""


# The code below parses the file of an import.
class ImportLine(NewProduct):
    """A line of an import: a product as in `POST /products`.

    `quantity`: how many pieces to add to the stock of the product.
    """

    quantity: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    model_config = examples()


NUMBER_COLUMNS = ("price", "parts", "quantity", "weight")
BOOLEANS = {"true": True, "false": False}
NDJSON_EXAMPLE = (
    '{"product_id": "mug", "name": "Blue mug", "price": 1250, "currency": "EUR", "quantity": 100}\n'
    '{"product_id": "pot", "name": "Tea pot", "price": 3990, "currency": "EUR", "category": "/kitchen/"}\n'
)
CSV_EXAMPLE = (
    "product_id,name,price,currency,category,quantity\n"
    "mug,Blue mug,1250,EUR,,100\n"
    'pot,"Pot, for tea",3990,EUR,/kitchen/,\n'
)
REQUEST_BODY = {
    "required": True,
    "description": "One product per line, with the fields of `POST /products` and the received `quantity`.",
    "content": {
        NDJSON: {"schema": {"type": "string"}, "example": NDJSON_EXAMPLE},
        CSV: {"schema": {"type": "string"}, "example": CSV_EXAMPLE},
    },
}


def parse_lines(file: UploadedFile) -> list[ParsedLine | Rejected]:
    """Return each line of an import file, either parsed or rejected with a reason. Blank lines are skipped.

    Raises InvalidInput if the column names of a CSV file are not valid.
    """
    numbered = list(enumerate(file.content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1))
    if file.media_type == NDJSON:
        return [_parse_line(number, raw, parse_json_object) for number, raw in numbered if raw.strip()]
    rows = [(number, raw) for number, raw in numbered if raw.strip()]
    if not rows:
        return []
    columns = _parse_column_names(*rows[0])
    return [_parse_line(number, raw, lambda text: _parse_row(columns, text)) for number, raw in rows[1:]]


def _parse_line(number: int, raw: bytes, read: Callable[[str], Mapping[str, Any]]) -> ParsedLine | Rejected:
    try:
        given = dict(ImportLine.model_validate(read(_decode_line(raw))).model_dump(exclude_unset=True))
    except MalformedRequest as error:
        field, why = error.errors[0]
        # Remove the line number from the message: each line is parsed alone, so the parser always reports line 1.
        # `Rejected` has the real number of the line.
        why = why.replace("line 1, ", "")
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        field, why = field_path(found["loc"]), validation_message(found)
    else:
        return ParsedLine(number, given, given.pop("quantity", 0))
    return Rejected(line=number, field="line" if field == "body" else field[:MAX_FIELD_LENGTH], why=why)


def _decode_line(raw: bytes) -> str:
    if len(raw) > MAX_LINE_BYTES:
        raise MalformedRequest(("line", f"must have at most {MAX_LINE_BYTES} bytes"))
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise MalformedRequest(("line", "must be UTF-8")) from None
    if REPLACEMENT_CHARACTER in text:
        raise MalformedRequest(("line", "must be UTF-8"))
    return text.strip()


def _parse_column_names(number: int, raw: bytes) -> list[str]:
    """Return the column names in the first line of a CSV file. Raises InvalidInput if a name is unknown or repeated."""
    try:
        names = [cell.strip() for cell in _split_cells(_decode_line(raw))]
    except MalformedRequest as error:
        raise InvalidInput(f"line {number}", error.errors[0][1]) from None
    for name in names:
        if name not in ImportLine.model_fields:
            known = ", ".join(ImportLine.model_fields)
            raise InvalidInput(f"line {number}", f"has the unknown column {name[:MAX_NAME]!r}; the columns are {known}")
        if names.count(name) > 1:
            raise InvalidInput(f"line {number}", f"has the column {name} twice")
    return names


def _parse_row(columns: list[str], text: str) -> Mapping[str, Any]:
    """Return the values of a CSV line by column name, without empty cells.

    Raises MalformedRequest if the line is not CSV or has a wrong number of cells.
    """
    cells = _split_cells(text)
    if len(cells) != len(columns):
        raise MalformedRequest(("line", f"has {len(cells)} cells for the columns {', '.join(columns)}"))
    return {name: _convert_cell(name, cell) for name, cell in zip(columns, cells, strict=True) if cell}


def _split_cells(text: str) -> list[str]:
    """Split one line of a CSV file into cells. Raises MalformedRequest if the line is not CSV.

    A cell cannot continue on the next line. So an unclosed quote spoils only its own line.
    """
    try:
        ((*cells,),) = csv.reader([text], strict=True)
    except csv.Error as error:
        raise MalformedRequest(("line", f"is not CSV: {error}")) from None
    return cells


def _convert_cell(name: str, cell: str) -> Any:
    """Return the value of a CSV cell in the type of its column.

    If the conversion fails, return the text of the cell. The pydantic model then rejects the text.
    """
    if name in NUMBER_COLUMNS and re.fullmatch(r"-?[0-9]{1,18}", cell):
        return int(cell)
    return BOOLEANS.get(cell, cell) if name == "backorder" else cell


# The code below has the models of the answers, and then the routes.
class ImportAccepted(ResponseModel):
    """An accepted import.

    `lines`: the number of lines in the file. `rejected`: how many lines are invalid and will not be written.
    """

    import_id: str
    lines: int
    rejected: int


class ImportAnswer(ResponseModel):
    """The progress of an import. Each line counts as `written`, `unchanged`, `rejected` or `waiting`.

    `lines`: the number of all lines. `unchanged`: how many lines have values that the product already had. `retried`:
    how many lines needed more than one attempt. `state`: RUNNING while lines are waiting, then DONE.
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


class RejectedLine(ResponseModel):
    """A line that was not written, with its line number.

    `field`: the invalid field, or `line` if the whole line is invalid. `why`: the reason.
    """

    line: int
    field: str
    why: str


@router.post(
    "/products:import", status_code=202, openapi_extensions={**problem_responses(NotAllowed), "x-body": REQUEST_BODY}
)
def import_products(caller: SignedIn, request: Request, key: IdempotencyKey) -> Response[ImportAccepted]:
    """Create or change the products of a file, and add the received quantities to stock. For staff.

    The file is NDJSON, or CSV whose first line has the column names, with at most 5,000 lines and 1 MiB. If a line
    omits a field, an existing product keeps its value, and a new product gets the default of `POST /products`. An
    invalid line is rejected, and all other lines are written. If a product is in the file twice, the first line counts.
    The lines are written after the answer, in no fixed order. Each line is written once. The `Location` header has the
    address of the import's progress.
    """
    file: UploadedFile = request.context["file"]
    body = {"media_type": file.media_type, "sha256": hashlib.sha256(file.content).hexdigest()}
    done = imports.import_products(shop(), caller, key, body, lambda: parse_lines(file))
    headers = {"Location": f"/imports/{done.result['import_id']}"}
    if done.replayed:
        headers["Idempotent-Replayed"] = "true"
    return Response(202, "application/json", ImportAccepted(**done.result), headers=headers)


@router.get("/imports/<import_id>", openapi_extensions=problem_responses(NotAllowed))
def import_(caller: SignedIn, import_id: Id) -> ImportAnswer:
    """Show the progress of an import. For staff. Imports are kept for 90 days."""
    return ImportAnswer.of(imports.get_import_progress(shop(), caller, import_id))


@router.get("/imports/<import_id>/rejected", openapi_extensions=problem_responses(NotAllowed))
def rejected_lines(caller: SignedIn, import_id: Id, limit: Limit = 20, cursor: Cursor = None) -> Listed[RejectedLine]:
    """List the rejected lines of an import with their reasons, sorted by line number. For staff."""
    request = ListRequest(caller, limit, cursor)
    return list_answer(imports.list_rejected_lines(shop(), request, import_id), RejectedLine.of)
