"""Writing through the store: all or nothing, and each refusal its own error."""

from typing import Any

import pytest

from functions.dynamodb.store import Table
from functions.dynamodb.writes import (
    Changed,
    Write,
    absent,
    change,
    delete_older,
    put,
    put_newer,
    put_over,
    turn,
    unchanged,
)
from tests.dynamodb.library import (
    BOOK,
    KEY,
    LOAN,
    LOANS,
    LOST,
    LostBook,
    Refused,
    book,
    loan,
    moment,
    named,
    take,
    the_book,
)
from tests.dynamodb.wire import Wire, after


# refusals -------------------------------------------------------------------------------------------------------------
def test_a_transaction_is_one_request_and_all_or_nothing(library: Table, wire: Wire) -> None:
    library.write(put(BOOK, book(copies=1)))
    wire.clear()
    with pytest.raises(Refused):
        library.write(put(LOAN, loan()), take(2))
    assert library.query(LOANS, book_id="b1").items == ()
    assert the_book(library) == book(copies=1)
    assert wire.operations == ["TransactWriteItems", "Query", "GetItem"]
    library.write(put(LOAN, loan()), take(1))
    assert library.query(LOANS, book_id="b1").items == (loan(),)
    assert the_book(library) == book(copies=0, version=2)


@pytest.mark.parametrize(("wrong", "expected"), [((0, 1, 2), "0"), ((1, 2), "1"), ((2,), "2"), ((0, 2), "0")], ids=str)
def test_the_first_refused_write_in_the_order_given_raises_its_own_error(
    library: Table, wrong: tuple[int, ...], expected: str
) -> None:
    there = [book(f"b{number}") for number in range(3) if number in wrong]
    for each in there:
        library.write(put(BOOK, each))
    with pytest.raises(Refused) as refusal:
        library.write(*(put(BOOK, book(f"b{number}", title="new"), refused=named(str(number))) for number in range(3)))
    assert refusal.value.name == expected
    assert refusal.value.found == book(f"b{expected}"), "it is told what lies there"


def test_a_refusal_is_told_when_nothing_lies_there(library: Table) -> None:
    for write in (take(1), change(BOOK, book(), book(title="new", version=2), refused=named("take"))):
        with pytest.raises(Refused) as refusal:
            library.write(write)
        assert (refusal.value.name, refusal.value.found) == ("take", None)


def test_a_refusal_is_told_of_the_item_of_another_row_that_took_the_place(library: Table) -> None:
    stub = LostBook(book_id="b1", created_at=moment(0), version=2)
    library.write(put(BOOK, book()))
    library.write(turn(BOOK, book(), LOST, stub))
    for writes in (
        [put(BOOK, book(), refused=named("put"))],
        [put(BOOK, book(), refused=named("put")), put(LOAN, loan())],
    ):
        with pytest.raises(Refused) as refusal:
            library.write(*writes)
        assert refusal.value.found == stub


HOLDS: dict[str, Write[Any]] = {
    "change": change(BOOK, book(), book(title="new", version=2)),
    "put_newer over an older one": put_newer(BOOK, book(version=2)),
    "put_newer where there is none": put_newer(BOOK, book("b2")),
    "put_over what I held": put_over(BOOK, book(title="new"), "title", "Emma"),
    "turn": turn(BOOK, book(), LOST, LostBook(book_id="b1", created_at=moment(0), version=2)),
    "unchanged": unchanged(BOOK, book()),
    "delete_older of an older one": delete_older(BOOK, book(version=2)),
    "delete_older where there is none": delete_older(BOOK, book("b2")),
}
HOLDS_NOT: dict[str, Write[Any]] = {
    "put where there is one": put(BOOK, book(title="new")),
    "change of another version": change(BOOK, book(version=2), book(title="new", version=3)),
    "put_newer over one as new": put_newer(BOOK, book(title="new")),
    "put_over what another held": put_over(BOOK, book(title="new"), "title", "Persuasion"),
    "put_over where there is none": put_over(BOOK, book("b2", title="new"), "title", "Emma"),
    "turn of another version": turn(
        BOOK, book(version=2), LOST, LostBook(book_id="b1", created_at=moment(0), version=3)
    ),
    "unchanged of another version": unchanged(BOOK, book(version=2)),
    "delete_older of one as new": delete_older(BOOK, book()),
}


@pytest.mark.parametrize("others", [[], [put(LOAN, loan())]], ids=["alone", "in a transaction"])
@pytest.mark.parametrize("name", HOLDS)
def test_a_write_holds_under_its_condition(library: Table, name: str, others: list[Any]) -> None:
    library.write(put(BOOK, book()))
    library.write(*others, HOLDS[name])
    assert len(library.query(LOANS, book_id="b1").items) == len(others)


@pytest.mark.parametrize("others", [[], [put(LOAN, loan())]], ids=["alone", "in a transaction"])
@pytest.mark.parametrize("name", HOLDS_NOT)
def test_a_write_whose_condition_does_not_hold_changes_nothing(library: Table, name: str, others: list[Any]) -> None:
    library.write(put(BOOK, book()))
    with pytest.raises(Changed) as refusal:
        library.write(*others, HOLDS_NOT[name])
    assert refusal.value.row is HOLDS_NOT[name].row
    assert the_book(library) == book()
    assert library.query(LOANS, book_id="b1").items == ()


def test_absent_holds_only_where_there_is_nothing(library: Table) -> None:
    library.write(absent(BOOK, KEY, refused=named("absent")), put(LOAN, loan("l1")))
    library.write(put(BOOK, book()))
    with pytest.raises(Refused):
        library.write(absent(BOOK, KEY, refused=named("absent")), put(LOAN, loan("l2")))
    assert [each.loan_id for each in library.query(LOANS, book_id="b1").items] == ["l1"]


def test_a_change_leaves_alone_what_this_code_does_not_know(library: Table) -> None:
    later = {**BOOK.write(book(shelf="A")), "binding": {"S": "cloth"}}
    library.client.put_item(TableName=library.name, Item=later)
    library.write(change(BOOK, book(shelf="A"), book(shelf=None, title="new", version=2)))
    found = library.client.get_item(TableName=library.name, Key=KEY)["Item"]
    assert found == {**BOOK.write(book(title="new", version=2)), "binding": {"S": "cloth"}}


def test_adjustments_at_the_same_time_do_not_lose_each_other(library: Table, wire: Wire) -> None:
    library.write(put(BOOK, book(copies=5)))
    wire.next("TransactWriteItems", after(lambda: library.write(take(2), put(LOAN, loan("l2")))))
    library.write(take(1), put(LOAN, loan("l1")))
    assert the_book(library) == book(copies=2, version=3)
