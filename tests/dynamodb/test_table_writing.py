"""Tests conditional writes: what each writes under which condition, and that a transaction writes all items or none."""

from typing import Any

import pytest

from functions.dynamodb.keys import Row
from functions.dynamodb.table import Table
from functions.dynamodb.writes import (
    Write,
    WriteConflict,
    add_with_minimum,
    check_absent,
    check_exists,
    check_unchanged,
    copy_attributes,
    delete_if_held_by,
    delete_if_older,
    put_if_absent,
    put_if_held_by,
    put_if_newer,
    replace_with,
    update,
)
from proof.support.client_faults import WireTap
from tests.support.library_table import (
    BOOK,
    BY_ID,
    KEY,
    LOAN,
    LOANS,
    LOST,
    LostBook,
    RefusedWrite,
    book,
    get_book,
    loan,
    moment,
    refusal_named,
    take_copies,
)


# rejected writes ------------------------------------------------------------------------------------------------------
def test_a_transaction_is_one_request_and_all_or_nothing(library: Table, wire: WireTap) -> None:
    library.write(put_if_absent(BOOK, book(copies=1)))
    wire.clear()
    with pytest.raises(RefusedWrite):
        library.write(put_if_absent(LOAN, loan()), take_copies(2))
    assert library.query(LOANS, book_id="b1").items == ()
    assert get_book(library) == book(copies=1)
    assert wire.operations == ["TransactWriteItems", "Query", "GetItem"]
    library.write(put_if_absent(LOAN, loan()), take_copies(1))
    assert library.query(LOANS, book_id="b1").items == (loan(),)
    assert get_book(library) == book(copies=0, version=2)


@pytest.mark.parametrize(("wrong", "expected"), [((0, 1, 2), "0"), ((1, 2), "1"), ((2,), "2"), ((0, 2), "0")], ids=str)
def test_the_first_refused_write_in_the_order_given_raises_its_own_error(
    library: Table, wrong: tuple[int, ...], expected: str
) -> None:
    there = [book(f"b{number}") for number in range(3) if number in wrong]
    for each in there:
        library.write(put_if_absent(BOOK, each))
    with pytest.raises(RefusedWrite) as refusal:
        library.write(
            *(
                put_if_absent(BOOK, book(f"b{number}", title="new"), condition_error=refusal_named(str(number)))
                for number in range(3)
            )
        )
    assert refusal.value.name == expected
    assert refusal.value.found == book(f"b{expected}"), "the error gets the stored item"


def test_a_failed_condition_on_a_missing_item_is_reported(library: Table) -> None:
    for write in (
        take_copies(1),
        update(BOOK, book(), book(title="new", version=2), condition_error=refusal_named("take")),
    ):
        with pytest.raises(RefusedWrite) as refusal:
            library.write(write)
        assert (refusal.value.name, refusal.value.found) == ("take", None)


def test_a_failed_condition_names_the_item_of_another_row_with_the_same_key(library: Table) -> None:
    stub = LostBook(book_id="b1", created_at=moment(0), version=2)
    library.write(put_if_absent(BOOK, book()))
    library.write(replace_with(BOOK, book(), LOST, stub))
    for writes in (
        [put_if_absent(BOOK, book(), condition_error=refusal_named("put"))],
        [put_if_absent(BOOK, book(), condition_error=refusal_named("put")), put_if_absent(LOAN, loan())],
    ):
        with pytest.raises(RefusedWrite) as refusal:
            library.write(*writes)
        assert refusal.value.found == stub


NEW, STUB = book(title="new", version=2), LostBook(book_id="b1", created_at=moment(0), version=2)


def holding() -> dict[str, tuple[Write[Any], Any, Any]]:
    """Return by name: a write, and the books b1 and b2 after it. Before it, there is only b1."""
    return {
        "put where there is none": (put_if_absent(BOOK, book("b2")), book(), book("b2")),
        "change": (update(BOOK, book(), NEW), NEW, None),
        "put_newer over an older one": (put_if_newer(BOOK, NEW), NEW, None),
        "put_newer where there is none": (put_if_newer(BOOK, book("b2")), book(), book("b2")),
        "put_over what I held": (put_if_held_by(BOOK, NEW, "title", "Emma"), NEW, None),
        "turn": (replace_with(BOOK, book(), LOST, STUB), STUB, None),
        "unchanged": (check_unchanged(BOOK, book()), book(), None),
        "exists": (check_exists(BOOK, KEY, condition_error=refusal_named("exists")), book(), None),
        "delete_held what I held": (delete_if_held_by(BOOK, KEY, "title", "Emma"), None, None),
        "delete_older of an older one": (delete_if_older(BOOK, book(version=2)), None, None),
        "delete_older where there is none": (delete_if_older(BOOK, book("b2")), book(), None),
    }


def not_holding() -> dict[str, Write[Any]]:
    return {
        "put where there is one": put_if_absent(BOOK, book(title="new")),
        "change of another version": update(BOOK, book(version=2), book(title="new", version=3)),
        "put_newer over one as new": put_if_newer(BOOK, book(title="new")),
        "put_over what another held": put_if_held_by(BOOK, book(title="new"), "title", "Persuasion"),
        "put_over where there is none": put_if_held_by(BOOK, book("b2", title="new"), "title", "Emma"),
        "turn of another version": replace_with(BOOK, book(version=2), LOST, STUB),
        "unchanged of another version": check_unchanged(BOOK, book(version=2)),
        "delete_held what another held": delete_if_held_by(BOOK, KEY, "title", "Persuasion"),
        "copy where a field is another": copy_attributes(
            BOOK, KEY, {"title": "new"}, ("as_of", 9), {"title": ["Other"]}
        ),
        "delete_older of one as new": delete_if_older(BOOK, book()),
    }


@pytest.mark.parametrize("others", [[], [put_if_absent(LOAN, loan())]], ids=["alone", "in a transaction"])
@pytest.mark.parametrize("name", holding())
def test_a_write_holds_under_its_condition(library: Table, name: str, others: list[Any]) -> None:
    library.write(put_if_absent(BOOK, book()))
    write, *after = holding()[name]
    library.write(*others, write)
    assert [library.get(BY_ID, book_id=book_id) for book_id in ("b1", "b2")] == after
    assert len(library.query(LOANS, book_id="b1").items) == len(others)


def test_version_10_is_later_than_version_9(library: Table) -> None:
    library.write(put_if_absent(BOOK, book(version=9)))
    library.write(put_if_newer(BOOK, book(version=10, shelf="A")))
    for write in (put_if_newer, delete_if_older):
        with pytest.raises(WriteConflict):
            library.write(write(BOOK, book(version=9)))
    changes = {"title": "new", "shelf": None}
    copied = {
        version: copy_attributes(BOOK, KEY, changes, ("as_of", version), {"title": ["Emma", "new"]})
        for version in (9, 10)
    }
    for version in (9, 10):
        library.write(copied[version])
    with pytest.raises(WriteConflict):
        library.write(copied[9])
    assert get_book(library) == book(title="new", version=10), "the version is that of the target"
    library.write(delete_if_older(BOOK, book(version=11)))
    assert get_book(library) is None


@pytest.mark.parametrize("others", [[], [put_if_absent(LOAN, loan())]], ids=["alone", "in a transaction"])
@pytest.mark.parametrize("name", not_holding())
def test_a_write_whose_condition_does_not_hold_changes_nothing(library: Table, name: str, others: list[Any]) -> None:
    library.write(put_if_absent(BOOK, book()))
    write = not_holding()[name]
    with pytest.raises(WriteConflict) as refusal:
        library.write(*others, write)
    assert refusal.value.item_type == write.row.type
    assert get_book(library) == book()
    assert library.query(LOANS, book_id="b1").items == ()


def test_check_absent_succeeds_only_without_an_item(library: Table) -> None:
    library.write(check_absent(BOOK, KEY, condition_error=refusal_named("absent")), put_if_absent(LOAN, loan("l1")))
    library.write(put_if_absent(BOOK, book()))
    with pytest.raises(RefusedWrite):
        library.write(check_absent(BOOK, KEY, condition_error=refusal_named("absent")), put_if_absent(LOAN, loan("l2")))
    assert [each.loan_id for each in library.query(LOANS, book_id="b1").items] == ["l1"]


def test_an_update_keeps_attributes_that_the_code_does_not_know(library: Table) -> None:
    later = {**BOOK.encode(book(shelf="A")), "binding": {"S": "cloth"}}
    library.client.put_item(TableName=library.name, Item=later)
    library.write(update(BOOK, book(shelf="A"), book(shelf=None, title="new", version=2)))
    found = library.client.get_item(TableName=library.name, Key=KEY)["Item"]
    assert found == {**BOOK.encode(book(title="new", version=2)), "binding": {"S": "cloth"}}


def test_an_update_sends_only_changed_attributes_their_index_keys_and_a_raised_schema() -> None:
    before, after = book(shelf="A", copies=1), book(shelf=None, copies=2, version=2)
    sent = {"copies": {"N": "2"}, "version": {"N": "2"}}
    assert update(BOOK, before, after).resulting_attributes == sent
    raised = Row(type(before), BOOK.main, schema=2)
    assert update(raised, before, after).resulting_attributes == {**sent, "schema": {"N": "2"}}, "for older code"


@pytest.mark.parametrize("version", [1, 3, 0])
def test_an_update_that_does_not_raise_the_version_by_one_raises_an_error(version: int) -> None:
    with pytest.raises(ValueError, match=r"after\.version must be before\.version"):
        update(BOOK, book(), book(title="Persuasion", version=version))


def test_an_addition_stores_a_text_and_the_value_before_it_and_counts_from_zero(library: Table) -> None:
    library.write(put_if_absent(BOOK, book(copies=3)))
    more: Any = {"texts": {"title": "new"}, "former": {"copies_before": "copies"}, "from_zero": ("lent",)}
    add = {"copies": 2, "lent": 1}
    library.write(add_with_minimum(BOOK, KEY, add=add, at_least={}, condition_error=refusal_named("add"), **more))
    found = library.client.get_item(TableName=library.name, Key=KEY)["Item"]
    after = BOOK.encode(book(title="new", copies=5, version=2))
    assert found == {**after, "copies_before": {"N": "3"}, "lent": {"N": "1"}}


def test_adjustments_at_the_same_time_do_not_lose_each_other(library: Table, wire: WireTap) -> None:
    library.write(put_if_absent(BOOK, book(copies=5)))
    wire.run_before_call("TransactWriteItems", lambda: library.write(take_copies(2), put_if_absent(LOAN, loan("l2"))))
    library.write(take_copies(1), put_if_absent(LOAN, loan("l1")))
    assert get_book(library) == book(copies=2, version=3)
