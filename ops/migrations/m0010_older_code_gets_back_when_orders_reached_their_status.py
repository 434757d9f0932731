"""For a rollback: write the attributes `reached` and `reached_at` of orders again. See docs/decisions/0067.

They are the version and the time of the last change of an order's status. This version has them in the timeline. The
tools of the previous version cannot work on an order without them. `up` changes nothing: older orders keep theirs,
because their timelines are in other items, and nothing reads them.
"""

from functions.model.states import ORDER_TRANSITIONS
from functions.model.table import ORDER
from functions.model.timelines import first_entry
from ops.item_codec import encode_item
from ops.migration import Item, Migration

STATUS_KEEPING_EVENTS = {
    "OrderRestored",
    *(move.change_name for move in ORDER_TRANSITIONS if move.status_after("PENDING") == "PENDING"),
}


def down(item: Item) -> Item | None:
    """Return the order as the previous version would have stored it: `reached_at` only if another change followed.

    Orders that the previous version changed last are left unchanged, and so are orders that are being archived. If this
    version changed an order last, but not its status, its time may be unknown: then it is that of the last change.
    """
    order = ORDER.decode(encode_item(item))
    timeline = {"1": first_entry(order), **(order.timeline or {})}
    reached = order.version
    if str(reached) not in timeline or order.status == "ARCHIVING":
        return None
    while (earlier := timeline.get(str(reached - 1))) and earlier.status == order.status:
        reached -= 1
    entry = timeline[str(reached)]
    if entry.event in STATUS_KEEPING_EVENTS and "reached" in item:  # the previous version changed the status last
        times = {"PENDING": order.placed_at, "PAID": order.paid_at, "DELIVERED": order.delivered_at}
        since = item.get("reached_at") or times.get(order.status)
        return {**item, "reached_at": since} if since else None
    later = {"reached_at": entry.at} if reached < order.version else {}
    return {name: value for name, value in item.items() if name != "reached_at"} | {"reached": reached, **later}


MIGRATION = Migration(
    description="if undone, orders store again when they reached their status, for older code",
    item_types=("Order",),
    down=down,
)
