"""Simulates a payment provider such as Stripe: payments, refunds, disputes and their webhooks.

It sends each webhook again until the shop accepts it. Some refunds are pending and finish later. Some refunds fail
after they succeeded (https://docs.stripe.com/refunds#failed-refunds).
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any
from urllib.parse import parse_qs

import urllib3

from local.world.payment_provider import to_response
from local.world.stripe_account import (
    CONFIRMABLE,
    CREATED,
    VISA,
    StripeAccount,
    StripeError,
    StripeObject,
    sign_webhook,
    stripe_event,
)
from proof.simulation.clients import ApiClients
from proof.simulation.faults import HOUR, MINUTE, FaultInjector, ServiceCall
from proof.simulation.lambdas import MAX_SKEW_SECONDS
from proof.simulation.rng import SeededRandom
from proof.simulation.scheduler import ProcessDied
from proof.support.http_client import JSON, WEBHOOK_SECRETS, http_event

WEBHOOK_DELAY_SECONDS = 1.0
"""The seconds between a payment and its webhook."""
CONNECT_SECONDS, READ_SECONDS = 3.0, 8.0
SLOW_SECONDS = 15 * MINUTE
MAX_PENDING_SECONDS = 30 * HOUR
"""How long a refund may be pending: longer than the day for which the provider stores an idempotency key."""
MAX_DISPUTE_DELAY_SECONDS = 40 * HOUR
MAX_DISPUTE_SECONDS = 60 * HOUR
FIRST_API_KEY = "key of the simulation"


@dataclass
class SimulatedProvider:
    """Answers the requests of the shop's client of the payment provider, and sends the provider's webhooks to the shop.

    `refused_refunds`: the refunds that the provider refused for a reason of its own. `copied_to`: another order for
    which the provider reported a payment afterwards, by payment id. `ended_at`: when a payment that the customer could
    confirm succeeded or was cancelled, by payment id. `request_counts`: how many requests came with each idempotency
    key. `undelivered`: how many webhooks the shop has not accepted yet. `accepted_keys`: the API
    keys that are not revoked. `signing_secret`: the secret that signs the webhooks. Each function of the shop must know
    it from `secret_known_at` on. `refused_signatures`: the webhooks whose signature the shop refused although it had to
    know the secret.
    """

    clients: ApiClients
    faults: FaultInjector
    rng: SeededRandom
    refused_refunds: list[StripeObject] = field(default_factory=list)
    copied_to: dict[str, str] = field(default_factory=dict)
    ended_at: dict[str, float] = field(default_factory=dict)
    request_counts: Counter[str] = field(default_factory=Counter)
    undelivered: int = 0
    accepted_keys: set[str] = field(default_factory=lambda: {FIRST_API_KEY})
    signing_secret: str = WEBHOOK_SECRETS["current"]
    secret_known_at: float = 0.0
    refused_signatures: list[str] = field(default_factory=list)
    _event_counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        tasks = self.clients.tasks
        self.account = StripeAccount(lambda: tasks.now, self._new_id, self._report, self._plan_refund)

    def _new_id(self, prefix: str, about: StripeObject) -> str:
        match prefix:
            case "pi":
                order_id = about["metadata"]["order_id"]
                number = sum(one["metadata"]["order_id"] == order_id for one in self.account.payments.values())
                return f"pi_{order_id[:8]}_{number}"
            case "dp":
                return f"dp_{about['payment_intent']}_{len(self.account.disputes_of(about['payment_intent']))}"
        return f"{prefix}_{len(self.account.refunds) + 1}"

    # payments and disputes --------------------------------------------------------------------------------------------
    def pay(
        self, order_id: str, amount: int, statuses: Sequence[str] = ("succeeded",), currency: str = "EUR"
    ) -> StripeObject:
        """Make a payment that the shop did not start, and send a webhook for each of its statuses, in order."""
        asked = {"amount": amount, "currency": currency.lower(), "metadata": {"order_id": order_id}}
        return self._plan_reversals(self.account.create_payment(asked, statuses=statuses))

    def confirm(self, payment_id: str, method: str = VISA) -> None:
        """Confirm a started payment, as the customer's browser does. Do nothing if the provider refuses it."""
        with suppress(StripeError):  # it was confirmed or cancelled before, or the card is declined
            self._plan_reversals(self.account.confirm_payment(payment_id, method))

    def _plan_reversals(self, payment: StripeObject) -> StripeObject:
        """Decide whether a payment is disputed, and whether a person refunds it in the provider's dashboard."""
        if payment["status"] == "succeeded" and (strike := self.faults.draw("disputed", payment["id"])):
            delay = MAX_DISPUTE_DELAY_SECONDS * strike.share**3
            self.clients.tasks.call_later(delay, partial(self._open_dispute, payment))
        if payment["status"] == "succeeded" and (strike := self.faults.draw("refunded outside", payment["id"])):
            for number in range(1 + self.rng.happens(0.3, "refunds twice", payment["id"])):
                delay = MAX_DISPUTE_DELAY_SECONDS * strike.share**3 + number * HOUR
                self.clients.tasks.call_later(delay, partial(self._refund_outside, payment, number))
        return payment

    def _report_for_another_order(self, payment: StripeObject) -> None:
        """Report some payments with the id of another order, as after an error in a checkout. The money exists once."""
        id, order_id = payment["id"], payment["metadata"]["order_id"]
        others = sorted({one["metadata"]["order_id"] for one in self.account.payments.values()} - {order_id})
        is_new = payment["status"] == "succeeded" and payment["amount"] > 0 and id not in self.copied_to
        if is_new and others and self.rng.happens(0.1, "reported for another order", id):
            self.copied_to[id] = self.rng.choice(others, "which other order", id)
            copy = {**payment, "metadata": {"order_id": self.copied_to[id]}}
            event = stripe_event(f"evt_{id}_copy", "payment_intent.succeeded", copy)
            self._send_webhook(event, f"{id} copy", WEBHOOK_DELAY_SECONDS)

    def _open_dispute(self, payment: StripeObject) -> None:
        """Open a dispute (chargeback) of the payment. Do nothing if the payment is already completely refunded."""
        id = payment["id"]
        if (left := self.account.remaining_amount(payment)) < 1:
            return
        before = [one["status"] for one in self.account.disputes_of(id)]
        # Usually, the bank claims all or a part of the money that is left. It may also claim refunded money.
        share = self.rng.random("share of the dispute", id, *before)
        amount = left if share < 0.5 else max(1, left // 3) if share < 0.85 else payment["amount"]
        dispute = self.account.open_dispute(id, amount, self._dispute_metadata(payment, "created"))
        decides = MAX_DISPUTE_SECONDS * self.rng.random("bank decides", id, *before) ** 2
        self.clients.tasks.call_later(decides, partial(self._close_dispute, payment, dispute["id"], before))

    def _close_dispute(self, payment: StripeObject, dispute_id: str, before: Sequence[str]) -> None:
        action = "lose" if self.rng.happens(0.5, "dispute lost", payment["id"], *before) else "win"
        self.account.change_dispute(dispute_id, action, self._dispute_metadata(payment, "closed"))
        if action == "win" and not before and self.rng.happens(0.3, "asks again", payment["id"]):
            self.clients.tasks.call_later(10 * HOUR, partial(self._open_dispute, payment))

    def _dispute_metadata(self, payment: StripeObject, what: str) -> dict[str, str]:
        """Return the metadata in an event of a dispute, which is usually empty."""
        named = self.rng.happens(0.3, "dispute names an order", payment["id"], what)
        return {"order_id": self.copied_to.get(payment["id"], payment["metadata"]["order_id"])} if named else {}

    # refunds ----------------------------------------------------------------------------------------------------------
    def _refund_outside(self, payment: StripeObject, number: int) -> None:
        """Give back all money of a payment or a part of it, as a person does in the provider's dashboard."""
        about, left = f"{payment['id']} outside {number}", self.account.remaining_amount(payment)
        amount = left if self.rng.happens(0.5, "refunds all", about) else max(1, left // 3)
        is_named = self.rng.happens(0.2, "refund names its order", about)
        asked = {"payment_intent": payment["id"], "amount": amount, "metadata": payment["metadata"] if is_named else {}}
        with suppress(StripeError):  # no money is left, or the payment is disputed
            self.account.create_refund(asked, about)

    def _plan_refund(self, refund: StripeObject, key: str | None) -> Sequence[str]:
        """Decide whether a new refund is refused, whether it is pending for a time, and whether it fails."""
        finish = partial(self.account.finish_refund, refund["id"])
        if not is_outside(refund) and self.faults.draw("refund refused", key):
            self.refused_refunds.append({**refund, "status": "failed"})
            raise StripeError(400, "The charge is too old.", code="charge_expired_for_refund")
        if later := self.faults.draw("refund pending", key):
            end = "failed" if self.faults.draw("refund fails", key) else "succeeded"
            self.clients.tasks.call_later(MAX_PENDING_SECONDS * later.share**3, partial(finish, end))
            return ["pending"]
        if self.faults.draw("refund fails", key):
            later_seconds = MAX_PENDING_SECONDS * self.rng.random("bounces", key) ** 2
            self.clients.tasks.call_later(later_seconds, partial(finish, "failed"))
        return ["succeeded"]

    @property
    def is_busy(self) -> bool:
        """Whether a refund or dispute is unfinished, or the shop has not accepted a webhook yet."""
        ends = [*self.account.refunds.values(), *self.account.disputes.values()]
        return bool(self.undelivered) or any(one["status"] in ("pending", "needs_response") for one in ends)

    # secrets ----------------------------------------------------------------------------------------------------------
    def sign_with(self, secret: str, known_at: float) -> None:
        """Sign all webhooks with this secret from now on. `known_at`: when each function of the shop must know it."""
        self.signing_secret, self.secret_known_at = secret, known_at

    def revoke_other_keys(self, key: str) -> None:
        self.accepted_keys = {key}

    # requests ---------------------------------------------------------------------------------------------------------
    def request(
        self, method: str, target: str, *, body: str | None, headers: Mapping[str, str]
    ) -> urllib3.BaseHTTPResponse:
        """Answer a request in place of urllib3. Faults delay it, lose its answer, or kill its process."""
        if headers["Authorization"].removeprefix("Bearer ") not in self.accepted_keys:
            return to_response(401, {})
        key = headers.get("Idempotency-Key")
        operation, about = _name_request(method, target, key)
        if key:
            self.request_counts[key] += 1
        kind, share = self._strike(operation, about)

        def ask() -> urllib3.BaseHTTPResponse:
            status, answer = self.account.answer(method, target, headers, (body or "").encode())
            if operation == "FindPayments":
                answer["data"] = [one for one in answer["data"] if self._is_found(one)]
            return to_response(status, answer)

        if kind == "throttled":
            return to_response(429, {})
        if method == "POST":
            return self._change(key, kind, share, ask)
        if kind in ("answer lost", "slow", "server error", "done, but server error"):
            raise urllib3.exceptions.HTTPError
        return ask()

    def _is_found(self, payment: StripeObject) -> bool:
        """Return whether the search finds a payment. A new one may be missing: https://docs.stripe.com/search"""
        is_new = payment["created"] > self.clients.tasks.now - MINUTE
        return not (is_new and self.rng.happens(0.5, "not found yet", payment["id"]))

    def _change(
        self, key: str | None, kind: str, share: float, ask: Callable[[], urllib3.BaseHTTPResponse]
    ) -> urllib3.BaseHTTPResponse:
        """Answer a request that changes something with `ask`, under an injected fault of this kind."""
        tasks = self.clients.tasks
        match kind:
            case "answer lost":
                ask()
                tasks.pause(READ_SECONDS)
                raise urllib3.exceptions.HTTPError
            case "slow" if SLOW_SECONDS * share > READ_SECONDS:
                tasks.call_later(SLOW_SECONDS * share, ask)
                tasks.pause(READ_SECONDS)
                raise urllib3.exceptions.HTTPError
            case "dies after":
                ask()
                raise ProcessDied
            case "done, but server error" | "server error":
                if kind != "server error":
                    ask()
                    self.account.answers.pop(key or "", None)
                if key:
                    self.account.answers.setdefault(key, (tasks.now, StripeError(500, "", "api_error")))
                return to_response(500, {})
        return ask()

    def _strike(self, operation: str, about: str) -> tuple[str, float]:
        """Pause for the request. Return the kind ("" for none) and share of a fault, or raise its error."""
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
            case "unreachable":
                tasks.pause(CONNECT_SECONDS)
                raise urllib3.exceptions.HTTPError
        return (strike.kind, strike.share) if strike else ("", 0.0)

    # webhooks ---------------------------------------------------------------------------------------------------------
    def _report(self, kind: str, about: StripeObject, _key: str | None) -> None:
        """Send the webhook of an event. What the shop requested is reported only when its status changes."""
        id, number = about["id"], self._event_counts[about["id"]]
        if kind == CREATED or (kind == "refund.created" and not is_outside(about)):
            return
        self._event_counts[id] += 1
        delay, accepted = WEBHOOK_DELAY_SECONDS, lambda: None
        match about["object"]:
            case "payment_intent":
                if about["status"] not in CONFIRMABLE:
                    self.ended_at.setdefault(id, self.clients.tasks.now)
                event_id, label, delay = f"evt_{id}_{number}", f"{id} {number}", delay + number
                accepted = partial(self._report_for_another_order, about)
            case "dispute":
                step = kind.rpartition(".")[2]
                state = {"created": "disputed", "closed": about["status"]}.get(step, step)
                event_id, label = f"evt_{id}_{step}", f"{about['payment_intent']} {state}"
            case _:
                event_id, label = f"evt_{id}_{number + 1}", f"{id} {about['status']}"
        self._send_webhook(stripe_event(event_id, kind, about), label, delay, accepted)

    def _send_webhook(
        self, told: dict[str, Any], about: str, delay: float, heard: Callable[[], None] = lambda: None
    ) -> None:
        """Send a webhook until the shop accepts it. Then call `heard`. Faults can delay or repeat it."""
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
                signature = sign_webhook(self.signing_secret, text, tasks.clock().timestamp())
                headers = {**JSON, "stripe-signature": signature}
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


def _name_request(method: str, target: str, key: str | None) -> tuple[str, str]:
    """Return the operation that a request asks for, and its target: together they name the place of a fault."""
    path, _, query = target.removeprefix("/v1/").partition("?")
    match method, *path.split("/"):
        case "POST", "refunds":
            return "Refund", str(key)
        case "GET", "refunds":
            return "ListRefunds", parse_qs(query)["payment_intent"][0]
        case "POST", "payment_intents":
            return "StartPayment", str(key)
        case "POST", "payment_intents", payment_id, "cancel":
            return "CancelPayment", payment_id
        case "GET", "payment_intents", "search":
            return "FindPayments", parse_qs(query)["query"][0]
        case "GET", "payment_intents", payment_id:
            return "GetPayment", payment_id
    raise AssertionError(f"the shop sent an unknown request: {method} {target}")


def is_outside(refund: StripeObject) -> bool:
    """Return whether a person made a refund in the provider's dashboard."""
    return "refund_id" not in refund["metadata"]


def refund_id_in_shop(refund: StripeObject) -> str:
    """Return the id of a refund in the shop. If the shop did not request it, the id contains those of the provider."""
    return str(refund["metadata"].get("refund_id", f"{refund['payment_intent']}-{refund['id']}"))
