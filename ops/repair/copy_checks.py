"""Find discrepancies in the copies of one order: its snapshots, its log entries, and its stored customer name.

A snapshot shows the current state of its primary item. A log entry records one change of its primary item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from functions.dynamodb.codec import Image
from functions.dynamodb.errors import Unreadable
from functions.dynamodb.keys import Instant, InvalidKeyValue, Row
from functions.dynamodb.writes import Write, WriteConflict, check_absent, check_unchanged
from functions.model import copies
from functions.model.changes import RESTORED_ATTRIBUTE, Change, make_change_id
from functions.model.entities import OPEN_STATUSES, ArchivedOrder, Order
from functions.model.patterns import CUSTOMER_OR_ERASED_BY_ID, ORDER_ITEM_COLLECTION
from functions.model.table import (
    ACTIVITY,
    ARCHIVED_ORDER,
    FEED_ENTRY,
    ORDER,
    ORDER_NUMBER,
    ORDER_SUMMARY,
    PAYMENT,
    REFUND,
    ROWS_BY_TYPE,
    SALE,
)
from functions.model.timelines import merge_timeline
from functions.shop.republishing import list_changes, read_timeline
from functions.shop.shop import ShopContext
from ops.item_keys import ItemKey, item_key, load_existing, match_key
from ops.scan.sweep import rewrite_item

SourceItem = tuple[Row[Any], Any]
"""A primary item, as (row of model/table.py, item). If it does not exist, the second element is only its key."""


@dataclass(frozen=True)
class Discrepancy:
    """A copy, log entry or total that differs from its expected content, or an unbalanced account.

    `kind`: for example "snapshot missing". `actual`, `expected`: in DynamoDB JSON; None for no item. `source`: the
    primary item from which `expected` is derived. `errors`: of an account, which no tool repairs.
    """

    kind: str
    key: ItemKey
    actual: Image | None
    expected: Image | None
    source: SourceItem
    errors: Sequence[str] = field(default=(), compare=False)

    def repair(self, shop: ShopContext) -> None:
        """Write the expected item, or delete the wrong one. Safe to repeat.

        Raises WriteConflict, and writes nothing, if the wrong item or its primary item has changed since it was read.
        """
        if self.kind in ("name", "member count wrong"):
            assert self.actual is not None
            assert self.expected is not None
            rewrite_item(shop.table, self.actual, self.expected)
            return
        row, item = self.source
        shop.table.write(check_source_unchanged(row, item), replace_image(row, self.key, self.actual, self.expected))


def check_source_unchanged(row: Row[Any], item: Any) -> Write[Any]:
    """Return a condition check that fails if a primary item has changed, or exists now if `item` is only its key."""
    if isinstance(item, Mapping):
        return check_absent(row, item)
    return check_unchanged(row, item)


def replace_image(row: Row[Any], place: ItemKey, actual: Image | None, expected: Image | None) -> Write[Any]:
    """Return a write that replaces `actual` by `expected`, or deletes it. It fails if the stored item is another."""
    key = {"PK": {"S": place[0]}, "SK": {"S": place[1]}}
    request: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(PK)"}
    if actual is not None and "version" in actual:
        request = {
            "ConditionExpression": "#version = :read",
            "ExpressionAttributeNames": {"#version": "version"},
            "ExpressionAttributeValues": {":read": actual["version"]},
        }
    elif actual is not None:
        request = {
            "ConditionExpression": "attribute_exists(PK) AND attribute_not_exists(#version)",
            "ExpressionAttributeNames": {"#version": "version"},
        }
    request |= {"Key": key} if expected is None else {"Item": expected}
    return Write("Delete" if expected is None else "Put", row, request, lambda _: WriteConflict(row.type), expected)


# read primary items ---------------------------------------------------------------------------------------------------
def read_source(image: Image) -> SourceItem:
    """Decode a primary item from DynamoDB JSON. Raises Unreadable if its type or schema version is unknown."""
    row = ROWS_BY_TYPE.get(image.get("type", {}).get("S", ""))
    if row is None or int(image.get("schema", {}).get("N", 0)) > row.schema:
        raise Unreadable(f"unknown type {image.get('type')} or schema {image.get('schema')}")
    return row, row.decode(image)


ImagesByKey = Mapping[ItemKey, Image]
"""Items in DynamoDB JSON, by their key. If an item does not exist, the mapping has no entry for its key."""


@dataclass(frozen=True)
class ItemCheck:
    """Yields the discrepancies of one item, with its existing primary items by key, whose keys `sources` returns."""

    find_discrepancies: Callable[[ShopContext, Image, ImagesByKey], Iterable[Discrepancy]]
    sources: Callable[[Image], Sequence[ItemKey]] = lambda _: []


def find_order(images: ImagesByKey, order_id: str) -> SourceItem:
    """Return the order or archived order with this id, or else (ORDER, key). Raises InvalidKeyValue, Unreadable."""
    key = ORDER.key(order_id=order_id)
    image = images.get(item_key(key))
    return (ORDER, key) if image is None else read_source(image)


# check the copies of one order ----------------------------------------------------------------------------------------
def find_order_discrepancies(shop: ShopContext, order_id: str, images: Sequence[Image]) -> Iterator[Discrepancy]:
    """Yield the missing and wrong copies of one order, and of its payments and refunds. Raises Unreadable.

    `images`: all items of its partition. The timeline says which log entries there must be. Nothing while it is
    archived.
    """
    row, item = ORDER, ORDER.key(order_id=order_id)
    for image in images:
        if item_key(image) == item_key(item):
            row, item = read_source(image)
            found = image
            break
    if isinstance(item, Order) and item.status == "ARCHIVING":
        return  # the archive Lambda is moving the order and deletes its copies
    expected = dict(_expected_snapshots(shop, row, item))
    if isinstance(item, Order):
        for change in list_changes(item, images):
            for into, entry in copies.log_entries(change):
                if not into.has_ttl or entry.ttl > shop.now().timestamp():
                    expected[copies.key_pair(into, entry)] = (into, into.encode(entry), entry.version)
        yield from _check_customer_name(shop, item, found)
    yield from _compare_copies(shop, row, item, expected)
    for image in images:
        with suppress(Unreadable):  # the scan reports an unreadable item
            if image.get("type", {}).get("S") in (PAYMENT.type, REFUND.type):
                yield from find_snapshot_discrepancies(shop, *read_source(image))


def find_snapshot_discrepancies(shop: ShopContext, row: Row[Any], item: Any) -> Iterator[Discrepancy]:
    """Yield the missing and wrong snapshots of a primary item that is no order, such as a payment."""
    yield from _compare_copies(shop, row, item, _expected_snapshots(shop, row, item))


def _compare_copies(shop: ShopContext, row: Row[Any], item: Any, expected: ExpectedCopies) -> Iterator[Discrepancy]:
    existing = load_existing(shop, list(expected))
    # Repair the last copy last: if it has the order's version, the archive Lambda assumes that all copies are complete.
    for place, (into, copy, least) in sorted(expected.items(), key=lambda one: copies.is_last(row, one[1][0])):
        actual = existing.get(place)
        if actual is None and not _expired_while_archived(into, copy, item):
            yield Discrepancy(f"{into.kind} missing", place, None, copy, (row, item))
        elif actual is not None and not _matches(actual, copy, least):
            yield Discrepancy(f"{into.kind} wrong", place, actual, copy, (row, item))


def _expired_while_archived(into: Row[Any], copy: Image, item: Any) -> bool:
    """Return whether a log entry may have expired while its order was archived, by `advance` also before its ttl."""
    restored_at = getattr(item, "restored_at", None)
    return bool(restored_at and into.has_ttl and copy["at"]["S"] < restored_at)


def _matches(image: Image, expected: Image, min_version: int) -> bool:
    """Return whether a stored copy equals the expected one, apart from `restored_at` and a later version."""
    copy = {name: value for name, value in image.items() if name != RESTORED_ATTRIBUTE}
    if {**copy, "version": expected["version"]} != expected:
        return False
    return min_version <= int(image.get("version", {}).get("N", 0)) <= int(expected["version"]["N"])


ExpectedCopies = dict[ItemKey, tuple[Row[Any], Image, int]]
"""The expected copies in DynamoDB JSON by key, each as (row, item, lowest accepted version)."""


def _expected_snapshots(shop: ShopContext, row: Row[Any], item: Any) -> ExpectedCopies:
    """Return the snapshots that a primary item must have. Snapshots whose ttl has passed are left out."""
    if isinstance(item, Mapping):
        return {}
    now = shop.now().timestamp()
    return {
        place: (into, into.encode(copy), item.version if copies.is_last(row, into) else 1)
        for place, (into, copy) in copies.copies_of(row, item).items()
        if not (into.has_ttl and copy.ttl <= now)
    }


def _check_customer_name(shop: ShopContext, order: Order, image: Image) -> Iterator[Discrepancy]:
    """Yield a discrepancy if an open order has not its customer's current name, or a `customer_version` too high."""
    customer = (
        shop.table.get(CUSTOMER_OR_ERASED_BY_ID, customer_id=order.customer_id)
        if order.status in OPEN_STATUSES
        else None
    )
    if customer is None:
        return
    expected_name = copies.CUSTOMER_NAME_COPY.derive(customer)
    is_current = all(getattr(order, name) == value for name, value in expected_name.items())
    if not is_current or order.customer_version > customer.version:
        wanted = {name: value for name, value in image.items() if name not in expected_name}
        wanted |= {name: {"S": value} for name, value in expected_name.items() if value is not None}
        wanted[copies.CUSTOMER_NAME_COPY.version_field] = {"N": str(customer.version)}
        yield Discrepancy("name", item_key(image), image, wanted, (ORDER, order))


# copies in other partitions -------------------------------------------------------------------------------------------
SNAPSHOTS_OF_ORDERS = (ORDER_SUMMARY, ORDER_NUMBER, SALE)


def _order_id_in_key(image: Image) -> str:
    """Return the id of the order in the key of one of the order's snapshots."""
    keys = (match_key(row, item_key(image)) for row in SNAPSHOTS_OF_ORDERS)
    return next(key["order_id"] for key in keys if key)


def snapshot_sources(image: Image) -> list[ItemKey]:
    """Return a list with the key of the order from which a snapshot is derived."""
    return [item_key(ORDER.key(order_id=_order_id_in_key(image)))]


def find_orphaned_snapshot(image: Image, sources: ImagesByKey) -> Iterator[Discrepancy]:
    """Yield a discrepancy if a snapshot belongs to no order in `sources`, or must not exist. Raises Unreadable.

    Of an archived order, which has no lines, customer, time and currency of the sale are compared.
    """
    place = item_key(image)
    row, item = find_order(sources, _order_id_in_key(image))
    if getattr(item, "status", "") == "ARCHIVING":
        return
    if isinstance(item, ArchivedOrder) and match_key(SALE, place):
        names = ("customer_id", "placed_at", "currency")
        is_one = all(image.get(name, {}).get("S") == getattr(item, name) for name in names)
    else:
        is_one = not isinstance(item, Mapping) and place in copies.copies_of(row, item)
    if not is_one:
        yield Discrepancy("snapshot orphaned", place, image, None, (row, item))


def feed_entry_sources(image: Image) -> list[ItemKey]:
    """Return the keys of the order of a FeedEntry, and of its payment or refund. Raises InvalidKeyValue."""
    key = match_key(FEED_ENTRY, item_key(image))
    assert key is not None
    row = PAYMENT if key["list"] == "PAYMENTS" else REFUND
    ids = {"order_id": key["order_id"], "payment_id": key["id"], "refund_id": key["id"]}
    return [item_key(ORDER.key(**ids)), item_key(row.key(**ids))]


def find_orphaned_feed_entry(image: Image, sources: ImagesByKey) -> Iterator[Discrepancy]:
    """Yield a discrepancy if a FeedEntry belongs to no payment or refund in `sources`. Raises Unreadable."""
    place = item_key(image)
    order_place, place_of_source = feed_entry_sources(image)
    row, item = find_order(sources, order_place[0].partition("#")[2])
    # A late webhook about a payment in the archive creates the payment again, with another entry.
    is_one = isinstance(item, ArchivedOrder) or getattr(item, "status", "") == "ARCHIVING"
    if source := sources.get(place_of_source):
        row, item = read_source(source)
        is_one = is_one or place in copies.copies_of(row, item)
    if not is_one:
        yield Discrepancy("snapshot orphaned", place, image, None, (row, item))


def activity_sources(image: Image) -> list[ItemKey]:
    """Return a list with the key of the order whose change an activity entry records. Raises InvalidKeyValue."""
    return [item_key(ORDER.key(order_id=_order_id(image)))]


def find_activity_discrepancies(shop: ShopContext, image: Image, sources: ImagesByKey) -> Iterator[Discrepancy]:
    """Yield a discrepancy if an activity log has an entry for a change that the order never had. Raises Unreadable.

    The content is checked here only if the order is archived, and an expired entry not at all.
    """
    place = item_key(image)
    key = match_key(ACTIVITY, place)
    assert key is not None
    if int(image.get("ttl", {}).get("N", 1 << 40)) <= shop.now().timestamp():
        return
    try:
        row, item = find_order(sources, _order_id(image))
    except InvalidKeyValue:
        row, item = ORDER, ORDER.key(order_id="none")
    ids = {} if isinstance(item, Mapping) else _change_ids(row, item)
    if key["change_id"] not in ids or key["customer_id"] not in (item.customer_id, item.guest_id):
        yield Discrepancy("log foreign", place, image, None, (row, item))
    elif isinstance(item, ArchivedOrder):
        version = ids[key["change_id"]]
        name = image.get("event", {}).get("S", "")
        order = replace(item, customer_id=key["customer_id"])
        change = Change(key["change_id"], name, ORDER, "MODIFY", Instant(key["at"]), version, None, order, {})
        (entry,) = copies.activity_entries(change)
        if (wanted := ACTIVITY.encode(entry)) != image:
            yield Discrepancy("log wrong", place, image, wanted, (ARCHIVED_ORDER, item))
    elif item.status != "ARCHIVING":
        version, at = ids[key["change_id"]], key["at"]
        if not any(event.at == at for event in merge_timeline([item]) if event.version == version):
            beside = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=item.order_id)
            if any(event.at != at for event in read_timeline(beside) if event.version == version):
                yield Discrepancy("log foreign", place, image, None, (row, item))


def _change_ids(row: Row[Any], item: Order | ArchivedOrder) -> dict[str, int]:
    """Return the order's version by id of each change with a log entry; for an archived order, of all changes."""
    placed = {"placed_at": {"S": item.placed_at}, **row.key_of(item)}
    versions = item.logged_versions if isinstance(item, Order) else range(1, item.version + 1)
    return {make_change_id(ORDER, placed, one, "INSERT" if one == 1 else "MODIFY"): one for one in versions}


def _order_id(image: Image) -> str:
    return str(image.get("order_id", {}).get("S", ""))
