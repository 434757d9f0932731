"""An account at a payment provider with Stripe's API: its payments, refunds, disputes, idempotency keys and events.

It does no input or output. The payment providers of the laptop, of the tests and of the simulation pass requests to it,
and send its events to the shop.

Sources: Stripe's API reference, "PaymentIntents", "Refunds", "Disputes", "Idempotent requests", "Errors"; "Check the
webhook signatures"; "Testing".
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

IDEMPOTENCY_KEY_SECONDS = 24 * 3600
"""How long the account stores the first answer to an idempotency key."""
DECLINED, PENDING_REFUND, FAILING_REFUND = "pm_card_chargeDeclined", "pm_card_pendingRefund", "pm_card_refundFail"
REFUND_STATUSES = {PENDING_REFUND: ("pending", "succeeded"), FAILING_REFUND: ("succeeded", "failed")}
"""The statuses of a refund in chronological order, by the payment method. Stripe's test cards have these names."""
PAYMENT_EVENTS = {
    "requires_capture": "payment_intent.amount_capturable_updated",
    "succeeded": "payment_intent.succeeded",
    "requires_payment_method": "payment_intent.payment_failed",
    "canceled": "payment_intent.canceled",
}
"""The type of the event that reports a payment's new status, by the status."""

StripeObject = dict[str, Any]


class StripeError(Exception):
    """An error response in Stripe's format. `status`: the HTTP status. `body`: the body of the response."""

    def __init__(self, status: int, message: str, kind: str = "invalid_request_error", **more: str) -> None:
        super().__init__(message)
        self.status, self.body = status, {"error": {"type": kind, "message": message, **more}}


def stripe_event(id: str, kind: str, about: StripeObject, created: float = 0, key: str | None = None) -> StripeObject:
    """Return an event in Stripe's format. `about`: the changed object. `key`: the idempotency key of the request."""
    event = {"id": id, "object": "event", "type": kind, "created": int(created), "data": {"object": about}}
    return {**event, "request": {"idempotency_key": key}}


def stripe_refund(status: str | None, **fields: Any) -> StripeObject:
    """Return a refund in Stripe's format."""
    reason = "expired_or_canceled_card" if status == "failed" else None
    return {"object": "refund", "failure_reason": reason, **fields, "status": status}


def sign_webhook(secret: str, payload: str, at: float) -> str:
    """Return the Stripe-Signature header for a webhook payload. `at`: the time of sending, in epoch seconds."""
    digest = hmac.new(secret.encode(), f"{int(at)}.{payload}".encode(), hashlib.sha256).hexdigest()
    return f"t={int(at)},v1={digest}"


@dataclass
class StripeAccount:
    """The objects of an account, by id, and the requests that change them.

    `now`: returns the time in epoch seconds. `new_id`: returns the id of a new object; its arguments are the prefix of
    the id, such as "re", and the object. `report`: takes each event before the account changes, as its type, the
    changed object, and the idempotency key of the request or None. `plan_refund`: returns the statuses of a new refund
    in chronological order, or raises StripeError; its arguments are the refund and the idempotency key. By default, the
    payment method decides. `find_payment`: returns a payment that was not made with `create_payment`, or None.

    `answers`: the time and the content of the first answer to each idempotency key, also if it was an error.
    """

    now: Callable[[], float]
    new_id: Callable[[str, StripeObject], str]
    report: Callable[[str, StripeObject, str | None], None] = lambda kind, about, key: None
    plan_refund: Callable[[StripeObject, str | None], Sequence[str]] | None = None
    find_payment: Callable[[str], StripeObject | None] = lambda payment_id: None
    payments: dict[str, StripeObject] = field(default_factory=dict)
    refunds: dict[str, StripeObject] = field(default_factory=dict)
    disputes: dict[str, StripeObject] = field(default_factory=dict)
    answers: dict[str, tuple[float, StripeObject | StripeError]] = field(default_factory=dict)

    # requests ---------------------------------------------------------------------------------------------------------
    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, StripeObject]:
        """Return the HTTP status and the JSON body of the answer to a request. `target`: the path and the query."""
        try:
            return 200, self._route(method, target, headers.get("Idempotency-Key"), body)
        except StripeError as error:
            return error.status, error.body

    def _route(self, method: str, target: str, key: str | None, body: bytes) -> StripeObject:
        path, _, query = target.partition("?")
        match method, path:
            case "POST", "/v1/payment_intents":
                return self.create_payment(_parse_payment(_parse_form(body)), key)
            case "POST", "/v1/refunds":
                return self.create_refund(_parse_refund(_parse_form(body)), key)
            case "GET", "/v1/refunds":
                found = self.refunds_of(dict(parse_qsl(query)).get("payment_intent", ""))[::-1]
                return {"object": "list", "url": "/v1/refunds", "has_more": False, "data": found}
            case _, "/v1/refunds":
                raise StripeError(405, "Use POST /v1/refunds or GET /v1/refunds.")
        raise StripeError(404, "Use POST /v1/payment_intents, POST /v1/refunds or GET /v1/refunds.")

    def create_payment(self, asked: StripeObject, key: str | None = None, statuses: Sequence[str] = ()) -> StripeObject:
        """Make and return a payment. Raises StripeError if the idempotency key was used with other fields.

        `asked`: the fields amount, currency and metadata. `statuses`: the statuses of the payment in chronological
        order; by default, the payment method decides.
        """

        def create() -> StripeObject:
            payment = {"id": self.new_id("pi", asked), **asked, "last_payment_error": None}
            declined = asked.get("payment_method") == DECLINED
            for status in statuses or ("requires_payment_method" if declined else "succeeded",):
                error = {"code": "card_declined"} if status == "requires_payment_method" else None
                self._change(PAYMENT_EVENTS[status], {**payment, "status": status, "last_payment_error": error}, key)
            return self.payments[payment["id"]]

        asked = {"object": "payment_intent", **asked}
        return self._answer_once(key, asked, create)

    def create_refund(self, asked: StripeObject, key: str | None = None) -> StripeObject:
        """Make a refund of a payment, and return it with its first status. Raises StripeError.

        `asked`: the fields payment_intent, metadata and amount. Without an amount, the account refunds the whole
        remaining amount of the payment.
        """
        return self._answer_once(key, {"object": "refund", **asked}, partial(self._create_refund, asked, key))

    def _create_refund(self, asked: StripeObject, key: str | None) -> StripeObject:
        payment_id = asked["payment_intent"]
        payment = self.payments.get(payment_id) or self.find_payment(payment_id)
        if payment is None:
            raise StripeError(404, "No such payment_intent.", code="resource_missing", param="payment_intent")
        if payment["status"] != "succeeded":
            raise StripeError(400, "Nothing is left to refund.", code="payment_intent_invalid")
        if (left := self.remaining_amount(payment)) < 1:
            raise StripeError(400, "Nothing is left to refund.", code="charge_already_refunded")
        if any(one["status"] == "needs_response" for one in self.disputes_of(payment_id)):
            raise StripeError(400, "The customer's bank disputes the payment.", code="charge_disputed")
        refund = {"amount": left, "currency": payment["currency"], **asked}
        if refund["amount"] > left:
            raise StripeError(400, "The amount is greater than the remaining amount.", param="amount")
        refund["id"] = self.new_id("re", refund)
        by_method = REFUND_STATUSES.get(payment.get("payment_method", ""), ("succeeded",))
        first, *later = self.plan_refund(refund, key) if self.plan_refund else by_method
        made = self._change("refund.created", stripe_refund(first, **refund), key)
        for status in later:
            self.finish_refund(made["id"], status)
        return made

    def _answer_once(self, key: str | None, asked: StripeObject, create: Callable[[], StripeObject]) -> StripeObject:
        """Return the stored answer to this idempotency key. If there is none, call `create` and store its answer."""
        since, answer = self.answers.get(key or "", (0.0, None))
        if answer is None or self.now() - since >= IDEMPOTENCY_KEY_SECONDS:
            try:
                answer = create()
            except StripeError as error:
                answer = error
            if key:
                self.answers[key] = self.now(), answer
        if isinstance(answer, StripeError):
            raise answer
        if any(answer.get(name) != value for name, value in asked.items()):
            raise StripeError(400, "This idempotency key was used with other parameters.", "idempotency_error")
        return answer

    # what happens outside the requests --------------------------------------------------------------------------------
    def finish_refund(self, refund_id: str, status: str) -> None:
        """Change the status of a refund to "succeeded" or "failed", also if it succeeded before."""
        kind = "refund.failed" if status == "failed" else "refund.updated"
        self._change(kind, {**self.refunds[refund_id], **stripe_refund(status)})

    def open_dispute(self, payment_id: str, amount: int, metadata: Mapping[str, str]) -> StripeObject:
        dispute: StripeObject = {"object": "dispute", "payment_intent": payment_id, "amount": amount}
        dispute |= {"currency": self.payments[payment_id]["currency"], "status": "needs_response"}
        dispute |= {"id": self.new_id("dp", dispute), "reason": "fraudulent", "metadata": metadata}
        return self._change("charge.dispute.created", dispute)

    def close_dispute(self, dispute_id: str, status: str, metadata: Mapping[str, str]) -> None:
        """Close a dispute as "won" or "lost". A lost dispute takes its amount from the payment."""
        self._change("charge.dispute.closed", {**self.disputes[dispute_id], "status": status, "metadata": metadata})

    def apply_event(self, event: StripeObject) -> None:
        """Store the object of an event, and the answer to its idempotency key. Raises LookupError or TypeError."""
        about, key = event["data"]["object"], event["request"]["idempotency_key"]
        self._store(about)
        if key:
            self.answers[key] = event["created"], about

    def _change(self, kind: str, about: StripeObject, key: str | None = None) -> StripeObject:
        self.report(kind, about, key)
        self._store(about)
        return about

    def _store(self, about: StripeObject) -> None:
        objects = {"payment_intent": self.payments, "refund": self.refunds, "dispute": self.disputes}
        objects[about["object"]][about["id"]] = about

    # queries ----------------------------------------------------------------------------------------------------------
    def refunds_of(self, payment_id: str) -> list[StripeObject]:
        return [one for one in self.refunds.values() if one["payment_intent"] == payment_id]

    def disputes_of(self, payment_id: str) -> list[StripeObject]:
        return [one for one in self.disputes.values() if one["payment_intent"] == payment_id]

    def remaining_amount(self, payment: StripeObject) -> int:
        """Return the amount of a payment that neither refunds nor lost disputes took. It can be negative."""
        taken = [one for one in self.refunds_of(payment["id"]) if one["status"] != "failed"]
        taken += [one for one in self.disputes_of(payment["id"]) if one["status"] == "lost"]
        left: int = payment["amount"] - sum(one["amount"] for one in taken)
        return left


def _parse_form(body: bytes) -> dict[str, str]:
    """Return the fields of a form-encoded body. Raises StripeError if the body cannot be decoded."""
    try:
        return dict(parse_qsl(body.decode(), errors="strict"))
    except ValueError:
        raise StripeError(400, "Send a form-encoded body in UTF-8, as curl -d does.") from None


def _parse_payment(form: dict[str, str]) -> StripeObject:
    """Return the fields of a new payment. Raises StripeError if one is not valid."""
    asked = {**_parse_amount(form), "currency": form.get("currency", "").lower(), "metadata": _parse_metadata(form)}
    named = re.fullmatch(r"[\x20-\x7e]{1,500}", asked["metadata"].get("order_id", ""))
    if not re.fullmatch("[a-z]{3}", asked["currency"]) or not named:
        raise StripeError(400, "Send amount (in minor units), currency and metadata[order_id].")
    return {**asked, "payment_method": form.get("payment_method", "pm_card_visa")}


def _parse_refund(form: dict[str, str]) -> StripeObject:
    asked = {"payment_intent": form.get("payment_intent", ""), "metadata": _parse_metadata(form)}
    return {**asked, **(_parse_amount(form) if "amount" in form else {})}


def _parse_amount(form: dict[str, str]) -> StripeObject:
    """Return the amount in a form, a positive number of minor units such as cents. Raises StripeError."""
    amount = form.get("amount", "")
    if not re.fullmatch("[0-9]{1,12}", amount) or not int(amount):
        why = "amount must be a positive whole number of minor units."
        raise StripeError(400, why, code="parameter_invalid_integer", param="amount")
    return {"amount": int(amount)}


def _parse_metadata(form: dict[str, str]) -> dict[str, str]:
    return {name[9:-1]: value for name, value in form.items() if name.startswith("metadata[")}
