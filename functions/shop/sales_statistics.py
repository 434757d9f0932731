"""Sales statistics: best sellers, and revenue per minute.

A Lambda that reads the table's stream updates these totals, so they lag slightly behind the orders.
"""

from dataclasses import dataclass
from itertools import groupby

from functions.dynamodb.keys import Instant
from functions.model.entities import SALES_MINUTE_SHARDS, BestSeller, SalesMinute
from functions.model.patterns import BEST_SELLERS_BY_SEASON, PIECES_OF_PRODUCT_AND_SEASON, SALES_BY_MINUTE
from functions.model.table import SALES_MINUTE
from functions.shop.lists import ListPage, ListRequest, PagedQuery, read_page
from functions.shop.shop import ShopContext


@dataclass(frozen=True)
class MinuteSales:
    """The sales in one minute and one currency, minus the goods that were returned in that minute.

    An order is a sale of the minute in which it was paid. Pieces that are cancelled later are subtracted from that
    minute. `orders`: the number of orders. `pieces`: those sold minus those returned. `revenue`: the total of the
    orders minus the refunds for returned goods, in minor units.
    """

    minute: Instant
    currency: str
    orders: int
    pieces: int
    revenue: int


def list_best_sellers(shop: ShopContext, request: ListRequest, season: str) -> ListPage[BestSeller]:
    """Return the best-selling products of a month, such as 2026-11, best first (A23). Anyone may call it."""
    return read_page(shop, request, BEST_SELLERS_BY_SEASON, season=season)


def list_best_sellers_with_pieces(shop: ShopContext, request: ListRequest, season: str) -> ListPage[BestSeller]:
    """Return the best-selling products of a month with the pieces sold, best first (A23). Raises NotAllowed."""
    request.caller.require_group("staff")
    return list_best_sellers(shop, request, season)


def list_pieces_of_product(shop: ShopContext, request: ListRequest, product_id: str) -> ListPage[BestSeller]:
    """Return how many pieces of a product were sold in each month, newest first (A23b). Raises NotAllowed."""
    request.caller.require_group("staff")
    return read_page(shop, request, PIECES_OF_PRODUCT_AND_SEASON, product_id=product_id)


def list_sales_minutes(shop: ShopContext, request: ListRequest) -> ListPage[MinuteSales]:
    """Return the sales per minute and currency in the time range, oldest first (access pattern A24). Raises NotAllowed.

    Each point is the sum of the shards in which the table stores the sales of a minute and currency.
    """
    request.caller.require_group("staff")
    paged = PagedQuery(shop, request, SALES_BY_MINUTE, {})
    parts = paged.query((request.limit + 1) * SALES_MINUTE_SHARDS.read)
    grouped = [list(group) for _, group in groupby(parts.items, lambda part: (part.minute, part.currency))]
    # Each group has the items of one minute and one currency. If the query stopped before the end, items of the last
    # group may be missing. So the last group is left for the next page.
    shown = request.limit if parts.after is None else min(request.limit, len(grouped) - 1)
    rest = grouped[shown:]
    return paged.page(map(_merge_shards, grouped[:shown]), _position_before(rest[0][0]) if rest else parts.after)


def _position_before(part: SalesMinute) -> str:
    """Return the position just before the items of one minute and currency. `part`: any of them."""
    return SALES_MINUTE.templates("main")[1].render_prefix({"minute": part.minute, "currency": part.currency})[0]


def _merge_shards(parts: list[SalesMinute]) -> MinuteSales:
    return MinuteSales(
        minute=parts[0].minute,
        currency=parts[0].currency,
        orders=sum(part.orders for part in parts),
        pieces=sum(part.pieces for part in parts),
        revenue=sum(part.revenue for part in parts),
    )
