"""Import files: accepted lines, rejected lines with their reasons, and the progress of an import."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from functions.api.http.guard import CSV, MAX_FILE_BYTES, NDJSON, UploadedFile
from functions.api.routes.imports import MAX_LINE_BYTES, parse_lines
from functions.model.errors import InvalidInput
from functions.shop.imports import MAX_LINES, ParsedLine
from proof.support.http_client import STAFF, ApiHarness, HandlerResponse
from tests.api.test_fields import REGULAR_EXPRESSION

CUP: dict[str, Any] = {"product_id": "cup", "name": "Cup", "price": 700, "currency": "EUR"}


def ndjson(*lines: Any) -> str:
    return "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)


def cups(many: int, **changed: Any) -> str:
    return ndjson(*({**CUP, "product_id": f"cup-{number}", **changed} for number in range(many)))


def import_of(api: ApiHarness, accepted: HandlerResponse) -> Any:
    assert accepted.status == 202, accepted.text
    return api.call("GET", accepted.headers["location"], STAFF).body


def rejected(api: ApiHarness, accepted: HandlerResponse) -> list[tuple[int, str, str]]:
    assert accepted.status == 202, accepted.text
    page = api.call("GET", f"{accepted.headers['location']}/rejected", STAFF, limit=100).body
    return [(one["line"], one["field"], one["why"]) for one in page["items"]]


# accepted files -------------------------------------------------------------------------------------------------------
def test_a_file_is_taken_whole_and_its_import_says_where_it_is(bare: ApiHarness) -> None:
    accepted = bare.send_file(ndjson(CUP, "{}", {**CUP, "product_id": "jug", "quantity": 5}))
    assert accepted.status == 202
    import_id = accepted.body["import_id"]
    assert accepted.body == {"import_id": import_id, "lines": 3, "rejected": 1}
    assert accepted.headers["location"] == f"/imports/{import_id}"
    found = import_of(bare, accepted)
    assert found.pop("started_at")
    assert found.items() >= {"state": "RUNNING", "lines": 3, "rejected": 1, "waiting": 2, "ended_at": None}.items()


def test_it_is_taken_in_one_write(bare: ApiHarness) -> None:
    with bare.record_requests() as sent:
        assert bare.send_file(cups(MAX_LINES)).body["lines"] == MAX_LINES
    assert sent == ["GetItem", "TransactWriteItems"]


def test_a_file_of_which_every_line_is_rejected_is_done_at_once(bare: ApiHarness) -> None:
    found = import_of(bare, bare.send_file(ndjson("{}", "[]")))
    assert (found["state"], found["rejected"], found["waiting"]) == ("DONE", 2, 0)
    assert found["ended_at"] == found["started_at"]


def test_csv_says_the_same_as_ndjson_and_an_empty_cell_says_nothing() -> None:
    table = (
        "price, name ,product_id,currency,category,backorder,parts,quantity\r\n"
        '700,"Cup, ""small""",cup,EUR,/cups/,true,,\r\n'
        "800,1984,jug,EUR,,false,3,12\r\n"
    )
    lines = ndjson(
        "",
        {**CUP, "name": 'Cup, "small"', "category": "/cups/", "backorder": True},
        {"product_id": "jug", "name": "1984", "price": 800, "currency": "EUR", "backorder": False, "parts": 3}
        | {"quantity": 12},
    )
    assert parse_lines(UploadedFile(CSV, table.encode())) == parse_lines(UploadedFile(NDJSON, lines.encode()))


def test_text_and_bytes_are_the_same_file_and_a_byte_order_mark_is_no_part_of_it(bare: ApiHarness) -> None:
    text = ndjson({**CUP, "name": "Häferl"})
    first = bare.send_file(text)
    again = bare.send_file(text.encode())
    assert (again.body, again.headers["idempotent-replayed"]) == (first.body, "true")
    assert parse_lines(UploadedFile(NDJSON, b"\xef\xbb\xbf" + text.encode())) == parse_lines(
        UploadedFile(NDJSON, text.encode())
    )


# rejected lines -------------------------------------------------------------------------------------------------------
WRONG: list[tuple[Any, str]] = [
    *[(line, "line") for line in ('{"product_id": "cup", ', "[]", "null", "cup;Cup;700", "[" * 100, '{"price": NaN}')],
    *[(line, "line") for line in (b'{"product_id": "c\xffp"}', '{"name": "\N{REPLACEMENT CHARACTER}"}')],
    ('{"name": "' + "x" * MAX_LINE_BYTES + '"}', "line"),
    ({**CUP, "price": 10**31}, "line"),
    ('{"price": 1, "price": 2}', "price"),
    *[({**CUP, "price": price}, "price") for price in (12.5, "700", True, 10**12, -1, None)],
    ({"product_id": "cup", "name": "Cup", "currency": "EUR"}, "price"),
    ({**CUP, "quantity": -1}, "quantity"),
    ({**CUP, "colour": "blue"}, "colour"),
    ({**CUP, "product_id": "a#b"}, "product_id"),
    ({**CUP, "category": "cups"}, "category"),
    *[({**CUP, "name": name}, "name") for name in ("C\x07p", "C\u200bup")],
    ('{"name": "x\\ud800"}', "name"),
]


@pytest.mark.parametrize(("line", "field"), WRONG)
def test_a_line_that_is_wrong_is_rejected_with_its_field_and_stops_no_other(
    bare: ApiHarness, line: Any, field: str
) -> None:
    text = line if isinstance(line, bytes) else ndjson(line).rstrip("\n").encode()
    jug = ndjson({**CUP, "product_id": "jug"}).encode()
    accepted = bare.send_file(b"\n".join([b"", ndjson(CUP).encode(), text, jug]))
    assert accepted.body | {"lines": 3, "rejected": 1} == accepted.body
    ((number, wrong, why),) = rejected(bare, accepted)
    assert (number, wrong) == (4, field)
    assert why
    assert not REGULAR_EXPRESSION.search(why)


def test_a_line_may_have_as_many_bytes_as_its_limit() -> None:
    full = json.dumps(CUP).ljust(MAX_LINE_BYTES).encode()
    (taken,), (refused,) = (parse_lines(UploadedFile(NDJSON, text)) for text in (full, full + b" "))
    assert (type(taken).__name__, type(refused).__name__) == ("ParsedLine", "Rejected")


@pytest.mark.parametrize(
    ("row", "field"),
    [
        *[(f"cup,Cup,{price},EUR", "price") for price in ("12.5", "\u0667\u0660\u0660", "7e2", "9" * 20, "")],
        *[(row, "line") for row in ("cup,Cup,700", "cup,Cup,700,EUR,", "cup,C\rup,700,EUR")],
        *[(row, "line") for row in ('cup,"Cup,700,EUR', 'cup,"C"up,700,EUR')],
    ],
)
def test_a_row_that_is_wrong_is_rejected_and_spoils_no_other(bare: ApiHarness, row: str, field: str) -> None:
    accepted = bare.send_file(f"product_id,name,price,currency\n{row}\njug,Jug,1,EUR\n", media_type=CSV)
    assert accepted.body | {"lines": 2, "rejected": 1} == accepted.body
    ((number, wrong, why),) = rejected(bare, accepted)
    assert (number, wrong) == (2, field)
    assert why


def test_a_product_that_stands_in_a_file_again_is_rejected_and_the_first_line_named(bare: ApiHarness) -> None:
    accepted = bare.send_file(ndjson({**CUP, "price": 1.5}, "", CUP, {**CUP, "price": 800}, CUP))
    first, *others = rejected(bare, accepted)
    assert first[:2] == (1, "price")
    assert others == [(number, "product_id", "is already in line 3") for number in (4, 5)]


def test_rejected_lines_are_seen_once_each_page_after_page_in_their_order(bare: ApiHarness) -> None:
    wrong = [number for number in range(1, 601) if number % 3 == 0]
    lines = [{**CUP, "product_id": f"c{number}", "price": 0 if number in wrong else 1} for number in range(1, 601)]
    location = bare.send_file(ndjson(*lines)).headers["location"]
    seen, cursor = list[list[int]](), dict[str, Any]()
    while cursor != {"cursor": None}:
        page = bare.call("GET", f"{location}/rejected", STAFF, limit=30, **cursor).body
        seen.append([one["line"] for one in page["items"]])
        cursor = {"cursor": page["cursor"]}
    assert [len(page) for page in seen] == [30] * 6 + [20]
    assert [line for page in seen for line in page] == wrong


@given(st.sampled_from((CSV, NDJSON)), st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@example(NDJSON, b"\xef\xbb\xbf")
def test_any_bytes_are_lines_or_refused_and_never_break_it(media_type: str, content: bytes) -> None:
    with contextlib.suppress(InvalidInput):
        head = b"product_id,name,price,currency\n" if media_type == CSV else b""
        found = parse_lines(UploadedFile(media_type, head + content))
        told = content if head else content.removeprefix(b"\xef\xbb\xbf")  # a file may begin with a byte order mark
        assert len(found) == len([line for line in told.split(b"\n") if line.strip()])
        numbers = [line.number if isinstance(line, ParsedLine) else line.line for line in found]
        assert numbers == sorted(set(numbers))


# files rejected as a whole --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("content", "media_type", "field"),
    [
        ("", NDJSON, "body"),
        ("\n \n", NDJSON, "body"),
        ("", CSV, "body"),
        ("product_id,name,price,currency\n", CSV, "body"),
        ("product_id,colour\ncup,blue\n", CSV, "line 1"),
        ("\nproduct_id,name,name\ncup,a,b\n", CSV, "line 2"),
        ('"product_id\ncup\n', CSV, "line 1"),
        (cups(MAX_LINES + 1), NDJSON, "body"),
    ],
)
def test_a_malformed_file_is_rejected_and_nothing_is_stored(
    bare: ApiHarness, content: str, media_type: str, field: str
) -> None:
    assert bare.send_file(content, media_type=media_type).field_errors.keys() == {field}
    assert bare.table_images() == []
    assert bare.send_file(ndjson(CUP)).status == 202, "a rejected request does not use up its key"


@pytest.mark.parametrize("column", ["colour", "", "Price", "pr\u202eice", "x" * 500])
def test_an_unknown_column_of_a_file_is_named_with_the_columns_that_exist(bare: ApiHarness, column: str) -> None:
    why = bare.send_file(f"product_id,{column}\ncup,blue\n", media_type=CSV).field_errors["line 1"]
    assert repr(column[:40]) in why
    assert why.isprintable()
    assert "product_id, name, price, currency" in why
    assert len(why) < 250


def test_a_file_is_ndjson_or_csv_of_1_mib_at_most_and_has_a_key(bare: ApiHarness) -> None:
    for media_type in ("", "application/json", "text/plain", "application/x-ndjsonx"):
        refused = bare.send_file(ndjson(CUP), media_type=media_type)
        assert (refused.status, refused.problem_type) == (415, "wrong-media-type")
        assert "application/x-ndjson or text/csv" in refused.body["detail"]
    for content in ("\n" * (MAX_FILE_BYTES + 1), b"\n" * (MAX_FILE_BYTES + 1), "ä" * (MAX_FILE_BYTES // 2 + 1)):
        refused = bare.send_file(content)
        assert (refused.status, refused.problem_type, refused.body["most_bytes"]) == (413, "too-large", MAX_FILE_BYTES)
    assert bare.send_file(ndjson(CUP), key=None).field_errors.keys() == {"idempotency-key"}
    assert bare.table_images() == []
    full = ndjson(CUP) + "\n" * (MAX_FILE_BYTES - len(ndjson(CUP)))
    assert bare.send_file(full.encode(), media_type="Application/X-NDJSON; charset=utf-8").body["lines"] == 1
