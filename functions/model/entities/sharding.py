"""Spread the items of a busy partition key over several partitions (shards)."""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Shards:
    """The number of shards (partitions) over which the items of a busy partition key are spread.

    `written`: over how many shards new items are spread. `read`: how many shards each query reads.

    During a deploy, older and newer code run at the same time. So raise `read` first and deploy; then raise `written`
    and deploy. Then no query misses an item. To lower the numbers, lower `written` first, and lower `read` only when no
    item is left in the shards with higher numbers.
    """

    read: int
    written: int

    def __post_init__(self) -> None:
        if not 1 <= self.written <= self.read:
            raise ValueError(f"items are spread over {self.written} shards, but queries read {self.read}")

    def of(self, id: str) -> str:
        """Return the number of the shard of an id, as text."""
        return str(hash_to_bucket(id, self.written))


STATUS_SHARDS = Shards(read=4, written=4)
"""The shards of each list of open orders with the same status."""
ERASURE_SHARDS = Shards(read=4, written=4)
"""The shards of the list of unfinished erasures."""
ACTIVITY_SHARDS = Shards(read=4, written=4)
"""The shards of the list with the activity of all customers on a day."""
FEED_SHARDS = Shards(read=4, written=4)
"""The shards of the lists of all orders, documents, payments and refunds by time.

The primary key of a FeedEntry contains the shard. So if `written` is raised, an operator's repair of copies writes a
second entry for a payment or refund whose shard changes.
"""
SALES_MINUTE_SHARDS = Shards(read=8, written=8)
"""The shards of the sales of a minute. Each shard has a sum of its own.

Each batch of paid orders changes these sums in a transaction, and DynamoDB runs one transaction at a time on an item.
To list minutes costs a request, and at least half a read unit, for each shard.
"""
SEASON_SHARDS = Shards(read=4, written=4)
"""The shards of the list with the best sellers of a month."""
SALE_SHARDS = Shards(read=1, written=1)
"""The shards of the list with the sales of a product.

A partition takes 1,000 writes a second. If a product is ordered more often, raise the number of shards. Each order
stores the value of `written` at the time when it was placed.
"""


def hash_to_bucket(id: str, buckets: int) -> int:
    """Return the number of the bucket (0 to `buckets` - 1) that an id belongs to.

    The bucket is computed from a hash, because the ids themselves are unevenly distributed.
    """
    return int.from_bytes(hashlib.sha256(id.encode()).digest()[:4], "big") % buckets
