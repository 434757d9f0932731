"""Tests refunds in progress: each is paid once, even if answers are lost or provider events come in another order."""

from functools import partial
from typing import Any

import pytest

from functions.dynamodb.errors import TableBusy
from functions.model.entities import Order
from functions.model.errors import NotFound, WrongState
from functions.model.patterns import ACCOUNT_BY_ID, PAYMENT_BY_ID
from functions.shop import accounts, cancellation, erasure, refunds
from functions.shop.payment_provider import PaymentProviderUnavailable
from functions.shop.refund_processing import ProviderRefundEvent, process_refund, record_refund, settle_refund
from functions.shop.shop import ShopContext
from local.world.payment_provider import REFUSED, FakeProvider
from proof.support.actors import (
    ANN,
    STAFF,
    archive_order,
    get_order,
    place,
    report_dispute,
    report_external_refund,
    report_payment,
)
from proof.support.client_faults import ProcessKilled
from tests.shop.conftest import TappedShop
from tests.support.credit_actions import balance, change_balance, ledger, new_store_credit
from tests.support.order_money import get_payment, get_refund

HOUR = 3600


@pytest.fixture
def order(shop: ShopContext) -> Order:
    """An order that was paid with 25.00 by card, of which 10.00 are to be refunded."""
    placed = place(shop)
    report_payment(shop, placed)
    refunds.refund_order(shop, STAFF, "sorry", placed.order_id, 1000)
    return get_order(shop, placed.order_id)


# refunds at the provider ----------------------------------------------------------------------------------------------
def test_a_refund_by_the_provider_is_written_with_its_payment(shop: TappedShop, order: Order) -> None:
    provider = FakeProvider()
    shop.wire.clear()
    settled = process_refund(shop, provider, order.order_id, "pi_1-1")
    assert shop.wire.operations == ["GetItem", "GetItem", "TransactWriteItems"]
    assert provider.requests == [("refund", "pi_1-1-1")]
    (given,) = provider.refunds
    assert (given["amount"], given["metadata"]) == (
        1000,
        {"order_id": order.order_id, "refund_id": "pi_1-1", "attempt": "1"},
    )
    refund = get_refund(shop, order)
    assert settled == refund
    assert (refund.status, refund.provider_id, refund.version) == ("SUCCEEDED", "re_1", 2)
    payment = get_payment(shop, order)
    assert (payment.status, payment.refunded) == ("CAPTURED", 1000)
    assert get_order(shop, order.order_id) == order, "the order counted the refund when it was decided"


def test_a_finished_refund_is_not_repeated(shop: TappedShop, order: Order) -> None:
    provider = FakeProvider()
    process_refund(shop, provider, order.order_id, "pi_1-1")
    shop.wire.clear()
    assert process_refund(shop, provider, order.order_id, "pi_1-1") is None
    assert process_refund(shop, provider, order.order_id, "none-such") is None
    assert shop.wire.operations == ["GetItem", "GetItem"]
    assert len(provider.requests) == 1


@pytest.mark.parametrize("trouble", ["answer lost", "unavailable", "crash before the write"])
def test_after_a_crash_or_a_temporary_error_the_retry_has_the_same_key_and_pays_once(
    shop: TappedShop, order: Order, trouble: Any
) -> None:
    provider = FakeProvider()
    if trouble == "crash before the write":
        shop.wire.crash_at("TransactWriteItems")
    else:
        provider.behaviors.append(trouble)
    with pytest.raises((PaymentProviderUnavailable, ProcessKilled)):
        process_refund(shop, provider, order.order_id, "pi_1-1")
    assert get_refund(shop, order).status == "REQUESTED"
    process_refund(shop, provider, order.order_id, "pi_1-1")
    assert provider.requests == [("refund", "pi_1-1-1")] * 2
    assert (provider.refunded_amount("pi_1"), len(provider.refunds)) == (1000, 1)
    assert (get_payment(shop, order).refunded, get_refund(shop, order).status) == (1000, "SUCCEEDED")


def test_two_workers_with_the_same_refund_give_it_back_once(shop: TappedShop, order: Order) -> None:
    provider = FakeProvider()
    shop.meanwhile(lambda rival: process_refund(rival, provider, order.order_id, "pi_1-1"))
    assert process_refund(shop, provider, order.order_id, "pi_1-1") is None
    assert (provider.refunded_amount("pi_1"), len(provider.refunds)) == (1000, 1)
    assert (get_payment(shop, order).refunded, get_payment(shop, order).version) == (1000, 2)


def test_two_refunds_of_one_payment_at_once_both_count(shop: TappedShop, order: Order) -> None:
    refunds.refund_order(shop, STAFF, "more", order.order_id, 500)
    provider = FakeProvider()
    shop.meanwhile(lambda rival: process_refund(rival, provider, order.order_id, "pi_1-2"))
    process_refund(shop, provider, order.order_id, "pi_1-1")
    assert get_payment(shop, order).refunded == provider.refunded_amount("pi_1") == 1500


@pytest.mark.parametrize(
    ("answer", "provider_id", "code"),
    [(REFUSED, None, "charge_already_refunded"), ("failed", "re_1", "expired_or_canceled_card")],
)
def test_a_rejected_or_failed_refund_fails_with_the_providers_code(
    shop: ShopContext, order: Order, answer: Any, provider_id: str | None, code: str
) -> None:
    settled = process_refund(shop, FakeProvider(answer), order.order_id, "pi_1-1")
    assert settled == get_refund(shop, order)
    assert (settled.status, settled.provider_id, settled.reason) == ("FAILED", provider_id, code)
    assert get_payment(shop, order).refunded == 0
    assert get_order(shop, order.order_id) == order, "the money is still owed, and staff must act"


def test_an_old_refund_request_is_searched_at_the_provider_before_it_is_repeated(
    shop: TappedShop, order: Order
) -> None:
    provider = FakeProvider("answer lost")
    provider.account.now = lambda: shop.clock().timestamp()
    with pytest.raises(PaymentProviderUnavailable):
        process_refund(shop, provider, order.order_id, "pi_1-1")
    shop.clock.sleep(25 * HOUR)  # the provider has forgotten the key
    process_refund(shop, provider, order.order_id, "pi_1-1")
    assert provider.requests == [("refund", "pi_1-1-1"), ("list", "pi_1")]
    assert (provider.refunded_amount("pi_1"), get_refund(shop, order).status) == (1000, "SUCCEEDED")


@pytest.mark.parametrize(("hours", "looks"), [(20, False), (20.1, True)])
def test_a_key_is_trusted_for_twenty_hours(shop: TappedShop, order: Order, hours: float, looks: bool) -> None:
    provider = FakeProvider()
    shop.clock.sleep(hours * HOUR)
    process_refund(shop, provider, order.order_id, "pi_1-1")
    assert [kind for kind, _ in provider.requests] == (["list", "refund"] if looks else ["refund"])
    assert provider.refunded_amount("pi_1") == 1000


def test_an_attempt_before_the_last_is_not_taken_for_it(shop: TappedShop, order: Order) -> None:
    provider = FakeProvider("failed")
    process_refund(shop, provider, order.order_id, "pi_1-1")
    refunds.retry_refund(shop, STAFF, order.order_id, "pi_1-1")
    shop.clock.sleep(30 * HOUR)
    process_refund(shop, provider, order.order_id, "pi_1-1")
    assert provider.requests[1:] == [("list", "pi_1"), ("refund", "pi_1-1-2")]
    assert (get_refund(shop, order).status, get_refund(shop, order).provider_id) == ("SUCCEEDED", "re_2")


def test_without_its_payment_nothing_is_given_back(shop: ShopContext, order: Order) -> None:
    shop.table.batch_delete([PAYMENT_BY_ID.rows[0].key(order_id=order.order_id, payment_id="pi_1")])
    provider = FakeProvider()
    with pytest.raises(NotFound):
        process_refund(shop, provider, order.order_id, "pi_1-1")
    assert provider.requests == []


# refunds to a credit account ------------------------------------------------------------------------------------------
def test_store_credit_is_opened_credited_and_the_refund_done_in_one_transaction(shop: TappedShop, order: Order) -> None:
    refunds.refund_order(shop, STAFF, "credit", order.order_id, 500, "credit")
    provider = FakeProvider()
    shop.wire.clear()
    settled = process_refund(shop, provider, order.order_id, "pi_1-2")
    assert shop.wire.operations.count("TransactWriteItems") == 1
    assert provider.requests == []
    assert settled is not None
    assert settled.status == "SUCCEEDED"
    account_id = accounts.store_credit_account_id(shop, "ann", "EUR")
    assert balance(shop, account_id) == 500
    (entry,) = ledger(shop, account_id)
    assert (entry.amount, entry.reason, entry.order_id) == (500, "REFUNDED", order.order_id)
    assert get_payment(shop, order).refunded == 500
    assert process_refund(shop, provider, order.order_id, "pi_1-2") is None
    assert balance(shop, account_id) == 500


@pytest.mark.parametrize("way", ["to credit", "by hand"])
def test_money_that_a_refund_in_progress_may_have_paid_is_not_paid_in_another_way(
    shop: ShopContext, order: Order, way: str
) -> None:
    process_refund(shop, FakeProvider(REFUSED), order.order_id, "pi_1-1")
    provider = FakeProvider("answer lost")
    refunds.refund_order(shop, STAFF, "rest", order.order_id, 1500)
    with pytest.raises(PaymentProviderUnavailable):
        process_refund(shop, provider, order.order_id, "pi_1-2")
    report_external_refund(shop, "pi_1", 600)
    if way == "to credit":
        refunds.retry_refund(shop, STAFF, order.order_id, "pi_1-1", "credit")
        refused = process_refund(shop, provider, order.order_id, "pi_1-1")
        assert refused is not None
        assert refused.reason == "another refund in progress takes the money of the payment"
    else:
        with pytest.raises(WrongState):
            settle_refund(shop, STAFF, "by hand", order.order_id, "pi_1-1", "paid in cash")
    assert get_refund(shop, order, "pi_1-1").status == "FAILED"


def test_an_account_that_moves_meanwhile_is_read_again(shop: TappedShop, order: Order) -> None:
    for key in ("one", "two"):
        refunds.refund_order(shop, STAFF, key, order.order_id, 500, "credit")
    shop.meanwhile(lambda rival: process_refund(rival, FakeProvider(), order.order_id, "pi_1-3"))
    process_refund(shop, FakeProvider(), order.order_id, "pi_1-2")
    account_id = accounts.store_credit_account_id(shop, "ann", "EUR")
    assert [entry.balance for entry in ledger(shop, account_id)] == [500, 1000]


@pytest.mark.parametrize("meanwhile", [False, True])
@pytest.mark.parametrize("had_some", [False, True])
def test_a_refund_to_the_credit_of_an_erased_customer_waits_for_staff(
    shop: TappedShop, order: Order, had_some: bool, meanwhile: bool
) -> None:
    refunds.refund_order(shop, STAFF, "credit", order.order_id, 500, "credit")
    if had_some:
        new_store_credit(shop, 100)
    erase = partial(erasure.erase_customer, caller=ANN, customer_id=ANN.id)
    shop.meanwhile(erase) if meanwhile else erase(shop)
    process_refund(shop, FakeProvider(), order.order_id, "pi_1-2")
    refund = get_refund(shop, order, "pi_1-2")
    assert (refund.status, refund.reason) == ("FAILED", "the customer of the store credit does not exist any more")
    assert get_payment(shop, order).refunded == 0
    account = shop.table.get(ACCOUNT_BY_ID, account_id=accounts.store_credit_account_id(shop, "ann", "EUR"))
    assert (account.balance if account else 0) == (100 if had_some else 0)
    assert refunds.retry_refund(shop, STAFF, order.order_id, "pi_1-2").account_id is None, "the card takes it"


def test_an_account_that_cannot_take_it_fails_the_refund(shop: ShopContext, order: Order) -> None:
    refunds.refund_order(shop, STAFF, "credit", order.order_id, 500, "credit")
    account_id = new_store_credit(shop, 10**12)
    process_refund(shop, FakeProvider(), order.order_id, "pi_1-2")
    refund = get_refund(shop, order, "pi_1-2")
    assert (refund.status, refund.reason) == ("FAILED", "amount: exceeds the maximum balance of an account")
    assert get_payment(shop, order).refunded == 0
    change_balance(shop, account_id, -500)
    refunds.retry_refund(shop, STAFF, order.order_id, "pi_1-2", "credit")
    process_refund(shop, FakeProvider(), order.order_id, "pi_1-2")
    assert get_refund(shop, order, "pi_1-2").status == "SUCCEEDED"


# events of the provider -----------------------------------------------------------------------------------------------
def told(shop: ShopContext, order: Order, status: Any, number: int = 1, **changed: Any) -> dict[str, Any]:
    """Report a status of the first refund, as the provider's webhook does. Return the answer."""
    values: dict[str, Any] = {"refund_id": "pi_1-1", "attempt": 1, "provider_id": "re_1", "reason": None}
    values |= {"event_id": f"evt_refund_{number}", "order_id": order.order_id, "status": status}
    return record_refund(shop, ProviderRefundEvent(**values | changed)).result


def test_a_pending_refund_is_finished_by_the_webhook(shop: ShopContext, order: Order) -> None:
    process_refund(shop, FakeProvider("pending"), order.order_id, "pi_1-1")
    refund = get_refund(shop, order, "pi_1-1")
    assert (refund.status, refund.provider_id) == ("SENT", "re_1")
    assert get_payment(shop, order).refunded == 0
    assert told(shop, order, "succeeded") == {"refund_id": "pi_1-1", "status": "SUCCEEDED", "reason": None}
    assert get_payment(shop, order).refunded == 1000


def test_the_webhook_may_be_faster_than_the_answer(shop: TappedShop, order: Order) -> None:
    provider = FakeProvider("pending")
    shop.meanwhile(lambda rival: told(rival, order, "succeeded"), "UpdateItem")
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
def lose_dispute(shop: ShopContext) -> None:
    """Let the customer's bank take all that is left of the payment."""
    for outcome in ("opened", "lost"):
        report_dispute(shop, "pi_1", outcome)


def test_a_disputed_amount_is_not_refunded_too(shop: ShopContext, order: Order) -> None:
    lose_dispute(shop)
    provider = FakeProvider()
    settled = process_refund(shop, provider, order.order_id, "pi_1-1")
    assert (provider.requests, provider.refunds) == ([("list", "pi_1")], [])
    assert settled is not None
    assert (settled.status, settled.reason) == ("FAILED", "the customer's bank has taken the payment back")


def test_a_refund_made_before_the_dispute_is_found_although_its_answer_was_lost(
    shop: ShopContext, order: Order
) -> None:
    provider = FakeProvider("answer lost")
    with pytest.raises(PaymentProviderUnavailable):
        process_refund(shop, provider, order.order_id, "pi_1-1")
    lose_dispute(shop)
    settled = process_refund(shop, provider, order.order_id, "pi_1-1")
    assert settled is not None
    assert (settled.status, get_payment(shop, order).refunded, provider.refunded_amount("pi_1")) == (
        "SUCCEEDED",
        1000,
        1000,
    )
