"""Tests which errors are retried, for how long, and how a client recognizes its own write after a lost answer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.dynamodb.errors import Permanent, TableBusy, WriteImpossible
from functions.dynamodb.retry import RETRYABLE_ERROR_CODES
from functions.dynamodb.table import Table
from functions.dynamodb.writes import (
    WriteConflict,
    delete_if_older,
    put_if_absent,
    put_if_held_by,
    put_if_newer,
    replace_with,
    update,
)
from proof.support.client_faults import WireTap, reply_with, send_and_lose_response
from proof.support.tapped_client import ManualClock
from tests.support.library_table import (
    BOOK,
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

CONFLICT = "TransactionConflict"


# how long requests are retried ----------------------------------------------------------------------------------------
def tokens(wire: WireTap) -> list[str]:
    return [request.body["ClientRequestToken"] for request in wire.requests if "ClientRequestToken" in request.body]


@pytest.mark.parametrize("reasons", [(CONFLICT, "None"), ("None", CONFLICT), ("ThrottlingError", CONFLICT)], ids=str)
def test_a_conflict_is_tried_again_with_the_same_token_until_it_holds(
    library: Table, wire: WireTap, clock: ManualClock, reasons: tuple[str, str]
) -> None:
    wire.cancel_transactions(*reasons, times=3)
    library.write(put_if_absent(BOOK, book()), put_if_absent(LOAN, loan()))
    assert get_book(library) == book()
    assert len(tokens(wire)) == 4
    assert len(set(tokens(wire))) == 1
    assert len(clock.pauses) == 3


@pytest.mark.parametrize("code", sorted(RETRYABLE_ERROR_CODES))
def test_every_transient_error_is_retried(library: Table, wire: WireTap, clock: ManualClock, code: str) -> None:
    wire.fail_calls("TransactWriteItems", code)
    wire.cancel_transactions("None", code)
    library.write(put_if_absent(BOOK, book()), put_if_absent(LOAN, loan()))
    wire.fail_calls("PutItem", code)
    wire.fail_calls("UpdateItem", code)
    wire.fail_calls("DeleteItem", code)
    library.write(put_if_absent(BOOK, book("b2")))
    library.write(update(BOOK, book("b2"), book("b2", version=2)))
    library.write(delete_if_older(BOOK, book("b2", version=3)))
    assert len(clock.pauses) == 5


def test_two_writes_never_share_a_token(library: Table, wire: WireTap) -> None:
    library.write(put_if_absent(BOOK, book("b1")), put_if_absent(LOAN, loan("l1")))
    library.write(put_if_absent(BOOK, book("b2")), put_if_absent(LOAN, loan("l2")))
    assert len(set(tokens(wire))) == 2


@pytest.mark.parametrize("fraction", [0.25, 1.0])
def test_conflicts_that_outlast_the_budget_end_as_busy_after_growing_pauses_with_jitter(
    library: Table, wire: WireTap, clock: ManualClock, fraction: float
) -> None:
    library.random = lambda: fraction
    library.retry_budget_seconds = 2.0
    wire.cancel_transactions(CONFLICT, "None", times=100)
    with pytest.raises(TableBusy) as busy:
        library.write(put_if_absent(BOOK, book()), put_if_absent(LOAN, loan()))
    assert busy.value.retry_after_seconds >= 1
    steps = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, *[0.64] * 20]
    assert clock.pauses == pytest.approx([fraction * step for step in steps[: len(clock.pauses)]])
    assert 2.0 - 0.64 < sum(clock.pauses) <= 2.0
    assert len(wire.pop_unused_replies()) == 1
    assert get_book(library) is None


def test_the_pauses_of_two_writers_differ() -> None:
    assert Table.random() != Table.random()


def test_a_refusal_beside_a_conflict_is_not_tried_again(library: Table, wire: WireTap, clock: ManualClock) -> None:
    item = {"Code": "ConditionalCheckFailed", "Item": BOOK.encode(book())}
    reasons = [{"Code": CONFLICT}, item]
    wire.fail_calls("TransactWriteItems", "TransactionCanceledException", CancellationReasons=reasons)
    with pytest.raises(RefusedWrite) as refusal:
        library.write(put_if_absent(LOAN, loan()), put_if_absent(BOOK, book(), condition_error=refusal_named("book")))
    assert (refusal.value.name, refusal.value.found, clock.pauses) == ("book", book(), [])


def test_a_write_that_dynamodb_will_never_take_is_impossible_and_not_tried_again(
    library: Table, wire: WireTap, clock: ManualClock
) -> None:
    huge = book("b2", title="x" * 500_000)
    with pytest.raises(WriteImpossible):
        library.write(put_if_absent(BOOK, huge))
    with pytest.raises(WriteImpossible):
        library.write(put_if_absent(LOAN, loan()), put_if_absent(BOOK, huge))
    wire.cancel_transactions("None", "ValidationError")
    with pytest.raises(WriteImpossible):
        library.write(put_if_absent(LOAN, loan()), put_if_absent(BOOK, book()))
    assert clock.pauses == []
    assert issubclass(WriteImpossible, Permanent)


def test_any_other_error_is_raised_at_once(library: Table, wire: WireTap, clock: ManualClock) -> None:
    wire.fail_calls("TransactWriteItems", "ResourceNotFoundException")
    wire.cancel_transactions("AccessDenied", "None")
    wire.fail_calls("PutItem", "ResourceNotFoundException")
    for _ in range(2):
        with pytest.raises(ClientError):
            library.write(put_if_absent(BOOK, book()), put_if_absent(LOAN, loan()))
    with pytest.raises(ClientError):
        library.write(put_if_absent(BOOK, book()))
    assert clock.pauses == []


# lost answers ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("operation", "write"),
    [
        ("PutItem", put_if_absent(BOOK, book("b2"))),
        ("PutItem", put_if_newer(BOOK, book(version=2))),
        ("PutItem", put_if_held_by(BOOK, book(title="new"), "title", "Emma")),
        ("PutItem", replace_with(BOOK, book(), LOST, LostBook(book_id="b1", created_at=moment(0), version=2))),
        ("UpdateItem", update(BOOK, book(), book(title="new", version=2))),
        ("DeleteItem", delete_if_older(BOOK, book(version=2))),
    ],
    ids=["put", "put_newer", "put_over", "turn", "change", "delete_older"],
)
def test_a_lost_answer_of_a_single_write_is_taken_for_its_own(
    patient_library: Table, patient_wire: WireTap, operation: str, write: Any
) -> None:
    patient_library.write(put_if_absent(BOOK, book()))
    patient_wire.lose_response(operation)
    patient_wire.clear()
    patient_library.write(write)
    assert patient_wire.operations == [operation] * 2


@pytest.mark.parametrize(
    ("operation", "write"),
    [
        ("PutItem", lambda title: put_if_absent(BOOK, book("b2", title=title))),
        ("UpdateItem", lambda title: update(BOOK, book(), book(title=title, version=2))),
    ],
)
def test_a_write_by_another_process_is_not_mistaken_for_its_own(
    library: Table, wire: WireTap, operation: str, write: Any
) -> None:
    library.write(put_if_absent(BOOK, book()))
    wire.run_before_call(operation, lambda: library.write(write("theirs")))
    with pytest.raises(WriteConflict):
        library.write(write("mine"))


def test_a_write_that_was_overwritten_after_a_lost_answer_is_not_mistaken_for_its_own(
    patient_library: Table, patient_wire: WireTap
) -> None:
    def lost_and_overtaken(request: Any) -> None:
        patient_library.client.delete_item(TableName=patient_library.name, Key=KEY)
        patient_library.client.put_item(
            TableName=patient_library.name, Item=BOOK.encode(book(title="later", version=3))
        )
        send_and_lose_response(request)

    patient_library.write(put_if_absent(BOOK, book()))
    patient_wire.reply_next("UpdateItem", lost_and_overtaken)
    with pytest.raises(WriteConflict):
        patient_library.write(update(BOOK, book(), book(title="new", version=2)))


@pytest.mark.parametrize("others", [[], [put_if_absent(LOAN, loan())]], ids=["an addition alone", "with another write"])
def test_a_lost_answer_of_a_transaction_is_found_by_its_token(
    patient_library: Table, patient_wire: WireTap, others: list[Any]
) -> None:
    patient_library.write(put_if_absent(BOOK, book(copies=5)))
    patient_wire.lose_response("TransactWriteItems")
    patient_library.write(take_copies(2), *others)
    assert get_book(patient_library) == book(copies=3, version=2)
    assert len(set(tokens(patient_wire))) == 1


def test_a_removed_attribute_is_recognized_as_an_own_write(patient_library: Table, patient_wire: WireTap) -> None:
    before = book(shelf="A")
    patient_library.write(put_if_absent(BOOK, before))
    patient_wire.lose_response("UpdateItem")
    patient_library.write(update(BOOK, before, replace(before, shelf=None, version=2)))
    assert get_book(patient_library) == book(version=2)


# deletions ------------------------------------------------------------------------------------------------------------
def test_batch_delete_works_in_chunks_and_ignores_missing_items(library: Table, wire: WireTap) -> None:
    for number in range(30):
        library.write(put_if_absent(LOAN, loan(f"l{number:02}")))
    keys = [LOAN.key_of(loan(f"l{number:02}")) for number in range(60)]
    wire.clear()
    library.batch_delete(keys)
    assert wire.operations == ["BatchWriteItem"] * 3
    assert library.query(LOANS, book_id="b1").items == ()


def left(library: Table, *keys: Mapping[str, Any]) -> dict[str, Any]:
    return {library.name: [{"DeleteRequest": {"Key": key}} for key in keys]}


def test_items_that_were_left_unprocessed_are_deleted_again(library: Table, wire: WireTap, clock: ManualClock) -> None:
    keys = [LOAN.key_of(loan(f"l{number}")) for number in range(3)]
    for number in range(3):
        library.write(put_if_absent(LOAN, loan(f"l{number}")))
    wire.clear()
    wire.reply_next("BatchWriteItem", reply_with({"UnprocessedItems": left(library, *keys[1:])}))
    wire.reply_next("BatchWriteItem", reply_with({"UnprocessedItems": left(library, keys[2])}))
    library.batch_delete(keys)
    assert [len(request.body["RequestItems"][library.name]) for request in wire.requests] == [3, 2, 1]
    assert len(clock.pauses) == 2
    assert [each.loan_id for each in library.query(LOANS, book_id="b1").items] == ["l1", "l0"]


def test_a_delete_that_is_throttled_is_busy(library: Table, wire: WireTap) -> None:
    wire.fail_calls("BatchWriteItem", "ProvisionedThroughputExceededException")
    with pytest.raises(TableBusy):
        library.batch_delete([KEY])
