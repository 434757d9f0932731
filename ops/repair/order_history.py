"""The entries that the customer's activity log needs for the changes of an order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from functions.dynamodb.codec import Image
from functions.dynamodb.keys import Row
from functions.model import changes, copies
from functions.model.entities import ArchivedOrder, Order
from functions.model.table import ORDER
from functions.shop.republishing import list_changes
from functions.shop.shop import ShopContext


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
