"""Returns: goods that came back to the warehouse, and what is given back for them."""

from collections.abc import Sequence
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from pydantic import AfterValidator, ConfigDict, Field

from functions.api.context import SignedIn, shop
from functions.api.fields import Id, IdempotencyKey, Listed, RequestModel, command_response
from functions.api.order_answers import ReturnAnswer
from functions.api.orders import ProductQuantity, check_unique_products
from functions.api.paging import Cursor, Limit, ListRequest, paginate
from functions.api.problems import problem_responses
from functions.api.routes import Router
from functions.model.errors import AlreadyExists, NotAllowed, ReturnWindowOver, TooMuch, WrongState
from functions.model.patterns import RETURNS_OF_ORDER
from functions.shop import returns
from functions.shop.placing import MAX_PRODUCTS
from functions.shop.refunds import RefundDestination

router = Router()


class ReturnedLine(ProductQuantity):
    """A product and how many of it came back. `restock`: they can be sold again."""

    restock: bool


class NewReturn(RequestModel):
    """What came back. `refund_shipping`: give that back too, if it was not yet. `to`: where the money goes, to where
    it came from, or onto the customer's store credit."""

    lines: Annotated[
        list[ReturnedLine], Field(min_length=1, max_length=MAX_PRODUCTS), AfterValidator(check_unique_products)
    ]
    refund_shipping: bool = False
    to: RefundDestination = "original"
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "lines": [{"product_id": "mug", "quantity": 1, "restock": True}],
                    "refund_shipping": False,
                    "to": "original",
                }
            ]
        }
    )


class ReturnMade(ReturnAnswer):
    """Goods that came back, and the refunds that this made."""

    refund_ids: Sequence[str]


@router.post(
    "/orders/<order_id>/returns",
    status_code=201,
    openapi_extensions=problem_responses(NotAllowed, WrongState, ReturnWindowOver, TooMuch, AlreadyExists),
)
def return_goods(caller: SignedIn, order_id: Id, key: IdempotencyKey, new: NewReturn) -> Response[ReturnMade]:
    """Goods of a delivered order came back: once for each Idempotency-Key. For the warehouse and staff.

    What was paid for them is given back, less their share of a discount; of the whole order it is never more than what
    is kept for it, and what the customer's bank disputes waits until that is won.
    """
    lines = {line.product_id: returns.ReturnedGoods(line.quantity, line.restock) for line in new.lines}
    done = returns.return_goods(shop(), caller, key, order_id, lines, refund_shipping=new.refund_shipping, to=new.to)
    return command_response(done, ReturnMade)


@router.get("/orders/<order_id>/returns", openapi_extensions=problem_responses(WrongState))
def returns_of_order(caller: SignedIn, order_id: Id, limit: Limit = 20, cursor: Cursor = None) -> Listed[ReturnAnswer]:
    """What came back of an order. For who placed it and staff."""
    return paginate(
        ListRequest(caller, RETURNS_OF_ORDER, (order_id,), cursor),
        lambda after: returns.list_returns_of_order(shop(), caller, order_id, limit, after),
        ReturnAnswer.of,
    )
