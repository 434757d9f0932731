"""Stream records as typed changes: what happened to which item, from the same readers that answer queries.

A change's id is made of what changed (key, life, version, kind), never of the delivery: the same change has the same id
whenever and however often it comes.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from functions.dynamodb.images import Image
from functions.dynamodb.keys import Instant, Row, instant_of
from functions.dynamodb.streams import Permanent, Record
from functions.model import states
from functions.model import table as t
from functions.model.entities import Customer, Product, Stock

On = Literal["INSERT", "MODIFY", "REMOVE"]
UNFOLLOWED = ("marker", "counter")
RESTORED = "restored_at"
"""The attribute of all that came back from the archive: when. What is inserted with it has happened long ago."""


class UnknownSchema(Permanent):
    """An item written by a newer version of this code: reading it with this one would lose what it does not know."""


class NotReadable(Permanent):
    """A record that is not one of ours, or whose image its class cannot hold."""


@dataclass(frozen=True)
class Kind:
    """A change's name, and what it looks like: the row after it (before it, if removed), how, and the state reached.

    `expired`: only DynamoDB's own deletion at the item's ttl, not a person's. `was`: what it must have been before;
    where nobody knows that, the state it reached must tell.
    `move`: the transition it tells of. `between`: what is so between the item before, if anybody
    knows that, and after. `once_was`: what a filter asks of the item before, by attribute, in its own
    language: for what is written so often that nobody shall be called for all of it.
    """

    name: str
    row: Row[Any]
    on: On
    to: str | None = None
    expired: bool = False
    was: Row[Any] | None = None
    move: states.Transition | None = None
    between: Callable[[Any | None, Any], bool] | None = None
    once_was: Mapping[str, tuple[Any, ...]] | None = None

    def tells(self, before: Any, after: Any, expired: bool) -> bool:
        """Whether this is what happened to an item of its row, in its way."""
        if self.expired > expired:
            return False
        if self.was is not None and not (isinstance(before, self.was.entity) or (before is None and self.to)):
            return False
        if self.move is not None:
            return _made(self.move, before, after)
        if self.between is not None:
            return self.between(before, after)
        return self.to is None or bool(after.status == self.to)


def _made(move: states.Transition, before: Any, after: Any) -> bool:
    """Whether a transition leads from one to the other; where nobody knows what was before, to where the other is."""
    if before is None:
        return bool(move.after == after.status)
    if before.status not in move.before or move.reached(before.status) != after.status:
        return False
    if not move.by:
        return True
    was, now = getattr(before, move.by), getattr(after, move.by)
    return bool(now < was if move.falls else now != was)


def _moves(row: Row[Any], transitions: tuple[states.Transition, ...]) -> list[Kind]:
    return [Kind(move.change, row, "MODIFY", move=move) for move in transitions]


def _renamed(before: Customer | None, after: Customer) -> bool:
    return before is None or before.name != after.name


def _replenished(before: Stock | None, after: Stock) -> bool:
    return before is not None and before.available <= 0 < after.available


def _cheaper(before: Product | None, after: Product) -> bool:
    return before is not None and before.currency == after.currency and after.price < before.price


NONE_LEFT: tuple[Any, ...] = ("0", {"prefix": "-"})
"""A number of nothing, or less. Filters see numbers as text."""

KINDS = (
    Kind("CustomerRegistered", t.CUSTOMER, "INSERT"),
    Kind("CustomerRenamed", t.CUSTOMER, "MODIFY", between=_renamed),
    Kind("CustomerErased", t.ERASED_CUSTOMER, "MODIFY", was=t.CUSTOMER, to="ERASING"),
    Kind("OrderRestored", t.ORDER, "MODIFY", was=t.ARCHIVED_ORDER),
    Kind("OrderPaid", t.ORDER, "INSERT", to="PAID"),  # it costs nothing
    Kind("OrderPlaced", t.ORDER, "INSERT"),
    *_moves(t.ORDER, states.ORDER_TRANSITIONS),
    Kind("OrderExpired", t.EXPIRY, "REMOVE", expired=True),
    Kind("OrderArchived", t.ARCHIVED_ORDER, "MODIFY", was=t.ORDER),
    Kind("PaymentAuthorised", t.PAYMENT, "INSERT", to="AUTHORISED"),
    Kind("PaymentCaptured", t.PAYMENT, "INSERT", to="CAPTURED"),
    Kind("PaymentFailed", t.PAYMENT, "INSERT", to="FAILED"),
    Kind("PaymentUnmatched", t.PAYMENT, "INSERT", to="UNMATCHED"),
    *_moves(t.PAYMENT, states.PAYMENT_TRANSITIONS),
    Kind("RefundRequested", t.REFUND, "INSERT"),
    *_moves(t.REFUND, states.REFUND_TRANSITIONS),
    Kind("GoodsReturned", t.RETURN, "INSERT"),
    Kind("InvoiceIssued", t.INVOICE, "INSERT"),
    Kind("ShipmentRequested", t.SHIPMENT, "INSERT", to="REQUESTED"),
    *_moves(t.SHIPMENT, states.SHIPMENT_TRANSITIONS),
    Kind("ImportPartQueued", t.IMPORT_PART, "INSERT", to="QUEUED"),
    Kind("ActivityExpired", t.ACTIVITY, "REMOVE", expired=True),
    Kind("StockReplenished", t.STOCK, "MODIFY", between=_replenished, once_was={"available": NONE_LEFT}),
    Kind("PriceDropped", t.PRODUCT, "MODIFY", between=_cheaper),
)
_KINDS = {
    (row, on): tuple(kind for kind in KINDS if (kind.row.type, kind.on) == (row, on))
    for row, on in {(kind.row.type, kind.on) for kind in KINDS}
}


@dataclass(frozen=True)
class Change:
    """Something that happened to an item. `image`: as it was when it was removed, else as it is now."""

    id: str
    name: str
    row: Row[Any]
    on: On
    at: Instant
    version: int
    before: Any
    after: Any
    image: Image

    @property
    def item(self) -> Any:
        """The item after the change, or as it was before it was removed."""
        return self.before if self.after is None else self.after


def read(record: Record) -> Change | None:
    """The change a stream record tells of; None where nothing of the item's own changed (a write that altered nothing,
    only attributes copied from elsewhere, or what a migration writes: none of it raises the version), for markers and
    totals, which nobody follows, and for what an order that is restored brings with it.

    Raises NotReadable and UnknownSchema, which no retry heals.
    """
    try:
        return _read(record)
    except Permanent:
        raise
    except Exception as error:  # reading does nothing but compute: what goes wrong here does so every time
        raise NotReadable(f"{type(error).__name__}: {error}") from error


def _read(record: Record) -> Change | None:
    old, new = record["dynamodb"].get("OldImage"), record["dynamodb"].get("NewImage")
    image = old if new is None else new
    if image is None:
        raise NotReadable("a record without images")
    row = _row(image)
    if row.kind in UNFOLLOWED or (old is not None and new is not None and _version(old) == _version(new)):
        return None  # nothing is read: what a migration has changed may have been what nobody can read any more
    before, after = _items(row, old, new)
    if is_back(record):
        return None
    item: Any = before if after is None else after
    on: On = record["eventName"]
    expired = _expired(record)
    name = _name(row, on, before, after, expired)
    at = instant_of(item.ttl) if expired else item.restored_at if name == "OrderRestored" else _moment(item, record)
    return Change(id_of(row, image, item.version, on), name, row, on, at, item.version, before, after, image)


def _items(row: Row[Any], old: Image | None, new: Image | None) -> tuple[Any, Any]:
    """The item before and after. Of one that was modified most is as it was: what can be is read once, if at all."""
    if old is None or new is None:
        return None if old is None else row.read(old), None if new is None else row.read(new)
    was = _row(old)
    if was is not row:
        return was.read(old), row.read(new)
    after = row.glance(new, None)
    return row.glance(old, after), after


def is_back(record: Record) -> bool:
    """Whether an item was brought back with its order: nothing has happened to it."""
    return record["eventName"] == "INSERT" and RESTORED in record["dynamodb"].get("NewImage", {})


def _row(image: Image) -> Row[Any]:
    row = t.BY_TYPE[image["type"]["S"]]
    if int(image["schema"]["N"]) > row.schema:
        raise UnknownSchema(f"{row.type} of schema {image['schema']['N']}; this code knows {row.schema}")
    return row


def _version(image: Image) -> Any:
    return image.get("version", {"N": "1"})


def _expired(record: Record) -> bool:
    """Whether DynamoDB itself deleted the item at its ttl (Developer guide, "DynamoDB Streams and Time to Live")."""
    identity: Mapping[str, Any] = record.get("userIdentity") or {}
    return identity.get("type") == "Service" and identity.get("principalId") == "dynamodb.amazonaws.com"


def _name(row: Row[Any], on: On, before: Any, after: Any, expired: bool) -> str:
    for kind in _KINDS.get((row.type, on), ()):
        if kind.tells(before, after, expired):
            return kind.name
    return row.type + {"INSERT": "Created", "MODIFY": "Changed", "REMOVE": "Removed"}[on]


def _moment(item: Any, record: Record) -> Instant:
    """When it happened, as the item itself tells: a delivery's time would differ from one delivery to the next. Of one
    that tells only when it was made, when the stream says that it was changed, to the second."""
    names = ["updated_at", "placed_at", "issued_at", "at", "created_at"]
    written_at = record["dynamodb"].get("ApproximateCreationDateTime")
    if record["eventName"] == "MODIFY" and written_at is not None:
        names.remove("created_at")
    for name in names:
        if (at := getattr(item, name, None)) is not None:
            return Instant(at)
    if "created_at" not in names:
        return instant_of(int(written_at))
    raise NotReadable(f"{type(item).__name__} tells no time")


def id_of(row: Row[Any], image: Image, version: int, on: On) -> str:
    parts = (image["PK"]["S"], image["SK"]["S"], image.get(row.since, {}).get("S", ""), str(version), on)
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
