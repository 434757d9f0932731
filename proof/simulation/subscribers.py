"""Simulates endpoints of webhooks, and how they fail, in place of the shop's client. The real code signs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from functions.adapters import webhook_sender
from functions.shop.webhook_deliveries import Answer, Message
from proof.oracle.observations import WebhookAttempt
from proof.simulation.faults import FaultInjector, ServiceCall
from proof.simulation.rng import SeededRandom
from proof.simulation.scheduler import ProcessDied, VirtualScheduler

SUBSCRIPTIONS: Mapping[str, Mapping[str, Any]] = {
    "steady": {"events": ["OrderPlaced", "OrderShipped", "OrderArchived", "RefundRequested", "StockReplenished"]},
    "shaky": {"events": ["OrderPlaced", "OrderPaid", "OrderFulfilling", "OrderShipped", "OrderCancelled"]},
    "choosy": {"events": ["OrderPaid", "PaymentCaptured", "RefundSucceeded"], "where": {"currency": "EUR"}},
}
"""What staff subscribe each endpoint to. The steady one never fails."""
FAILING = ("shaky", "choosy")


def url_of(endpoint: str, number: str) -> str:
    """Return the address of a webhook. `endpoint`: a key of SUBSCRIPTIONS. No two webhooks have the same address."""
    return f"https://hooks.example.com/{endpoint}/{number}"


@dataclass
class SimulatedSubscribers:
    """Receives webhooks. `attempts`: all requests of the shop. `down`: how endpoints fail at each request now."""

    tasks: VirtualScheduler
    faults: FaultInjector
    rng: SeededRandom
    attempts: list[WebhookAttempt] = field(default_factory=list)
    down: dict[str, str] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.endpoints = tuple(SUBSCRIPTIONS) if self.rng.happens(0.2, "webhooks") else ()

    def turn(self, endpoint: str, *, on: bool) -> None:
        """Begin or end an outage of an endpoint."""
        if on:
            self.down.pop(endpoint, None)
        else:
            kinds = ("server error", "unreachable", "silent")
            self.down[endpoint] = self.rng.choice(kinds, "how it fails", endpoint, self.tasks.now)

    def send(self, message: Message, test_host: str = "") -> Answer:
        """Receive an event, in place of the shop's client. Injected faults may kill the calling process."""
        about = f"{message.url} {message.event_id}"
        self._counts[about] += 1
        process = self.tasks.process
        kind = self._strike(message.url.split("/")[-2], about)
        began = self.tasks.now
        self.tasks.pause(0.02 + 0.3 * self.rng.random("subscriber", about, self._counts[about]) ** 2)
        if kind == "dies before":
            raise ProcessDied
        status = {"server error": 500, "done, but server error": 503, "unreachable": None}.get(kind, 200)
        headers = webhook_sender._sign(message)
        self.attempts.append(
            WebhookAttempt(
                at=self.tasks.now,
                url=message.url,
                event_id=headers["webhook-id"],
                body=message.body,
                signed_at=int(headers["webhook-timestamp"]),
                signatures=tuple(headers["webhook-signature"].split()),
                is_received=kind not in ("server error", "unreachable", "silent"),
                is_answered=kind in ("", "slow"),
                faults=process.struck if process else (),
            )
        )
        if kind == "dies after":
            raise ProcessDied
        if kind == "slow":
            self.tasks.pause(self.rng.uniform(1, 9, "slow", about, self._counts[about]))
        if kind in ("answer lost", "silent"):
            self.tasks.pause(webhook_sender.SEND_SECONDS)
            status = None
        return Answer(status, None if status else kind, round(1000 * (self.tasks.now - began)))

    def _strike(self, endpoint: str, about: str) -> str:
        """Return the kind of the fault that strikes this request, or ""."""
        process = self.tasks.process
        if endpoint not in FAILING or process is None:
            return ""
        call = ServiceCall(process.name, "subscriber", "SendWebhook", about)
        if strike := self.faults.draw_for_call(call, mortal=process.ends_at is not None):
            process.struck.append(f"{strike.kind} @ {call}")
            if strike.kind.startswith("dies"):
                return strike.kind
        if endpoint in self.down:
            return self.down[endpoint]
        if stumbles := self.faults.draw("subscriber stumbles", about, self._counts[about]):
            kinds = ("server error", "done, but server error", "slow", "answer lost")
            return kinds[int(len(kinds) * stumbles.share)]
        known = ("server error", "done, but server error", "slow", "answer lost", "unreachable")
        return strike.kind if strike and strike.kind in known else ""
