"""Every kind of item in the table.

Times are `Instant` (UTC text with milliseconds). Money is an integer in minor units, beside a `currency`. `ttl` is
epoch seconds. Every command that writes an item raises its `version`.
"""

import hashlib
from collections.abc import Mapping
from typing import Literal, get_args

from functions.dynamodb.images import entity
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
"""Reasons for refunding money that was never counted as paid for its order."""

SHARD_COUNT = 4
"""Number of partitions a busy index key is spread over. Readers query all of them, so it may be raised, never
lowered."""


def shard_of(id: str) -> str:
    """Return the shard of an id. It depends only on the id and SHARD_COUNT."""
    return str(hash_to_bucket(id, SHARD_COUNT))


def hash_to_bucket(id: str, buckets: int) -> int:
    """Return the bucket of an id, by its hash. The ids themselves are unevenly distributed, so the hash spreads
    them."""
    return int.from_bytes(hashlib.sha256(id.encode()).digest()[:4], "big") % buckets


ROOT_CATEGORY = "/"
"""The top category. A category is a path that starts and ends with a slash: /kitchen/mugs/."""
DEFAULT_CATALOG = "main"
"""The catalogue used if none is given. Each catalogue has its own tree of categories."""


def ancestor_paths(path: str) -> tuple[str, ...]:
    """Return the paths above a category's, from the root down; empty for the root."""
    return tuple(path[: end + 1] for end, one in enumerate(path[:-1]) if one == "/")


# Who and what
@entity
class Customer:
    """A person who buys. `customer_id`: the identity provider's `sub`. `company_id`: the company they buy for, if
    any."""

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
    """The stub of a customer who asked to be erased.

    ERASING until none of their data is left; meanwhile `updated_at` is when data of theirs was last found.
    """

    customer_id: str
    status: ErasureStatus
    erased_at: Instant
    created_at: Instant
    updated_at: Instant
    version: int

    @property
    def queue(self) -> str | None:
        """The work queue of unfinished erasures; None once the erasure is done."""
        return self.status if self.status == "ERASING" else None

    @property
    def shard(self) -> str:
        return shard_of(self.customer_id)


@entity
class Company:
    """A company that several customers buy for. Its name is not personal data."""

    company_id: str
    name: str
    created_at: Instant
    updated_at: Instant
    version: int = 1


@entity
class EmailClaim:
    """Reserves an e-mail address for one customer. The key holds the address's HMAC, never the address."""

    email_hash: str
    customer_id: str
    created_at: Instant
    version: int = 1


@entity
class Settings:
    """One named group of a customer's settings, changed without touching the profile."""

    customer_id: str
    name: SettingsName
    choices: Mapping[str, bool]
    created_at: Instant
    updated_at: Instant
    version: int = 1


@entity
class Product:
    """A product for sale, in one category of one catalogue.

    `parts`: how many items its stock is split over; more than one if it sells very fast. `backorder`: it may be ordered
    when out of stock. Its stock then has one part, whose available quantity falls below zero until more stock arrives.
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
    """A category of a catalogue, by its path. The root exists without an item, but may have one for its name."""

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
    """One part of a product's stock. `received`: all stock ever received; `available`: the quantity that can be
    ordered."""

    product_id: str
    part: int
    available: int
    received: int
    created_at: Instant
    version: int = 1


@entity
class Import:
    """Products and stock sent as one file. `count`: its lines, without blank ones; `parts`: its number of
    ImportParts."""

    import_id: str
    count: int
    parts: int
    created_at: Instant
    ttl: int
    version: int = 1


@entity
class Rejected:
    """A line of an import that is not written, with the wrong field and the reason."""

    line: int
    field: str
    why: str


@entity
class ImportPart:
    """Some lines of an import, and their progress.

    `count`: lines to write, in order. `done`: lines processed: `written`, `unchanged`, or rejected when written.
    `retried`: how many processed lines needed more than one attempt. `rejected`: these lines and those that were
    invalid from the start.
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
    """The lines to write for an import's part: gzipped NDJSON, one object per line, with its line number in the
    file."""

    import_id: str
    part: int
    ndjson: bytes
    created_at: Instant
    ttl: int
    version: int = 1


@entity
class Review:
    """A buyer's review of a product, one per customer and product.

    `order_id`: the delivered order that contained the product. `created_at` tells a new review from a deleted one.
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
    """A customer wants alerts about a product."""

    customer_id: str
    product_id: str
    created_at: Instant
    version: int = 1


@entity
class Discount:
    """A code that takes a percentage off an order's goods. `minimum`: the least the goods must cost, in `currency`.

    `limit`: how often it may be redeemed; None: no limit. `parts`: the number of items the limit is split over.
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
    """One part of a limited discount code. `left`: how often it can still be redeemed."""

    code: str
    part: int
    left: int
    created_at: Instant
    version: int = 1


# The order and what it owns
@entity
class Line:
    """One product of an order, at its price when ordered. `taken`: quantity by stock part, if not all from part 0.

    `backordered`: how many were out of stock when ordered. The other counts are pieces shipped, delivered, returned and
    dropped since.
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
        """Pieces shipped in the end: the ordered quantity less the dropped one."""
        return self.quantity - self.dropped

    @property
    def quantity_by_stock_part(self) -> Mapping[str, int]:
        """Quantity by stock part."""
        return self.taken or {"0": self.quantity}


@entity
class Address:
    """The delivery address."""

    name: str
    street: str
    postcode: str
    city: str
    country: str


@entity
class Discounted:
    """The discount that a code gave on an order. `part`: the part that counted its redemption, if the code is
    limited."""

    code: str
    percent: int
    amount: int
    part: int | None = None


@entity
class Order:
    """An order with its lines by product: one read, one stream record.

    `fingerprint`: hash of the request that placed it. `total`: goods less the discount, plus shipping. `tax_rate`: in
    hundredths of a percent, included in all prices. `paid`: money received (the full total since `paid_at`).
    `refunded`: the part of that which is refunded or being refunded. `owed`: money to refund in addition, once the
    customer's bank has decided its dispute of the payment. `reached`: the version that entered the current status;
    `reached_at`: when, if something changed since. So the event of that status change can be rebuilt from the order
    alone. `customer_name`: copied from the customer while the order is open, as of `customer_version`; copying does not
    raise `version`. `restored_at`: when it was last restored from the archive. `away`: the versions with which it was
    archived, which no log contains.
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
        """The versions for which a gapless log has an entry."""
        away = set(self.away or ())
        return tuple(version for version in range(1, self.version + 1) if version not in away)

    @property
    def restored_versions(self) -> tuple[int, ...]:
        """The versions with which it was restored from the archive."""
        away = self.away or ()
        return tuple(version + 1 for version in away if version + 1 not in away)

    @property
    def status_since(self) -> Instant:
        """When it entered its current status."""
        return self.reached_at or self.updated_at

    @property
    def shipped(self) -> int:
        """Pieces shipped, of all products."""
        return sum(line.shipped for line in self.lines.values())

    @property
    def delivered(self) -> int:
        return sum(line.delivered for line in self.lines.values())

    @property
    def returned(self) -> int:
        return sum(line.returned for line in self.lines.values())

    @property
    def dropped(self) -> int:
        """Pieces that will not be shipped because the rest of the order was cancelled."""
        return sum(line.dropped for line in self.lines.values())

    @property
    def queue(self) -> str | None:
        """The work queue it is in; None if the order is not open."""
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
    """The attributes of an order in the index of the status queues."""

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
    """The customer who placed an order."""

    order_id: str
    customer_id: str


@entity
class ArchivedOrder:
    """The stub of an archived order: its customer, the archive object that holds all of it, and when it was
    archived."""

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
    """Carries a closed order's ttl. When DynamoDB deletes it, the order is archived."""

    order_id: str
    customer_id: str
    created_at: Instant
    ttl: int
    version: int = 1


@entity
class Payment:
    """Money for an order: by card, under the payment provider's id, or from a credit account.

    `reason`: why it failed or matches no order. `refunded`: the amount refunded so far. `disputes`: the status of each
    dispute by its id, kept whatever else happens to the payment.
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
        """The operators' queue of payments that match no order; None for other payments."""
        return self.status if self.status == "UNMATCHED" else None

    @property
    def is_disputed(self) -> bool:
        """Whether the customer's bank has an open dispute. Until it is decided, nothing of the payment is refunded."""
        return "OPEN" in (self.disputes or {}).values()

    @property
    def is_charged_back(self) -> bool:
        """Whether the customer's bank took the money back for good. Nothing is left, even if a refund of it fails
        later."""
        return "LOST" in (self.disputes or {}).values()


@entity
class Refund:
    """Money to refund, and its status: the outbox for the payment provider and the credit accounts.

    `account_id`: the account to credit; None: refund to where the payment came from. `attempt`: counts the attempts;
    with the id it is the provider's idempotency key. `why`: what the refund is for. `reason`: why it failed.
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
    """Returned goods: quantities by product, how many of them were `restocked`, and the refund for them.

    `amount` was refunded at once, `owed` could not be yet; `shipping` is the shipping included in both.
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
    """A parcel, with quantities by product. Once dispatched it is found by `carrier` and `tracking_number`.

    `backordered`: quantities by product that were out of stock when ordered; None once it is dispatched.
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
    """A payment inside an invoice, as of its issue."""

    payment_id: str
    amount: int
    method: PaymentMethod = "CARD"


@entity
class TaxLine:
    """The tax included in an invoice's total at one rate, in hundredths of a percent."""

    rate: int
    net: int
    tax: int


@entity
class Invoice:
    """An invoice, never changed. All its data is as of its issue. `invoice_id` is its number in the series."""

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
    """The last number issued in a series of invoices. Numbers have no gaps."""

    series: str
    last: int
    created_at: Instant
    version: int = 1


# Credit
@entity
class Account:
    """A gift card, or a customer's store credit in one currency. A gift card belongs to any holder of its code."""

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
    """One movement of an account: `amount` (negative: a withdrawal) and the balance after it. `version`: the account's.

    `other`: the other account of a transfer. `order_id`: the order that was paid or refunded.
    """

    account_id: str
    version: int
    at: Instant
    reason: EntryReason
    amount: int
    balance: int
    other: str | None = None
    order_id: str | None = None


# Markers
@entity
class Command:
    """The idempotency record of a command: the caller, a fingerprint of the request, and the response (JSON)."""

    caller: str
    key: str
    command: str
    fingerprint: str
    result: str
    created_at: Instant
    ttl: int


@entity
class Effect:
    """The idempotency record of a reaction's effect, with its result."""

    effect_id: str
    reaction: str
    result: str
    created_at: Instant
    ttl: int


@entity
class Notification:
    """A mail to a customer, and the claim to send it: SENDING from before the provider is called until it has answered.

    `claim`: the sender's token. `claimed_until` (epoch seconds): when another sender may retry. The mail is about an
    order, or about a product the customer follows.
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
    """The latest alert to the followers of a product: an `event`, its id, and when it happened.

    `until` (epoch seconds): before that, no other event of this kind starts a campaign. `after`: the position among the
    followers reached so far. DROPPED: the condition ended before every follower was notified. The next campaign then
    starts at that position (`since`), unless the cooldown is over.
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


# Copies
@entity
class OrderSummary:
    """Copy of an order in its customer's partition. `items` counts pieces; `archived`: the whole order is in the
    archive."""

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
    """Copy of a sale: one product of a paid order. `quantity`: without dropped pieces; 0 if cancelled or unpaid
    again."""

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
    """One change of an order. `version`: the order's, so a gap is visible."""

    order_id: str
    at: Instant
    change_id: str
    event: str
    status: OrderStatus
    version: int


@entity
class Activity:
    """One change that concerns a customer, kept for 90 days and then archived."""

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
    """Units of a product sold in orders paid in a month, less the units returned in that month."""

    product_id: str
    season: str
    units: int
    version: int = 1

    @property
    def rank(self) -> int | None:
        """The units it is ranked by; None if not more were sold than returned."""
        return self.units if self.units > 0 else None

    @property
    def shard(self) -> str:
        return shard_of(self.product_id)


@entity
class Metric:
    """One shard's part of the sales in one minute and currency, less the returns in that minute."""

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
    """The contributions of an item of type `of` that the totals include: `amounts` by total.

    `as_of`: the item's creation time and version. `gone`: the item was deleted.
    """

    source: str
    of: str
    as_of: str
    amounts: Mapping[str, Mapping[str, int]]
    created_at: Instant
    gone: bool = False
    ttl: int | None = None
    version: int = 1


# What operators do
@entity
class Stretch:
    """One segment of a sweep: it resumes after this key, or at its start if there is no key."""

    pk: str | None = None
    sk: str | None = None
    done: bool = False


@entity
class Sweep:
    """The checkpoint of an operator tool's scan of the whole table, and the lock on it until `held_until`.

    `read`: items read. `changed`, `right` (already correct), `passed_over` (unreadable): outcomes of the items it
    applies to. `lost`: how often another writer changed an item first, so that it was retried. `unreadable`: some of
    the items passed over, by key, with the reason. `waiting`: keys of items already scanned that must be checked again.
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
