"""Discount codes. Staff creates, shows and ends codes. Customers send a code with an order."""

from typing import Annotated, Self, cast

from aws_lambda_powertools.event_handler import Response
from pydantic import Field

from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import DiscountCode, Listed, Price, RequestModel, ResponseModel, examples
from functions.api.http.paging import Cursor, Limit, Timestamp, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.dynamodb.keys import Instant
from functions.model.errors import AlreadyExists, NotAllowed
from functions.model.money import Currency
from functions.model.pricing import HUNDRED_PERCENT
from functions.shop import discounts
from functions.shop.discounts import MAX_PARTS, DiscountUsage
from functions.shop.lists import ListRequest

router = Router()


class NewDiscount(RequestModel):
    """A new discount code. The code takes `rate` off the price of an order's goods.

    The code is valid from `valid_from` (now if omitted) until just before `valid_until` (no end if omitted).
    `minimum`: the minimum value of the goods in `currency`. If it is set, orders in other currencies cannot use the
    code.
    `limit`: how often the code can be redeemed. `parts`: the number of table items that share the limit. Use more than
    one item if very many customers will redeem the code at the same time.
    """

    code: DiscountCode
    rate: Annotated[int, Field(ge=1, le=HUNDRED_PERCENT, description="In hundredths of a percent: 1500 is 15 %.")]
    valid_from: Timestamp | None = None
    valid_until: Timestamp | None = None
    minimum: Price | None = None
    currency: Currency | None = None
    limit: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    parts: Annotated[int, Field(ge=1, le=MAX_PARTS)] = 1
    model_config = examples(
        {"code": "SPRING", "rate": 1000},
        {
            "code": "FIRST50",
            "rate": 2000,
            "valid_from": "2026-11-21",
            "valid_until": "2026-12-01",
            "minimum": 5000,
            "currency": "EUR",
            "limit": 50,
        },
    )


class DiscountInList(ResponseModel):
    """A discount code in a list."""

    code: str
    rate: int
    valid_from: str
    valid_until: str | None
    minimum: int
    currency: str | None
    limit: int | None
    created_at: str
    updated_at: str
    version: int


class DiscountAnswer(DiscountInList):
    """A discount code. `left`: how often the code can still be redeemed, or null if there is no limit."""

    left: int | None

    @classmethod
    def from_usage(cls, usage: DiscountUsage) -> Self:
        """Return the answer for a discount code. `usage`: the code, and the number of redemptions that are left."""
        return cls.combine(usage.discount, left=usage.left)


@router.post("/discounts", status_code=201, openapi_extensions=problem_responses(NotAllowed, AlreadyExists))
def create_discount(caller: SignedIn, new: NewDiscount) -> Response[DiscountAnswer]:
    """Create a discount code. For staff."""
    made = discounts.create_discount(
        shop(),
        caller,
        new.code,
        new.rate,
        valid_from=cast(Instant | None, new.valid_from),
        valid_until=cast(Instant | None, new.valid_until),
        minimum=new.minimum or 0,
        currency=new.currency,
        limit=new.limit,
        parts=new.parts,
    )
    where = {"Location": f"/discounts/{made.discount.code}"}
    return Response(201, "application/json", DiscountAnswer.from_usage(made), headers=where)


@router.get("/discounts", openapi_extensions=problem_responses(NotAllowed))
def list_discounts(caller: SignedIn, limit: Limit = 20, cursor: Cursor = None) -> Listed[DiscountInList]:
    """List all discount codes, sorted by code. For staff. Changes are visible after a moment."""
    request = ListRequest(caller, limit, cursor)
    return list_answer(discounts.list_discounts(shop(), request), DiscountInList.of)


@router.get("/discounts/<code>", openapi_extensions=problem_responses(NotAllowed))
def discount(caller: SignedIn, code: DiscountCode) -> DiscountAnswer:
    """Show a discount code and how often the code can still be redeemed. For staff."""
    return DiscountAnswer.from_usage(discounts.get_discount_usage(shop(), caller, code))


@router.post("/discounts/<code>/end", openapi_extensions=problem_responses(NotAllowed))
def end_discount(caller: SignedIn, code: DiscountCode) -> DiscountAnswer:
    """End a discount code. Orders that already use the code keep their discount. Safe to repeat. For staff."""
    return DiscountAnswer.from_usage(discounts.end_discount(shop(), caller, code))
