"""How orders end early: cancelled, at once or through the warehouse, or lapsed. Goods, discount and money go back.

Of an order that is sent in part the rest can be cancelled, through the warehouse: it is cut short.

Whatever ends an order does all of it in one transaction, which an order never outgrows: at most 90 shares of stock, its
discount, five refunds, its shipment, the order itself and its marker.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from functions.dynamodb.keys import instant
from functions.dynamodb.writes import Changed, Write, change, put_newer
from functions.model.amounts import freed
from functions.model.entities import Expiry, Order, RefundReason, Shipment
from functions.model.errors import NotFound, WrongState
from functions.model.patterns import A21, A16b
from functions.model.states import OrderCommand, moved, moved_shipment
from functions.model.table import EXPIRY, ORDER, SHIPMENT
from functions.shop import discounts, stock
from functions.shop.orders import open_order, opened, order_by_id
from functions.shop.refunds import given_back
from functions.shop.shop import Caller, Shop, decided_again


def expiry(shop: Shop, order: Order, days: int) -> Write[Expiry]:
    """The marker of an order that closes, or closes anew: when it ends, the order is archived.

    It has the order's version, so it takes the place of whatever marker is there, ended or not; and whoever writes it
    writes the order in the same transaction.
    """
    ends = shop.now() + timedelta(days=days)
    marker = Expiry(
        order_id=order.order_id,
        customer_id=order.customer_id,
        created_at=order.updated_at,
        ttl=int(ends.timestamp()),
        version=order.version,
    )
    return put_newer(EXPIRY, marker)


def _end(shop: Shop, before: Order, after: Order, why: RefundReason, also: Sequence[Write[Any]] = ()) -> Order:
    """Close an order of which nothing was sent: its goods and its discount are free, what was paid is given back, or
    owed as long as the customer's bank disputes it."""
    back = given_back(shop, before, before.paid - before.refunded, why)
    ended = replace(after, refunded=before.refunded + back.amount, owed=back.owed)
    shop.table.write(
        change(ORDER, before, ended),
        *stock.release(before),
        *discounts.released(before),
        *back.writes,
        *also,
        expiry(shop, ended, shop.retention_days),
    )
    return ended


# cancel ---------------------------------------------------------------------------------------------------------------
ASKING: Mapping[str, OrderCommand] = {"FULFILLING": "request_cancel", "PARTIALLY_SHIPPED": "request_cut"}
"""The command that asks the warehouse to stop, by the state of what it has got."""


def cancel_order(shop: Shop, caller: Caller, order_id: str) -> Order:
    """Cancel an order: at once, as long as the warehouse has not got it; then by asking the warehouse to stop it, or
    what of it has not been sent.

    For its customer and staff. Returned as it is then: CANCELLED, CANCEL_REQUESTED or CUT_REQUESTED. Repeatable, but
    once the warehouse has refused it asks anew. Raises NotFound, WrongState.
    """

    def attempt() -> Order:
        order = opened(order_by_id(shop, caller, order_id), "cancel")
        if order.status in ("CANCELLED", "CANCEL_REQUESTED", "CUT_REQUESTED") or order.dropped:
            return order
        request = ASKING.get(order.status)
        if request is None:
            return _end(shop, order, moved(order, "cancel", shop.instant()), "CANCELLED")
        asked = moved(order, request, shop.instant())
        shop.table.write(change(ORDER, order, asked))
        return asked

    return decided_again(shop, attempt)


def agree_cancel(shop: Shop, caller: Caller, order_id: str) -> Order:
    """The warehouse has stopped an order that it was asked to stop, or the rest of it. For the warehouse and staff.

    Returned as it is then: CANCELLED; SHIPPED or DELIVERED where a part had been sent before. Repeatable. Raises
    NotAllowed, NotFound, WrongState: where it was sent meanwhile, for example.
    """
    caller.must_be("warehouse", "staff")

    def attempt() -> Order:
        order = open_order(shop, order_id, "agree_cancel")
        if order.status == "CANCELLED" or order.dropped:
            return order
        if order.status == "CUT_REQUESTED":
            return _cut_short(shop, order)
        after = moved(order, "agree_cancel", shop.instant())
        return _end(shop, order, after, "CANCELLED", _stopped(shop, order))

    return decided_again(shop, attempt)


def _stopped(shop: Shop, order: Order) -> list[Write[Shipment]]:
    """The writes that cancel what of an order has not been sent."""
    shipments = [it for it in shop.table.every(A21, order_id=order.order_id) if it.status == "REQUESTED"]
    return [change(SHIPMENT, it, moved_shipment(it, "cancel", shop.instant())) for it in shipments]


def _cut_short(shop: Shop, before: Order) -> Order:
    """Drop what of an order has not been sent: its goods are free, and what was paid for them is given back, or owed.

    Shipping and discount stay with what was sent. Where all of that has arrived, the order is delivered.
    """
    unsent = {id: line.quantity - line.shipped for id, line in before.lines.items()}
    dropped = replace(before, lines={id: replace(line, dropped=unsent[id]) for id, line in before.lines.items()})
    most = min(freed(before, dropped), before.paid - before.refunded - before.owed)
    back = given_back(shop, before, most, "CUT_SHORT")
    arrived = dropped.delivered == dropped.shipped
    now = shop.instant()
    after = moved(dropped, "cut_short_arrived" if arrived else "cut_short", now)
    after = replace(
        after,
        refunded=before.refunded + back.amount,
        owed=before.owed + back.owed,
        delivered_at=now if arrived else None,
    )
    shop.table.write(
        change(ORDER, before, after),
        *stock.restocked(before, unsent),
        *back.writes,
        *_stopped(shop, before),
        *([expiry(shop, after, shop.return_window_days + shop.retention_days)] if arrived else []),
    )
    return after


def refuse_cancel(shop: Shop, caller: Caller, order_id: str) -> Order:
    """The warehouse cannot stop an order, or the rest of it, any more: it goes on. For the warehouse and staff.

    Repeatable. Raises NotAllowed, NotFound, WrongState.
    """
    caller.must_be("warehouse", "staff")

    def attempt() -> Order:
        order = open_order(shop, order_id, "refuse_cancel")
        if order.status in ASKING:  # it goes on already
            return order
        command: OrderCommand = "refuse_cut" if order.status == "CUT_REQUESTED" else "refuse_cancel"
        after = moved(order, command, shop.instant())
        shop.table.write(change(ORDER, order, after))
        return after

    return decided_again(shop, attempt)


# lapse ----------------------------------------------------------------------------------------------------------------
def unpaid(shop: Shop, placed_before: datetime) -> Iterator[str]:
    """The orders that were placed before this moment and are still not paid, as the queue shows them."""
    waiting = shop.table.every(A16b, queue="PENDING", until=instant(placed_before))
    return (order.order_id for order in waiting)


def lapse(shop: Shop, order_id: str) -> bool:
    """Close an order that is not paid, or only in part; that part is given back. Repeatable.

    False where it was paid or ended meanwhile.
    """
    try:
        order = open_order(shop, order_id, "lapse")
        _end(shop, order, moved(order, "lapse", shop.instant()), "LAPSED")
    except (WrongState, NotFound, Changed):  # the index shows what was
        return False
    return True
