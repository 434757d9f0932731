"""Sales statistics: the best-selling products of each month, and the sales of each minute."""

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query

from functions.api.http.context import ANONYMOUS, SignedIn, shop
from functions.api.http.fields import Id, Listed, ResponseModel, text_matching
from functions.api.http.paging import Cursor, Limit, Since, Until, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.model.errors import NotAllowed
from functions.model.totals import season_of
from functions.shop import sales_statistics
from functions.shop.lists import ListRequest

router = Router()
Season = Annotated[
    Annotated[str, text_matching(r"^[0-9]{4}-(0[1-9]|1[0-2])$", "must be a month, such as 2026-11")] | None,
    Query(description="A month (UTC), such as 2026-11. Default: the current month."),
]


class BestSellerAnswer(ResponseModel):
    """A best-selling product."""

    product_id: str


class PiecesAnswer(ResponseModel):
    """How many pieces of a product were sold in a month, minus the pieces returned in that month.

    An order counts in the month in which it is paid. `season`: the month, such as 2026-11.
    """

    product_id: str
    season: str
    pieces: int


class PointAnswer(ResponseModel):
    """The sales of one minute in one currency, minus the returns in that minute. `revenue`: in minor units (cents)."""

    minute: str
    currency: str
    orders: int
    pieces: int
    revenue: int


@router.get("/best-sellers")
def best_sellers(season: Season = None, limit: Limit = 10, cursor: Cursor = None) -> Listed[BestSellerAnswer]:
    """List the best sellers of a month, best first."""
    month = season or season_of(shop().now_instant())
    request = ListRequest(ANONYMOUS, limit, cursor)
    return list_answer(sales_statistics.list_best_sellers(shop(), request, month), BestSellerAnswer.of)


@router.get("/insight/best-sellers", openapi_extensions=problem_responses(NotAllowed))
def best_sellers_with_pieces(
    caller: SignedIn, season: Season = None, limit: Limit = 10, cursor: Cursor = None
) -> Listed[PiecesAnswer]:
    """List the best sellers of a month with the number of pieces sold, best first. For staff."""
    month = season or season_of(shop().now_instant())
    request = ListRequest(caller, limit, cursor)
    return list_answer(sales_statistics.list_best_sellers_with_pieces(shop(), request, month), PiecesAnswer.of)


@router.get("/insight/products/<product_id>", openapi_extensions=problem_responses(NotAllowed))
def pieces_of_product(
    caller: SignedIn, product_id: Id, limit: Limit = 12, cursor: Cursor = None
) -> Listed[PiecesAnswer]:
    """List how many pieces of a product were sold in each month, newest first. For staff."""
    request = ListRequest(caller, limit, cursor)
    return list_answer(sales_statistics.list_pieces_of_product(shop(), request, product_id), PiecesAnswer.of)


@router.get("/insight/sales-by-minute", openapi_extensions=problem_responses(NotAllowed))
def metrics(
    caller: SignedIn, since: Since = None, until: Until = None, limit: Limit = 60, cursor: Cursor = None
) -> Listed[PointAnswer]:
    """List the number of orders, sold pieces and revenue of each minute, oldest first. For staff.

    The values are kept for 30 days. A minute without sales is not in the list.
    """
    request = ListRequest(caller, limit, cursor, since, until)
    return list_answer(sales_statistics.list_sales_minutes(shop(), request), PointAnswer.of)
