"""Tests the laptop's payment provider: its answers, its events, and its state after a restart."""

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import urllib3

from functions.adapters.payment_provider import HttpPaymentProvider
from functions.shop.payment_provider import ProviderRefundState, ProviderRejected
from local.laptop import payment_provider
from local.laptop.http_server import HttpResponse, LoopbackServer
from local.laptop.payment_provider import PaymentProviderServer
from local.world.stripe_account import StripeAccount, StripeError

KEY, SECRET = "sk_test", "whsec_test"
OURS = {"order_id": "o1", "refund_id": "pi-1", "attempt": "1"}


class Listener:
    """Receives webhooks as the shop does. `heard`: each event, and whether its signature is valid."""

    def __init__(self) -> None:
        self.heard: list[tuple[dict[str, Any], bool]] = []
        self.server = LoopbackServer(self, 0)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, _method: str, _target: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        parts = dict(part.split("=") for part in headers["Stripe-Signature"].split(","))
        right = hmac.new(SECRET.encode(), f"{parts['t']}.".encode() + body, hashlib.sha256).hexdigest()
        self.heard.append((json.loads(body), parts["v1"] == right))
        return HttpResponse("")

    def told(self, count: int) -> list[tuple[str, str]]:
        """Wait for this number of events. Return the type of each event and the status of its object."""
        give_up = time.monotonic() + 10
        while len(self.heard) < count and time.monotonic() < give_up:
            time.sleep(0.01)
        assert all(signed for _, signed in self.heard)
        return sorted((event["type"], event["data"]["object"]["status"]) for event, _ in self.heard)

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    listening = Listener()
    yield listening
    listening.stop()


@pytest.fixture
def start(tmp_path: Path, listener: Listener) -> Iterator[Callable[[], PaymentProviderServer]]:
    """Return a function that starts the provider with its stored state."""
    started: list[PaymentProviderServer] = []

    def begin() -> PaymentProviderServer:
        if started:
            started.pop().stop()
        started.append(PaymentProviderServer(tmp_path, 0, listener.url, lambda: SECRET, lambda: KEY).start())
        return started[0]

    yield begin
    started.pop().stop()


@pytest.fixture
def provider(start: Callable[[], PaymentProviderServer]) -> PaymentProviderServer:
    return start()


def paid(provider: PaymentProviderServer, amount: int = 2500, **more: str) -> str:
    """Make a payment of this amount and confirm it. Return its id."""
    form = {"amount": str(amount), "currency": "EUR", "metadata[order_id]": "o1", "confirm": "true", **more}
    address = f"{provider.url}/v1/payment_intents"
    answer = urllib3.PoolManager().request_encode_body("POST", address, fields=form, encode_multipart=False)
    declined = more.get("payment_method") == "pm_card_chargeDeclined"
    assert answer.status == (402 if declined else 200), answer.data
    return str((answer.json()["error"]["payment_intent"] if declined else answer.json())["id"])


def new_account(now: Callable[[], float] = time.time) -> StripeAccount:
    return StripeAccount(now=now, new_id=lambda prefix, about: f"{prefix}_1")


def give(
    provider: PaymentProviderServer, payment_id: str, amount: int = 1000, key: str = "pi-1-1"
) -> ProviderRefundState:
    """Refund a payment as the refund function does."""
    return HttpPaymentProvider(provider.url, KEY).refund(key=key, payment_id=payment_id, amount=amount, metadata=OURS)


def test_a_refund_is_paid_once_for_each_key_and_sends_an_event(
    provider: PaymentProviderServer, listener: Listener
) -> None:
    payment_id = paid(provider)
    first, again = give(provider, payment_id), give(provider, payment_id)
    assert first == again
    assert (first.status, first.metadata) == ("succeeded", OURS)
    other = give(provider, payment_id, key="pi-2-1")
    assert HttpPaymentProvider(provider.url, KEY).refunds_of(payment_id) == [other, first]
    assert HttpPaymentProvider(provider.url, KEY).refunds_of("pi_other") == []
    assert listener.told(3)[1:] == [("refund.created", "succeeded")] * 2


def test_a_refund_above_the_paid_amount_is_rejected(provider: PaymentProviderServer) -> None:
    payment_id = paid(provider)
    give(provider, payment_id, 2000)
    with pytest.raises(ProviderRejected) as refusal:
        give(provider, payment_id, 501, "pi-2-1")
    assert refusal.value.code == "invalid_request_error"
    give(provider, payment_id, 500, "pi-3-1")
    with pytest.raises(ProviderRejected) as refusal:
        give(provider, payment_id, 1, "pi-4-1")
    assert refusal.value.code == "charge_already_refunded"


@pytest.mark.parametrize(
    ("payment", "amount", "code"),
    [
        ("pi_other", 1, "resource_missing"),
        ("declined", 1, "payment_intent_invalid"),
        ("", 0, "parameter_invalid_integer"),
    ],
)
def test_a_malformed_request_is_rejected_in_stripes_format(
    provider: PaymentProviderServer, payment: str, amount: int, code: str
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
    provider: PaymentProviderServer, listener: Listener, method: str, answered: str, told: list[tuple[str, str]]
) -> None:
    payment_id = paid(provider, payment_method=method)
    assert give(provider, payment_id).status == answered
    assert listener.told(3)[1:] == told
    (refund,) = HttpPaymentProvider(provider.url, KEY).refunds_of(payment_id)
    assert refund.status == told[-1][1]


def test_the_provider_keeps_its_state_over_a_restart(
    start: Callable[[], PaymentProviderServer], listener: Listener
) -> None:
    before = start()
    payment_id = paid(before)
    given = give(before, payment_id, 2000)
    listener.told(2)
    after = start()
    assert HttpPaymentProvider(after.url, KEY).refunds_of(payment_id) == [given]
    assert give(after, payment_id, 2000) == given, "the provider still knows the key"
    with pytest.raises(ProviderRejected):
        give(after, payment_id, 501, "pi-2-1")
    assert len(listener.told(2)) == 2, "accepted events are not repeated"


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


def test_only_the_api_key_or_a_client_secret_opens_a_payment(provider: PaymentProviderServer) -> None:
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


def test_a_started_payment_and_a_declined_confirmation_are_kept_over_a_restart(
    start: Callable[[], PaymentProviderServer], listener: Listener
) -> None:
    def ask_provider(provider: PaymentProviderServer, path: str, key: str, **form: str) -> Any:
        headers = {"Authorization": f"Bearer {KEY}", "Idempotency-Key": key}
        return provider.answer("POST", f"/v1/payment_intents{path}", headers, urlencode(form).encode()).body

    started = ask_provider(before := start(), "", "start", **{name: str(value) for name, value in STARTED.items()})
    paying = {"payment_method": "pm_card_chargeDeclined"}
    declined = ask_provider(before, f"/{started['id']}/confirm", "confirm", **paying)
    listener.told(1)
    after = start()
    assert ask_provider(after, "", "start", **{name: str(value) for name, value in STARTED.items()}) == started
    assert ask_provider(after, f"/{started['id']}/confirm", "confirm", **paying) == declined
    assert listener.told(1) == [("payment_intent.payment_failed", "requires_payment_method")]


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
    provider: PaymentProviderServer, listener: Listener, monkeypatch: pytest.MonkeyPatch, mode: str, told: list[str]
) -> None:
    monkeypatch.setattr(payment_provider, "LATE_SECONDS", 1.0)
    payment_id = paid(provider)
    listener.told(1)

    def post(path: str, form: bytes = b"") -> int:
        return provider.answer("POST", f"/test/{path}", {"Authorization": f"Bearer {KEY}"}, form).status

    assert post("delivery", b"mode=never") == 400
    assert post("delivery", f"mode={mode}".encode()) == post(f"payments/{payment_id}/disputes") == 200
    opened = time.monotonic()
    listener.told(1 + len(told))
    assert mode != "late" or time.monotonic() > opened + 0.5
    heard = [event["type"].removeprefix("charge.dispute.") for event, _ in listener.heard[1:]]
    assert (heard if mode == "out_of_order" else sorted(heard)) == told


def test_no_page_of_another_origin_can_pay(provider: PaymentProviderServer) -> None:
    url, body = f"{provider.url}/v1/payment_intents", b"amount=100&currency=eur&metadata[order_id]=o1&confirm=true"
    answer = urllib3.request("POST", url, body=body, headers={"Origin": "https://evil.test"})
    assert (answer.status, answer.json()["title"]) == (403, "Forbidden")
    assert urllib3.request("POST", url, body=body).status == 200


def test_an_unsupported_method_gets_a_problem_document(provider: PaymentProviderServer) -> None:
    for method in ("OPTIONS", "TRACE", "BREW"):
        answer = urllib3.request(method, f"{provider.url}/v1/payment_intents")
        assert (answer.status, answer.json()["title"]) == (405, "Method Not Allowed")
    head = urllib3.request("HEAD", f"{provider.url}/v1/payment_intents")
    assert (head.status, head.data) == (405, b"")
    deleted = urllib3.request("DELETE", f"{provider.url}/v1/refunds", headers={"Authorization": f"Bearer {KEY}"})
    assert deleted.status == 405
