"""How orders end early: cancelled, at once or through the warehouse, or lapsed. Goods, discount and money go back.

Of an order that is sent in part the rest can be cancelled, through the warehouse: it is cut short.

Whatever ends an order does all of it in one transaction, which an order never outgrows: at most 90 shares of stock, its
discount, five refunds, its shipment, the order itself and its marker.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from functions.dynamodb.keys import to_instant
from functions.dynamodb.writes import Write, WriteConflict, put_if_newer, update
from functions.model.amounts import refund_due
from functions.model.entities import Expiry, Order, RefundReason, Shipment
from functions.model.errors import NotFound, WrongState
from functions.model.patterns import ORDERS_BY_STATUS_OLDEST_FIRST, SHIPMENTS_OF_ORDER
from functions.model.states import OrderCommand, apply_order_command, apply_shipment_command
from functions.model.table import EXPIRY, ORDER, SHIPMENT
from functions.shop import discounts, stock
from functions.shop.orders import get_order, get_unarchived_order, require_unarchived
from functions.shop.refunds import plan_refunds
from functions.shop.shop import Caller, Shop, retry_on_conflict


def put_expiry_marker(shop: Shop, order: Order, days: int) -> Write[Expiry]:
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
    return put_if_newer(EXPIRY, marker)


def _close_order(
    shop: Shop, before: Order, after: Order, why: RefundReason, extra_writes: Sequence[Write[Any]] = ()
) -> Order:
    """Close an order of which nothing was sent: its goods and its discount are free, what was paid is given back, or
    owed as long as the customer's bank disputes it."""
    plan = plan_refunds(shop, before, before.paid - before.refunded, why)
    ended = replace(after, refunded=before.refunded + plan.amount, owed=plan.owed)
    shop.table.write(
        update(ORDER, before, ended),
        *stock.release(before),
        *discounts.release(before),
        *plan.writes,
        *extra_writes,
        put_expiry_marker(shop, ended, shop.retention_days),
    )
    return ended


# cancel ---------------------------------------------------------------------------------------------------------------
STOP_COMMAND_BY_STATUS: Mapping[str, OrderCommand] = {
    "FULFILLING": "request_cancel",
    "PARTIALLY_SHIPPED": "request_cut",
}
"""The command that asks the warehouse to stop, by the state of what it has got."""


def cancel_order(shop: Shop, caller: Caller, order_id: str) -> Order:
    """Cancel an order: at once, as long as the warehouse has not got it; then by asking the warehouse to stop it, or
    what of it has not been sent.

    For its customer and staff. Returned as it is then: CANCELLED, CANCEL_REQUESTED or CUT_REQUESTED. Repeatable, but
    once the warehouse has refused it asks anew. Raises NotFound, WrongState.
    """

    def attempt() -> Order:
        order = require_unarchived(get_order(shop, caller, order_id), "cancel")
        if order.status in ("CANCELLED", "CANCEL_REQUESTED", "CUT_REQUESTED") or order.dropped:
            return order
        request = STOP_COMMAND_BY_STATUS.get(order.status)
        if request is None:
            return _close_order(shop, order, apply_order_command(order, "cancel", shop.now_instant()), "CANCELLED")
        after = apply_order_command(order, request, shop.now_instant())
        shop.table.write(update(ORDER, order, after))
        return after

    return retry_on_conflict(shop, attempt)


def agree_cancel(shop: Shop, caller: Caller, order_id: str) -> Order:
    """The warehouse has stopped an order that it was asked to stop, or the rest of it. For the warehouse and staff.

    Returned as it is then: CANCELLED; SHIPPED or DELIVERED where a part had been sent before. Repeatable. Raises
    NotAllowed, NotFound, WrongState: where it was sent meanwhile, for example.
    """
    caller.require_group("warehouse", "staff")

    def attempt() -> Order:
        order = get_unarchived_order(shop, order_id, "agree_cancel")
        if order.status == "CANCELLED" or order.dropped:
            return order
        if order.status == "CUT_REQUESTED":
            return _drop_unsent_goods(shop, order)
        after = apply_order_command(order, "agree_cancel", shop.now_instant())
        return _close_order(shop, order, after, "CANCELLED", _cancel_unsent_shipments(shop, order))

    return retry_on_conflict(shop, attempt)


def _cancel_unsent_shipments(shop: Shop, order: Order) -> list[Write[Shipment]]:
    """The writes that cancel what of an order has not been sent."""
    shipments = [
        it for it in shop.table.query_all(SHIPMENTS_OF_ORDER, order_id=order.order_id) if it.status == "REQUESTED"
    ]
    return [update(SHIPMENT, it, apply_shipment_command(it, "cancel", shop.now_instant())) for it in shipments]


def _drop_unsent_goods(shop: Shop, before: Order) -> Order:
    """Drop what of an order has not been sent: its goods are free, and what was paid for them is given back, or owed.

    Shipping and discount stay with what was sent. Where all of that has arrived, the order is delivered.
    """
    unsent = {id: line.quantity - line.shipped for id, line in before.lines.items()}
    dropped = replace(before, lines={id: replace(line, dropped=unsent[id]) for id, line in before.lines.items()})
    max_refund = min(refund_due(before, dropped), before.paid - before.refunded - before.owed)
    plan = plan_refunds(shop, before, max_refund, "CUT_SHORT")
    arrived = dropped.delivered == dropped.shipped
    now = shop.now_instant()
    after = apply_order_command(dropped, "cut_short_arrived" if arrived else "cut_short", now)
    after = replace(
        after,
        refunded=before.refunded + plan.amount,
        owed=before.owed + plan.owed,
        delivered_at=now if arrived else None,
    )
    shop.table.write(
        update(ORDER, before, after),
        *stock.restock(before, unsent),
        *plan.writes,
        *_cancel_unsent_shipments(shop, before),
        *([put_expiry_marker(shop, after, shop.return_window_days + shop.retention_days)] if arrived else []),
    )
    return after


def refuse_cancel(shop: Shop, caller: Caller, order_id: str) -> Order:
    """The warehouse cannot stop an order, or the rest of it, any more: it goes on. For the warehouse and staff.

    Repeatable. Raises NotAllowed, NotFound, WrongState.
    """
    caller.require_group("warehouse", "staff")

    def attempt() -> Order:
        order = get_unarchived_order(shop, order_id, "refuse_cancel")
        if order.status in STOP_COMMAND_BY_STATUS:  # it goes on already
            return order
        command: OrderCommand = "refuse_cut" if order.status == "CUT_REQUESTED" else "refuse_cancel"
        after = apply_order_command(order, command, shop.now_instant())
        shop.table.write(update(ORDER, order, after))
        return after

    return retry_on_conflict(shop, attempt)


# lapse ----------------------------------------------------------------------------------------------------------------
def list_unpaid_orders(shop: Shop, placed_before: datetime) -> Iterator[str]:
    """The orders that were placed before this moment and are still not paid, as the queue shows them."""
    waiting = shop.table.query_all(ORDERS_BY_STATUS_OLDEST_FIRST, queue="PENDING", until=to_instant(placed_before))
    return (order.order_id for order in waiting)


def lapse_order(shop: Shop, order_id: str) -> bool:
    """Close an order that is not paid, or only in part; that part is given back. Repeatable.

    False where it was paid or ended meanwhile.
    """
    try:
        order = get_unarchived_order(shop, order_id, "lapse")
        _close_order(shop, order, apply_order_command(order, "lapse", shop.now_instant()), "LAPSED")
    except (WrongState, NotFound, WriteConflict):  # the index shows what was
        return False
    return True
