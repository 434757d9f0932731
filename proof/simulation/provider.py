"""Simulates a payment provider such as Stripe: payments, refunds, disputes and their webhooks.

It sends each webhook again until the shop accepts it. It stores the first answer to an idempotency key for a day, even
an error 500, and returns this answer to each request with the same key. Some refunds are pending and finish later. Some
refunds fail after they succeeded (https://docs.stripe.com/refunds#failed-refunds).
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Literal

from functions.adapters.payment_provider import PaymentProviderUnavailable
from functions.shop.refund_processing import ProviderRefundState, RefundRejected
from proof.simulation.clients import ApiClients
from proof.simulation.faults import DAY, HOUR, MINUTE, FaultInjector, ServiceCall, Strike
from proof.simulation.lambdas import MAX_SKEW_SECONDS
from proof.simulation.rng import SeededRandom
from proof.simulation.scheduler import ProcessDied
from proof.support.http_client import JSON, WEBHOOK_SECRETS, http_event, payment_event, stripe_signature

WEBHOOK_DELAY_SECONDS = 1.0
"""The seconds between a payment and its webhook."""
CONNECT_SECONDS, READ_SECONDS = 3.0, 8.0
SLOW_SECONDS = 15 * MINUTE
MAX_PENDING_SECONDS = 30 * HOUR
"""How long a refund may be pending, in seconds.

It is longer than the day for which the provider stores an idempotency key. So the test covers the case that the shop
asks for the status of a refund after the provider forgot the key.
"""
MAX_DISPUTE_DELAY_SECONDS = 40 * HOUR
MAX_DISPUTE_SECONDS = 60 * HOUR
EVENT_TYPES = {
    "authorised": "payment_intent.amount_capturable_updated",
    "succeeded": "payment_intent.succeeded",
    "failed": "payment_intent.payment_failed",
    "cancelled": "payment_intent.canceled",
}
"""For each outcome of a payment: the event type in the provider's webhook."""
IDEMPOTENCY_KEY_SECONDS = DAY
FIRST_API_KEY = "key of the simulation"


@dataclass
class SimulatedIntent:
    """A payment as the payment provider stores it.

    `delivered_events`: how many webhooks about the payment's outcomes the shop accepted. `dispute`: the state of the
    latest dispute (chargeback) of the payment, empty if there is none. `disputes_before`: the outcomes of its earlier
    disputes. `disputed`: the amount of the latest dispute. `lost`: the money that lost disputes took. `copied_to`:
    another order for which the provider reported the same payment afterwards, empty if none.
    """

    id: str
    order_id: str
    amount: int
    currency: str = "EUR"
    captured: bool = False
    delivered_events: int = 0
    dispute: Literal["", "open", "won", "lost"] = ""
    disputes_before: tuple[str, ...] = ()
    disputed: int = 0
    lost: int = 0
    copied_to: str = ""


@dataclass
class SimulatedRefund:
    """A refund as the payment provider stores it. `events`: how many webhook events the provider made for it.

    `is_outside`: a person made it in the provider's dashboard.
    """

    id: str
    payment_id: str
    amount: int
    metadata: Mapping[str, str]
    status: Literal["pending", "succeeded", "failed"] = "succeeded"
    events: int = 0
    is_outside: bool = False


@dataclass(frozen=True)
class RecordedAnswer:
    """The payment provider's first answer to a request with an idempotency key.

    `at`: the virtual time of the answer, in epoch seconds.
    """

    at: float
    answer: ProviderRefundState | Exception


@dataclass
class SimulatedProvider:
    """Replaces the shop's client of the payment provider, and sends the provider's webhooks to the shop.

    `refused_refunds`: the refunds that the provider refused for a reason of its own. `request_counts`: how many refund
    requests came with each idempotency key. `undelivered`: how many webhooks the shop has not accepted yet.
    `accepted_keys`: the API keys that are not revoked. `signing_secret`: the secret that signs the webhooks. Each
    function of the shop must know it from `secret_known_at` on. `refused_signatures`: the webhooks
    whose signature the shop refused although it had to know the secret.
    """

    clients: ApiClients
    faults: FaultInjector
    rng: SeededRandom
    intents: list[SimulatedIntent] = field(default_factory=list)
    refunds: list[SimulatedRefund] = field(default_factory=list)
    refused_refunds: list[SimulatedRefund] = field(default_factory=list)
    request_counts: Counter[str] = field(default_factory=Counter)
    undelivered: int = 0
    accepted_keys: set[str] = field(default_factory=lambda: {FIRST_API_KEY})
    signing_secret: str = WEBHOOK_SECRETS["current"]
    secret_known_at: float = 0.0
    refused_signatures: list[str] = field(default_factory=list)
    _keys: dict[str, RecordedAnswer] = field(default_factory=dict)

    # payments and disputes --------------------------------------------------------------------------------------------
    def pay(
        self, order_id: str, amount: int, outcomes: tuple[str, ...] = ("succeeded",), currency: str = "EUR"
    ) -> None:
        """Make a payment for an order, as a customer would. Send a webhook to the shop for each outcome of the payment.

        `outcomes`: the outcomes in chronological order, for example ("failed", "succeeded").
        """
        intent = SimulatedIntent(
            f"pi_{order_id[:8]}_{sum(i.order_id == order_id for i in self.intents)}", order_id, amount, currency
        )
        self.intents.append(intent)
        for number, outcome in enumerate(outcomes):
            intent.captured |= outcome == "succeeded"
            told = payment_event(
                order_id,
                amount,
                EVENT_TYPES[outcome],
                id=f"evt_{intent.id}_{number}",
                payment_id=intent.id,
                currency=currency,
            )
            self._send_webhook(
                told,
                f"{intent.id} {number}",
                WEBHOOK_DELAY_SECONDS + number,
                partial(self._count_delivery, intent, outcome),
            )
        if intent.captured and (asked := self.faults.draw("disputed", intent.id)):
            self.clients.tasks.call_later(
                MAX_DISPUTE_DELAY_SECONDS * asked.share**3, partial(self._open_dispute, intent)
            )
        if intent.captured and (asked := self.faults.draw("refunded outside", intent.id)):
            for number in range(1 + self.rng.happens(0.3, "refunds twice", intent.id)):
                delay = MAX_DISPUTE_DELAY_SECONDS * asked.share**3 + number * HOUR
                self.clients.tasks.call_later(delay, partial(self._refund_outside, intent, number))

    def _count_delivery(self, intent: SimulatedIntent, outcome: str) -> None:
        intent.delivered_events += 1
        others = sorted({one.order_id for one in self.intents} - {intent.order_id})
        is_new = outcome == "succeeded" and intent.amount > 0 and not intent.copied_to
        if is_new and others and self.rng.happens(0.1, "reported for another order", intent.id):
            self._report_for_another_order(intent, self.rng.choice(others, "which other order", intent.id))

    def _report_for_another_order(self, intent: SimulatedIntent, order_id: str) -> None:
        """Report the payment with the id of another order, as after an error in a checkout. The money exists once."""
        intent.copied_to = order_id
        told = payment_event(
            order_id, intent.amount, id=f"evt_{intent.id}_copy", payment_id=intent.id, currency=intent.currency
        )
        self._send_webhook(told, f"{intent.id} copy", WEBHOOK_DELAY_SECONDS)

    def _open_dispute(self, intent: SimulatedIntent) -> None:
        """Open a dispute (chargeback) of the payment, and send its webhook.

        Do nothing if the payment is already completely refunded.
        """
        if (left := self._refundable_amount(intent.id)) < 1:
            return
        intent.dispute = "open"
        # Usually, the bank claims all or a part of the money that is left. It may also claim refunded money.
        share = self.rng.random("share of the dispute", intent.id, *intent.disputes_before)
        intent.disputed = left if share < 0.5 else max(1, left // 3) if share < 0.85 else intent.amount
        self._send_webhook(self._dispute_event(intent, "created"), f"{intent.id} disputed", 1.0)
        decides = MAX_DISPUTE_SECONDS * self.rng.random("bank decides", intent.id, *intent.disputes_before) ** 2
        self.clients.tasks.call_later(decides, partial(self._close_dispute, intent))

    def _close_dispute(self, intent: SimulatedIntent) -> None:
        lost = self.rng.happens(0.5, "dispute lost", intent.id, *intent.disputes_before)
        intent.dispute = "lost" if lost else "won"
        intent.lost += intent.disputed if lost else 0
        self._send_webhook(self._dispute_event(intent, "closed"), f"{intent.id} {intent.dispute}", 1.0)
        if intent.dispute == "won" and not intent.disputes_before and self.rng.happens(0.3, "asks again", intent.id):
            self.clients.tasks.call_later(10 * HOUR, partial(self._dispute_again, intent))

    def _dispute_again(self, intent: SimulatedIntent) -> None:
        if self._refundable_amount(intent.id) > 0:
            intent.disputes_before = (intent.dispute,)
            self._open_dispute(intent)

    def _refundable_amount(self, payment_id: str) -> int:
        paid = sum(intent.amount for intent in self.intents if intent.id == payment_id and intent.captured)
        lost = sum(intent.lost for intent in self.intents if intent.id == payment_id)
        back = sum(one.amount for one in self.refunds if one.payment_id == payment_id and one.status != "failed")
        return paid - lost - back

    def _dispute_event(self, intent: SimulatedIntent, what: str) -> dict[str, Any]:
        """Build the webhook event of a dispute, in Stripe's format. Its metadata is usually empty."""
        named = self.rng.happens(0.3, "dispute names an order", intent.id, what)
        shown = {
            "id": f"dp_{intent.id}_{len(intent.disputes_before)}",
            "object": "dispute",
            "payment_intent": intent.id,
            "amount": intent.disputed,
            "currency": intent.currency.lower(),
            "status": "needs_response" if what == "created" else intent.dispute,
            "reason": "fraudulent",
            "metadata": {"order_id": intent.copied_to or intent.order_id} if named else {},
        }
        id = f"evt_dp_{intent.id}_{len(intent.disputes_before)}_{what}"
        return {"id": id, "object": "event", "type": f"charge.dispute.{what}", "data": {"object": shown}}

    # refunds in the provider's dashboard ------------------------------------------------------------------------------
    def _refund_outside(self, intent: SimulatedIntent, number: int) -> None:
        """Give back all money of a payment or a part of it, as a person does in the provider's dashboard."""
        about = f"{intent.id} outside {number}"
        left = self._refundable_amount(intent.id)
        if left < 1 or intent.dispute == "open":
            return
        amount = left if self.rng.happens(0.5, "refunds all", about) else max(1, left // 3)
        metadata = {"order_id": intent.order_id} if self.rng.happens(0.2, "refund names its order", about) else {}
        made = SimulatedRefund(f"re_{len(self.refunds) + 1}", intent.id, amount, metadata, is_outside=True)
        self.refunds.append(made)
        self._plan_end(made, about)
        self._report_refund(made, "refund.created")

    @property
    def is_busy(self) -> bool:
        """Whether a refund or dispute is unfinished, or the shop has not accepted a webhook yet."""
        pending = any(one.status == "pending" for one in self.refunds)
        return bool(self.undelivered) or pending or any(intent.dispute == "open" for intent in self.intents)

    # secrets ----------------------------------------------------------------------------------------------------------
    def sign_with(self, secret: str, known_at: float) -> None:
        """Sign all webhooks with this secret from now on. `known_at`: when each function of the shop must know it."""
        self.signing_secret, self.secret_known_at = secret, known_at

    def revoke_other_keys(self, key: str) -> None:
        self.accepted_keys = {key}

    # refunds ----------------------------------------------------------------------------------------------------------
    def refund(self, *, key: str, payment_id: str, amount: int, metadata: Mapping[str, str]) -> ProviderRefundState:
        """Refund an amount of a payment, once per idempotency key. The shop calls this in place of its real client.

        Raises the same errors as the real client: `RefundRejected` or `PaymentProviderUnavailable`. Raises
        `ProcessDied` if an injected fault kills the calling process.
        """
        ask = partial(self._refund, key, payment_id, amount, dict(metadata))
        self.request_counts[key] += 1
        strike = self._strike("Refund", key)
        if strike is None:
            return ask()
        match strike.kind:
            case "answer lost":
                self._ignore_errors(ask)
                self.clients.tasks.pause(READ_SECONDS)
                raise PaymentProviderUnavailable(0)
            case "slow" if SLOW_SECONDS * strike.share > READ_SECONDS:
                self.clients.tasks.call_later(SLOW_SECONDS * strike.share, lambda: self._ignore_errors(ask))
                self.clients.tasks.pause(READ_SECONDS)
                raise PaymentProviderUnavailable(0)
            case "dies after":
                self._ignore_errors(ask)
                raise ProcessDied
            case "done, but server error":
                self._ignore_errors(ask)
                self._keys[key] = RecordedAnswer(self.clients.tasks.now, PaymentProviderUnavailable(500))
                raise PaymentProviderUnavailable(500)
            case "server error":
                self._keys.setdefault(key, RecordedAnswer(self.clients.tasks.now, PaymentProviderUnavailable(500)))
                raise PaymentProviderUnavailable(500)
        return ask()

    def refunds_of(self, payment_id: str) -> Sequence[ProviderRefundState]:
        """Return all refunds of a payment. An injected fault can raise `PaymentProviderUnavailable`."""
        strike = self._strike("ListRefunds", payment_id)
        if strike and strike.kind in ("answer lost", "slow", "server error", "done, but server error"):
            raise PaymentProviderUnavailable(0)
        return [_to_provider_refund(one) for one in self.refunds if one.payment_id == payment_id]

    def _strike(self, operation: str, about: str) -> Strike | None:
        """Decide whether an injected fault strikes this request, and pause as long as the request takes.

        Return the fault, or None if none strikes. If the fault prevents the request, for example because the connection
        fails, raise its error instead. `about`: the target of the request.
        """
        tasks = self.clients.tasks
        call = ServiceCall(tasks.process.name if tasks.process else "nobody", "provider", operation, about)
        mortal = tasks.process is not None and tasks.process.ends_at is not None
        strike = self.faults.draw_for_call(call, mortal=mortal)
        if strike and tasks.process:
            tasks.process.struck.append(f"{strike.kind} @ {call}")
        tasks.pause(0.05 + 0.3 * self.rng.random("provider", str(call), self.request_counts[about]) ** 2)
        match strike.kind if strike else "":
            case "dies before":
                raise ProcessDied
            case "throttled":
                raise PaymentProviderUnavailable(429)
            case "unreachable":
                tasks.pause(CONNECT_SECONDS)
                raise PaymentProviderUnavailable(0)
        return strike

    def _ignore_errors(self, ask: Any) -> None:
        """Call `ask()`, which executes a request, and ignore its result and its errors.

        This simulates that the provider's answer is lost, so the caller must not learn whether the request succeeded.
        """
        try:
            ask()
        except (RefundRejected, PaymentProviderUnavailable):
            return

    def _refund(self, key: str, payment_id: str, amount: int, metadata: Mapping[str, str]) -> ProviderRefundState:
        now = self.clients.tasks.now
        known = self._keys.get(key)
        if known and now - known.at < IDEMPOTENCY_KEY_SECONDS:
            if isinstance(known.answer, Exception):
                raise known.answer
            return known.answer
        answer = self._create_refund(key, payment_id, amount, metadata)
        self._keys[key] = RecordedAnswer(now, answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _create_refund(
        self, key: str, payment_id: str, amount: int, metadata: Mapping[str, str]
    ) -> ProviderRefundState | Exception:
        if amount > self._refundable_amount(payment_id):
            return RefundRejected("charge_already_refunded")
        if any(intent.dispute == "open" for intent in self.intents if intent.id == payment_id):
            return RefundRejected("charge_disputed")
        if self.faults.draw("refund refused", key):
            self.refused_refunds.append(SimulatedRefund("", payment_id, amount, metadata, "failed"))
            return RefundRejected("charge_expired_for_refund")
        made = SimulatedRefund(f"re_{len(self.refunds) + 1}", payment_id, amount, metadata)
        self.refunds.append(made)
        self._plan_end(made, key)
        return _to_provider_refund(made)

    def _plan_end(self, made: SimulatedRefund, key: str) -> None:
        """Decide whether a new refund is pending for a time, and whether it fails."""
        if later := self.faults.draw("refund pending", key):
            made.status = "pending"
            ends: Any = "failed" if self.faults.draw("refund fails", key) else "succeeded"
            self.clients.tasks.call_later(
                MAX_PENDING_SECONDS * later.share**3, partial(self._finish_refund, made, ends)
            )
        elif self.faults.draw("refund fails", key):
            later_seconds = MAX_PENDING_SECONDS * self.rng.random("bounces", key) ** 2
            self.clients.tasks.call_later(later_seconds, partial(self._finish_refund, made, "failed"))

    def _finish_refund(self, made: SimulatedRefund, status: Literal["succeeded", "failed"]) -> None:
        made.status = status
        self._report_refund(made, "refund.failed" if status == "failed" else "refund.updated")

    def _report_refund(self, made: SimulatedRefund, kind: str) -> None:
        made.events += 1
        shown: dict[str, Any] = {
            "id": made.id,
            "object": "refund",
            "payment_intent": made.payment_id,
            "amount": made.amount,
            "currency": next(it.currency for it in self.intents if it.id == made.payment_id).lower(),
            "status": made.status,
            "metadata": dict(made.metadata),
        }
        if made.status == "failed":
            shown["failure_reason"] = "lost_or_stolen_card"
        id = f"evt_{made.id}_{made.events}"
        self._send_webhook(
            {"id": id, "object": "event", "type": kind, "data": {"object": shown}}, f"{made.id} {made.status}", 1.0
        )

    # webhooks ---------------------------------------------------------------------------------------------------------
    def _send_webhook(
        self, told: dict[str, Any], about: str, delay: float, heard: Callable[[], None] = lambda: None
    ) -> None:
        """Send a webhook again and again until the shop accepts it. Then call `heard`.

        Injected faults can delay the webhook or send it twice.
        """
        if late := self.faults.draw("webhook late", about):
            delay += 72 * HOUR * late.share**3
        self._start_webhook(told, delay, heard)
        if again := self.faults.draw("webhook twice", about):
            self._start_webhook(told, delay + 10 * MINUTE * again.share**2, heard)

    def _start_webhook(self, told: dict[str, Any], delay_seconds: float, heard: Callable[[], None]) -> None:
        tasks = self.clients.tasks
        self.undelivered += 1

        def work() -> None:
            for attempt in count():  # without a limit: the real provider retries for days
                text = json.dumps(told)
                headers = {**JSON, "stripe-signature": stripe_signature(text, tasks.clock(), self.signing_secret)}
                request = http_event("POST", "/payments/events", body=text, headers=headers)
                is_secret_known = tasks.now > self.secret_known_at + MAX_SKEW_SECONDS
                said = self.clients.send(request, f"webhook {told['id']} {told['type']}", patience=1)
                if said and said.status == 400 and is_secret_known:
                    self.refused_signatures.append(f"webhook {told['id']} was answered 400: {said.body}")
                if said and said.status == 200:
                    self.undelivered -= 1
                    heard()
                    return
                tasks.pause(5 * MINUTE * 2 ** min(attempt, 5))

        self.clients.start("provider", work, delay_seconds)


@dataclass(frozen=True)
class ProviderClient:
    """The shop's client of the payment provider. The provider refuses a revoked API key with status 401."""

    provider: SimulatedProvider
    key: str

    def refund(self, **request: Any) -> ProviderRefundState:
        self._check_key()
        return self.provider.refund(**request)

    def refunds_of(self, payment_id: str) -> Sequence[ProviderRefundState]:
        self._check_key()
        return self.provider.refunds_of(payment_id)

    def _check_key(self) -> None:
        if self.key not in self.provider.accepted_keys:
            raise PaymentProviderUnavailable(401)


def _to_provider_refund(one: SimulatedRefund) -> ProviderRefundState:
    return ProviderRefundState(
        one.id, one.status, "lost_or_stolen_card" if one.status == "failed" else None, one.metadata
    )
