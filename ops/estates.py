"""What is wrong with the copies of one order: its snapshots, its two logs and the name on it, all looked at together.

What an order has been through follows from its state and from what its logs tell: of all ways through the table of
states that end where it is, the one that contradicts them least. So a log that was falsified is told from one that was
not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from functions.dynamodb.images import Image, Unreadable
from functions.dynamodb.keys import BadKey, Instant, Row
from functions.dynamodb.streams import Permanent
from functions.dynamodb.writes import Changed, Write, absent, unchanged
from functions.model import changes, derived
from functions.model.changes import Change
from functions.model.entities import OPEN, ArchivedOrder, Order
from functions.model.patterns import A5, C6, A12b
from functions.model.states import ORDER_TRANSITIONS
from functions.model.table import ACTIVITY, ARCHIVED_ORDER, BY_TYPE, ORDER, ORDER_LINE, ORDER_SUMMARY, TIMELINE
from functions.shop.shop import Shop
from ops.recover import past
from ops.sweep import rewrite

Place = tuple[str, str]
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
def place_of(image: Image) -> Place:
    return image["PK"]["S"], image["SK"]["S"]


def fields_of(row: Row[Any], place: Place) -> dict[str, str] | None:
    """What a key tells of an item of this row; None where it is another row's. Its attributes may be false."""
    found = [re.fullmatch(pattern, half) for pattern, half in zip(_patterns(row), place, strict=True)]
    if not all(found):
        return None
    return {name: text for one in found if one for name, text in one.groupdict().items()}


@cache
def _patterns(row: Row[Any]) -> list[str]:
    def pattern(text: str) -> str:
        return re.sub(r"{(\w+)(:\w+)?}", r"(?P<\1>[^#]+)", text)

    return [pattern(half.text) for half in row.templates("main")]


def there(shop: Shop, places: Sequence[Place]) -> dict[Place, Image]:
    """What lies at these places."""
    keys = [{"PK": {"S": pk}, "SK": {"S": sk}} for pk, sk in dict.fromkeys(places)]
    return {place_of(image): image for image in shop.table.images(keys, consistent=True)} if keys else {}


def read(image: Image) -> Source:
    """A primary and its row. Raises Unreadable."""
    row = BY_TYPE.get(image.get("type", {}).get("S", ""))
    if row is None or int(image.get("schema", {}).get("N", 0)) > row.schema:
        raise Unreadable(f"a {image.get('type')} of schema {image.get('schema')}")
    return row, row.read(image)


def order_in(shop: Shop, order_id: str) -> Source:
    """An order, or what stands for it in the archive; its key where there is none. Raises Unreadable."""
    key = ORDER.key(order_id=order_id)
    for image in there(shop, [place_of(key)]).values():
        return read(image)
    return ORDER, key


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
    beside = {place_of(image): image for image in images if _row_beside(image)}
    wanted = dict(_snapshots(row, item))
    if isinstance(item, Order):
        wanted |= _logs(shop, item, beside)
        yield from _name(shop, item, found)
    lies = {**there(shop, [place for place in wanted if place not in beside]), **beside}
    for place, (into, copy, least) in wanted.items():
        is_it = lies.get(place)
        if is_it is None:
            yield Fault(f"{into.kind} missing", place, None, copy, (row, item))
        elif not _is_so(is_it, copy, least):
            yield Fault(f"{into.kind} wrong", place, is_it, copy, (row, item))
    for place, image in beside.items():
        if place not in wanted:
            yield Fault(ORPHANED[_row_beside(image)], place, image, None, (row, item))


ORPHANED: Mapping[Row[Any] | None, str] = {
    ORDER_SUMMARY: "snapshot orphaned",
    ORDER_LINE: "snapshot orphaned",
    TIMELINE: "log foreign",
    ACTIVITY: "log foreign",
}


def _row_beside(image: Image) -> Row[Any] | None:
    return next((row for row in (ORDER_LINE, TIMELINE) if fields_of(row, place_of(image))), None)


def _is_so(image: Image, wanted: Image, least: int) -> bool:
    """Whether a copy is as it must be. One that its primary has left as it was since may be of an older version."""
    if {**image, "version": wanted["version"]} != wanted:
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
    customer = shop.table.get(C6, customer_id=order.customer_id) if order.status in OPEN else None
    if customer is None:
        return
    shall = derived.NAMES.derive(customer)
    is_so = all(getattr(order, name) == value for name, value in shall.items())
    if not is_so or order.customer_version > customer.version:
        wanted = {name: value for name, value in image.items() if name not in shall}
        wanted |= {name: {"S": value} for name, value in shall.items() if value is not None}
        wanted[derived.NAMES.version] = {"N": str(customer.version)}
        yield Fault("name", place_of(image), image, wanted, (ORDER, order))


# logs -----------------------------------------------------------------------------------------------------------------
def ids_of(row: Row[Any], item: Any) -> dict[str, int]:
    """The versions of an order by the id of the change that led there; of an archived one, some that it never had."""
    placed = {"placed_at": {"S": item.placed_at}, **row.key_of(item)}
    ids = {}
    for version in range(1, item.version + 1):
        ids[changes.id_of(ORDER, placed, version, "INSERT" if version == 1 else "MODIFY")] = version
    return ids


def _logs(shop: Shop, order: Order, beside: Mapping[Place, Image]) -> Wanted:
    """Every entry that an order must have in its logs."""
    ids = ids_of(ORDER, order)
    at = _times(shop, order, ids, beside)
    places = {
        place_of(
            into.key(at=at[version], change_id=id, order_id=order.order_id, customer_id=order.customer_id)
        ): version
        for id, version in ids.items()
        for into in (TIMELINE, ACTIVITY)
    }
    told: dict[int, list[tuple[str, str]]] = {version: [] for version in at}
    for place, image in {**there(shop, [one for one in places if one not in beside]), **beside}.items():
        if version := places.get(place):
            names = [name for name in ("event", "status") if "S" in image.get(name, {})]
            told[version] += [(name, image[name]["S"]) for name in names]
    wanted: Wanted = {}
    for version, (event, status) in enumerate(way_of(order, told), 1):
        change = past(order, version, at[version], event, status)
        for log in derived.LOGS:
            for entry in log.derive(change):
                if not log.into.expires or entry.ttl > shop.now().timestamp():
                    wanted[derived.place(log.into, entry)] = (log.into, log.into.write(entry), version)
    return wanted


def _times(shop: Shop, order: Order, ids: Mapping[str, int], beside: Mapping[Place, Image]) -> dict[int, Instant]:
    """When an order came to each version: as it says itself, else its timeline, its activity, or the next version."""
    known: dict[int, Instant] = {1: order.placed_at, order.reached: order.came_at, order.version: order.updated_at}
    keys = [key for place in beside if (key := fields_of(TIMELINE, place)) and key["change_id"] in ids]
    for key in sorted(keys, key=lambda key: key["at"], reverse=True):  # of two for one change, the earlier
        version = ids[key["change_id"]]
        if version not in (1, order.reached, order.version):
            known[version] = Instant(key["at"])
    if len(known) < order.version:
        entries = shop.table.lying(A5, customer_id=order.customer_id, since=order.placed_at)
        noted = [key for image in entries if (key := fields_of(ACTIVITY, place_of(image))) and key["change_id"] in ids]
        known = {ids[key["change_id"]]: Instant(key["at"]) for key in noted} | known
    for version in range(order.version, 0, -1):
        known.setdefault(version, known.get(version + 1, order.updated_at))
    return known


def way_of(order: Order, told: Mapping[int, Sequence[tuple[str, str]]]) -> list[tuple[str, str]]:
    """Every change of an order and the state it led to: the way to its state that least of what is told contradicts.

    `told`: by version, what its logs say of it: ("event", name) or ("status", state). Raises Permanent.
    """

    def against(version: int, event: str, status: str) -> int:
        return sum(said != (event if what == "event" else status) for what, said in told.get(version, ()))

    first = ("OrderPlaced", "PENDING") if order.total else ("OrderPaid", "PAID")
    ways: dict[str, tuple[int, list[tuple[str, str]]]] = {first[1]: (against(1, *first), [first])}
    for version in range(2, order.version + 1):
        longer: dict[str, tuple[int, list[tuple[str, str]]]] = {}
        for before, (wrong, way) in ways.items():
            for event, status in _steps(before):
                now = wrong + against(version, event, status)
                if (version < order.reached or status == order.status) and now < longer.get(status, (1 << 30,))[0]:
                    longer[status] = now, [*way, (event, status)]
        ways = longer
    if order.status not in ways:
        raise Permanent(f"order {order.order_id} has no way of {order.version} versions to {order.status}")
    return ways[order.status][1]


@cache
def _steps(before: str) -> tuple[tuple[str, str], ...]:
    """What may come next; last what is in no table of states and leaves the state as it is, as an erasure does."""
    moves = [move for move in ORDER_TRANSITIONS if before in move.before and move.command != "archive"]
    return (*((move.change, move.reached(before)) for move in moves), ("OrderChanged", before))


# copies that lie elsewhere --------------------------------------------------------------------------------------------
def faults_of_summary(shop: Shop, image: Image) -> Iterator[Fault]:
    """Whether an order's summary is of nothing; what it says is looked at with the order. Raises Unreadable."""
    key = fields_of(ORDER_SUMMARY, place_of(image))
    assert key is not None
    row, item = order_in(shop, key["order_id"])
    is_one = not isinstance(item, Mapping) and place_of(image) in derived.copies_of(row, item)
    if not is_one and getattr(item, "status", "") != "ARCHIVING":
        yield Fault(ORPHANED[ORDER_SUMMARY], place_of(image), image, None, (row, item))


def faults_of_activity(shop: Shop, image: Image) -> Iterator[Fault]:
    """Whether an entry of a customer's activity is of nothing that happened to them; of what happened to an order that
    is archived, whether it says when. Raises Unreadable."""
    place = place_of(image)
    key = fields_of(ACTIVITY, place)
    assert key is not None
    if int(image.get("ttl", {}).get("N", 1 << 40)) <= shop.now().timestamp():
        return
    twin, row, item = _with_twin(shop, image.get("order_id", {}).get("S", ""), key)
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
    elif item.status != "ARCHIVING" and not twin:
        beside = {place_of(one): one for one in shop.table.partition(A12b, order_id=item.order_id) if _row_beside(one)}
        if place not in _logs(shop, item, beside):
            yield Fault(ORPHANED[ACTIVITY], place, image, None, (row, item))


def _with_twin(shop: Shop, order_id: str, key: Mapping[str, str]) -> tuple[Image | None, Row[Any], Any]:
    """What an order's timeline tells of a change at the same moment as its customer's activity; and the order."""
    try:
        order = ORDER.key(order_id=order_id)
    except BadKey:
        return None, ORDER, ORDER.key(order_id="none")
    twin = TIMELINE.key(order_id=order_id, at=key["at"], change_id=key["change_id"])
    found = there(shop, [place_of(order), place_of(twin)])
    row, item = read(found[place_of(order)]) if place_of(order) in found else (ORDER, order)
    return found.get(place_of(twin)), row, item
