"""A payment provider that answers, in Stripe's shapes: a payment intent comes in, a signed webhook goes out.

    curl -d amount=2500 -d currency=eur -d "metadata[order_id]=ORDER" http://127.0.0.1:PORT/v1/payment_intents

`-d payment_method=pm_card_chargeDeclined` makes the payment fail. Events are written down before the answer and sent
until the shop takes them, over a kill too, as a real provider does for days.
Source: Stripe's API reference, "PaymentIntents" and "Check the webhook signatures".
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import urllib3

RETRY_SECONDS = 0.5
SENDERS = 4


def signature(secret: str, payload: str, at: int) -> str:
    """The Stripe-Signature header of a payload sent at that epoch second."""
    digest = hmac.new(secret.encode(), f"{at}.{payload}".encode(), hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


class Provider:
    """Takes payments on the loopback interface. `secret()` is what it signs with; `directory` keeps its events."""

    def __init__(self, directory: Path, port: int, webhook_url: str, secret: Callable[[], str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._made, self._taken = directory / "events.jsonl", directory / "taken.jsonl"
        self._webhook_url, self._secret = webhook_url, secret
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._pool = urllib3.PoolManager(maxsize=8, retries=False, timeout=30)
        taken = set(_lines(self._taken))
        self._intents: dict[str, dict[str, Any]] = {}
        self._waiting: list[dict[str, Any]] = []
        for event in _lines(self._made):
            self._remember(event)
            if event["id"] not in taken:
                self._waiting.append(event)
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._threads = [
            threading.Thread(target=self._server.serve_forever, name="provider", daemon=True),
            threading.Thread(target=self._send_all, name="provider webhooks", daemon=True),
        ]

    def start(self) -> Provider:
        for thread in self._threads:
            thread.start()
        return self

    def stop(self) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join()

    def pay(self, form: dict[str, str], idempotency_key: str | None) -> dict[str, Any]:
        """Make a payment intent that succeeds or fails at once; the same key gives the same intent."""
        with self._lock:
            if idempotency_key in self._intents:
                return self._intents[idempotency_key]
            failed = form.get("payment_method") == "pm_card_chargeDeclined"
            intent = {
                "id": f"pi_{uuid.uuid4().hex}",
                "object": "payment_intent",
                "amount": int(form["amount"]),
                "currency": form["currency"].lower(),
                "metadata": {"order_id": form["metadata[order_id]"]},
                "status": "requires_payment_method" if failed else "succeeded",
            }
            event = {
                "id": f"evt_{uuid.uuid4().hex}",
                "object": "event",
                "type": f"payment_intent.{'payment_failed' if failed else 'succeeded'}",
                "created": int(time.time()),
                "data": {"object": intent},
                "request": {"idempotency_key": idempotency_key},
            }
            with self._made.open("a") as file:
                file.write(json.dumps(event) + "\n")
            self._remember(event)
            self._waiting.append(event)
            return intent

    def _remember(self, event: dict[str, Any]) -> None:
        if key := event["request"]["idempotency_key"]:
            self._intents[key] = event["data"]["object"]

    def _send_all(self) -> None:
        while not self._stopping.is_set():
            with self._lock:
                waiting = list(self._waiting)
            with ThreadPoolExecutor(SENDERS) as senders:
                taken = [event for event, done in zip(waiting, senders.map(self._send, waiting), strict=True) if done]
            with self._lock, self._taken.open("a") as file:
                for event in taken:
                    self._waiting.remove(event)
                    file.write(json.dumps(event["id"]) + "\n")
            self._stopping.wait(0.02 if len(taken) == len(waiting) else RETRY_SECONDS)

    def _send(self, event: dict[str, Any]) -> bool:
        payload = json.dumps(event)
        try:
            headers = {
                "Content-Type": "application/json",
                "Stripe-Signature": signature(self._secret(), payload, int(time.time())),
            }
            answer = self._pool.request("POST", self._webhook_url, body=payload, headers=headers)
        except Exception:  # noqa: BLE001  whatever kept the shop from taking it, the event is sent again
            return False
        return answer.status < 300


def _lines(file: Path) -> list[Any]:
    """What was written whole; a kill may have cut the last line short."""
    found = []
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _handler(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if self.path != "/v1/payment_intents":
                self._answer(404, {"error": {"message": "POST /v1/payment_intents"}})
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            form = dict(urllib.parse.parse_qsl(body))
            try:
                self._answer(200, provider.pay(form, self.headers.get("Idempotency-Key")))
            except (KeyError, ValueError):
                self._answer(400, {"error": {"message": "amount (minor units), currency, metadata[order_id]"}})

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name is http.server's
            """The narrator tells of what follows from a payment; the provider itself is silent."""

    return Handler
