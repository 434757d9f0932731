"""Copies of an order in other partitions, and the log entries of its changes."""

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant
from functions.model.entities.orders import OrderStatus, order_number
from functions.model.entities.sharding import shard_of
from functions.model.money import Currency


@entity
class OrderSummary:
    """A copy of an order in the partition of its customer, for the customer's list of orders.

    `items`: the number of pieces; None for an archived order. `archived`: whether the order was moved to the S3
    archive.
    """

    customer_id: str
    order_id: str
    placed_at: Instant
    status: OrderStatus
    currency: Currency
    total: int
    version: int
    items: int | None = None
    archived: bool = False


@entity
class OrderLine:
    """A copy of one line of a paid order, for sales lists by product and by customer.

    `quantity`: the ordered pieces less the dropped pieces (cancelled before shipping). It is 0 if the whole order was
    cancelled.
    """

    order_id: str
    product_id: str
    customer_id: str
    placed_at: Instant
    name: str
    quantity: int
    price: int
    currency: Currency
    version: int
    returned: int = 0


@entity
class TimelineEvent:
    """A log entry for one change of an order.

    `version`: the order's version after the change. A gap in the versions shows that an entry is missing, or that the
    order was archived in between.
    """

    order_id: str
    at: Instant
    change_id: str
    event: str
    status: OrderStatus
    version: int

    @property
    def number(self) -> str | None:
        """The number of the order, as part of the key of the index that finds orders by their number.

        None for all entries but the first: one entry of each order is in the index, and no entry is ever changed.
        """
        return order_number(self.order_id) if self.event == "OrderPlaced" else None


@entity
class Activity:
    """A log entry for one change of a customer's order. The entry is kept for 90 days and then archived."""

    customer_id: str
    at: Instant
    change_id: str
    event: str
    order_id: str
    ttl: int
    version: int

    @property
    def day(self) -> str:
        return self.at[:10]

    @property
    def shard(self) -> str:
        return shard_of(self.change_id)
