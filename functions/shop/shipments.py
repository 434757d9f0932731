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
from functions.model.patterns import (
    ORDER_BY_ID,
    SHIPMENT_BY_TRACKING_NUMBER,
    SHIPMENTS_OF_ORDER,
)
from functions.model.states import apply_order_command, apply_shipment_command
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
from functions.shop.shop import Caller, ShopContext, retry_on_conflict

MAX_SHIPMENTS = 90
"""The maximum number of shipments of one order.

The limit exists because one transaction must be able to mark all shipments of the order as delivered.
"""
MAX_SHIPMENTS_PER_TRACKING_NUMBER = 100
"""The maximum number of shipments that are read for one tracking number."""
Quantities = Mapping[str, int]
"""A number of pieces for each product id."""


def build_shipment(order: Order, quantities: Quantities) -> Shipment:
    """Return a new shipment with all unsent pieces of an order. Nothing is written.

    `quantities`: the number of unsent pieces by product id. The shipment's field `backordered` says how many of its
    pieces were not in stock when they were ordered. The warehouse sends these pieces last. So this number is the
    backordered quantity of the order line, but at most the number of unsent pieces.
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
    become a new shipment. Safe to repeat with the same carrier, tracking number and quantities.

    If `quantities` has more pieces of a product than the shipment, raises TooMuch with the product id and the quantity
    in the shipment. If the order would have more than MAX_SHIPMENTS shipments, raises TooMuch with "parcels", the name
    of the order's field that counts its shipments. Also raises NotAllowed, NotFound, WrongState and InvalidInput.
    """
    caller.require_group("warehouse", "staff")
    if quantities is not None and (not quantities or min(quantities.values()) < 1):
        raise InvalidInput("quantities", "must not be empty, and each quantity must be at least 1")

    def attempt() -> Shipment:
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

    return retry_on_conflict(shop, attempt)


def _remaining(available: Quantities, taken: Quantities) -> dict[str, int]:
    """Return the quantities that remain in a shipment after `taken` is subtracted. Products with 0 pieces are left out.

    Raises TooMuch if `taken` has more pieces of a product than `available`.
    """
    for id, quantity in taken.items():
        if quantity > (most := available.get(id, 0)):
            raise TooMuch(id, most)
    left = {id: quantity - taken.get(id, 0) for id, quantity in available.items()}
    return {id: quantity for id, quantity in left.items() if quantity}


# delivering -----------------------------------------------------------------------------------------------------------
def deliver_shipment(shop: ShopContext, caller: Caller, order_id: str, shipment_id: str) -> Shipment:
    """Record that the customer has the shipment. If the whole order has arrived, the order becomes DELIVERED.

    Then a return window of `return_window_days` begins, in which the customer can return goods. The order is archived
    `closed_order_days` after the end of this window. Later events, such as a return, can postpone the archiving. Only
    the warehouse and staff may call this command. Safe to repeat. Raises NotAllowed, NotFound, WrongState.
    """
    caller.require_group("warehouse", "staff")

    def attempt() -> Shipment:
        stored, before = _get_order_and_shipment(shop, order_id, shipment_id)
        if before.status == "DELIVERED":
            return before
        (after,) = _record_delivery(shop, require_unarchived(stored, "deliver"), [before])
        return after

    return retry_on_conflict(shop, attempt)


def _record_delivery(shop: ShopContext, order: Order, shipments: Sequence[Shipment]) -> Sequence[Shipment]:
    """Mark these shipments as delivered and return them.

    If all pieces of the order have arrived, the same transaction also marks the order as delivered.
    """
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

    When a shipment is requested, the order's status changes from PAID to FULFILLING. The query reads an index that is
    eventually consistent. So the shipment of an order in the result may have been requested in the meantime.
    """
    return _list_unchanged_orders(shop, "PAID", paid_before)


def list_unconfirmed_orders(
    shop: ShopContext, shipped_before: datetime, shard: int | None = None
) -> Iterator[QueuedOrder]:
    """Yield the orders whose delivery was not confirmed: SHIPPED, and unchanged since `shipped_before`.

    `shard`: reads only this shard (partition) of the index. The index is eventually consistent, so an order in the
    result may already be delivered.
    """
    return _list_unchanged_orders(shop, "SHIPPED", shipped_before, shard)


def _list_unchanged_orders(
    shop: ShopContext, status: OrderStatus, since: datetime, shard: int | None = None
) -> Iterator[QueuedOrder]:
    """Yield the orders with this status that have not changed since a time.

    The index is sorted by the time when the orders were placed. So the function also has to skip orders that changed
    after `since`.
    """
    orders = list_orders_placed_before(shop, status, since, shard)
    return (order for order in orders if order.updated_at < to_instant(since))


def assume_delivered(shop: ShopContext, order_id: str) -> bool:
    """Mark an order as delivered although its delivery was not confirmed in time. Safe to repeat.

    The same transaction marks all dispatched shipments of the order as delivered. Returns False, and changes nothing,
    if the order is not SHIPPED any more, or if another process changed it at the same time. Otherwise returns True.
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
    key = SHIPMENT.key(order_id=order_id, shipment_id=shipment_id)
    order, shipment = shop.table.get_neighbours(ORDER.key(order_id=order_id), key)
    if order is None or shipment is None:
        raise NotFound("shipment")
    return order, shipment


def list_shipments_of_order(shop: ShopContext, caller: Caller, order_id: str) -> tuple[Shipment, ...]:
    """Return the shipments of an order (access pattern A21).

    Only the order's customer, staff and the warehouse may see the shipments. For other callers, raises NotFound. The
    warehouse does not see those of an archived order. Raises ArchiveUnavailable.
    """
    order = None if "warehouse" in caller.groups else get_order(shop, caller, order_id)
    return list_items_of_order(shop, ListRequest(caller, MAX_SHIPMENTS), SHIPMENTS_OF_ORDER, order_id, order).items


def list_shipments_by_tracking(
    shop: ShopContext, caller: Caller, carrier: str, tracking_number: str
) -> tuple[Shipment, ...]:
    """Return the shipments with this tracking number that the caller may see (access pattern A21b).

    Staff and the warehouse see all shipments, customers see only their own shipments. Several shipments can have the
    same number, because carriers reuse numbers and people mistype them. Raises NotFound if the result would be empty.
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
    """Return an order so that the warehouse can pack its parcel. Only the warehouse and staff may call it.

    Raises NotAllowed, and NotFound if the order does not exist or is archived.
    """
    caller.require_group("warehouse", "staff")
    order = shop.table.get(ORDER_BY_ID, order_id=order_id)
    if order is None or isinstance(order, ArchivedOrder):
        raise NotFound("order")
    return order
