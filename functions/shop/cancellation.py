"""Cancel orders and expire unpaid orders: release the goods and the discount, and refund the money.

An order is cancelled at once, or by a request to the warehouse. An unpaid order expires (status LAPSED). If some goods
of an order were already sent, the warehouse can cancel the rest; the code calls this "cut short".

Each of these is one transaction. It fits into the limit of 100 items: at most 90 stock items, the discount, five
refunds, the shipment, the order itself and its expiry marker.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from functions.dynamodb.keys import to_instant
from functions.dynamodb.writes import Write, WriteConflict, put_if_newer, update
from functions.model.entities import Expiry, Order, RefundReason, Shipment
from functions.model.errors import NotFound, WrongState
from functions.model.patterns import ORDERS_BY_STATUS_OLDEST_FIRST, SHIPMENTS_OF_ORDER
from functions.model.pricing import refund_due
from functions.model.states import OrderCommand, apply_order_command, apply_shipment_command
from functions.model.table import EXPIRY, ORDER, SHIPMENT
from functions.shop import discounts, stock
from functions.shop.orders import get_order, get_unarchived_order, require_unarchived
from functions.shop.refunds import plan_refunds
from functions.shop.shop import Caller, Shop, retry_on_conflict


def put_expiry_marker(shop: Shop, order: Order, days: int) -> Write[Expiry]:
    """Return the write of a closed order's expiry marker. When the marker's TTL expires, the order is archived.

    The marker contains the order's version, so it replaces any older marker, expired or not. The calling function
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
    """Close an order whose goods were not sent: release the goods and the discount, and refund the payments.

    A disputed payment cannot be refunded, so its amount is recorded as owed. Returns the closed order.
    """
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
"""The order command that asks the warehouse to stop, by the status of the order."""


def cancel_order(shop: Shop, caller: Caller, order_id: str) -> Order:
    """Cancel an order: at once if the warehouse does not have it yet, otherwise by a request to the warehouse.

    If some goods were already sent, the request is for the rest. Only the order's customer and staff may call it.
    Returns the order with its new status: CANCELLED, CANCEL_REQUESTED or CUT_REQUESTED.

    Safe to repeat. If the warehouse has refused the first request, the repetition sends a new one. Raises NotFound,
    WrongState.
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
    """Record that the warehouse agreed to cancel an order, or the rest of it. Only the warehouse and staff may call it.

    Returns the order. Its new status is CANCELLED, or SHIPPED or DELIVERED if some goods were sent before. Safe to
    repeat. Raises NotAllowed, NotFound, and WrongState, for example if the order was sent in between.
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
    """Return the writes that cancel those shipments of an order that the warehouse has not sent."""
    shipments = [
        it for it in shop.table.query_all(SHIPMENTS_OF_ORDER, order_id=order.order_id) if it.status == "REQUESTED"
    ]
    return [update(SHIPMENT, it, apply_shipment_command(it, "cancel", shop.now_instant())) for it in shipments]


def _drop_unsent_goods(shop: Shop, before: Order) -> Order:
    """Drop the unsent goods of an order: return them to stock, and refund their price or record it as owed.

    The shipping costs and the discount still apply to the goods that were sent. If all sent goods have arrived, the
    order becomes DELIVERED.
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
    """Record that the warehouse refused to cancel an order, or the rest of it. The order continues.

    Only the warehouse and staff may call it. Safe to repeat. Raises NotAllowed, NotFound, WrongState.
    """
    caller.require_group("warehouse", "staff")

    def attempt() -> Order:
        order = get_unarchived_order(shop, order_id, "refuse_cancel")
        if order.status in STOP_COMMAND_BY_STATUS:  # no cancellation is waiting for an answer
            return order
        command: OrderCommand = "refuse_cut" if order.status == "CUT_REQUESTED" else "refuse_cancel"
        after = apply_order_command(order, command, shop.now_instant())
        shop.table.write(update(ORDER, order, after))
        return after

    return retry_on_conflict(shop, attempt)


# expire unpaid orders -------------------------------------------------------------------------------------------------
def list_unpaid_orders(shop: Shop, placed_before: datetime) -> Iterator[str]:
    """Return the ids of orders placed before this time that are not fully paid, oldest first.

    The index is eventually consistent, so the list may contain an order that is already paid.
    """
    waiting = shop.table.query_all(ORDERS_BY_STATUS_OLDEST_FIRST, queue="PENDING", until=to_instant(placed_before))
    return (order.order_id for order in waiting)


def lapse_order(shop: Shop, order_id: str) -> bool:
    """Expire an order that is not fully paid: close it and refund what was paid. Safe to repeat.

    Returns True if it closed the order. Returns False if the order was paid or closed in between.
    """
    try:
        order = get_unarchived_order(shop, order_id, "lapse")
        _close_order(shop, order, apply_order_command(order, "lapse", shop.now_instant()), "LAPSED")
    except (WrongState, NotFound, WriteConflict):  # the index was outdated: skip this order
        return False
    return True
