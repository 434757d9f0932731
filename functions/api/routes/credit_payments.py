"""Pay an order with credit, and list the payments of an order. Card payments go through the payment provider."""

from aws_lambda_powertools.event_handler import Response

from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import Id, IdempotencyKey, Listed, ResponseModel, command_response, examples
from functions.api.http.paging import Cursor, Limit, Order, Since, Until, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.api.routes.accounts import GIFT_CARD_EXAMPLE, Amount, PaymentSourceBody
from functions.api.routes.order_responses import PaymentAnswer, PaymentEntryAnswer
from functions.api.routes.payments import ProviderId
from functions.model.errors import InsufficientFunds, NotAllowed, TooManyPayments, TooMuch, WrongCurrency, WrongState
from functions.shop import credit_payments, feed, payments
from functions.shop.lists import ListRequest
from functions.shop.shop import ArchiveUnavailable

router = Router()


class CreditPayment(PaymentSourceBody):
    """A payment with credit. `amount`: the amount to pay, in minor units (cents) of the order's currency.

    If `amount` is omitted, the payment covers the due amount, or as much as the balance of the account allows.
    """

    amount: Amount | None = None
    model_config = examples({"gift_card": GIFT_CARD_EXAMPLE["code"], "amount": 1000})


class ClaimAnswer(ResponseModel):
    """The order to which a payment belongs. `order_id`: as the provider reported it, even if no such order exists."""

    payment_id: str
    order_id: str


class PaidWithCredit(ResponseModel):
    """A payment with credit. `due`: the amount that is still to be paid for the order after this payment."""

    order_id: str
    payment_id: str
    account_id: str
    amount: int
    currency: str
    due: int


@router.post(
    "/orders/<order_id>/payments",
    status_code=201,
    openapi_extensions=problem_responses(WrongState, WrongCurrency, TooMuch, InsufficientFunds, TooManyPayments),
)
def pay_with_credit(
    caller: SignedIn, order_id: Id, key: IdempotencyKey, payment: CreditPayment
) -> Response[PaidWithCredit]:
    """Pay an order fully or partly, with the customer's store credit or with a gift card.

    The payment happens once for each Idempotency-Key. An amount that is still due can be paid by card or with other
    credit.
    """
    done = credit_payments.pay_with_credit(shop(), caller, key, order_id, payment.source, payment.amount)
    return command_response(done, PaidWithCredit)


@router.get("/orders/<order_id>/payments", openapi_extensions=problem_responses(ArchiveUnavailable))
def payments_of_order(
    caller: SignedIn, order_id: Id, limit: Limit = 20, cursor: Cursor = None
) -> Listed[PaymentAnswer]:
    """List the card and credit payments of an order, and how much of each payment was refunded.

    Failed payments are included. Staff can also use the id of an unknown order. The list then has the payments that
    arrived with this order id but matched no order.
    """
    request = ListRequest(caller, limit, cursor)
    return list_answer(credit_payments.list_payments_of_order(shop(), request, order_id), PaymentAnswer.of)


@router.get("/payments", openapi_extensions=problem_responses(NotAllowed))
def all_payments(
    caller: SignedIn,
    since: Since = None,
    until: Until = None,
    order: Order = "newest",
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[PaymentEntryAnswer]:
    """List all payments by the time when they came, also failed and unmatched payments. For staff.

    A new payment appears after a moment.
    """
    request = ListRequest(caller, limit, cursor, since, until)
    return list_answer(feed.list_payments(shop(), request, oldest_first=order == "oldest"), PaymentEntryAnswer.of_entry)


@router.get("/payments/<payment_id>/order", openapi_extensions=problem_responses(NotAllowed))
def order_of_payment(caller: SignedIn, payment_id: ProviderId) -> ClaimAnswer:
    """Show the order to which a payment of the payment provider belongs. For staff.

    If the provider reports one payment for several orders, the payment belongs to the first order. The route answers
    404 until the provider reports the money.
    """
    return ClaimAnswer.of(payments.get_payment_claim(shop(), caller, payment_id))
