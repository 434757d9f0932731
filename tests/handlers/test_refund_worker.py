"""Tests the reaction to a refund: it pays once, over HTTP, under every failure."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from functions.adapters import payment_provider
from functions.handlers import event_publisher, refund_worker
from functions.model.patterns import PAYMENTS_OF_ORDER, REFUNDS_OF_ORDER
from functions.runtime import clients, secrets
from functions.shop import accounts, cancellation, credit_payments
from functions.shop.started_payments import start_payment
from local.world.harness import ANN, STAFF, ShopHarness
from tests.support.handlers import failed_ids
from tests.support.payment_server import FakeStripe, run_fake_stripe, stripe_error

ASKED_FOR_REAL = payment_provider.get_payment_provider


@pytest.fixture
def bank(harness: ShopHarness, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeStripe]:
    """A fake payment provider that the shop calls over HTTP, in place of the harness's provider."""
    with run_fake_stripe() as listening:
        monkeypatch.setenv("PROVIDER_URL", listening.url)
        monkeypatch.setattr(payment_provider, "get_payment_provider", ASKED_FOR_REAL)
        clients.client("secretsmanager").create_secret(Name="provider", SecretString="sk_1\n")
        secrets.get_secret.cache_clear()
        yield listening
    secrets.get_secret.cache_clear()


@pytest.fixture
def cancelled(harness: ShopHarness, bank: FakeStripe) -> str:
    """Cancel a paid order. The event of its refund waits in the queue. Return the order's id."""
    harness.open_shop()
    order_id = harness.place_order()
    harness.pay_order(order_id)
    cancellation.cancel_order(harness.shop, ANN, order_id)
    event_publisher.handler({"Records": harness.new_records()}, None)
    return order_id


handle = partial(failed_ids, refund_worker)


def is_given_back_once(harness: ShopHarness, bank: FakeStripe, order_id: str) -> None:
    (refund,) = harness.shop.table.query_all(REFUNDS_OF_ORDER, order_id=order_id)
    (payment,) = harness.shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order_id)
    assert (refund.status, refund.provider_id, refund.version) == ("SUCCEEDED", "re_1", 2)
    assert (payment.status, payment.refunded, payment.version) == ("REFUNDED", 2500, 2)
    assert {asked.headers["idempotency-key"] for asked in bank.requests} == {"pi_1-1-1"}


def test_money_is_given_back_by_the_provider(harness: ShopHarness, bank: FakeStripe, cancelled: str) -> None:
    assert handle(*harness.take_messages("refund")) == []
    is_given_back_once(harness, bank, cancelled)
    (asked,) = bank.requests
    assert (asked.form["amount"], asked.form["metadata[order_id]"]) == ("2500", cancelled)
    assert asked.headers["authorization"] == "Bearer sk_1", "the key is sent without the line break of its secret"


def test_a_permanently_rejected_refund_waits_for_staff_and_the_providers_message_is_not_logged(
    harness: ShopHarness, bank: FakeStripe, cancelled: str, caplog: pytest.LogCaptureFixture
) -> None:
    bank.replies.append((400, stripe_error("charge_disputed")))
    caplog.clear()
    assert handle(*harness.take_messages("refund")) == []
    (refused,) = harness.shop.table.query_all(REFUNDS_OF_ORDER, order_id=cancelled)
    assert (refused.status, refused.reason) == ("FAILED", "charge_disputed")
    lines = [vars(record) for record in caplog.records]
    (line,) = [it for it in lines if it["msg"] == "refund_processed"]
    assert (line["refund_id"], line["status"], line["reason"]) == ("pi_1-1", "FAILED", "charge_disputed")
    assert line["levelname"] == "WARNING"
    assert "Ann" not in str(lines)
    assert "4242" not in str(harness.partition(f"ORDER#{cancelled}"))


def test_a_key_that_was_changed_is_used_within_minutes(
    harness: ShopHarness, bank: FakeStripe, cancelled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = 1_795_253_400.0
    monkeypatch.setattr("time.time", lambda: moment)
    clients.client("secretsmanager").put_secret_value(SecretId="provider", SecretString="sk_2")
    handle(*harness.take_messages("refund"))
    assert bank.requests[-1].headers["authorization"] == "Bearer sk_2"
    clients.client("secretsmanager").put_secret_value(SecretId="provider", SecretString="sk_3")
    port: Any = payment_provider.get_payment_provider(bank.url, "provider")
    port.refunds_of("pi_1")
    assert bank.requests[-1].headers["authorization"] == "Bearer sk_2"
    monkeypatch.setattr("time.time", lambda: moment + secrets.SECRET_CACHE_SECONDS)
    port = payment_provider.get_payment_provider(bank.url, "provider")
    port.refunds_of("pi_1")
    assert bank.requests[-1].headers["authorization"] == "Bearer sk_3"


def start(harness: ShopHarness, order_id: str) -> str:
    """Start a payment at the harness's provider. Return its id."""
    return start_payment(harness.shop, harness.provider, ANN, order_id).payment_id


def test_a_started_payment_is_cancelled_when_its_order_lapses(harness: ShopHarness) -> None:
    harness.open_shop()
    lapsed, payable = harness.place_order("one"), harness.place_order("two")
    payments = [start(harness, lapsed), start(harness, payable)]
    cancellation.lapse_order(harness.shop, lapsed)
    harness.process_all(times=2)
    assert [harness.provider.get_payment(id).status for id in payments] == ["cancelled", "open"]


def test_a_started_payment_is_cancelled_when_credit_changes_what_is_due(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order()
    payment = start(harness, order_id)
    credit = accounts.issue_store_credit(harness.shop, STAFF, "credit", "ann", 500, "EUR").result["account_id"]
    source = accounts.CreditSource(str(credit))
    credit_payments.pay_with_credit(harness.shop, ANN, "pay", order_id, source, 500)
    harness.process_all(times=2)
    assert harness.provider.get_payment(payment).status == "cancelled"
