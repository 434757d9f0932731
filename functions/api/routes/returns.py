"""Returns: goods that came back to the warehouse, and their refunds."""

from collections.abc import Sequence
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from pydantic import AfterValidator, Field

from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import Id, IdempotencyKey, Listed, command_response, examples
from functions.api.http.paging import Cursor, Limit, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.api.routes.order_responses import ReturnAnswer
from functions.api.routes.orders import ProductQuantity, check_unique_products
from functions.api.routes.refunds import ExplanationBody
from functions.model.errors import AlreadyExists, NotAllowed, ReturnWindowOver, TooMuch, WrongState
from functions.shop import returns
from functions.shop.lists import ListRequest
from functions.shop.placing import MAX_PRODUCTS
from functions.shop.refunds import RefundDestination
from functions.shop.shop import ArchiveUnavailable

router = Router()


class ReturnedLine(ProductQuantity):
    """A product and how many pieces came back. `restock`: whether these pieces can be sold again."""

    restock: bool


class NewReturn(ExplanationBody):
    """The returned goods. `refund_shipping`: true to refund the shipping costs, too, if they were not refunded before.

    `to`: the destination of the refund, which is the original payment method (`original`) or the customer's store
    credit (`credit`). `cause`, `note`: why the goods came back; the mail about the refund shows them.
    """

    lines: Annotated[
        list[ReturnedLine], Field(min_length=1, max_length=MAX_PRODUCTS), AfterValidator(check_unique_products)
    ]
    refund_shipping: bool = False
    to: RefundDestination = "original"
    model_config = examples(
        {"lines": [{"product_id": "mug", "quantity": 1, "restock": True}], "refund_shipping": False, "to": "original"}
    )


class ReturnMade(ReturnAnswer):
    """Returned goods. `refund_ids`: the refunds of this return."""

    refund_ids: Sequence[str]


@router.post(
    "/orders/<order_id>/returns",
    status_code=201,
    openapi_extensions=problem_responses(NotAllowed, WrongState, ReturnWindowOver, TooMuch, AlreadyExists),
)
def return_goods(caller: SignedIn, order_id: Id, key: IdempotencyKey, new: NewReturn) -> Response[ReturnMade]:
    """Record returned goods of a delivered order, once for each Idempotency-Key. For the warehouse and staff.

    The refund is the price of the goods minus their share of a discount. The refunds of an order never exceed the money
    that the shop still holds for the order. If the customer's bank disputes an amount, this amount is refunded after
    the shop wins the dispute.
    """
    lines = {line.product_id: returns.ReturnedGoods(line.quantity, line.restock) for line in new.lines}
    done = returns.return_goods(
        shop(),
        caller,
        key,
        order_id,
        lines,
        refund_shipping=new.refund_shipping,
        to=new.to,
        explanation=new.explanation,
    )
    return command_response(done, ReturnMade)


@router.get("/orders/<order_id>/returns", openapi_extensions=problem_responses(ArchiveUnavailable))
def returns_of_order(caller: SignedIn, order_id: Id, limit: Limit = 20, cursor: Cursor = None) -> Listed[ReturnAnswer]:
    """List the returns of an order. For the customer of the order and staff."""
    request = ListRequest(caller, limit, cursor)
    return list_answer(returns.list_returns_of_order(shop(), request, order_id), ReturnAnswer.of)
