"""Simulates a payment provider with Stripe's API: it takes payments, sends signed webhooks, and makes refunds.

    curl -d amount=2500 -d currency=eur -d "metadata[order_id]=ORDER" http://127.0.0.1:PORT/v1/payment_intents

The field `payment_method` selects the outcome. Its values are the names of Stripe's test cards:

- `pm_card_chargeDeclined`: the payment fails.
- `pm_card_pendingRefund`: a refund is pending first, and then succeeds.
- `pm_card_refundFail`: a refund succeeds first, and then fails.

The provider writes each event to disk before it responds. It then sends the event as a webhook, and retries until the
shop accepts the event, also after a kill. (Stripe stops retrying after some days.)

Sources: Stripe's API reference, "PaymentIntents", "Refunds" and "Check the webhook signatures"; "Testing".
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import urllib3

from local.laptop.http_server import HttpResponse, LoopbackServer
from local.laptop.state_checks import DamagedState

RETRY_SECONDS, MAX_RETRY_SECONDS = 0.5, 600.0
MAX_SENDERS = 4
DECLINED, PENDING_REFUND, FAILING_REFUND = "pm_card_chargeDeclined", "pm_card_pendingRefund", "pm_card_refundFail"

SLOW_FILE = "slow"
"""The name of the file with the seconds by which a chaos switch delays each answer of the provider."""
MAX_DELAY_SECONDS = 60.0

PAYMENT_METHODS = {
    "pm_card_visa": "a card that succeeds",
    DECLINED: "a card that is declined",
    PENDING_REFUND: "a card whose refunds are pending at first",
    FAILING_REFUND: "a card whose refunds fail later",
}
"""The names of Stripe's test cards, each with the description that the shop's web page shows."""

StripeObject = dict[str, Any]


class StripeError(Exception):
    """An error response in Stripe's shape: https://docs.stripe.com/api/errors"""

    def __init__(self, status: int, message: str, type: str = "invalid_request_error", **more: str) -> None:  # noqa: A002
        super().__init__(message)
        self.status, self.error = status, {"type": type, "message": message, **more}


def stripe_signature_header(secret: str, payload: str, at: int) -> str:
    """Return the Stripe-Signature header for a webhook payload. `at` is the time of sending in epoch seconds."""
    digest = hmac.new(secret.encode(), f"{at}.{payload}".encode(), hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


class PaymentProviderServer:
    """The payment provider, as an HTTP server on 127.0.0.1.

    `directory`: the folder of the file with all events. At each start, the provider rebuilds its state from the events.
    `webhook_url`: the URL of the shop's API to which the provider sends its events.
    `secret`: returns the secret that signs webhooks.
    `key`: returns the API key. Only callers with this key may make or list refunds.

    Raises DamagedState if the events cannot be read or are incomplete.
    """

    def __init__(
        self, directory: Path, port: int, webhook_url: str, secret: Callable[[], str], key: Callable[[], str]
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._events_file, self._delivered_file = directory / "events.jsonl", directory / "taken.jsonl"
        self._slow_file = directory / SLOW_FILE
        self._slow_file.unlink(missing_ok=True)
        self._webhook_url, self._secret, self._key = webhook_url, secret, key
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._pool = urllib3.PoolManager(maxsize=8, retries=False, timeout=30)
        taken = {line for line in _read_json_lines(self._delivered_file, required=False) if isinstance(line, str)}
        self._intents: dict[str, StripeObject] = {}
        self._refunds: dict[str, StripeObject] = {}
        self._by_idempotency_key: dict[str, StripeObject] = {}
        self._backoff: dict[str, tuple[float, float]] = {}
        self._undelivered: list[StripeObject] = []
        for number, event in enumerate(_read_json_lines(self._events_file, required=True), 1):
            try:
                self._apply_event(event)
                is_taken = event["id"] in taken
            except (LookupError, TypeError):
                raise DamagedState(self._events_file, f"has no valid event in line {number}") from None
            if not is_taken:
                self._undelivered.append(event)
            taken.discard(event["id"])
        if taken:
            raise DamagedState(self._events_file, "does not contain all payments of this shop")
        self._server = LoopbackServer(self, port)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._threads = [
            threading.Thread(target=self._server.serve_forever, args=(0.1,), name="provider", daemon=True),
            threading.Thread(target=self._deliver_events, name="provider webhooks", daemon=True),
        ]

    def start(self) -> PaymentProviderServer:
        for thread in self._threads:
            thread.start()
        return self

    def stop(self) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join()

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """Return the response to a request: a Stripe object or an error in Stripe's shape."""
        self._stopping.wait(read_delay(self._slow_file))
        try:
            return HttpResponse(self._route(method, target, headers, body))
        except StripeError as rejection:
            return HttpResponse({"error": rejection.error}, rejection.status)

    def _route(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> StripeObject:
        path, _, query = target.partition("?")
        form, key = _parse_form(body), headers.get("Idempotency-Key")
        if (method, path) == ("POST", "/v1/payment_intents"):
            return self.create_payment_intent(form, key)
        if path != "/v1/refunds":
            raise StripeError(404, "Use POST /v1/payment_intents, POST /v1/refunds or GET /v1/refunds.")
        if not hmac.compare_digest(headers.get("Authorization", "").encode(), f"Bearer {self._key()}".encode()):
            raise StripeError(401, "Invalid API key.")
        if method not in ("GET", "POST"):
            raise StripeError(405, "Use POST /v1/refunds or GET /v1/refunds.")
        return (
            self.create_refund(form, key)
            if method == "POST"
            else self.list_refunds(dict(urllib.parse.parse_qsl(query)))
        )

    def create_payment_intent(self, form: dict[str, str], idempotency_key: str | None) -> StripeObject:
        """Create and return a payment intent, which succeeds or fails at once. Raises StripeError.

        A second call with the same idempotency key and amount returns the first payment intent.
        """
        with self._lock:
            if known := self._by_idempotency_key.get(idempotency_key or ""):
                if known["object"] != "payment_intent" or known["amount"] != _parse_amount(form):
                    raise StripeError(400, "This idempotency key was used with other parameters.", "idempotency_error")
                return known
            method = form.get("payment_method", "pm_card_visa")
            intent = {
                "id": f"pi_{uuid.uuid4().hex}",
                "object": "payment_intent",
                "amount": _parse_amount(form),
                "currency": form.get("currency", "").lower(),
                "metadata": _parse_metadata(form),
                "payment_method": method,
                "status": "requires_payment_method" if method == DECLINED else "succeeded",
            }
            named = re.fullmatch(r"[\x20-\x7e]{1,500}", _parse_metadata(form).get("order_id", ""))
            if not re.fullmatch("[a-z]{3}", str(intent["currency"])) or not named:
                raise StripeError(400, "Send amount (in minor units), currency and metadata[order_id].")
            if method == DECLINED:
                intent["last_payment_error"] = {"code": "card_declined"}
            happened = "payment_failed" if method == DECLINED else "succeeded"
            self._record_event(f"payment_intent.{happened}", intent, idempotency_key)
            return intent

    def create_refund(self, form: dict[str, str], idempotency_key: str | None) -> StripeObject:
        """Refund a payment and return the refund. Raises StripeError.

        Without an `amount`, the provider refunds the whole remaining amount of the payment. A second call with the same
        idempotency key and the same fields returns the first refund.
        """
        with self._lock:
            asked: StripeObject = {"payment_intent": form.get("payment_intent"), "metadata": _parse_metadata(form)}
            asked |= {"amount": _parse_amount(form)} if "amount" in form else {}
            if known := self._by_idempotency_key.get(idempotency_key or ""):
                if any(known.get(name) != value for name, value in asked.items()):
                    raise StripeError(400, "This idempotency key was used with other parameters.", "idempotency_error")
                return known
            payment_id = form.get("payment_intent", "")
            intent = self._intents.get(payment_id) or _seeded_payment(payment_id)
            if intent is None:
                raise StripeError(404, "No such payment_intent.", code="resource_missing", param="payment_intent")
            left = intent["amount"] - sum(
                one["amount"] for one in self._refunds_of(intent["id"]) if one["status"] != "failed"
            )
            if intent["status"] != "succeeded" or not left:
                code = "charge_already_refunded" if intent["status"] == "succeeded" else "payment_intent_invalid"
                raise StripeError(400, "Nothing is left to refund.", code=code)
            if asked.setdefault("amount", left) > left:
                raise StripeError(400, "The amount is greater than the remaining amount.", param="amount")
            refund = {"id": f"re_{uuid.uuid4().hex}", "object": "refund", "currency": intent["currency"], **asked}
            pending = intent.get("payment_method") == PENDING_REFUND
            first = {**refund, "status": "pending" if pending else "succeeded"}
            self._record_event("refund.created", first, idempotency_key)
            if pending:
                self._record_event("refund.updated", {**refund, "status": "succeeded"})
            if intent.get("payment_method") == FAILING_REFUND:
                failed = {"status": "failed", "failure_reason": "expired_or_canceled_card"}
                self._record_event("refund.failed", {**refund, **failed})
            return first

    def list_refunds(self, asked: dict[str, str]) -> StripeObject:
        """Return the refunds of a payment as a Stripe list object, newest first."""
        with self._lock:
            found = self._refunds_of(asked.get("payment_intent", ""))[::-1]
        return {"object": "list", "url": "/v1/refunds", "has_more": False, "data": found}

    def _refunds_of(self, payment_id: str) -> list[StripeObject]:
        return [refund for refund in self._refunds.values() if refund["payment_intent"] == payment_id]

    def _record_event(self, kind: str, about: StripeObject, idempotency_key: str | None = None) -> None:
        """Write an event to disk, apply it to the state, and queue it for delivery to the webhook."""
        event = {
            "id": f"evt_{uuid.uuid4().hex}",
            "object": "event",
            "type": kind,
            "created": int(time.time()),
            "data": {"object": about},
            "request": {"idempotency_key": idempotency_key},
        }
        with self._events_file.open("a") as file:
            file.write(json.dumps(event) + "\n")
        self._apply_event(event)
        self._undelivered.append(event)

    def _apply_event(self, event: StripeObject) -> None:
        about = event["data"]["object"]
        (self._refunds if about["object"] == "refund" else self._intents)[about["id"]] = about
        if key := event["request"]["idempotency_key"]:
            self._by_idempotency_key[key] = about

    def _deliver_events(self) -> None:
        while not self._stopping.is_set():
            with self._lock:
                now = time.monotonic()
                waiting = [event for event in self._undelivered if self._backoff.get(event["id"], (now, 0))[0] <= now]
            with ThreadPoolExecutor(MAX_SENDERS) as senders:
                taken = [
                    event
                    for event, done in zip(waiting, senders.map(self._deliver_event, waiting), strict=True)
                    if done
                ]
            # Ignore an OSError: the next start sends the events again, and the shop ignores duplicates.
            with self._lock, suppress(OSError), self._delivered_file.open("a") as file:
                for event in taken:
                    file.write(json.dumps(event["id"]) + "\n")
                    self._undelivered.remove(event)
            self._stopping.wait(0.02 if len(taken) == len(waiting) else RETRY_SECONDS)

    def _deliver_event(self, event: StripeObject) -> bool:
        payload = json.dumps(event)
        try:
            headers = {
                "Content-Type": "application/json",
                "Stripe-Signature": stripe_signature_header(self._secret(), payload, int(time.time())),
            }
            answer = self._pool.request("POST", self._webhook_url, body=payload, headers=headers)
        except Exception:  # noqa: BLE001  after any error, the event is sent again
            return False
        if 400 <= answer.status < 500:  # the shop rejected the event: back off exponentially, as Stripe does
            _, pause = self._backoff.get(event["id"], (0.0, RETRY_SECONDS))
            self._backoff[event["id"]] = (time.monotonic() + pause, min(2 * pause, MAX_RETRY_SECONDS))
        return answer.status < 300


def read_delay(file: Path) -> float:
    """Return the seconds in SLOW_FILE, at most MAX_DELAY_SECONDS, or 0 if the file does not exist."""
    try:
        return min(float(file.read_text()), MAX_DELAY_SECONDS)
    except (OSError, ValueError):
        return 0.0


def _seeded_payment(payment_id: str) -> StripeObject | None:
    """Return a payment that `make fill` invented. Its id contains its amount and currency."""
    found = re.fullmatch("pi_seed_([0-9]{1,12})_([a-z]{3})_[0-9a-f]+", payment_id)
    if found is None:
        return None
    return {"id": payment_id, "amount": int(found[1]), "currency": found[2], "status": "succeeded"}


def _parse_amount(form: dict[str, str]) -> int:
    """Return the amount in a form, a positive number of minor units such as cents. Raises StripeError."""
    amount = form.get("amount", "")
    if not re.fullmatch("[0-9]{1,12}", amount) or not int(amount):
        raise StripeError(
            400,
            "amount must be a positive whole number of minor units.",
            code="parameter_invalid_integer",
            param="amount",
        )
    return int(amount)


def _parse_form(body: bytes) -> dict[str, str]:
    """Return the fields of a form-encoded body. Raises StripeError if the body cannot be decoded."""
    try:
        return dict(urllib.parse.parse_qsl(body.decode(), errors="strict"))
    except ValueError:
        raise StripeError(400, "Send a form-encoded body in UTF-8, as curl -d does.") from None


def _parse_metadata(form: dict[str, str]) -> dict[str, str]:
    inside = {name.removeprefix("metadata["): value for name, value in form.items() if name.startswith("metadata[")}
    return {name.removesuffix("]"): value for name, value in inside.items()}


def _read_json_lines(file: Path, *, required: bool) -> list[Any]:
    """Return the decoded lines of a JSON Lines file, or [] if the file does not exist.

    Removes an incomplete last line, which a kill can leave, from the file. `required`: whether to raise DamagedState
    for any other line that is not JSON. If False, the line is skipped.
    """
    *lines, last = file.read_bytes().split(b"\n") if file.exists() else [b""]
    if last:
        with file.open("r+b") as cut:
            cut.truncate(file.stat().st_size - len(last))
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError):
            if required:
                raise DamagedState(file, f"cannot be read in line {number}") from None
    return found
