"""Stripe's webhook: verify the signature of an event, and convert the event to what the shop records.

The metadata of a payment has the shop's order_id. The metadata of a refund that this shop requested also has the
refund_id. A dispute, or a refund that a person makes at the provider, normally has no such metadata: the shop finds the
order by the payment. If the payment is not known yet, the shop keeps the event, and staff can see it.

An inquiry is a question of the customer's bank before a dispute. It withdraws no money, so its events are only logged.
If the inquiry becomes a dispute, Stripe sends a withdrawal event, and this event opens the dispute in the shop.

https://docs.stripe.com/api/events/object
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from functions.model.money import MAX_MINOR_UNITS
from functions.runtime.log import log
from functions.shop.disputes import DisputeOutcome, ProviderDisputeEvent
from functions.shop.external_refunds import ExternalRefundEvent
from functions.shop.payment_provider import BadSignature, InvalidProviderEvent, RefundOutcome
from functions.shop.payments import NO_ORDER, ProviderPaymentEvent
from functions.shop.provider_events import ShopEvent
from functions.shop.refund_processing import ProviderRefundEvent

T = TypeVar("T", bound=BaseModel)
TOLERANCE_SECONDS = 300
ORDER_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
REFUND_ID = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,254}"
PROVIDER_ID = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}"
"""The length is limited, because a provider id becomes part of an idempotency key of at most 255 characters.

https://docs.stripe.com/api/idempotent_requests
"""
INQUIRY_PREFIX = "warning_"
"""The status of an inquiry starts with this prefix: https://docs.stripe.com/api/disputes/object

An inquiry sends events of the same types as a dispute: https://docs.stripe.com/disputes/how-disputes-work
"""
LOST_STATUSES = ("lost", "prevented")
"""The statuses of a dispute whose money stays with the customer. The card network refunds a prevented dispute.

https://docs.stripe.com/api/disputes/object
"""
REFUND_STATUSES: Mapping[str, RefundOutcome] = {
    "pending": "pending",
    "requires_action": "pending",
    "succeeded": "succeeded",
    "failed": "failed",
    "canceled": "failed",
}
"""The refund state in this shop, by Stripe's refund state: https://docs.stripe.com/api/refunds/object"""


@dataclass(frozen=True)
class StripeEvent:
    """An event of Stripe. `object`: a payment, dispute, refund or charge, as the `type` of the event determines."""

    id: str
    type: str
    object: Mapping[str, Any]


def verify_signature(header: str, body: str, secrets: Sequence[str], now: datetime) -> None:
    """Check that the body was signed with one of the secrets at most 300 seconds ago. Raises BadSignature if not.

    `header`: the value of Stripe-Signature, `t=<epoch seconds>,v1=<hex>[,v1=<hex>]`. Each v1 value is an HMAC-SHA256 of
    "<t>.<raw body>". While a secret is being replaced, the old and the new secret are valid. Values of other schemes,
    such as v0, are ignored. The clocks of the provider and the shop may differ, so a time up to 300 seconds in the
    future is accepted too.

    https://docs.stripe.com/webhooks/signature
    """
    pairs = [part.strip().partition("=") for part in header.split(",")]
    times = [value for name, _, value in pairs if name == "t"]
    given = [value for name, _, value in pairs if name == "v1"]
    if len(times) != 1 or not re.fullmatch("[0-9]{1,12}", times[0]) or not given:
        raise BadSignature("the header must have the form t=<epoch seconds>,v1=<signature>")
    signed = f"{times[0]}.{body}".encode()
    right = [hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest().encode() for secret in secrets]
    matches = [hmac.compare_digest(one.encode(errors="replace"), other) for one in given for other in right]
    if not any(matches):
        raise BadSignature("no signature in the header matches this body and a valid secret")
    if abs(now.timestamp() - int(times[0])) > TOLERANCE_SECONDS:
        raise BadSignature(f"the timestamp is more than {TOLERANCE_SECONDS} seconds away from the current time")


def parse_event(event: StripeEvent) -> Sequence[ShopEvent]:
    """Return what the shop must record. That is nothing for an event of another type.

    Equal deliveries of an event give equal results, because the shop compares them. Raises InvalidProviderEvent if the
    object does not fit its type.
    """
    parse = EVENT_PARSERS.get(event.type)
    return [found for found in parse(event) if found] if parse else []


# the objects of Stripe ------------------------------------------------------------------------------------------------
def _check_provider_id(value: str) -> str:
    if not re.fullmatch(PROVIDER_ID, value):
        raise ValueError("must be an id of at most 200 characters")
    return value


ProviderId = Annotated[str, AfterValidator(_check_provider_id)]
Amount = Annotated[int, Field(ge=0, le=MAX_MINOR_UNITS)]
Currency = Annotated[str, StringConstraints(pattern="^[a-z]{3}$")]
Reason = Annotated[str, StringConstraints(max_length=200)]
"""An error code of Stripe, such as insufficient_funds."""


class StripeObject(BaseModel):
    """The base class of events and objects. Unknown fields are ignored, because Stripe may add fields at any time."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, hide_input_in_errors=True, defer_build=True)


class PaymentError(StripeObject):
    code: Reason | None = None


class PaymentIntent(StripeObject):
    """A payment. `amount_received`: the amount that was paid."""

    id: ProviderId
    amount: Amount
    amount_received: Amount | None = None
    currency: Currency
    metadata: dict[str, str] | None = None
    last_payment_error: PaymentError | None = None
    cancellation_reason: Reason | None = None


class Dispute(StripeObject):
    """A dispute: the customer's bank asks for a payment back. `status`: won, lost, or another text while it is open."""

    id: ProviderId
    payment_intent: ProviderId | None = None
    amount: Amount
    currency: Currency
    status: str
    reason: Reason | None = None
    metadata: dict[str, str] | None = None


class Refund(StripeObject):
    id: ProviderId
    payment_intent: ProviderId | None = None
    amount: Amount | None = None
    currency: Currency | None = None
    status: str | None = None
    failure_reason: Reason | None = None
    metadata: dict[str, str] | None = None


class RefundList(StripeObject):
    data: Sequence[Refund] = ()


class Charge(StripeObject):
    """A charge. Stripe sends its refunds only in API versions before 2022-11-15.

    https://docs.stripe.com/upgrades#2022-11-15
    """

    refunds: RefundList | None = None


# from Stripe's objects to the shop's events ---------------------------------------------------------------------------
def _payment_parser(
    outcome: Literal["authorised", "succeeded", "failed"],
) -> Callable[[StripeEvent], Sequence[ShopEvent | None]]:
    def parse(event: StripeEvent) -> Sequence[ShopEvent]:
        intent = _parse_object(event, PaymentIntent)
        came = intent.amount_received if outcome == "succeeded" else None
        failed = intent.last_payment_error.code if intent.last_payment_error else intent.cancellation_reason
        payment = ProviderPaymentEvent(
            event_id=event.id,
            payment_id=intent.id,
            order_id=_own_id(intent.metadata, "order_id") or NO_ORDER,
            outcome=outcome,
            amount=intent.amount if came is None else came,
            currency=intent.currency.upper(),
            reason=failed if outcome == "failed" else None,
        )
        return [payment]

    return parse


def _parse_dispute(event: StripeEvent) -> Sequence[ShopEvent]:
    dispute = _parse_object(event, Dispute)
    ids = {"dispute_id": dispute.id, "payment_id": dispute.payment_intent, "event_id": event.id}
    log.warning("dispute_event_received", extra={**ids, "type": event.type, "status": dispute.status})
    if dispute.payment_intent is None or dispute.status.startswith(INQUIRY_PREFIX):
        return []
    outcome: DisputeOutcome = "opened"
    if event.type == "charge.dispute.closed" or dispute.status == "prevented":
        outcome = "lost" if dispute.status in LOST_STATUSES else "won"
    update = ProviderDisputeEvent(
        event_id=event.id,
        dispute_id=dispute.id,
        payment_id=dispute.payment_intent,
        order_id=_own_id(dispute.metadata, "order_id") or NO_ORDER,
        outcome=outcome,
        amount=dispute.amount,
        currency=dispute.currency.upper(),
        reason=dispute.reason,
    )
    return [update]


def _parse_refund(event: StripeEvent) -> Sequence[ShopEvent | None]:
    return [_refund_event(event.id, _parse_object(event, Refund))]


def _parse_charge(event: StripeEvent) -> Sequence[ShopEvent | None]:
    """Return the refunds of a charge, each under an event id of its own."""
    refunds = _parse_object(event, Charge).refunds
    return [_refund_event(f"{event.id}-{refund.id}", refund) for refund in (refunds.data if refunds else ())]


def _refund_event(event_id: str, refund: Refund) -> ShopEvent | None:
    """Return the event of a refund, or None after a log line if the refund is not of this shop or names no payment."""
    metadata, status = refund.metadata or {}, REFUND_STATUSES.get(refund.status or "")
    order_id, refund_id = _own_id(metadata, "order_id"), _own_id(metadata, "refund_id", REFUND_ID)
    attempt, payment_id = metadata.get("attempt", "1"), refund.payment_intent
    reason = (refund.failure_reason or refund.status) if status == "failed" else None
    ids = {"provider_id": refund.id, "payment_id": payment_id, "event_id": event_id}
    if status and order_id and refund_id and re.fullmatch("[0-9]{1,6}", attempt):
        return ProviderRefundEvent(event_id, order_id, refund_id, int(attempt), refund.id, status, reason)
    if status and "refund_id" not in metadata and payment_id and refund.amount is not None and refund.currency:
        log.warning("external_refund_received", extra={**ids, "status": refund.status})
        paid, currency, order_id = refund.amount, refund.currency.upper(), order_id or NO_ORDER
        return ExternalRefundEvent(event_id, refund.id, payment_id, order_id, status, paid, currency, reason)
    log.warning("unknown_refund_ignored", extra=ids)
    return None


EVENT_PARSERS: Mapping[str, Callable[[StripeEvent], Sequence[ShopEvent | None]]] = {
    "payment_intent.amount_capturable_updated": _payment_parser("authorised"),
    "payment_intent.succeeded": _payment_parser("succeeded"),
    "payment_intent.payment_failed": _payment_parser("failed"),
    "payment_intent.canceled": _payment_parser("failed"),
    "charge.dispute.created": _parse_dispute,
    "charge.dispute.funds_withdrawn": _parse_dispute,
    "charge.dispute.closed": _parse_dispute,
    "refund.created": _parse_refund,
    "refund.updated": _parse_refund,
    "refund.failed": _parse_refund,
    "charge.refund.updated": _parse_refund,
    "charge.refunded": _parse_charge,
}
"""The function for each event type that the shop records. The webhook endpoint at Stripe subscribes to these types.

https://docs.stripe.com/api/events/types
"""


def _parse_object(event: StripeEvent, kind: type[T]) -> T:
    try:
        return kind.model_validate(event.object)
    except ValidationError as error:
        wrong = [
            (".".join(map(str, ("data", "object", *found["loc"]))), found["msg"].removeprefix("Value error, "))
            for found in error.errors()
        ]
        raise InvalidProviderEvent(*wrong) from None


def _own_id(metadata: Mapping[str, str] | None, name: str, pattern: str = ORDER_ID) -> str | None:
    """Return an id from the metadata of an object, or None if the id is missing or does not match `pattern`."""
    found = (metadata or {}).get(name, "")
    return found if re.fullmatch(pattern, found) else None
