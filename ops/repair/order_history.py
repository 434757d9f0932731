"""The changes of an order, derived from its timeline. They decide which entries the customer's activity log needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from functions.dynamodb.codec import Image
from functions.dynamodb.keys import Row
from functions.model import changes, copies
from functions.model.changes import Change, past_change
from functions.model.entities import ArchivedOrder, Order
from functions.model.table import EARLIER_TIMELINE, ORDER
from functions.model.timelines import OrderEvent, merge_timeline
from functions.shop.shop import ShopContext

TIMELINE_ROWS = {row.type: row for row in (ORDER, EARLIER_TIMELINE)}
"""The rows of the items that contain the timeline of an order, by item type."""


def read_timeline(partition: Sequence[Image]) -> list[OrderEvent]:
    """Return the timeline of an order, oldest first. `partition`: all items of the order's partition."""
    beside = [image for image in partition if image["type"]["S"] in TIMELINE_ROWS]
    return merge_timeline(TIMELINE_ROWS[image["type"]["S"]].decode(image) for image in beside)


def list_changes(order: Order, partition: Sequence[Image]) -> list[Change]:
    """Return the changes in the timeline of an order, the oldest first. `partition`: all items of its partition."""
    return [past_change(order, event) for event in read_timeline(partition)]


def list_status_changes(order: Order, partition: Sequence[Image]) -> list[Change]:
    """Return the changes of an order that changed its status, oldest first. The first change places the order."""
    before, found = "", []
    for change in list_changes(order, partition):
        if change.item.status != before:
            found.append(change)
        before = change.item.status
    return found


def expected_log_entries(shop: ShopContext, order: Order, partition: Sequence[Image]) -> Iterator[tuple[Row[Any], Any]]:
    """Yield the log entries that an order must have and that have not expired, as (row, entry)."""
    for change in list_changes(order, partition):
        for row, entry in copies.log_entries(change):
            if not row.has_ttl or entry.ttl > shop.now().timestamp():
                yield row, entry


def change_ids(row: Row[Any], item: Order | ArchivedOrder) -> dict[str, int]:
    """Return {id of a change: the order's version after it} for the changes that must have log entries.

    For an archived order, these are not known, so the result has all its changes.
    """
    placed = {"placed_at": {"S": item.placed_at}, **row.key_of(item)}
    versions = item.logged_versions if isinstance(item, Order) else range(1, item.version + 1)
    return {changes.make_change_id(ORDER, placed, one, "INSERT" if one == 1 else "MODIFY"): one for one in versions}
