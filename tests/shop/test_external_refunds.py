"""Tests that refunds that a person makes at the provider count in the payment, in the order, and in later refunds."""

from dataclasses import replace
from typing import Any

import pytest

from functions.model.entities import ArchivedOrder, Order
from functions.model.errors import TooMuch, WrongState
from functions.model.patterns import ORDER_BY_ID
from functions.model.table import PAYMENT
from functions.shop import cancellation, refund_processing, refunds
from functions.shop.refund_processing import process_refund
from functions.shop.shop import ShopContext
from local.world.payment_provider import REFUSED, FakeProvider
from proof.support.actors import (
    ANN,
    STAFF,
    advance_to_status,
    archive_order,
    get_order,
    place,
    report_dispute,
    report_external_refund,
    report_payment,
    return_items,
)
from tests.shop.conftest import TappedShop
from tests.shop.test_disputes import kept_events
from tests.support import order_money
from tests.support.order_money import get_payment


@pytest.fixture
def paid(shop: ShopContext) -> Order:
    """An order of 25.00 that was paid with pi_1."""
    order = place(shop)
    report_payment(shop, order)
    return get_order(shop, order.order_id)


def money_of(shop: ShopContext, order: Order) -> tuple[int, int, int, int]:
    now = get_order(shop, order.order_id)
    return now.paid, now.refunded, now.owed, now.over_refunded


@pytest.mark.parametrize("amounts", [(), (700,), (700, 1800), (2500,)])
def test_refunds_at_the_provider_count_in_payment_and_order(
    shop: ShopContext, paid: Order, amounts: tuple[int, ...]
) -> None:
    for number, amount in enumerate(amounts):
        report_external_refund(shop, "pi_1", amount, provider_id=f"re_{number}")
    total = sum(amounts)
    payment = get_payment(shop, paid)
    assert (payment.refunded, payment.status) == (total, "REFUNDED" if total == 2500 else "CAPTURED")
    assert money_of(shop, paid) == (2500, total, 0, 0)
    assert get_order(shop, paid.order_id).withdrawn == total
    assert [(it.amount, it.why, it.status) for it in order_money.refunds(shop, paid.order_id)] == [
        (amount, "EXTERNAL", "SUCCEEDED") for amount in amounts
    ]
    if total < 2500:
        refunds.refund_order(shop, STAFF, "rest", paid.order_id, 2500 - total)
    with pytest.raises(TooMuch):
        refunds.refund_order(shop, STAFF, "more", paid.order_id, 1)


@pytest.mark.parametrize(
    "events", [("pending", "succeeded"), ("succeeded", "pending"), ("succeeded", "succeeded"), ("pending", "pending")]
)
def test_the_events_of_one_refund_count_once_in_any_sequence(
    shop: ShopContext, paid: Order, events: tuple[Any, ...]
) -> None:
    for status in events:
        report_external_refund(shop, "pi_1", 700, status=status)
    assert (get_payment(shop, paid).refunded, money_of(shop, paid)) == (700, (2500, 700, 0, 0))
    (refund,) = order_money.refunds(shop, paid.order_id)
    assert refund.status == ("SUCCEEDED" if "succeeded" in events else "SENT")


@pytest.mark.parametrize("events", [("pending", "failed"), ("failed", "pending"), ("succeeded", "failed"), ("failed",)])
def test_a_failed_refund_at_the_provider_waits_for_staff_like_one_of_the_shop(
    shop: ShopContext, paid: Order, events: tuple[Any, ...]
) -> None:
    for status in events:
        report_external_refund(shop, "pi_1", 700, status=status)
    assert (get_payment(shop, paid).refunded, money_of(shop, paid)) == (0, (2500, 700, 0, 0))
    (refund,) = order_money.refunds(shop, paid.order_id)
    assert (refund.status, refund.why) == ("FAILED", "EXTERNAL")
    refunds.retry_refund(shop, STAFF, paid.order_id, refund.refund_id, "credit")
    report_external_refund(shop, "pi_1", 700, status="succeeded")
    assert get_payment(shop, paid).refunded == 0, "a late event of the first attempt changes nothing"
    process_refund(shop, FakeProvider(), paid.order_id, refund.refund_id)
    assert (get_payment(shop, paid).refunded, money_of(shop, paid)) == (700, (2500, 700, 0, 0))


@pytest.mark.parametrize("to", ["original", "credit"])
def test_a_requested_refund_that_does_not_fit_any_more_is_not_sent(shop: ShopContext, paid: Order, to: Any) -> None:
    refunds.refund_order(shop, STAFF, "sorry", paid.order_id, 1000, to)
    report_external_refund(shop, "pi_1", 2000)
    assert money_of(shop, paid) == (2500, 2500, 0, 0)
    (refund, _) = order_money.refunds(shop, paid.order_id)
    provider = FakeProvider(paid_amounts={"pi_1": 500})
    process_refund(shop, provider, paid.order_id, refund.refund_id)
    failed = order_money.refunds(shop, paid.order_id)[0]
    assert (failed.status, provider.refunds) == ("FAILED", [])
    with pytest.raises(WrongState):
        refund_processing.settle_refund(shop, STAFF, "cash", paid.order_id, refund.refund_id, "paid in cash")
    refunds.retry_refund(shop, STAFF, paid.order_id, refund.refund_id, to)
    assert process_refund(shop, provider, paid.order_id, refund.refund_id) is not None
    last = order_money.refunds(shop, paid.order_id)[0]
    assert (last.status, last.amount) == ("SUCCEEDED", 500), "a retry refunds only what is left"
    assert (get_payment(shop, paid).refunded, money_of(shop, paid)) == (2500, (2500, 2500, 0, 0))


def test_a_refund_for_which_nothing_is_left_cannot_be_retried(shop: ShopContext, paid: Order) -> None:
    cancellation.cancel_order(shop, ANN, paid.order_id)
    report_external_refund(shop, "pi_1", 2500)
    (refund, _) = order_money.refunds(shop, paid.order_id)
    process_refund(shop, FakeProvider(REFUSED), paid.order_id, refund.refund_id)
    with pytest.raises(WrongState):
        refunds.retry_refund(shop, STAFF, paid.order_id, refund.refund_id)
    assert (get_payment(shop, paid).status, money_of(shop, paid)) == ("REFUNDED", (2500, 2500, 0, 0))


def test_excess_money_is_refunded_once_though_a_person_refunds_it_too(shop: ShopContext) -> None:
    order = place(shop)
    report_payment(shop, order, amount=4000)
    report_external_refund(shop, "pi_1", 1500)
    assert money_of(shop, order) == (2500, 1500, 0, 0)
    (excess, _) = order_money.refunds(shop, order.order_id)
    process_refund(shop, FakeProvider(paid_amounts={"pi_1": 2500}), order.order_id, excess.refund_id)
    assert (get_payment(shop, order).refunded, money_of(shop, order)) == (3000, (2500, 1500, 0, 0))


def test_a_refund_that_had_reached_the_provider_is_counted_though_the_bank_took_the_money(
    shop: ShopContext, paid: Order
) -> None:
    refunds.refund_order(shop, STAFF, "sorry", paid.order_id, 700)
    (refund,) = order_money.refunds(shop, paid.order_id)
    provider = FakeProvider("pending")
    process_refund(shop, provider, paid.order_id, refund.refund_id)
    report_dispute(shop, "pi_1", "lost")
    assert money_of(shop, paid) == (2500, 2500, 0, 0)
    event = refund_processing.ProviderRefundEvent("evt_r", paid.order_id, refund.refund_id, 1, "re_9", "succeeded")
    refund_processing.record_refund(shop, event)
    assert money_of(shop, paid) == (2500, 2500, 0, 700)
    refund_processing.record_refund(shop, replace(event, event_id="evt_f", status="failed"))
    assert money_of(shop, paid) == (2500, 2500, 0, 0)


def test_a_refund_of_unmatched_money_changes_only_its_payment(shop: ShopContext) -> None:
    order = place(shop)
    report_payment(shop, order, currency="USD")
    report_external_refund(shop, "pi_1", 700, currency="USD")
    assert (get_payment(shop, order).status, get_payment(shop, order).refunded) == ("UNMATCHED", 700)
    assert refunds.refund_payment(shop, STAFF, "back", order.order_id, "pi_1").result["amount"] == 1800
    assert money_of(shop, order) == (0, 0, 0, 0)


def test_a_refund_of_an_archived_order_is_kept_beside_its_stub(shop: ShopContext, paid: Order) -> None:
    cancellation.cancel_order(shop, ANN, paid.order_id)
    archive_order(shop, paid.order_id, to_stub=True)
    shop.table.batch_delete([PAYMENT.key(order_id=paid.order_id, payment_id="pi_1")])  # as the archive Lambda does
    for status in ("succeeded", "pending"):
        report_external_refund(shop, "pi_1", 700, status=status)
    (kept,) = kept_events(shop, paid.order_id)
    assert (kept.object_id, kept.status, kept.amount) == ("re_1", "SUCCEEDED", 700)
    stub = shop.table.get(ORDER_BY_ID, order_id=paid.order_id)
    assert isinstance(stub, ArchivedOrder)


def test_a_return_just_before_a_refund_at_the_provider_is_counted(shop: TappedShop) -> None:
    order = advance_to_status(shop, place(shop), "DELIVERED")
    shop.meanwhile(lambda rival: return_items(rival, order.order_id, "back", mug=1))
    report_external_refund(shop, f"pi_{order.order_id}", 2500)
    assert money_of(shop, order) == (2500, 2500, 0, 0)
    assert [it.amount for it in order_money.refunds(shop, order.order_id)] == [1250, 2500]
