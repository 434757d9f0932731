"""The key table: it declares the keys of each item type, and which attributes each index contains.

Each item type has one row. The row has a text "partition / sort" for the table, and one for each index that contains
the items. GSI1 finds items by another id, or from the other side of a relation, such as the followers of a product.
GSI2 lists all orders and documents by time, open orders, unfinished erasures of customers, and the activity of all
customers by day. Each list in GSI2 is spread over several partitions (shards). GSI3 lists items by date, orders
by phone number, and best sellers by the number of pieces.

A row also declares whose personal data the items hold (`owner`, `personal`), why the items are kept, and what an
erasure does with them. functions/model/personal_data.py derives exports and erasures from these declarations.
"""

from collections.abc import Mapping
from typing import Any, get_type_hints

from functions.dynamodb.keys import KEY_ATTRIBUTES, NOBODY, RESERVED_ATTRIBUTES, IndexName, Row
from functions.model import entities as e

CUSTOMER = Row(
    e.Customer,
    "CUSTOMER#{customer_id} / PROFILE",
    gsi1="COMPANY#{company_id} / CUSTOMER#{customer_id}",
    gsi3="CUSTOMERS#{listed_as} / {created_at}#{customer_id}",
    owner="customer_id",
    personal=("name", "email", "email_hash"),
    purpose="to know who orders, and where to send mails",
)
ERASED_CUSTOMER = Row(
    e.ErasedCustomer,
    "CUSTOMER#{customer_id} / PROFILE",
    gsi2="ERASURE#{open_status}#{shard} / {erased_at}#{customer_id}",
    replaces=CUSTOMER,
    written_by="api, customer_erasure",
    owner="customer_id",
    personal=(),
    purpose="to record the erasure, and to keep the id from being used again",
)
SETTINGS = Row(
    e.Settings,
    "CUSTOMER#{customer_id} / SETTINGS#{name}",
    owner="customer_id",
    personal=(),
    purpose="to send only the mails that the customer wants",
    on_erasure="delete",
)
EMAIL_CLAIM = Row(
    e.EmailClaim,
    "EMAIL#{email_hash} / EMAIL",
    owner="customer_id",
    personal=("email_hash",),
    purpose="so that no two customers have the same address",
)
# This item is not in the customer's partition, because its many writes would slow down reads of the customer's data.
WRITE_LIMIT = Row(
    e.WriteLimit,
    "LIMIT#{customer_id} / WRITES",
    kind="marker",
    owner=NOBODY,
    purpose="it has only an id and a time, limits the rate of a customer's writes, and expires within minutes",
)
# COMPANY sorts before CUSTOMER, so a query returns the company before its members.
COMPANY = Row(
    e.Company,
    "COMPANY#{company_id} / COMPANY",
    gsi1="COMPANY#{company_id} / COMPANY",
    gsi3="COMPANIES / COMPANY#{company_id}",
    owner=NOBODY,
)
# GSI1 sorts products by id, not by name, because a name may contain characters that a key must not contain.
PRODUCT = Row(
    e.Product,
    "PRODUCT#{product_id} / PRODUCT",
    gsi1="CATEGORY#{catalog}#{offered_in} / PRODUCT#{product_id}",
    owner=NOBODY,
)
CATEGORY = Row(
    e.Category,
    "CATALOG#{catalog} / PATH#{path}",
    gsi1="PARENT#{catalog}#{parent} / CHILD#{path}",
    owner=NOBODY,
)
# Each stock part has its own partition, because a partition takes only 1,000 writes a second.
STOCK = Row(
    e.Stock,
    "STOCK#{product_id}#{part:03} / STOCK",
    owner=NOBODY,
)
IMPORT = Row(
    e.Import,
    "IMPORT#{import_id} / IMPORT",
    owner=NOBODY,
)
IMPORT_PART = Row(
    e.ImportPart,
    "IMPORT#{import_id} / PART#{part:03}",
    written_by="api, import",
    owner=NOBODY,
)
# All parts of an import are written at the same time, so each part has its own partition.
IMPORT_LINES = Row(
    e.ImportLines,
    "IMPORT#{import_id}#{part:03} / LINES",
    owner=NOBODY,
)
LIST_EXPORT = Row(
    e.ListExport,
    "EXPORT#{export_id} / EXPORT",
    written_by="api, export",
    owner=NOBODY,
    purpose="it has only counts and times; its files in S3 have ids, amounts and states",
)
REVIEW = Row(
    e.Review,
    "PRODUCT#{product_id} / REVIEW#{customer_id}",
    gsi1="CUSTOMER#{customer_id} / REVIEW#{written_at}#{product_id}",
    gsi3="PRODUCT#{product_id} / REVIEW#{written_at}#{customer_id}",
    owner="customer_id",
    personal=("text",),
    purpose="to show it with the product, without its author",
)
DELETED_REVIEW = Row(
    e.DeletedReview,
    "PRODUCT#{product_id} / REVIEW#{customer_id}",
    replaces=REVIEW,
    written_by="api, customer_erasure",
    owner=NOBODY,
    purpose="it has only ids, to sort the changes of a review",
)
FOLLOW = Row(
    e.Follow,
    "CUSTOMER#{customer_id} / FOLLOWS#{product_id}",
    gsi1="PRODUCT#{product_id} / FOLLOWED_BY#{customer_id}",
    owner="customer_id",
    personal=(),
    purpose="to send alerts about the product",
    on_erasure="delete",
)
DISCOUNT = Row(
    e.Discount,
    "DISCOUNT#{code} / DISCOUNT",
    gsi3="DISCOUNTS / DISCOUNT#{code}",
    owner=NOBODY,
)
REDEMPTION_POOL = Row(
    e.RedemptionPool,
    "DISCOUNT#{code} / REDEMPTIONS#{part:03}",
    written_by="api, order_deadlines",
    owner=NOBODY,
)
ORDER = Row(
    e.Order,
    "ORDER#{order_id} / ORDER",
    gsi2="STATUS#{open_status}#{shard} / {placed_at}#{order_id}",
    gsi3="ORDERS#{documents_status} / {placed_at}#{order_id}",
    created_field="placed_at",
    written_by="api, reactions",
    owner="customer_id",
    personal=(
        "address",
        "billing_address",
        "customer_name",
        "tax_id",
        "note",
        "reference",
        "metadata",
        "cancel_reason",
        "phone_hash",
    ),
    purpose="to deliver the order",
    on_erasure="clear",
)
ARCHIVED_ORDER = Row(
    e.ArchivedOrder,
    "ORDER#{order_id} / ORDER",
    replaces=ORDER,
    created_field="placed_at",
    written_by="archive",
    owner="customer_id",
    personal=(),
    purpose="to find the order in the archive",
)
EARLIER_TIMELINE = Row(
    e.EarlierTimeline,
    "ORDER#{order_id} / EARLIER#{first_version:06}",
    written_by="api, reactions",
    owner="order_id",
    personal=(),
    purpose="to show what happened to the order",
)
EXPIRY_MARKER = Row(
    e.ExpiryMarker,
    "ORDER#{order_id} / EXPIRY",
    written_by="api, order_deadlines, archive",
    owner="customer_id",
    personal=(),
    purpose="to archive the order in time",
)
# GSI3 lists the payments that match no order, and the kept events whose payment is not known yet. GSI2 cannot list
# them, because it lacks attributes of a payment.
PAYMENT = Row(
    e.Payment,
    "ORDER#{order_id} / PAYMENT#{payment_id}",
    gsi3="PAYMENTS#{open_status} / {created_at}#{order_id}#{payment_id}",
    written_by="api, refund",
    owner="order_id",
    personal=("reference", "note"),
    purpose="to account for the money",
    on_erasure="clear",
)
STARTED_PAYMENT = Row(
    e.StartedPayment,
    "ORDER#{order_id} / STARTED_PAYMENT",
    written_by="payment_starter, api",
    owner="order_id",
    personal=(),
    purpose="so that what is due is paid only once",
)
PAYMENT_CLAIM = Row(
    e.PaymentClaim,
    "PAYMENT#{payment_id} / CLAIM",
    kind="marker",
    owner=NOBODY,
    purpose="it has only ids, so that no other order can count the money of the payment",
)
KEPT_EVENT = Row(
    e.KeptEvent,
    "ORDER#{order_id} / KEPT#{payment_id}#{object_id}",
    gsi3="PAYMENTS#{open_status} / {created_at}#{order_id}#{payment_id}#{object_id}",
    owner="order_id",
    personal=(),
    purpose="to account for the money",
)
REFUND = Row(
    e.Refund,
    "ORDER#{order_id} / REFUND#{refund_id}",
    written_by="api, order_deadlines, refund",
    owner="order_id",
    personal=("note",),
    purpose="to account for the money",
    on_erasure="clear",
)
RETURN = Row(
    e.Return,
    "ORDER#{order_id} / RETURN#{return_id}",
    owner="customer_id",
    personal=(),
    purpose="to account for goods and money",
)
SHIPMENT = Row(
    e.Shipment,
    "ORDER#{order_id} / SHIPMENT#{shipment_id}",
    gsi1="TRACKING#{carrier}#{tracking_number} / SHIPMENT#{order_id}#{shipment_id}",
    written_by="fulfilment, api",
    owner="customer_id",
    personal=(),
    purpose="to deliver the order",
)
INVOICE = Row(
    e.Invoice,
    "ORDER#{order_id} / INVOICE#{invoice_id}",
    gsi1="INVOICE#{invoice_id} / INVOICE",
    gsi2="DOCUMENTS#{shard} / {issued_at}#{invoice_id}",
    gsi3="CUSTOMER#{customer_id} / INVOICE#{issued_at}#{invoice_id}",
    unique_fields=("invoice_id",),
    written_by="fulfilment",
    owner="customer_id",
    personal=("name", "address", "billing_address", "tax_id", "reference"),
    purpose="the law requires each invoice as it was issued, with name and address",
    on_erasure="keep",
)
INVOICE_SERIES = Row(
    e.InvoiceSeries,
    "SERIES#{series} / SERIES",
    written_by="fulfilment",
    owner=NOBODY,
)
TAX_TABLE = Row(
    e.TaxTable,
    "TAXES / TAXES",
    owner=NOBODY,
)
SHIPPING_TABLE = Row(
    e.ShippingTable,
    "SHIPPING / METHODS",
    owner=NOBODY,
)
SELLER = Row(
    e.Seller,
    "SELLER / VERSION#{version:06}",
    owner=NOBODY,
)
ACCOUNT = Row(
    e.Account,
    "ACCOUNT#{account_id} / BALANCE",
    gsi1="CUSTOMER#{customer_id} / ACCOUNT#{account_id}",
    written_by="api, refund",
    owner="customer_id",
    personal=(),
    purpose="to account for credit and gift cards",
)
ENTRY = Row(
    e.Entry,
    "ACCOUNT#{account_id} / ENTRY#{version:010}",
    created_field="at",
    written_by="api, refund",
    owner="account_id",
    personal=(),
    purpose="to account for credit and gift cards",
)
COMMAND = Row(
    e.Command,
    "COMMAND#{caller}#{key} / {command}",
    kind="marker",
    owner=NOBODY,
    purpose="it has only ids, so that a repeated request gets the same result",
)
REACTION_PROGRESS = Row(
    e.ReactionProgress,
    "REACTION_PROGRESS#{effect_id} / {reaction}",
    kind="marker",
    written_by="reactions",
    owner=NOBODY,
)
NOTIFICATION = Row(
    e.Notification,
    "CUSTOMER#{customer_id} / NOTIFICATION#{at}#{effect_id}",
    kind="marker",
    unique_fields=("effect_id",),
    written_by="order_notification, product_alert",
    owner="customer_id",
    personal=(),
    purpose="to send no mail twice",
)
CAMPAIGN = Row(
    e.Campaign,
    "PRODUCT#{product_id} / CAMPAIGN#{event}",
    kind="marker",
    written_by="product_alert",
    owner=NOBODY,
)
ORDER_SUMMARY = Row(
    e.OrderSummary,
    "CUSTOMER#{customer_id} / ORDER#{placed_at}#{order_id}",
    kind="snapshot",
    written_by="copies_reader",
    owner="customer_id",
    personal=(),
    purpose="to list the customer's orders",
)
# Sales have partitions of their own. In the product's partition, many sales would slow down reads of the product.
SALE = Row(
    e.Sale,
    "SALES#{product_id}#{shard} / {placed_at}#{order_id}",
    kind="snapshot",
    unique_fields=("product_id", "placed_at", "order_id"),
    written_by="copies_reader",
    owner=NOBODY,
    purpose="it has only ids, to list the sales of a product",
)
ORDER_NUMBER = Row(
    e.OrderNumber,
    "NUMBER#{number} / ORDER#{order_id}",
    gsi1="COMPANY_ORDERS#{company_id} / {placed_at}#{order_id}",
    gsi2="ORDERS#{shard} / {placed_at}#{order_id}",
    gsi3="PHONE#{phone_hash} / {placed_at}#{order_id}",
    kind="snapshot",
    unique_fields=("order_id",),
    written_by="copies_reader",
    owner=NOBODY,
    personal=("phone_hash",),
    purpose="it has only ids, to find an order by its number, and a hash that goes with that of the order",
    on_erasure="copy",
)
# Payments and refunds change, so a key of theirs in an index would be written again with each change.
FEED_ENTRY = Row(
    e.FeedEntry,
    "FEED#{list}#{shard} / {created_at}#{order_id}#{id}",
    kind="snapshot",
    unique_fields=("list", "order_id", "id"),
    written_by="copies_reader",
    owner=NOBODY,
)
ACTIVITY = Row(
    e.Activity,
    "CUSTOMER#{customer_id} / ACTIVITY#{at}#{change_id}",
    gsi2="ACTIVITY#{day}#{shard} / {at}#{change_id}",
    kind="log",
    unique_fields=("change_id",),
    written_by="copies_reader",
    owner="customer_id",
    personal=(),
    purpose="to show what happened lately",
)
AUDIT_ENTRY = Row(
    e.AuditEntry,
    "AUDIT#{item} / {at}#{change_id}",
    gsi3="AUDITED#{person} / {at}#{change_id}",
    kind="marker",
    unique_fields=("change_id",),
    written_by="copies_reader, api, ops",
    owner=NOBODY,
    purpose="it has ids and what staff changed, without personal attributes, to account for what staff do",
)
RATING = Row(
    e.Rating,
    "PRODUCT#{product_id} / RATING",
    kind="counter",
    written_by="copies_reader",
    owner=NOBODY,
)
BEST_SELLER = Row(
    e.BestSeller,
    "PRODUCT#{product_id} / SEASON#{season}",
    gsi3="SEASON#{season}#{shard} / PIECES#{rank:010}#{product_id}",
    kind="counter",
    written_by="copies_reader",
    owner=NOBODY,
)
SALES_MINUTE = Row(
    e.SalesMinute,
    "SALES_MINUTE#{shard} / MINUTE#{minute}#{currency}#{shard}",
    kind="counter",
    written_by="copies_reader",
    owner=NOBODY,
)
CONTRIBUTION = Row(
    e.Contribution,
    "COUNTED#{source} / COUNTED",
    kind="marker",
    written_by="copies_reader",
    owner=NOBODY,
)
WEBHOOK = Row(
    e.Webhook,
    "WEBHOOKS / WEBHOOK#{webhook_id}",
    written_by="api, webhook, webhook_retries",
    owner=NOBODY,
)
# The event is stored once for all subscribers. It is not in the partition of its object, which the archive deletes.
OUTBOX_EVENT = Row(
    e.OutboxEvent,
    "OUTBOX#{object_id} / {position}",
    kind="marker",
    written_by="event_publisher, api, ops",
    owner=NOBODY,
    purpose="an event has only ids, states and amounts, and expires after days",
)
WEBHOOK_CURSOR = Row(
    e.WebhookCursor,
    "WEBHOOK#{webhook_id} / CURSOR#{object_id}",
    gsi3="WEBHOOK_DUE#{webhook_id} / {retry_at}#{object_id}",
    kind="marker",
    written_by="webhook, webhook_retries",
    owner=NOBODY,
)
DELIVERY = Row(
    e.Delivery,
    "WEBHOOK#{webhook_id} / DELIVERY#{at}#{event_id}",
    kind="marker",
    written_by="webhook, webhook_retries",
    owner=NOBODY,
)
SWEEP = Row(
    e.Sweep,
    "SWEEP#{tool} / {name}",
    kind="marker",
    written_by="ops",
    owner=NOBODY,
)

ROWS: tuple[Row[Any], ...] = tuple(row for row in list(globals().values()) if isinstance(row, Row))
ROWS_BY_TYPE: Mapping[str, Row[Any]] = {name: row for row in ROWS for name in row.types}


def rows_beside(row: Row[Any], index: IndexName = "main") -> tuple[Row[Any], ...]:
    """Return all rows whose items are in the same partition as the items of this row, in the order of ROWS."""
    partition = row.templates(index)[0].text
    return tuple(one for one in ROWS if index in one.indexes and one.templates(index)[0].text == partition)


INDEX_PROJECTIONS: Mapping[str, tuple[str, ...] | None] = {
    "GSI1": None,
    "GSI2": tuple(
        sorted(
            {
                "type",
                "schema",
                *get_type_hints(e.QueuedOrder),
                *get_type_hints(e.Activity),
                *get_type_hints(e.ErasedCustomer),
                *get_type_hints(e.Document),
            }
        )
    ),
    "GSI3": None,
}
"""The names of the attributes that each index contains, by index; None means all attributes.

DynamoDB cannot change the projection of an existing index.
"""


def create_table_request(name: str) -> dict[str, Any]:
    """Return the CreateTable request for a local DynamoDB engine.

    The stack creates the deployed table from the same declarations.
    """
    keys = [attribute for pair in KEY_ATTRIBUTES.values() for attribute in pair]
    return {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"} for key in keys],
        "KeySchema": key_schema("main"),
        "GlobalSecondaryIndexes": [
            {"IndexName": index, "KeySchema": key_schema(index.lower()), "Projection": projection(index)}
            for index in INDEX_PROJECTIONS
        ],
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    }


def key_schema(index: str) -> list[dict[str, str]]:
    """Return the KeySchema of an index, or of the table ("main"), in the format of the DynamoDB API."""
    pair = {str(name): pair for name, pair in KEY_ATTRIBUTES.items()}[index]
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(pair, ("HASH", "RANGE"), strict=True)]


def projection(index: str) -> dict[str, Any]:
    """Return the Projection of an index in the format of the DynamoDB API. DynamoDB always includes key attributes."""
    attributes = INDEX_PROJECTIONS[index]
    if attributes is None:
        return {"ProjectionType": "ALL"}
    return {
        "ProjectionType": "INCLUDE",
        "NonKeyAttributes": [name for name in attributes if name not in RESERVED_ATTRIBUTES - {"type", "schema"}],
    }
