"""Every kind of item, as it is read and written. Times are `Instant` (UTC text with milliseconds), money is an integer
in minor units beside a `currency`, `ttl` is epoch seconds, `version` is raised by every command that writes the item.
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
"""Why money goes back that never counted for the order it came for."""

SHARD_COUNT = 4
"""Partitions a busy index key is spread over. Readers ask all of them, so it may be raised, never lowered."""


def shard_of(id: str) -> str:
    """The shard an id belongs to, for ever: heat never moves it."""
    return str(hash_to_bucket(id, SHARD_COUNT))


def hash_to_bucket(id: str, buckets: int) -> int:
    """Which of so many an id belongs to; ids themselves do not spread, their last characters take few values."""
    return int.from_bytes(hashlib.sha256(id.encode()).digest()[:4], "big") % buckets


ROOT_CATEGORY = "/"
"""The category at the top. A category is a path that starts and ends with a slash: /kitchen/mugs/."""
DEFAULT_CATALOG = "main"
"""The catalogue that is meant where none is named. Each has a tree of categories of its own."""


def ancestor_paths(path: str) -> tuple[str, ...]:
    """The paths above a category's, from the root on; none above the root."""
    return tuple(path[: end + 1] for end, one in enumerate(path[:-1]) if one == "/")


# Who and what
@entity
class Customer:
    """A person who buys. `customer_id` is the identity provider's `sub`. `company_id`: whom they buy for, if any."""

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
    """What stays of a customer who asked to be forgotten. ERASING until nothing of theirs is left anywhere; meanwhile
    `updated_at` is when the last of it was found."""

    customer_id: str
    status: ErasureStatus
    erased_at: Instant
    created_at: Instant
    updated_at: Instant
    version: int

    @property
    def queue(self) -> str | None:
        """Where the erasure finds it; None once all is done."""
        return self.status if self.status == "ERASING" else None

    @property
    def shard(self) -> str:
        return shard_of(self.customer_id)


@entity
class Company:
    """What several customers buy for. Its name is no person's."""

    company_id: str
    name: str
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
    """Something for sale, in one category of one catalogue. `parts`: how many items its stock is split over, more than
    one where it sells very fast.

    `backorder`: it may be ordered though there is none; what is available, in its one part, is then below zero until
    more comes in.
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
    """A category of a catalogue, by its path. The root is there without an item, but may have one, for its name."""

    catalog: str
    path: str
    name: str
    created_at: Instant
    updated_at: Instant
    version: int = 1

    @property
    def parent(self) -> str | None:
        """The path of the category that it is in; None of the root."""
        return ancestor_paths(self.path)[-1] if self.path != ROOT_CATEGORY else None


@entity
class Stock:
    """One part of a product's stock. `received`: everything that ever came in, `available`: what can be ordered."""

    product_id: str
    part: int
    available: int
    received: int
    created_at: Instant
    version: int = 1


@entity
class Import:
    """Products and stock that were sent as one file. `count`: of its lines, without the blank ones; `parts`: how many
    items say what becomes of them."""

    import_id: str
    count: int
    parts: int
    created_at: Instant
    ttl: int
    version: int = 1


@entity
class Rejected:
    """A line of an import that is not written: what is wrong with which of its fields."""

    line: int
    field: str
    why: str


@entity
class ImportPart:
    """Some lines of an import, and what has become of them.

    `count`: how many are to be written, in their order; `done`: so many of them are `written`, found `unchanged`, or
    rejected after all. `retried`: how many of those done took more than one try. `rejected`: these, and the ones that
    were wrong from the start.
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
    """What is to be written of an import's part: gzipped NDJSON, one a line, with the number it came as."""

    import_id: str
    part: int
    ndjson: bytes
    created_at: Instant
    ttl: int
    version: int = 1


@entity
class Review:
    """What a buyer says of a product, one of each. `order_id`: the order it was bought and delivered with. One that is
    deleted and written anew is another one: `created_at` tells them apart."""

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
    """A customer wants to hear of a product."""

    customer_id: str
    product_id: str
    created_at: Instant
    version: int = 1


@entity
class Discount:
    """A code that takes percents off an order's goods. `minimum`: the least the goods must cost, in `currency`.

    `limit`: how often it may be redeemed, `parts`: how many items that is split over. None: without limit.
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
    """One part of a limited discount code: how often it can still be redeemed."""

    code: str
    part: int
    left: int
    created_at: Instant
    version: int = 1


# The order and what it owns
@entity
class Line:
    """One product of an order, at its price then. `taken`: quantity by stock part, if not all from part 0.

    `backordered`: so many of them were not there when it was ordered. The rest counts what has become of them since.
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
        """Pieces that are sent in the end: what was ordered less what was dropped."""
        return self.quantity - self.dropped

    @property
    def quantity_by_stock_part(self) -> Mapping[str, int]:
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
class Discounted:
    """What a discount code took off an order. `part`: where its redemption was counted, if it is a limited one."""

    code: str
    percent: int
    amount: int
    part: int | None = None


@entity
class Order:
    """An order with its lines inside, by product: one read, one stream record. `fingerprint`: what was asked for.

    `total` is the goods less the discount, and shipping. `tax_rate`: in hundredths of a percent, contained in all
    prices. `paid`: the money taken for it (all of it since
    `paid_at`), `refunded`: what of that is given back, or about to be; `owed`: what is to
    be besides, and cannot be while the customer's bank disputes the payment it came with. `reached`: the version
    at which it came to its status, and `reached_at` when, where something has changed since: so its state alone tells
    of that change as it was told then. `customer_name`: its customer's, copied while it is open, from that
    `customer_version` of theirs; it raises no `version`. `restored_at`: when it came back from the archive, the last
    time; `away`: the versions that it was archived under, of which no log tells.
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
        """Its versions that a log tells of, if it has no gaps."""
        away = set(self.away or ())
        return tuple(version for version in range(1, self.version + 1) if version not in away)

    @property
    def restored_versions(self) -> tuple[int, ...]:
        """The versions with which it came back from the archive."""
        away = self.away or ()
        return tuple(version + 1 for version in away if version + 1 not in away)

    @property
    def status_since(self) -> Instant:
        """When it came to its status."""
        return self.reached_at or self.updated_at

    @property
    def shipped(self) -> int:
        """Pieces that have left, of all products."""
        return sum(line.shipped for line in self.lines.values())

    @property
    def delivered(self) -> int:
        return sum(line.delivered for line in self.lines.values())

    @property
    def returned(self) -> int:
        return sum(line.returned for line in self.lines.values())

    @property
    def dropped(self) -> int:
        """Pieces that are not sent any more, because the order was cut short."""
        return sum(line.dropped for line in self.lines.values())

    @property
    def queue(self) -> str | None:
        """The work queue it stands in; None once nobody has anything left to do."""
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
    """An order as the status queue's index shows it."""

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
    """Who placed an order."""

    order_id: str
    customer_id: str


@entity
class ArchivedOrder:
    """What stays of an order whose time is over: whose it was, where all of it lies, byte for byte, and since when."""

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
    """Carries the end of a closed order: when DynamoDB deletes it, the order is archived."""

    order_id: str
    customer_id: str
    created_at: Instant
    ttl: int
    version: int = 1


@entity
class Payment:
    """Money for an order: by card as the provider tells of it and by the provider's id, or from a credit account.

    `reason`: why it failed or matches nothing. `refunded`: what of it has been given back. `disputes`: what has become
    of each dispute about it, by its id, kept whatever else happens to the payment.
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
        """Where operators find it; None unless it matches no order."""
        return self.status if self.status == "UNMATCHED" else None

    @property
    def is_disputed(self) -> bool:
        """The customer's bank asks it back and has not decided yet: until then nothing of it is given back."""
        return "OPEN" in (self.disputes or {}).values()

    @property
    def is_charged_back(self) -> bool:
        """The customer's bank has taken it, for good: whatever refund of it fails afterwards, nothing is left."""
        return "LOST" in (self.disputes or {}).values()


@entity
class Refund:
    """Money to be given back, and whether it was: the outbox of the payment provider and of the credit accounts.

    `account_id`: goes to this account; None: to where the payment came from. `attempt`: how often it was tried anew;
    with the id it is the provider's idempotency key. `why`: what it is for, `reason`: why it failed.
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
    """Goods that came back: quantities by product, of these the ones `restocked`, and the money for them.

    `amount` was given back at once, `owed` could not be yet; `shipping` is a part of both together.
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
    """A parcel, quantities by product. Found by `carrier` and `tracking_number` once it is on its way.

    `backordered`: so many of them, by product, were not there when they were ordered; None once it is sent.
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
    """The tax that is contained in an invoice's total, at one rate in hundredths of a percent."""

    rate: int
    net: int
    tax: int


@entity
class Invoice:
    """An invoice, never changed. Everything on it is as of its issue. `invoice_id` is its number in the series."""

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
    """The last number given out in a series of invoices; numbers have no gaps."""

    series: str
    last: int
    created_at: Instant
    version: int = 1


# Credit
@entity
class Account:
    """A gift card, or a customer's store credit in one currency. A gift card is whoever's has its code."""

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
    """One movement of an account: `amount` (negative: out of it) and the balance after it. `version`: the account's.

    `other`: the account it came from or went to, `order_id`: the order it paid or came back from.
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

    `claim` is the sender's token, `claimed_until` (epoch seconds) when another may try again. It is about an order, or
    about a product that they follow.
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
    """What the followers of a product are told, or were last: an `event` of it, by its id, and when that was.

    `until` (epoch seconds): before that no other event of this kind becomes a campaign. `after`: how far along the
    followers it has come. DROPPED: it was not so any more, and nobody else was told; whatever becomes a campaign next
    begins there, at `since`, unless that is long ago.
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
    """A sale: one product of an order that was paid for. `quantity`: without what was dropped; 0 of an order that was
    cancelled after all, or is unpaid again."""

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


# Totals
@entity
class Rating:
    """What buyers think of a product: how many of them reviewed it, and all their stars."""

    product_id: str
    reviews: int
    stars: int
    version: int = 1


@entity
class BestSeller:
    """How many of a product were sold with the orders that were paid for in a month, less what came back in it."""

    product_id: str
    season: str
    units: int
    version: int = 1

    @property
    def rank(self) -> int | None:
        """What it is listed by; nothing of which more came back than was sold is."""
        return self.units if self.units > 0 else None

    @property
    def shard(self) -> str:
        return shard_of(self.product_id)


@entity
class Metric:
    """What was sold in one minute and one currency, less what came back in it: one shard's part of that."""

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
    """What an item of type `of` is counted with so far: its `amounts` by total. `as_of`: since when there is such an
    item, and its version. `gone`: it is no more."""

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
    """One segment of a sweep: it goes on behind this key, or from its start where there is none."""

    pk: str | None = None
    sk: str | None = None
    done: bool = False


@entity
class Sweep:
    """A walk of an operators' tool through the whole table: how far it has come, and whose it is until when.

    `read`: items read; `changed`, `right`, `passed_over` (nobody can read them): what became of those that it is about;
    `lost`: how often it was overtaken by another writer and decided again. `unreadable`: some of those passed over, by
    their key, and why. `waiting`: the keys of what lies behind it and is to be looked at once more.
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
