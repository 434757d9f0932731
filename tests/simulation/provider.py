"""The payment provider: takes money and tells of it until it is heard, gives money back once for each key.

As Stripe does it: a key is known for a day, and answered as at first, a fault of the provider's (500) too; some refunds
are pending, and end later; some fail after they had succeeded (https://docs.stripe.com/refunds#failed-refunds).
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Literal

from functions.provider import Unavailable
from functions.shop.settling import AtProvider, RefusedForGood
from tests.api.asking import JSON, event, payment_event, stripe_signature
from tests.simulation.chance import Chance
from tests.simulation.faults import DAY, HOUR, MINUTE, Call, Faults, Strike
from tests.simulation.people import People
from tests.simulation.tasks import Died

TOLD_AFTER_SECONDS = 1.0
"""How long after a payment its provider tells of it."""
CONNECT_SECONDS, READ_SECONDS = 3.0, 8.0
SLOW_SECONDS = 15 * MINUTE
PENDING_SECONDS = 30 * HOUR
"""How long a refund may be pending: longer than a key is known."""
DISPUTED_WITHIN_SECONDS = 40 * HOUR
DISPUTE_TAKES_SECONDS = 60 * HOUR
KINDS = {
    "authorised": "payment_intent.amount_capturable_updated",
    "succeeded": "payment_intent.succeeded",
    "failed": "payment_intent.payment_failed",
    "cancelled": "payment_intent.canceled",
}
"""The events of a payment, by what becomes of it."""
KEY_LIVES_SECONDS = DAY


@dataclass
class Intent:
    """A payment at the provider. `kept`: its events that the shop has taken. `dispute`: whether the customer's bank
    asks it back, and what came of that; `disputed_at`: when the shop was told so."""

    id: str
    order_id: str
    amount: int
    captured: bool = False
    kept: int = 0
    dispute: Literal["", "open", "won", "lost"] = ""
    disputed_at: float = float("inf")


@dataclass
class GivenBack:
    """A refund at the provider, as it stands."""

    id: str
    payment_id: str
    amount: int
    metadata: Mapping[str, str]
    status: Literal["pending", "succeeded", "failed"] = "succeeded"
    events: int = 0


@dataclass(frozen=True)
class Known:
    """What a key was answered with at first."""

    at: float
    answer: AtProvider | Exception


@dataclass
class Provider:
    """`wiring.provider` and the sender of webhooks in one. `asked`: how often each key was. `unheard`: how much it has
    to tell that the shop has not heard yet."""

    people: People
    faults: Faults
    chance: Chance
    intents: list[Intent] = field(default_factory=list)
    given: list[GivenBack] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    unheard: int = 0
    _keys: dict[str, Known] = field(default_factory=dict)

    # money in ---------------------------------------------------------------------------------------------------------
    def pay(self, order_id: str, amount: int, outcomes: tuple[str, ...] = ("succeeded",)) -> None:
        """A payment of these outcomes, one after the other; each is told by an event of its own."""
        intent = Intent(f"pi_{order_id[:8]}_{sum(i.order_id == order_id for i in self.intents)}", order_id, amount)
        self.intents.append(intent)
        for number, outcome in enumerate(outcomes):
            intent.captured |= outcome == "succeeded"
            told = payment_event(order_id, amount, KINDS[outcome], id=f"evt_{intent.id}_{number}", payment_id=intent.id)
            self._tell(told, f"{intent.id} {number}", TOLD_AFTER_SECONDS + number, partial(self._kept, intent))
        if intent.captured and (asked := self.faults.at("disputed", intent.id)):
            self.people.tasks.after(DISPUTED_WITHIN_SECONDS * asked.share**3, partial(self._disputed, intent))

    def _kept(self, intent: Intent) -> None:
        intent.kept += 1

    def _disputed(self, intent: Intent) -> None:
        """The customer's bank asks a payment back, of which there is something left."""
        if self._left(intent.id) < 1:
            return
        intent.dispute = "open"

        def heard() -> None:
            intent.disputed_at = self.people.tasks.now

        self._tell(_dispute_event(intent, "created"), f"{intent.id} disputed", 1.0, heard)
        decides = DISPUTE_TAKES_SECONDS * self.chance.number("bank decides", intent.id) ** 2
        self.people.tasks.after(decides, partial(self._decided, intent))

    def _decided(self, intent: Intent) -> None:
        intent.dispute = "lost" if self.chance.happens(0.5, "dispute lost", intent.id) else "won"
        self._tell(_dispute_event(intent, "closed"), f"{intent.id} {intent.dispute}", 1.0)

    def _left(self, payment_id: str) -> int:
        paid = sum(intent.amount for intent in self.intents if intent.id == payment_id and intent.captured)
        return paid - sum(one.amount for one in self.given if one.payment_id == payment_id and one.status != "failed")

    @property
    def is_busy(self) -> bool:
        """Whether there is something that it has not finished, or not told."""
        pending = any(one.status == "pending" for one in self.given)
        return bool(self.unheard) or pending or any(intent.dispute == "open" for intent in self.intents)

    # money out: the port ----------------------------------------------------------------------------------------------
    def refund(self, *, key: str, payment_id: str, amount: int, metadata: Mapping[str, str]) -> AtProvider:
        """Give back so much of a payment, once for each key."""
        ask = partial(self._refund, key, payment_id, amount, dict(metadata))
        self.asked[key] += 1
        strike = self._strike("Refund", key)
        if strike is None:
            return ask()
        match strike.kind:
            case "answer lost":
                self._quietly(ask)
                self.people.tasks.pause(READ_SECONDS)
                raise Unavailable(0)
            case "slow" if SLOW_SECONDS * strike.share > READ_SECONDS:
                self.people.tasks.after(SLOW_SECONDS * strike.share, lambda: self._quietly(ask))
                self.people.tasks.pause(READ_SECONDS)
                raise Unavailable(0)
            case "dies after":
                self._quietly(ask)
                raise Died
            case "done, but server error":
                self._quietly(ask)
                self._keys[key] = Known(self.people.tasks.now, Unavailable(500))
                raise Unavailable(500)
            case "server error":
                self._keys.setdefault(key, Known(self.people.tasks.now, Unavailable(500)))
                raise Unavailable(500)
        return ask()

    def refunds_of(self, payment_id: str) -> Sequence[AtProvider]:
        """All refunds of a payment."""
        strike = self._strike("ListRefunds", payment_id)
        if strike and strike.kind in ("answer lost", "slow", "server error", "done, but server error"):
            raise Unavailable(0)
        return [_shown(one) for one in self.given if one.payment_id == payment_id]

    def _strike(self, operation: str, about: str) -> Strike | None:
        """Let time pass, and raise what goes wrong before anything is done."""
        tasks = self.people.tasks
        call = Call(tasks.process.name if tasks.process else "nobody", "provider", operation, about)
        mortal = tasks.process is not None and tasks.process.ends_at is not None
        strike = self.faults.at_call(call, mortal=mortal)
        if strike and tasks.process:
            tasks.process.struck.append(f"{strike.kind} @ {call}")
        tasks.pause(0.05 + 0.3 * self.chance.number("provider", str(call), self.asked[about]) ** 2)
        match strike.kind if strike else "":
            case "dies before":
                raise Died
            case "throttled":
                raise Unavailable(429)
            case "unreachable":
                tasks.pause(CONNECT_SECONDS)
                raise Unavailable(0)
        return strike

    def _quietly(self, ask: Any) -> None:
        """Do what somebody asked for who does not hear the answer."""
        try:
            ask()
        except (RefusedForGood, Unavailable):
            return

    def _refund(self, key: str, payment_id: str, amount: int, metadata: Mapping[str, str]) -> AtProvider:
        now = self.people.tasks.now
        known = self._keys.get(key)
        if known and now - known.at < KEY_LIVES_SECONDS:
            if isinstance(known.answer, Exception):
                raise known.answer
            return known.answer
        answer = self._made(key, payment_id, amount, metadata)
        self._keys[key] = Known(now, answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _made(self, key: str, payment_id: str, amount: int, metadata: Mapping[str, str]) -> AtProvider | Exception:
        if amount > self._left(payment_id):
            return RefusedForGood("charge_already_refunded")
        if any(intent.dispute in ("open", "lost") for intent in self.intents if intent.id == payment_id):
            return RefusedForGood("charge_disputed")
        if self.faults.at("refund refused", key):
            return RefusedForGood("charge_expired_for_refund")
        made = GivenBack(f"re_{len(self.given) + 1}", payment_id, amount, metadata)
        self.given.append(made)
        if later := self.faults.at("refund pending", key):
            made.status = "pending"
            ends: Any = "failed" if self.faults.at("refund fails", key) else "succeeded"
            self.people.tasks.after(PENDING_SECONDS * later.share**3, partial(self._becomes, made, ends))
        elif self.faults.at("refund fails", key):
            later_seconds = PENDING_SECONDS * self.chance.number("bounces", key) ** 2
            self.people.tasks.after(later_seconds, partial(self._becomes, made, "failed"))
        return _shown(made)

    def _becomes(self, made: GivenBack, status: Literal["succeeded", "failed"]) -> None:
        made.status = status
        made.events += 1
        shown = {"id": made.id, "object": "refund", "status": status, "metadata": dict(made.metadata)}
        if status == "failed":
            shown["failure_reason"] = "lost_or_stolen_card"
        id = f"evt_{made.id}_{made.events}"
        kind = "refund.failed" if status == "failed" else "refund.updated"
        self._tell({"id": id, "object": "event", "type": kind, "data": {"object": shown}}, f"{made.id} {status}", 1.0)

    # what it tells ----------------------------------------------------------------------------------------------------
    def _tell(self, told: dict[str, Any], about: str, delay: float, heard: Callable[[], None] = lambda: None) -> None:
        """Tell it until it is `heard`."""
        if late := self.faults.at("webhook late", about):
            delay += 72 * HOUR * late.share**3
        self._begin(told, delay, heard)
        if again := self.faults.at("webhook twice", about):
            self._begin(told, delay + 10 * MINUTE * again.share**2, heard)

    def _begin(self, told: dict[str, Any], delay_seconds: float, heard: Callable[[], None]) -> None:
        tasks = self.people.tasks
        self.unheard += 1

        def work() -> None:
            for attempt in count():  # a provider goes on for days, less and less often
                text = json.dumps(told)
                headers = {**JSON, "stripe-signature": stripe_signature(text, tasks.clock())}
                request = event("POST", "/payments/events", body=text, headers=headers)
                said = self.people.send(request, f"webhook {told['id']} {told['type']}", patience=1)
                if said and said.status == 200:
                    self.unheard -= 1
                    heard()
                    return
                tasks.pause(5 * MINUTE * 2 ** min(attempt, 5))

        self.people.begin("provider", work, delay_seconds)


def _dispute_event(intent: Intent, what: str) -> dict[str, Any]:
    """An event of the dispute of a payment, as the provider tells it."""
    shown = {
        "id": f"dp_{intent.id}",
        "object": "dispute",
        "payment_intent": intent.id,
        "status": "needs_response" if what == "created" else intent.dispute,
        "reason": "fraudulent",
        "metadata": {"order_id": intent.order_id},
    }
    id = f"evt_dp_{intent.id}_{what}"
    return {"id": id, "object": "event", "type": f"charge.dispute.{what}", "data": {"object": shown}}


def _shown(one: GivenBack) -> AtProvider:
    return AtProvider(one.id, one.status, "lost_or_stolen_card" if one.status == "failed" else None, one.metadata)
