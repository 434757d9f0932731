"""An order's money: paid in parts, given back for what comes back, and that both agree."""

from typing import Any

from functions.model.entities import REFUND_REASONS_OUTSIDE_ORDER, Expiry, Order, Refund
from functions.model.patterns import ORDER_ITEM_COLLECTION, PAYMENTS_OF_ORDER, REFUNDS_OF_ORDER
from functions.shop import accounts, returns, shipments, tenders
from functions.shop.keyed import IdempotentResult
from functions.shop.shop import Shop
from tests.shop.acts import ANN, WAREHOUSE, advance_to_status, get_order
from tests.shop.credit import new_gift_card


def pay_in_parts(shop: Shop, order: Order, *amounts: int) -> Order:
    """The order with so much paid for it, each part from a gift card of its own."""
    for amount in amounts:
        source = accounts.gift_card_source(shop, new_gift_card(shop, amount))
        tenders.pay_with_credit(shop, ANN, f"pay {shop.new_id()}", order.order_id, source, amount)
    return get_order(shop, order.order_id)


def deliver_order(shop: Shop, order: Order) -> Order:
    """The order once it is delivered, whether it was paid before or is now."""
    if get_order(shop, order.order_id).status == "PENDING":
        return advance_to_status(shop, order, "DELIVERED")
    shipments.request_shipment(shop, order.order_id)
    shipments.dispatch_shipment(shop, WAREHOUSE, order.order_id, f"{order.order_id}-1", "dhl", "42")
    shipments.deliver_shipment(shop, WAREHOUSE, order.order_id, f"{order.order_id}-1")
    return get_order(shop, order.order_id)


def return_pieces(shop: Shop, order: Order, key: str = "back", /, **more: Any) -> IdempotentResult:
    """So many pieces came back to the warehouse and can be sold again; what is no quantity says it otherwise."""
    restock = more.pop("restock", True)
    how = {name: more.pop(name) for name in ("refund_shipping", "to") if name in more}
    lines = {id: returns.ReturnedGoods(quantity, restock) for id, quantity in more.items()}
    return returns.return_goods(shop, WAREHOUSE, key, order.order_id, lines, **how)


def refunds(shop: Shop, order_id: str) -> list[Refund]:
    return list(shop.table.query_all(REFUNDS_OF_ORDER, order_id=order_id))


def refunded_total(shop: Shop, order_id: str) -> int:
    """What is given back for an order; its payments, its refunds and what it says itself agree about that."""
    order = get_order(shop, order_id)
    counted = [refund for refund in refunds(shop, order_id) if refund.why not in REFUND_REASONS_OUTSIDE_ORDER]
    total = sum(refund.amount for refund in counted)
    assert total == order.refunded <= order.paid <= order.total
    for payment in shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order_id):
        assert sum(it.amount for it in counted if it.payment_id == payment.payment_id) <= payment.amount
    return total


def expiry_markers(shop: Shop, order_id: str) -> list[Expiry]:
    """When the order ends, if it does."""
    return [item for item in shop.table.query_all(ORDER_ITEM_COLLECTION, order_id=order_id) if isinstance(item, Expiry)]
