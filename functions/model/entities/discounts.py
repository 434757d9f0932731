"""Discount codes and how often they can still be redeemed."""

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant
from functions.model.money import Currency


@entity
class Discount:
    """A discount code that reduces the price of an order's goods by a percentage.

    `minimum`: the lowest price of the goods for which the code is valid, in minor units of `currency`. `limit`: how
    often the code can be redeemed; None means without limit. `parts`: the number of RedemptionPool items over which the
    limit is split, so that no single item is written too often.
    """

    code: str
    rate: int
    valid_from: Instant
    created_at: Instant
    updated_at: Instant
    valid_until: Instant | None = None
    minimum: int = 0
    currency: Currency | None = None
    limit: int | None = None
    parts: int = 1
    version: int = 1


@entity
class RedemptionPool:
    """Counts the redemptions that are left in one part of a discount code's limit.

    The limit may be split over several RedemptionPool items, so that no single item is written too often. `part`: the
    number of this item, from 0. `left`: how many redemptions this item still allows.
    """

    code: str
    part: int
    left: int
    created_at: Instant
    version: int = 1
