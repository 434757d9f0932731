"""Tests access patterns: invalid declarations are rejected, and each pattern queries an exact range of keys."""

from typing import Any

import pytest

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant, Row
from functions.dynamodb.patterns import HIGHEST_CHARACTER, Get, Query, missing_attributes, overlapping_rows
from tests.support.library_table import (
    AT_DESK,
    BOOK,
    LOAN,
    LOANS,
    LOST,
    ON_SHELF,
    TITLE_OF,
    WHOLE,
    Book,
    Loan,
    Title,
    moment,
)


@entity
class Visit:
    visit_id: str
    book_id: str
    shard: str
    at: Instant
    created_at: Instant
    hour: str
    version: int = 1


BY_ITSELF = "VISIT#{visit_id} / VISIT"


@pytest.mark.parametrize(
    ("row", "pattern", "why"),
    [
        (Row(Visit, BY_ITSELF, gsi1="BOOK#{book_id} / {at}#{hour}"), {"index": "gsi1"}, r"add \['visit_id'\]"),
        (Row(Visit, "SHARD#{shard} / {hour}"), {"shards": 3}, r"add \['shard'\]"),
        (Row(Visit, BY_ITSELF), {"index": "gsi1"}, "must have the same partition key"),
        (
            Row(Visit, BY_ITSELF, gsi1="HOUR#{hour} / {visit_id}"),
            {"index": "gsi1", "consistent": True},
            "cannot be consistent",
        ),
    ],
    ids=["two visits of a book in one hour", "one hour in several shards", "not in the index", "a consistent index"],
)
def test_a_query_declared_wrong_is_refused_when_it_is_imported(
    row: Row[Any], pattern: dict[str, Any], why: str
) -> None:
    with pytest.raises(TypeError, match=why):
        Query[Visit](id="X", description="", rows=(row,), **pattern).check()


def test_a_query_over_two_partitions_is_refused() -> None:
    elsewhere = Row(Visit, "VISITS#{book_id} / {at}#{visit_id}")
    with pytest.raises(TypeError, match="must have the same partition key"):
        Query[Any](id="X", description="", rows=(LOAN, elsewhere)).check()


@pytest.mark.parametrize(
    ("main", "is_read_too"),
    [
        ("BOOK#{book_id} / CARD#{visit_id}", True),
        ("BOOK#{book_id} / LOAN#CARD#{visit_id}", True),
        ("BOOK#{book_id} / {visit_id}", True),
        ("BOOK#{visit_id} / CARD", True),
        ("BOOK#{book_id} / AUTHOR#{visit_id}", False),
        ("BOOK#{book_id} / REVIEW#{visit_id}", False),
        ("SHELF#{book_id} / CARD#{visit_id}", False),
    ],
)
def test_a_row_that_sorts_between_those_of_a_query_is_found(main: str, is_read_too: bool) -> None:
    query = Query[Any](id="X", description="from book to loans", rows=(BOOK, LOST, LOAN))
    rows = (BOOK, LOST, LOAN, Row(Visit, main))
    assert overlapping_rows(query, rows) == (["Visit"] if is_read_too else [])


@pytest.mark.parametrize("main", ["BOOK#{book_id} / LOAN#CARD#{visit_id}", "BOOK#{book_id} / {visit_id}"])
def test_a_row_with_the_same_beginning_as_the_only_one_of_a_query_is_found(main: str) -> None:
    assert overlapping_rows(LOANS, (LOAN, Row(Visit, main))) == ["Visit"]


def test_a_query_is_filtered_only_by_a_text_field_of_all_its_rows() -> None:
    for name in ("ttl", "missing"):
        with pytest.raises(TypeError, match=f"{name} is not a text field"):
            Query[Loan](id="X", description="loans", rows=(LOAN,), filter_by=name).check()


def test_a_query_of_the_whole_partition_reads_all_its_items() -> None:
    assert overlapping_rows(WHOLE, (BOOK, LOAN, Row(Visit, "BOOK#{book_id} / CARD#{visit_id}"))) == []


@pytest.mark.parametrize(
    ("pattern", "projected", "expected"),
    [
        (ON_SHELF, None, []),
        (ON_SHELF, (*Book.__annotations__, "type"), []),
        (ON_SHELF, (*(set(Book.__annotations__) - {"copies", "shelf"}), "type"), ["copies", "shelf"]),
        (ON_SHELF, tuple(Book.__annotations__), ["type"]),
        (
            Query[Title](id="X", description="", rows=(BOOK,), index="gsi1", view=Title),
            ("book_id", "title", "type"),
            [],
        ),
        (Query[Title](id="X", description="", rows=(BOOK,), index="gsi1", view=Title), ("book_id", "type"), ["title"]),
        (Query[Title](id="X", description="", rows=(LOAN,), index="gsi1", view=Title), None, ["title"]),
        (Query[Loan](id="X", description="", rows=(LOAN,), index="gsi1"), (*Loan.__annotations__, "type"), []),
        (TITLE_OF, None, []),
        (Get[Title](id="X", description="", rows=(BOOK, LOST), view=Title), None, ["title"]),
        (WHOLE, (), []),
    ],
)
def test_an_attribute_that_a_pattern_needs_but_its_index_lacks_is_found(
    pattern: Any, projected: tuple[str, ...] | None, expected: list[str]
) -> None:
    assert missing_attributes(pattern, {"GSI1": projected}) == expected


def test_a_projection_without_ttl_cannot_hide_expired_items() -> None:
    @entity
    class Shown:
        book_id: str

    query = Query[Shown](id="X", description="", rows=(LOAN,), index="gsi1", view=Shown)
    assert missing_attributes(query, {"GSI1": ("book_id", "type")}) == ["ttl"]


def test_a_range_is_half_open_and_stays_in_its_rows() -> None:
    known = {"book_id": "b1"}
    assert LOANS.sort_key_range(known) == ("LOAN#", "LOAN#" + HIGHEST_CHARACTER)
    low, high = LOANS.sort_key_range(known, moment(0), moment(60))
    first = LOAN.key(book_id="b1", at=moment(0), loan_id="a")["SK"]["S"]
    last = LOAN.key(book_id="b1", at=moment(59.999), loan_id="zzz")["SK"]["S"]
    beyond = LOAN.key(book_id="b1", at=moment(60), loan_id="!")["SK"]["S"]
    before = LOAN.key(book_id="b1", at=moment(-0.001), loan_id="zzz")["SK"]["S"]
    assert before < low <= first < last < high < beyond


def test_known_sort_key_fields_narrow_the_range() -> None:
    low, high = LOANS.sort_key_range({"book_id": "b1", "at": moment(0)})
    assert (low, high) == (f"LOAN#{moment(0)}#", f"LOAN#{moment(0)}#" + HIGHEST_CHARACTER)


def test_a_range_over_several_types_is_refused() -> None:
    query = Query[Any](id="X", description="", rows=(BOOK, LOST, LOAN))
    with pytest.raises(TypeError, match="supports no time range"):
        query.sort_key_range({}, since=moment(0))
    in_time = Row(Visit, "LOANS#{book_id} / LOAN#{at}#{visit_id}")
    both = Query[Any](id="X", description="", rows=(LOAN, in_time))
    assert both.sort_key_range({}, since=moment(0))[0] == f"LOAN#{moment(0)}", "but not if their keys begin alike"


def test_a_time_range_is_refused_without_a_value_for_each_field_before_the_time() -> None:
    row = Row(Visit, "VISITS#{book_id} / DESK#{hour}#{at}#{visit_id}")
    visits = Query[Visit](id="X", description="", rows=(row,))
    for bounds in ({"since": moment(0)}, {"until": moment(0)}):
        with pytest.raises(TypeError, match="X needs hour for a time range: its sort key has hour before the time at"):
            visits.sort_key_range({"book_id": "b1"}, **bounds)
    low, _ = visits.sort_key_range({"book_id": "b1", "hour": "9"}, since=moment(0))
    assert low == f"DESK#9#{moment(0)}"
    assert visits.sort_key_range({"book_id": "b1"}) == ("DESK#", "DESK#" + HIGHEST_CHARACTER), "all hours, all times"


def test_the_range_below_a_path_excludes_the_path_itself() -> None:
    row = Row(Visit, "HOURS#{book_id} / AT#{hour}")
    query = Query[Visit](id="X", description="", rows=(row,), path_prefix="hour")
    assert query.required_fields == ("book_id", "hour")
    low, high = query.sort_key_range({"book_id": "b1", "hour": "/a/"})
    itself, longer, inside, last = "AT#/a/", "AT#/a-b/", "AT#/a/!/", "AT#/a/~/~/"
    assert longer < itself < low < inside < last < high < "AT#/a0/"
    with pytest.raises(TypeError, match="supports no time range"):
        query.sort_key_range({"book_id": "b1", "hour": "/a/"}, since="x")


@pytest.mark.parametrize("below", ["hour", "visit_id", "book_id"])
def test_a_path_prefix_requires_a_sort_key_with_only_that_field(below: str) -> None:
    row = Row(Visit, "HOURS#{book_id} / AT#{hour}#{visit_id}")
    with pytest.raises(TypeError, match=f"must contain only the field {below}"):
        Query[Visit](id="X", description="", rows=(row,), path_prefix=below).check()


def test_the_caller_never_needs_the_shard() -> None:
    assert AT_DESK.required_fields == ("desk",)
    assert TITLE_OF.required_fields == ("book_id",)
    assert LOANS.required_fields == ("book_id",)
