"""What the payment provider tells, by signed webhook, in Stripe's shape: https://docs.stripe.com/api/events/object"""

import json
import re
from dataclasses import asdict
from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler import Request
from aws_lambda_powertools.event_handler.openapi.params import Header
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from functions import environment, wiring
from functions.api import signature
from functions.api.context import shop
from functions.api.fields import ID, Answer
from functions.api.problems import BadSignature, Malformed, field_of, refuses, why_of
from functions.api.routes import Router
from functions.model.errors import KeyReused
from functions.model.money import MOST_MINOR_UNITS
from functions.shop import payments

router = Router()

SECRETS_KEPT_SECONDS = 300
"""How long after a rotation a warm Lambda may still know only the secrets of before."""

ProviderId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}$")]
Amount = Annotated[int, Field(ge=0, le=MOST_MINOR_UNITS)]
OUTCOMES: dict[str, Literal["succeeded", "failed"]] = {
    "payment_intent.succeeded": "succeeded",
    "payment_intent.payment_failed": "failed",
}
"""The types of event that are about money; all others are acknowledged, and nothing is done."""


class Theirs(BaseModel):
    """A part of the provider's event: they may add fields whenever they like."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, hide_input_in_errors=True, defer_build=True)


class PaymentIntent(Theirs):
    """A payment. Our order stands in its metadata; `amount_received` is what came, once it did."""

    id: ProviderId
    amount: Amount
    amount_received: Amount | None = None
    currency: Annotated[str, StringConstraints(pattern="^[a-z]{3}$")]
    metadata: dict[str, str] = {}


class EventData(Theirs):
    """What the event is about; of which shape, its type says."""

    object: dict[str, Any]


class ProviderEvent(Theirs):
    """An event of the provider."""

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


class Received(Answer):
    """What came of an event; all null where it is of a type that is not about money."""

    received: Literal[True] = True
    payment_id: str | None = None
    status: str | None = None
    reason: str | None = None


@router.post("/payments/events", openapi_extensions=refuses(BadSignature, KeyReused))
def payment_event(
    request: Request,
    event: ProviderEvent,
    signed: Annotated[str, Header(alias="Stripe-Signature", description="t=…,v1=…[,v1=…]")],
) -> Received:
    """What the payment provider tells of a payment. Each event is taken once, however often it comes."""
    period = int(shop().now().timestamp() // SECRETS_KEPT_SECONDS)
    secrets = json.loads(wiring.secret(environment.current(environment.Api).webhook_secret, period))
    live = [secret for secret in (secrets.get("current"), secrets.get("previous")) if secret]
    signature.verify(signed, request.body or "", live, shop().now())
    if event.type not in OUTCOMES:
        return Received()
    told = _told(event)
    # What was told, not the body: the provider counts its deliveries in the body, so that no two are alike.
    answer = payments.record_payment(shop(), told, asdict(told))
    if answer.result["status"] == "UNMATCHED" and not answer.replayed:
        ids = {"payment_id": told.payment_id, "order_id": told.order_id, "event_id": told.event_id}
        wiring.log.warning("unmatched payment", extra=ids)
    return Received(**answer.result)


def _told(event: ProviderEvent) -> payments.Told:
    try:
        intent = PaymentIntent.model_validate(event.data.object)
    except ValidationError as error:
        wrong = [(field_of(("data", "object", *found["loc"])), why_of(found)) for found in error.errors()]
        raise Malformed(*wrong) from None
    outcome = OUTCOMES[event.type]
    came = intent.amount_received if outcome == "succeeded" else None
    order_id = intent.metadata.get("order_id", "")
    return payments.Told(
        event_id=event.id,
        payment_id=intent.id,
        order_id=order_id if re.fullmatch(ID, order_id) else payments.NO_ORDER,
        outcome=outcome,
        amount=intent.amount if came is None else came,
        currency=intent.currency.upper(),
    )
