"""Sales statistics: best sellers, and revenue per minute.

A Lambda that reads the table's stream updates these totals, so they lag slightly behind the orders.
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
    """The numbers of orders and units sold and the revenue of one minute in one currency, minus the minute's returns.

    `revenue`: in the currency's smallest unit, for example cents.
    """

    minute: Instant
    currency: str
    orders: int
    units: int
    revenue: int


def list_best_sellers(shop: Shop, season: str, limit: int, after: str | None) -> QueryPage[BestSeller]:
    """Return the best-selling products of a month, best first (access pattern A23). Anyone may call it.

    `season`: the month, for example 2026-11. An order counts in the month in which it was paid.
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
    """Return the sales per minute and currency, oldest first (access pattern A24).

    The list contains the minutes from `since` until just before `until`. To prevent a hot key, the table stores the
    sales of a minute and currency as several items, one for each shard. Each returned point is the sum of these items,
    and all items of a point are on the same page. Raises NotAllowed if the caller is not staff.
    """
    caller.require_group("staff")
    parts = shop.table.query(SALES_BY_MINUTE, since=since, until=until, limit=(limit + 1) * SHARD_COUNT, after=after)
    grouped = [list(group) for _, group in groupby(parts.items, lambda part: (part.minute, part.currency))]
    shown = limit if parts.after is None else min(limit, len(grouped) - 1)  # the last group may be incomplete: omit it
    rest = grouped[shown:]
    return QueryPage(tuple(map(_merge_shards, grouped[:shown])), _position_before(rest[0][0]) if rest else parts.after)


def _position_before(part: Metric) -> str:
    """Return the position just before all items of a point, so that the next page starts with this point.

    `part`: any item of the point; a point is the sales of one minute in one currency.
    """
    return METRIC.templates("main")[1].render_prefix({"minute": part.minute, "currency": part.currency})[0]


def _merge_shards(parts: list[Metric]) -> MetricPoint:
    return MetricPoint(
        minute=parts[0].minute,
        currency=parts[0].currency,
        orders=sum(part.orders for part in parts),
        units=sum(part.units for part in parts),
        revenue=sum(part.revenue for part in parts),
    )
