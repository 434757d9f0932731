"""Webhook for the payment provider's signed events, in Stripe's format: https://docs.stripe.com/api/events/object"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler import Request
from aws_lambda_powertools.event_handler.openapi.params import Header

from functions.adapters import stripe_webhook
from functions.adapters.stripe_webhook import StripeEvent, StripeObject
from functions.api.http.context import log_order_id, shop
from functions.api.http.fields import ID_CHARACTERS, ResponseModel, examples, text_matching
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.model.errors import IdempotencyKeyReused
from functions.runtime import environment, secrets
from functions.runtime.log import log
from functions.shop.idempotency import IdempotentResult
from functions.shop.payment_provider import BadSignature
from functions.shop.provider_events import ShopEvent, record_event

router = Router()
ProviderId = Annotated[
    str, text_matching(f"^{stripe_webhook.PROVIDER_ID}$", f"must be 1 to 200 colons, {ID_CHARACTERS}")
]


class EventData(StripeObject):
    """The object of an event, such as a payment. The `type` of the event determines the fields of the object."""

    object: dict[str, Any]


class ProviderEvent(StripeObject):
    """An event of the payment provider."""

    id: ProviderId
    type: str
    data: EventData
    model_config = examples(
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
    stripe_webhook.verify_signature(signed, request.body or "", live, shop().now())
    found = event.data.object
    metadata = found.get("metadata")
    log_order_id(request, metadata.get("order_id") if isinstance(metadata, Mapping) else None)
    kept = None
    for one in stripe_webhook.parse_event(StripeEvent(event.id, event.type, found)):
        kept = record_event(shop(), one)
        _warn(one, kept)
    return Received(**kept.result) if kept else Received()


def _warn(event: ShopEvent, kept: IdempotentResult) -> None:
    """Log the first result of an event if a person must look: money that matches no order, or a failed refund."""
    ids = {name: value for name, value in vars(event).items() if name.endswith("_id")}
    if kept.replayed:
        return
    if kept.result["status"] == "UNMATCHED":
        log.warning("unmatched_payment_recorded", extra=ids)
    elif "refund_id" in ids and kept.result["status"] in (None, "FAILED"):
        log.warning("refund_failed", extra={**ids, **kept.result})
