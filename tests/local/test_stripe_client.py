"""Tests the local payment provider with Stripe's own client and its types: requests, answers, errors and webhooks."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
import stripe

from functions.adapters.payment_provider import HttpPaymentProvider
from local.laptop.http_server import HttpResponse, LoopbackServer
from local.laptop.payment_provider import PaymentProviderServer
from local.world.stripe_account import API_VERSION
from tests.support.stripe_types import check_answer, check_request, check_type

KEY, SECRET = "sk_test_1", "whsec_test"


class CheckedProvider(PaymentProviderServer):
    """A payment provider that compares its requests, answers and webhooks with the types of Stripe's client.

    `differences`: what differs. `webhooks`: each received webhook, as its body and its signature.
    """

    def __init__(self, directory: Path) -> None:
        self.differences: list[str] = []
        self.webhooks: list[tuple[bytes, str]] = []
        self._shop = LoopbackServer(self, 0)
        super().__init__(directory, 0, f"http://127.0.0.1:{self._shop.server_port}/events", lambda: SECRET, lambda: KEY)
        self._threads.append(threading.Thread(target=self._shop.serve_forever, args=(0.05,)))
        self.client = stripe.StripeClient(KEY, base_addresses={"api": self.url}, max_network_retries=0)

    def stop(self) -> None:
        self._shop.shutdown()
        self._shop.server_close()
        super().stop()

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        if target == "/events":
            self.webhooks.append((body, headers["Stripe-Signature"]))
            return HttpResponse("")
        path, _, query = target.partition("?")
        if path.startswith("/v1/"):
            self.differences += check_request(
                method, path.removeprefix("/v1/"), dict(parse_qsl(query or body.decode()))
            )
        answer = super().answer(method, target, headers, body)
        self.differences += check_answer(answer.body)
        return answer

    def play(self, path: str, **form: Any) -> str:
        """Do what happens outside the shop. Return the id of the changed object."""
        return str(json.loads(self.client.raw_request("post", f"/test/{path}", **form).body)["id"])

    def events(self, count: int) -> list[stripe.Event]:
        """Wait for this number of webhooks. Return their events after a check of their signatures."""
        give_up = time.monotonic() + 10
        while len(self.webhooks) < count and time.monotonic() < give_up:
            time.sleep(0.01)
        return [stripe.Webhook.construct_event(body, signature, SECRET) for body, signature in self.webhooks]

    def start_payment(self, **more: Any) -> stripe.PaymentIntent:
        asked: Any = {"amount": 2500, "currency": "eur", "metadata": {"order_id": "o1"}, **more}
        return self.client.v1.payment_intents.create(asked)


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[CheckedProvider]:
    running = CheckedProvider(tmp_path)
    running.start()
    yield running
    running.stop()
    for body, _ in running.webhooks:
        running.differences += check_answer(json.loads(body))
    assert running.differences == []


def test_the_account_plays_the_api_version_of_the_client() -> None:
    assert stripe.api_version == API_VERSION


def test_a_payment_is_started_found_declined_paid_and_refunded(provider: CheckedProvider) -> None:
    payments = provider.client.v1.payment_intents
    started = provider.start_payment(automatic_payment_methods={"enabled": True})
    assert (started.status, started.amount_received) == ("requires_payment_method", 0)
    assert payments.retrieve(started.id).client_secret == started.client_secret
    found = payments.search({"query": "metadata['order_id']:'o1'", "limit": 100})
    assert [one.id for one in found.auto_paging_iter()] == [started.id]
    with pytest.raises(stripe.CardError) as declined:
        payments.confirm(started.id, {"payment_method": "pm_card_chargeDeclined"})
    assert (declined.value.http_status, declined.value.code) == (402, "card_declined")
    assert declined.value.error is not None
    assert declined.value.error.payment_intent is not None
    assert declined.value.error.payment_intent.status == "requires_payment_method"
    assert payments.confirm(started.id, {"payment_method": "pm_card_visa"}).status == "succeeded"
    refunds = provider.client.v1.refunds
    made = refunds.create(
        {"payment_intent": started.id, "amount": 500, "reason": "requested_by_customer", "metadata": {"refund_id": "r"}}
    )
    assert (made.status, made.reason) == ("succeeded", "requested_by_customer")
    assert [one.id for one in refunds.list({"payment_intent": started.id, "limit": 100}).data] == [made.id]
    types = sorted(event.type for event in provider.events(3))
    assert types == ["payment_intent.payment_failed", "payment_intent.succeeded", "refund.created"]


def test_a_payment_is_cancelled_once(provider: CheckedProvider) -> None:
    payments, started = provider.client.v1.payment_intents, provider.start_payment()
    cancelled = payments.cancel(started.id, {"cancellation_reason": "abandoned"})
    assert (cancelled.status, cancelled.cancellation_reason) == ("canceled", "abandoned")
    for ask in (payments.cancel, payments.confirm):
        with pytest.raises(stripe.InvalidRequestError) as refusal:
            ask(started.id)
        assert refusal.value.code == "payment_intent_unexpected_state"
    assert [event.type for event in provider.events(1)] == ["payment_intent.canceled"]


def test_disputes_and_dashboard_refunds_are_events_of_the_client(provider: CheckedProvider) -> None:
    payment = provider.start_payment(confirm=True).id
    provider.play(f"payments/{payment}/refunds", amount=500)
    inquiry = provider.play(f"payments/{payment}/disputes", amount=1000, inquiry="true")
    for action in ("submit", "escalate", "win"):
        provider.play(f"disputes/{inquiry}/{action}")
    disputes = [event for event in provider.events(8) if event.type.startswith("charge.dispute.")]
    assert sorted(event.type.removeprefix("charge.dispute.") for event in disputes) == [
        "closed",
        "created",
        "funds_reinstated",
        "funds_withdrawn",
        "updated",
        "updated",
    ]
    assert {event.data.object["status"] for event in disputes if event.type.endswith("closed")} == {"won"}


def test_the_shop_sends_only_parameters_that_stripe_has(provider: CheckedProvider) -> None:
    payment, shop = provider.start_payment(confirm=True).id, HttpPaymentProvider(provider.url, KEY)
    given = shop.refund(key="r-1", payment_id=payment, amount=500, metadata={"refund_id": "r"})
    assert shop.refunds_of(payment) == [given]


def test_the_types_of_the_client_detect_a_wrong_object() -> None:
    request = {"id": None, "idempotency_key": 1}
    event = {"object": "event", "id": "evt_1", "type": "payment_intent.won", "created": "now", "request": request}
    assert sorted(check_type("event", {**event, "kind": 1, "data": {"object": {}}}, stripe.Event)) == [
        "event has no field kind",
        "event lacks livemode",
        "event lacks pending_webhooks",
        "event.created is 'now', but must be <class 'int'>",
        "event.request.idempotency_key is 1, but must be <class 'str'>",
        "event.type is 'payment_intent.won'",
    ]
    assert list(check_request("POST", "refunds", {"payment": "pi_1", "metadata[a]": "b"})) == [
        "POST refunds has no parameter payment"
    ]
