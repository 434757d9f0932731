"""Credit notes: staff list the orders with money that left without a credit note, and have one issued."""

from typing import Self

from aws_lambda_powertools.event_handler import Response

from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import Id, IdempotencyKey, Listed, ResponseModel, command_response
from functions.api.http.paging import Cursor, Limit, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.model import entities as e
from functions.model.errors import NotAllowed, TooMuch, WrongState
from functions.shop import credit_notes
from functions.shop.lists import ListRequest

router = Router()


class UndocumentedAnswer(ResponseModel):
    """An order with money that left the shop without a credit note, such as by a lost dispute."""

    order_id: str
    customer_id: str
    amount: int
    currency: str
    placed_at: str

    @classmethod
    def of(cls, item: e.Order) -> Self:
        """Return the answer for an order."""
        return cls.combine(item, amount=item.undocumented)


class CreditDue(ResponseModel):
    """The amount of the credit note that is issued for an order."""

    order_id: str
    amount: int
    currency: str


@router.get("/credit-notes/missing", openapi_extensions=problem_responses(NotAllowed))
def undocumented_orders(caller: SignedIn, limit: Limit = 20, cursor: Cursor = None) -> Listed[UndocumentedAnswer]:
    """List the orders with money that left the shop without a credit note, by the time of placing. For staff.

    The money left by a lost dispute, or by a refund that a person made at the payment provider.
    """
    request = ListRequest(caller, limit, cursor)
    return list_answer(credit_notes.list_undocumented_orders(shop(), request), UndocumentedAnswer.of)


@router.post(
    "/orders/<order_id>/credit-notes",
    status_code=201,
    openapi_extensions=problem_responses(NotAllowed, WrongState, TooMuch),
)
def issue_credit_note(caller: SignedIn, order_id: Id, key: IdempotencyKey) -> Response[CreditDue]:
    """Have a credit note issued for the money of an order that left without one. For staff.

    Once for each Idempotency-Key. The credit note comes a moment later. For returns, cancelled goods and refunds, the
    shop issues it without this request.
    """
    return command_response(credit_notes.document_withdrawal(shop(), caller, key, order_id), CreditDue)
