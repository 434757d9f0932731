"""Declares the class of every item type in the table.

Times are `Instant` (UTC text with milliseconds). Money is an integer in minor units, stored beside a `currency`. `ttl`
is in epoch seconds. Every command that writes an item raises the item's `version`.
"""

import hashlib
from collections.abc import Mapping
from typing import Literal, get_args

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant
from functions.model.money import Currency

OpenStatus = Literal[
    "PENDING", "PAID", "FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "CUT_REQUESTED", "SHIPPED"
]  # fmt: skip
OrderStatus = Literal[OpenStatus, "DELIVERED", "PARTIALLY_RETURNED", "RETURNED", "CANCELLED", "LAPSED", "ARCHIVING"]
PaymentMethod = Literal["CARD", "CREDIT"]
PaymentStatus = Literal["AUTHORISED", "CAPTURED", "FAILED", "UNMATCHED", "DISPUTED", "REFUNDED"]
RefundReason = Literal["CANCELLED", "CUT_SHORT", "LAPSED", "RETURNED", "EXCESS", "LATE", "GOODWILL", "UNMATCHED"]
RefundStatus = Literal["REQUESTED", "SENT", "SUCCEEDED", "FAILED"]
DisputeStatus = Literal["OPEN", "WON", "LOST"]
ShipmentStatus = Literal["REQUESTED", "DISPATCHED", "DELIVERED", "CANCELLED"]
AccountKind = Literal["GIFT_CARD", "STORE_CREDIT"]
EntryReason = Literal["ISSUED", "PAID", "TRANSFERRED", "REFUNDED"]
ErasureStatus = Literal["ERASING", "ERASED"]
NotificationStatus = Literal["SENDING", "SENT"]
CampaignStatus = Literal["TELLING", "TOLD", "DROPPED"]
SettingsName = Literal["notifications"]
SweepStatus = Literal["RUNNING", "DONE"]
ImportPartStatus = Literal["QUEUED", "DONE"]

REFUND_REASONS_OUTSIDE_ORDER: tuple[RefundReason, ...] = ("EXCESS", "LATE", "UNMATCHED")
"""Reasons for refunding money that was never counted in the `paid` amount of its order."""

SHARD_COUNT = 4
"""The number of partitions that each busy index key is spread over. Readers query all of them, so the number may be
raised, but never lowered."""


def shard_of(id: str) -> str:
    """Return the shard of an id as text. The shard depends only on the id and SHARD_COUNT."""
    return str(hash_to_bucket(id, SHARD_COUNT))


def hash_to_bucket(id: str, buckets: int) -> int:
    """Return the number of the bucket (0 to `buckets` - 1) that an id belongs to.

    The bucket is computed from a hash, because the ids themselves are unevenly distributed.
    """
    return int.from_bytes(hashlib.sha256(id.encode()).digest()[:4], "big") % buckets


ROOT_CATEGORY = "/"
"""The path of the top category. A category is a path that starts and ends with a slash, for example /kitchen/mugs/."""
DEFAULT_CATALOG = "main"
"""The catalogue that is used if a product or category names none. Each catalogue has its own tree of categories."""


def ancestor_paths(path: str) -> tuple[str, ...]:
    """Return the paths of all categories above a category, from the root down. Empty for the root."""
    return tuple(path[: end + 1] for end, one in enumerate(path[:-1]) if one == "/")


# Customers, products and stock
@entity
class Customer:
    """A customer of the shop. `customer_id`: the identity provider's `sub` claim.

    `company_id`: the company that the customer buys for, if any.
    """

    customer_id: str
    name: str
    email: str
    email_hash: str
    created_at: Instant
    updated_at: Instant
    company_id: str | None = None
    version: int = 1


@entity
class ErasedCustomer:
    """The item that replaces a Customer who asked for the erasure of their data.

    The status is ERASING until no data of the customer is left. Until then, `updated_at` is the last time at which such
    data was found.
    """

    customer_id: str
    status: ErasureStatus
    erased_at: Instant
    created_at: Instant
    updated_at: Instant
    version: int

    @property
    def queue(self) -> str | None:
        """The index queue of unfinished erasures; None once the erasure is done."""
        return self.status if self.status == "ERASING" else None

    @property
    def shard(self) -> str:
        return shard_of(self.customer_id)


@entity
class Company:
    """A company that several customers buy for. The company name is not personal data."""

    company_id: str
    name: str
    created_at: Instant
    updated_at: Instant
    version: int = 1


@entity
class EmailClaim:
    """Reserves an e-mail address for one customer. The item's key contains an HMAC of the address, never the
    address."""

    email_hash: str
    customer_id: str
    created_at: Instant
    version: int = 1


@entity
class Settings:
    """One named group of a customer's settings. It is a separate item, so changing it does not write the Customer
    item."""

    customer_id: str
    name: SettingsName
    choices: Mapping[str, bool]
    created_at: Instant
    updated_at: Instant
    version: int = 1


@entity
class Product:
    """A product for sale, in one category of one catalogue.

    `parts`: the number of Stock items that the product's stock is split over; more than one if the product sells very
    fast. `backorder`: the product can be ordered when out of stock. Such a product has one Stock item. Its available
    quantity falls below zero until more stock arrives.
    """

    product_id: str
    name: str
    price: int
    currency: Currency
    created_at: Instant
    updated_at: Instant
    parts: int = 1
    backorder: bool = False
    category: str = ROOT_CATEGORY
    catalog: str = DEFAULT_CATALOG
    version: int = 1


@entity
class Category:
    """A category of a catalogue, identified by its path. The root category exists without an item. An item for the root
    only gives it a name."""

    catalog: str
    path: str
    name: str
    created_at: Instant
    updated_at: Instant
    version: int = 1

    @property
    def parent(self) -> str | None:
        """The path of the parent category; None for the root."""
        return ancestor_paths(self.path)[-1] if self.path != ROOT_CATEGORY else None


@entity
class Stock:
    """A stock part: one of the items that a product's stock is split over.

    `received`: the quantity that this part ever received. `available`: the quantity that can still be ordered.
    """

    product_id: str
    part: int
    available: int
    received: int
    created_at: Instant
    version: int = 1


@entity
class Import:
    """A file of products and stock that was uploaded for import.

    `count`: the number of its lines that are not blank. `parts`: the number of ImportPart items that the lines are
    split over.
    """

    import_id: str
    count: int
    parts: int
    created_at: Instant
    ttl: int
    version: int = 1


@entity
class Rejected:
    """A line of an import that is not written: the line number, the invalid field and the reason."""

    line: int
    field: str
    why: str


@entity
class ImportPart:
    """An import part: a group of lines of an import, and their progress.

    `count`: the number of lines to write, in order. `done`: the number of lines processed. Each processed line is
    `written`, `unchanged` or rejected. `retried`: the number of processed lines that needed more than one attempt.
    `rejected`: the lines that were invalid from the start, and the lines that were rejected when written.
    """

    import_id: str
    part: int
    status: ImportPartStatus
    count: int
    rejected: tuple[Rejected, ...]
    created_at: Instant
    updated_at: Instant
    ttl: int
    done: int = 0
    written: int = 0
    unchanged: int = 0
    retried: int = 0
    version: int = 1


@entity
class ImportLines:
    """The lines to write for an import part: gzipped NDJSON. Each line is one object, which includes its line number in
    the file."""

    import_id: str
    part: int
    ndjson: bytes
    created_at: Instant
    ttl: int
    version: int = 1


@entity
class Review:
    """A customer's review of a product. Each customer has at most one review per product.

    `order_id`: the delivered order that contained the product. `created_at` distinguishes this review from an earlier,
    deleted one.
    """

    product_id: str
    customer_id: str
    order_id: str
    stars: int
    text: str
    written_at: Instant
    created_at: Instant
    updated_at: Instant
    version: int = 1


@entity
class Follow:
    """A customer follows a product: they receive mails when it is back in stock or costs less."""

    customer_id: str
    product_id: str
    created_at: Instant
    version: int = 1


@entity
class Discount:
    """A discount code that reduces the price of an order's goods by a percentage.

    `minimum`: the minimum price of the goods, in `currency`. `limit`: how often the code can be redeemed; None means
    without limit. `parts`: the number of Redemptions items that the limit is split over.
    """

    code: str
    percent: int
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
class Redemptions:
    """A redemption pool part: one of the items that the limit of a discount code is split over.

    `left`: how many redemptions this part has left.
    """

    code: str
    part: int
    left: int
    created_at: Instant
    version: int = 1


# Orders and the items that belong to an order
@entity
class Line:
    """A line of an order: one product, at its price when ordered.

    `taken`: the quantity by stock part; None if all pieces come from stock part 0. `backordered`: the number of pieces
    that were out of stock when ordered. `shipped`, `delivered`, `returned` and `dropped` count pieces; dropped pieces
    were cancelled before shipping.
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

    @property
    def quantity_to_ship(self) -> int:
        """The number of pieces to ship in total: the ordered quantity less the dropped (cancelled) pieces."""
        return self.quantity - self.dropped

    @property
    def quantity_by_stock_part(self) -> Mapping[str, int]:
        """The ordered quantity by stock part."""
        return self.taken or {"0": self.quantity}


@entity
class Address:
    """The delivery address of an order."""

    name: str
    street: str
    postcode: str
    city: str
    country: str


@entity
class Discounted:
    """The discount that a discount code gave on an order.

    `part`: the number of the redemption pool part that counted the redemption; None if the code has no limit.
    """

    code: str
    percent: int
    amount: int
    part: int | None = None


@entity
class Order:
    """An order with its lines by product id. One item contains them all, so one read returns the whole order.

    `fingerprint`: a hash of the request that placed the order. `total`: the price of the goods less the discount, plus
    shipping. `tax_rate`: in hundredths of a percent; the tax is included in all prices.

    `paid`: the money received. It equals the total from `paid_at` on. `refunded`: the amount of `paid` that is refunded
    or being refunded. `owed`: the amount to refund in addition, once the customer's bank decides the dispute of the
    payment.

    `reached`: the order's version that entered the current status. `reached_at`: the time of that version; None if
    nothing changed since. With both, the event of the status change can be rebuilt from the order alone.

    `customer_name`: copied from the customer while the order is open. `customer_version`: the customer's version that
    the name was copied from. Copying the name does not raise the order's `version`.

    `restored_at`: when the order was last restored from the archive. `away`: the versions in which the order was
    archived; logs have no entry for these versions.
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
    discount: Discounted | None = None
    shipping: int = 0
    tax_rate: int = 0
    paid: int = 0
    refunded: int = 0
    owed: int = 0
    shipping_refunded: bool = False
    parcels: int = 0
    paid_at: Instant | None = None
    delivered_at: Instant | None = None
    reached: int = 1
    reached_at: Instant | None = None
    customer_name: str | None = None
    customer_version: int = 0
    restored_at: Instant | None = None
    away: tuple[int, ...] | None = None
    version: int = 1

    @property
    def logged_versions(self) -> tuple[int, ...]:
        """The versions of the order for which each gapless log must have an entry."""
        away = set(self.away or ())
        return tuple(version for version in range(1, self.version + 1) if version not in away)

    @property
    def restored_versions(self) -> tuple[int, ...]:
        """The versions of the order that were created by restoring it from the archive."""
        away = self.away or ()
        return tuple(version + 1 for version in away if version + 1 not in away)

    @property
    def status_since(self) -> Instant:
        """When the order entered its current status."""
        return self.reached_at or self.updated_at

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
        """The number of pieces that will not be shipped, because the unshipped rest of the order was cancelled."""
        return sum(line.dropped for line in self.lines.values())

    @property
    def queue(self) -> str | None:
        """The index queue of orders with this status; None if the order is not open."""
        return self.status if self.status in OPEN_STATUSES else None

    @property
    def shard(self) -> str:
        return shard_of(self.order_id)


OPEN_STATUSES: tuple[OpenStatus, ...] = get_args(OpenStatus)
SOLD_STATUSES: tuple[OrderStatus, ...] = (
    "PAID", "FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "CUT_REQUESTED", "SHIPPED", "DELIVERED",
    "PARTIALLY_RETURNED", "RETURNED",
)  # fmt: skip


@entity
class QueuedOrder:
    """The attributes of an order that the index of the status queues contains."""

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
    """A view of an order with only its id and the customer who placed the order."""

    order_id: str
    customer_id: str


@entity
class ArchivedOrder:
    """The item that replaces an Order in the table after the order was archived.

    `object_key`: the S3 object with all items of the order. `sha256`: the hash of that object. `archived_at`: when the
    order was archived.
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
    archived_at: Instant | None = None


@entity
class Expiry:
    """Carries the ttl of a closed order. When DynamoDB deletes this item at its ttl, the archive Lambda archives the
    order."""

    order_id: str
    customer_id: str
    created_at: Instant
    ttl: int
    version: int = 1


@entity
class Payment:
    """A payment for an order: by card, under the payment provider's id, or from a credit account.

    `reason`: why the payment failed or matches no order. `refunded`: the amount refunded so far. `disputes`: the status
    of each dispute by the dispute's id; it is kept through all later changes of the payment.
    """

    order_id: str
    payment_id: str
    method: PaymentMethod = "CARD"
    status: PaymentStatus
    amount: int
    currency: str
    created_at: Instant
    updated_at: Instant
    account_id: str | None = None
    refunded: int = 0
    disputes: Mapping[str, DisputeStatus] | None = None
    reason: str | None = None
    version: int = 1

    @property
    def queue(self) -> str | None:
        """The index queue of payments that match no order, for operators; None for other payments."""
        return self.status if self.status == "UNMATCHED" else None

    @property
    def is_disputed(self) -> bool:
        """Whether the customer's bank has an open dispute of the payment. The payment is not refunded until the bank
        decides the dispute."""
        return "OPEN" in (self.disputes or {}).values()

    @property
    def is_charged_back(self) -> bool:
        """Whether the customer's bank took the money back in a lost dispute. Nothing is then left to refund, even if a
        refund of the payment fails later."""
        return "LOST" in (self.disputes or {}).values()


@entity
class Refund:
    """A refund and its status. Refunds are the outbox for requests to the payment provider and to credit accounts.

    `account_id`: the credit account to credit; None means that the money goes back to the payment's source. `attempt`:
    the number of the current attempt. The refund's id and `attempt` form the provider's idempotency key. `why`: what
    the refund is for. `reason`: why the refund failed.
    """

    order_id: str
    refund_id: str
    payment_id: str
    status: RefundStatus
    amount: int
    currency: str
    why: RefundReason
    created_at: Instant
    updated_at: Instant
    customer_id: str | None = None
    account_id: str | None = None
    provider_id: str | None = None
    attempt: int = 1
    reason: str | None = None
    version: int = 1


@entity
class Return:
    """Goods that a customer returned, and the refund for them.

    `quantities`: the returned pieces by product. `restocked`: how many of these pieces can be sold again, by product.
    `amount`: the money refunded at once. `owed`: the money that could not be refunded at once. `shipping`: the shipping
    cost included in `amount` and `owed`.
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


@entity
class Shipment:
    """A parcel of an order. After dispatch it can be found by `carrier` and `tracking_number`.

    `quantities`: the pieces in the parcel by product. `backordered`: the pieces that were out of stock when ordered, by
    product; None once the parcel is dispatched.
    """

    order_id: str
    shipment_id: str
    customer_id: str
    status: ShipmentStatus
    quantities: Mapping[str, int]
    created_at: Instant
    updated_at: Instant
    backordered: Mapping[str, int] | None = None
    carrier: str | None = None
    tracking_number: str | None = None
    version: int = 1


@entity
class Paid:
    """A payment as listed in an invoice. It shows the state when the invoice was issued."""

    payment_id: str
    amount: int
    method: PaymentMethod = "CARD"


@entity
class TaxLine:
    """The tax at one rate that is included in an invoice's total. `rate` is in hundredths of a percent."""

    rate: int
    net: int
    tax: int


@entity
class Invoice:
    """An invoice, which never changes. Its data shows the state when the invoice was issued. `invoice_id`: its number
    in the series."""

    invoice_id: str
    order_id: str
    customer_id: str
    name: str
    address: Address | None
    issued_at: Instant
    currency: Currency
    total: int
    lines: Mapping[str, Line]
    payments: tuple[Paid, ...]
    created_at: Instant
    taxes: tuple[TaxLine, ...] = ()
    shipping: int = 0
    discount: Discounted | None = None
    version: int = 1


@entity
class InvoiceSeries:
    """A series of invoice numbers without gaps. `last`: the last number issued."""

    series: str
    last: int
    created_at: Instant
    version: int = 1


# Credit
@entity
class Account:
    """A credit account: a gift card, or a customer's store credit in one currency. Anyone who has a gift card's code
    can use it."""

    account_id: str
    kind: AccountKind
    currency: Currency
    balance: int
    created_at: Instant
    updated_at: Instant
    customer_id: str | None = None
    version: int = 1


@entity
class Entry:
    """A booking on a credit account. `amount`: negative for a withdrawal. `balance`: the account's balance after the
    booking.

    `version`: the account's version after the booking. `other`: the other account of a transfer. `order_id`: the order
    that was paid or refunded.
    """

    account_id: str
    version: int
    at: Instant
    reason: EntryReason
    amount: int
    balance: int
    other: str | None = None
    order_id: str | None = None


# Idempotency records and campaigns
@entity
class Command:
    """The idempotency record of an API command: the caller, a fingerprint of the request, and the response as JSON."""

    caller: str
    key: str
    command: str
    fingerprint: str
    result: str
    created_at: Instant
    ttl: int


@entity
class Effect:
    """The idempotency record of a reaction to an event, with the result of its effect."""

    effect_id: str
    reaction: str
    result: str
    created_at: Instant
    ttl: int


@entity
class Notification:
    """A mail to a customer about an order or a followed product, and the sender's claim on the mail.

    The status is SENDING from before the mail provider is called until the provider has answered. `claim`: the sender's
    token. `claimed_until` (epoch seconds): after this time another sender may retry.
    """

    customer_id: str
    order_id: str | None = None
    product_id: str | None = None
    effect_id: str
    at: Instant
    event: str
    status: NotificationStatus
    claim: str
    claimed_until: int
    ttl: int
    message_id: str | None = None


@entity
class Campaign:
    """The latest campaign for a product: a mail to each follower after an `event` (a price drop, or new stock).

    `event_id` and `at`: the event's id and time. `until` (epoch seconds): until then, no other event of this kind
    starts a campaign. `after`: the position in the list of followers up to which mails were sent.

    DROPPED: the condition ended before every follower was notified. `since`: the position at which this campaign
    started. After a dropped campaign, the next campaign starts at the position that the dropped one reached, unless the
    cooldown is over.
    """

    product_id: str
    event: str
    event_id: str
    at: Instant
    status: CampaignStatus
    began_at: Instant
    until: int
    since: str | None = None
    after: str | None = None
    version: int = 1


# Copies of orders and log entries
@entity
class OrderSummary:
    """A copy of an order in the partition of its customer. `items`: the number of pieces.

    `archived`: the order was archived, so the archive object has the whole order.
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

    `quantity`: the ordered pieces less the dropped (cancelled) pieces. It is 0 if the order was cancelled or is unpaid
    again.
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
    """A log entry for one change of an order. `version`: the order's version after the change, so a missing entry can
    be detected."""

    order_id: str
    at: Instant
    change_id: str
    event: str
    status: OrderStatus
    version: int


@entity
class Activity:
    """A log entry for one change that concerns a customer. The entry is kept for 90 days and then archived."""

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


# Totals
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


# Table sweeps by operator tools
@entity
class Stretch:
    """The progress of one segment of a table sweep (a scan of all items).

    The sweep resumes after the key `pk`, `sk`. Without a key, it starts at the beginning of the segment.
    """

    pk: str | None = None
    sk: str | None = None
    done: bool = False


@entity
class Sweep:
    """The checkpoint and the lock of an operator tool's table sweep (a scan of all items). The lock lasts until
    `held_until`.

    `read`: the number of items read. `changed`, `right` (already correct) and `passed_over` (skipped because they
    cannot be read or written) count the items that the sweep handles. `lost`: how often another writer changed an item
    first, so that the sweep retried the item. `unreadable`: some of the skipped items, by key, with the reason.
    `waiting`: the keys of scanned items that must be checked again.
    """

    tool: str
    name: str
    task: str
    status: SweepStatus
    by: str
    held_until: Instant
    started_at: Instant
    updated_at: Instant
    segments: tuple[Stretch, ...]
    read: int = 0
    changed: int = 0
    right: int = 0
    lost: int = 0
    passed_over: int = 0
    unreadable: Mapping[str, str]
    waiting: tuple[str, ...] = ()
    version: int = 1
