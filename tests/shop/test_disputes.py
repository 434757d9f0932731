"""Disputes: the customer's bank asks a payment back, and the order's money follows what becomes of that."""

from typing import Any

import pytest

from functions.dynamodb.patience import Busy
from functions.model.entities import Order, Payment
from functions.model.errors import TooMuch
from functions.model.patterns import A12c
from functions.shop import ending, refunds
from functions.shop.payments import Disputed, record_dispute
from functions.shop.shop import Shop
from tests.dynamodb.wire import Wire, after
from tests.shop import money
from tests.shop.acts import ANN, STAFF, archive, bring_to, order_now, place, tell


def payments_of(shop: Shop, order_id: str) -> list[Payment]:
    return list(shop.table.query(A12c, order_id=order_id).items)


def dispute(shop: Shop, order: Order, outcome: Any, number: int = 1, payment_id: str = "pi_1") -> dict[str, Any]:
    """The provider tells of a dispute; the answer it gets."""
    return record_dispute(shop, Disputed(f"dp_{number}", payment_id, order.order_id, outcome, "fraudulent")).result


def test_a_disputed_payment_gives_nothing_back_until_it_is_won(shop: Shop) -> None:
    order = bring_to(shop, place(shop), "PAID")
    payment_id = payments_of(shop, order.order_id)[0].payment_id
    assert dispute(shop, order, "opened", payment_id=payment_id)["status"] == "DISPUTED"
    assert order_now(shop, order.order_id) == order
    with pytest.raises(TooMuch) as refusal:
        refunds.refund_order(shop, STAFF, "sorry", order.order_id, 100)
    assert (refusal.value.field, refusal.value.most) == ("amount", 0)
    assert dispute(shop, order, "won", payment_id=payment_id)["status"] == "CAPTURED"
    refunds.refund_order(shop, STAFF, "sorry", order.order_id, 100)
    assert order_now(shop, order.order_id).refunded == 100


def test_what_a_lost_dispute_takes_is_what_was_left(shop: Shop) -> None:
    order = bring_to(shop, place(shop), "PAID")
    payment_id = payments_of(shop, order.order_id)[0].payment_id
    refunds.refund_order(shop, STAFF, "sorry", order.order_id, 700)
    dispute(shop, order, "opened", payment_id=payment_id)
    dispute(shop, order, "lost", payment_id=payment_id)
    (payment,) = payments_of(shop, order.order_id)
    assert (payment.status, payment.refunded, payment.reason) == ("REFUNDED", 2500, "dispute lost: fraudulent")
    assert order_now(shop, order.order_id).refunded == 2500
    assert [(it.amount, it.why) for it in money.refunds(shop, order.order_id)] == [(700, "GOODWILL")]


def test_an_order_that_is_not_paid_yet_waits_again_for_what_a_lost_dispute_took(shop: Shop) -> None:
    order = place(shop)
    tell(shop, order, amount=900)
    dispute(shop, order, "opened")
    dispute(shop, order, "lost")
    waiting = order_now(shop, order.order_id)
    assert (waiting.status, waiting.paid, waiting.refunded) == ("PENDING", 0, 0)
    tell(shop, order, event_id="evt_2", payment_id="pi_2")
    assert order_now(shop, order.order_id).status == "PAID"


@pytest.mark.parametrize("end", ["CANCELLED", "LAPSED"])
def test_what_an_ended_order_could_not_give_back_is_given_back_once_the_dispute_is_won(shop: Shop, end: str) -> None:
    order = place(shop)
    tell(shop, order, amount=900)
    tell(shop, order, event_id="evt_2", payment_id="pi_2", amount=100)
    dispute(shop, order, "opened")
    ended = bring_to(shop, order_now(shop, order.order_id), end)
    assert (ended.paid, ended.refunded) == (1000, 100)
    dispute(shop, order, "won")
    dispute(shop, order, "won")
    assert order_now(shop, order.order_id).refunded == 1000
    assert [(it.refund_id, it.amount, it.why) for it in money.refunds(shop, order.order_id)] == [
        ("pi_1-1", 900, end),
        ("pi_2-1", 100, end),
    ]


def test_news_of_a_dispute_that_come_too_early_come_again(shop: Shop) -> None:
    order = place(shop)
    for known in ("nothing", "authorised", "failed"):
        if known != "nothing":
            tell(shop, order, event_id=known, outcome=known)
        for outcome in ("opened", "won", "lost"):
            with pytest.raises(Busy):
                dispute(shop, order, outcome)
    tell(shop, order)
    with pytest.raises(Busy):  # nobody has heard that it was opened
        dispute(shop, order, "lost")
    assert dispute(shop, order, "opened")["status"] == "DISPUTED"
    assert dispute(shop, order, "lost")["status"] == "REFUNDED"
    assert dispute(shop, order, "opened", number=2)["status"] == "REFUNDED", "nothing is left to ask for"


def test_each_dispute_is_opened_once_and_closed_once_whatever_the_events_are_called(shop: Shop) -> None:
    order = bring_to(shop, place(shop), "PAID")
    payment_id = payments_of(shop, order.order_id)[0].payment_id
    for outcome in ("opened", "opened", "won", "won", "opened"):
        dispute(shop, order, outcome, payment_id=payment_id)
    (payment,) = payments_of(shop, order.order_id)
    assert (payment.status, payment.version) == ("CAPTURED", 3)
    dispute(shop, order, "opened", number=2, payment_id=payment_id)
    assert payments_of(shop, order.order_id)[0].status == "DISPUTED", "another dispute is another"


def test_a_dispute_of_what_is_not_known_here_is_taken_and_nothing_is_done(shop: Shop) -> None:
    order = place(shop)
    nowhere = record_dispute(shop, Disputed("dp_1", "pi_1", "none-such", "opened"))
    assert nowhere.result == {"payment_id": "pi_1", "status": None, "reason": "there is no such payment"}
    tell(shop, order, currency="USD")
    assert dispute(shop, order, "opened", number=2)["status"] == "UNMATCHED"
    archived = bring_to(shop, place(shop, "key-2"), "CANCELLED")
    archive(shop, archived.order_id, to_stub=True)
    assert dispute(shop, archived, "opened", number=3)["status"] is None


def test_a_dispute_is_not_told_to_an_order_that_is_being_archived(shop: Shop) -> None:
    order = place(shop)
    tell(shop, order)
    ended = bring_to(shop, order_now(shop, order.order_id), "CANCELLED")
    archive(shop, order.order_id, to_stub=False)
    with pytest.raises(Busy):
        dispute(shop, ended, "opened")


@pytest.mark.parametrize("outcome", ["won", "lost"])
def test_the_end_of_a_dispute_and_the_end_of_its_order_agree_though_they_race(
    shop: Shop, rival: Shop, wire: Wire, outcome: str
) -> None:
    order = place(shop)
    tell(shop, order)
    dispute(shop, order, "opened")
    wire.next("TransactWriteItems", after(lambda: ending.cancel_order(rival, ANN, order.order_id)))
    dispute(shop, order, outcome)
    ended = order_now(shop, order.order_id)
    assert (ended.status, ended.paid, ended.refunded) == ("CANCELLED", 2500, 2500)
    assert [it.amount for it in money.refunds(shop, order.order_id)] == ([2500] if outcome == "won" else [])
