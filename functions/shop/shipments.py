"""Shipments: asked of the warehouse with the order's state, then sent, whole or in parts, and delivered as it says.

An order is asked for as one shipment. What the warehouse does not send with it becomes the next one, in the same
transaction: so all shipments together are what was ordered, however many they are and whatever comes between. Where an
order is cut short, that next one is cancelled, and what was in it is dropped.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from functions.dynamodb.keys import instant
from functions.dynamodb.writes import Changed, change, put
from functions.model.entities import ArchivedOrder, Line, Order, Shipment
from functions.model.errors import Invalid, NotFound, TooMuch, WrongState
from functions.model.patterns import A12, A21, A16b, A21b, A21c
from functions.model.states import moved, moved_shipment
from functions.model.table import ORDER, SHIPMENT
from functions.shop.ending import expiry
from functions.shop.orders import open_order, placed_by
from functions.shop.shop import Caller, Shop, decided_again

MOST_PARCELS = 90
"""In so many shipments an order is sent at most, so that one transaction can take all of them as delivered."""
MOST_ALIKE = 100
"""So many shipments with one number are looked at for those that somebody may see."""
Quantities = Mapping[str, int]
"""Pieces by product."""


# asked for ------------------------------------------------------------------------------------------------------------
def request_shipment(shop: Shop, order_id: str) -> Shipment | None:
    """Hand a paid order to the warehouse: its state and its shipment in one transaction, so that a cancel cannot race.

    None where the order is past that point already (or was never paid): repeatable.
    """

    def attempt() -> Shipment | None:
        order = shop.table.get(A12, order_id=order_id)
        if not isinstance(order, Order) or order.status != "PAID":
            return None
        after = replace(moved(order, "fulfil", shop.instant()), parcels=1)
        shipment = _requested(after, {id: line.quantity for id, line in order.lines.items()})
        shop.table.write(change(ORDER, order, after), put(SHIPMENT, shipment))
        return shipment

    return decided_again(shop, attempt)


def _requested(order: Order, quantities: Quantities) -> Shipment:
    """The last shipment of an order so far, for the warehouse to pack. What was there is sent before what was not."""
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
    )


# sent -----------------------------------------------------------------------------------------------------------------
def dispatch(
    shop: Shop,
    caller: Caller,
    order_id: str,
    shipment_id: str,
    carrier: str,
    tracking_number: str,
    quantities: Quantities | None = None,
) -> Shipment:
    """The carrier has it, or so much of it; None: all that is in it. What is left is the order's next shipment.

    For the warehouse and staff. Repeatable with the same carrier, tracking number and quantities. Raises NotAllowed,
    NotFound, WrongState, Invalid, TooMuch(product, how many are in it), TooMuch(parcels).
    """
    caller.must_be("warehouse", "staff")
    if quantities is not None and (not quantities or min(quantities.values()) < 1):
        raise Invalid("quantities", "is empty, or one of them is less than one")

    def attempt() -> Shipment:
        before = _shipment(shop, order_id, shipment_id)
        sent = dict(before.quantities if quantities is None else quantities)
        told = replace(before, carrier=carrier_as_kept(carrier), tracking_number=tracking_number, quantities=sent)
        if before.status != "REQUESTED" and told == before:
            return before
        now = shop.instant()
        after = moved_shipment(replace(told, backordered=None), "dispatch", now)
        left = _left(before.quantities, sent)
        order = open_order(shop, order_id, "dispatch")
        if left and order.parcels >= MOST_PARCELS:
            raise TooMuch("parcels", MOST_PARCELS)
        lines = {id: replace(line, shipped=line.shipped + sent.get(id, 0)) for id, line in order.lines.items()}
        all_sent = all(line.shipped == line.to_send for line in lines.values())
        shipped = replace(
            moved(order, "dispatch" if all_sent else "dispatch_part", now),
            lines=lines,
            parcels=order.parcels + bool(left),
        )
        following = [put(SHIPMENT, _requested(shipped, left))] if left else []
        shop.table.write(change(SHIPMENT, before, after), change(ORDER, order, shipped), *following)
        return after

    return decided_again(shop, attempt)


def _left(there: Quantities, taken: Quantities) -> dict[str, int]:
    """What is left of a shipment; raises TooMuch where more of a product is taken than is there."""
    for id, quantity in taken.items():
        if quantity > (most := there.get(id, 0)):
            raise TooMuch(id, most)
    left = {id: quantity - taken.get(id, 0) for id, quantity in there.items()}
    return {id: quantity for id, quantity in left.items() if quantity}


# delivered ------------------------------------------------------------------------------------------------------------
def deliver(shop: Shop, caller: Caller, order_id: str, shipment_id: str) -> Shipment:
    """The customer has it. With its last shipment the order is delivered: it can still be returned for a while, then
    it expires. For the warehouse and staff. Repeatable. Raises NotAllowed, NotFound, WrongState.
    """
    caller.must_be("warehouse", "staff")

    def attempt() -> Shipment:
        before = _shipment(shop, order_id, shipment_id)
        if before.status == "DELIVERED":
            return before
        (after,) = _arrive(shop, open_order(shop, order_id, "deliver"), [before])
        return after

    return decided_again(shop, attempt)


def _arrive(shop: Shop, order: Order, shipments: Sequence[Shipment]) -> Sequence[Shipment]:
    """Take these shipments of an order as delivered, and the order where that is all of it."""
    now = shop.instant()
    there = [moved_shipment(shipment, "deliver", now) for shipment in shipments]
    lines: dict[str, Line] = {}
    for id, line in order.lines.items():
        arrived = sum(shipment.quantities.get(id, 0) for shipment in shipments)
        lines[id] = replace(line, delivered=line.delivered + arrived)
    all_there = all(line.delivered == line.to_send for line in lines.values())
    after = replace(moved(order, "deliver" if all_there else "deliver_part", now), lines=lines)
    if all_there:
        after = replace(after, delivered_at=now)
    shop.table.write(
        *(change(SHIPMENT, *pair) for pair in zip(shipments, there, strict=True)),
        change(ORDER, order, after),
        *([expiry(shop, after, shop.return_window_days + shop.retention_days)] if all_there else []),
    )
    return there


def unrequested(shop: Shop, paid_before: datetime) -> Iterator[str]:
    """The orders that were paid before this moment and did not go to the warehouse, as the queue shows them."""
    paid = shop.table.every(A16b, queue="PAID", until=instant(paid_before))
    return (order.order_id for order in paid if order.updated_at < instant(paid_before))


def unconfirmed(shop: Shop, shipped_before: datetime) -> Iterator[str]:
    """The orders that were shipped before this moment and that nobody spoke of since, as the queue shows them.

    The queue is in order of placing, so it shows some that were shipped later: these are left out.
    """
    end = instant(shipped_before)
    waiting = shop.table.every(A16b, queue="SHIPPED", until=end)
    return (order.order_id for order in waiting if order.updated_at < end)


def assume_delivered(shop: Shop, order_id: str) -> bool:
    """Take a shipped order as delivered, with all its shipments that are on their way, at once. Repeatable.

    False where it was delivered or ended meanwhile, or is not shipped as a whole.
    """
    try:
        order = open_order(shop, order_id, "deliver")
        if order.status != "SHIPPED":
            return False
        shipments = list(shop.table.every(A21, order_id=order_id))
        _arrive(shop, order, [shipment for shipment in shipments if shipment.status == "DISPATCHED"])
    except (WrongState, NotFound, Changed):  # the index shows what was
        return False
    return True


# reading --------------------------------------------------------------------------------------------------------------
def _shipment(shop: Shop, order_id: str, shipment_id: str) -> Shipment:
    found = shop.table.get(A21c, order_id=order_id, shipment_id=shipment_id)
    if found is None:
        raise NotFound("shipment")
    return found


def shipments_of_order(shop: Shop, caller: Caller, order_id: str) -> tuple[Shipment, ...]:
    """A21. For who placed the order, staff and the warehouse. Raises NotFound."""
    if "warehouse" not in caller.groups:
        placed_by(shop, caller, order_id)
    return shop.table.query(A21, order_id=order_id, limit=MOST_PARCELS).items


def shipments_by_tracking(shop: Shop, caller: Caller, carrier: str, tracking_number: str) -> tuple[Shipment, ...]:
    """A21b: those of them that the caller sees; staff and the warehouse see all. Raises NotFound where that is none.

    A number is the carrier's, who may give it out again, or mistyped: it is that of several shipments, sometimes.
    """
    asked = {"carrier": carrier_as_kept(carrier), "tracking_number": tracking_number}
    found = shop.table.query(A21b, **asked, limit=MOST_ALIKE).items
    seen = tuple(one for one in found if caller.sees(one.customer_id) or "warehouse" in caller.groups)
    if not seen:
        raise NotFound("shipment")
    return seen


def carrier_as_kept(name: str) -> str:
    """A carrier's name as it is kept: how somebody types it makes no other."""
    return name.strip().lower()


def parcel(shop: Shop, caller: Caller, order_id: str) -> Order:
    """What the warehouse needs to pack and address a parcel: the order. For the warehouse and staff.

    Raises NotAllowed, NotFound.
    """
    caller.must_be("warehouse", "staff")
    order = shop.table.get(A12, order_id=order_id)
    if order is None or isinstance(order, ArchivedOrder):
        raise NotFound("order")
    return order
