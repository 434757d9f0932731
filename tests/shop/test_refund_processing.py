"""Tests refunds in progress: each is paid once, even if answers are lost or provider events come in another order."""

from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.table import Table
from functions.dynamodb.writes import put_if_absent, update
from functions.model.entities import Account, Order
from functions.model.errors import NotFound
from functions.model.patterns import ACCOUNT_BY_ID, PAYMENT_BY_ID
from functions.model.table import ACCOUNT, ROWS_BY_TYPE
from functions.shop import accounts, erasure, refunds
from functions.shop.payment_provider import PaymentProviderUnavailable
from functions.shop.refund_processing import process_refund
from functions.shop.shop import ShopContext
from local.world.payment_provider import REFUSED, FakeProvider
from proof.support.actors import ANN, STAFF, get_order
from proof.support.client_faults import ProcessKilled, WireTap
from proof.support.tapped_client import ManualClock
from tests.support.credit_actions import balance, ledger, new_store_credit
from tests.support.order_money import get_payment, get_refund, place_with_requested_refund

HOUR = 3600


@pytest.fixture
def order(shop: ShopContext) -> Order:
    """An order that was paid with 25.00 by card, of which 10.00 are to be refunded."""
    return place_with_requested_refund(shop)


# refunds at the provider ----------------------------------------------------------------------------------------------
def test_a_refund_by_the_provider_is_written_with_its_payment(shop: ShopContext, order: Order, wire: WireTap) -> None:
    provider = FakeProvider()
    wire.clear()
    settled = process_refund(shop, provider, order.order_id, "pi_1-1")
    assert wire.operations == ["GetItem", "GetItem", "TransactWriteItems"]
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


def test_a_finished_refund_is_not_repeated(shop: ShopContext, order: Order, wire: WireTap) -> None:
    provider = FakeProvider()
    process_refund(shop, provider, order.order_id, "pi_1-1")
    wire.clear()
    assert process_refund(shop, provider, order.order_id, "pi_1-1") is None
    assert process_refund(shop, provider, order.order_id, "none-such") is None
    assert wire.operations == ["GetItem", "GetItem"]
    assert len(provider.requests) == 1


@pytest.mark.parametrize("trouble", ["answer lost", "unavailable"])
def test_after_a_temporary_error_the_retry_has_the_same_key_and_pays_once(
    shop: ShopContext, order: Order, trouble: Any
) -> None:
    provider = FakeProvider(trouble)
    with pytest.raises(PaymentProviderUnavailable):
        process_refund(shop, provider, order.order_id, "pi_1-1")
    assert get_refund(shop, order).status == "REQUESTED"
    process_refund(shop, provider, order.order_id, "pi_1-1")
    assert provider.requests == [("refund", "pi_1-1-1")] * 2
    assert provider.refunded_amount("pi_1") == 1000
    assert get_refund(shop, order).status == "SUCCEEDED"


def test_a_crash_between_the_providers_answer_and_our_write_gives_the_money_back_once(
    shop: ShopContext, order: Order, wire: WireTap
) -> None:
    provider = FakeProvider()
    wire.crash_at("TransactWriteItems")
    with pytest.raises(ProcessKilled):
        process_refund(shop, provider, order.order_id, "pi_1-1")
    assert (provider.refunded_amount("pi_1"), get_refund(shop, order).status) == (1000, "REQUESTED")
    process_refund(shop, provider, order.order_id, "pi_1-1")
    assert provider.requests == [("refund", "pi_1-1-1")] * 2
    assert (provider.refunded_amount("pi_1"), len(provider.refunds)) == (1000, 1)
    assert (get_payment(shop, order).refunded, get_refund(shop, order).status) == (1000, "SUCCEEDED")


def test_a_write_with_a_lost_answer_is_recognized_as_done(
    shop: ShopContext, order: Order, patient_wire: WireTap
) -> None:
    provider = FakeProvider()
    table = Table(patient_wire.client, shop.table.name, ROWS_BY_TYPE, clock=shop.table.clock, sleep=shop.table.sleep)
    patient = replace(shop, table=table)
    patient_wire.lose_response("TransactWriteItems")
    process_refund(patient, provider, order.order_id, "pi_1-1")
    assert (get_payment(shop, order).refunded, get_payment(shop, order).version) == (1000, 2)


def test_two_workers_with_the_same_refund_give_it_back_once(
    shop: ShopContext, rival: ShopContext, order: Order, wire: WireTap
) -> None:
    provider = FakeProvider()
    wire.run_before_call("TransactWriteItems", lambda: process_refund(rival, provider, order.order_id, "pi_1-1"))
    assert process_refund(shop, provider, order.order_id, "pi_1-1") is None
    assert (provider.refunded_amount("pi_1"), len(provider.refunds)) == (1000, 1)
    assert (get_payment(shop, order).refunded, get_payment(shop, order).version) == (1000, 2)


def test_two_refunds_of_one_payment_at_once_both_count(
    shop: ShopContext, rival: ShopContext, order: Order, wire: WireTap
) -> None:
    refunds.refund_order(shop, STAFF, "more", order.order_id, 500)
    provider = FakeProvider()
    wire.run_before_call("TransactWriteItems", lambda: process_refund(rival, provider, order.order_id, "pi_1-2"))
    process_refund(shop, provider, order.order_id, "pi_1-1")
    assert get_payment(shop, order).refunded == provider.refunded_amount("pi_1") == 1500


def test_conflicts_are_retried(shop: ShopContext, order: Order, wire: WireTap) -> None:
    wire.cancel_transactions("TransactionConflict", "None", times=4)
    process_refund(shop, FakeProvider(), order.order_id, "pi_1-1")
    assert get_payment(shop, order).refunded == 1000


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
    shop: ShopContext, order: Order, clock: ManualClock
) -> None:
    provider = FakeProvider("answer lost")
    provider.account.now = lambda: clock().timestamp()
    with pytest.raises(PaymentProviderUnavailable):
        process_refund(shop, provider, order.order_id, "pi_1-1")
    clock.sleep(25 * HOUR)  # the provider has forgotten the key
    process_refund(shop, provider, order.order_id, "pi_1-1")
    assert provider.requests == [("refund", "pi_1-1-1"), ("list", "pi_1")]
    assert (provider.refunded_amount("pi_1"), get_refund(shop, order).status) == (1000, "SUCCEEDED")


@pytest.mark.parametrize(("hours", "looks"), [(20, False), (20.1, True)])
def test_a_key_is_trusted_for_twenty_hours(
    shop: ShopContext, order: Order, clock: ManualClock, hours: float, looks: bool
) -> None:
    provider = FakeProvider()
    clock.sleep(hours * HOUR)
    process_refund(shop, provider, order.order_id, "pi_1-1")
    assert [kind for kind, _ in provider.requests] == (["list", "refund"] if looks else ["refund"])
    assert provider.refunded_amount("pi_1") == 1000


def test_an_attempt_before_the_last_is_not_taken_for_it(shop: ShopContext, order: Order, clock: ManualClock) -> None:
    provider = FakeProvider("failed")
    process_refund(shop, provider, order.order_id, "pi_1-1")
    refunds.retry_refund(shop, STAFF, order.order_id, "pi_1-1")
    clock.sleep(30 * HOUR)
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
def test_store_credit_is_opened_credited_and_the_refund_done_in_one_transaction(
    shop: ShopContext, order: Order, wire: WireTap
) -> None:
    refunds.refund_order(shop, STAFF, "credit", order.order_id, 500, "credit")
    provider = FakeProvider()
    wire.clear()
    settled = process_refund(shop, provider, order.order_id, "pi_1-2")
    assert wire.operations.count("TransactWriteItems") == 1
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


def test_two_workers_credit_once(shop: ShopContext, rival: ShopContext, order: Order, wire: WireTap) -> None:
    refunds.refund_order(shop, STAFF, "credit", order.order_id, 500, "credit")
    wire.run_before_call("TransactWriteItems", lambda: process_refund(rival, FakeProvider(), order.order_id, "pi_1-2"))
    assert process_refund(shop, FakeProvider(), order.order_id, "pi_1-2") is None
    assert balance(shop, accounts.store_credit_account_id(shop, "ann", "EUR")) == 500


def test_an_account_that_moves_meanwhile_is_read_again(
    shop: ShopContext, rival: ShopContext, order: Order, wire: WireTap
) -> None:
    for key in ("one", "two"):
        refunds.refund_order(shop, STAFF, key, order.order_id, 500, "credit")
    wire.run_before_call("TransactWriteItems", lambda: process_refund(rival, FakeProvider(), order.order_id, "pi_1-3"))
    process_refund(shop, FakeProvider(), order.order_id, "pi_1-2")
    account_id = accounts.store_credit_account_id(shop, "ann", "EUR")
    assert [entry.balance for entry in ledger(shop, account_id)] == [500, 1000]


@pytest.mark.parametrize("had_some", [False, True])
def test_a_refund_to_the_credit_of_an_erased_customer_waits_for_staff(
    shop: ShopContext, order: Order, had_some: bool
) -> None:
    refunds.refund_order(shop, STAFF, "credit", order.order_id, 500, "credit")
    if had_some:
        new_store_credit(shop, 100)
    erasure.erase_customer(shop, ANN, ANN.id)
    settled = process_refund(shop, FakeProvider(), order.order_id, "pi_1-2")
    assert settled is not None
    assert (settled.status, settled.reason) == ("FAILED", "the customer of the store credit does not exist any more")
    assert get_payment(shop, order).refunded == 0
    account = shop.table.get(ACCOUNT_BY_ID, account_id=accounts.store_credit_account_id(shop, "ann", "EUR"))
    assert (account.balance if account else 0) == (100 if had_some else 0)


def test_a_customer_who_is_erased_at_the_same_time_gets_no_credit(
    shop: ShopContext, rival: ShopContext, order: Order, wire: WireTap
) -> None:
    refunds.refund_order(shop, STAFF, "credit", order.order_id, 500, "credit")
    wire.run_before_call("TransactWriteItems", lambda: erasure.erase_customer(rival, ANN, ANN.id))
    process_refund(shop, FakeProvider(), order.order_id, "pi_1-2")
    assert get_refund(shop, order, "pi_1-2").status == "FAILED"
    assert shop.table.get(ACCOUNT_BY_ID, account_id=accounts.store_credit_account_id(shop, "ann", "EUR")) is None


def test_an_account_that_cannot_take_it_fails_the_refund(shop: ShopContext, order: Order) -> None:
    refunds.refund_order(shop, STAFF, "credit", order.order_id, 500, "credit")
    full = Account(
        account_id=accounts.store_credit_account_id(shop, "ann", "EUR"),
        kind="STORE_CREDIT",
        currency="EUR",
        balance=10**12,
        created_at=order.placed_at,
        updated_at=order.placed_at,
        customer_id="ann",
    )
    shop.table.write(put_if_absent(ACCOUNT, full))
    settled = process_refund(shop, FakeProvider(), order.order_id, "pi_1-2")
    assert settled is not None
    assert (settled.status, settled.reason) == ("FAILED", "amount: exceeds the maximum balance of an account")
    assert get_payment(shop, order).refunded == 0
    shop.table.write(update(ACCOUNT, full, replace(full, balance=0, version=2)))
    refunds.retry_refund(shop, STAFF, order.order_id, "pi_1-2", "credit")
    process_refund(shop, FakeProvider(), order.order_id, "pi_1-2")
    assert get_refund(shop, order, "pi_1-2").status == "SUCCEEDED"
