"""What the store tries again, when it gives up, and how it knows its own writes after an answer was lost."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.dynamodb.patience import HEALS, Busy, Impossible
from functions.dynamodb.store import Table
from functions.dynamodb.streams import Permanent
from functions.dynamodb.writes import (
    Changed,
    change,
    delete_older,
    put,
    put_newer,
    put_over,
    turn,
)
from tests.dynamodb.fixtures import Clock
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
from tests.dynamodb.wire import Wire, after, answered, cancelled, lost, refused

CONFLICT = "TransactionConflict"


# patience -------------------------------------------------------------------------------------------------------------
def tokens(wire: Wire) -> list[str]:
    return [request.body["ClientRequestToken"] for request in wire.requests if "ClientRequestToken" in request.body]


@pytest.mark.parametrize("reasons", [(CONFLICT, "None"), ("None", CONFLICT), ("ThrottlingError", CONFLICT)], ids=str)
def test_a_conflict_is_tried_again_with_the_same_token_until_it_holds(
    library: Table, wire: Wire, clock: Clock, reasons: tuple[str, str]
) -> None:
    wire.next("TransactWriteItems", *[cancelled(*reasons)] * 3)
    library.write(put(BOOK, book()), put(LOAN, loan()))
    assert the_book(library) == book()
    assert len(tokens(wire)) == 4
    assert len(set(tokens(wire))) == 1
    assert len(clock.slept) == 3


@pytest.mark.parametrize("code", sorted(HEALS))
def test_whatever_may_heal_is_tried_again(library: Table, wire: Wire, clock: Clock, code: str) -> None:
    wire.next("TransactWriteItems", refused(code), cancelled("None", code))
    library.write(put(BOOK, book()), put(LOAN, loan()))
    wire.next("PutItem", refused(code))
    wire.next("UpdateItem", refused(code))
    wire.next("DeleteItem", refused(code))
    library.write(put(BOOK, book("b2")))
    library.write(change(BOOK, book("b2"), book("b2", version=2)))
    library.write(delete_older(BOOK, book("b2", version=3)))
    assert len(clock.slept) == 5


def test_two_writes_never_share_a_token(library: Table, wire: Wire) -> None:
    library.write(put(BOOK, book("b1")), put(LOAN, loan("l1")))
    library.write(put(BOOK, book("b2")), put(LOAN, loan("l2")))
    assert len(set(tokens(wire))) == 2


@pytest.mark.parametrize("fraction", [0.25, 1.0])
def test_conflicts_that_outlast_the_budget_end_as_busy_after_growing_pauses_with_jitter(
    library: Table, wire: Wire, clock: Clock, fraction: float
) -> None:
    library.random = lambda: fraction
    library.budget_seconds = 2.0
    wire.next("TransactWriteItems", *[cancelled(CONFLICT, "None")] * 100)
    with pytest.raises(Busy) as busy:
        library.write(put(BOOK, book()), put(LOAN, loan()))
    assert busy.value.retry_after_seconds >= 1
    steps = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, *[0.64] * 20]
    assert clock.slept == pytest.approx([fraction * step for step in steps[: len(clock.slept)]])
    assert 2.0 - 0.64 < sum(clock.slept) <= 2.0
    assert len(wire.take_waiting()) == 1
    assert the_book(library) is None


def test_the_pauses_of_two_writers_differ() -> None:
    assert Table.random() != Table.random()


def test_a_refusal_beside_a_conflict_is_not_tried_again(library: Table, wire: Wire, clock: Clock) -> None:
    item = {"Code": "ConditionalCheckFailed", "Item": BOOK.write(book())}
    reasons = [{"Code": CONFLICT}, item]
    wire.next("TransactWriteItems", refused("TransactionCanceledException", CancellationReasons=reasons))
    with pytest.raises(Refused) as refusal:
        library.write(put(LOAN, loan()), put(BOOK, book(), refused=named("book")))
    assert (refusal.value.name, refusal.value.found, clock.slept) == ("book", book(), [])


def test_a_write_that_dynamodb_will_never_take_is_impossible_and_not_tried_again(
    library: Table, wire: Wire, clock: Clock
) -> None:
    huge = book("b2", title="x" * 500_000)
    with pytest.raises(Impossible):
        library.write(put(BOOK, huge))
    with pytest.raises(Impossible):
        library.write(put(LOAN, loan()), put(BOOK, huge))
    wire.next("TransactWriteItems", cancelled("None", "ValidationError"))
    with pytest.raises(Impossible):
        library.write(put(LOAN, loan()), put(BOOK, book()))
    assert clock.slept == []
    assert issubclass(Impossible, Permanent)


def test_any_other_error_is_raised_at_once(library: Table, wire: Wire, clock: Clock) -> None:
    wire.next("TransactWriteItems", refused("ResourceNotFoundException"), cancelled("AccessDenied", "None"))
    wire.next("PutItem", refused("ResourceNotFoundException"))
    for _ in range(2):
        with pytest.raises(ClientError):
            library.write(put(BOOK, book()), put(LOAN, loan()))
    with pytest.raises(ClientError):
        library.write(put(BOOK, book()))
    assert clock.slept == []


# answers that were lost -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("operation", "write"),
    [
        ("PutItem", put(BOOK, book("b2"))),
        ("PutItem", put_newer(BOOK, book(version=2))),
        ("PutItem", put_over(BOOK, book(title="new"), "title", "Emma")),
        ("PutItem", turn(BOOK, book(), LOST, LostBook(book_id="b1", created_at=moment(0), version=2))),
        ("UpdateItem", change(BOOK, book(), book(title="new", version=2))),
        ("DeleteItem", delete_older(BOOK, book(version=2))),
    ],
    ids=["put", "put_newer", "put_over", "turn", "change", "delete_older"],
)
def test_a_lost_answer_of_a_single_write_is_taken_for_its_own(
    patient_library: Table, patient_wire: Wire, operation: str, write: Any
) -> None:
    patient_library.write(put(BOOK, book()))
    patient_wire.next(operation, lost)
    patient_wire.clear()
    patient_library.write(write)
    assert patient_wire.operations == [operation] * 2


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (put(BOOK, book("b2", title="mine")), put(BOOK, book("b2", title="theirs"))),
        (change(BOOK, book(), book(title="mine", version=2)), change(BOOK, book(), book(title="theirs", version=2))),
    ],
    ids=["put", "change"],
)
def test_what_another_wrote_meanwhile_is_not_taken_for_its_own(
    library: Table, wire: Wire, mine: Any, theirs: Any
) -> None:
    library.write(put(BOOK, book()))
    wire.next(wire_operation(mine), after(lambda: library.write(theirs)))
    with pytest.raises(Changed):
        library.write(mine)


def wire_operation(write: Any) -> str:
    return {"Put": "PutItem", "Update": "UpdateItem"}[write.kind]


def test_what_was_changed_again_after_the_lost_answer_is_not_taken_for_its_own(
    patient_library: Table, patient_wire: Wire
) -> None:
    def lost_and_overtaken(request: Any) -> None:
        patient_library.client.delete_item(TableName=patient_library.name, Key=KEY)
        patient_library.client.put_item(TableName=patient_library.name, Item=BOOK.write(book(title="later", version=3)))
        lost(request)

    patient_library.write(put(BOOK, book()))
    patient_wire.next("UpdateItem", lost_and_overtaken)
    with pytest.raises(Changed):
        patient_library.write(change(BOOK, book(), book(title="new", version=2)))


def test_a_lost_answer_of_a_transaction_is_found_by_its_token(patient_library: Table, patient_wire: Wire) -> None:
    patient_library.write(put(BOOK, book(copies=5)))
    patient_wire.next("TransactWriteItems", lost)
    patient_library.write(take(2), put(LOAN, loan()))
    assert the_book(patient_library) == book(copies=3, version=2)
    assert len(set(tokens(patient_wire))) == 1


def test_a_lost_answer_of_an_addition_by_itself_does_not_add_twice(patient_library: Table, patient_wire: Wire) -> None:
    patient_library.write(put(BOOK, book(copies=5)))
    patient_wire.next("TransactWriteItems", lost)
    patient_library.write(take(2))
    assert the_book(patient_library) == book(copies=3, version=2)


def test_a_change_that_only_takes_an_attribute_away_is_known_again(patient_library: Table, patient_wire: Wire) -> None:
    before = book(shelf="A")
    patient_library.write(put(BOOK, before))
    patient_wire.next("UpdateItem", lost)
    patient_library.write(change(BOOK, before, replace(before, shelf=None, version=2)))
    assert the_book(patient_library) == book(version=2)


# deleting -------------------------------------------------------------------------------------------------------------
def test_delete_goes_in_chunks_and_minds_nothing_that_is_missing(library: Table, wire: Wire) -> None:
    for number in range(30):
        library.write(put(LOAN, loan(f"l{number:02}")))
    keys = [LOAN.key_of(loan(f"l{number:02}")) for number in range(60)]
    wire.clear()
    library.delete(keys)
    assert wire.operations == ["BatchWriteItem"] * 3
    assert library.query(LOANS, book_id="b1").items == ()


def left(library: Table, *keys: Mapping[str, Any]) -> dict[str, Any]:
    return {library.name: [{"DeleteRequest": {"Key": key}} for key in keys]}


def test_items_that_were_left_unprocessed_are_deleted_again(library: Table, wire: Wire, clock: Clock) -> None:
    keys = [LOAN.key_of(loan(f"l{number}")) for number in range(3)]
    for number in range(3):
        library.write(put(LOAN, loan(f"l{number}")))
    wire.clear()
    wire.next("BatchWriteItem", answered({"UnprocessedItems": left(library, *keys[1:])}))
    wire.next("BatchWriteItem", answered({"UnprocessedItems": left(library, keys[2])}))
    library.delete(keys)
    assert [len(request.body["RequestItems"][library.name]) for request in wire.requests] == [3, 2, 1]
    assert len(clock.slept) == 2
    assert [each.loan_id for each in library.query(LOANS, book_id="b1").items] == ["l1", "l0"]


def test_items_that_stay_unprocessed_end_as_busy(library: Table, wire: Wire, clock: Clock) -> None:
    wire.next("BatchWriteItem", *[answered({"UnprocessedItems": left(library, KEY)})] * 100)
    with pytest.raises(Busy):
        library.delete([KEY])
    assert sum(clock.slept) <= library.budget_seconds
    assert wire.take_waiting() == ["BatchWriteItem"]


def test_a_delete_that_is_throttled_is_busy(library: Table, wire: Wire) -> None:
    wire.next("BatchWriteItem", refused("ProvisionedThroughputExceededException"))
    with pytest.raises(Busy):
        library.delete([KEY])
