"""Shipments: asked of the warehouse with the order's state, then moved by what the warehouse says."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from functions.dynamodb.keys import instant
from functions.dynamodb.writes import Changed, change, put
from functions.model.entities import ArchivedOrder, Order, Shipment
from functions.model.errors import NotFound, WrongState
from functions.model.patterns import A12, A21, A16b, A21b, A21c
from functions.model.states import moved, moved_shipment
from functions.model.table import ORDER, SHIPMENT
from functions.shop.orders import expiry, open_order, placed_by
from functions.shop.shop import Caller, Shop, decided_again


def request_shipment(shop: Shop, order_id: str) -> Shipment | None:
    """Hand a paid order to the warehouse: its state and its shipment in one transaction, so that a cancel cannot race.

    None where the order is past that point already (or was never paid): repeatable.
    """

    def attempt() -> Shipment | None:
        order = shop.table.get(A12, order_id=order_id)
        if not isinstance(order, Order) or order.status != "PAID":
            return None
        now = shop.instant()
        shipment = Shipment(
            order_id=order_id,
            shipment_id=f"{order_id}-1",
            customer_id=order.customer_id,
            status="REQUESTED",
            quantities={id: line.quantity for id, line in order.lines.items()},
            created_at=now,
            updated_at=now,
        )
        shop.table.write(change(ORDER, order, moved(order, "fulfil", now)), put(SHIPMENT, shipment))
        return shipment

    return decided_again(shop, attempt)


def dispatch(
    shop: Shop, caller: Caller, order_id: str, shipment_id: str, carrier: str, tracking_number: str
) -> Shipment:
    """The carrier has it. For the warehouse and staff. Repeatable with the same carrier and tracking number.

    Raises NotAllowed, NotFound, WrongState.
    """
    caller.must_be("warehouse", "staff")

    def attempt() -> Shipment:
        before = _shipment(shop, order_id, shipment_id)
        told = replace(before, carrier=carrier, tracking_number=tracking_number)
        if before.status != "REQUESTED" and told == before:
            return before
        now = shop.instant()
        after = moved_shipment(told, "dispatch", now)
        order = open_order(shop, order_id, "dispatch")
        shop.table.write(change(SHIPMENT, before, after), change(ORDER, order, moved(order, "dispatch", now)))
        return after

    return decided_again(shop, attempt)


def deliver(shop: Shop, caller: Caller, order_id: str, shipment_id: str) -> Shipment:
    """The customer has it; from now the order can still be returned for a while, then it expires. Repeatable.

    Raises NotAllowed, NotFound, WrongState.
    """
    caller.must_be("warehouse", "staff")
    return decided_again(shop, lambda: _deliver(shop, order_id, shipment_id))


def _deliver(shop: Shop, order_id: str, shipment_id: str) -> Shipment:
    before = _shipment(shop, order_id, shipment_id)
    if before.status == "DELIVERED":
        return before
    now = shop.instant()
    after = moved_shipment(before, "deliver", now)
    order = open_order(shop, order_id, "deliver")
    delivered = moved(order, "deliver", now)
    shop.table.write(
        change(SHIPMENT, before, after),
        change(ORDER, order, delivered),
        expiry(shop, delivered, shop.return_window_days + shop.retention_days),
    )
    return after


def unconfirmed(shop: Shop, shipped_before: datetime) -> Iterator[str]:
    """The orders that were shipped before this moment and that nobody spoke of since, as the queue shows them.

    The queue is in order of placing, so it shows some that were shipped later: these are left out.
    """
    end = instant(shipped_before)
    waiting = shop.table.every(A16b, queue="SHIPPED", until=end)
    return (order.order_id for order in waiting if order.updated_at < end)


def assume_delivered(shop: Shop, order_id: str) -> bool:
    """Take a shipped order as delivered. False where it was delivered or ended meanwhile. Repeatable."""
    shipments = shop.table.query(A21, order_id=order_id, limit=100).items
    on_their_way = [shipment.shipment_id for shipment in shipments if shipment.status == "DISPATCHED"]
    try:
        for shipment_id in on_their_way:
            _deliver(shop, order_id, shipment_id)
    except (WrongState, NotFound, Changed):  # the index shows what was
        return False
    return bool(on_their_way)


def _shipment(shop: Shop, order_id: str, shipment_id: str) -> Shipment:
    found = shop.table.get(A21c, order_id=order_id, shipment_id=shipment_id)
    if found is None:
        raise NotFound("shipment")
    return found


def shipments_of_order(shop: Shop, caller: Caller, order_id: str) -> tuple[Shipment, ...]:
    """A21. For who placed the order, staff and the warehouse. Raises NotFound."""
    if "warehouse" not in caller.groups:
        placed_by(shop, caller, order_id)
    return shop.table.query(A21, order_id=order_id, limit=100).items


def shipment_by_tracking(shop: Shop, caller: Caller, carrier: str, tracking_number: str) -> Shipment:
    """A21b. For whose it is, staff and the warehouse. Raises NotFound."""
    found = shop.table.query(A21b, carrier=carrier, tracking_number=tracking_number, limit=1).items
    if not found or not (caller.sees(found[0].customer_id) or "warehouse" in caller.groups):
        raise NotFound("shipment")
    return found[0]


def parcel(shop: Shop, caller: Caller, order_id: str) -> Order:
    """What the warehouse needs to pack and address a parcel: the order. For the warehouse and staff.

    Raises NotAllowed, NotFound.
    """
    caller.must_be("warehouse", "staff")
    order = shop.table.get(A12, order_id=order_id)
    if order is None or isinstance(order, ArchivedOrder):
        raise NotFound("order")
    return order
