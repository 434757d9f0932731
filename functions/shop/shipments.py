"""Shipments: dispatch and deliver a shipment. fulfilment.py requests the first shipment of an order.

An order starts with one shipment. If the warehouse sends only some pieces of a shipment, the same transaction creates
the next shipment with the remaining pieces. So all shipments together always contain the whole order. If the unsent
goods of an order are cancelled, the unsent shipment is cancelled too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from functions.dynamodb.keys import to_instant
from functions.dynamodb.writes import WriteConflict, put_if_absent, update
from functions.model.entities import ArchivedOrder, Line, Order, OrderStatus, QueuedOrder, Shipment
from functions.model.errors import InvalidInput, NotFound, TooMuch, WrongState
from functions.model.patterns import ORDER_BY_ID, SHIPMENT_BY_TRACKING_NUMBER, SHIPMENTS_OF_ORDER
from functions.model.states import AT_WAREHOUSE_STATUSES, apply_order_command, apply_shipment_command
from functions.model.table import ORDER, SHIPMENT
from functions.shop.cancellation import put_expiry_marker
from functions.shop.lists import ListRequest
from functions.shop.orders import (
    get_order,
    get_unarchived_order,
    list_items_of_order,
    list_orders_placed_before,
    require_unarchived,
    save_order,
)
from functions.shop.shop import Caller, ShopContext, retries_on_conflict

MAX_SHIPMENTS = 90
"""The maximum number of shipments of one order.

The limit exists because one transaction must be able to mark all shipments of the order as delivered.
"""
MAX_SHIPMENTS_PER_TRACKING_NUMBER = 100
"""The maximum number of shipments that are read for one tracking number."""
Quantities = Mapping[str, int]
"""A number of pieces for each product id."""


def build_shipment(order: Order, quantities: Quantities) -> Shipment:
    """Return a new shipment with the unsent pieces of an order, by product id. Nothing is written.

    The warehouse sends the pieces that were not in stock when they were ordered last. So the shipment's `backordered`
    is that of the order line, but at most the number of unsent pieces.
    """
    method = order.shipping_method
    missing = {id: min(quantity, order.lines[id].backordered) for id, quantity in quantities.items()}
    return Shipment(
        order_id=order.order_id,
        shipment_id=f"{order.order_id}-{order.parcels}",
        customer_id=order.customer_id,
        status="REQUESTED",
        quantities=quantities,
        backordered={id: quantity for id, quantity in missing.items() if quantity} or None,
        created_at=order.updated_at,
        updated_at=order.updated_at,
        shipping_method=method.id if method else None,
        pickup=method.pickup if method else False,
    )


# dispatching ----------------------------------------------------------------------------------------------------------
@retries_on_conflict
def dispatch_shipment(
    shop: ShopContext,
    caller: Caller,
    order_id: str,
    shipment_id: str,
    carrier: str,
    tracking_number: str,
    quantities: Quantities | None = None,
) -> Shipment:
    """Record that the carrier took the whole shipment or some of its pieces. Only the warehouse and staff may call it.

    `quantities`: the pieces that the carrier took, by product id, or None for the whole shipment. The other pieces
    become a new shipment. Safe to repeat with the same carrier, tracking number and quantities. Raises TooMuch with the
    product id and the quantity in the shipment, or with "parcels" if the order would have more than MAX_SHIPMENTS
    shipments. Also raises NotAllowed, NotFound, WrongState and InvalidInput.
    """
    caller.require_group("warehouse", "staff")
    if quantities is not None and (not quantities or min(quantities.values()) < 1):
        raise InvalidInput("quantities", "must not be empty, and each quantity must be at least 1")
    stored, before = _get_order_and_shipment(shop, order_id, shipment_id)
    sent = dict(before.quantities if quantities is None else quantities)
    updated = replace(before, carrier=normalize_carrier(carrier), tracking_number=tracking_number, quantities=sent)
    if before.status != "REQUESTED" and updated == before:
        return before
    now = shop.now_instant()
    after = apply_shipment_command(replace(updated, backordered=None), "dispatch", now)
    left = _remaining(before.quantities, sent)
    order = require_unarchived(stored, "dispatch")
    if left and order.parcels >= MAX_SHIPMENTS:
        raise TooMuch("parcels", MAX_SHIPMENTS)
    lines = {id: replace(line, shipped=line.shipped + sent.get(id, 0)) for id, line in order.lines.items()}
    all_sent = all(line.shipped == line.quantity_to_ship for line in lines.values())
    shipped = replace(
        apply_order_command(order, "dispatch" if all_sent else "dispatch_part", now),
        lines=lines,
        parcels=order.parcels + bool(left),
    )
    following = [put_if_absent(SHIPMENT, build_shipment(shipped, left))] if left else []
    shop.table.write(update(SHIPMENT, before, after), *save_order(order, shipped), *following)
    return after


def _remaining(available: Quantities, taken: Quantities) -> dict[str, int]:
    """Return the quantities, without 0, that remain after `taken` is subtracted. Raises TooMuch if `taken` has more."""
    for id, quantity in taken.items():
        if quantity > (most := available.get(id, 0)):
            raise TooMuch(id, most)
    left = {id: quantity - taken.get(id, 0) for id, quantity in available.items()}
    return {id: quantity for id, quantity in left.items() if quantity}


# delivering -----------------------------------------------------------------------------------------------------------
@retries_on_conflict
def deliver_shipment(shop: ShopContext, caller: Caller, order_id: str, shipment_id: str) -> Shipment:
    """Record that the customer has the shipment. If the whole order has arrived, the order becomes DELIVERED.

    Then the return window of `return_window_days` begins. The order is archived `closed_order_days` after its end, or
    later after events such as a return. Only the warehouse and staff may call it. Safe to repeat. Raises NotAllowed,
    NotFound, WrongState.
    """
    caller.require_group("warehouse", "staff")
    stored, before = _get_order_and_shipment(shop, order_id, shipment_id)
    if before.status == "DELIVERED":
        return before
    (after,) = _record_delivery(shop, require_unarchived(stored, "deliver"), [before])
    return after


def _record_delivery(shop: ShopContext, order: Order, shipments: Sequence[Shipment]) -> Sequence[Shipment]:
    """Mark these shipments, and the order if all its pieces have arrived, as delivered. Return the shipments."""
    now = shop.now_instant()
    delivered = [apply_shipment_command(shipment, "deliver", now) for shipment in shipments]
    lines: dict[str, Line] = {}
    for id, line in order.lines.items():
        arrived = sum(shipment.quantities.get(id, 0) for shipment in shipments)
        lines[id] = replace(line, delivered=line.delivered + arrived)
    all_delivered = all(line.delivered == line.quantity_to_ship for line in lines.values())
    after = replace(apply_order_command(order, "deliver" if all_delivered else "deliver_part", now), lines=lines)
    if all_delivered:
        after = replace(after, delivered_at=now)
    shop.table.write(
        *(update(SHIPMENT, *pair) for pair in zip(shipments, delivered, strict=True)),
        *save_order(order, after),
        *([put_expiry_marker(shop, after, shop.return_window_days + shop.closed_order_days)] if all_delivered else []),
    )
    return delivered


def list_unrequested_orders(shop: ShopContext, paid_before: datetime) -> Iterator[QueuedOrder]:
    """Yield the paid orders without a requested shipment: PAID, and unchanged since `paid_before`.

    The index is eventually consistent. So the shipment may have been requested in the meantime.
    """
    return _list_unchanged_orders(shop, "PAID", paid_before)


def list_unconfirmed_orders(
    shop: ShopContext, shipped_before: datetime, shard: int | None = None
) -> Iterator[QueuedOrder]:
    """Yield the orders whose delivery was not confirmed: SHIPPED, and unchanged since `shipped_before`.

    `shard`: reads only this shard (partition) of the index, which is eventually consistent.
    """
    return _list_unchanged_orders(shop, "SHIPPED", shipped_before, shard)


def _list_unchanged_orders(
    shop: ShopContext, status: OrderStatus, since: datetime, shard: int | None = None
) -> Iterator[QueuedOrder]:
    """Yield the orders with this status that have not changed since a time. The index sorts them by placing."""
    orders = list_orders_placed_before(shop, status, since, shard)
    return (order for order in orders if order.updated_at < to_instant(since))


def assume_delivered(shop: ShopContext, order_id: str) -> bool:
    """Mark an order and its dispatched shipments as delivered, because no delivery was confirmed in time. Safe to
    repeat.

    Returns False, and changes nothing, if it is not SHIPPED any more, or if another process changed it at the same
    time.
    """
    try:
        order = get_unarchived_order(shop, order_id, "deliver")
        if order.status != "SHIPPED":
            return False
        shipments = list(shop.table.query_all(SHIPMENTS_OF_ORDER, order_id=order_id))
        _record_delivery(shop, order, [shipment for shipment in shipments if shipment.status == "DISPATCHED"])
    except (WrongState, NotFound, WriteConflict):  # the order changed after the index was read: skip this order
        return False
    return True


# reading --------------------------------------------------------------------------------------------------------------
def _get_order_and_shipment(
    shop: ShopContext, order_id: str, shipment_id: str
) -> tuple[Order | ArchivedOrder, Shipment]:
    """Read an order and one of its shipments. Raises NotFound, and WriteConflict if another command changed both."""
    key = SHIPMENT.key(order_id=order_id, shipment_id=shipment_id)
    order, shipment = shop.table.get_neighbours(ORDER.key(order_id=order_id), key)
    if order is None or shipment is None:
        raise NotFound("shipment")
    # The query may show the order after a change, and the shipment before. Then a repeated command would be rejected.
    is_sent, has_arrived = order.status not in AT_WAREHOUSE_STATUSES, order.status == "DELIVERED"
    if (shipment.status == "REQUESTED" and is_sent) or (shipment.status == "DISPATCHED" and has_arrived):
        raise WriteConflict(SHIPMENT.type)
    return order, shipment


def list_shipments_of_order(shop: ShopContext, caller: Caller, order_id: str) -> tuple[Shipment, ...]:
    """Return the shipments of an order (access pattern A21).

    Raises NotFound, also for the warehouse if the order is archived. Raises ArchiveUnavailable.
    """
    order = None if "warehouse" in caller.groups else get_order(shop, caller, order_id)
    return list_items_of_order(shop, ListRequest(caller, MAX_SHIPMENTS), SHIPMENTS_OF_ORDER, order_id, order).items


def list_shipments_by_tracking(
    shop: ShopContext, caller: Caller, carrier: str, tracking_number: str
) -> tuple[Shipment, ...]:
    """Return the shipments with this tracking number that the caller may see (access pattern A21b).

    Carriers reuse numbers and people mistype them, so there can be several. Raises NotFound instead of an empty result.
    """
    asked = {"carrier": normalize_carrier(carrier), "tracking_number": tracking_number}
    found = shop.table.query(SHIPMENT_BY_TRACKING_NUMBER, **asked, limit=MAX_SHIPMENTS_PER_TRACKING_NUMBER).items
    seen = tuple(one for one in found if caller.can_see(one.customer_id) or "warehouse" in caller.groups)
    if not seen:
        raise NotFound("shipment")
    return seen


def normalize_carrier(name: str) -> str:
    """Return the carrier's name in its stored form: trimmed and in lower case."""
    return name.strip().lower()


def get_order_for_packing(shop: ShopContext, caller: Caller, order_id: str) -> Order:
    """Return an order for the warehouse, which packs it. Raises NotAllowed, and NotFound, also if it is archived."""
    caller.require_group("warehouse", "staff")
    order = shop.table.get(ORDER_BY_ID, order_id=order_id)
    if order is None or isinstance(order, ArchivedOrder):
        raise NotFound("order")
    return order
