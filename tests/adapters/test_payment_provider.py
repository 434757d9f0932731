"""Tests the client of the payment provider: its requests, and the answers that it treats as permanent errors."""

from collections.abc import Iterator
from typing import Any

import pytest
import urllib3

from functions.adapters import payment_provider as port
from functions.adapters.payment_provider import HttpPaymentProvider
from functions.shop.payment_provider import PaymentProviderUnavailable, ProviderRefundState, ProviderRejected
from tests.support.payment_server import HANGS, HANGS_UP, FakeStripe, run_fake_stripe, stripe_error, stripe_refund

OURS = {"order_id": "o1", "refund_id": "pi_1-1", "attempt": "1"}


@pytest.fixture
def bank(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeStripe]:
    monkeypatch.setattr(port, "TIMEOUT", urllib3.Timeout(connect=0.2, read=0.2))
    with run_fake_stripe() as listening:
        yield listening


def test_without_a_provider_each_request_is_rejected_for_good() -> None:
    with pytest.raises(ProviderRejected) as rejection:
        HttpPaymentProvider("", "").start_payment(key="k", order_id="o1", amount=500, currency="EUR")
    assert rejection.value.code == "no_payment_provider"


def ask(bank: FakeStripe) -> ProviderRefundState:
    return HttpPaymentProvider(bank.url, "sk_1").refund(key="pi_1-1-1", payment_id="pi_1", amount=500, metadata=OURS)


def test_a_refund_is_asked_for_as_stripe_wants_it(bank: FakeStripe) -> None:
    assert ask(bank) == ProviderRefundState("re_1", "succeeded", None, OURS)
    (asked,) = bank.requests
    assert (asked.method, asked.path) == ("POST", "/v1/refunds")
    assert asked.form == {
        "payment_intent": "pi_1",
        "amount": "500",
        "metadata[order_id]": "o1",
        "metadata[refund_id]": "pi_1-1",
        "metadata[attempt]": "1",
    }
    assert asked.headers["authorization"] == "Bearer sk_1"
    assert asked.headers["idempotency-key"] == "pi_1-1-1"
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"


def test_the_refunds_of_a_payment_are_listed(bank: FakeStripe) -> None:
    bank.replies.append(
        (200, {"object": "list", "data": [stripe_refund(OURS), stripe_refund({}, "pending", id="re_2")]})
    )
    found = HttpPaymentProvider(bank.url, "sk_1").refunds_of("pi_1&limit=1")
    assert [(it.provider_id, it.status, it.metadata) for it in found] == [
        ("re_1", "succeeded", OURS),
        ("re_2", "pending", {}),
    ]
    (asked,) = bank.requests
    assert (asked.method, asked.path, asked.form) == (
        "GET",
        "/v1/refunds",
        {"payment_intent": "pi_1&limit=1", "limit": "100"},
    )
    assert asked.headers["authorization"] == "Bearer sk_1"
    assert "idempotency-key" not in asked.headers


@pytest.mark.parametrize(
    ("theirs", "ours", "reason"),
    [
        ({"status": "succeeded"}, "succeeded", None),
        ({"status": "pending"}, "pending", None),
        ({"status": "requires_action"}, "pending", None),
        ({"status": "a state of next year"}, "pending", None),
        ({"status": "failed", "failure_reason": "lost_or_stolen_card"}, "failed", "lost_or_stolen_card"),
        ({"status": "failed"}, "failed", "failed"),
        ({"status": "canceled"}, "failed", "canceled"),
    ],
)
def test_each_refund_status_of_the_provider_has_a_status_in_the_shop(
    bank: FakeStripe, theirs: Any, ours: str, reason: str | None
) -> None:
    bank.replies.append((200, stripe_refund(OURS, **theirs)))
    found = ask(bank)
    assert (found.status, found.reason) == (ours, reason)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, stripe_error("charge_already_refunded"), "charge_already_refunded"),
        (400, stripe_error(), "invalid_request_error"),
        (400, stripe_error(kind="idempotency_error"), "idempotency_error"),
        (402, stripe_error("insufficient_funds", "card_error"), "insufficient_funds"),
        (404, stripe_error("resource_missing"), "resource_missing"),
        (400, b"<html>no</html>", "http_400"),
        (400, {"error": "no"}, "http_400"),
        (422, [], "http_422"),
        (400, stripe_error("x" * 999), "x" * 200),
    ],
)
def test_a_rejected_refund_fails_at_once_with_a_code_and_without_the_providers_message(
    bank: FakeStripe, status: int, body: Any, code: str
) -> None:
    bank.replies.append((status, body))
    with pytest.raises(ProviderRejected) as refusal:
        ask(bank)
    assert (refusal.value.code, str(refusal.value)) == (code, code)
    assert len(bank.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        (409, stripe_error("idempotency_key_in_use", "idempotency_error")),
        (429, stripe_error("rate_limit")),
        (401, stripe_error(kind="authentication_error")),
        (403, stripe_error(kind="permission_error")),
        (500, stripe_error(kind="api_error")),
        (503, b""),
        (200, b"<html>welcome</html>"),
        (200, b"[]"),
        (302, {}),
        HANGS,
        HANGS_UP,
    ],
    ids=str,
)
def test_a_temporary_error_is_not_retried_at_once_and_the_next_request_succeeds(bank: FakeStripe, reply: Any) -> None:
    bank.replies.append(reply)
    with pytest.raises(PaymentProviderUnavailable) as passing:
        ask(bank)
    assert passing.value.status == (reply[0] if isinstance(reply, tuple) else 0)
    assert "Ann" not in str(passing.value)
    assert len(bank.requests) == 1
    assert ask(bank).status == "succeeded"


def test_an_unreachable_provider_is_unavailable() -> None:
    with pytest.raises(PaymentProviderUnavailable):
        HttpPaymentProvider("http://127.0.0.1:9", "sk_1").refunds_of("pi_1")
