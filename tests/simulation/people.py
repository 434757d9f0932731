"""Who is outside: customers and staff at the API, the payment provider and its webhooks, the warehouse at its queue."""

import json
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.api.asking import JSON, WAREHOUSE, Token, event, payment_event, stripe_signature
from tests.simulation.chance import Chance
from tests.simulation.faults import HOUR, MINUTE, Faults
from tests.simulation.lambdas import Lambdas
from tests.simulation.queues import Queue
from tests.simulation.tasks import Process, Tasks

PATIENCE = 8
"""How often somebody asks again who got no answer, or was told to come back later."""


@dataclass(frozen=True)
class Said:
    """An answer of the API."""

    status: int
    body: Any


@dataclass
class People:
    """Somebody at the API. `told(who, text)` hears of every request and its answer."""

    tasks: Tasks
    chance: Chance
    lambdas: Lambdas
    told: Callable[[str, str], None]
    broken_answers: list[str] = field(default_factory=list)
    _asked: Counter[str] = field(default_factory=Counter)

    def begin(self, who: str, work: Callable[[], None], after_seconds: float = 0.0) -> None:
        """Somebody begins to do something."""
        self.tasks.start(Process(who), work, after_seconds)

    def ask(self, token: Token | None, method: str, path: str, body: Any = None, key: str | None = None) -> Said | None:
        """Ask, again and again with the same key while there is no answer; None where patience ends."""
        headers = {**(JSON if body is not None else {}), **({"idempotency-key": key} if key else {})}
        text = None if body is None else json.dumps(body)
        path, _, query = path.partition("?")
        request = event(method, path, token=token, body=text, headers=headers, query=query)
        return self.send(request, f"{method} {path} {key or ''}")

    def send(self, request: dict[str, Any], name: str, patience: int = PATIENCE) -> Said | None:
        who = self.tasks.process.name if self.tasks.process else "somebody"
        for attempt in range(patience):
            self._asked[name] += 1
            answer = self.lambdas.answer(request, f"{who} {name} {self._asked[name]}")
            status = answer["statusCode"] if answer else 0
            self.told(who, f"{name} → {status or 'no answer'}")
            if answer and status not in (429, 500, 502, 503):
                return Said(status, json.loads(answer["body"]))
            if status == 500:
                self.broken_answers.append(f"{name}: {answer and answer['body']}")
            self.tasks.pause(self.chance.between(0.2, 2.0**attempt, "patience", who, name, attempt))
        return None


@dataclass
class Intent:
    """A payment at the provider. `kept`: its events that the shop has taken."""

    id: str
    order_id: str
    amount: int
    captured: bool = False
    kept: int = 0


@dataclass
class Provider:
    """Takes money, and tells of it until it is heard."""

    people: People
    faults: Faults
    intents: list[Intent] = field(default_factory=list)

    def pay(self, order_id: str, amount: int, outcomes: tuple[str, ...] = ("succeeded",)) -> None:
        """A payment of these outcomes, one after the other; each is told by an event of its own."""
        intent = Intent(
            f"pi_{order_id[:8]}_{len([i for i in self.intents if i.order_id == order_id])}", order_id, amount
        )
        self.intents.append(intent)
        for number, outcome in enumerate(outcomes):
            intent.captured |= outcome == "succeeded"
            kind = "payment_intent.succeeded" if outcome == "succeeded" else "payment_intent.payment_failed"
            told = payment_event(order_id, amount, kind, id=f"evt_{intent.id}_{number}", payment_id=intent.id)
            delay = 1.0 + number
            if late := self.faults.at("webhook late", intent.id, number):
                delay += 72 * HOUR * late.share**3
            self._tell(intent, told, delay)
            if again := self.faults.at("webhook twice", intent.id, number):
                self._tell(intent, told, delay + 10 * MINUTE * again.share**2)

    def _tell(self, intent: Intent, told: dict[str, Any], delay_seconds: float) -> None:
        tasks = self.people.tasks

        def work() -> None:
            while True:  # a provider goes on for days
                text = json.dumps(told)
                headers = {**JSON, "stripe-signature": stripe_signature(text, tasks.clock())}
                request = event("POST", "/payments/events", body=text, headers=headers)
                said = self.people.send(request, f"webhook {told['id']} {told['type']}", patience=1)
                if said and said.status == 200:
                    intent.kept += 1
                    return
                tasks.pause(5 * MINUTE)

        self.people.begin("provider", work, delay_seconds)


@dataclass
class Warehouse:
    """Packs what its queue asks for, once for each shipment, and tells the shop when it leaves and when it arrives.

    It writes a request down before it deletes the message. Some parcels it never hears of again.
    `packed`: how often each shipment was packed.
    """

    people: People
    queue: Queue
    faults: Faults
    packed: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.queue.arrived = lambda at: self.people.tasks.at(at + 0.5, self._look)

    def _look(self) -> None:
        for message in self.queue.receive(10):
            shipment = json.loads(message.body)["detail"]["data"]
            id = shipment["shipment_id"]
            if self.faults.at("warehouse stumbles", id, message.receives):
                continue  # the request comes again
            if not self.packed[id]:
                self.packed[id] += 1
                path = f"/orders/{shipment['order_id']}/shipments/{id}"
                self.people.begin("warehouse", partial(self._work, id, path))
            self.queue.delete(message)

    def _work(self, id: str, path: str) -> None:
        tasks, chance = self.people.tasks, self.people.chance
        tasks.pause(chance.between(1, 40 * MINUTE, "packing", id) * 0.1 ** (3 * chance.number("prompt", id)))
        self._say(f"{path}/dispatched", {"carrier": "dhl", "tracking_number": f"JJD{zlib.crc32(id.encode()):012}"})
        if not chance.happens(0.25, "never heard of", id):
            tasks.pause(chance.between(1, 20 * MINUTE, "travel", id) * 0.1 ** (3 * chance.number("fast", id)))
            self._say(f"{path}/delivered", {})

    def _say(self, path: str, body: dict[str, str]) -> None:
        """Say it until it is heard. 409: said before, or the order has gone on without us. 404: it is archived."""
        while True:
            said = self.people.ask(WAREHOUSE, "POST", path, body)
            if said is not None and said.status in (200, 404, 409):
                return
            self.people.tasks.pause(10 * MINUTE)
