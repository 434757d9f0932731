"""Payments: the provider is right about money, and every cent it tells of is kept."""

from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.patience import Busy
from functions.model.entities import Payment
from functions.model.errors import KeyReused, WrongState
from functions.model.patterns import C2, PAYMENTS
from functions.shop import orders
from functions.shop.payments import NO_ORDER, record_payment
from functions.shop.shop import Shop
from tests.dynamodb.fixtures import Clock
from tests.dynamodb.wire import Wire, after, cancelled
from tests.model.samples import moment
from tests.shop.acts import ANN, archive, available, bring_to, order_now, place, tell, told


def payments_of(shop: Shop, order_id: str) -> list[Payment]:
    return list(shop.table.query(PAYMENTS, order_id=order_id).items)


def test_an_order_is_paid_in_the_transaction_that_keeps_the_payment(shop: Shop, wire: Wire, clock: Clock) -> None:
    order = place(shop)
    clock.sleep(60)
    wire.clear()
    assert tell(shop, order) == {"payment_id": "pi_1", "status": "CAPTURED", "reason": None}
    assert wire.operations == ["GetItem", "GetItem", "GetItem", "TransactWriteItems"]
    assert order_now(shop, order.order_id) == replace(order, status="PAID", version=2, updated_at=moment(1))
    assert payments_of(shop, order.order_id) == [
        Payment(
            order_id=order.order_id,
            payment_id="pi_1",
            status="CAPTURED",
            amount=order.total,
            currency="EUR",
            created_at=moment(1),
            updated_at=moment(1),
        )
    ]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"amount": 2499}, "the order costs 2500"),
        ({"amount": 2501}, "the order costs 2500"),
        ({"amount": 0}, "the order costs 2500"),
        ({"amount": -2500}, "the order costs 2500"),
        ({"currency": "USD"}, "the order is in EUR"),
        ({"currency": "ABC"}, "the order is in EUR"),
        ({"order_id": "none-such"}, "there is no such order"),
        ({"order_id": NO_ORDER}, "there is no such order"),
    ],
    ids=str,
)
def test_money_that_fits_no_waiting_order_is_kept_with_the_reason(
    shop: Shop, changed: dict[str, Any], reason: str
) -> None:
    order = place(shop)
    assert tell(shop, order, **changed) == {"payment_id": "pi_1", "status": "UNMATCHED", "reason": reason}
    (payment,) = payments_of(shop, changed.get("order_id", order.order_id))
    assert (payment.status, payment.reason) == ("UNMATCHED", reason)
    assert (payment.amount, payment.currency) == (changed.get("amount", 2500), changed.get("currency", "EUR"))
    assert order_now(shop, order.order_id) == order
    assert tell(shop, order, event_id="evt_2", payment_id="pi_2")["status"] == "CAPTURED", "the right sum still pays"


@pytest.mark.parametrize("status", ["PAID", "CANCELLED", "LAPSED", "FULFILLING", "SHIPPED", "DELIVERED"])
def test_f8_money_for_an_order_that_does_not_wait_for_it_is_kept_unmatched(shop: Shop, status: str) -> None:
    before = bring_to(shop, place(shop), status)
    assert tell(shop, before)["reason"] == f"the order is {status}"
    assert order_now(shop, before.order_id) == before
    payment = shop.table.get(C2, order_id=before.order_id, payment_id="pi_1")
    assert payment is not None
    assert payment.status == "UNMATCHED"


def test_money_for_an_order_that_is_being_archived_is_taken_later_when_it_can_be_kept(shop: Shop) -> None:
    order = bring_to(shop, place(shop), "CANCELLED")
    tell(shop, order, outcome="failed")
    archive(shop, order.order_id, to_stub=False)
    with pytest.raises(Busy):  # the provider is answered 503 and tells again
        tell(shop, order, event_id="evt_2")
    assert [payment.status for payment in payments_of(shop, order.order_id)] == ["FAILED"]


def test_money_for_an_archived_order_is_kept_beside_its_stub(shop: Shop) -> None:
    order = bring_to(shop, place(shop), "CANCELLED")
    archive(shop, order.order_id, to_stub=True)
    assert tell(shop, order)["reason"] == "the order is archived"
    assert [payment.status for payment in payments_of(shop, order.order_id)] == ["UNMATCHED"]


def test_a_payment_that_failed_may_succeed_later(shop: Shop, clock: Clock) -> None:
    order = place(shop)
    assert tell(shop, order, outcome="failed") == {"payment_id": "pi_1", "status": "FAILED", "reason": None}
    assert order_now(shop, order.order_id) == order
    clock.sleep(60)
    assert tell(shop, order, event_id="evt_2")["status"] == "CAPTURED"
    (payment,) = payments_of(shop, order.order_id)
    assert (payment.status, payment.version, payment.created_at, payment.updated_at) == (
        "CAPTURED",
        2,
        moment(),
        moment(1),
    )
    assert order_now(shop, order.order_id).status == "PAID"


def test_a_payment_that_failed_and_then_fits_no_order_is_kept_unmatched(shop: Shop) -> None:
    order = place(shop)
    tell(shop, order, outcome="failed")
    orders.cancel_order(shop, ANN, order.order_id)
    assert tell(shop, order, event_id="evt_2")["reason"] == "the order is CANCELLED"
    (payment,) = payments_of(shop, order.order_id)
    assert (payment.status, payment.version) == ("UNMATCHED", 2)


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
@pytest.mark.parametrize("known", ["CAPTURED", "UNMATCHED"])
def test_money_that_came_neither_comes_again_nor_fails_any_more(shop: Shop, known: str, outcome: str) -> None:
    order = place(shop)
    first = tell(shop, order, amount=order.total if known == "CAPTURED" else 1)
    assert first["status"] == known
    (before,), order_before = payments_of(shop, order.order_id), order_now(shop, order.order_id)
    assert tell(shop, order, event_id="evt_2", outcome=outcome) == first
    assert payments_of(shop, order.order_id) == [before]
    assert order_now(shop, order.order_id) == order_before


def test_a_payment_that_fails_again_is_the_same_failure(shop: Shop) -> None:
    order = place(shop)
    first = tell(shop, order, outcome="failed")
    assert tell(shop, order, event_id="evt_2", outcome="failed") == first
    assert [payment.version for payment in payments_of(shop, order.order_id)] == [1]


def test_an_event_that_comes_again_is_answered_as_before_and_nothing_is_written(shop: Shop, wire: Wire) -> None:
    order = place(shop)
    event = told(order)
    first = record_payment(shop, event, {"id": "evt_1"})
    bring_to_delivered = order_now(shop, order.order_id)
    wire.clear()
    again = record_payment(shop, event, {"id": "evt_1"})
    assert (first.replayed, again.replayed, again.result) == (False, True, first.result)
    assert wire.operations == ["GetItem"]
    assert order_now(shop, order.order_id) == bring_to_delivered


def test_an_event_id_with_another_body_is_refused(shop: Shop) -> None:
    order = place(shop)
    record_payment(shop, told(order), {"id": "evt_1", "amount": 2500})
    with pytest.raises(KeyReused):
        record_payment(shop, told(order, amount=1), {"id": "evt_1", "amount": 1})


def test_one_event_delivered_twice_at_once_pays_once(shop: Shop, rival: Shop, wire: Wire) -> None:
    order = place(shop)
    event = told(order)
    wire.next("TransactWriteItems", after(lambda: record_payment(rival, event, {"id": "evt_1"})))
    answer = record_payment(shop, event, {"id": "evt_1"})
    assert (answer.replayed, answer.result["status"]) == (True, "CAPTURED")
    assert order_now(shop, order.order_id).version == 2
    assert len(payments_of(shop, order.order_id)) == 1


def test_two_payments_of_one_order_at_once_pay_it_once_and_one_is_unmatched(
    shop: Shop, rival: Shop, wire: Wire
) -> None:
    order = place(shop)
    wire.next("TransactWriteItems", after(lambda: tell(rival, order, event_id="evt_2", payment_id="pi_2")))
    assert tell(shop, order) == {"payment_id": "pi_1", "status": "UNMATCHED", "reason": "the order is PAID"}
    assert [payment.status for payment in payments_of(shop, order.order_id)] == ["UNMATCHED", "CAPTURED"]


def test_two_events_of_one_payment_at_once_are_one_payment(shop: Shop, rival: Shop, wire: Wire) -> None:
    order = place(shop)
    wire.next("TransactWriteItems", after(lambda: tell(rival, order, event_id="evt_2")))
    assert tell(shop, order)["status"] == "CAPTURED"
    assert [payment.version for payment in payments_of(shop, order.order_id)] == [1]


def test_a_payment_among_conflicts_is_kept_once(shop: Shop, wire: Wire) -> None:
    order = place(shop)
    wire.next("TransactWriteItems", *[cancelled("None", "None", "TransactionConflict")] * 4)
    assert tell(shop, order)["status"] == "CAPTURED"
    assert [payment.version for payment in payments_of(shop, order.order_id)] == [1]


@pytest.mark.parametrize("first", ["cancel", "pay"])
def test_when_cancel_and_payment_race_one_of_them_wins_and_the_other_is_told(
    shop: Shop, rival: Shop, wire: Wire, first: str
) -> None:
    order = place(shop)
    if first == "cancel":
        wire.next("TransactWriteItems", after(lambda: orders.cancel_order(rival, ANN, order.order_id)))
        assert tell(shop, order)["reason"] == "the order is CANCELLED"
        assert order_now(shop, order.order_id).status == "CANCELLED"
        assert available(shop) == [10]
    else:
        wire.next("TransactWriteItems", after(lambda: tell(rival, order)))
        with pytest.raises(WrongState, match="cannot cancel: the order is PAID"):
            orders.cancel_order(shop, ANN, order.order_id)
        assert order_now(shop, order.order_id).status == "PAID"
        assert available(shop) == [8]


def test_a_payment_is_added_only_to_an_order_as_it_was_read(shop: Shop, rival: Shop, wire: Wire) -> None:
    order = bring_to(shop, place(shop), "CANCELLED")
    wire.next("TransactWriteItems", after(lambda: archive(rival, order.order_id, to_stub=True)))
    assert tell(shop, order)["reason"] == "the order is archived", "it went into the archive just then"
    checks = [write["ConditionCheck"]["Key"] for write in written(wire) if "ConditionCheck" in write]
    assert checks == [{"PK": {"S": f"ORDER#{order.order_id}"}, "SK": {"S": "ORDER"}}], "a stub may be restored"


def test_a_failure_is_added_only_to_an_order_as_it_was_read(shop: Shop, wire: Wire) -> None:
    order = place(shop)
    tell(shop, order, outcome="failed")
    assert [next(iter(write)) for write in written(wire)] == ["Put", "Put", "ConditionCheck"]


def written(wire: Wire) -> list[dict[str, Any]]:
    """The writes of the last transaction."""
    return list(wire.requests[-1].body["TransactItems"])
