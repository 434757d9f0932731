"""An account at a payment provider with Stripe's API: its payments, refunds, disputes, idempotency keys and events.

It does no input or output. The payment providers of the laptop, of the tests and of the simulation pass requests to it,
and send its events to the shop. The paths under /v1 are Stripe's. What a bank or a person in the dashboard does at
Stripe is a path under /test:

- `POST /test/payments/{id}/disputes` opens a dispute, perhaps with `amount`, `reason` and `inquiry=true`.
- `GET /test/payments/{id}/disputes` lists the disputes, each with the actions that are possible now.
- `POST /test/disputes/{id}/{action}` continues it, with an action of DISPUTE_ACTIONS.
- `POST /test/payments/{id}/refunds` makes a refund that the shop did not request, perhaps with `amount` and `reason`.

Sources: Stripe's API reference, "PaymentIntents", "Refunds", "Disputes", "Idempotent requests", "Errors"; "How
PaymentIntents work"; "How disputes work"; "Search"; "Minimum and maximum charge amounts"; "Check the webhook
signatures"; "Testing".
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

API_VERSION = "2026-10-28.endive"
"""The version of Stripe's API that this account plays."""
IDEMPOTENCY_KEY_SECONDS = 24 * 3600
"""How long the account stores the first answer to an idempotency key."""
VISA, DECLINED = "pm_card_visa", "pm_card_chargeDeclined"
PENDING_REFUND, FAILING_REFUND = "pm_card_pendingRefund", "pm_card_refundFail"
REFUND_STATUSES = {PENDING_REFUND: ("pending", "succeeded"), FAILING_REFUND: ("succeeded", "failed")}
"""The statuses of a refund in chronological order, by the payment method. Stripe's test cards have these names."""
PAYMENT_EVENTS = {
    "requires_capture": "payment_intent.amount_capturable_updated",
    "succeeded": "payment_intent.succeeded",
    "requires_payment_method": "payment_intent.payment_failed",
    "canceled": "payment_intent.canceled",
}
"""The type of the event that reports a payment's new status, by the status."""
CREATED = "payment_intent.created"
"""The type of the event of a payment that waits for its confirmation. The shop does not subscribe to it."""
CONFIRMABLE = ("requires_payment_method", "requires_confirmation", "requires_action")
CANCELLABLE = (*CONFIRMABLE, "requires_capture", "processing")
_CURRENCIES_BY_MINIMUM = {
    30: "gbp",
    50: "aud brl cad chf eur inr jpy nzd sgd usd",
    100: "bgn",
    200: "aed myr pln ron",
    250: "dkk",
    300: "nok sek",
    400: "hkd",
    1000: "mxn thb",
    1500: "czk",
    17500: "huf",
}
MINIMUM_AMOUNTS = {currency: least for least, listed in _CURRENCIES_BY_MINIMUM.items() for currency in listed.split()}
"""The smallest payment by currency, in minor units. This account knows no other currencies."""
PAYMENT_FIELDS = {"amount", "automatic_payment_methods[enabled]", "confirm", "currency", "payment_method"}
CANCEL_REASONS = ("abandoned", "duplicate", "fraudulent", "requested_by_customer")
REFUND_REASONS = CANCEL_REASONS[1:]
DISPUTE_REASONS = ("duplicate", "fraudulent", "general", "product_not_received", "product_unacceptable", "unrecognized")
DISPUTE_FEE = 1500
"""What Stripe charges for each dispute, in minor units."""
DISPUTE_SECONDS = 14 * 24 * 3600
"""How long the shop may submit evidence."""
UNDECIDED = ("needs_response", "under_review")
INQUIRY = ("warning_needs_response", "warning_under_review")
DISPUTE_ACTIONS: Mapping[str, tuple[Mapping[str, str], Sequence[str]]] = {
    "submit": (dict(zip(("needs_response", INQUIRY[0]), ("under_review", INQUIRY[1]), strict=True)), ("updated",)),
    "win": (dict.fromkeys(UNDECIDED, "won"), ("closed", "funds_reinstated")),
    "lose": (dict.fromkeys(UNDECIDED, "lost"), ("closed",)),
    "escalate": (dict.fromkeys(INQUIRY, "needs_response"), ("updated", "funds_withdrawn")),
    "close": (dict.fromkeys(INQUIRY, "warning_closed"), ("closed",)),
}
"""What can happen to a dispute: its new status by its status, and the events that report it.

An inquiry is a question of the bank that takes no money. The bank closes it, or escalates it to a dispute.
"""

StripeObject = dict[str, Any]


class StripeError(Exception):
    """An error response in Stripe's format. `status`: the HTTP status. `body`: the body of the response."""

    def __init__(self, status: int, message: str, kind: str = "invalid_request_error", **more: Any) -> None:
        super().__init__(message)
        self.status, self.body = status, {"error": {"type": kind, "message": message, **more}}


def stripe_event(id: str, kind: str, about: StripeObject, created: float = 0, key: str | None = None) -> StripeObject:
    """Return an event in Stripe's format. `about`: the changed object. `key`: the idempotency key of the request."""
    event = {"id": id, "object": "event", "type": kind, "created": int(created), "data": {"object": about}}
    event |= {"api_version": API_VERSION, "livemode": False, "pending_webhooks": 1}
    return {**event, "request": {"id": None, "idempotency_key": key}}


def stripe_payment(id: str, **fields: Any) -> StripeObject:
    """Return a payment in Stripe's format. Fields that the shop does not use have the values of a card payment."""
    constants = {"amount_capturable": 0, "capture_method": "automatic", "confirmation_method": "automatic"}
    constants |= {"payment_method_types": ["card"], "livemode": False, "next_action": None, "payment_method": None}
    ends = dict.fromkeys(("cancellation_reason", "canceled_at", "last_payment_error", "latest_charge"))
    return {"id": id, "object": "payment_intent", **constants, "amount_received": 0, **ends, **fields}


def charge_id(payment_id: str) -> str:
    """Return the id of the charge of a payment. Each payment has one charge at most that succeeded."""
    return f"ch_{payment_id.removeprefix('pi_')}"


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

    `new_id`: returns the id of a new object, from its prefix, such as "re" or "pi_1_secret", and the object. `report`:
    takes each event before the account changes, as its type, the object, and the idempotency key or None.
    `plan_refund`: returns the statuses of a new refund in order, or raises StripeError. By default, the payment method
    decides. `find_payment`: returns a payment that was not made with `create_payment`. `answers`: when and what was
    first answered to a key.
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
        path, _, query = target.partition("?")
        try:
            form = _parse_form(query.encode() if method == "GET" else body)
            return 200, self._route(method, path, form, headers.get("Idempotency-Key"))
        except StripeError as error:
            return error.status, error.body

    def _route(self, method: str, path: str, form: dict[str, str], key: str | None) -> StripeObject:
        match method, *path.strip("/").split("/"):
            case "POST", "v1", "payment_intents":
                return self.create_payment(_parse_payment(form), key, confirm=form.get("confirm") == "true")
            case "GET", "v1", "payment_intents", "search":
                found = self._search_payments(form.get("query", ""))
                return {"object": "search_result", "url": path, "has_more": False, "next_page": None, "data": found}
            case "GET", "v1", "payment_intents", payment_id:
                return self._find_payment(payment_id)
            case "POST", "v1", "payment_intents", payment_id, "confirm":
                return self.confirm_payment(payment_id, form.get("payment_method"), key)
            case "POST", "v1", "payment_intents", payment_id, "cancel":
                return self.cancel_payment(payment_id, _parse_choice(form, "cancellation_reason", CANCEL_REASONS), key)
            case "POST", "v1", "refunds":
                return self.create_refund(_parse_refund(form), key)
            case "GET", "v1", "refunds":
                found = self.refunds_of(form.get("payment_intent", ""))[::-1]
                return {"object": "list", "url": path, "has_more": False, "data": found}
            case _, "test", *names:
                return self._play_outside((method, *names), form, key)
            case _, "v1", "refunds":
                raise StripeError(405, "Use POST /v1/refunds or GET /v1/refunds.")
        raise StripeError(404, f"Unrecognized request URL ({method}: {path}). See https://docs.stripe.com/api.")

    def _play_outside(self, names: Sequence[str], form: dict[str, str], key: str | None) -> StripeObject:
        """Do what a bank or a person in the dashboard does. `names`: the method, and the path after /test."""
        match names:
            case "GET", "payments", payment_id, "disputes":
                return {"data": [{**one, "actions": _possible_actions(one)} for one in self.disputes_of(payment_id)]}
            case "POST", "payments", payment_id, "refunds":
                return self.create_refund(_parse_refund({**form, "payment_intent": payment_id}), key)
            case "POST", "payments", payment_id, "disputes":
                payment = self._find_payment(payment_id)
                amount = _parse_amount({"amount": str(payment["amount"]), **form})["amount"]
                if payment["status"] != "succeeded" or amount > payment["amount"]:
                    raise StripeError(400, "Only the amount of a payment that succeeded can be disputed.")
                reason = _parse_choice(form, "reason", DISPUTE_REASONS) or "fraudulent"
                return self.open_dispute(payment_id, amount, {}, reason, inquiry=form.get("inquiry") == "true")
            case "POST", "disputes", dispute_id, action if action in DISPUTE_ACTIONS:
                return self.change_dispute(dispute_id, action)
        raise StripeError(404, "Use the paths under /test in the docstring of local/world/stripe_account.py.")

    # payments ---------------------------------------------------------------------------------------------------------
    def create_payment(
        self, asked: StripeObject, key: str | None = None, statuses: Sequence[str] = (), *, confirm: bool = False
    ) -> StripeObject:
        """Make and return a payment. Raises StripeError, also if the idempotency key was used with other fields.

        `asked`: amount, currency, metadata, and perhaps payment_method. `confirm`: whether to charge it at once.
        `statuses`: those of a payment that is confirmed at once, in order, instead of the outcome of the payment
        method.
        """

        def create() -> StripeObject:
            id, status = self.new_id("pi", asked), "requires_confirmation" if method else "requires_payment_method"
            secret = self.new_id(f"{id}_secret", asked)
            payment = stripe_payment(id=id, **asked, client_secret=secret, created=int(self.now()), status=status)
            if confirm:
                return self._confirm(payment, method, key)
            if not statuses:
                return self._change(CREATED, payment, key)
            for status in statuses:
                payment = self._settle(payment, status, key)
            return payment

        method = asked.get("payment_method", VISA if confirm else None)
        asked = {"object": "payment_intent", **asked, **({"payment_method": method} if method else {})}
        return self._answer_once(key, asked, create)

    def confirm_payment(self, payment_id: str, method: str | None, key: str | None = None) -> StripeObject:
        """Charge a payment method for a payment. Raises StripeError, for example if the card is declined."""
        asked = {"object": "payment_intent", "id": payment_id, **({"payment_method": method} if method else {})}
        return self._answer_once(key, asked, lambda: self._confirm(self._find_payment(payment_id), method, key))

    def cancel_payment(self, payment_id: str, reason: str | None, key: str | None = None) -> StripeObject:
        """Cancel a payment that is not finished. Raises StripeError if it is."""

        def cancel() -> StripeObject:
            payment = self._find_payment(payment_id)
            if payment["status"] not in CANCELLABLE:
                raise _unexpected_state(payment, "cancel", CANCELLABLE)
            ends = {"status": "canceled", "canceled_at": int(self.now()), "cancellation_reason": reason}
            return self._change(PAYMENT_EVENTS["canceled"], {**payment, **ends}, key)

        return self._answer_once(key, {"object": "payment_intent", "id": payment_id, "status": "canceled"}, cancel)

    def _confirm(self, payment: StripeObject, method: str | None, key: str | None) -> StripeObject:
        method = method or payment["payment_method"]
        if payment["status"] not in CONFIRMABLE or not method:
            raise _unexpected_state(payment, "confirm", CONFIRMABLE)
        status = "requires_payment_method" if method == DECLINED else "succeeded"
        settled = self._settle({**payment, "payment_method": method}, status, key)
        if settled["last_payment_error"]:
            raise _declined(settled)
        return settled

    def _settle(self, payment: StripeObject, status: str, key: str | None) -> StripeObject:
        """Change a payment to the status that an attempt to charge its payment method has."""
        error = None
        if status == "requires_payment_method":
            error = {"type": "card_error", "code": "card_declined", "decline_code": "generic_decline"}
            error |= {"message": "Your card was declined."}
        elif status != "canceled":
            payment = {**payment, "latest_charge": charge_id(payment["id"])}
        amounts = {
            "amount_capturable": payment["amount"] if status == "requires_capture" else 0,
            "amount_received": payment["amount"] if status == "succeeded" else 0,
        }
        return self._change(
            PAYMENT_EVENTS[status], {**payment, **amounts, "last_payment_error": error, "status": status}, key
        )

    def _find_payment(self, payment_id: str, param: str = "intent") -> StripeObject:
        payment = self.payments.get(payment_id) or self.find_payment(payment_id)
        if payment is None:
            raise StripeError(404, f"No such payment_intent: '{payment_id}'", code="resource_missing", param=param)
        return payment

    def _search_payments(self, query: str) -> list[StripeObject]:
        """Return the payments with a value of metadata, newest first, at once: https://docs.stripe.com/search"""
        asked = re.fullmatch(r"""metadata\[(["'])(.+?)\1\]:(["'])(.*)\3""", query)
        if asked is None:
            raise StripeError(400, f"We could not parse {query!r}. Use metadata['order_id']:'X'.", param="query")
        return [one for one in self.payments.values() if one["metadata"].get(asked[2]) == asked[4]][::-1]

    # refunds ----------------------------------------------------------------------------------------------------------
    def create_refund(self, asked: StripeObject, key: str | None = None) -> StripeObject:
        """Make a refund of `amount`, or of what is left, and return it with its first status. Raises StripeError."""
        return self._answer_once(key, {"object": "refund", **asked}, partial(self._create_refund, asked, key))

    def _create_refund(self, asked: StripeObject, key: str | None) -> StripeObject:
        payment_id = asked["payment_intent"]
        payment = self._find_payment(payment_id, "payment_intent")
        if payment["status"] != "succeeded":
            raise StripeError(400, "Nothing is left to refund.", code="payment_intent_invalid")
        if (left := self.remaining_amount(payment)) < 1:
            raise StripeError(400, "Nothing is left to refund.", code="charge_already_refunded")
        if any(one["status"] in UNDECIDED for one in self.disputes_of(payment_id)):
            raise StripeError(400, "The customer's bank disputes the payment.", code="charge_disputed")
        refund = {"amount": left, "currency": payment["currency"], **asked}
        if refund["amount"] > left:
            raise StripeError(400, "The amount is greater than the remaining amount.", param="amount")
        refund |= {"id": self.new_id("re", refund), "charge": charge_id(payment_id), "created": int(self.now())}
        by_method = REFUND_STATUSES.get(payment["payment_method"] or "", ("succeeded",))
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

    def open_dispute(
        self,
        payment_id: str,
        amount: int,
        metadata: Mapping[str, str],
        reason: str = "fraudulent",
        *,
        inquiry: bool = False,
    ) -> StripeObject:
        """Open a dispute (chargeback), which takes its amount from the shop at once, or an inquiry."""
        currency, created = self._find_payment(payment_id)["currency"], int(self.now())
        dispute: StripeObject = {"object": "dispute", "payment_intent": payment_id, "charge": charge_id(payment_id)}
        dispute |= {"amount": amount, "currency": currency, "created": created, "livemode": False, "reason": reason}
        dispute |= {"metadata": metadata, "balance_transactions": [], "is_charge_refundable": inquiry}
        dispute |= {"enhanced_eligibility_types": [], "evidence": {"enhanced_evidence": {}}}
        dispute["evidence_details"] = {
            "due_by": created + DISPUTE_SECONDS,
            "enhanced_eligibility": {},
            "has_evidence": False,
            "past_due": False,
            "submission_count": 0,
            "submission_method": "not_submitted",
        }
        dispute |= {"status": INQUIRY[0] if inquiry else UNDECIDED[0], "id": self.new_id("dp", dispute)}
        return self._change_dispute(dispute, ("created",) if inquiry else ("created", "funds_withdrawn"))

    def change_dispute(self, dispute_id: str, action: str, metadata: Mapping[str, str] | None = None) -> StripeObject:
        """Apply an action of DISPUTE_ACTIONS, maybe with other `metadata`. A lost one takes its amount. Raises
        StripeError.
        """
        dispute = self.disputes.get(dispute_id)
        if dispute is None:
            raise StripeError(404, f"No such dispute: '{dispute_id}'", code="resource_missing", param="dispute")
        metadata = dispute["metadata"] if metadata is None else metadata
        statuses, events = DISPUTE_ACTIONS[action]
        if dispute["status"] not in statuses:
            raise StripeError(400, f"The dispute is {dispute['status']}, but {action} needs {' or '.join(statuses)}.")
        changed = {**dispute, "status": statuses[dispute["status"]], "metadata": metadata}
        if action == "submit":
            count = dispute["evidence_details"]["submission_count"] + 1
            details = {"has_evidence": True, "submission_count": count, "submission_method": "manual"}
            changed["evidence_details"] = {**dispute["evidence_details"], **details}
        return self._change_dispute(changed, events)

    def _change_dispute(self, dispute: StripeObject, events: Sequence[str]) -> StripeObject:
        for event, sign, fee in (("funds_withdrawn", -1, DISPUTE_FEE), ("funds_reinstated", 1, 0)):
            if event in events:
                moved = self._stripe_balance_transaction(dispute, sign * dispute["amount"], fee)
                dispute = {**dispute, "balance_transactions": [*dispute["balance_transactions"], moved]}
                dispute["is_charge_refundable"] = False
        for event in events:
            self._change(f"charge.dispute.{event}", dispute)
        return dispute

    def _stripe_balance_transaction(self, dispute: StripeObject, amount: int, fee: int) -> StripeObject:
        """Return the movement of money that a dispute causes, in Stripe's format."""
        kind, now = "dispute" if amount < 0 else "dispute_reversal", int(self.now())
        fees = {"amount": fee, "currency": dispute["currency"], "description": "Dispute fee", "type": "stripe_fee"}
        moved = {"amount": amount, "fee": fee, "net": amount - fee, "fee_details": [fees] if fee else []}
        moved |= {
            "object": "balance_transaction",
            "type": "adjustment",
            "reporting_category": kind,
            "status": "pending",
        }
        moved |= {"created": now, "available_on": now, "currency": dispute["currency"], "balance_type": "payments"}
        return {"id": self.new_id("txn", dispute), **moved, "source": dispute["id"], "description": None}

    def apply_event(self, event: StripeObject) -> None:
        """Store the object of an event, and the answer to its idempotency key. Raises LookupError or TypeError."""
        about, key = event["data"]["object"], event["request"]["idempotency_key"]
        self._store(about)
        if key and event["type"] == PAYMENT_EVENTS["requires_payment_method"]:
            self.answers[key] = event["created"], _declined(about)
        elif key:
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
    for name in form:
        if name not in PAYMENT_FIELDS and not name.startswith("metadata["):
            known = ", ".join(sorted(PAYMENT_FIELDS))
            why = f"Received unknown parameter: {name}. This provider knows {known} and metadata."
            raise StripeError(400, why, code="parameter_unknown", param=name)
    currency, metadata = form.get("currency", "").lower(), _parse_metadata(form)
    asked = {**_parse_amount(form), "currency": currency, "metadata": metadata}
    if not currency:
        raise StripeError(400, "Missing required param: currency.", code="parameter_missing", param="currency")
    if currency not in MINIMUM_AMOUNTS:
        why = f"Invalid currency: {currency}. Use one of {', '.join(sorted(MINIMUM_AMOUNTS))}."
        raise StripeError(400, why, param="currency")
    if (least := MINIMUM_AMOUNTS[currency]) > asked["amount"]:
        why = f"The amount must be at least {least} minor units of {currency}."
        raise StripeError(400, why, code="amount_too_small", param="amount")
    if not re.fullmatch(r"[\x20-\x7e]{1,500}", metadata.get("order_id", "")):
        raise StripeError(400, "Send amount (in minor units), currency and metadata[order_id].")
    return {**asked, **({"payment_method": form["payment_method"]} if form.get("payment_method") else {})}


def _parse_refund(form: dict[str, str]) -> StripeObject:
    asked = {"payment_intent": form.get("payment_intent", ""), "metadata": _parse_metadata(form)}
    reason = _parse_choice(form, "reason", REFUND_REASONS)
    return {**asked, "reason": reason, **(_parse_amount(form) if "amount" in form else {})}


def _parse_choice(form: dict[str, str], name: str, choices: Sequence[str]) -> str | None:
    """Return a field of a form that has one of these values, or None if the form lacks it. Raises StripeError."""
    value = form.get(name)
    if value is not None and value not in choices:
        raise StripeError(400, f"Invalid {name}: must be one of {', '.join(choices)}.", param=name)
    return value


def _parse_amount(form: dict[str, str]) -> StripeObject:
    """Return the amount in a form, a positive number of minor units such as cents. Raises StripeError."""
    amount = form.get("amount", "")
    if not amount:
        raise StripeError(400, "Missing required param: amount.", code="parameter_missing", param="amount")
    if not re.fullmatch("[0-9]{1,12}", amount) or not int(amount):
        why = "amount must be a positive whole number of minor units."
        raise StripeError(400, why, code="parameter_invalid_integer", param="amount")
    return {"amount": int(amount)}


def _unexpected_state(payment: StripeObject, verb: str, allowed: Sequence[str]) -> StripeError:
    why = f"You cannot {verb} this PaymentIntent because it has a status of {payment['status']}"
    if payment["status"] in allowed:
        why = f"You cannot {verb} this PaymentIntent because it's missing a payment method"
    why = f"{why}. The status must be one of {', '.join(allowed)}."
    return StripeError(400, why, code="payment_intent_unexpected_state", payment_intent=payment)


def _possible_actions(dispute: StripeObject) -> list[str]:
    return [action for action, (statuses, _) in DISPUTE_ACTIONS.items() if dispute["status"] in statuses]


def _declined(payment: StripeObject) -> StripeError:
    error = payment["last_payment_error"]
    codes = {"code": error["code"], "decline_code": error["decline_code"]}
    return StripeError(402, error["message"], error["type"], **codes, payment_intent=payment)


def _parse_metadata(form: dict[str, str]) -> dict[str, str]:
    return {name[9:-1]: value for name, value in form.items() if name.startswith("metadata[")}
