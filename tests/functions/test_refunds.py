"""The reaction to money that is to be given back: once, over the wire, whatever happens on the way."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from functions.adapters import payment_provider
from functions.handlers import event_publisher, refund_worker
from functions.model.patterns import PAYMENTS_OF_ORDER, REFUNDS_OF_ORDER
from functions.runtime import clients, secrets
from functions.shop import accounts, cancellation
from functions.shop import refunds as deciding
from tests.functions.bank import FakeStripe, run_fake_stripe, stripe_error, stripe_refund
from tests.functions.faults import crash_at, fail_calls, lose_response
from tests.shopfloor import ANN, STAFF, ShopHarness

Message = dict[str, Any]
ASKED_FOR_REAL = payment_provider.get_payment_provider


@pytest.fixture
def bank(floor: ShopHarness, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeStripe]:
    """The provider at the other end of a wire, in the place of the shopfloor's own."""
    with run_fake_stripe() as listening:
        monkeypatch.setenv("PROVIDER_URL", listening.url)
        monkeypatch.setattr(payment_provider, "get_payment_provider", ASKED_FOR_REAL)
        clients.client("secretsmanager").create_secret(Name="provider", SecretString="sk_1\n")
        secrets.get_secret.cache_clear()
        yield listening
    secrets.get_secret.cache_clear()


@pytest.fixture
def cancelled(floor: ShopHarness, bank: FakeStripe) -> str:
    """A paid order that was cancelled; its refund's event waits in the queue."""
    floor.open_shop()
    order_id = floor.place_order()
    floor.pay_order(order_id)
    cancellation.cancel_order(floor.shop, ANN, order_id)
    event_publisher.handler({"Records": floor.new_records()}, None)
    return order_id


def handle(*messages: Message) -> list[str]:
    """The messages to be sent again."""
    answer = refund_worker.handler({"Records": list(messages)}, None)
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def is_given_back_once(floor: ShopHarness, bank: FakeStripe, order_id: str) -> None:
    (refund,) = floor.shop.table.query_all(REFUNDS_OF_ORDER, order_id=order_id)
    (payment,) = floor.shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order_id)
    assert (refund.status, refund.provider_id, refund.version) == ("SUCCEEDED", "re_1", 2)
    assert (payment.status, payment.refunded, payment.version) == ("REFUNDED", 2500, 2)
    assert {asked.headers["idempotency-key"] for asked in bank.requests} == {"pi_1-1-1"}


def test_money_is_given_back_by_the_provider(floor: ShopHarness, bank: FakeStripe, cancelled: str) -> None:
    assert handle(*floor.take_messages("refunds")) == []
    is_given_back_once(floor, bank, cancelled)
    (asked,) = bank.requests
    assert (asked.form["amount"], asked.form["metadata[order_id]"]) == ("2500", cancelled)
    assert asked.headers["authorization"] == "Bearer sk_1", "without the line's end that an editor left"


def test_a_message_that_comes_again_asks_nobody(floor: ShopHarness, bank: FakeStripe, cancelled: str) -> None:
    (message,) = floor.take_messages("refunds")
    assert handle(message, message) == []
    assert handle({**message, "messageId": "another delivery"}) == []
    assert len(bank.requests) == 1
    is_given_back_once(floor, bank, cancelled)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_the_write_asks_again_with_the_same_key(
    floor: ShopHarness, bank: FakeStripe, cancelled: str, when: Any
) -> None:
    (message,) = floor.take_messages("refunds")
    with crash_at("dynamodb", "TransactWriteItems", when, 1):
        handle(message)
    assert handle(message) == []
    assert len(bank.requests) == (2 if when == "before" else 1)
    is_given_back_once(floor, bank, cancelled)


def test_a_write_whose_answer_is_lost_is_found_done(floor: ShopHarness, bank: FakeStripe, cancelled: str) -> None:
    (message,) = floor.take_messages("refunds")
    with lose_response("dynamodb", "TransactWriteItems"):
        assert handle(message) == [message["messageId"]]
    assert handle(message) == []
    is_given_back_once(floor, bank, cancelled)


def test_a_write_that_fails_for_now_is_made_later(floor: ShopHarness, bank: FakeStripe, cancelled: str) -> None:
    (message,) = floor.take_messages("refunds")
    with fail_calls("dynamodb", "TransactWriteItems", "InternalServerError", times=1):
        assert handle(message) == [message["messageId"]]
    assert handle(message) == []
    is_given_back_once(floor, bank, cancelled)


@pytest.mark.parametrize(
    "reply",
    [(500, stripe_error(kind="api_error")), (429, stripe_error()), (401, stripe_error()), (409, stripe_error())],
)
def test_what_passes_has_only_its_own_message_sent_again(
    floor: ShopHarness, bank: FakeStripe, cancelled: str, reply: Any
) -> None:
    other = floor.place_order("two")
    floor.pay_order(other, "evt_2", "pi_2")
    cancellation.cancel_order(floor.shop, ANN, other)
    event_publisher.handler({"Records": floor.new_records()}, None)
    messages = {json.loads(it["body"])["detail"]["data"]["order_id"]: it for it in floor.take_messages("refunds")}
    bank.replies.append(reply)
    assert handle(messages[cancelled], messages[other]) == [messages[cancelled]["messageId"]]
    (refund,) = floor.shop.table.query_all(REFUNDS_OF_ORDER, order_id=cancelled)
    assert refund.status == "REQUESTED"
    assert handle(messages[cancelled]) == []
    assert [it.status for it in floor.shop.table.query_all(REFUNDS_OF_ORDER, order_id=other)] == ["SUCCEEDED"]


def test_what_is_refused_for_good_waits_for_a_person_and_nothing_they_said_is_logged(
    floor: ShopHarness, bank: FakeStripe, cancelled: str, caplog: pytest.LogCaptureFixture
) -> None:
    bank.replies.append((400, stripe_error("charge_disputed")))
    caplog.clear()
    assert handle(*floor.take_messages("refunds")) == []
    (refused,) = floor.shop.table.query_all(REFUNDS_OF_ORDER, order_id=cancelled)
    assert (refused.status, refused.reason) == ("FAILED", "charge_disputed")
    lines = [vars(record) for record in caplog.records]
    (line,) = [it for it in lines if it["msg"] == "refunded"]
    assert (line["refund_id"], line["status"], line["reason"]) == ("pi_1-1", "FAILED", "charge_disputed")
    assert line["levelname"] == "WARNING"
    assert "Ann" not in str(lines)
    assert "4242" not in str(floor.partition(f"ORDER#{cancelled}"))


def test_a_refund_that_failed_is_tried_again_through_the_stream(
    floor: ShopHarness, bank: FakeStripe, cancelled: str
) -> None:
    bank.replies.append((400, stripe_error("charge_disputed")))
    floor.process_all()
    deciding.retry_refund(floor.shop, STAFF, cancelled, "pi_1-1")
    floor.process_all(times=2)
    (retried,) = floor.shop.table.query_all(REFUNDS_OF_ORDER, order_id=cancelled)
    assert (retried.status, retried.attempt) == ("SUCCEEDED", 2)
    assert [asked.headers["idempotency-key"] for asked in bank.requests] == ["pi_1-1-1", "pi_1-1-2"]


def test_money_that_goes_onto_store_credit_asks_no_provider(floor: ShopHarness, bank: FakeStripe) -> None:
    floor.open_shop()
    order_id = floor.place_order()
    floor.pay_order(order_id)
    deciding.refund_order(floor.shop, STAFF, "sorry", order_id, 500, "credit")
    floor.process_all(times=2)
    account_id = accounts.store_credit_account_id(floor.shop, "ann", "EUR")
    assert accounts.get_account(floor.shop, ANN, account_id).balance == 500
    assert bank.requests == []


def test_a_day_later_the_provider_is_asked_what_it_has_done(
    floor: ShopHarness, bank: FakeStripe, cancelled: str
) -> None:
    (message,) = floor.take_messages("refunds")
    bank.replies.append((500, stripe_error(kind="api_error")))
    assert handle(message)
    names = {"order_id": cancelled, "refund_id": "pi_1-1", "attempt": "1"}
    bank.replies.append(
        (200, {"data": [stripe_refund({}, id="re_0"), stripe_refund({**names, "attempt": "2"}), stripe_refund(names)]})
    )
    floor.clock_offset += timedelta(hours=30)
    assert handle(message) == []
    assert [asked.method for asked in bank.requests] == ["POST", "GET"]
    (done,) = floor.shop.table.query_all(REFUNDS_OF_ORDER, order_id=cancelled)
    assert (done.status, done.provider_id) == ("SUCCEEDED", "re_1")


def test_a_key_that_was_changed_is_used_within_minutes(
    floor: ShopHarness, bank: FakeStripe, cancelled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = 1_795_253_400.0
    monkeypatch.setattr("time.time", lambda: moment)
    clients.client("secretsmanager").put_secret_value(SecretId="provider", SecretString="sk_2")
    handle(*floor.take_messages("refunds"))
    assert bank.requests[-1].headers["authorization"] == "Bearer sk_2"
    clients.client("secretsmanager").put_secret_value(SecretId="provider", SecretString="sk_3")
    port: Any = payment_provider.get_payment_provider(bank.url, "provider")
    port.refunds_of("pi_1")
    assert bank.requests[-1].headers["authorization"] == "Bearer sk_2"
    monkeypatch.setattr("time.time", lambda: moment + secrets.SECRET_CACHE_SECONDS)
    port = payment_provider.get_payment_provider(bank.url, "provider")
    port.refunds_of("pi_1")
    assert bank.requests[-1].headers["authorization"] == "Bearer sk_3"


def test_what_is_no_event_is_parked(floor: ShopHarness, bank: FakeStripe) -> None:
    assert handle({"messageId": "1", "body": "no event"}) == []
    (kept,) = floor.objects("failures")
    assert kept.startswith("parked/refunds/")
