"""What is wrong with the copies of one order: its snapshots, its logs and the name on it, all looked at together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functions.dynamodb.images import Image, Unreadable
from functions.dynamodb.keys import BadKey, Instant, Row
from functions.dynamodb.writes import Changed, Write, absent, unchanged
from functions.model import derived
from functions.model.changes import RESTORED, Change
from functions.model.entities import OPEN, ArchivedOrder, Order
from functions.model.patterns import C5, A12b
from functions.model.table import ACTIVITY, ARCHIVED_ORDER, BY_TYPE, ORDER, ORDER_LINE, ORDER_SUMMARY, TIMELINE
from functions.shop.shop import Shop
from ops.history import entries, ids_of
from ops.items import Place, fields_of, place_of, there
from ops.sweep import rewrite

Source = tuple[Row[Any], Any]
"""A primary as it was read; its key, where there is none."""


@dataclass(frozen=True)
class Fault:
    """Something that lies in the table as its primary does not say. `found`, `wanted`: its image (None: not there)."""

    kind: str
    place: Place
    found: Image | None
    wanted: Image | None
    source: Source

    def mend(self, shop: Shop) -> None:
        """Write what is wanted while this and its primary are as they were read. Raises Changed, Lost. Repeatable."""
        if self.kind == "name":
            assert self.found is not None
            assert self.wanted is not None
            rewrite(shop.table, self.found, self.wanted)
            return
        row, item = self.source
        shop.table.write(as_it_was(row, item), instead(row, self.place, self.found, self.wanted))


def as_it_was(row: Row[Any], item: Any) -> Write[Any]:
    """The check that a primary is as it was read, or still not there."""
    if isinstance(item, Mapping):
        return absent(row, item, refused=lambda _: Changed(row, item))
    return unchanged(row, item)


def instead(row: Row[Any], place: Place, found: Image | None, wanted: Image | None) -> Write[Any]:
    """One image in the place of another, which still has the version that it was read with."""
    key = {"PK": {"S": place[0]}, "SK": {"S": place[1]}}
    request: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(PK)"}
    if found is not None and "version" in found:
        request = {
            "ConditionExpression": "#version = :read",
            "ExpressionAttributeNames": {"#version": "version"},
            "ExpressionAttributeValues": {":read": found["version"]},
        }
    elif found is not None:
        request = {
            "ConditionExpression": "attribute_exists(PK) AND attribute_not_exists(#version)",
            "ExpressionAttributeNames": {"#version": "version"},
        }
    request |= {"Key": key} if wanted is None else {"Item": wanted}
    return Write("Delete" if wanted is None else "Put", row, request, lambda _: Changed(row, key), wanted)


# what lies where ------------------------------------------------------------------------------------------------------
def read(image: Image) -> Source:
    """A primary and its row. Raises Unreadable."""
    row = BY_TYPE.get(image.get("type", {}).get("S", ""))
    if row is None or int(image.get("schema", {}).get("N", 0)) > row.schema:
        raise Unreadable(f"a {image.get('type')} of schema {image.get('schema')}")
    return row, row.read(image)


Images = Mapping[Place, Image]
"""Items as they are in the table, by their place; a place that has no item is missing."""


def order_in(images: Images, order_id: str) -> Source:
    """An order, or what stands for it in the archive; its key where there is none. Raises BadKey, Unreadable."""
    key = ORDER.key(order_id=order_id)
    image = images.get(place_of(key))
    return (ORDER, key) if image is None else read(image)


# an order and what lies beside it -------------------------------------------------------------------------------------
def faults_of(shop: Shop, order_id: str, images: Sequence[Image]) -> Iterator[Fault]:
    """What is wrong with the copies of an order. `images`: its whole partition. Raises Unreadable, Permanent."""
    row, item = ORDER, ORDER.key(order_id=order_id)
    for image in images:
        if place_of(image) == place_of(item):
            row, item = read(image)
            found = image
            break
    if isinstance(item, Order) and item.status == "ARCHIVING":
        return  # from here on the archive alone has it in hand
    beside = _beside(item, images)
    wanted = dict(_snapshots(row, item))
    if isinstance(item, Order):
        wanted |= _logs(shop, item, images)
        yield from _name(shop, item, found)
    lies = {**there(shop, [place for place in wanted if place not in beside]), **beside}
    for place, (into, copy, least) in wanted.items():
        is_it = lies.get(place)
        if is_it is None and not _ended_while_away(into, copy, item):
            yield Fault(f"{into.kind} missing", place, None, copy, (row, item))
        elif is_it is not None and not _is_so(is_it, copy, least):
            yield Fault(f"{into.kind} wrong", place, is_it, copy, (row, item))
    for place, image in beside.items():
        if place not in wanted:
            yield Fault(ORPHANED[_row_beside(image)], place, image, None, (row, item))


def _ended_while_away(into: Row[Any], copy: Image, item: Any) -> bool:
    """Whether an entry is of before its order was archived and has a life of its own, which is shorter than what an
    order is kept for: on a laptop that looks ahead it has ended though its ttl is to come."""
    back = getattr(item, "restored_at", None)
    return bool(back and into.expires and copy["at"]["S"] < back)


def _beside(item: Any, images: Sequence[Image]) -> dict[Place, Image]:
    """The copies in an order's partition; but what lies beside a stub and is back from the archive belongs to a restore
    that is not done, or was killed: the next one finds it there."""
    half_back = isinstance(item, ArchivedOrder)
    return {place_of(image): image for image in images if _row_beside(image) and not (half_back and RESTORED in image)}


ORPHANED: Mapping[Row[Any] | None, str] = {
    ORDER_SUMMARY: "snapshot orphaned",
    ORDER_LINE: "snapshot orphaned",
    TIMELINE: "log foreign",
    ACTIVITY: "log foreign",
}


def _row_beside(image: Image) -> Row[Any] | None:
    return next((row for row in (ORDER_LINE, TIMELINE) if fields_of(row, place_of(image))), None)


def _is_so(image: Image, wanted: Image, least: int) -> bool:
    """Whether a copy is as it must be, back from the archive or not. One that its primary has left as it was since may
    be of an older version."""
    copy = {name: value for name, value in image.items() if name != RESTORED}
    if {**copy, "version": wanted["version"]} != wanted:
        return False
    return least <= int(image.get("version", {}).get("N", 0)) <= int(wanted["version"]["N"])


Wanted = dict[Place, tuple[Row[Any], Image, int]]
"""Images by their place, each with its row and the lowest version that it may be of."""


def _snapshots(row: Row[Any], item: Any) -> Wanted:
    if isinstance(item, Mapping):
        return {}
    copies = derived.copies_of(row, item)
    return {
        place: (into, into.write(copy), item.reached if isinstance(item, Order) and into is ORDER_SUMMARY else 1)
        for place, (into, copy) in copies.items()
    }


def _name(shop: Shop, order: Order, image: Image) -> Iterator[Fault]:
    """An open order bears the name that its customer has, and does not take itself for newer than them."""
    customer = shop.table.get(C5, customer_id=order.customer_id) if order.status in OPEN else None
    if customer is None:
        return
    shall = derived.NAMES.derive(customer)
    is_so = all(getattr(order, name) == value for name, value in shall.items())
    if not is_so or order.customer_version > customer.version:
        wanted = {name: value for name, value in image.items() if name not in shall}
        wanted |= {name: {"S": value} for name, value in shall.items() if value is not None}
        wanted[derived.NAMES.version] = {"N": str(customer.version)}
        yield Fault("name", place_of(image), image, wanted, (ORDER, order))


def _logs(shop: Shop, order: Order, images: Sequence[Image]) -> Wanted:
    """Every entry that an order must have in its logs."""
    return {
        derived.place(into, entry): (into, into.write(entry), entry.version)
        for into, entry in entries(shop, order, images)
    }


# copies that lie elsewhere --------------------------------------------------------------------------------------------
def sources_of_summary(image: Image) -> list[Place]:
    """The places of the items by which `faults_of_summary` judges an order's summary."""
    key = fields_of(ORDER_SUMMARY, place_of(image))
    assert key is not None
    return [place_of(ORDER.key(order_id=key["order_id"]))]


def faults_of_summary(image: Image, sources: Images) -> Iterator[Fault]:
    """Whether an order's summary is of nothing; what it says is looked at with the order. Raises Unreadable."""
    key = fields_of(ORDER_SUMMARY, place_of(image))
    assert key is not None
    row, item = order_in(sources, key["order_id"])
    is_one = not isinstance(item, Mapping) and place_of(image) in derived.copies_of(row, item)
    if not is_one and getattr(item, "status", "") != "ARCHIVING":
        yield Fault(ORPHANED[ORDER_SUMMARY], place_of(image), image, None, (row, item))


def sources_of_activity(image: Image) -> list[Place]:
    """The places of the items by which `faults_of_activity` judges an entry: its order, and the entry of the order's
    timeline for the same change. Raises BadKey."""
    key = fields_of(ACTIVITY, place_of(image))
    assert key is not None
    order_id = _order_id(image)
    twin = TIMELINE.key(order_id=order_id, at=key["at"], change_id=key["change_id"])
    return [place_of(ORDER.key(order_id=order_id)), place_of(twin)]


def faults_of_activity(shop: Shop, image: Image, sources: Images) -> Iterator[Fault]:
    """Whether an entry of a customer's activity is of nothing that happened to them; of what happened to an order that
    is archived, whether it says when. Raises Unreadable."""
    place = place_of(image)
    key = fields_of(ACTIVITY, place)
    assert key is not None
    if int(image.get("ttl", {}).get("N", 1 << 40)) <= shop.now().timestamp():
        return
    try:
        row, item = order_in(sources, _order_id(image))
    except BadKey:
        row, item = ORDER, ORDER.key(order_id="none")
    else:
        _, twin = sources_of_activity(image)
    ids = {} if isinstance(item, Mapping) else ids_of(row, item)
    if key["change_id"] not in ids or item.customer_id != key["customer_id"]:
        yield Fault(ORPHANED[ACTIVITY], place, image, None, (row, item))
    elif isinstance(item, ArchivedOrder):
        version = ids[key["change_id"]]
        name = image.get("event", {}).get("S", "")
        change = Change(key["change_id"], name, ORDER, "MODIFY", Instant(key["at"]), version, None, item, {})
        (entry,) = derived.activity(change)
        if (wanted := ACTIVITY.write(entry)) != image:
            yield Fault("log wrong", place, image, wanted, (ARCHIVED_ORDER, item))
    elif item.status != "ARCHIVING" and twin not in sources:
        beside = shop.table.partition(A12b, order_id=item.order_id)
        if place not in _logs(shop, item, beside):
            yield Fault(ORPHANED[ACTIVITY], place, image, None, (row, item))


def _order_id(image: Image) -> str:
    return str(image.get("order_id", {}).get("S", ""))
