"""The events on the bus: their names, fields and versions. A contract's fields are its item's, by name.

Events carry ids, states and amounts, no names and no addresses: the bus archive and the queues cannot be erased; a
consumer reads those when it acts. The bus promises no order: a consumer compares `version`s of one item.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from functions.dynamodb.images import Image, entity
from functions.dynamodb.keys import Instant, Row
from functions.model import entities as e
from functions.model import table as t
from functions.model.changes import KINDS, Change, NotReadable, UnknownSchema

SOURCE = "orderstream"
PERSONAL = {"name", "email", "address", "email_hash", "text", "customer_name"}


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
class Event:
    """A contract: the change it tells of, its data, its schema version. `image`: the removed item comes whole."""

    name: str
    of: Row[Any]
    data: type[Any]
    means: str
    schema: int = 1
    image: bool = False

    @cached_property
    def fields(self) -> tuple[str, ...]:
        return tuple(field.name for field in fields(self.data))

    def __post_init__(self) -> None:
        if missing := set(self.fields) - self.of.fields.keys():
            raise TypeError(f"{self.name}: {self.of.type} has no {sorted(missing)}")
        if personal := PERSONAL.intersection(self.fields):
            raise TypeError(f"{self.name} would carry {sorted(personal)}, which nobody could erase from the bus")
        if self.name not in {kind.name for kind in KINDS if kind.row is self.of}:
            raise TypeError(f"no change of {self.of.type} is called {self.name}")


# fmt: off
EVENTS = (
    Event("CustomerRegistered",   t.CUSTOMER,        CustomerData, "a customer has a profile now"),
    Event("CustomerRenamed",      t.CUSTOMER,        CustomerData, "a customer may have another name now"),
    Event("CustomerErased",       t.ERASED_CUSTOMER, CustomerData, "a customer asked to be forgotten"),
    Event("OrderPlaced",          t.ORDER,           OrderData,    "its stock is reserved; it waits for payment"),
    Event("OrderPartlyPaid",      t.ORDER,           OrderData,    "some of its total is paid; it waits for the rest"),
    Event("OrderUnpaid",          t.ORDER,           OrderData,    "a bank took some back; it waits for that again"),
    Event("OrderPaid",            t.ORDER,           OrderData,    "paid in full"),
    Event("OrderReaddressed",     t.ORDER,           OrderData,    "it goes to another address"),
    Event("OrderCancelled",       t.ORDER,           OrderData,    "cancelled; stock is free, what was paid goes back"),
    Event("OrderLapsed",          t.ORDER,           OrderData,    "not paid in time; its stock is free again"),
    Event("OrderFulfilling",      t.ORDER,           OrderData,    "with the warehouse"),
    Event("OrderCancelRequested", t.ORDER,           OrderData,    "the warehouse is asked to stop what it still has"),
    Event("OrderCancelRefused",   t.ORDER,           OrderData,    "the warehouse could not stop that"),
    Event("OrderPartlyShipped",   t.ORDER,           OrderData,    "a part of it is on its way"),
    Event("OrderShipped",         t.ORDER,           OrderData,    "on its way, all of it"),
    Event("OrderCutShort",        t.ORDER,           OrderData,    "what was not sent is free; its money goes back"),
    Event("OrderPartlyDelivered", t.ORDER,           OrderData,    "a part of it has arrived"),
    Event("OrderDelivered",       t.ORDER,           OrderData,    "delivered, or nobody objected in time"),
    Event("OrderPartlyReturned",  t.ORDER,           OrderData,    "a part of it came back"),
    Event("OrderReturned",        t.ORDER,           OrderData,    "all of it came back"),
    Event("OrderRefunded",        t.ORDER,           OrderData,    "some money is given back, without a return"),
    Event("OrderExpired",         t.EXPIRY,          ExpiryData,   "its retention is over; it is to be archived"),
    Event("OrderArchived",        t.ARCHIVED_ORDER,  OrderData,    "all of it lies in the archive"),
    Event("OrderRestored",        t.ORDER,           OrderData,    "all of it is back from the archive"),
    Event("PaymentAuthorised",    t.PAYMENT,         PaymentData,  "the provider may take the money"),
    Event("PaymentCaptured",      t.PAYMENT,         PaymentData,  "the money is here"),
    Event("PaymentFailed",        t.PAYMENT,         PaymentData,  "the provider did not get the money"),
    Event("PaymentUnmatched",     t.PAYMENT,         PaymentData,  "money that fits no order: a person must look"),
    Event("PaymentDisputed",      t.PAYMENT,         PaymentData,  "the customer's bank asks the money back"),
    Event("PaymentRefunded",      t.PAYMENT,         PaymentData,  "nothing is left: given back, or taken by the bank"),
    Event("RefundRequested",      t.REFUND,          RefundData,   "money is to be given back"),
    Event("RefundSucceeded",      t.REFUND,          RefundData,   "it has been given back"),
    Event("RefundFailed",         t.REFUND,          RefundData,   "it cannot be given back: a person must look"),
    Event("GoodsReturned",        t.RETURN,          ReturnData,   "goods came back"),
    Event("InvoiceIssued",        t.INVOICE,         InvoiceData,  "an invoice has its number"),
    Event("ShipmentRequested",    t.SHIPMENT,        ShipmentData, "the warehouse is to pack and send what is there"),
    Event("ShipmentDispatched",   t.SHIPMENT,        ShipmentData, "the carrier has it"),
    Event("ShipmentDelivered",    t.SHIPMENT,        ShipmentData, "the customer has it"),
    Event("ShipmentCancelled",    t.SHIPMENT,        ShipmentData, "it is not to be sent"),
    Event("ImportPartQueued",     t.IMPORT_PART,     ImportPartData, "lines of an import are to be written"),
    Event("ActivityExpired",      t.ACTIVITY,        ActivityData, "an entry ended; to be archived", image=True),
    Event("StockReplenished",     t.STOCK,           StockData,    "a part of its stock had none, and has some again"),
    Event("PriceDropped",         t.PRODUCT,         PriceData,    "it costs less than before"),
)
# fmt: on
BY_NAME: Mapping[str, Event] = {event.name: event for event in EVENTS}


def detail(change: Change) -> dict[str, Any] | None:
    """The event of a change as JSON, None where it has none:

    {"id": change id, "type": name, "schema": n, "time": instant, "version": n, "data": {...}, "image": tagged item}
    """
    event = BY_NAME.get(change.name)
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
    return body | ({"image": change.image} if event.image else {})


def _json(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class Received:
    """An event as a consumer has it. `data` is an instance of the contract's class; `attempt`: which delivery it is."""

    id: str
    name: str
    at: Instant
    version: int
    data: Any
    image: Image | None
    attempt: int = 1


def received(detail: Any) -> Received:
    """A `detail` read back. Raises UnknownSchema and NotReadable, which no retry heals."""
    event = BY_NAME.get(str(detail.get("type"))) if isinstance(detail, Mapping) else None
    if event is None:
        raise NotReadable("an event of no known type")
    if detail.get("schema") != event.schema:
        raise UnknownSchema(f"{event.name} of schema {detail.get('schema')}; this code knows {event.schema}")
    try:
        told = detail["data"]  # by older code, perhaps, which did not know of fields that have a default
        data = event.data(**{name: told[name] for name in event.fields if name in told})
        return Received(detail["id"], event.name, detail["time"], int(detail["version"]), data, detail.get("image"))
    except (LookupError, TypeError, ValueError) as error:
        raise NotReadable(f"{event.name}: {type(error).__name__}: {error}") from error


def attempt_of(message: Mapping[str, Any]) -> int:
    """Which delivery of a queue's message this is: 1 for the first."""
    return int((message.get("attributes") or {}).get("ApproximateReceiveCount", 1))


def order_in(message: Mapping[str, Any]) -> str | None:
    """The order that a queue's message is about, where it says so."""
    try:
        order_id = json.loads(message["body"])["detail"]["data"]["order_id"]
    except (LookupError, TypeError, ValueError):
        return None
    return order_id if isinstance(order_id, str) else None
