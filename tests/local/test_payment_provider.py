"""Tests the local payment provider, also with Stripe's own client and types: answers, events, state after a restart."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
import stripe
import urllib3

from functions.adapters.payment_provider import HttpPaymentProvider
from functions.shop.payment_provider import ProviderRefundState, ProviderRejected
from local.laptop import payment_provider
from local.laptop.http_server import HttpResponse, LoopbackServer
from local.laptop.payment_provider import PaymentProviderServer
from local.world.stripe_account import API_VERSION, StripeAccount, StripeError
from tests.support.stripe_types import check_answer, check_request, check_type

KEY, SECRET = "sk_test_1", "whsec_test"
OURS = {"order_id": "o1", "refund_id": "pi-1", "attempt": "1"}


class RecordingProvider(PaymentProviderServer):
    """A payment provider that records its answers and the webhooks that it sends.

    `answers`: method, target and body of each request, and the answer. `webhooks`: the body and the signature of each.
    """

    def __init__(self, directory: Path) -> None:
        self.answers: list[tuple[str, str, bytes, Any]] = []
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
        answer = super().answer(method, target, headers, body)
        self.answers.append((method, target, body, answer.body))
        return answer

    def told(self, count: int) -> list[tuple[str, str]]:
        """Wait for this number of events. Return the type of each event and the status of its object."""
        return sorted((event.type, event.data.object["status"]) for event in self.events(count))

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
def start(tmp_path: Path) -> Iterator[Callable[[], RecordingProvider]]:
    """Return a function that starts the provider with its stored state."""
    started: list[RecordingProvider] = []

    def begin() -> RecordingProvider:
        if started:
            started.pop().stop()
        started.append(RecordingProvider(tmp_path))
        started[0].start()
        return started[0]

    yield begin
    started.pop().stop()


@pytest.fixture
def provider(start: Callable[[], RecordingProvider]) -> RecordingProvider:
    return start()


@pytest.fixture
def checked(provider: RecordingProvider) -> Iterator[RecordingProvider]:
    """The provider. The test fails if a request, an answer or a webhook differs from Stripe's types."""
    yield provider
    differences = [one for body, _ in provider.webhooks for one in check_answer(json.loads(body))]
    for method, target, body, answer in provider.answers:
        path, _, query = target.partition("?")
        if path.startswith("/v1/"):
            differences += check_request(method, path.removeprefix("/v1/"), dict(parse_qsl(query or body.decode())))
        differences += check_answer(answer)
    assert differences == []


def paid(provider: RecordingProvider, amount: int = 2500, **more: str) -> str:
    """Make a payment of this amount and confirm it. Return its id."""
    form = {"amount": str(amount), "currency": "EUR", "metadata[order_id]": "o1", "confirm": "true", **more}
    address = f"{provider.url}/v1/payment_intents"
    answer = urllib3.PoolManager().request_encode_body("POST", address, fields=form, encode_multipart=False)
    declined = more.get("payment_method") == "pm_card_chargeDeclined"
    assert answer.status == (402 if declined else 200), answer.data
    return str((answer.json()["error"]["payment_intent"] if declined else answer.json())["id"])


def new_account(now: Callable[[], float] = time.time) -> StripeAccount:
    return StripeAccount(now=now, new_id=lambda prefix, about: f"{prefix}_1")


def give(provider: RecordingProvider, payment_id: str, amount: int = 1000, key: str = "pi-1-1") -> ProviderRefundState:
    """Refund a payment as the refund function does."""
    return HttpPaymentProvider(provider.url, KEY).refund(key=key, payment_id=payment_id, amount=amount, metadata=OURS)


def test_a_refund_is_paid_once_for_each_key_and_sends_an_event(provider: RecordingProvider) -> None:
    payment_id = paid(provider)
    first, again = give(provider, payment_id), give(provider, payment_id)
    assert first == again
    assert (first.status, first.metadata) == ("succeeded", OURS)
    other = give(provider, payment_id, key="pi-2-1")
    assert HttpPaymentProvider(provider.url, KEY).refunds_of(payment_id) == [other, first]
    assert HttpPaymentProvider(provider.url, KEY).refunds_of("pi_other") == []
    assert provider.told(3)[1:] == [("refund.created", "succeeded")] * 2


@pytest.mark.parametrize(
    ("payment", "amount", "code"),
    [
        ("pi_other", 1, "resource_missing"),
        ("declined", 1, "payment_intent_invalid"),
        ("", 0, "parameter_invalid_integer"),
    ],
)
def test_a_malformed_request_is_rejected_in_stripes_format(
    provider: RecordingProvider, payment: str, amount: int, code: str
) -> None:
    known = {"": paid(provider), "declined": paid(provider, payment_method="pm_card_chargeDeclined")}
    with pytest.raises(ProviderRejected) as refusal:
        give(provider, known.get(payment, payment), amount)
    assert refusal.value.code == code


def test_the_first_answer_to_a_key_is_repeated_for_a_day_even_if_it_is_an_error() -> None:
    now, asked = [1e9], {"payment_intent": "pi_1", "metadata": {}}
    account = new_account(lambda: now[0])
    for _ in range(2):
        with pytest.raises(StripeError, match="No such payment_intent"):
            account.create_refund(asked, "key")
        account.create_payment({"amount": 100, "currency": "eur", "metadata": {}}, confirm=True)
    now[0] += 24 * 3600
    assert account.create_refund(asked, "key") == account.create_refund(asked, "key") == account.refunds["re_1"]


@pytest.mark.parametrize(
    ("method", "answered", "told"),
    [
        ("pm_card_pendingRefund", "pending", [("refund.created", "pending"), ("refund.updated", "succeeded")]),
        ("pm_card_refundFail", "succeeded", [("refund.created", "succeeded"), ("refund.failed", "failed")]),
    ],
)
def test_stripes_test_cards_refund_as_they_do_there(
    provider: RecordingProvider, method: str, answered: str, told: list[tuple[str, str]]
) -> None:
    payment_id = paid(provider, payment_method=method)
    assert give(provider, payment_id).status == answered
    assert provider.told(3)[1:] == told
    (refund,) = HttpPaymentProvider(provider.url, KEY).refunds_of(payment_id)
    assert refund.status == told[-1][1]


def test_the_provider_keeps_its_state_over_a_restart(start: Callable[[], RecordingProvider]) -> None:
    def decline(provider: RecordingProvider) -> Any:
        headers = {"Authorization": f"Bearer {KEY}", "Idempotency-Key": "confirm"}
        form = urlencode({"payment_method": "pm_card_chargeDeclined"}).encode()
        return provider.answer("POST", f"/v1/payment_intents/{started.id}/confirm", headers, form).body

    before = start()
    payment_id, started = paid(before), before.start_payment()
    given, declined = give(before, payment_id, 2000), decline(before)
    assert before.told(3)[0] == ("payment_intent.payment_failed", "requires_payment_method")
    after = start()
    assert decline(after) == declined
    assert HttpPaymentProvider(after.url, KEY).refunds_of(payment_id) == [given]
    assert give(after, payment_id, 2000) == given, "the provider still knows the key"
    with pytest.raises(ProviderRejected):
        give(after, payment_id, 501, "pi-2-1")
    assert after.webhooks == [], "accepted events are not repeated"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "amount"),
        (b"amount=-1&currency=eur&metadata[order_id]=o1", "amount"),
        (b"amount=1.5&currency=eur&metadata[order_id]=o1", "amount"),
        (b"amount=" + b"9" * 5000 + b"&currency=eur&metadata[order_id]=o1", "amount"),
        ("amount=\u0663&currency=eur&metadata[order_id]=o1".encode(), "amount"),
        (b"amount=100&currency=euro&metadata[order_id]=o1", "currency"),
        (b"amount=100&metadata[order_id]=o1", "currency"),
        (b"amount=49&currency=eur&metadata[order_id]=o1", "at least 50 minor units of eur"),
        (b"amount=100&currency=eur&metadata[order_id]=o1&cupon=1", "unknown parameter: cupon"),
        (b"amount=100&currency=eur", "order_id"),
        (b"amount=100&currency=eur&metadata[order_id]=%00", "order_id"),
        (b"\xff\xfe", "UTF-8"),
        (b"amount=%ff", "UTF-8"),
    ],
)
def test_an_impossible_payment_is_rejected_with_its_reason(body: bytes, says: str) -> None:
    status, answer = new_account().answer("POST", "/v1/payment_intents", {}, body)
    assert status == 400
    assert says in answer["error"]["message"]


def test_an_idempotency_key_is_valid_only_for_equal_parameters() -> None:
    account = new_account()

    def post(path: str, form: dict[str, Any], key: str) -> Any:
        return account.answer("POST", f"/v1/{path}", {"Idempotency-Key": key}, urlencode(form).encode())[1]

    form: dict[str, Any] = {"amount": 100, "currency": "eur", "metadata[order_id]": "o1", "confirm": "true"}
    payment = post("payment_intents", form, "key")
    assert post("payment_intents", form, "key") == payment
    refund = {"payment_intent": payment["id"]}
    assert post("refunds", refund, "another")["status"] == "succeeded"
    for path, fields, key in (
        ("payment_intents", {**form, "amount": 101}, "key"),
        ("refunds", refund, "key"),
        ("refunds", {**refund, "amount": 99}, "another"),
        ("payment_intents", form, "another"),
    ):
        assert post(path, fields, key)["error"]["type"] == "idempotency_error"


def ask(account: StripeAccount, method: str, path: str, form: Mapping[str, Any] = {}, key: str = "") -> Any:
    """Send a request to the account. Return the object, or the error of the answer."""
    target, headers = f"/v1/{path}".replace("/v1/..", ""), {"Idempotency-Key": key} if key else {}
    answer = account.answer(method, target, headers, urlencode(form).encode())[1]
    return answer.get("error", answer)


STARTED = {"amount": 2500, "currency": "eur", "metadata[order_id]": "o1"}


def test_only_the_api_key_or_a_client_secret_opens_a_payment(provider: RecordingProvider) -> None:
    pool = urllib3.PoolManager()

    def ask_as(authorization: str, method: str, path: str, **form: str) -> Any:
        headers = {"Authorization": authorization, "Content-Type": "application/x-www-form-urlencoded"}
        path, body = (f"{path}?{urlencode(form)}", "") if method == "GET" else (path, urlencode(form))
        return pool.request(method, f"{provider.url}/v1/payment_intents{path}", body=body, headers=headers)

    shop = f"Bearer {KEY}"
    assert ask_as("", "POST", "", **{name: str(value) for name, value in STARTED.items()}).status == 401
    started = ask_as(shop, "POST", "", **{name: str(value) for name, value in STARTED.items()}).json()
    one, secret = f"/{started['id']}", started["client_secret"]
    requests = [("GET", one), ("GET", "/search"), ("POST", f"{one}/cancel"), ("POST", f"{one}/confirm")]
    for method, path in requests:
        for form in ({}, {"client_secret": "guessed"}):
            assert ask_as("Bearer guessed", method, path, **form).status == 401
    assert ask_as("", "POST", f"{one}/cancel", client_secret=secret).status == 401
    assert ask_as("", "POST", "/../../test/delivery", mode="in_time").status == 200
    assert ask_as("", "GET", one, client_secret=secret).json() == started
    paying = {"client_secret": secret, "payment_method": "pm_card_visa"}
    assert ask_as("", "POST", f"{one}/confirm", **paying).json()["status"] == "succeeded"
    basic = urllib3.make_headers(basic_auth=f"{KEY}:")["authorization"]
    assert ask_as(basic, "GET", one).json()["status"] == "succeeded"


@pytest.mark.parametrize(
    ("form", "actions", "told"),
    [
        ({}, [], ["created needs_response", "funds_withdrawn needs_response"]),
        ({}, ["submit", "win"], ["updated under_review", "closed won", "funds_reinstated won"]),
        ({"amount": 500}, ["lose"], ["closed lost"]),
        ({"inquiry": "true"}, ["submit", "close"], ["updated warning_under_review", "closed warning_closed"]),
        ({"inquiry": "true"}, ["escalate"], ["updated needs_response", "funds_withdrawn needs_response"]),
    ],
)
def test_a_dispute_is_reported_as_stripe_does(form: dict[str, Any], actions: list[str], told: list[str]) -> None:
    reported: list[str] = []
    account = new_account()
    account.report = lambda kind, about, key: reported.append(f"{kind} {about['status']}")
    ask(account, "POST", "payment_intents", {**STARTED, "confirm": "true"})
    dispute = ask(account, "POST", "../test/payments/pi_1/disputes", form)
    for action in actions:
        dispute = ask(account, "POST", f"../test/disputes/dp_1/{action}")
    assert [event.removeprefix("charge.dispute.") for event in reported[-len(told) :]] == told
    moved = sum(one["net"] for one in dispute["balance_transactions"])
    assert moved == (0 if "close" in actions else -1500 if "win" in actions else -1500 - form.get("amount", 2500))
    assert account.remaining_amount(account.payments["pi_1"]) == (2000 if "lose" in actions else 2500)


def test_a_dispute_changes_only_as_a_bank_can_change_it() -> None:
    account = new_account()
    ask(account, "POST", "payment_intents", STARTED)
    disputes = "../test/payments/pi_1/disputes"
    assert "succeeded" in ask(account, "POST", disputes)["message"]
    ask(account, "POST", "payment_intents/pi_1/confirm", {"payment_method": "pm_card_visa"})
    assert "amount" in ask(account, "POST", disputes, {"amount": 2501})["message"]
    assert ask(account, "POST", disputes, {"reason": "bored"})["param"] == "reason"
    assert ask(account, "POST", disputes)["is_charge_refundable"] is False
    assert [one["actions"] for one in ask(account, "GET", disputes)["data"]] == [["submit", "win", "lose"]]
    ask(account, "POST", "../test/disputes/dp_1/submit")
    assert [one["actions"] for one in ask(account, "GET", disputes)["data"]] == [["win", "lose"]]
    assert ask(account, "POST", "refunds", {"payment_intent": "pi_1"})["code"] == "charge_disputed"
    for action in ("submit", "escalate", "close"):
        assert "is under_review" in ask(account, "POST", f"../test/disputes/dp_1/{action}")["message"]
    assert ask(account, "POST", "../test/disputes/dp_2/win")["code"] == "resource_missing"


def test_a_refund_in_the_dashboard_bears_no_id_of_the_shop() -> None:
    account = new_account()
    ask(account, "POST", "payment_intents", {**STARTED, "confirm": "true"})
    refunds = "../test/payments/pi_1/refunds"
    part = ask(account, "POST", refunds, {"amount": 500, "reason": "duplicate"})
    assert (part["amount"], part["metadata"], part["reason"]) == (500, {}, "duplicate")
    account.refunds["re_0"] = {**account.refunds.pop("re_1"), "id": "re_0"}
    assert ask(account, "POST", refunds)["amount"] == 2000


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("late", ["created", "funds_withdrawn"]),
        ("twice", ["created", "created", "funds_withdrawn", "funds_withdrawn"]),
        ("out_of_order", ["funds_withdrawn", "created"]),
    ],
)
def test_events_come_late_twice_or_out_of_order(
    provider: RecordingProvider, monkeypatch: pytest.MonkeyPatch, mode: str, told: list[str]
) -> None:
    monkeypatch.setattr(payment_provider, "LATE_SECONDS", 1.0)
    payment_id = paid(provider)
    provider.told(1)

    def post(path: str, form: bytes = b"") -> int:
        return provider.answer("POST", f"/test/{path}", {"Authorization": f"Bearer {KEY}"}, form).status

    assert post("delivery", b"mode=never") == 400
    assert post("delivery", f"mode={mode}".encode()) == post(f"payments/{payment_id}/disputes") == 200
    opened = time.monotonic()
    provider.told(1 + len(told))
    assert mode != "late" or time.monotonic() > opened + 0.5
    heard = [event.type.removeprefix("charge.dispute.") for event in provider.events(0)[1:]]
    assert (heard if mode == "out_of_order" else sorted(heard)) == told


# Stripe's client -----------------------------------------------------------------------------------------------------
def test_the_account_plays_the_api_version_of_the_client() -> None:
    assert stripe.api_version == API_VERSION


def test_a_payment_is_started_found_declined_paid_and_refunded(checked: RecordingProvider) -> None:
    payments = checked.client.v1.payment_intents
    started = checked.start_payment(automatic_payment_methods={"enabled": True})
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
    refunds = checked.client.v1.refunds
    made = refunds.create(
        {"payment_intent": started.id, "amount": 500, "reason": "requested_by_customer", "metadata": {"refund_id": "r"}}
    )
    assert (made.status, made.reason) == ("succeeded", "requested_by_customer")
    assert [one.id for one in refunds.list({"payment_intent": started.id, "limit": 100}).data] == [made.id]
    types = sorted(event.type for event in checked.events(3))
    assert types == ["payment_intent.payment_failed", "payment_intent.succeeded", "refund.created"]


def test_a_payment_is_cancelled_once(checked: RecordingProvider) -> None:
    payments, started = checked.client.v1.payment_intents, checked.start_payment()
    cancelled = payments.cancel(started.id, {"cancellation_reason": "abandoned"})
    assert (cancelled.status, cancelled.cancellation_reason) == ("canceled", "abandoned")
    for ask in (payments.cancel, payments.confirm):
        with pytest.raises(stripe.InvalidRequestError) as refusal:
            ask(started.id)
        assert refusal.value.code == "payment_intent_unexpected_state"
    assert [event.type for event in checked.events(1)] == ["payment_intent.canceled"]


def test_disputes_and_dashboard_refunds_are_events_of_the_client(checked: RecordingProvider) -> None:
    payment = checked.start_payment(confirm=True).id
    checked.play(f"payments/{payment}/refunds", amount=500)
    inquiry = checked.play(f"payments/{payment}/disputes", amount=1000, inquiry="true")
    for action in ("submit", "escalate", "win"):
        checked.play(f"disputes/{inquiry}/{action}")
    disputes = [event for event in checked.events(8) if event.type.startswith("charge.dispute.")]
    assert sorted(event.type.removeprefix("charge.dispute.") for event in disputes) == [
        "closed",
        "created",
        "funds_reinstated",
        "funds_withdrawn",
        "updated",
        "updated",
    ]
    assert {event.data.object["status"] for event in disputes if event.type.endswith("closed")} == {"won"}


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
