"""The reaction to money that is to be given back: once, over the wire, whatever happens on the way."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from functions import refunds, relay, wiring
from functions.model.patterns import A12c, A12d
from functions.shop import accounts, ending
from functions.shop import refunds as deciding
from tests.functions.bank import Bank, error, opened, refund
from tests.functions.faults import dying, losing_the_answer, refusing
from tests.shopfloor import ANN, STAFF, Shopfloor

Message = dict[str, Any]
ASKED_FOR_REAL = wiring.provider


@pytest.fixture
def bank(floor: Shopfloor, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bank]:
    """The provider at the other end of a wire, in the place of the shopfloor's own."""
    with opened() as listening:
        monkeypatch.setenv("PROVIDER_URL", listening.url)
        monkeypatch.setattr(wiring, "provider", ASKED_FOR_REAL)
        wiring.client("secretsmanager").create_secret(Name="provider", SecretString="sk_1\n")
        wiring.secret.cache_clear()
        yield listening
    wiring.secret.cache_clear()


@pytest.fixture
def cancelled(floor: Shopfloor, bank: Bank) -> str:
    """A paid order that was cancelled; its refund's event waits in the queue."""
    floor.open_shop()
    order_id = floor.place()
    floor.pay(order_id)
    ending.cancel_order(floor.shop, ANN, order_id)
    relay.handler({"Records": floor.records()}, None)
    return order_id


def handle(*messages: Message) -> list[str]:
    """The messages to be sent again."""
    answer = refunds.handler({"Records": list(messages)}, None)
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def is_given_back_once(floor: Shopfloor, bank: Bank, order_id: str) -> None:
    (refund,) = floor.shop.table.every(A12d, order_id=order_id)
    (payment,) = floor.shop.table.every(A12c, order_id=order_id)
    assert (refund.status, refund.provider_id, refund.version) == ("SUCCEEDED", "re_1", 2)
    assert (payment.status, payment.refunded, payment.version) == ("REFUNDED", 2500, 2)
    assert {asked.headers["idempotency-key"] for asked in bank.asked} == {"pi_1-1-1"}


def test_money_is_given_back_by_the_provider(floor: Shopfloor, bank: Bank, cancelled: str) -> None:
    assert handle(*floor.waiting("refunds")) == []
    is_given_back_once(floor, bank, cancelled)
    (asked,) = bank.asked
    assert (asked.form["amount"], asked.form["metadata[order_id]"]) == ("2500", cancelled)
    assert asked.headers["authorization"] == "Bearer sk_1", "without the line's end that an editor left"


def test_a_message_that_comes_again_asks_nobody(floor: Shopfloor, bank: Bank, cancelled: str) -> None:
    (message,) = floor.waiting("refunds")
    assert handle(message, message) == []
    assert handle({**message, "messageId": "another delivery"}) == []
    assert len(bank.asked) == 1
    is_given_back_once(floor, bank, cancelled)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_the_write_asks_again_with_the_same_key(
    floor: Shopfloor, bank: Bank, cancelled: str, when: Any
) -> None:
    (message,) = floor.waiting("refunds")
    with dying("dynamodb", "TransactWriteItems", when, 1):
        handle(message)
    assert handle(message) == []
    assert len(bank.asked) == (2 if when == "before" else 1)
    is_given_back_once(floor, bank, cancelled)


def test_a_write_whose_answer_is_lost_is_found_done(floor: Shopfloor, bank: Bank, cancelled: str) -> None:
    (message,) = floor.waiting("refunds")
    with losing_the_answer("dynamodb", "TransactWriteItems"):
        assert handle(message) == [message["messageId"]]
    assert handle(message) == []
    is_given_back_once(floor, bank, cancelled)


def test_a_write_that_fails_for_now_is_made_later(floor: Shopfloor, bank: Bank, cancelled: str) -> None:
    (message,) = floor.waiting("refunds")
    with refusing("dynamodb", "TransactWriteItems", "InternalServerError", times=1):
        assert handle(message) == [message["messageId"]]
    assert handle(message) == []
    is_given_back_once(floor, bank, cancelled)


@pytest.mark.parametrize("reply", [(500, error(kind="api_error")), (429, error()), (401, error()), (409, error())])
def test_what_passes_has_only_its_own_message_sent_again(
    floor: Shopfloor, bank: Bank, cancelled: str, reply: Any
) -> None:
    other = floor.place("two")
    floor.pay(other, "evt_2", "pi_2")
    ending.cancel_order(floor.shop, ANN, other)
    relay.handler({"Records": floor.records()}, None)
    messages = {json.loads(it["body"])["detail"]["data"]["order_id"]: it for it in floor.waiting("refunds")}
    bank.replies.append(reply)
    assert handle(messages[cancelled], messages[other]) == [messages[cancelled]["messageId"]]
    (refund,) = floor.shop.table.every(A12d, order_id=cancelled)
    assert refund.status == "REQUESTED"
    assert handle(messages[cancelled]) == []
    assert [it.status for it in floor.shop.table.every(A12d, order_id=other)] == ["SUCCEEDED"]


def test_what_is_refused_for_good_waits_for_a_person_and_nothing_they_said_is_logged(
    floor: Shopfloor, bank: Bank, cancelled: str, caplog: pytest.LogCaptureFixture
) -> None:
    bank.replies.append((400, error("charge_disputed")))
    caplog.clear()
    assert handle(*floor.waiting("refunds")) == []
    (refused,) = floor.shop.table.every(A12d, order_id=cancelled)
    assert (refused.status, refused.reason) == ("FAILED", "charge_disputed")
    lines = [vars(record) for record in caplog.records]
    (line,) = [it for it in lines if it["msg"] == "refunded"]
    assert (line["refund_id"], line["status"], line["reason"]) == ("pi_1-1", "FAILED", "charge_disputed")
    assert "Ann" not in str(lines)
    assert "4242" not in str(floor.partition(f"ORDER#{cancelled}"))


def test_a_refund_that_failed_is_tried_again_through_the_stream(floor: Shopfloor, bank: Bank, cancelled: str) -> None:
    bank.replies.append((400, error("charge_disputed")))
    floor.settle()
    deciding.retry_refund(floor.shop, STAFF, cancelled, "pi_1-1")
    floor.settle(times=2)
    (retried,) = floor.shop.table.every(A12d, order_id=cancelled)
    assert (retried.status, retried.attempt) == ("SUCCEEDED", 2)
    assert [asked.headers["idempotency-key"] for asked in bank.asked] == ["pi_1-1-1", "pi_1-1-2"]


def test_money_that_goes_onto_store_credit_asks_no_provider(floor: Shopfloor, bank: Bank) -> None:
    floor.open_shop()
    order_id = floor.place()
    floor.pay(order_id)
    deciding.refund_order(floor.shop, STAFF, "sorry", order_id, 500, "credit")
    floor.settle(times=2)
    account_id = accounts.store_credit_id(floor.shop, "ann", "EUR")
    assert accounts.account_by_id(floor.shop, ANN, account_id).balance == 500
    assert bank.asked == []


def test_a_day_later_the_provider_is_asked_what_it_has_done(floor: Shopfloor, bank: Bank, cancelled: str) -> None:
    (message,) = floor.waiting("refunds")
    bank.replies.append((500, error(kind="api_error")))
    assert handle(message)
    names = {"order_id": cancelled, "refund_id": "pi_1-1", "attempt": "1"}
    bank.replies.append((200, {"data": [refund({}, id="re_0"), refund({**names, "attempt": "2"}), refund(names)]}))
    floor.ahead += timedelta(hours=30)
    assert handle(message) == []
    assert [asked.method for asked in bank.asked] == ["POST", "GET"]
    (done,) = floor.shop.table.every(A12d, order_id=cancelled)
    assert (done.status, done.provider_id) == ("SUCCEEDED", "re_1")


def test_a_key_that_was_changed_is_used_within_minutes(
    floor: Shopfloor, bank: Bank, cancelled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = 1_795_253_400.0
    monkeypatch.setattr("functions.wiring.time.time", lambda: moment)
    wiring.client("secretsmanager").put_secret_value(SecretId="provider", SecretString="sk_2")
    handle(*floor.waiting("refunds"))
    assert bank.asked[-1].headers["authorization"] == "Bearer sk_2"
    wiring.client("secretsmanager").put_secret_value(SecretId="provider", SecretString="sk_3")
    port: Any = wiring.provider(bank.url, "provider")
    port.refunds_of("pi_1")
    assert bank.asked[-1].headers["authorization"] == "Bearer sk_2"
    monkeypatch.setattr("functions.wiring.time.time", lambda: moment + wiring.SECRETS_KEPT_SECONDS)
    port = wiring.provider(bank.url, "provider")
    port.refunds_of("pi_1")
    assert bank.asked[-1].headers["authorization"] == "Bearer sk_3"


def test_what_is_no_event_is_parked(floor: Shopfloor, bank: Bank) -> None:
    assert handle({"messageId": "1", "body": "no event"}) == []
    (kept,) = floor.objects("failures")
    assert kept.startswith("parked/refunds/")
