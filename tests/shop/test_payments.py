"""Tests payments: every amount that the provider reports is recorded."""

from typing import Any, get_args

import pytest

from functions.dynamodb.errors import TableBusy
from functions.model.entities import Order, OrderStatus, Payment, RecordedEvent, Refund
from functions.model.errors import IdempotencyKeyReused, NotAllowed, NotFound, WrongState
from functions.model.table import PAYMENT
from functions.shop import cancellation, refunds
from functions.shop.idempotency import fingerprint
from functions.shop.payments import (
    MAX_RECORDED_EVENTS,
    NO_ORDER,
    get_payment_claim,
    list_unmatched_payments,
    record_payment,
)
from functions.shop.refunds import MAX_PAYMENTS
from functions.shop.shop import ShopContext
from proof.support.actors import (
    ANN,
    STAFF,
    advance_to_status,
    archive_order,
    available_by_part,
    get_order,
    order_after_change,
    payment_update,
    place,
    report_dispute,
    report_payment,
)
from proof.support.client_faults import WireTap
from proof.support.samples import moment
from tests.shop.conftest import TappedShop, everything
from tests.support.order_money import payments as payments_of
from tests.support.order_money import refunds as refunds_of


def test_an_order_is_paid_in_the_transaction_that_keeps_the_payment(shop: TappedShop) -> None:
    order = place(shop)
    shop.clock.sleep(60)
    shop.wire.clear()
    assert report_payment(shop, order) == {"payment_id": "pi_1", "status": "CAPTURED", "reason": None}
    assert shop.wire.operations == ["Query", "TransactWriteItems"]
    assert get_order(shop, order.order_id) == order_after_change(
        order, status="PAID", paid=order.total, paid_at=moment(1), version=2, updated_at=moment(1)
    )
    assert payments_of(shop, order.order_id) == [
        Payment(
            order_id=order.order_id,
            payment_id="pi_1",
            status="CAPTURED",
            amount=order.total,
            currency="EUR",
            created_at=moment(1),
            updated_at=moment(1),
            events={"evt_1": RecordedEvent(fingerprint=fingerprint(body_of(order)), status="CAPTURED")},
        )
    ]


def body_of(order: Order) -> dict[str, Any]:
    """Return the body of the event that `report_payment` reports."""
    return {"id": "evt_1", "amount": order.total}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"amount": 0}, "the amount is less than 1"),
        ({"amount": -2500}, "the amount is less than 1"),
        ({"currency": "USD"}, "the order is in EUR"),
        ({"currency": "ABC"}, "the order is in EUR"),
        ({"order_id": "none-such"}, "the order does not exist"),
        ({"order_id": NO_ORDER}, "the order does not exist"),
    ],
    ids=str,
)
def test_money_that_fits_no_order_is_kept_with_the_reason(
    shop: ShopContext, changed: dict[str, Any], reason: str
) -> None:
    order = place(shop)
    assert report_payment(shop, order, **changed) == {"payment_id": "pi_1", "status": "UNMATCHED", "reason": reason}
    (payment,) = payments_of(shop, changed.get("order_id", order.order_id))
    assert (payment.status, payment.reason) == ("UNMATCHED", reason)
    assert (payment.amount, payment.currency) == (changed.get("amount", 2500), changed.get("currency", "EUR"))
    assert get_order(shop, order.order_id) == order
    assert refunds_of(shop, payment.order_id) == [], "staff decide about the payment"
    assert report_payment(shop, order, event_id="evt_2", payment_id="pi_2", amount=1)["status"] == "CAPTURED", (
        "the smallest amount is still accepted"
    )


# one payment of the provider pays one order ---------------------------------------------------------------------------
@pytest.fixture
def two(shop: ShopContext) -> tuple[Order, Order]:
    """An order that pi_1 paid, and another order for which the provider reports the same payment."""
    first, second = place(shop), place(shop, "key-2")
    assert report_payment(shop, first)["status"] == "CAPTURED"
    assert report_payment(shop, second, event_id="evt_2") == {
        "payment_id": "pi_1",
        "status": "UNMATCHED",
        "reason": "the payment is recorded for another order",
    }
    return get_order(shop, first.order_id), second


def test_one_payment_of_the_provider_never_pays_a_second_order(shop: ShopContext, two: tuple[Order, Order]) -> None:
    first, second = two
    assert get_order(shop, second.order_id) == second
    assert [it.amount for it in payments_of(shop, second.order_id)] == [0], "the money belongs to the first order"
    assert get_payment_claim(shop, STAFF, "pi_1").order_id == first.order_id
    with pytest.raises(NotAllowed):
        get_payment_claim(shop, ANN, "pi_1")
    with pytest.raises(NotFound):
        get_payment_claim(shop, STAFF, "pi_2")


def test_money_recorded_for_another_order_is_never_refunded_twice(shop: ShopContext, two: tuple[Order, Order]) -> None:
    first, second = two
    closed = refunds.refund_payment(shop, STAFF, "close", second.order_id, "pi_1").result
    assert (closed["amount"], refunds_of(shop, second.order_id)) == (0, [])
    assert [it.status for it in payments_of(shop, second.order_id)] == ["FAILED"]
    assert list(list_unmatched_payments(shop)) == [], "no payment waits for staff any more"
    with pytest.raises(WrongState):
        refunds.refund_payment(shop, STAFF, "close again", second.order_id, "pi_1")
    refunds.refund_order(shop, STAFF, "back", first.order_id, 2500)
    assert get_order(shop, first.order_id).refunded == 2500, "the order that has the money can still refund it"


@pytest.mark.parametrize(("amount", "status"), [(2500, "UNMATCHED"), (0, "CAPTURED")])
def test_money_without_an_order_is_claimed_too_but_no_money_is_not(shop: ShopContext, amount: int, status: str) -> None:
    """Otherwise staff could refund the money that paid the order."""
    order = place(shop)
    assert report_payment(shop, order, order_id=NO_ORDER, amount=amount)["status"] == "UNMATCHED"
    assert report_payment(shop, order, event_id="evt_2")["status"] == status


def test_a_claim_outlives_the_archive_of_its_order(shop: ShopContext, two: tuple[Order, Order]) -> None:
    first, second = two
    cancellation.cancel_order(shop, ANN, first.order_id)
    archive_order(shop, first.order_id, to_stub=True)
    shop.table.batch_delete([PAYMENT.key(order_id=first.order_id, payment_id="pi_1")])
    for number, order in enumerate(two):
        report_payment(shop, order, event_id=f"evt_1{number}")
    assert payments_of(shop, first.order_id) == [], "the archive has its payment: a repeated event brings no new money"
    assert [it.status for it in payments_of(shop, second.order_id)] == ["UNMATCHED"]
    assert get_order(shop, second.order_id) == second


# payments of a part, and of too much ----------------------------------------------------------------------------------
def test_a_part_is_counted_and_the_order_waits_for_the_rest(shop: TappedShop) -> None:
    order = place(shop)
    shop.clock.sleep(60)
    assert report_payment(shop, order, amount=900)["status"] == "CAPTURED"
    assert get_order(shop, order.order_id) == order_after_change(order, paid=900, version=2, updated_at=moment(1))
    assert report_payment(shop, order, event_id="evt_2", payment_id="pi_2", amount=1600)["status"] == "CAPTURED"
    paid = get_order(shop, order.order_id)
    assert (paid.status, paid.paid, paid.version) == ("PAID", 2500, 3)
    assert refunds_of(shop, order.order_id) == []


def test_an_excess_payment_is_refunded_in_the_same_transaction(shop: TappedShop) -> None:
    order = place(shop)
    report_payment(shop, order, amount=900)
    shop.wire.clear()
    report_payment(shop, order, event_id="evt_2", payment_id="pi_2", amount=2000)
    assert shop.wire.operations.count("TransactWriteItems") == 1
    paid = get_order(shop, order.order_id)
    assert (paid.status, paid.paid, paid.refunded) == ("PAID", 2500, 0)
    assert refunds_of(shop, order.order_id) == [
        Refund(
            order_id=order.order_id,
            refund_id="pi_2-1",
            payment_id="pi_2",
            status="REQUESTED",
            amount=400,
            currency="EUR",
            why="EXCESS",
            customer_id="ann",
            created_at=moment(),
            updated_at=moment(),
        )
    ]


@pytest.mark.parametrize("disputed", [0, MAX_PAYMENTS])
def test_an_order_counts_five_payments_and_gives_a_sixth_back(shop: ShopContext, disputed: int) -> None:
    order = place(shop)
    for number in range(1, 8):
        report_payment(shop, order, event_id=f"evt_{number}", payment_id=f"pi_{number}", amount=100)
        if number <= disputed:
            report_dispute(shop, f"pi_{number}", "opened", dispute_id=f"dp_{number}")
    assert get_order(shop, order.order_id).paid == MAX_PAYMENTS * 100
    assert [(it.payment_id, it.amount, it.why) for it in refunds_of(shop, order.order_id)] == [
        ("pi_6", 100, "EXCESS"),
        ("pi_7", 100, "EXCESS"),
    ]


# late payments --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("status", sorted({*get_args(OrderStatus)} - {"PENDING", "ARCHIVING"}))
def test_money_for_an_order_that_does_not_wait_for_it_is_given_back(shop: ShopContext, status: str) -> None:
    before = advance_to_status(shop, place(shop), status)
    refunds_before = refunds_of(shop, before.order_id)
    assert report_payment(shop, before) == {"payment_id": "pi_1", "status": "CAPTURED", "reason": None}
    assert get_order(shop, before.order_id) == before
    (late,) = [refund for refund in refunds_of(shop, before.order_id) if refund not in refunds_before]
    assert (late.refund_id, late.amount, late.why, late.status) == ("pi_1-1", 2500, "LATE", "REQUESTED")


def test_money_for_an_order_that_is_being_archived_is_taken_later_when_it_can_be_kept(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "CANCELLED")
    first = report_payment(shop, order, outcome="failed")
    archive_order(shop, order.order_id, to_stub=False)
    assert report_payment(shop, order, outcome="failed") == first, "an event that comes again is answered as before"
    with pytest.raises(TableBusy):  # the API answers 503, and the provider sends the event again
        report_payment(shop, order, event_id="evt_2")
    assert [payment.status for payment in payments_of(shop, order.order_id)] == ["FAILED"]


def test_a_payment_that_failed_for_a_reason_may_succeed_later(shop: TappedShop) -> None:
    order = place(shop)
    failure = {"payment_id": "pi_1", "status": "FAILED", "reason": "card_declined"}
    assert report_payment(shop, order, outcome="failed", reason="card_declined") == failure
    assert payments_of(shop, order.order_id)[0].reason == "card_declined"
    assert get_order(shop, order.order_id) == order
    shop.clock.sleep(60)
    assert report_payment(shop, order, event_id="evt_2")["status"] == "CAPTURED"
    (payment,) = payments_of(shop, order.order_id)
    assert (payment.status, payment.reason, payment.version) == ("CAPTURED", None, 2)
    assert (payment.created_at, payment.updated_at) == (moment(), moment(1))
    assert get_order(shop, order.order_id).status == "PAID"


def test_a_payment_is_authorised_before_it_is_captured(shop: ShopContext) -> None:
    order = place(shop)
    assert report_payment(shop, order, outcome="authorised")["status"] == "AUTHORISED"
    assert get_order(shop, order.order_id) == order
    assert report_payment(shop, order, event_id="evt_2", amount=2000)["status"] == "CAPTURED"
    (payment,) = payments_of(shop, order.order_id)
    assert (payment.amount, payment.version) == (2000, 2), "the captured amount, not the authorised one"
    assert get_order(shop, order.order_id).paid == 2000


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "authorised"])
@pytest.mark.parametrize("known", ["CAPTURED", "UNMATCHED", "DISPUTED", "REFUNDED"])
def test_a_captured_payment_is_neither_captured_again_nor_failed(shop: ShopContext, known: str, outcome: str) -> None:
    order = place(shop)
    report_payment(shop, order, currency="USD" if known == "UNMATCHED" else "EUR")
    disputes: dict[str, tuple[Any, ...]] = {"DISPUTED": ("opened",), "REFUNDED": ("opened", "lost")}
    for what in disputes.get(known, ()):
        report_dispute(shop, "pi_1", what)
    (before,), order_before = payments_of(shop, order.order_id), get_order(shop, order.order_id)
    assert before.status == known
    assert report_payment(shop, order, event_id="evt_2", outcome=outcome)["status"] == known
    assert payments_of(shop, order.order_id) == [before]
    assert get_order(shop, order.order_id) == order_before
    assert refunds_of(shop, order.order_id) == []


@pytest.mark.parametrize(
    ("told_first", "told_then", "is_then"),
    [
        ("failed", "authorised", "AUTHORISED"),
        ("authorised", "failed", "FAILED"),
        ("authorised", "authorised", "AUTHORISED"),
        ("failed", "failed", "FAILED"),
    ],
)
def test_before_a_capture_the_latest_event_decides(
    shop: ShopContext, told_first: str, told_then: str, is_then: str
) -> None:
    order = place(shop)
    first = report_payment(shop, order, outcome=told_first)
    then = report_payment(shop, order, event_id="evt_2", outcome=told_then)
    assert (then["status"], then == first) == (is_then, told_then == told_first)
    assert [payment.version for payment in payments_of(shop, order.order_id)] == [1 if then == first else 2]
    assert get_order(shop, order.order_id) == order


def test_an_event_that_comes_again_is_answered_as_before_and_nothing_is_written(shop: TappedShop) -> None:
    order = place(shop)
    event = payment_update(order)
    first = record_payment(shop, event, {"id": "evt_1"})
    paid = get_order(shop, order.order_id)
    shop.wire.clear()
    again = record_payment(shop, event, {"id": "evt_1"})
    assert (first.replayed, again.replayed, again.result) == (False, True, first.result)
    assert shop.wire.operations == ["Query", "GetItem"]
    with pytest.raises(IdempotencyKeyReused):
        record_payment(shop, payment_update(order, amount=1), {"id": "evt_1", "amount": 1})
    assert get_order(shop, order.order_id) == paid


def command_items(shop: ShopContext) -> list[str]:
    """Return the fingerprints of the Command items that remember events about payments."""
    images = everything(shop)
    return [it["fingerprint"]["S"] for it in images if it.get("command") == {"S": "record_payment"}]


def test_an_event_that_changes_nothing_gets_the_same_answer_again(shop: ShopContext) -> None:
    order = place(shop)
    report_payment(shop, order)
    first = report_payment(shop, order, event_id="evt_2", outcome="failed")
    assert (first["status"], len(command_items(shop))) == ("CAPTURED", 1)
    report_dispute(shop, "pi_1", "lost")
    assert report_payment(shop, order, event_id="evt_2", outcome="failed") == first


def test_a_payment_with_many_events_remembers_the_first_and_items_of_their_own_the_others(shop: ShopContext) -> None:
    order = place(shop)
    outcomes = ["failed", "authorised"] * 4
    first = [report_payment(shop, order, event_id=f"evt_{n}", outcome=it) for n, it in enumerate(outcomes)]
    (payment,) = payments_of(shop, order.order_id)
    assert sorted(payment.events or ()) == [f"evt_{number}" for number in range(MAX_RECORDED_EVENTS)]
    assert len(command_items(shop)) == len(outcomes) - MAX_RECORDED_EVENTS
    assert sum(len(str(it)) for it in PAYMENT.encode(payment).items()) < 1024
    assert [report_payment(shop, order, event_id=f"evt_{n}", outcome=it) for n, it in enumerate(outcomes)] == first
    assert payments_of(shop, order.order_id) == [payment]


def test_one_event_delivered_twice_at_once_pays_once(shop: TappedShop) -> None:
    order = place(shop)
    event = payment_update(order)
    shop.meanwhile(lambda rival: record_payment(rival, event, {"id": "evt_1"}))
    answer = record_payment(shop, event, {"id": "evt_1"})
    assert (answer.replayed, answer.result["status"]) == (True, "CAPTURED")
    assert get_order(shop, order.order_id).version == 2
    assert len(payments_of(shop, order.order_id)) == 1


@pytest.mark.parametrize("first", ["cancel", "pay"])
def test_when_cancel_and_payment_race_the_order_is_cancelled_and_the_money_goes_back(
    shop: TappedShop, first: str
) -> None:
    order = place(shop)
    if first == "cancel":
        shop.meanwhile(lambda rival: cancellation.cancel_order(rival, ANN, order.order_id))
        assert report_payment(shop, order)["status"] == "CAPTURED"
    else:
        shop.meanwhile(lambda rival: report_payment(rival, order))
        cancellation.cancel_order(shop, ANN, order.order_id)
    assert get_order(shop, order.order_id).status == "CANCELLED"
    assert available_by_part(shop) == [10]
    why = "LATE" if first == "cancel" else "CANCELLED"
    assert [(it.amount, it.why) for it in refunds_of(shop, order.order_id)] == [(2500, why)]


def test_a_payment_is_added_only_to_an_order_as_it_was_read(shop: TappedShop) -> None:
    order = advance_to_status(shop, place(shop), "CANCELLED")
    shop.meanwhile(lambda rival: archive_order(rival, order.order_id, to_stub=True))
    assert report_payment(shop, order)["reason"] == "the order is archived", "the order was archived during the command"
    checks = [write["ConditionCheck"]["Key"] for write in written(shop.wire) if "ConditionCheck" in write]
    assert checks == [{"PK": {"S": f"ORDER#{order.order_id}"}, "SK": {"S": "ORDER"}}], "a stub may be restored"


def test_a_failure_is_added_only_to_an_order_as_it_was_read(shop: TappedShop) -> None:
    order = place(shop)
    report_payment(shop, order, outcome="failed")
    assert [next(iter(write)) for write in written(shop.wire)] == ["Put", "ConditionCheck"]


def written(wire: WireTap) -> list[dict[str, Any]]:
    return list(wire.requests[-1].body["TransactItems"])
