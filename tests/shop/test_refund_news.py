"""Tests the provider's refund events in any order: a refund and its payment only move forward."""

from collections.abc import Callable
from typing import Any

import pytest

from functions.dynamodb.errors import TableBusy
from functions.model.entities import Order
from functions.model.errors import WrongState
from functions.shop import accounts, cancellation, refunds
from functions.shop.payment_provider import PaymentProviderUnavailable
from functions.shop.refund_processing import ProviderRefundEvent, process_refund, record_refund
from functions.shop.shop import ShopContext
from local.world.payment_provider import FakeProvider
from proof.support.actors import ANN, STAFF, archive_order, get_order, place, report_dispute, report_payment
from proof.support.client_faults import WireTap
from tests.support.credit_actions import balance
from tests.support.order_money import get_payment, get_refund, place_with_requested_refund


@pytest.fixture
def order(shop: ShopContext) -> Order:
    """An order that was paid with 25.00 by card, of which 10.00 are to be refunded."""
    return place_with_requested_refund(shop)


def told(shop: ShopContext, order: Order, status: Any, number: int = 1, **changed: Any) -> dict[str, Any]:
    """Report a status of the first refund, as the provider's webhook does. Return the answer."""
    values: dict[str, Any] = {"refund_id": "pi_1-1", "attempt": 1, "provider_id": "re_1", "reason": None}
    values |= {"event_id": f"evt_refund_{number}", "order_id": order.order_id, "status": status}
    return record_refund(shop, ProviderRefundEvent(**values | changed)).result


def test_a_pending_refund_is_finished_by_the_webhook(shop: ShopContext, order: Order) -> None:
    settled = process_refund(shop, FakeProvider("pending"), order.order_id, "pi_1-1")
    assert settled is not None
    assert (settled.status, settled.provider_id) == ("SENT", "re_1")
    assert get_payment(shop, order).refunded == 0
    assert told(shop, order, "succeeded") == {"refund_id": "pi_1-1", "status": "SUCCEEDED", "reason": None}
    assert get_payment(shop, order).refunded == 1000


def test_the_webhook_may_be_faster_than_the_answer(
    shop: ShopContext, rival: ShopContext, order: Order, wire: WireTap
) -> None:
    provider = FakeProvider("pending")
    wire.run_before_call("UpdateItem", lambda: told(rival, order, "succeeded"))
    assert process_refund(shop, provider, order.order_id, "pi_1-1") is None
    assert (get_refund(shop, order).status, get_payment(shop, order).refunded) == ("SUCCEEDED", 1000)


@pytest.mark.parametrize("first", ["pending", "succeeded", "failed"])
@pytest.mark.parametrize("then", ["pending", "succeeded", "failed"])
def test_a_refund_goes_only_forward(shop: ShopContext, order: Order, first: str, then: str) -> None:
    told(shop, order, first)
    after_first = get_refund(shop, order)
    told(shop, order, then, number=2)
    steps = {("pending", "succeeded"): "SUCCEEDED", ("pending", "failed"): "FAILED", ("succeeded", "failed"): "FAILED"}
    refund = get_refund(shop, order)
    assert refund.status == steps.get((first, then), after_first.status)
    assert refund.version == after_first.version + ((first, then) in steps)
    assert get_payment(shop, order).refunded == (1000 if refund.status == "SUCCEEDED" else 0)


def test_an_event_is_taken_once(shop: ShopContext, order: Order) -> None:
    told(shop, order, "succeeded")
    told(shop, order, "failed", number=2)
    refunds.retry_refund(shop, STAFF, order.order_id, "pi_1-1")
    before = get_refund(shop, order)
    told(shop, order, "failed", number=2)
    assert get_refund(shop, order) == before


def test_money_of_a_failed_refund_can_be_refunded_again(shop: ShopContext, order: Order) -> None:
    process_refund(shop, FakeProvider(), order.order_id, "pi_1-1")
    told(shop, order, "failed", reason="lost_or_stolen_card")
    refund, payment = get_refund(shop, order), get_payment(shop, order)
    assert (refund.status, refund.reason) == ("FAILED", "lost_or_stolen_card")
    assert (payment.status, payment.refunded) == ("CAPTURED", 0)
    assert get_order(shop, order.order_id) == order
    refunds.retry_refund(shop, STAFF, order.order_id, "pi_1-1", "credit")
    process_refund(shop, FakeProvider(), order.order_id, "pi_1-1")
    assert balance(shop, accounts.store_credit_account_id(shop, "ann", "EUR")) == 1000
    assert get_payment(shop, order).refunded == 1000


@pytest.mark.parametrize(("why", "status"), [("GOODWILL", "CAPTURED"), ("UNMATCHED", "UNMATCHED")])
def test_a_payment_whose_whole_refund_failed_returns_to_its_former_status(
    shop: ShopContext, why: str, status: str
) -> None:
    placed = place(shop)
    if why == "UNMATCHED":
        report_payment(shop, placed, currency="USD")
        refunds.refund_payment(shop, STAFF, "back", placed.order_id, "pi_1")
    else:
        report_payment(shop, placed)
        refunds.refund_order(shop, STAFF, "back", placed.order_id, 2500)
    process_refund(shop, FakeProvider(), placed.order_id, "pi_1-1")
    assert get_payment(shop, placed).status == "REFUNDED"
    told(shop, placed, "failed")
    assert (get_payment(shop, placed).status, get_payment(shop, placed).refunded) == (status, 0)


def test_events_of_another_attempt_change_nothing(shop: ShopContext, order: Order) -> None:
    process_refund(shop, FakeProvider("failed"), order.order_id, "pi_1-1")
    refunds.retry_refund(shop, STAFF, order.order_id, "pi_1-1")
    before = get_refund(shop, order)
    for number, status in enumerate(("pending", "succeeded", "failed")):
        assert told(shop, order, status, number=number, attempt=1)["status"] == "REQUESTED"
    assert get_refund(shop, order) == before
    assert told(shop, order, "succeeded", number=9, attempt=2, provider_id="re_2")["status"] == "SUCCEEDED"


def test_news_of_a_refund_that_is_not_ours_are_taken_and_nothing_is_done(shop: ShopContext, order: Order) -> None:
    assert told(shop, order, "succeeded", refund_id="other")["status"] is None
    assert get_refund(shop, order).status == "REQUESTED"


def test_a_pending_refund_arrives_while_the_order_is_being_archived(shop: ShopContext, order: Order) -> None:
    process_refund(shop, FakeProvider("pending"), order.order_id, "pi_1-1")
    cancellation.cancel_order(shop, ANN, order.order_id)
    archive_order(shop, order.order_id)
    assert told(shop, order, "succeeded")["status"] == "SUCCEEDED", "the archive waits for this refund"
    process_refund(shop, FakeProvider(), order.order_id, "pi_1-2")
    assert get_payment(shop, order).status == "REFUNDED"
    with pytest.raises(TableBusy):  # the archive does not wait for this event
        told(shop, order, "failed", number=2)
    archived = get_refund(shop, order)
    assert archived.status == "SUCCEEDED"


# refunds of disputed payments -----------------------------------------------------------------------------------------
@pytest.fixture
def taken(shop: ShopContext, order: Order) -> Callable[[], None]:
    """Return a function with which the customer's bank takes all that is left of the payment."""

    def take() -> None:
        for outcome in ("opened", "lost"):
            report_dispute(shop, "pi_1", outcome)

    return take


def test_a_disputed_amount_is_not_refunded_too(shop: ShopContext, order: Order, taken: Callable[[], None]) -> None:
    taken()
    provider = FakeProvider()
    settled = process_refund(shop, provider, order.order_id, "pi_1-1")
    assert (provider.requests, provider.refunds) == ([("list", "pi_1")], [])
    assert settled is not None
    assert (settled.status, settled.reason) == ("FAILED", "the customer's bank has taken the payment back")
    with pytest.raises(WrongState) as refusal:
        refunds.retry_refund(shop, STAFF, order.order_id, "pi_1-1", "credit")
    assert (refusal.value.what, refusal.value.state) == ("payment", "REFUNDED")


def test_a_refund_made_before_the_dispute_is_found_although_its_answer_was_lost(
    shop: ShopContext, order: Order, taken: Callable[[], None]
) -> None:
    provider = FakeProvider("answer lost")
    with pytest.raises(PaymentProviderUnavailable):
        process_refund(shop, provider, order.order_id, "pi_1-1")
    taken()
    settled = process_refund(shop, provider, order.order_id, "pi_1-1")
    assert settled is not None
    assert (settled.status, get_payment(shop, order).refunded, provider.refunded_amount("pi_1")) == (
        "SUCCEEDED",
        1000,
        1000,
    )
