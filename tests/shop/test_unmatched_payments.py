"""Tests that staff list the payments that match no order, and assign them, so that the money counts exactly once."""

from collections.abc import Callable
from typing import Any

import pytest

from functions.model.entities import KeptEvent, Order, Payment
from functions.model.errors import InvalidInput, NotFound, TooManyPayments, WrongCurrency, WrongState
from functions.shop import payments, refund_processing, refunds
from functions.shop.idempotency import IdempotentResult
from functions.shop.lists import ListRequest
from functions.shop.payments import NO_ORDER
from functions.shop.refunds import MAX_PAYMENTS
from functions.shop.shop import ShopContext
from functions.shop.unmatched_payments import assign_payment, list_unmatched_payments_by_date
from local.world.payment_provider import FakeProvider
from proof.support.actors import (
    STAFF,
    advance_to_status,
    archive_order,
    create_stocked_product,
    get_order,
    place,
    report_dispute,
    report_external_refund,
    report_payment,
)
from tests.shop.conftest import TappedShop, everything
from tests.shop.test_disputes import kept_events
from tests.support import order_money


@pytest.fixture
def order(shop: ShopContext) -> Order:
    """A PENDING order of 25.00, whose customer paid 25.00 without an order id (the payment pi_1)."""
    placed = place(shop)
    assert report_payment(shop, placed, order_id=NO_ORDER)["status"] == "UNMATCHED"
    return placed


def assign(shop: ShopContext, order: Order, key: str = "assign", **changed: Any) -> IdempotentResult:
    asked = {"order_id": NO_ORDER, "payment_id": "pi_1", "to_order_id": order.order_id, "reason": "named on the phone"}
    return assign_payment(shop, changed.pop("caller", STAFF), key, **asked | changed)


def listed(shop: ShopContext, **request: Any) -> list[str]:
    found = list_unmatched_payments_by_date(shop, ListRequest(STAFF, 10, **request)).items
    return [item.object_id if isinstance(item, KeptEvent) else item.payment_id for item in found]


def old_item(shop: ShopContext) -> Payment:
    (found,) = order_money.payments(shop, NO_ORDER)
    return found


# the list -------------------------------------------------------------------------------------------------------------
def test_staff_list_what_matches_no_order_by_time_oldest_first(shop: TappedShop, order: Order) -> None:
    shop.clock.sleep(60)
    since = shop.now_instant()
    report_dispute(shop, "pi_2", "opened")
    shop.clock.sleep(60)
    until = shop.now_instant()
    report_external_refund(shop, "pi_3", 100)
    assert listed(shop) == ["pi_1", "dp_1", "re_1"]
    assert listed(shop, since=since, until=until) == ["dp_1"]
    first = list_unmatched_payments_by_date(shop, ListRequest(STAFF, 2))
    assert listed(shop, cursor=first.cursor) == ["re_1"]


# assigning ------------------------------------------------------------------------------------------------------------
def test_an_assigned_payment_pays_its_new_order(shop: ShopContext, order: Order) -> None:
    done = assign(shop, order)
    assert done.result == {
        "order_id": order.order_id,
        "payment_id": "pi_1",
        "amount": 2500,
        "currency": "EUR",
        "due": 0,
    }
    assert assign(shop, order).replayed
    paid, payment = get_order(shop, order.order_id), order_money.get_payment(shop, order)
    assert (paid.status, paid.paid) == ("PAID", 2500)
    assert (payment.status, payment.amount, payment.uncounted) == ("CAPTURED", 2500, 0)
    assert payment.reason == "assigned by staff: named on the phone"
    assert payments.get_payment_claim(shop, STAFF, "pi_1").order_id == order.order_id
    assert listed(shop) == []
    with pytest.raises(WrongState):
        assign(shop, place(shop, "key-2"), "again")


def test_a_payment_that_is_too_high_is_refunded_in_part_and_one_that_is_too_low_leaves_a_rest(
    shop: ShopContext, order: Order
) -> None:
    small, large = place(shop, "small", mug=1), place(shop, "large", mug=3)
    report_payment(shop, large, event_id="evt_2", payment_id="pi_2", order_id=NO_ORDER, amount=2500)
    assign(shop, small)
    assert [(it.amount, it.why) for it in order_money.refunds(shop, small.order_id)] == [(1250, "EXCESS")]
    assert order_money.get_payment(shop, small).uncounted == 1250
    assert assign(shop, large, "large", payment_id="pi_2").result["due"] == 1250
    assert get_order(shop, large.order_id).paid == 2500


def test_the_old_item_stays_without_money_and_repeated_events_change_nothing(shop: ShopContext, order: Order) -> None:
    assign(shop, order)
    closed = old_item(shop)
    assert (closed.status, closed.amount, closed.uncounted, closed.unmatched) == ("FAILED", 0, 0, False)
    assert closed.reason == "assigned to another order: named on the phone"
    report_payment(shop, order, order_id=NO_ORDER)
    assert old_item(shop) == closed
    report_payment(shop, order, order_id=NO_ORDER, event_id="evt_2")
    assert old_item(shop).amount == 0, "another event about the same money brings no money either"
    assert get_order(shop, order.order_id).paid == 2500


def test_later_disputes_and_refunds_find_the_payment_at_its_new_order(shop: ShopContext, order: Order) -> None:
    assign(shop, order)
    report_external_refund(shop, "pi_1", 1000)
    assert get_order(shop, order.order_id).refunded == 1000
    report_dispute(shop, "pi_1", "lost", amount=1500)
    assert get_order(shop, order.order_id).refunded == 2500
    assert order_money.get_payment(shop, order).status == "REFUNDED"


def test_a_refund_of_an_assigned_payment_goes_to_the_provider(shop: ShopContext, order: Order) -> None:
    assign(shop, order)
    refunds.refund_order(shop, STAFF, "sorry", order.order_id, 500)
    done = refund_processing.process_refund(shop, FakeProvider(), order.order_id, "pi_1-1")
    assert done is not None
    assert (done.status, order_money.get_payment(shop, order).refunded) == ("SUCCEEDED", 500)


def test_a_won_dispute_moves_with_its_payment(shop: ShopContext, order: Order) -> None:
    report_dispute(shop, "pi_1", "opened")
    report_dispute(shop, "pi_1", "won")
    assign(shop, order)
    assert (order_money.get_payment(shop, order).disputes or {})["dp_1"].status == "WON"


def test_kept_events_that_wait_for_the_payment_are_applied_at_its_new_order(
    shop: ShopContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = place(shop)
    report_external_refund(shop, "pi_1", 1000)
    with monkeypatch.context() as dying:
        dying.setattr(payments, "apply_kept_events", lambda *_: None)
        report_payment(shop, order, order_id=NO_ORDER)
    assign(shop, order)
    assert get_order(shop, order.order_id).refunded == 1000
    assert kept_events(shop, NO_ORDER) == []


def test_a_payment_that_failed_for_its_new_order_before_is_paid_there(shop: ShopContext, order: Order) -> None:
    report_payment(shop, order, event_id="evt_2", outcome="failed")
    assign(shop, order)
    assert get_order(shop, order.order_id).status == "PAID"


def _in_dollars(shop: ShopContext) -> Order:
    create_stocked_product(shop, "cap", 5, currency="USD")
    return place(shop, "cap", cap=1)


def _archived(shop: ShopContext) -> Order:
    order = advance_to_status(shop, place(shop, "archived"), "CANCELLED")
    archive_order(shop, order.order_id, to_stub=True)
    return order


def _full(shop: ShopContext) -> Order:
    return order_money.pay_in_parts(shop, place(shop, "full"), *[10] * MAX_PAYMENTS)


TARGETS: dict[str, tuple[Callable[[ShopContext], Order], type[Exception]]] = {
    "paid": (lambda shop: advance_to_status(shop, place(shop, "paid"), "PAID"), WrongState),
    "closed": (lambda shop: advance_to_status(shop, place(shop, "closed"), "CANCELLED"), WrongState),
    "archived": (_archived, WrongState),
    "in dollars": (_in_dollars, WrongCurrency),
    "with the most payments": (_full, TooManyPayments),
}


@pytest.mark.parametrize(("target", "error"), TARGETS.values(), ids=TARGETS)
def test_an_order_that_takes_no_more_money_gets_none(
    shop: ShopContext, order: Order, target: Callable[[ShopContext], Order], error: type[Exception]
) -> None:
    other = target(shop)
    before = everything(shop)
    with pytest.raises(error):
        assign(shop, other)
    assert everything(shop) == before
    assert not assign(shop, order).replayed, "the rejected command did not use up its key"


def test_an_unknown_order_or_payment_is_rejected(shop: ShopContext, order: Order) -> None:
    for changed, error in (
        ({"to_order_id": "no-such-order"}, NotFound),
        ({"payment_id": "pi_2"}, NotFound),
        ({"to_order_id": NO_ORDER}, InvalidInput),
    ):
        with pytest.raises(error):
            assign(shop, order, **changed)


@pytest.mark.parametrize(
    "prepare",
    [
        lambda shop: report_dispute(shop, "pi_1", "opened"),
        lambda shop: report_dispute(shop, "pi_1", "lost", amount=1),
        lambda shop: report_external_refund(shop, "pi_1", 100),
        lambda shop: report_external_refund(shop, "pi_1", 100, status="failed"),
        lambda shop: refunds.refund_payment(shop, STAFF, "back", NO_ORDER, "pi_1"),
    ],
    ids=["disputed", "lost", "refunded", "refund failed", "refund requested"],
)
def test_a_payment_whose_money_may_leave_it_is_not_assigned(
    shop: ShopContext, order: Order, prepare: Callable[[ShopContext], object]
) -> None:
    prepare(shop)
    with pytest.raises(WrongState) as refusal:
        assign(shop, order)
    assert refusal.value.state == "disputed or refunded"


def test_a_payment_without_money_is_not_assigned(shop: ShopContext, order: Order) -> None:
    assign(shop, order)
    report_payment(shop, order, order_id="unknown", event_id="evt_2")
    with pytest.raises(WrongState) as refusal:
        assign(shop, place(shop, "key-2"), "again", order_id="unknown")
    assert refusal.value.state == "without money"


# concurrent commands --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("first", ["refund", "assignment"])
def test_an_assignment_and_a_refund_at_the_same_moment_do_not_both_happen(
    shop: TappedShop, order: Order, first: str
) -> None:
    acts: list[Callable[[ShopContext], object]] = [
        lambda it: refunds.refund_payment(it, STAFF, "back", NO_ORDER, "pi_1"),
        lambda it: assign(it, order),
    ]
    quick, slow = acts if first == "refund" else acts[::-1]
    shop.meanwhile(quick)
    with pytest.raises(WrongState):
        slow(shop)


def test_a_dispute_that_read_the_old_claim_is_recorded_at_the_new_order(shop: TappedShop, order: Order) -> None:
    shop.meanwhile(lambda rival: assign(rival, order), "GetItem", call=3)  # after the claim, before the payment
    report_dispute(shop, "pi_1", "opened", event_id="evt_dispute")
    assert order_money.get_payment(shop, order).status == "DISPUTED"
    assert kept_events(shop, NO_ORDER) == []
