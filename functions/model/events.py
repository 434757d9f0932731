"""The event contracts: names, fields and schema versions of the events on the EventBridge bus.

Each field of an event is copied from the item's field with the same name. Events contain ids, states and amounts, but
no names or addresses, because data in the bus archive and the queues cannot be erased. If a consumer needs a name or an
address, it reads the item. The bus guarantees no order, so a consumer compares the `version`s of an item.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from functions.dynamodb.codec import Image, entity
from functions.dynamodb.keys import Instant, Row
from functions.model import entities as e
from functions.model import table as t
from functions.model.changes import CHANGE_TYPES, Change, NotReadable, UnknownSchema

EVENT_SOURCE = "orderstream"
PERSONAL_FIELDS = {"name", "email", "address", "email_hash", "text", "customer_name"}


@entity
class CustomerData:
    customer_id: str


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


@entity
class StockData:
    product_id: str
    part: int
    available: int


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


@dataclass(frozen=True)
class EventContract:
    """The contract of an event: its name, item type, data class and schema version.

    `includes_image`: the event contains the whole removed item.
    """

    name: str
    row: Row[Any]
    data: type[Any]
    description: str
    schema: int = 1
    includes_image: bool = False

    @cached_property
    def fields(self) -> tuple[str, ...]:
        return tuple(field.name for field in fields(self.data))

    def check(self) -> None:
        """Raise TypeError if the declaration is wrong."""
        if missing := set(self.fields) - self.row.fields.keys():
            raise TypeError(f"{self.name}: {self.row.type} has no {sorted(missing)}")
        if personal := PERSONAL_FIELDS.intersection(self.fields):
            raise TypeError(f"{self.name} would carry {sorted(personal)}, which nobody could erase from the bus")
        if self.name not in {kind.name for kind in CHANGE_TYPES if kind.row is self.row}:
            raise TypeError(f"no change of {self.row.type} is called {self.name}")


# fmt: off
EVENTS = (
    EventContract("CustomerRegistered",   t.CUSTOMER,        CustomerData, "a customer has a profile now"),
    EventContract("CustomerRenamed",      t.CUSTOMER,        CustomerData, "a customer may have another name now"),
    EventContract("CustomerErased",       t.ERASED_CUSTOMER, CustomerData, "a customer asked to be forgotten"),
    EventContract("OrderPlaced",          t.ORDER,           OrderData,    "its stock is reserved; it waits for payment"),
    EventContract("OrderPartlyPaid",      t.ORDER,           OrderData,    "some of its total is paid; it waits for the rest"),
    EventContract("OrderUnpaid",          t.ORDER,           OrderData,    "a bank took some back; it waits for that again"),
    EventContract("OrderPaid",            t.ORDER,           OrderData,    "paid in full"),
    EventContract("OrderReaddressed",     t.ORDER,           OrderData,    "it goes to another address"),
    EventContract("OrderCancelled",       t.ORDER,           OrderData,    "cancelled; stock is free, what was paid goes back"),
    EventContract("OrderLapsed",          t.ORDER,           OrderData,    "not paid in time; its stock is free again"),
    EventContract("OrderFulfilling",      t.ORDER,           OrderData,    "with the warehouse"),
    EventContract("OrderCancelRequested", t.ORDER,           OrderData,    "the warehouse is asked to stop what it still has"),
    EventContract("OrderCancelRefused",   t.ORDER,           OrderData,    "the warehouse could not stop that"),
    EventContract("OrderPartlyShipped",   t.ORDER,           OrderData,    "a part of it is on its way"),
    EventContract("OrderShipped",         t.ORDER,           OrderData,    "on its way, all of it"),
    EventContract("OrderCutShort",        t.ORDER,           OrderData,    "what was not sent is free; its money goes back"),
    EventContract("OrderPartlyDelivered", t.ORDER,           OrderData,    "a part of it has arrived"),
    EventContract("OrderDelivered",       t.ORDER,           OrderData,    "delivered, or nobody objected in time"),
    EventContract("OrderPartlyReturned",  t.ORDER,           OrderData,    "a part of it came back"),
    EventContract("OrderReturned",        t.ORDER,           OrderData,    "all of it came back"),
    EventContract("OrderRefunded",        t.ORDER,           OrderData,    "some money is given back, without a return"),
    EventContract("OrderExpired",         t.EXPIRY,          ExpiryData,   "its retention is over; it is to be archived"),
    EventContract("OrderArchived",        t.ARCHIVED_ORDER,  OrderData,    "all of it lies in the archive"),
    EventContract("OrderRestored",        t.ORDER,           OrderData,    "all of it is back from the archive"),
    EventContract("PaymentAuthorised",    t.PAYMENT,         PaymentData,  "the provider may take the money"),
    EventContract("PaymentCaptured",      t.PAYMENT,         PaymentData,  "the money is here"),
    EventContract("PaymentFailed",        t.PAYMENT,         PaymentData,  "the provider did not get the money"),
    EventContract("PaymentUnmatched",     t.PAYMENT,         PaymentData,  "money that fits no order: a person must look"),
    EventContract("PaymentDisputed",      t.PAYMENT,         PaymentData,  "the customer's bank asks the money back"),
    EventContract("PaymentRefunded",      t.PAYMENT,         PaymentData,  "nothing is left: given back, or taken by the bank"),
    EventContract("RefundRequested",      t.REFUND,          RefundData,   "money is to be given back"),
    EventContract("RefundSucceeded",      t.REFUND,          RefundData,   "it has been given back"),
    EventContract("RefundFailed",         t.REFUND,          RefundData,   "it cannot be given back: a person must look"),
    EventContract("GoodsReturned",        t.RETURN,          ReturnData,   "goods came back"),
    EventContract("InvoiceIssued",        t.INVOICE,         InvoiceData,  "an invoice has its number"),
    EventContract("ShipmentRequested",    t.SHIPMENT,        ShipmentData, "the warehouse is to pack and send what is there"),
    EventContract("ShipmentDispatched",   t.SHIPMENT,        ShipmentData, "the carrier has it"),
    EventContract("ShipmentDelivered",    t.SHIPMENT,        ShipmentData, "the customer has it"),
    EventContract("ShipmentCancelled",    t.SHIPMENT,        ShipmentData, "it is not to be sent"),
    EventContract("ImportPartQueued",     t.IMPORT_PART,     ImportPartData, "lines of an import are to be written"),
    EventContract("ActivityExpired",      t.ACTIVITY,        ActivityData, "an entry ended; to be archived", includes_image=True),
    EventContract("StockReplenished",     t.STOCK,           StockData,    "a part of its stock had none, and has some again"),
    EventContract("PriceDropped",         t.PRODUCT,         PriceData,    "it costs less than before"),
)
# fmt: on
EVENTS_BY_NAME: Mapping[str, EventContract] = {event.name: event for event in EVENTS}


def build_event_detail(change: Change) -> dict[str, Any] | None:
    """Return the event for a change as a JSON object, or None if no event is declared for the change. The object is:

    {"id": change id, "type": name, "schema": n, "time": instant, "version": n, "data": {...}, "image": tagged item}
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
    return body | ({"image": change.image} if event.includes_image else {})


def _json(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class ReceivedEvent:
    """An event as a consumer receives it. `data`: an instance of the contract's data class. `attempt`: the number of
    this delivery."""

    id: str
    name: str
    at: Instant
    version: int
    data: Any
    image: Image | None
    attempt: int = 1


def parse_event_detail(detail: Any) -> ReceivedEvent:
    """Parse the `detail` of an event. Raises UnknownSchema or NotReadable; retrying cannot fix these errors."""
    event = EVENTS_BY_NAME.get(str(detail.get("type"))) if isinstance(detail, Mapping) else None
    if event is None:
        raise NotReadable("an event of no known type")
    if detail.get("schema") != event.schema:
        raise UnknownSchema(f"{event.name} of schema {detail.get('schema')}; this code knows {event.schema}")
    try:
        sent_data = detail["data"]  # older code may have sent the event without newer fields; those take their default
        data = event.data(**{name: sent_data[name] for name in event.fields if name in sent_data})
        return ReceivedEvent(
            detail["id"], event.name, detail["time"], int(detail["version"]), data, detail.get("image")
        )
    except (LookupError, TypeError, ValueError) as error:
        raise NotReadable(f"{event.name}: {type(error).__name__}: {error}") from error


def delivery_attempt(message: Mapping[str, Any]) -> int:
    """Return how often SQS has delivered a queue message, this delivery included: 1 for the first delivery."""
    return int((message.get("attributes") or {}).get("ApproximateReceiveCount", 1))


def order_id_of_message(message: Mapping[str, Any]) -> str | None:
    """Return the order id in the event that a queue message contains, or None if the event has none."""
    try:
        order_id = json.loads(message["body"])["detail"]["data"]["order_id"]
    except (LookupError, TypeError, ValueError):
        return None
    return order_id if isinstance(order_id, str) else None
