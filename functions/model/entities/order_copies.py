"""Copies of an order in other partitions, and the log entries of its changes."""

from collections.abc import Mapping
from typing import Literal

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant
from functions.model.entities.orders import OrderStatus, order_number
from functions.model.entities.sharding import ACTIVITY_SHARDS, FEED_SHARDS
from functions.model.money import Currency


@entity
class PurchasedLine:
    """A line of a paid order, in the order's summary.

    `quantity`: the ordered pieces less the dropped pieces (cancelled before shipping). `price`: the price of one piece,
    in minor units. The line is stored as one text, such as "2 x 1250: Blue mug" or "2 x 1250, 1 returned: Blue mug".
    """

    name: str
    quantity: int
    price: int
    returned: int = 0

    def to_text(self) -> str:
        returned = f", {self.returned} returned" if self.returned else ""
        return f"{self.quantity} x {self.price}{returned}: {self.name}"

    @staticmethod
    def from_text(text: str) -> "PurchasedLine":
        amounts, _, name = text.partition(": ")
        quantity, price, *returned = [int(part) for part in amounts.replace(",", "").split(" ") if part.isdigit()]
        return PurchasedLine(name=name, quantity=quantity, price=price, returned=returned[0] if returned else 0)


@entity
class OrderSummary:
    """A copy of an order in the partition of its customer, for the customer's lists of orders and of purchases.

    `items`: the number of pieces; None for an archived order. `lines`: the lines of a paid order by product id; None
    if the order is not paid, was cancelled, or is archived. `archived`: whether the order was moved to the S3 archive.
    """

    customer_id: str
    order_id: str
    placed_at: Instant
    status: OrderStatus
    currency: Currency
    total: int
    version: int
    items: int | None = None
    lines: Mapping[str, PurchasedLine] | None = None
    archived: bool = False


@entity
class Sale:
    """A copy of one line of a paid order, for the list of a product's sales. It is kept for SALE_DAYS.

    `quantity`: the ordered pieces less the dropped pieces (cancelled before shipping). It is 0 if the whole order was
    cancelled. `shard`: the number of the partition, because a product's sales may be spread over several partitions.
    """

    product_id: str
    order_id: str
    customer_id: str
    placed_at: Instant
    name: str
    quantity: int
    price: int
    currency: Currency
    version: int
    ttl: int
    shard: str = "0"
    returned: int = 0


@entity
class OrderNumber:
    """Maps an order number to the order, and lists all orders by time. This item stays when the order is archived.

    It has only what never changes, so that a change of the order costs no write here or in an index. `phone_hash` is an
    exception: it follows the delivery address, and is gone when the order is archived or its customer is erased.
    """

    order_id: str
    placed_at: Instant
    version: int
    company_id: str | None = None
    phone_hash: str | None = None

    @property
    def number(self) -> str:
        return order_number(self.order_id)

    @property
    def shard(self) -> str:
        return FEED_SHARDS.of(self.order_id)


@entity
class ListedOrder:
    """The attributes of an OrderNumber that are stored in GSI2, the index that lists all orders."""

    order_id: str
    placed_at: Instant


@entity
class FeedEntry:
    """An entry in the list of all payments, or of all refunds, by time. It stays when the order is archived.

    `id`: the id of the payment or refund. The entry has only what never changes, so it is written once.
    """

    list: Literal["PAYMENTS", "REFUNDS"]
    order_id: str
    id: str
    created_at: Instant
    version: int

    @property
    def shard(self) -> str:
        return FEED_SHARDS.of(self.id)


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
        return ACTIVITY_SHARDS.of(self.change_id)
