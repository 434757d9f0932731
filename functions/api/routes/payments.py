"""Webhook for the payment provider's signed events, in Stripe's format: https://docs.stripe.com/api/events/object

The metadata of a payment has the shop's order_id. The metadata of a refund that this shop requested also has the
refund_id. A dispute, or a refund that a person makes at the provider, normally has no such metadata: the shop finds the
order by the payment. If the payment is not known yet, the shop keeps the event, and staff can see it.

An inquiry is a question of the customer's bank before a dispute. It withdraws no money, so its events are only
acknowledged and logged. If the inquiry becomes a dispute, the provider sends a withdrawal event, and this event opens
the dispute in the shop.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal, TypeVar

from aws_lambda_powertools.event_handler import Request
from aws_lambda_powertools.event_handler.openapi.params import Header
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from functions.api.http import webhook_signature
from functions.api.http.context import log_order_id, shop
from functions.api.http.fields import ID_CHARACTERS, ID_PATTERN, ResponseModel, text_matching
from functions.api.http.problems import (
    BadSignature,
    MalformedRequest,
    field_path,
    problem_responses,
    validation_message,
)
from functions.api.http.router import Router
from functions.model.errors import IdempotencyKeyReused
from functions.model.money import MAX_MINOR_UNITS
from functions.runtime import environment, secrets
from functions.runtime.log import log
from functions.shop import disputes, external_refunds, payment_provider, payments, refund_processing
from functions.shop.idempotency import IdempotentResult as Kept

T = TypeVar("T", bound=BaseModel)
router = Router()

# The length is limited, because a provider id becomes part of an idempotency key of at most 255 characters:
# https://docs.stripe.com/api/idempotent_requests
ProviderId = Annotated[
    str, text_matching(r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$", f"must be 1 to 200 colons, {ID_CHARACTERS}")
]
REFUND_ID = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}$"
Amount = Annotated[int, Field(ge=0, le=MAX_MINOR_UNITS)]
ProviderCurrency = Annotated[str, text_matching("^[a-z]{3}$", "must be three lower-case letters, such as eur")]
Reason = Annotated[str, StringConstraints(max_length=200)]
"""An error code of the payment provider, such as insufficient_funds."""


# The models below describe the events of the payment provider.
class ProviderModel(BaseModel):
    """The base class for all objects in an event of the payment provider.

    Unknown fields are ignored, because the provider may add fields at any time.
    """

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, hide_input_in_errors=True, defer_build=True)


class PaymentError(ProviderModel):
    """The error of a failed payment. `code`: the provider's error code."""

    code: Reason | None = None


class PaymentIntent(ProviderModel):
    """A payment. Its metadata has the order_id of the shop's order. `amount_received`: the amount that was paid."""

    id: ProviderId
    amount: Amount
    amount_received: Amount | None = None
    currency: ProviderCurrency
    metadata: dict[str, str] = {}
    last_payment_error: PaymentError | None = None
    cancellation_reason: Reason | None = None


class DisputeObject(ProviderModel):
    """A dispute: the customer's bank asks for a payment back.

    `status`: won, lost, or another text while the dispute is open. The status of an inquiry starts with warning_.

    https://docs.stripe.com/api/disputes/object
    """

    id: ProviderId
    payment_intent: ProviderId | None = None
    amount: Amount
    currency: ProviderCurrency
    status: str
    reason: Reason | None = None
    metadata: dict[str, str] = {}


class RefundObject(ProviderModel):
    """A refund. If this shop requested the refund, its metadata has the shop's order_id and refund_id.

    https://docs.stripe.com/api/refunds/object
    """

    id: ProviderId
    payment_intent: ProviderId | None = None
    amount: Amount | None = None
    currency: ProviderCurrency | None = None
    status: str | None = None
    failure_reason: Reason | None = None
    metadata: dict[str, str] | None = None


class RefundList(ProviderModel):
    """The refunds of a charge."""

    data: Sequence[RefundObject] = ()


class ChargeObject(ProviderModel):
    """A charge. The provider sends the refunds of the charge only in API versions before 2022-11-15.

    https://docs.stripe.com/upgrades#2022-11-15
    """

    refunds: RefundList | None = None


class EventData(ProviderModel):
    """The object of an event, such as a payment. The `type` of the event determines the fields of the object."""

    object: dict[str, Any]


class ProviderEvent(ProviderModel):
    """An event of the payment provider."""

    id: ProviderId
    type: str
    data: EventData
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "evt_1",
                    "type": "payment_intent.succeeded",
                    "data": {
                        "object": {
                            "id": "pi_1",
                            "amount": 2500,
                            "currency": "eur",
                            "metadata": {"order_id": "mrd3qzkwmw6hdzcvn3mbfvxkpu"},
                        }
                    },
                }
            ]
        }
    )


class Received(ResponseModel):
    """The answer to an event of the payment provider: the state of the payment or refund.

    All fields except `received` are null if the event belongs to no payment or refund of this shop.
    """

    received: Literal[True] = True
    payment_id: str | None = None
    refund_id: str | None = None
    status: str | None = None
    reason: str | None = None


# The code below processes the events of the payment provider.
PaymentOutcome = Literal["authorised", "succeeded", "failed"]
REFUND_STATUSES: Mapping[str, payment_provider.RefundOutcome] = {
    "pending": "pending",
    "requires_action": "pending",
    "succeeded": "succeeded",
    "failed": "failed",
    "canceled": "failed",
}
"""The refund state in this shop, by the provider's refund state: https://docs.stripe.com/api/refunds/object"""
INQUIRY_PREFIX = "warning_"
"""The status of an inquiry starts with this prefix: https://docs.stripe.com/api/disputes/object

An inquiry is a question of the customer's bank before a dispute: https://docs.stripe.com/disputes/how-disputes-work
An inquiry sends events of the same types as a dispute: https://docs.stripe.com/api/events/types
"""


def _payment_recorder(outcome: PaymentOutcome) -> Callable[[ProviderEvent], Kept | None]:
    def record(event: ProviderEvent) -> Kept:
        intent = _parse_object(event, PaymentIntent)
        came = intent.amount_received if outcome == "succeeded" else None
        failed = intent.last_payment_error.code if intent.last_payment_error else intent.cancellation_reason
        update = payments.ProviderPaymentEvent(
            event_id=event.id,
            payment_id=intent.id,
            order_id=_own_id(intent.metadata, "order_id") or payments.NO_ORDER,
            outcome=outcome,
            amount=intent.amount if came is None else came,
            currency=intent.currency.upper(),
            reason=failed if outcome == "failed" else None,
        )
        # The last argument identifies the content of the event, so it must be equal in every delivery of the event.
        # Pass the parsed fields and not the body: the body contains a count of deliveries, which changes.
        kept = payments.record_payment(shop(), update, asdict(update))
        if kept.result["status"] == "UNMATCHED" and not kept.replayed:
            ids = {"payment_id": update.payment_id, "order_id": update.order_id, "event_id": update.event_id}
            log.warning("unmatched_payment_recorded", extra=ids)
        return kept

    return record


def _record_dispute(event: ProviderEvent) -> Kept | None:
    dispute = _parse_object(event, DisputeObject)
    ids = {"dispute_id": dispute.id, "payment_id": dispute.payment_intent, "event_id": event.id}
    log.warning("dispute_event_received", extra={**ids, "type": event.type, "status": dispute.status})
    if dispute.payment_intent is None or dispute.status.startswith(INQUIRY_PREFIX):
        return None
    closed: Literal["won", "lost"] = "lost" if dispute.status == "lost" else "won"
    outcome = closed if event.type == "charge.dispute.closed" else "opened"
    update = disputes.ProviderDisputeEvent(
        event_id=event.id,
        dispute_id=dispute.id,
        payment_id=dispute.payment_intent,
        order_id=_own_id(dispute.metadata, "order_id") or payments.NO_ORDER,
        outcome=outcome,
        amount=dispute.amount,
        currency=dispute.currency.upper(),
        reason=dispute.reason,
    )
    return disputes.record_dispute(shop(), update)


def _record_refund(event: ProviderEvent) -> Kept | None:
    return _record_refund_object(event.id, _parse_object(event, RefundObject))


def _record_refund_object(event_id: str, refund: RefundObject) -> Kept | None:
    metadata = refund.metadata or {}
    order_id, refund_id = _own_id(metadata, "order_id"), _own_id(metadata, "refund_id", REFUND_ID)
    attempt, status = metadata.get("attempt", "1"), REFUND_STATUSES.get(refund.status or "")
    if status is not None and "refund_id" not in metadata:
        return _record_external_refund(event_id, refund, status)
    if order_id is None or refund_id is None or status is None or not re.fullmatch("[0-9]{1,6}", attempt):
        log.warning("unknown_refund_ignored", extra={"provider_id": refund.id, "event_id": event_id})
        return None
    reason = (refund.failure_reason or refund.status) if status == "failed" else None
    update = refund_processing.ProviderRefundEvent(
        event_id, order_id, refund_id, int(attempt), refund.id, status, reason
    )
    kept = refund_processing.record_refund(shop(), update)
    if kept.result["status"] in (None, "FAILED") and not kept.replayed:
        log.warning("refund_failed", extra={"order_id": order_id, **kept.result})
    return kept


def _record_external_refund(event_id: str, refund: RefundObject, status: payment_provider.RefundOutcome) -> Kept | None:
    """Record a refund that a person made at the provider. If it names no payment, only log and acknowledge it."""
    ids = {"provider_id": refund.id, "payment_id": refund.payment_intent, "event_id": event_id}
    if refund.payment_intent is None or refund.amount is None or refund.currency is None:
        log.warning("unknown_refund_ignored", extra=ids)
        return None
    update = external_refunds.ExternalRefundEvent(
        event_id=event_id,
        provider_id=refund.id,
        payment_id=refund.payment_intent,
        order_id=_own_id(refund.metadata or {}, "order_id") or payments.NO_ORDER,
        status=status,
        amount=refund.amount,
        currency=refund.currency.upper(),
        reason=(refund.failure_reason or refund.status) if status == "failed" else None,
    )
    log.warning("external_refund_received", extra={**ids, "status": refund.status})
    return external_refunds.record_external_refund(shop(), update)


def _record_charge_refunds(event: ProviderEvent) -> Kept | None:
    """Record the refunds in an event about a charge, each under an event id of its own."""
    refunds = _parse_object(event, ChargeObject).refunds
    kept = None
    for refund in refunds.data if refunds else ():
        kept = _record_refund_object(f"{event.id}-{refund.id}", refund)
    return kept


EVENT_HANDLERS: Mapping[str, Callable[[ProviderEvent], Kept | None]] = {
    "payment_intent.amount_capturable_updated": _payment_recorder("authorised"),
    "payment_intent.succeeded": _payment_recorder("succeeded"),
    "payment_intent.payment_failed": _payment_recorder("failed"),
    "payment_intent.canceled": _payment_recorder("failed"),
    "charge.dispute.created": _record_dispute,
    "charge.dispute.funds_withdrawn": _record_dispute,
    "charge.dispute.closed": _record_dispute,
    "refund.created": _record_refund,
    "refund.updated": _record_refund,
    "refund.failed": _record_refund,
    "charge.refund.updated": _record_refund,
    "charge.refunded": _record_charge_refunds,
}
"""The function for each event type that the webhook processes. All other types are acknowledged and ignored."""


@router.post("/payments/events", openapi_extensions=problem_responses(BadSignature, IdempotencyKeyReused))
def payment_event(
    request: Request,
    event: ProviderEvent,
    signed: Annotated[str, Header(alias="Stripe-Signature", description="t=…,v1=…[,v1=…]")],
) -> Received:
    """Receive an event of the payment provider about a payment, dispute or refund.

    Each event is processed once, even if it is delivered several times. If a dispute or refund arrives before its
    payment, it is kept until the payment arrives.
    """
    period = int(shop().now().timestamp() // secrets.SECRET_CACHE_SECONDS)
    live = secrets.get_valid_secrets(environment.load_environment(environment.ApiEnvironment).webhook_secret, period)
    webhook_signature.verify_signature(signed, request.body or "", live, shop().now())
    record = EVENT_HANDLERS.get(event.type)
    metadata = event.data.object.get("metadata")
    log_order_id(request, metadata.get("order_id") if isinstance(metadata, Mapping) else None)
    kept = record(event) if record else None
    return Received(**kept.result) if kept else Received()


def _parse_object(event: ProviderEvent, kind: type[T]) -> T:
    """Parse the object of an event as the model `kind`. Raises MalformedRequest if the object does not fit."""
    try:
        return kind.model_validate(event.data.object)
    except ValidationError as error:
        wrong = [(field_path(("data", "object", *found["loc"])), validation_message(found)) for found in error.errors()]
        raise MalformedRequest(*wrong) from None


def _own_id(metadata: Mapping[str, str], name: str, pattern: str = ID_PATTERN) -> str | None:
    """Return an id from the metadata of an event, or None if the id is missing or does not match `pattern`.

    `name`: the name of the id in the metadata, such as order_id.
    """
    found = metadata.get(name, "")
    return found if re.fullmatch(pattern, found) else None
