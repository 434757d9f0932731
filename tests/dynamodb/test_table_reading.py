"""Tests reads of the table: the exact requests, hidden items, and retries."""

from typing import Any

import pytest

from functions.dynamodb.errors import TableBusy, Unreadable
from functions.dynamodb.keys import InvalidKeyValue
from functions.dynamodb.retry import RETRYABLE_ERROR_CODES
from functions.dynamodb.table import Table
from functions.dynamodb.writes import put_if_absent, replace_with
from proof.support.client_faults import WireTap, reply_with
from proof.support.tapped_client import START, ManualClock
from tests.support.library_table import (
    AT_DESK,
    BOOK,
    BY_ID,
    LOAN,
    LOAN_BY_ID,
    LOAN_OF,
    LOANS,
    LOANS_AT_DESK_OF_BOOK,
    LOST,
    ON_SHELF,
    TITLE_OF,
    WHOLE,
    LostBook,
    Title,
    book,
    loan,
    moment,
)


def test_get_is_one_consistent_read(library: Table, wire: WireTap) -> None:
    library.write(put_if_absent(BOOK, book()))
    wire.clear()
    assert library.get(BY_ID, book_id="b1") == book()
    (request,) = wire.requests
    assert (request.operation, request.body["ConsistentRead"]) == ("GetItem", True)
    assert library.get(BY_ID, book_id="none") is None


def test_get_finds_the_item_that_replaced_another(library: Table) -> None:
    stub = LostBook(book_id="b1", created_at=moment(0), version=2)
    library.write(put_if_absent(BOOK, book()))
    library.write(replace_with(BOOK, book(), LOST, stub))
    assert library.get(BY_ID, book_id="b1") == stub
    assert library.get(TITLE_OF, book_id="b1") is None, "a stub has no title"


def test_get_reads_only_the_attributes_of_its_view(library: Table, wire: WireTap) -> None:
    library.write(put_if_absent(BOOK, book()))
    wire.clear()
    assert library.get(TITLE_OF, book_id="b1") == Title(book_id="b1", title="Emma")
    names = wire.requests[0].body["ExpressionAttributeNames"]
    assert sorted(names.values()) == ["book_id", "title", "ttl", "type"]
    assert wire.requests[0].body["ProjectionExpression"] == ", ".join(names)


def test_an_item_of_no_known_type_is_unreadable(library: Table) -> None:
    image = {**BOOK.encode(book()), "type": {"S": "Magazine"}}
    library.client.put_item(TableName=library.name, Item=image)
    with pytest.raises(Unreadable, match="unknown type"):
        library.get(BY_ID, book_id="b1")
    library.client.put_item(TableName=library.name, Item={"PK": image["PK"], "SK": image["SK"]})
    with pytest.raises(Unreadable, match="unknown type"):
        library.batch_get([BOOK.key(book_id="b1")])


def test_arguments_of_a_read_cannot_forge_a_key(library: Table, wire: WireTap) -> None:
    with pytest.raises(InvalidKeyValue):
        library.get(BY_ID, book_id="b1#LOAN")
    with pytest.raises(InvalidKeyValue):
        library.query(ON_SHELF, shelf="")
    assert wire.requests == []


# queries --------------------------------------------------------------------------------------------------------------
def lend(library: Table, *seconds: float, **changed: Any) -> None:
    for number, at in enumerate(seconds):
        library.write(put_if_absent(LOAN, loan(f"l{number}", at=moment(at), **changed)))


def test_a_query_is_one_request_for_one_page(library: Table, wire: WireTap) -> None:
    lend(library, 1, 2, 3)
    wire.clear()
    page = library.query(LOANS, book_id="b1", limit=2)
    assert [found.loan_id for found in page.items] == ["l2", "l1"]
    assert page.after == f"LOAN#{moment(2)}#l1"
    (request,) = wire.requests
    assert (request.body["Limit"], request.body["ConsistentRead"]) == (2, True), "it reads no more than the page"


def test_a_filtered_query_reads_its_key_range_and_returns_full_pages_of_the_wanted_items(
    library: Table, wire: WireTap
) -> None:
    for number in range(12):
        desk = "north" if number % 3 == 0 else "south"
        library.write(put_if_absent(LOAN, loan(f"l{number}", desk=desk, at=moment(number))))
    wire.clear()
    page = library.query(LOANS_AT_DESK_OF_BOOK, book_id="b1", desk="north", limit=3)
    assert [found.loan_id for found in page.items] == ["l9", "l6", "l3"]
    rest = library.query(LOANS_AT_DESK_OF_BOOK, book_id="b1", desk="north", limit=3, after=page.after)
    assert ([found.loan_id for found in rest.items], rest.after) == (["l0"], None)
    assert wire.operations == ["Query", "Query"]


def test_a_query_of_items_without_expiry_needs_no_filter(library: Table, wire: WireTap) -> None:
    library.write(put_if_absent(BOOK, book(shelf="A")))
    wire.clear()
    assert library.query(ON_SHELF, shelf="A").items == (book(shelf="A"),)
    assert "FilterExpression" not in wire.requests[0].body
    assert wire.requests[0].body["IndexName"] == "GSI1"


def test_a_range_of_days_takes_the_last_day_whole(library: Table) -> None:
    day = 24 * 3600
    to_midnight = (14 * 60 + 30) * 60
    lend(library, to_midnight - 0.001, to_midnight, to_midnight + day - 0.001, to_midnight + day, ttl=2**33)
    found = library.query(LOANS, book_id="b1", since="2026-11-22", until="2026-11-23").items
    assert [each.loan_id for each in found] == ["l2", "l1"]


# expired items --------------------------------------------------------------------------------------------------------
NOW = int(START.timestamp())


@pytest.mark.parametrize(("ttl", "is_shown"), [(NOW - 1, False), (NOW, False), (NOW + 1, True)])
def test_an_expired_item_is_hidden_from_every_read(library: Table, ttl: int, is_shown: bool) -> None:
    library.write(put_if_absent(BOOK, book()))
    library.write(put_if_absent(LOAN, loan(ttl=ttl)))
    shown = [loan(ttl=ttl)] if is_shown else []
    one = loan(ttl=ttl) if is_shown else None
    assert list(library.query(LOANS, book_id="b1").items) == shown
    assert list(library.query(LOAN_BY_ID, loan_id="l1").items) == shown
    assert list(library.query(AT_DESK, desk="d1").items) == shown
    assert list(library.query(WHOLE, book_id="b1").items) == [book(), *shown]
    assert list(library.query_all(LOANS, book_id="b1")) == shown
    assert library.batch_get([LOAN.key_of(loan())]) == shown
    assert library.get(LOAN_OF, book_id="b1", loan_id="l1", at=moment(0)) == one
    assert library.decode(LOAN.encode(loan(ttl=ttl))) == one


def test_the_archive_reads_a_partition_whole_expired_or_not(library: Table) -> None:
    library.write(put_if_absent(BOOK, book()))
    library.write(put_if_absent(LOAN, loan(ttl=NOW - 1)))
    assert library.query_partition_raw(WHOLE, book_id="b1") == [BOOK.encode(book()), LOAN.encode(loan(ttl=NOW - 1))]


def test_two_neighbours_are_one_query_and_nothing_between_them_is_decoded(library: Table, wire: WireTap) -> None:
    library.write(put_if_absent(BOOK, book()))
    lend(library, 1, 2, 3)
    keys = {number: LOAN.key_of(loan(f"l{number}", at=moment(number + 1))) for number in range(3)}
    library.client.put_item(
        TableName=library.name, Item={**LOAN.encode(loan("l1", at=moment(2))), "type": {"S": "Magazine"}}
    )
    wire.clear()
    first, last = library.get_neighbours(BOOK.key(book_id="b1"), keys[2])
    assert (first, last) == (book(), loan("l2", at=moment(3)))
    (request,) = wire.requests
    assert (request.operation, request.body["ConsistentRead"]) == ("Query", True)


def test_a_neighbour_that_is_missing_or_has_expired_is_none(library: Table, wire: WireTap) -> None:
    library.write(put_if_absent(LOAN, loan(ttl=NOW - 1)))
    assert library.get_neighbours(BOOK.key(book_id="b1"), LOAN.key_of(loan())) == (None, None)


def test_neighbours_are_found_on_any_page(library: Table, wire: WireTap) -> None:
    library.write(put_if_absent(BOOK, book()), put_if_absent(LOAN, loan()))
    first, last = BOOK.key(book_id="b1"), LOAN.key_of(loan())
    wire.reply_next("Query", reply_with({"Items": [BOOK.encode(book())], "LastEvaluatedKey": first}))
    assert library.get_neighbours(first, last) == (book(), loan())
    assert wire.requests[-1].body["ExclusiveStartKey"] == first


# batches --------------------------------------------------------------------------------------------------------------
def test_a_batch_get_over_100_keys_goes_in_chunks(library: Table, wire: WireTap) -> None:
    books = [book(f"b{number}") for number in range(105)]
    for start in range(0, 105, 35):
        library.write(*(put_if_absent(BOOK, each) for each in books[start : start + 35]))
    wire.clear()
    found = library.batch_get([*map(BOOK.key_of, books), BOOK.key(book_id="none")], consistent=True)
    assert sorted(found, key=lambda each: int(each.book_id[1:])) == books
    assert wire.operations == ["BatchGetItem"] * 2
    asked = [request.body["RequestItems"][library.name] for request in wire.requests]
    assert [(len(each["Keys"]), each["ConsistentRead"]) for each in asked] == [(100, True), (6, True)]


def test_keys_that_were_left_unprocessed_are_asked_for_again(library: Table, wire: WireTap, clock: ManualClock) -> None:
    library.write(put_if_absent(BOOK, book("b1")), put_if_absent(BOOK, book("b2")))
    wire.clear()
    left = {library.name: {"Keys": [BOOK.key(book_id="b2")], "ConsistentRead": True}}
    wire.reply_next(
        "BatchGetItem",
        reply_with({"Responses": {library.name: [BOOK.encode(book("b1"))]}, "UnprocessedKeys": left}),
        reply_with({"Responses": {}, "UnprocessedKeys": left}),
    )
    found = library.batch_get([BOOK.key(book_id="b1"), BOOK.key(book_id="b2")], consistent=True)
    assert [each.book_id for each in found] == ["b1", "b2"]
    assert [request.body["RequestItems"] for request in wire.requests[1:]] == [left, left]
    assert len(clock.pauses) == 2


@pytest.mark.parametrize(
    "code", sorted(code for code in RETRYABLE_ERROR_CODES if code.endswith(("Exception", "Exceeded")))
)
def test_a_read_that_is_throttled_is_busy(library: Table, wire: WireTap, code: str) -> None:
    for operation in ("GetItem", "Query", "Query", "BatchGetItem"):
        wire.fail_calls(operation, code)
    with pytest.raises(TableBusy):
        library.get(BY_ID, book_id="b1")
    with pytest.raises(TableBusy):
        library.query(LOANS, book_id="b1")
    with pytest.raises(TableBusy):
        library.query_partition_raw(WHOLE, book_id="b1")
    with pytest.raises(TableBusy):
        library.batch_get([BOOK.key(book_id="b1")])
