"""The timeline of an order: one entry for each change of the order, stored in the order itself.

A command writes the entry together with the change. So a timeline has no gaps and is never late. The first entry is not
stored: the order says when it was placed. DynamoDB bills each write by the size of the item. So an order with many
changes keeps only its latest entries. The transaction that writes the order moves the earlier entries into another
item, EarlierTimeline.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from functions.dynamodb.keys import Instant
from functions.model.entities import EarlierTimeline, Order, OrderStatus, TimelineEntry

MAX_ENTRIES = 16
"""The number of entries that an order keeps. They take about half a KB."""
KEPT_ENTRIES = 4
"""The number of entries that stay in the order when the earlier entries are moved."""
Timeline = Mapping[str, TimelineEntry]
"""The timeline entries of an order. The key is the order's version after the change, as text."""


def first_entry(order: Order) -> TimelineEntry:
    """Return the entry of the order's placement. An order with nothing to pay is PAID at once."""
    if order.total:
        return TimelineEntry(at=order.placed_at, event="OrderPlaced", status="PENDING")
    return TimelineEntry(at=order.placed_at, event="OrderPaid", status="PAID")


def append_entry(order: Order, version: int, entry: TimelineEntry) -> Timeline:
    """Return the order's timeline with one more entry."""
    return {**(order.timeline or {}), str(version): entry}


def split_timeline(order: Order) -> tuple[Order, EarlierTimeline | None]:
    """Return the order with at most MAX_ENTRIES entries, and an item with the entries that were moved, or None."""
    timeline = order.timeline or {}
    if len(timeline) <= MAX_ENTRIES:
        return order, None
    versions = sorted(map(int, timeline))
    moved = {str(version): timeline[str(version)] for version in versions[:-KEPT_ENTRIES]}
    kept = {str(version): timeline[str(version)] for version in versions[-KEPT_ENTRIES:]}
    first, now = versions[0], order.updated_at
    earlier = EarlierTimeline(order_id=order.order_id, first_version=first, entries=moved, created_at=now)
    return replace(order, timeline=kept), earlier


@dataclass(frozen=True)
class OrderEvent:
    """A change of an order. `version`, `status`: the order's version and status after the change."""

    version: int
    at: Instant
    event: str
    status: OrderStatus


def merge_timeline(items: Iterable[Any]) -> list[OrderEvent]:
    """Return the timeline of an order, oldest first, from the items of its partition."""
    found: dict[int, OrderEvent] = {}
    for item in items:
        match item:
            case Order():
                entries: Timeline = {"1": first_entry(item), **(item.timeline or {})}
            case EarlierTimeline():
                entries = item.entries
            case _:
                continue
        for version, entry in entries.items():
            found[int(version)] = OrderEvent(int(version), entry.at, entry.event, entry.status)
    return [found[version] for version in sorted(found)]
