"""Totals, and what each item contributes to them."""

from collections.abc import Mapping

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant
from functions.model.entities.sharding import shard_of


@entity
class Rating:
    """A product's rating: the number of reviews and the sum of their stars."""

    product_id: str
    reviews: int
    stars: int
    version: int = 1


@entity
class BestSeller:
    """The number of units of a product sold in one month. Units returned in that month are subtracted.

    A sale counts in the month of the order's payment.
    """

    product_id: str
    season: str
    units: int
    version: int = 1

    @property
    def rank(self) -> int | None:
        """The units that the product is ranked by; None if the units are not positive. A product without rank is not in
        the index."""
        return self.units if self.units > 0 else None

    @property
    def shard(self) -> str:
        return shard_of(self.product_id)


@entity
class Metric:
    """The sales in one minute and currency, less the returns in that minute. Each shard's item counts a subset of the
    orders."""

    shard: str
    minute: Instant
    currency: str
    orders: int
    units: int
    revenue: int
    ttl: int
    version: int = 1


@entity
class Counted:
    """Records which contributions of one source item the totals include. `of`: the source item's type.

    `amounts`: the contributed amounts by total. `as_of`: the creation time and version of the source item. `gone`: the
    source item was deleted.
    """

    source: str
    of: str
    as_of: str
    amounts: Mapping[str, Mapping[str, int]]
    created_at: Instant
    gone: bool = False
    ttl: int | None = None
    version: int = 1
