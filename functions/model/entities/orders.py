"""Orders, their lines and returns, archived orders, and the items whose ttl starts the archiving of an order."""

from collections.abc import Mapping
from typing import Literal, cast, get_args

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant
from functions.model.entities.sharding import STATUS_SHARDS
from functions.model.entities.shipping_methods import ChosenShipping
from functions.model.entities.taxes import ELSEWHERE
from functions.model.money import Currency

OpenStatus = Literal[
    "PENDING", "PAID", "FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "CUT_REQUESTED", "SHIPPED"
]  # fmt: skip
OrderStatus = Literal[OpenStatus, "DELIVERED", "PARTIALLY_RETURNED", "RETURNED", "CANCELLED", "LAPSED", "ARCHIVING"]

Attention = Literal["OWED", "OVER_REFUNDED", "UNDOCUMENTED"]


@entity
class Line:
    """A line of an order: one product, at its price when ordered.

    A product's stock may be split over several items, the stock parts. `taken`: how many pieces come from each stock
    part, by the number of the part; None if all pieces come from stock part 0. `backordered`: the number of pieces that
    were out of stock when ordered. `shipped`, `delivered`, `returned` and `dropped` are numbers of pieces. Dropped
    pieces were cancelled before shipping. `tax_rate`: None if it is the order's. `credited`: only in a credit note, the
    amount that it takes off the line, with its tax.
    """

    name: str
    price: int
    quantity: int
    taken: Mapping[str, int] | None = None
    backordered: int = 0
    shipped: int = 0
    delivered: int = 0
    returned: int = 0
    dropped: int = 0
    tax_rate: int | None = None
    credited: int = 0

    @property
    def quantity_to_ship(self) -> int:
        """The ordered quantity less the dropped pieces (cancelled before shipping). Shipped pieces are included."""
        return self.quantity - self.dropped

    @property
    def quantity_by_stock_part(self) -> Mapping[str, int]:
        """How many pieces the order line takes from each stock part, by the number of the part as text.

        Stock parts are the items that share a product's stock.
        """
        return self.taken or {"0": self.quantity}


@entity
class Address:
    """The delivery or billing address of an order, or the address of the seller.

    `region`: the subdivision of the country in ISO 3166-2, without the country. `street2`: the second line, such as a
    floor. `phone`: for the carrier. Parts that the country does not have are empty.
    """

    name: str
    street: str
    postcode: str
    city: str
    country: str
    region: str | None = None
    company: str | None = None
    street2: str | None = None
    phone: str | None = None

    @property
    def shown(self) -> tuple[str, ...]:
        """The lines of the address that are not empty."""
        town, country = f"{self.postcode} {self.city}".strip(), ", ".join(filter(None, (self.region, self.country)))
        return tuple(line for line in (self.company, self.name, self.street, self.street2, town, country) if line)

    @property
    def destinations(self) -> tuple[str, ...]:
        """The destinations of tax rates and shipping rates that this address belongs to, the most exact one first."""
        return (*([f"{self.country}-{self.region}"] if self.region else []), self.country, ELSEWHERE)


@entity
class Discounted:
    """The discount that a discount code gave on an order.

    `rate`: in hundredths of a percent. `amount`: the discount in minor units. `part`: the number of the RedemptionPool
    item that counted the use of the code; None if the code has no limit.
    """

    code: str
    rate: int
    amount: int
    part: int | None = None


@entity
class TimelineEntry:
    """A change of an order: its time, its event, and the order's status after the change.

    DynamoDB stores the entry as one text, such as "20261124T085417.055Z PAID". The text omits the event if the event is
    named like the status (OrderPaid). Otherwise the event follows: "20261124T091500.000Z PAID OrderAddressChanged".
    """

    at: Instant
    event: str
    status: OrderStatus

    def to_text(self) -> str:
        event = "" if self.event == _event_named_like(self.status) else f" {self.event}"
        return f"{self.at.replace('-', '').replace(':', '')} {self.status}{event}"

    @staticmethod
    def from_text(text: str) -> "TimelineEntry":
        time, status, *event = text.split(" ")
        at = Instant(f"{time[:4]}-{time[4:6]}-{time[6:11]}:{time[11:13]}:{time[13:]}")
        return TimelineEntry(
            at=at, event=event[0] if event else _event_named_like(status), status=cast(OrderStatus, status)
        )


def _event_named_like(status: str) -> str:
    """Return the event that has the name of a status: OrderPaid for PAID."""
    return f"Order{status.capitalize()}"


@entity
class Order:
    """An order with its lines by product id. One item contains all lines, so one read returns the whole order.

    `fingerprint`: a hash of the request that placed the order. `total`: the price of the goods less the discount, plus
    shipping, including all taxes. `shipping_method`: None if the shop had no shipping methods.

    `address`: the delivery address, on which the taxes depend. `billing_address`: None if it is the delivery address.

    `tax_rate`: the tax rate of most lines in hundredths of a percent; the others and shipping have their own where it
    differs. `net_prices`: whether taxes are added to the prices and to shipping; otherwise these include them.
    `tax_id`: the customer's. `reverse_charge`: whether the customer, a business, owes the tax.

    `paid`: the money received. From `paid_at` on, `paid` equals the total. `refunded`: how much of `paid` is refunded
    or being refunded, or was taken by a bank. `owed`: the amount that the shop must refund, but cannot refund yet,
    because the customer's bank disputes the payment. `over_refunded`: how much more than `paid` left the shop, for
    example because a return was credited and then refunded at the provider. `withdrawn`: how much of `refunded` a bank
    took, or a person refunded at the provider. `credited`: the amount of the credit notes that correct the invoice.

    `customer_name`: copied from the customer while the order is open. `customer_version`: the version of the customer
    from which the name was copied. Copying the name does not raise the order's `version`.

    `phone_hash`: the keyed hash of the last digits of the phone number in `address`; None without one.

    `company_id`: the company that the customer bought for when the order was placed; None if there was none.

    `sales_shards`: the number of partitions over which the sales of a product were spread when the order was placed;
    None if it was 1. Each change of the order uses this number. So its sales keep their keys, although the setting may
    have been raised since.

    `timeline`: the latest changes, without the first, by the order's version; see functions/model/timelines.py.

    `placed_by`: the staff member who placed the order in the customer's name; None if it was the customer. `note`,
    `reference`: what was written with the order, and the customer's own number of it, such as that of a purchase order.
    `metadata`: values of other systems. `cancel_reason`: that of the latest request to cancel.

    `guest_id`: the guest who placed the order, if it has moved to the account of a customer since. `joined_version`:
    the order's version after the move.

    `restored_at`: when the order was last restored from the archive. `archived_versions`: the versions that the order
    had while it was archived; the timeline has no entry for these versions.
    """

    order_id: str
    customer_id: str
    status: OrderStatus
    placed_at: Instant
    updated_at: Instant
    currency: Currency
    total: int
    lines: Mapping[str, Line]
    address: Address | None
    fingerprint: str
    billing_address: Address | None = None
    discount: Discounted | None = None
    shipping: int = 0
    shipping_method: ChosenShipping | None = None
    tax_rate: int = 0
    shipping_tax_rate: int | None = None
    net_prices: bool = False
    tax_id: str | None = None
    reverse_charge: bool = False
    paid: int = 0
    refunded: int = 0
    owed: int = 0
    over_refunded: int = 0
    withdrawn: int = 0
    credited: int = 0
    shipping_refunded: bool = False
    parcels: int = 0
    paid_at: Instant | None = None
    delivered_at: Instant | None = None
    customer_name: str | None = None
    customer_version: int = 0
    phone_hash: str | None = None
    company_id: str | None = None
    sales_shards: int | None = None
    timeline: Mapping[str, TimelineEntry] | None = None
    placed_by: str | None = None
    note: str | None = None
    reference: str | None = None
    metadata: Mapping[str, str] | None = None
    cancel_reason: str | None = None
    guest_id: str | None = None
    joined_version: int | None = None
    restored_at: Instant | None = None
    archived_versions: tuple[int, ...] | None = None
    version: int = 1

    @property
    def logged_versions(self) -> tuple[int, ...]:
        """The versions of the order that have an entry in its timeline, and in a complete log of its changes.

        The versions that the order had while it was archived are left out.
        """
        archived = set(self.archived_versions or ())
        return tuple(version for version in range(1, self.version + 1) if version not in archived)

    @property
    def kept(self) -> int:
        """The money of the order that the shop still has and does not owe. Refunds cannot exceed this amount."""
        return max(0, self.paid - self.refunded - self.over_refunded - self.owed)

    @property
    def undocumented(self) -> int:
        """The money that left the shop after the invoice, and that no credit note documents.

        An example is the amount of a lost dispute. 0 if the order has no invoice: the first parcel comes with it.
        """
        return max(0, self.refunded + self.owed - self.credited) if self.parcels else 0

    @property
    def attention(self) -> tuple[Attention, ...]:
        """Why a person must look at the money of the order. Empty if nothing is wrong."""
        reasons: dict[Attention, int] = {
            "OWED": self.owed,
            "OVER_REFUNDED": self.over_refunded,
            "UNDOCUMENTED": self.undocumented,
        }
        return tuple(reason for reason, amount in reasons.items() if amount)

    @property
    def documents_status(self) -> str | None:
        """The key of the index that lists the orders with undocumented money. None if the order is not in the index."""
        return "UNDOCUMENTED" if self.undocumented else None

    @property
    def shipped(self) -> int:
        """The number of pieces shipped, of all products."""
        return sum(line.shipped for line in self.lines.values())

    @property
    def delivered(self) -> int:
        return sum(line.delivered for line in self.lines.values())

    @property
    def returned(self) -> int:
        return sum(line.returned for line in self.lines.values())

    @property
    def dropped(self) -> int:
        """The number of pieces that were cancelled before shipping, of all products."""
        return sum(line.dropped for line in self.lines.values())

    @property
    def open_status(self) -> str | None:
        """The status, as part of the key of the index that lists the open orders by status.

        None if the order is not open. The order is then not in the index.
        """
        return self.status if self.status in OPEN_STATUSES else None

    @property
    def shard(self) -> str:
        return STATUS_SHARDS.of(self.order_id)


ORDER_NUMBER_LENGTH = 8


def order_number(order_id: str) -> str:
    """Return the number of an order: the first characters of its id, in lower case. Mails show it in capitals.

    Two orders may have the same number, but rarely: there are 2^40 numbers.
    """
    return order_id[:ORDER_NUMBER_LENGTH].lower()


OPEN_STATUSES: tuple[OpenStatus, ...] = get_args(OpenStatus)
SOLD_STATUSES: tuple[OrderStatus, ...] = (
    "PAID", "FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "CUT_REQUESTED", "SHIPPED", "DELIVERED",
    "PARTIALLY_RETURNED", "RETURNED",
)  # fmt: skip


@entity
class EarlierTimeline:
    """The earlier entries of the timeline of an order with many changes.

    `first_version`: the order's version after the change in the first entry.
    """

    order_id: str
    first_version: int
    entries: Mapping[str, TimelineEntry]
    created_at: Instant
    version: int = 1


@entity
class QueuedOrder:
    """The attributes of an order that are stored in GSI2, the index that lists the open orders."""

    order_id: str
    customer_id: str
    status: OrderStatus
    placed_at: Instant
    updated_at: Instant
    currency: Currency
    total: int
    version: int
    customer_name: str | None = None


@entity
class OrderOwner:
    """The id of an order, its customer, and the time of placing. Only these attributes of the order are read.

    `guest_id`: as in the order.
    """

    order_id: str
    customer_id: str
    placed_at: Instant
    guest_id: str | None = None


@entity
class ArchivedOrder:
    """The item that replaces an Order in the table after the order was archived.

    `object_key`: the key of the S3 object with all items of the order. `sha256`: the hash of that object.
    `archived_at`: when the order was archived. `guest_id`: as in the order.
    """

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
    company_id: str | None = None
    archived_at: Instant | None = None
    guest_id: str | None = None


def archive_prefix(order: Order | ArchivedOrder) -> str:
    """Return the prefix of the archive objects of an order. It contains the day on which the order was placed.

    The day never changes, so all objects of an order have the same prefix. A query of the archive, such as with Athena,
    reads only the objects of the days that it needs.
    """
    return f"orders/day={order.placed_at[:10]}/{order.order_id}/"


@entity
class ExpiryMarker:
    """The item whose ttl starts the archiving of a closed order.

    When DynamoDB deletes this item at its ttl, the archive Lambda archives the order.
    """

    order_id: str
    customer_id: str
    created_at: Instant
    ttl: int
    version: int = 1


@entity
class Return:
    """Goods that a customer returned, and the refund for them.

    `quantities`: the returned pieces by product. `restocked`: how many of these pieces can be sold again, by product.
    `amount`: the money refunded at once. `owed`: the money that could not be refunded yet, because the customer's bank
    disputes the payment. `shipping`: the shipping cost that `amount` and `owed` together include.
    """

    order_id: str
    return_id: str
    customer_id: str
    quantities: Mapping[str, int]
    restocked: Mapping[str, int]
    amount: int
    shipping: int
    currency: str
    created_at: Instant
    owed: int = 0
    version: int = 1
