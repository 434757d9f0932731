"""Sales statistics: best sellers, and revenue per minute.

A stream reader keeps the totals (functions/model/totals.py). The totals lag slightly behind the orders.
"""

from dataclasses import dataclass
from itertools import groupby

from functions.dynamodb.keys import Instant
from functions.dynamodb.table import QueryPage
from functions.model.entities import SHARD_COUNT, BestSeller, Metric
from functions.model.patterns import BEST_SELLERS_BY_SEASON, SALES_BY_MINUTE, UNITS_OF_PRODUCT_AND_SEASON
from functions.model.table import METRIC
from functions.shop.shop import Caller, Shop


@dataclass(frozen=True)
class MetricPoint:
    """Orders, units and revenue of one minute in one currency. The returns of that minute are subtracted."""

    minute: Instant
    currency: str
    orders: int
    units: int
    revenue: int


def list_best_sellers(shop: Shop, season: str, limit: int, after: str | None) -> QueryPage[BestSeller]:
    """Return the best-selling products of a month, best first (access pattern A23). Anyone may call it.

    An order counts in the month in which it was paid.
    """
    return shop.table.query(BEST_SELLERS_BY_SEASON, season=season, limit=limit, after=after)


def list_best_sellers_with_units(
    shop: Shop, caller: Caller, season: str, limit: int, after: str | None
) -> QueryPage[BestSeller]:
    """Return the best-selling products with the units sold (access pattern A23). Only staff may call it.

    Raises NotAllowed.
    """
    caller.require_group("staff")
    return list_best_sellers(shop, season, limit, after)


def list_units_of_product(
    shop: Shop, caller: Caller, product_id: str, limit: int, after: str | None
) -> QueryPage[BestSeller]:
    """Return the monthly units sold of a product, newest first (access pattern A23b). Only staff may call it.

    Raises NotAllowed.
    """
    caller.require_group("staff")
    return shop.table.query(UNITS_OF_PRODUCT_AND_SEASON, product_id=product_id, limit=limit, after=after)


def list_metric_points(
    shop: Shop, caller: Caller, since: str, until: str, limit: int, after: str | None
) -> QueryPage[MetricPoint]:
    """Return the sales per minute and currency in [since, until), oldest first (access pattern A24).

    Only staff may call it. The table stores each point as several items, one per shard; a point is the sum of these
    items. A page never ends between two items of the same point. Raises NotAllowed.
    """
    caller.require_group("staff")
    parts = shop.table.query(SALES_BY_MINUTE, since=since, until=until, limit=(limit + 1) * SHARD_COUNT, after=after)
    grouped = [list(group) for _, group in groupby(parts.items, lambda part: (part.minute, part.currency))]
    shown = limit if parts.after is None else min(limit, len(grouped) - 1)  # omit the last group: it may be incomplete
    rest = grouped[shown:]
    return QueryPage(tuple(map(_merge_shards, grouped[:shown])), _position_before(rest[0][0]) if rest else parts.after)


def _position_before(part: Metric) -> str:
    """Return a cursor that starts the next page before all items of this point."""
    return METRIC.templates("main")[1].render_prefix({"minute": part.minute, "currency": part.currency})[0]


def _merge_shards(parts: list[Metric]) -> MetricPoint:
    return MetricPoint(
        minute=parts[0].minute,
        currency=parts[0].currency,
        orders=sum(part.orders for part in parts),
        units=sum(part.units for part in parts),
        revenue=sum(part.revenue for part in parts),
    )
