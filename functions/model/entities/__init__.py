"""The class of every item type in the table, one module per subject, such as orders.

Times are `Instant` (UTC text with milliseconds). Money is an integer in minor units, stored beside a `currency`. `ttl`
is in epoch seconds. Every command that writes an item raises the item's `version`.
"""

from functions.model.entities.accounts import Account, AccountKind, Entry, EntryReason
from functions.model.entities.customers import (
    Company,
    Customer,
    EmailClaim,
    ErasedCustomer,
    ErasureStatus,
    Settings,
    SettingsName,
)
from functions.model.entities.discounts import Discount, Redemptions
from functions.model.entities.imports import Import, ImportLines, ImportPart, ImportPartStatus, Rejected
from functions.model.entities.invoices import Invoice, InvoiceSeries, Paid, TaxLine
from functions.model.entities.markers import Command, Effect
from functions.model.entities.notifications import Campaign, CampaignStatus, Notification, NotificationStatus
from functions.model.entities.order_copies import Activity, OrderLine, OrderSummary, TimelineEvent
from functions.model.entities.orders import (
    OPEN_STATUSES,
    SOLD_STATUSES,
    Address,
    ArchivedOrder,
    Discounted,
    Expiry,
    Line,
    OpenStatus,
    Order,
    OrderOwner,
    OrderStatus,
    QueuedOrder,
    Return,
)
from functions.model.entities.payments import (
    REFUND_REASONS_OUTSIDE_ORDER,
    ArchivedDispute,
    DisputeStatus,
    Payment,
    PaymentClaim,
    PaymentMethod,
    PaymentStatus,
    Refund,
    RefundReason,
    RefundStatus,
)
from functions.model.entities.products import (
    DEFAULT_CATALOG,
    ROOT_CATEGORY,
    Category,
    DeletedReview,
    Follow,
    Product,
    Review,
    Stock,
    ancestor_paths,
)
from functions.model.entities.sharding import SHARD_COUNT, hash_to_bucket, shard_of
from functions.model.entities.shipments import Shipment, ShipmentStatus
from functions.model.entities.sweeps import Stretch, Sweep, SweepStatus
from functions.model.entities.totals import BestSeller, Counted, Metric, Rating

__all__ = [
    "DEFAULT_CATALOG",
    "OPEN_STATUSES",
    "REFUND_REASONS_OUTSIDE_ORDER",
    "ROOT_CATEGORY",
    "SHARD_COUNT",
    "SOLD_STATUSES",
    "Account",
    "AccountKind",
    "Activity",
    "Address",
    "ArchivedDispute",
    "ArchivedOrder",
    "BestSeller",
    "Campaign",
    "CampaignStatus",
    "Category",
    "Command",
    "Company",
    "Counted",
    "Customer",
    "DeletedReview",
    "Discount",
    "Discounted",
    "DisputeStatus",
    "Effect",
    "EmailClaim",
    "Entry",
    "EntryReason",
    "ErasedCustomer",
    "ErasureStatus",
    "Expiry",
    "Follow",
    "Import",
    "ImportLines",
    "ImportPart",
    "ImportPartStatus",
    "Invoice",
    "InvoiceSeries",
    "Line",
    "Metric",
    "Notification",
    "NotificationStatus",
    "OpenStatus",
    "Order",
    "OrderLine",
    "OrderOwner",
    "OrderStatus",
    "OrderSummary",
    "Paid",
    "Payment",
    "PaymentClaim",
    "PaymentMethod",
    "PaymentStatus",
    "Product",
    "QueuedOrder",
    "Rating",
    "Redemptions",
    "Refund",
    "RefundReason",
    "RefundStatus",
    "Rejected",
    "Return",
    "Review",
    "Settings",
    "SettingsName",
    "Shipment",
    "ShipmentStatus",
    "Stock",
    "Stretch",
    "Sweep",
    "SweepStatus",
    "TaxLine",
    "TimelineEvent",
    "ancestor_paths",
    "hash_to_bucket",
    "shard_of",
]
