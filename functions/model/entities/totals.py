"""Totals (ratings, best sellers, sales per minute), and the items that record which amounts were added to them."""

from collections.abc import Mapping

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant
from functions.model.entities.sharding import SEASON_SHARDS


@entity
class Rating:
    """A product's rating: the number of reviews and the sum of their stars."""

    product_id: str
    reviews: int
    stars: int
    version: int = 1


@entity
class BestSeller:
    """The number of pieces of a product sold in one month. Pieces returned in that month are subtracted.

    `season`: the month, such as 2026-11. A sale is included in the month in which the order was paid.
    """

    product_id: str
    season: str
    pieces: int
    version: int = 1

    @property
    def rank(self) -> int | None:
        """The number of pieces by which the product is ranked in the index of best sellers.

        None if the number is 0 or negative. The item is then not in the index.
        """
        return self.pieces if self.pieces > 0 else None

    @property
    def shard(self) -> str:
        return SEASON_SHARDS.of(self.product_id)


@entity
class SalesMinute:
    """The sales in one minute and currency, less the returns in that minute.

    Each minute has several items, one for each shard (a group of orders). So no single item is written too often.
    """

    shard: str
    minute: Instant
    currency: str
    orders: int
    pieces: int
    revenue: int
    ttl: int
    version: int = 1


@entity
class Contribution:
    """Records the amounts that one source item (order, return, review) added to totals.

    With this record, no amount is added twice. `source`: the id of the source item. `source_type`: its type. `as_of`:
    the creation time of the source item, and its version when its amounts were added, as one text. `amounts`: the added
    amounts, by the key of the total and the name of the field.
    """

    source: str
    source_type: str
    as_of: str
    amounts: Mapping[str, Mapping[str, int]]
    created_at: Instant
    ttl: int | None = None
    version: int = 1
