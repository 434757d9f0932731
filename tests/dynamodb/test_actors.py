"""Tests the stamp of staff on the items that they write."""

from collections.abc import Callable
from typing import Any

import pytest

from functions.dynamodb.actors import Actor, acting, acting_as
from functions.dynamodb.table import Table
from functions.dynamodb.writes import Write, delete, put_if_absent, replace_with, update
from proof.support.client_faults import WireTap
from tests.support.library_table import BOOK, KEY, LOAN, LOST, Book, LostBook, book, get_book, loan, moment, take_copies

SUE = Actor(by="staff:sue", command="PATCH /books/{book_id}", reason="worn out")
STAMP = {"M": {"by": {"S": SUE.by}, "command": {"S": SUE.command}, "reason": {"S": "worn out"}}}
FIRST, SECOND = book(copies=3), book(copies=3, title="Persuasion", version=2)
WRITES: dict[str, Callable[[], Write[Any]]] = {
    "update": lambda: update(BOOK, FIRST, SECOND),
    "add": lambda: take_copies(1),
    "replace": lambda: replace_with(BOOK, FIRST, LOST, LostBook(book_id="b1", created_at=moment(0), version=2)),
}


def stamp_of(library: Table, key: Any = KEY) -> Any:
    return library.client.get_item(TableName=library.name, Key=key)["Item"].get("audit")


@pytest.mark.parametrize("kind", WRITES)
def test_a_write_of_staff_carries_their_stamp_and_the_next_write_of_a_customer_removes_it(
    library: Table, kind: str
) -> None:
    library.write(put_if_absent(BOOK, FIRST))
    assert stamp_of(library) is None
    with acting_as(SUE):
        library.write(WRITES[kind]())
    assert stamp_of(library) == STAMP
    if kind != "replace":
        before = get_book(library)
        assert isinstance(before, Book)
        library.write(update(BOOK, before, book(copies=before.copies, shelf="s1", version=3)))
        assert stamp_of(library) is None


def test_a_new_item_carries_the_stamp_until_somebody_else_adds_to_it(library: Table) -> None:
    with acting_as(SUE):
        library.write(put_if_absent(BOOK, FIRST))
    assert stamp_of(library) == STAMP
    library.write(take_copies(1))
    assert stamp_of(library) is None


def test_only_the_first_primary_item_of_a_command_is_stamped(library: Table) -> None:
    other = book("b2")
    with acting_as(SUE):
        library.write(put_if_absent(LOAN, loan()), put_if_absent(BOOK, FIRST), put_if_absent(BOOK, other))
    assert stamp_of(library) == STAMP
    assert [stamp_of(library, key) for key in (LOAN.key_of(loan()), BOOK.key_of(other))] == [None, None]


def test_the_stamp_is_no_field_of_the_item(library: Table) -> None:
    with acting_as(SUE):
        library.write(put_if_absent(BOOK, FIRST))
    assert get_book(library) == FIRST
    with acting_as(SUE):
        library.write(delete(BOOK, FIRST))


def test_a_write_whose_answer_is_lost_counts_as_applied_with_its_stamp(
    patient_library: Table, patient_wire: WireTap
) -> None:
    with acting_as(SUE):
        patient_library.write(put_if_absent(BOOK, FIRST))
        patient_wire.lose_response("UpdateItem")
        patient_library.write(update(BOOK, FIRST, SECOND))
    assert (get_book(patient_library), stamp_of(patient_library)) == (SECOND, STAMP)


def test_the_stamp_ends_with_the_command_that_fails() -> None:
    with pytest.raises(ZeroDivisionError), acting_as(SUE):
        raise ZeroDivisionError
    assert acting.get() is None
