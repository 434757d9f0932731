"""Refunds, disputes and credit notes: money is paid back once, and never while the customer's bank has or claims it."""

from contextlib import suppress
from typing import Any

import pytest

from functions.model.errors import WrongState
from functions.runtime import clients
from functions.shop import archive, payments, refunds
from local.world.harness import READERS, STAFF, ShopHarness
from ops.commands.restore import SETTLE_TIME, make_archive_fetcher, restore_order
from proof.mutants.edits import detects, edit_code
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


def report_payment(harness: ShopHarness, order_id: str, event_id: str, outcome: Any, payment_id: str = "pi_1") -> Any:
    event = payments.ProviderPaymentEvent(event_id, payment_id, order_id, outcome, 2500, "EUR")
    return payments.record_payment(harness.shop, event, {"id": event_id}).result["status"]


@detects(
    "events of an archived order are forgotten by its restore",
    edit_code(payments._record, (" or (order is not None and order.restored_at is not None)", "")),
)
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


@detects(
    "retry of a refund does not check the payment",
    edit_code(refunds.retry_refund, ("check_unchanged(PAYMENT, payment), ", "")),
)
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


@detects(
    "retry of a refund checks no version",
    edit_code(
        refunds.retry_refund,
        (
            "update(REFUND, before, after), check_unchanged(PAYMENT, payment),",
            'Write("Put", REFUND, {"Item": REFUND.encode(after)}, lambda _: WriteConflict(REFUND.type)),',
        ),
    ),
)
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


@detects(
    "31 days count from the first refund", edit_code(archive._days_until_money_settles, ("max(done)", "min(done)"))
)
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


@detects(
    "an order is archived before its credit note",
    edit_code(archive.start_archiving, ("RECHECK_DAYS if lacks_credit_note(order, images) else ", "")),
)
def test_an_order_is_not_archived_before_its_credit_note(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    refunds.refund_order(harness.shop, STAFF, "sorry", order_id, 100, "credit")
    harness.process_all(is_delivered=lambda function, _: function != "fulfilment")  # its queue has an outage of a year
    harness.advance_days(400)
    harness.process_all()
    assert text(stored_order(harness, order_id), "type") == "Order"
    READERS["event_publisher"].handler({"Records": harness.all_records}, None)
    harness.process_all()
    assert [number(note, "total") for note in stored_items(harness, "Invoice") if "corrects" in note] == [100]
    harness.advance_days(8)
    harness.process_all()
    assert text(stored_order(harness, order_id), "type") == "ArchivedOrder"
