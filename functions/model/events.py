"""The event contracts: names, fields and schema versions of the events on the EventBridge bus.

Each field of an event is copied from the item's field with the same name. Events contain ids, states and amounts, but
no names or addresses, because personal data in the bus archive and the queues could not be erased. A consumer that
needs a name or an address reads the item. The bus may deliver events out of order: of two events about the same item,
the event with the higher `version` describes the later change.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

from functions.dynamodb.codec import Image, entity
from functions.dynamodb.keys import Instant, Row
from functions.model import entities as e
from functions.model import table as t
from functions.model.changes import CHANGE_TYPES, Change, NotReadable, UnknownSchema

EVENT_SOURCE = "orderstream"


@entity
class CustomerData:
    customer_id: str


@entity
class GuestData:
    customer_id: str
    order_id: str


@entity
class OrderData:
    order_id: str
    customer_id: str
    status: e.OrderStatus
    total: int
    currency: str
    placed_at: Instant


@entity
class ExpiryData:
    order_id: str
    customer_id: str


@entity
class PaymentData:
    order_id: str
    payment_id: str
    method: e.PaymentMethod
    status: e.PaymentStatus
    amount: int
    currency: str


@entity
class StartedPaymentData:
    order_id: str
    payment_id: str
    amount: int
    currency: str


@entity
class KeptEventData:
    order_id: str
    payment_id: str
    object_id: str
    kind: Literal["DISPUTE", "REFUND"]
    status: e.KeptEventStatus
    amount: int
    currency: str


@entity
class RefundData:
    order_id: str
    refund_id: str
    payment_id: str
    customer_id: str | None
    status: e.RefundStatus
    amount: int
    currency: str
    why: e.RefundReason


@entity
class ReturnData:
    order_id: str
    return_id: str
    customer_id: str
    quantities: Mapping[str, int]
    amount: int
    currency: str


@entity
class InvoiceData:
    invoice_id: str
    order_id: str
    customer_id: str
    total: int
    currency: str
    issued_at: Instant


@entity
class ShipmentData:
    order_id: str
    shipment_id: str
    customer_id: str
    status: e.ShipmentStatus
    quantities: Mapping[str, int]
    backordered: Mapping[str, int] | None
    carrier: str | None
    tracking_number: str | None
    shipping_method: str | None = None
    pickup: bool = False


@entity
class StockData:
    product_id: str
    part: int
    available: int
    available_before: int
    added_at: Instant


@entity
class PriceData:
    product_id: str
    price: int
    currency: str


@entity
class ActivityData:
    customer_id: str
    at: Instant
    change_id: str


@entity
class ImportPartData:
    import_id: str
    part: int


@entity
class ListExportData:
    export_id: str


@dataclass(frozen=True)
class EventContract:
    """The contract of an event: its name, its item type, its fields and its schema version.

    `row`: the declaration of the item type that the event is about (a row of model/table.py). `data`: the class with the
    event's fields. `is_joined`: whether one event may stand for several items of the same day. It then contains the
    whole items, as `images` in DynamoDB's JSON, and its other fields are the fields of the first item.
    """

    name: str
    row: Row[Any]
    data: type[Any]
    description: str
    schema: int = 1
    is_joined: bool = False

    @cached_property
    def fields(self) -> tuple[str, ...]:
        return tuple(field.name for field in fields(self.data))

    def check(self) -> None:
        """Raise TypeError if the declaration is wrong.

        Each field must exist in the item type and must not be personal data. `CHANGE_TYPES` must declare a change of
        this item type with the event's name.
        """
        if missing := set(self.fields) - self.row.fields.keys():
            raise TypeError(f"{self.name}: {self.row.type} has no fields {sorted(missing)}")
        if personal := set(self.row.personal or ()).intersection(self.fields):
            raise TypeError(
                f"{self.name} must not contain {sorted(personal)}: personal data on the bus cannot be erased"
            )
        if self.name not in {kind.name for kind in CHANGE_TYPES if kind.row is self.row}:
            raise TypeError(
                f"{self.name}: {self.row.type} has no change with this name: declare a ChangeType in "
                "functions/model/changes.py"
            )


# fmt: off
EVENTS = (
    EventContract("CustomerRegistered",   t.CUSTOMER,        CustomerData, "a customer registered"),
    EventContract("CustomerRenamed",      t.CUSTOMER,        CustomerData, "a customer's profile changed; the name may be new"),
    EventContract("CustomerErased",       t.ERASED_CUSTOMER, CustomerData, "a customer requested the erasure of their data"),
    EventContract("GuestLinkRenewed",     t.CUSTOMER,        GuestData,    "the earlier links to the order of a guest were revoked; a new one is due"),
    EventContract("OrderPlaced",          t.ORDER,           OrderData,    "an order was placed; stock is reserved, payment is due"),
    EventContract("OrderPartlyPaid",      t.ORDER,           OrderData,    "a payment covered a part of the total; the rest is due"),
    EventContract("OrderUnpaid",          t.ORDER,           OrderData,    "a bank took back a part payment, or staff reversed it; that amount is due again"),
    EventContract("OrderPaid",            t.ORDER,           OrderData,    "an order was paid in full"),
    EventContract("OrderJoined",          t.ORDER,           OrderData,    "the order of a guest moved to the account of a registered customer"),
    EventContract("OrderAddressChanged",     t.ORDER,           OrderData,    "the delivery address of an order changed"),
    EventContract("OrderCancelled",       t.ORDER,           OrderData,    "an order was cancelled; stock is free, payments are refunded"),
    EventContract("OrderLapsed",          t.ORDER,           OrderData,    "an order was not paid in time; its stock is free again"),
    EventContract("OrderFulfilling",      t.ORDER,           OrderData,    "an order was passed to the warehouse"),
    EventContract("OrderCancelRequested", t.ORDER,           OrderData,    "the warehouse is asked to stop unsent goods of an order"),
    EventContract("OrderCancelRefused",   t.ORDER,           OrderData,    "the warehouse could not stop the goods of an order"),
    EventContract("OrderPartlyShipped",   t.ORDER,           OrderData,    "a part of an order was shipped"),
    EventContract("OrderShipped",         t.ORDER,           OrderData,    "all goods of an order were shipped"),
    EventContract("OrderCutShort",        t.ORDER,           OrderData,    "the unsent part of an order was cancelled and is refunded"),
    EventContract("OrderPartlyDelivered", t.ORDER,           OrderData,    "a part of an order was delivered"),
    EventContract("OrderDelivered",       t.ORDER,           OrderData,    "an order was delivered, or counts as delivered after a time limit"),
    EventContract("OrderPartlyReturned",  t.ORDER,           OrderData,    "a part of an order was returned"),
    EventContract("OrderReturned",        t.ORDER,           OrderData,    "all goods of an order were returned"),
    EventContract("OrderRefunded",        t.ORDER,           OrderData,    "an amount of an order is refunded without a return"),
    EventContract("OrderCredited",        t.ORDER,           OrderData,    "a credit note is due for money that left an order outside the shop"),
    EventContract("OrderOverRefunded",    t.ORDER,           OrderData,    "more money of an order was given back than was paid; a person must check it"),
    EventContract("OrderExpired",         t.EXPIRY_MARKER,          ExpiryData,   "the retention of an order ended; it must be archived"),
    EventContract("OrderArchived",        t.ARCHIVED_ORDER,  OrderData,    "an order was moved to the archive"),
    EventContract("OrderRestored",        t.ORDER,           OrderData,    "an order was restored from the archive"),
    EventContract("PaymentAuthorised",    t.PAYMENT,         PaymentData,  "a payment is authorised and can be captured"),
    EventContract("PaymentCaptured",      t.PAYMENT,         PaymentData,  "a payment was received"),
    EventContract("PaymentFailed",        t.PAYMENT,         PaymentData,  "a payment failed, or staff reversed an offline payment"),
    EventContract("PaymentUnmatched",     t.PAYMENT,         PaymentData,  "a payment matches no order; a person must check it"),
    EventContract("PaymentDisputed",      t.PAYMENT,         PaymentData,  "the customer's bank disputes a payment"),
    EventContract("PaymentRefunded",      t.PAYMENT,         PaymentData,  "a payment was refunded in full, or charged back by the bank"),
    EventContract("StartedPaymentOutdated", t.STARTED_PAYMENT, StartedPaymentData, "the due amount changed, so the payment that a customer started is cancelled"),
    EventContract("PaymentEventKept",     t.KEPT_EVENT,      KeptEventData, "a dispute or refund came, but its payment is archived or not known yet"),
    EventContract("KeptPaymentEventChanged", t.KEPT_EVENT,   KeptEventData, "the state of a kept dispute or refund changed"),
    EventContract("RefundRequested",      t.REFUND,          RefundData,   "a refund was requested, or is retried"),
    EventContract("RefundSucceeded",      t.REFUND,          RefundData,   "a refund was paid to the customer"),
    EventContract("RefundFailed",         t.REFUND,          RefundData,   "a refund failed; a person must handle it"),
    EventContract("RefundSettled",        t.REFUND,          RefundData,   "staff recorded that a failed refund was paid outside the shop"),
    EventContract("GoodsReturned",        t.RETURN,          ReturnData,   "goods of an order were returned"),
    EventContract("InvoiceIssued",        t.INVOICE,         InvoiceData,  "an invoice was issued and has its number"),
    EventContract("CreditNoteIssued",     t.INVOICE,         InvoiceData,  "a credit note was issued and has its number"),
    EventContract("ShipmentRequested",    t.SHIPMENT,        ShipmentData, "the warehouse is asked to pack and send a shipment"),
    EventContract("ShipmentDispatched",   t.SHIPMENT,        ShipmentData, "a carrier has a shipment"),
    EventContract("ShipmentDelivered",    t.SHIPMENT,        ShipmentData, "a shipment was delivered"),
    EventContract("ShipmentCancelled",    t.SHIPMENT,        ShipmentData, "a shipment was cancelled before it was sent"),
    EventContract("ImportPartQueued",     t.IMPORT_PART,     ImportPartData, "a part of an import is ready to be written"),
    EventContract("ExportPartRequested",  t.LIST_EXPORT,     ListExportData, "the next part of a list export is ready to be written"),
    EventContract("ActivityExpired",      t.ACTIVITY,        ActivityData, "the retention of activity entries of one day ended; they must be archived", is_joined=True),
    EventContract("StockReplenished",     t.STOCK,           StockData,    "a stock part of a product was empty and is available again"),
    EventContract("PriceDropped",         t.PRODUCT,         PriceData,    "the price of a product dropped"),
)
# fmt: on
EVENTS_BY_NAME: Mapping[str, EventContract] = {event.name: event for event in EVENTS}
WEBHOOK_EVENTS = tuple(
    one.name for one in EVENTS if not one.is_joined and one.row not in (t.IMPORT_PART, t.LIST_EXPORT)
)
"""The events that webhooks can have. The others are messages of the shop to itself."""


def build_event_detail(change: Change) -> dict[str, Any] | None:
    """Return the event for a change as a JSON object, or None if no event is declared for the change.

    The object is {"id": change id, "type": event name, "schema": schema version of the event, "time": time of the
    change, "version": version of the changed item, "data": {field: value}}. If events of its type are joined, the object
    also has "images": a list with the item, with DynamoDB type tags, such as {"order_id": {"S": "o1"}}.
    """
    event = EVENTS_BY_NAME.get(change.name)
    if event is None:
        return None
    body: dict[str, Any] = {
        "id": change.id,
        "type": event.name,
        "schema": event.schema,
        "time": change.at,
        "version": change.version,
        "data": {name: _json(getattr(change.item, name)) for name in event.fields},
    }
    return body | ({"images": [change.image]} if event.is_joined else {})


def join_key(detail: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return (event type, day), which is equal for events that may be joined. Returns None if the event is not joined.

    The day of an item is the day of its field `at`.
    """
    return (detail["type"], detail["data"]["at"][:10]) if EVENTS_BY_NAME[detail["type"]].is_joined else None


def join_events(details: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return one event for several events with the same `join_key`. Its id is a hash of the ids of these events."""
    ids = " ".join(detail["id"] for detail in details)
    images = [image for detail in details for image in detail["images"]]
    return {**details[0], "id": hashlib.sha256(ids.encode()).hexdigest()[:32], "images": images}


def _json(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class ReceivedEvent:
    """An event as a consumer receives it.

    `id`: the id of the change. `version`: the item's version after the change. `data`: an instance of the event's data
    class, such as OrderData. `images`: the whole items in DynamoDB's JSON; empty if the event does not include them.
    `attempt`: 1 for the first delivery by SQS, 2 for the second delivery. `outbox`: if webhooks have the event, where
    it is in their outbox.
    """

    id: str
    name: str
    at: Instant
    version: int
    data: Any
    images: tuple[Image, ...] = ()
    attempt: int = 1
    outbox: "OutboxPlace | None" = None


@dataclass(frozen=True)
class OutboxPlace:
    """Where an event is in the outbox of webhooks (OutboxEvent). `late`: it is published again, so send it again."""

    object_id: str
    position: str
    late: bool = False


def parse_event_detail(detail: Any) -> ReceivedEvent:
    """Parse the `detail` of an event. Raises UnknownSchema or NotReadable; retrying cannot fix these errors."""
    event = EVENTS_BY_NAME.get(str(detail.get("type"))) if isinstance(detail, Mapping) else None
    if event is None:
        raise NotReadable("the event has an unknown type")
    if detail.get("schema") != event.schema:
        raise UnknownSchema(f"{event.name} of schema {detail.get('schema')}; this code knows {event.schema}")
    try:
        sent_data = detail["data"]  # an older event may lack a field that was added later: the field gets its default
        data = event.data(**{name: sent_data[name] for name in event.fields if name in sent_data})
        images = tuple(dict(image) for image in detail["images"]) if event.is_joined else ()
        outbox = OutboxPlace(**detail["outbox"]) if "outbox" in detail else None
        at, version = detail["time"], int(detail["version"])
        return ReceivedEvent(detail["id"], event.name, at, version, data, images, outbox=outbox)
    except (LookupError, TypeError, ValueError) as error:
        raise NotReadable(f"{event.name}: {type(error).__name__}: {error}") from error


def delivery_attempt(message: Mapping[str, Any]) -> int:
    """Return how often SQS has delivered a message so far: 1 for the first delivery."""
    return int((message.get("attributes") or {}).get("ApproximateReceiveCount", 1))


def order_id_of_message(message: Mapping[str, Any]) -> str | None:
    """Return the order id from the event in an SQS message.

    Returns None if the event has no order id, or if the message is malformed.
    """
    try:
        order_id = json.loads(message["body"])["detail"]["data"]["order_id"]
    except (LookupError, TypeError, ValueError):
        return None
    return order_id if isinstance(order_id, str) else None
