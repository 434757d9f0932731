"""Refunds and disputes: money is paid back once, and never while the customer's bank has or claims it."""

from contextlib import suppress
from typing import Any

import pytest

from functions.handlers import event_publisher, fulfilment_worker
from functions.model.errors import WrongState
from functions.runtime import clients
from functions.shop import (
    accounts,
    cancellation,
    credit_payments,
    payments,
    refund_processing,
    refunds,
    started_payments,
)
from local.world.harness import ANN, READERS, STAFF, ShopHarness
from ops.commands.restore import SETTLE_TIME, make_archive_fetcher, restore_order
from proof.mutants.items import number, stored_items, stored_order, text
from proof.support.actors import report_dispute
from proof.support.archiving import create_delivered_order
from proof.support.client_faults import run_before_call


def pay_and_fail_a_refund(harness: ShopHarness) -> str:
    """Place an order, pay it with pi_1, and refund 500 of its 2500 cents. The refund, pi_1-1, fails."""
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    harness.pay_order(order_id)
    harness.provider.behaviors.append("failed")
    refunds.refund_order(harness.shop, STAFF, "sorry", order_id, 500)
    harness.process_all()
    (refund,) = stored_items(harness, "Refund")
    assert text(refund, "status") == "FAILED"
    return order_id


def test_an_order_that_is_cancelled_while_it_is_fulfilled_gets_no_invoice_and_no_shipment(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    harness.pay_order(order_id)
    event_publisher.handler({"Records": harness.new_records()}, None)
    messages = harness.take_messages("fulfilment")
    with run_before_call(
        "dynamodb", "TransactWriteItems", lambda: cancellation.cancel_order(harness.shop, ANN, order_id)
    ):
        assert fulfilment_worker.handler({"Records": messages}, None) == {"batchItemFailures": []}
    assert text(stored_order(harness, order_id), "status") == "CANCELLED"
    assert (stored_items(harness, "Invoice"), stored_items(harness, "Shipment")) == ([], [])


def report_payment(harness: ShopHarness, order_id: str, event_id: str, outcome: Any, payment_id: str = "pi_1") -> Any:
    event = payments.ProviderPaymentEvent(event_id, payment_id, order_id, outcome, 2500, "EUR")
    return payments.record_payment(harness.shop, event, {"id": event_id}).result["status"]


def test_a_repeated_authorisation_does_not_change_a_payment_that_failed_since(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    for event_id, outcome in (("evt_1", "authorised"), ("evt_2", "failed")):
        report_payment(harness, order_id, event_id, outcome)
    assert report_payment(harness, order_id, "evt_1", "authorised") == "AUTHORISED"
    (payment,) = stored_items(harness, "Payment")
    assert text(payment, "status") == "FAILED"


def test_an_authorisation_that_changed_nothing_is_not_applied_after_a_failure(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    for event_id, outcome in (("evt_1", "authorised"), ("evt_2", "authorised"), ("evt_3", "failed")):
        report_payment(harness, order_id, event_id, outcome)
    assert report_payment(harness, order_id, "evt_2", "authorised") == "AUTHORISED"
    (payment,) = stored_items(harness, "Payment")
    assert text(payment, "status") == "FAILED"


def test_an_event_that_was_ignored_while_its_order_was_archived_is_ignored_after_the_restore(
    harness: ShopHarness,
) -> None:
    order_id = create_delivered_order(harness)
    harness.advance_days(days=396)
    harness.process_all()
    assert report_payment(harness, order_id, "evt_late", "authorised", "pi_late") is None
    harness.clock_offset += SETTLE_TIME
    restore_order(harness.shop, make_archive_fetcher(clients.client("s3"), "archive"), order_id)
    assert report_payment(harness, order_id, "evt_late", "authorised", "pi_late") is None
    assert [text(payment, "payment_id") for payment in stored_items(harness, "Payment")] == ["pi_1"]


def test_a_won_dispute_refunds_nothing_while_another_dispute_of_the_payment_is_open(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    harness.pay_order(order_id)
    for dispute in ("dp_1", "dp_2"):
        report_dispute(harness.shop, "pi_1", "opened", dispute_id=dispute)
    cancellation.cancel_order(harness.shop, ANN, order_id)
    refunded = []
    for dispute in ("dp_1", "dp_2"):
        report_dispute(harness.shop, "pi_1", "won", dispute_id=dispute)
        harness.process_all()
        order = stored_order(harness, order_id)
        refunded.append((harness.provider.refunded_amount("pi_1"), number(order, "refunded"), number(order, "owed")))
    assert refunded == [(0, 0, 2500), (2500, 2500, 0)]


def test_a_won_dispute_retries_no_refund_of_a_payment_that_another_dispute_took(harness: ShopHarness) -> None:
    order_id = pay_and_fail_a_refund(harness)
    requests = [*harness.provider.requests]
    for dispute in ("dp_1", "dp_2"):
        report_dispute(harness.shop, "pi_1", "opened", dispute_id=dispute)
    report_dispute(harness.shop, "pi_1", "lost", dispute_id="dp_1")
    report_dispute(harness.shop, "pi_1", "won", dispute_id="dp_2")
    harness.process_all()
    assert harness.provider.requests == requests
    assert number(stored_order(harness, order_id), "refunded") == 2500, "500 that are owed, and 2000 that the bank took"


def test_a_refund_is_not_retried_if_its_payment_is_disputed_at_the_same_time(harness: ShopHarness) -> None:
    order_id = pay_and_fail_a_refund(harness)
    with (
        run_before_call(
            "dynamodb",
            "TransactWriteItems",
            lambda: report_dispute(harness.shop, "pi_1", "opened", dispute_id="dp_1"),
            call=1,
        ),
        pytest.raises(WrongState),
    ):
        refunds.retry_refund(harness.shop, STAFF, order_id, "pi_1-1")


def test_two_refunds_of_a_payment_at_once_are_both_in_its_refunded_amount(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    harness.pay_order(order_id)
    for amount in (300, 400):
        refunds.refund_order(harness.shop, STAFF, f"sorry {amount}", order_id, amount)

    def process(refund_id: str) -> None:
        refund_processing.process_refund(harness.shop, harness.provider, order_id, refund_id)

    with run_before_call("dynamodb", "TransactWriteItems", lambda: process("pi_1-2")):
        process("pi_1-1")
    (payment,) = stored_items(harness, "Payment")
    assert (number(payment, "refunded"), harness.provider.refunded_amount("pi_1")) == (700, 700)


def test_two_retries_of_a_refund_at_once_pay_it_once(harness: ShopHarness) -> None:
    order_id = pay_and_fail_a_refund(harness)

    def retry_to_credit() -> None:
        refunds.retry_refund(harness.shop, STAFF, order_id, "pi_1-1", "credit")
        harness.process_all()

    with run_before_call("dynamodb", "TransactWriteItems", retry_to_credit), suppress(WrongState):
        refunds.retry_refund(harness.shop, STAFF, order_id, "pi_1-1")
    harness.process_all()
    READERS["event_publisher"].handler({"Records": harness.all_records}, None)  # the stream delivers all records again
    harness.process_all()
    balances = [number(account, "balance") for account in stored_items(harness, "Account")]
    assert (harness.provider.refunded_amount("pi_1"), balances) == (0, [500])


def test_an_order_stays_in_the_table_until_31_days_after_the_later_of_its_two_refunds(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    statuses = {}
    for day in (10, 380, 396, 405, 415):
        harness.advance_days(day - harness.clock_offset.days)
        if day in (10, 380):
            refunds.refund_order(harness.shop, STAFF, f"sorry {day}", order_id, 100)
        for _ in range(2):  # the archiving may store a new expiry marker, which may be due already
            harness.process_all()
            harness.advance_days(0)
        statuses[day] = text(stored_order(harness, order_id), "type")
    assert statuses == {10: "Order", 380: "Order", 396: "Order", 405: "Order", 415: "ArchivedOrder"}


def test_a_payment_with_credit_cancels_the_payment_that_was_started_before(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=1)
    started = started_payments.start_payment(harness.shop, harness.provider, ANN, order_id)
    card = accounts.issue_gift_card(harness.shop, STAFF, "card", 5000, "EUR").result["code"]
    credit_payments.pay_with_credit(harness.shop, ANN, "rest", order_id, accounts.gift_card_source(harness.shop, card))
    harness.process_all()
    assert harness.provider.get_payment(started.payment_id).status == "cancelled"
