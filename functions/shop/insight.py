"""What sells: the totals that the stream keeps (functions/model/counters.py), a moment behind the orders."""

from dataclasses import dataclass
from itertools import groupby

from functions.dynamodb.keys import Instant
from functions.dynamodb.store import Page
from functions.model.entities import SHARDS, BestSeller, Metric
from functions.model.patterns import A23, A24, A23b
from functions.model.table import METRIC
from functions.shop.shop import Caller, Shop


@dataclass(frozen=True)
class Point:
    """What was sold in one minute and one currency, less what came back in it."""

    minute: Instant
    currency: str
    orders: int
    units: int
    revenue: int


def best_sellers(shop: Shop, season: str, limit: int, after: str | None) -> Page[BestSeller]:
    """A23: what was sold most of with the orders paid for in a month, best first. Anybody may see which they are."""
    return shop.table.query(A23, season=season, limit=limit, after=after)


def best_sellers_with_units(shop: Shop, caller: Caller, season: str, limit: int, after: str | None) -> Page[BestSeller]:
    """A23, with how many were sold. For staff. Raises NotAllowed."""
    caller.must_be("staff")
    return best_sellers(shop, season, limit, after)


def units_of_product(shop: Shop, caller: Caller, product_id: str, limit: int, after: str | None) -> Page[BestSeller]:
    """A23b: how many of a product were sold, month by month, newest first. For staff. Raises NotAllowed."""
    caller.must_be("staff")
    return shop.table.query(A23b, product_id=product_id, limit=limit, after=after)


def metrics(shop: Shop, caller: Caller, since: str, until: str, limit: int, after: str | None) -> Page[Point]:
    """A24: points of minutes in [since, until), oldest first, the shards' parts added up. For staff. Raises NotAllowed.

    A page never ends between two parts of a point.
    """
    caller.must_be("staff")
    parts = shop.table.query(A24, since=since, until=until, limit=(limit + 1) * SHARDS, after=after)
    together = [list(group) for _, group in groupby(parts.items, lambda part: (part.minute, part.currency))]
    shown = limit if parts.after is None else min(limit, len(together) - 1)  # of the last some parts may follow
    rest = together[shown:]
    return Page(tuple(map(_point, together[:shown])), _before(rest[0][0]) if rest else parts.after)


def _before(part: Metric) -> str:
    """Just below the keys of all parts of a point."""
    return METRIC.templates("main")[1].begin({"minute": part.minute, "currency": part.currency})[0]


def _point(parts: list[Metric]) -> Point:
    return Point(
        minute=parts[0].minute,
        currency=parts[0].currency,
        orders=sum(part.orders for part in parts),
        units=sum(part.units for part in parts),
        revenue=sum(part.revenue for part in parts),
    )
