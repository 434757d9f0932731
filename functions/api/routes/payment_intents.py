"""Start the payment of an order at the payment provider. The Lambda payment_starter answers these routes."""

from typing import Literal

from functions.adapters import payment_provider
from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import Id, ResponseModel
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.model.errors import PaymentInProgress, PaymentNotPossible, TooManyPayments, WrongState
from functions.runtime.environment import PaymentStarterEnvironment, load_environment
from functions.shop import started_payments
from functions.shop.payment_provider import PaymentProviderUnavailable, ProviderPaymentStatus

router = Router()


class PaymentIntentAnswer(ResponseModel):
    """A payment that the customer's browser confirms with the payment provider. Its money pays the order.

    `amount`: what is due, in minor units (cents). `status`: `open` if the customer can confirm it. `client_secret` and
    `publishable_key`: what the provider's form in the browser needs. Show the client secret to nobody else.
    """

    order_id: str
    payment_id: str
    provider: Literal["stripe"] = "stripe"
    status: ProviderPaymentStatus
    amount: int
    currency: str
    client_secret: str
    publishable_key: str


@router.post(
    "/orders/<order_id>/payment-intents",
    openapi_extensions=problem_responses(
        WrongState, TooManyPayments, PaymentInProgress, PaymentNotPossible, PaymentProviderUnavailable
    ),
)
def start_payment(caller: SignedIn, order_id: Id) -> PaymentIntentAnswer:
    """Start the payment of what is due for an order, by card or another method of the payment provider.

    Safe to repeat: as long as the same amount is due, the answer has the same payment. If credit paid a part meanwhile,
    the earlier payment is cancelled, and the answer has a new one. The order is paid when the provider reports the
    money, usually within a second after the customer confirmed the payment.
    """
    settings = load_environment(PaymentStarterEnvironment)
    provider = payment_provider.get_payment_provider(settings.provider_url, settings.provider_secret)
    made = started_payments.start_payment(shop(), provider, caller, order_id)
    return PaymentIntentAnswer.combine(made, order_id=order_id, publishable_key=settings.publishable_key)
