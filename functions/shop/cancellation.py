"""Cancel orders and expire unpaid orders: put the goods back into stock, and refund the money.

An order is cancelled at once before the warehouse receives it. Later, the warehouse is asked. An order that is not paid
in time expires (LAPSED). Of a partly sent order, only the rest can be cancelled ("cut short").

Each command writes one transaction, of fewer than DynamoDB's 100 items: at most 90 stock items, the counter of the
discount code, five refunds, the shipment, the order and its expiry marker (whose TTL starts the archiving).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from functions.dynamodb.writes import Write, WriteConflict, put_if_newer, update
from functions.model.entities import ExpiryMarker, Order, QueuedOrder, RefundReason, Shipment
from functions.model.errors import NotFound, WrongState
from functions.model.patterns import SHIPMENTS_OF_ORDER
from functions.model.pricing import refund_due
from functions.model.states import OrderCommand, apply_order_command, apply_shipment_command
from functions.model.table import EXPIRY_MARKER, SHIPMENT
from functions.shop import discounts, stock
from functions.shop.order_money import count_credit
from functions.shop.orders import (
    get_order,
    get_unarchived_order,
    list_orders_placed_before,
    require_unarchived,
    save_order,
)
from functions.shop.refunds import plan_refunds
from functions.shop.shop import Caller, ShopContext, retries_on_conflict


def put_expiry_marker(shop: ShopContext, order: Order, days: int, since: datetime | None = None) -> Write[ExpiryMarker]:
    """Return the write of an order's expiry marker: the item whose TTL starts the archiving of the order.

    `days`: how long after `since` (default: now) the marker expires. The write fails with WriteConflict if the table
    has a marker of the same or a later version of the order, also one that has expired, but is not deleted yet.
    """
    ends = (since or shop.now()) + timedelta(days=days)
    marker = ExpiryMarker(
        order_id=order.order_id,
        customer_id=order.customer_id,
        created_at=order.updated_at,
        ttl=int(ends.timestamp()),
        version=order.version,
    )
    return put_if_newer(EXPIRY_MARKER, marker)


def _close_order(
    shop: ShopContext, before: Order, after: Order, why: RefundReason, extra_writes: Sequence[Write[Any]] = ()
) -> Order:
    """Close an order whose goods were not sent: put them back into stock, and refund the payments. Return the order.

    A limited discount code can be used once more. `why`: the reason of the refunds. `extra_writes`: for the same
    transaction. A disputed payment cannot be refunded, so the order records its amount as owed.
    """
    plan = plan_refunds(shop, before, before.kept + before.owed, why)
    ended = replace(after, refunded=before.refunded + plan.amount, owed=plan.owed)
    if ended.parcels:  # the order has an invoice
        ended = count_credit(before, ended, ended.total)
    shop.table.write(
        *save_order(before, ended),
        *stock.release(ended),
        *discounts.release(before),
        *plan.writes,
        *extra_writes,
        put_expiry_marker(shop, ended, shop.closed_order_days),
    )
    return ended


# cancel ---------------------------------------------------------------------------------------------------------------
STOP_COMMAND_BY_STATUS: Mapping[str, OrderCommand] = {
    "FULFILLING": "request_cancel",
    "PARTIALLY_SHIPPED": "request_cut",
}
"""The command that asks the warehouse to cancel the unsent goods, by the status of the order before it.

If the warehouse refuses, the order gets this status again.
"""


@retries_on_conflict
def cancel_order(shop: ShopContext, caller: Caller, order_id: str, reason: str | None = None) -> Order:
    """Cancel an order, or ask the warehouse to cancel it if the warehouse has already received the order.

    Only the order's customer and staff may call this command. `reason`: the order keeps it. Returns the order with its
    new status:
    - CANCELLED: the order was cancelled at once.
    - CANCEL_REQUESTED: the warehouse is asked to cancel the whole order.
    - CUT_REQUESTED: some goods were already sent. The warehouse is asked to cancel only the unsent goods.

    Safe to repeat. If unsent goods of the order were cancelled earlier, the order is returned unchanged. If the
    warehouse refused an earlier request, another call sends a new request. Raises NotFound, and WrongState if the order
    cannot be cancelled any more.
    """
    order = require_unarchived(get_order(shop, caller, order_id), "cancel")
    if order.status in ("CANCELLED", "CANCEL_REQUESTED", "CUT_REQUESTED") or order.dropped:
        return order
    request = STOP_COMMAND_BY_STATUS.get(order.status)
    after = apply_order_command(order, request or "cancel", shop.now_instant())
    after = replace(after, cancel_reason=reason)
    if request is None:
        return _close_order(shop, order, after, "CANCELLED")
    shop.table.write(*save_order(order, after))
    return after


@retries_on_conflict
def agree_cancel(shop: ShopContext, caller: Caller, order_id: str) -> Order:
    """Record that the warehouse agreed to cancel an order or its unsent goods. Only the warehouse and staff may call
    it.

    Returns the order: CANCELLED if no goods were sent, otherwise SHIPPED, or DELIVERED if all sent goods have arrived.
    Safe to repeat. Raises NotAllowed, NotFound, and WrongState, for example if the warehouse has sent the goods in the
    meantime.
    """
    caller.require_group("warehouse", "staff")
    order = get_unarchived_order(shop, order_id, "agree_cancel")
    if order.status == "CANCELLED" or order.dropped:
        return order
    if order.status == "CUT_REQUESTED":
        return _drop_unsent_goods(shop, order)
    after = apply_order_command(order, "agree_cancel", shop.now_instant())
    return _close_order(shop, order, after, "CANCELLED", _cancel_unsent_shipments(shop, order))


def _cancel_unsent_shipments(shop: ShopContext, order: Order) -> list[Write[Shipment]]:
    """Return the writes that cancel the unsent shipments of an order."""
    shipments = [
        it for it in shop.table.query_all(SHIPMENTS_OF_ORDER, order_id=order.order_id) if it.status == "REQUESTED"
    ]
    return [update(SHIPMENT, it, apply_shipment_command(it, "cancel", shop.now_instant())) for it in shipments]


def _drop_unsent_goods(shop: ShopContext, before: Order) -> Order:
    """Cancel the unsent goods of an order: put them back into stock and refund their price. Return the order.

    The refund is their price less their share of the discount, without shipping, and owed if the payment is disputed.
    If all sent goods have arrived, the order becomes DELIVERED, otherwise SHIPPED.
    """
    unsent = {id: line.quantity - line.shipped for id, line in before.lines.items()}
    dropped = replace(before, lines={id: replace(line, dropped=unsent[id]) for id, line in before.lines.items()})
    value = refund_due(before, dropped)
    max_refund = min(value, before.kept)
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
    after = count_credit(before, after, value)
    shop.table.write(
        *save_order(before, after),
        *stock.restock(after, unsent),
        *plan.writes,
        *_cancel_unsent_shipments(shop, before),
        *([put_expiry_marker(shop, after, shop.return_window_days + shop.closed_order_days)] if arrived else []),
    )
    return after


@retries_on_conflict
def refuse_cancel(shop: ShopContext, caller: Caller, order_id: str) -> Order:
    """Record that the warehouse refused to cancel an order or its unsent goods. The order gets its former status back.

    Only the warehouse and staff may call this command. Safe to repeat. Raises NotAllowed, NotFound and WrongState.
    """
    caller.require_group("warehouse", "staff")
    order = get_unarchived_order(shop, order_id, "refuse_cancel")
    if order.status in STOP_COMMAND_BY_STATUS:  # the warehouse has refused already, or was not asked to cancel
        return order
    command: OrderCommand = "refuse_cut" if order.status == "CUT_REQUESTED" else "refuse_cancel"
    after = apply_order_command(order, command, shop.now_instant())
    shop.table.write(*save_order(order, after))
    return after


# expire unpaid orders -------------------------------------------------------------------------------------------------
def list_unpaid_orders(shop: ShopContext, placed_before: datetime, shard: int | None = None) -> Iterator[QueuedOrder]:
    """Yield the orders placed before this time that are not fully paid, oldest first. The index is eventually
    consistent.

    `shard`: reads only this shard (partition) of the index.
    """
    return list_orders_placed_before(shop, "PENDING", placed_before, shard)


def lapse_order(shop: ShopContext, order_id: str) -> bool:
    """Close an order that was not fully paid in time, and refund the amount that was paid. Safe to repeat.

    Returns whether this call closed the order. Otherwise it was paid or closed, or another process changed it just now.
    """
    try:
        order = get_unarchived_order(shop, order_id, "lapse")
        _close_order(shop, order, apply_order_command(order, "lapse", shop.now_instant()), "LAPSED")
    except (WrongState, NotFound, WriteConflict):  # the order changed after it was listed as unpaid: skip the order
        return False
    return True
