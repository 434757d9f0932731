"""What sells: the totals that the stream keeps (functions/model/counters.py), a moment behind the orders."""

from dataclasses import dataclass
from itertools import groupby

from functions.dynamodb.keys import Instant
from functions.dynamodb.store import QueryPage
from functions.model.entities import SHARD_COUNT, BestSeller, Metric
from functions.model.patterns import BEST_SELLERS_BY_SEASON, SALES_BY_MINUTE, UNITS_OF_PRODUCT_AND_SEASON
from functions.model.table import METRIC
from functions.shop.shop import Caller, Shop


@dataclass(frozen=True)
class MetricPoint:
    """What was sold in one minute and one currency, less what came back in it."""

    minute: Instant
    currency: str
    orders: int
    units: int
    revenue: int


def list_best_sellers(shop: Shop, season: str, limit: int, after: str | None) -> QueryPage[BestSeller]:
    """A23: what was sold most of with the orders paid for in a month, best first. Anybody may see which they are."""
    return shop.table.query(BEST_SELLERS_BY_SEASON, season=season, limit=limit, after=after)


def list_best_sellers_with_units(
    shop: Shop, caller: Caller, season: str, limit: int, after: str | None
) -> QueryPage[BestSeller]:
    """A23, with how many were sold. For staff. Raises NotAllowed."""
    caller.require_group("staff")
    return list_best_sellers(shop, season, limit, after)


def list_units_of_product(
    shop: Shop, caller: Caller, product_id: str, limit: int, after: str | None
) -> QueryPage[BestSeller]:
    """A23b: how many of a product were sold, month by month, newest first. For staff. Raises NotAllowed."""
    caller.require_group("staff")
    return shop.table.query(UNITS_OF_PRODUCT_AND_SEASON, product_id=product_id, limit=limit, after=after)


def list_metric_points(
    shop: Shop, caller: Caller, since: str, until: str, limit: int, after: str | None
) -> QueryPage[MetricPoint]:
    """A24: points of minutes in [since, until), oldest first, the shards' parts added up. For staff. Raises NotAllowed.

    A page never ends between two parts of a point.
    """
    caller.require_group("staff")
    parts = shop.table.query(SALES_BY_MINUTE, since=since, until=until, limit=(limit + 1) * SHARD_COUNT, after=after)
    grouped = [list(group) for _, group in groupby(parts.items, lambda part: (part.minute, part.currency))]
    shown = limit if parts.after is None else min(limit, len(grouped) - 1)  # of the last some parts may follow
    rest = grouped[shown:]
    return QueryPage(tuple(map(_merge_shards, grouped[:shown])), _position_before(rest[0][0]) if rest else parts.after)


def _position_before(part: Metric) -> str:
    """Just below the keys of all parts of a point."""
    return METRIC.templates("main")[1].render_prefix({"minute": part.minute, "currency": part.currency})[0]


def _merge_shards(parts: list[Metric]) -> MetricPoint:
    return MetricPoint(
        minute=parts[0].minute,
        currency=parts[0].currency,
        orders=sum(part.orders for part in parts),
        units=sum(part.units for part in parts),
        revenue=sum(part.revenue for part in parts),
    )
