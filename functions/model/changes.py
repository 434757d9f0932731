"""Convert DynamoDB stream records into typed changes: which item changed, and how.

The id of a change is a hash of the item's key, its creation time, its version, and the event name of the stream record
(INSERT, MODIFY or REMOVE). So a record that is delivered twice gives the same id.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from functions.dynamodb.codec import Image
from functions.dynamodb.errors import Permanent
from functions.dynamodb.keys import Instant, Row, instant_from_epoch
from functions.dynamodb.record_batch import Record
from functions.model import states
from functions.model import table as t
from functions.model.entities import Customer, Invoice, ListExport, Order, Product, StartedPayment, Stock
from functions.model.timelines import OrderEvent

StreamEventName = Literal["INSERT", "MODIFY", "REMOVE"]
IGNORED_ROW_KINDS = ("marker", "counter")
RESTORED_ATTRIBUTE = "restored_at"
"""The attribute with the time when an item was restored from the archive.

If an inserted item has this attribute, the insertion is not reported as a change, because the item existed before.
"""


class UnknownSchema(Permanent):
    """The item or event has a schema version that this code does not know: attributes may mean something else."""


class NotReadable(Permanent):
    """The stream record or event is malformed, or an image (an item in DynamoDB's JSON) cannot be decoded."""


@dataclass(frozen=True)
class ChangeType:
    """A type of change: its name, and the conditions by which a stream record is recognised as this change.

    `row`: the declaration of an item type (a row of model/table.py). The item has this type after the change. If the
    item was removed, it had this type before. `event_name`: the event name of the stream record (INSERT, MODIFY or
    REMOVE).

    The other conditions apply only if they are set:
    - `new_status`: the item has this status after the change.
    - `only_ttl_deletion`: DynamoDB deleted the item because its ttl had passed.
    - `previous_row`: the item had the type of this row before the change. If the record has no old image, the old type
      is unknown. Then the record matches only if `new_status` is set and equals the new status.
    - `transition`: the item made this state transition.
    - `condition`: this function returns True. Its arguments are the item before (None if unknown) and after the change.

    `old_image_filter`: conditions on attributes of the item before the change, in the syntax of Lambda event filters.
    Lambda then invokes the event publisher only for records that meet the conditions. Set it for items that are written
    very often.
    """

    name: str
    row: Row[Any]
    event_name: StreamEventName
    new_status: str | None = None
    only_ttl_deletion: bool = False
    previous_row: Row[Any] | None = None
    transition: states.Transition | None = None
    condition: Callable[[Any | None, Any], bool] | None = None
    old_image_filter: Mapping[str, tuple[Any, ...]] | None = None

    def matches(self, before: Any, after: Any, expired: bool) -> bool:
        """Return whether the change from `before` (None if unknown or inserted) to `after` (None if removed) is of this
        type.

        `expired`: whether DynamoDB deleted the item because its ttl had passed.
        """
        if self.only_ttl_deletion > expired:
            return False
        if self.previous_row is not None and not (
            isinstance(before, self.previous_row.entity) or (before is None and self.new_status)
        ):
            return False
        if self.transition is not None:
            return _transition_happened(self.transition, before, after)
        if self.condition is not None:
            return self.condition(before, after)
        return self.new_status is None or bool(after.status == self.new_status)


def _transition_happened(transition: states.Transition, before: Any, after: Any) -> bool:
    """Return whether a state transition leads from `before` to `after`. Without `before`, only `after` is compared."""
    if before is None:
        return bool(transition.after == after.status)
    if before.status not in transition.before or transition.status_after(before.status) != after.status:
        return False
    if not transition.changed_field:
        return True
    was, now = getattr(before, transition.changed_field), getattr(after, transition.changed_field)
    return bool(now < was if transition.decreasing else now != was)


def _transition_change_types(row: Row[Any], transitions: tuple[states.Transition, ...]) -> list[ChangeType]:
    return [ChangeType(move.change_name, row, "MODIFY", transition=move) for move in transitions]


def _is_registered(_: Customer | None, after: Customer) -> bool:
    return after.order_id is None


def _has_new_link(before: Customer | None, after: Customer) -> bool:
    return before is not None and before.link != after.link


def _is_renamed(before: Customer | None, after: Customer) -> bool:
    return before is None or before.name != after.name


def _is_replenished(before: Stock | None, after: Stock) -> bool:
    # Pieces that were moved here from another stock part are not new stock.
    return before is not None and before.available <= 0 < after.available and before.moved == after.moved


def _is_outdated(_: StartedPayment | None, after: StartedPayment) -> bool:
    return after.status == "OUTDATED"


def _is_credit_note(_: Invoice | None, after: Invoice) -> bool:
    return after.kind == "CREDIT_NOTE"


def _is_price_drop(before: Product | None, after: Product) -> bool:
    return before is not None and before.currency == after.currency and after.price < before.price


def _has_more_parts(_: ListExport | None, after: ListExport) -> bool:
    return after.status == "RUNNING"


ZERO_OR_NEGATIVE: tuple[Any, ...] = ("0", {"prefix": "-"})
"""Lambda event filter for a number that is 0 or negative.

Stream records contain numbers as text, so a negative number is a text that starts with "-".
"""

CHANGE_TYPES = (
    ChangeType("CustomerRegistered", t.CUSTOMER, "INSERT", condition=_is_registered),
    ChangeType("GuestLinkRenewed", t.CUSTOMER, "MODIFY", condition=_has_new_link),
    ChangeType("CustomerRenamed", t.CUSTOMER, "MODIFY", condition=_is_renamed),
    ChangeType("CustomerErased", t.ERASED_CUSTOMER, "MODIFY", previous_row=t.CUSTOMER, new_status="ERASING"),
    ChangeType("OrderRestored", t.ORDER, "MODIFY", previous_row=t.ARCHIVED_ORDER),
    ChangeType("OrderPaid", t.ORDER, "INSERT", new_status="PAID"),  # an order with total 0 is inserted as PAID
    ChangeType("OrderPlaced", t.ORDER, "INSERT"),
    *_transition_change_types(t.ORDER, states.ORDER_TRANSITIONS),
    ChangeType("OrderExpired", t.EXPIRY_MARKER, "REMOVE", only_ttl_deletion=True),
    ChangeType("OrderArchived", t.ARCHIVED_ORDER, "MODIFY", previous_row=t.ORDER),
    ChangeType("PaymentAuthorised", t.PAYMENT, "INSERT", new_status="AUTHORISED"),
    ChangeType("PaymentCaptured", t.PAYMENT, "INSERT", new_status="CAPTURED"),
    ChangeType("PaymentFailed", t.PAYMENT, "INSERT", new_status="FAILED"),
    ChangeType("PaymentUnmatched", t.PAYMENT, "INSERT", new_status="UNMATCHED"),
    *_transition_change_types(t.PAYMENT, states.PAYMENT_TRANSITIONS),
    ChangeType("StartedPaymentOutdated", t.STARTED_PAYMENT, "MODIFY", condition=_is_outdated),
    ChangeType("PaymentEventKept", t.KEPT_EVENT, "INSERT"),
    ChangeType("KeptPaymentEventChanged", t.KEPT_EVENT, "MODIFY"),
    # A refund that a person made at the provider is inserted with the provider's state.
    ChangeType("RefundSent", t.REFUND, "INSERT", new_status="SENT"),
    ChangeType("RefundSucceeded", t.REFUND, "INSERT", new_status="SUCCEEDED"),
    ChangeType("RefundFailed", t.REFUND, "INSERT", new_status="FAILED"),
    ChangeType("RefundRequested", t.REFUND, "INSERT"),
    *_transition_change_types(t.REFUND, states.REFUND_TRANSITIONS),
    ChangeType("GoodsReturned", t.RETURN, "INSERT"),
    ChangeType("CreditNoteIssued", t.INVOICE, "INSERT", condition=_is_credit_note),
    ChangeType("InvoiceIssued", t.INVOICE, "INSERT"),
    ChangeType("ShipmentRequested", t.SHIPMENT, "INSERT", new_status="REQUESTED"),
    *_transition_change_types(t.SHIPMENT, states.SHIPMENT_TRANSITIONS),
    ChangeType("ImportPartQueued", t.IMPORT_PART, "INSERT", new_status="QUEUED"),
    # Each saved part requests the next one, so that no invocation runs long.
    ChangeType("ExportPartRequested", t.LIST_EXPORT, "INSERT"),
    ChangeType("ExportPartRequested", t.LIST_EXPORT, "MODIFY", condition=_has_more_parts),
    ChangeType("ActivityExpired", t.ACTIVITY, "REMOVE", only_ttl_deletion=True),
    ChangeType(
        "StockReplenished",
        t.STOCK,
        "MODIFY",
        condition=_is_replenished,
        old_image_filter={"available": ZERO_OR_NEGATIVE},
    ),
    ChangeType("PriceDropped", t.PRODUCT, "MODIFY", condition=_is_price_drop),
)
_CHANGE_TYPES_BY_EVENT = {
    (row, on): tuple(kind for kind in CHANGE_TYPES if (kind.row.type, kind.event_name) == (row, on))
    for row, on in {(kind.row.type, kind.event_name) for kind in CHANGE_TYPES}
}


@dataclass(frozen=True)
class Change:
    """A change of an item, read from a stream record.

    `name`: such as OrderPaid. `version`: the item's version after the change, or its last version if it was removed.
    `before`: None if the item was inserted or its old image is unknown. `after`: None if it was removed. `image`: the
    new item in DynamoDB's JSON, or the old item if it was removed.
    """

    id: str
    name: str
    row: Row[Any]
    event_name: StreamEventName
    at: Instant
    version: int
    before: Any
    after: Any
    image: Image

    @property
    def item(self) -> Any:
        """The item after the change, or the item before the change if it was removed."""
        return self.before if self.after is None else self.after


def parse_change(record: Record) -> Change | None:
    """Return the change that a stream record describes, or None if the record is not reported as a change.

    Such are records with an unchanged version (of a migration, or copied attributes), of totals and markers, and
    insertions by a restore. Raises NotReadable or UnknownSchema; retrying cannot fix these errors.
    """
    try:
        return _parse_change(record)
    except Permanent:
        raise
    except Exception as error:  # decoding does no I/O, so a retry cannot help: raise a permanent error
        raise NotReadable(f"{type(error).__name__}: {error}") from error


def _parse_change(record: Record) -> Change | None:
    old, new = record["dynamodb"].get("OldImage"), record["dynamodb"].get("NewImage")
    image = old if new is None else new
    if image is None:
        raise NotReadable("the record has no images")
    row = _row_of(image)
    if row.kind in IGNORED_ROW_KINDS or (old is not None and new is not None and _version_of(old) == _version_of(new)):
        # Do not decode the images: if a migration wrote the item, this code may be unable to decode the old image.
        return None
    before = None if old is None else _row_of(old).decode(old)
    after = None if new is None else row.decode(new)
    if is_restored_item(record):
        return None
    item: Any = before if after is None else after
    on: StreamEventName = record["eventName"]
    expired = _is_ttl_deletion(record)
    name = _change_name(row, on, before, after, expired)
    at = (
        instant_from_epoch(item.ttl)
        if expired
        else item.restored_at
        if name == "OrderRestored"
        else _change_time(item, record)
    )
    return Change(make_change_id(row, image, item.version, on), name, row, on, at, item.version, before, after, image)


def is_restored_item(record: Record) -> bool:
    """Return whether the record is the insertion of an item that a restore from the archive wrote (`restored_at`)."""
    return record["eventName"] == "INSERT" and RESTORED_ATTRIBUTE in record["dynamodb"].get("NewImage", {})


def _row_of(image: Image) -> Row[Any]:
    row = t.ROWS_BY_TYPE[image["type"]["S"]]
    if int(image["schema"]["N"]) > row.schema:
        raise UnknownSchema(f"{row.type} of schema {image['schema']['N']}; this code knows {row.schema}")
    return row


def _version_of(image: Image) -> Any:
    return image.get("version", {"N": "1"})


def _is_ttl_deletion(record: Record) -> bool:
    """Return whether DynamoDB deleted the item because its ttl had passed.

    See "DynamoDB Streams and Time to Live" in the DynamoDB developer guide.
    """
    identity: Mapping[str, Any] = record.get("userIdentity") or {}
    return identity.get("type") == "Service" and identity.get("principalId") == "dynamodb.amazonaws.com"


def _change_name(row: Row[Any], on: StreamEventName, before: Any, after: Any, expired: bool) -> str:
    for kind in _CHANGE_TYPES_BY_EVENT.get((row.type, on), ()):
        if kind.matches(before, after, expired):
            return kind.name
    return row.type + {"INSERT": "Created", "MODIFY": "Changed", "REMOVE": "Removed"}[on]


def _change_time(item: Any, record: Record) -> Instant:
    """Return the time of a change from the item's own fields, so that a redelivered record gives the same time.

    `created_at` is the time of an insertion only. If a modified item has no other time, return the record's
    ApproximateCreationDateTime, in whole seconds.
    """
    names = ["archived_at", "updated_at", "placed_at", "issued_at", "at", "created_at"]
    written_at = record["dynamodb"].get("ApproximateCreationDateTime")
    if record["eventName"] == "MODIFY" and written_at is not None:
        names.remove("created_at")
    for name in names:
        if (at := getattr(item, name, None)) is not None:
            return Instant(at)
    if "created_at" not in names:
        return instant_from_epoch(int(written_at))
    raise NotReadable(f"{type(item).__name__} has no time field")


def make_change_id(row: Row[Any], image: Image, version: int, on: StreamEventName) -> str:
    parts = (image["PK"]["S"], image["SK"]["S"], image.get(row.created_field, {}).get("S", ""), str(version), on)
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def past_change(order: Order, event: OrderEvent) -> Change:
    """Return a past change of an order, an entry of its timeline, with the id and the customer that it had then."""
    is_of_guest = order.guest_id and event.version < (order.joined_version or 0)
    customer_id = order.guest_id if order.guest_id and is_of_guest else order.customer_id
    past = replace(
        order,
        customer_id=customer_id,
        status=event.status,
        version=event.version,
        updated_at=event.at,
        restored_at=None,
    )
    change = parse_change(make_stream_record(t.ORDER.encode(past)))
    assert change is not None, "a record without an old image must be a change"
    return replace(change, name=event.event)


def make_stream_record(image: Image) -> Record:
    """Return a stream record for the latest write of an item: INSERT for version 1, else MODIFY, with its image."""
    made = image.get("version") == {"N": "1"}
    return {"eventName": "INSERT" if made else "MODIFY", "dynamodb": {"NewImage": image}}
