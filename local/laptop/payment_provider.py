"""Simulates a payment provider with Stripe's API: it takes payments, sends signed webhooks, and makes refunds.

    curl -d amount=2500 -d currency=eur -d "metadata[order_id]=ORDER" -d confirm=true http://127.0.0.1:PORT/v1/payment_intents

Without `confirm=true`, the payment waits until it is confirmed, with its client secret or the API key. The field
`payment_method` selects the outcome. Its values are the names of Stripe's test cards:

- `pm_card_chargeDeclined`: the payment fails.
- `pm_card_pendingRefund`: a refund is pending first, and then succeeds.
- `pm_card_refundFail`: a refund succeeds first, and then fails.

The paths under /test play what happens outside the shop's requests (local/world/stripe_account.py). In addition,
`POST /test/delivery` with a `mode` of DELIVERY_MODES makes the provider send its events late, twice or out of order.

The provider writes each event to disk before it responds. It then sends the event as a webhook, and retries until the
shop accepts the event, also after a kill. (Stripe stops retrying after some days.)

Sources: Stripe's API reference, "PaymentIntents", "Refunds" and "Check the webhook signatures"; "Testing".
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import urllib3

from local.laptop.http_server import HttpResponse, LoopbackServer
from local.laptop.state_checks import DamagedState
from local.world.stripe_account import (
    CREATED,
    DECLINED,
    FAILING_REFUND,
    PENDING_REFUND,
    VISA,
    StripeAccount,
    StripeError,
    StripeObject,
    sign_webhook,
    stripe_event,
    stripe_payment,
)

RETRY_SECONDS, MAX_RETRY_SECONDS = 0.5, 600.0
MAX_SENDERS = 4

DELIVERY_MODES = ("in_time", "late", "twice", "out_of_order")
"""How `POST /test/delivery` can make the provider send its events from now on."""
LATE_SECONDS = 10.0
"""How long a late event waits. Out of order, each second event overtakes the event before it, which waits as long."""
DELIVERY_FILE = "delivery"
"""The name of the file with the current mode of DELIVERY_MODES, for the shop's web page."""

SLOW_FILE = "slow"
"""The name of the file with the seconds by which a chaos switch delays each answer of the provider."""
MAX_DELAY_SECONDS = 60.0

PAYMENT_METHODS = {
    VISA: "a card that succeeds",
    DECLINED: "a card that is declined",
    PENDING_REFUND: "a card whose refunds are pending at first",
    FAILING_REFUND: "a card whose refunds fail later",
}
"""The names of Stripe's test cards, each with the description that the shop's web page shows."""


class PaymentProviderServer:
    """The payment provider, as an HTTP server on 127.0.0.1. Raises DamagedState if its events cannot be read.

    `directory`: has all events, from which each start rebuilds the state. `webhook_url`: gets the events. `secret`:
    returns the secret that signs webhooks. `key`: returns the API key, for all requests. The client secret of a payment
    lets a browser read and confirm that payment. Everybody may make a payment with `confirm=true`, and use /test:
    unlike Stripe, so that the tutorial and the web page need no key.
    """

    def __init__(
        self, directory: Path, port: int, webhook_url: str, secret: Callable[[], str], key: Callable[[], str]
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._events_file, self._delivered_file = directory / "events.jsonl", directory / "taken.jsonl"
        self._slow_file = directory / SLOW_FILE
        self._mode_file = directory / DELIVERY_FILE
        for file in (self._slow_file, self._mode_file):
            file.unlink(missing_ok=True)
        self._webhook_url, self._secret, self._key = webhook_url, secret, key
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._pool = urllib3.PoolManager(maxsize=8, retries=False, timeout=30)
        taken = {line for line in _read_json_lines(self._delivered_file, required=False) if isinstance(line, str)}
        self._account = StripeAccount(
            now=time.time,
            new_id=lambda prefix, _: f"{prefix}_{uuid.uuid4().hex}",
            report=self._record_event,
            find_payment=_find_seeded_payment,
        )
        self._backoff: dict[str, tuple[float, float]] = {}
        self._undelivered: list[StripeObject] = []
        self._delivery_mode, self._overtakes = DELIVERY_MODES[0], True
        for number, event in enumerate(_read_json_lines(self._events_file, required=True), 1):
            try:
                self._account.apply_event(event)
                is_taken = event["id"] in taken
            except (LookupError, TypeError):
                raise DamagedState(self._events_file, f"has no valid event in line {number}") from None
            if not is_taken and event["type"] != CREATED:
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
        """Return the response to a request: a Stripe object or an error in Stripe's format."""
        self._stopping.wait(read_delay(self._slow_file))
        if not self._is_allowed(method, target, headers.get("Authorization", ""), body):
            return HttpResponse(StripeError(401, "Send the API key, as curl -u KEY: does.").body, 401)
        with self._lock:
            if (method, target) == ("POST", "/test/delivery"):
                return self._set_delivery_mode(parse_qs(body.decode(errors="replace")).get("mode", [""])[0])
            status, content = self._account.answer(method, target, headers, body)
        return HttpResponse(content, status)

    def _set_delivery_mode(self, mode: str) -> HttpResponse:
        if mode not in DELIVERY_MODES:
            why = f"mode must be one of {', '.join(DELIVERY_MODES)}."
            return HttpResponse(StripeError(400, why, param="mode").body, 400)
        self._delivery_mode, self._overtakes = mode, True
        self._mode_file.write_text(mode)
        return HttpResponse({"mode": mode})

    def _is_allowed(self, method: str, target: str, authorization: str, body: bytes) -> bool:
        if target.startswith("/test/"):
            return True
        key = self._key()
        basic = base64.b64encode(f"{key}:".encode()).decode()
        if any(_is_equal(authorization, expected) for expected in (f"Bearer {key}", f"Basic {basic}")):
            return True
        path, _, query = target.partition("?")
        form = parse_qs(query if method == "GET" else body.decode(errors="replace"))
        if (method, path) == ("POST", "/v1/payment_intents"):
            return form.get("confirm") == ["true"]
        asked = re.fullmatch(
            "GET /v1/payment_intents/([^/]+)|POST /v1/payment_intents/([^/]+)/confirm", f"{method} {path}"
        )
        payment = self._account.payments.get(asked[1] or asked[2]) if asked else None
        return payment is not None and _is_equal(form.get("client_secret", [""])[0], payment["client_secret"])

    def _record_event(self, kind: str, about: StripeObject, key: str | None) -> None:
        """Write an event to disk, and queue it for delivery to the webhook."""
        event = stripe_event(f"evt_{uuid.uuid4().hex}", kind, about, time.time(), key)
        with self._events_file.open("a") as file:
            file.write(json.dumps(event) + "\n")
        if kind == CREATED:
            return
        self._undelivered += [event] * (2 if self._delivery_mode == "twice" else 1)
        self._overtakes = not self._overtakes
        if self._delivery_mode == "late" or (self._delivery_mode == "out_of_order" and not self._overtakes):
            self._backoff[event["id"]] = (time.monotonic() + LATE_SECONDS, RETRY_SECONDS)

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
                "Stripe-Signature": sign_webhook(self._secret(), payload, time.time()),
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


def _find_seeded_payment(payment_id: str) -> StripeObject | None:
    """Return a payment that `make fill` invented. Its id contains its amount and currency."""
    found = re.fullmatch("pi_seed_([0-9]{1,12})_([a-z]{3})_[0-9a-f]+", payment_id)
    if found is None:
        return None
    return stripe_payment(
        id=payment_id, amount=int(found[1]), currency=found[2], status="succeeded", metadata={}, created=0
    )


def _is_equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def _read_json_lines(file: Path, *, required: bool) -> list[Any]:
    """Return the lines of a JSON Lines file, without an incomplete last line, which a kill can leave.

    `required`: whether to raise DamagedState for any other line that is not JSON, instead of skipping it.
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
