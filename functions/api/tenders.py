"""Paying an order with credit, and what has been paid for it. Cards pay through the payment provider."""

from aws_lambda_powertools.event_handler import Response
from pydantic import ConfigDict

from functions.api.accounts import CODE, Amount, Paying
from functions.api.context import SignedIn, shop
from functions.api.fields import Answer, Id, IdempotencyKey, Listed, answered
from functions.api.order_answers import PaymentAnswer
from functions.api.paging import Asked, Cursor, Limit, page
from functions.api.problems import refuses
from functions.api.routes import Router
from functions.model.errors import InsufficientFunds, TooManyPayments, TooMuch, WrongCurrency, WrongState
from functions.model.patterns import A12c
from functions.shop import tenders

router = Router()


class CreditPayment(Paying):
    """How much of what is due; all of it, or all that is there, if nothing is said. In the order's currency."""

    amount: Amount | None = None
    model_config = ConfigDict(json_schema_extra={"examples": [{"gift_card": CODE["code"], "amount": 1000}]})


class PaidWithCredit(Answer):
    """What was paid, and what was `due` then: nothing, once the order is paid."""

    order_id: str
    payment_id: str
    account_id: str
    amount: int
    currency: str
    due: int


@router.post(
    "/orders/<order_id>/payments",
    status_code=201,
    openapi_extensions=refuses(WrongState, WrongCurrency, TooMuch, InsufficientFunds, TooManyPayments),
)
def pay_with_credit(
    caller: SignedIn, order_id: Id, key: IdempotencyKey, payment: CreditPayment
) -> Response[PaidWithCredit]:
    """Pay an order, or a part of what is due, with its customer's store credit or a gift card.

    Once for each Idempotency-Key. The rest can be paid by card, or with other credit.
    """
    done = tenders.pay_with_credit(shop(), caller, key, order_id, payment.source, payment.amount)
    return answered(done, PaidWithCredit)


@router.get("/orders/<order_id>/payments", openapi_extensions=refuses(WrongState))
def payments_of_order(
    caller: SignedIn, order_id: Id, limit: Limit = 20, cursor: Cursor = None
) -> Listed[PaymentAnswer]:
    """All that was paid for an order, or tried to be, by card and with credit, and what of it was given back."""
    return page(
        Asked(caller, A12c, (order_id,), cursor),
        lambda after: tenders.payments_of_order(shop(), caller, order_id, limit, after),
        PaymentAnswer.of,
    )
