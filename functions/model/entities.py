"""Every kind of item, as it is read and written. Times are `Instant` (UTC text with milliseconds), money is an integer
in minor units beside a `currency`, `ttl` is epoch seconds, `version` is raised by every command that writes the item.
"""

import hashlib
from collections.abc import Mapping
from typing import Literal, get_args

from functions.dynamodb.images import entity
from functions.dynamodb.keys import Instant
from functions.model.money import Currency

OpenStatus = Literal["PENDING", "PAID", "FULFILLING", "SHIPPED"]
OrderStatus = Literal[OpenStatus, "DELIVERED", "CANCELLED", "LAPSED", "ARCHIVING"]
PaymentStatus = Literal["CAPTURED", "FAILED", "UNMATCHED"]
ShipmentStatus = Literal["REQUESTED", "DISPATCHED", "DELIVERED"]
NotificationStatus = Literal["SENDING", "SENT"]
SettingsName = Literal["notifications"]

SHARDS = 4
"""Partitions a busy index key is spread over. Readers ask all of them, so it may be raised, never lowered."""


def shard_of(id: str) -> str:
    """The shard an id belongs to, for ever: heat never moves it."""
    return str(spread(id, SHARDS))


def spread(id: str, over: int) -> int:
    """Which of so many an id belongs to; ids themselves do not spread, their last characters take few values."""
    return int.from_bytes(hashlib.sha256(id.encode()).digest()[:4], "big") % over


# Who and what
@entity
class Customer:
    """A person who buys. `customer_id` is the identity provider's `sub`."""

    customer_id: str
    name: str
    email: str
    email_hash: str
    created_at: Instant
    updated_at: Instant
    version: int = 1


@entity
class EmailClaim:
    """Makes an e-mail address one customer's alone; the key holds its HMAC, never the address."""

    email_hash: str
    customer_id: str
    created_at: Instant
    version: int = 1


@entity
class Settings:
    """One named group of a customer's choices, changed without touching the profile."""

    customer_id: str
    name: SettingsName
    choices: Mapping[str, bool]
    created_at: Instant
    updated_at: Instant
    version: int = 1


@entity
class Product:
    """Something for sale. `parts`: how many items its stock is split over, more than one where it sells very fast."""

    product_id: str
    name: str
    price: int
    currency: Currency
    created_at: Instant
    updated_at: Instant
    parts: int = 1
    version: int = 1


@entity
class Stock:
    """One part of a product's stock. `received`: everything that ever came in, `available`: what can be ordered."""

    product_id: str
    part: int
    available: int
    received: int
    created_at: Instant
    version: int = 1


# The order and what it owns
@entity
class Line:
    """One product of an order, at its price then. `taken`: quantity by stock part, if not all from part 0."""

    name: str
    price: int
    quantity: int
    taken: Mapping[str, int] | None = None

    @property
    def parts(self) -> Mapping[str, int]:
        """Quantity by stock part."""
        return self.taken or {"0": self.quantity}


@entity
class Address:
    """Where a parcel goes."""

    name: str
    street: str
    postcode: str
    city: str
    country: str


@entity
class Order:
    """An order with its lines inside, by product: one read, one stream record. `fingerprint`: what was asked for."""

    order_id: str
    customer_id: str
    status: OrderStatus
    placed_at: Instant
    updated_at: Instant
    currency: Currency
    total: int
    lines: Mapping[str, Line]
    address: Address
    fingerprint: str
    version: int = 1

    @property
    def queue(self) -> str | None:
        """The work queue it stands in; None once nobody has anything left to do."""
        return self.status if self.status in OPEN else None

    @property
    def shard(self) -> str:
        return shard_of(self.order_id)


OPEN: tuple[OpenStatus, ...] = get_args(OpenStatus)
SOLD: tuple[OrderStatus, ...] = ("PAID", "FULFILLING", "SHIPPED", "DELIVERED")


@entity
class QueuedOrder:
    """An order as the status queue's index shows it."""

    order_id: str
    customer_id: str
    status: OrderStatus
    placed_at: Instant
    updated_at: Instant
    currency: Currency
    total: int
    version: int


@entity
class Placer:
    """Who placed an order."""

    order_id: str
    customer_id: str


@entity
class ArchivedOrder:
    """What stays of an order whose time is over: whose it was, and where all of it lies, byte for byte."""

    order_id: str
    customer_id: str
    status: OrderStatus
    placed_at: Instant
    updated_at: Instant
    currency: Currency
    total: int
    fingerprint: str
    object_key: str
    sha256: str
    version: int


@entity
class Expiry:
    """Carries the end of a closed order: when DynamoDB deletes it, the order is archived."""

    order_id: str
    customer_id: str
    created_at: Instant
    ttl: int
    version: int = 1


@entity
class Payment:
    """A payment as the provider tells of it, by the provider's id. `reason`: why it failed or matches nothing."""

    order_id: str
    payment_id: str
    status: PaymentStatus
    amount: int
    currency: str
    created_at: Instant
    updated_at: Instant
    reason: str | None = None
    version: int = 1


@entity
class Shipment:
    """A parcel, quantities by product. Found by `carrier` and `tracking_number` once it is on its way."""

    order_id: str
    shipment_id: str
    customer_id: str
    status: ShipmentStatus
    quantities: Mapping[str, int]
    created_at: Instant
    updated_at: Instant
    carrier: str | None = None
    tracking_number: str | None = None
    version: int = 1


@entity
class Paid:
    """A payment inside an invoice, as of its issue."""

    payment_id: str
    amount: int


@entity
class Invoice:
    """An invoice, never changed. Everything on it is as of its issue. `invoice_id` is its number in the series."""

    invoice_id: str
    order_id: str
    customer_id: str
    name: str
    address: Address
    issued_at: Instant
    currency: Currency
    total: int
    lines: Mapping[str, Line]
    payments: tuple[Paid, ...]
    created_at: Instant
    version: int = 1


@entity
class InvoiceSeries:
    """The last number given out in a series of invoices; numbers have no gaps."""

    series: str
    last: int
    created_at: Instant
    version: int = 1


# Markers
@entity
class Command:
    """A keyed command that was done: who asked, a fingerprint of what for, and the answer (JSON)."""

    caller: str
    key: str
    command: str
    fingerprint: str
    result: str
    created_at: Instant
    ttl: int


@entity
class Effect:
    """An effect that a reaction has had, and what came of it."""

    effect_id: str
    reaction: str
    result: str
    created_at: Instant
    ttl: int


@entity
class Notification:
    """A mail to a customer, and its own claim: SENDING from before the provider is called until it has answered.

    `claim` is the sender's token, `claimed_until` (epoch seconds) when another may try again.
    """

    customer_id: str
    order_id: str
    effect_id: str
    at: Instant
    event: str
    status: NotificationStatus
    claim: str
    claimed_until: int
    ttl: int
    message_id: str | None = None


# Copies
@entity
class OrderSummary:
    """An order in its customer's partition. `items` counts pieces; `archived`: the whole of it lies in the archive."""

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
    """A sale: one product of an order that was paid for."""

    order_id: str
    product_id: str
    customer_id: str
    placed_at: Instant
    name: str
    quantity: int
    price: int
    currency: Currency
    version: int


@entity
class TimelineEvent:
    """One thing that happened to an order. `version`: the order's, so a gap shows."""

    order_id: str
    at: Instant
    change_id: str
    event: str
    status: OrderStatus
    version: int


@entity
class Activity:
    """One thing that happened to a customer, kept for 90 days and then archived."""

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
