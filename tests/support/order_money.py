"""Helpers for an order's money: partial payments, returns with refunds, and a check that the amounts agree."""

from typing import Any

from functions.model.entities import REFUND_REASONS_OUTSIDE_ORDER, ExpiryMarker, Order, Payment, Refund
from functions.model.patterns import (
    ORDER_ITEM_COLLECTION,
    PAYMENT_BY_ID,
    PAYMENTS_OF_ORDER,
    REFUND_BY_ID,
    REFUNDS_OF_ORDER,
)
from functions.shop import accounts, credit_payments, returns, shipments
from functions.shop.fulfilment import fulfil_order
from functions.shop.idempotency import IdempotentResult
from functions.shop.placing import MAX_PRODUCTS, RequestedLine, place_order
from functions.shop.refunds import MAX_PAYMENTS
from functions.shop.shop import ShopContext
from proof.support.actors import (
    ANN,
    HOME_ADDRESS,
    WAREHOUSE,
    advance_to_status,
    create_stocked_product,
    get_order,
)
from tests.support.credit_actions import new_gift_card


def pay_in_parts(shop: ShopContext, order: Order, *amounts: int) -> Order:
    """Make a payment for each of these amounts, each with a new gift card. Return the order after the payments."""
    for amount in amounts:
        source = accounts.gift_card_source(shop, new_gift_card(shop, amount))
        credit_payments.pay_with_credit(shop, ANN, f"pay {shop.new_id()}", order.order_id, source, amount)
    return get_order(shop, order.order_id)


def place_largest_order(shop: ShopContext, each: int = 1, code: str | None = None) -> Order:
    """Place an order with the most products and the most payments that an order can have. Return the paid order.

    `each`: the pieces in stock and in the order of each product p0, p1 and so on.
    """
    ids = [f"p{number}" for number in range(MAX_PRODUCTS)]
    for id in ids:
        create_stocked_product(shop, id, each)
    wanted = {id: RequestedLine(each) for id in ids}
    placed = place_order(shop, ANN, "largest", wanted, HOME_ADDRESS, {"lines": ids}, code).order
    assert isinstance(placed, Order)
    part = placed.total // MAX_PAYMENTS
    rest = placed.total - part * (MAX_PAYMENTS - 1)
    return pay_in_parts(shop, placed, *[part] * (MAX_PAYMENTS - 1), rest)


def deliver_order(shop: ShopContext, order: Order) -> Order:
    """Ship and deliver an order. If it is PENDING, pay it first. Return the order."""
    if get_order(shop, order.order_id).status == "PENDING":
        return advance_to_status(shop, order, "DELIVERED")
    fulfil_order(shop, order.order_id)
    shipments.dispatch_shipment(shop, WAREHOUSE, order.order_id, f"{order.order_id}-1", "dhl", "42")
    shipments.deliver_shipment(shop, WAREHOUSE, order.order_id, f"{order.order_id}-1")
    return get_order(shop, order.order_id)


def return_pieces(shop: ShopContext, order: Order, key: str = "back", /, **more: Any) -> IdempotentResult:
    """Return goods of an order, for example `return_pieces(shop, order, mug=2)`.

    `restock`, `refund_shipping` and `to` are options of the return. All other keywords are quantities by product id.
    """
    restock = more.pop("restock", True)
    how = {name: more.pop(name) for name in ("refund_shipping", "to") if name in more}
    lines = {id: returns.ReturnedGoods(quantity, restock) for id, quantity in more.items()}
    return returns.return_goods(shop, WAREHOUSE, key, order.order_id, lines, **how)


def payments(shop: ShopContext, order_id: str) -> list[Payment]:
    return list(shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order_id))


def get_payment(shop: ShopContext, order: Order, payment_id: str = "pi_1") -> Payment:
    found = shop.table.get(PAYMENT_BY_ID, order_id=order.order_id, payment_id=payment_id)
    assert found is not None
    return found


def refunds(shop: ShopContext, order_id: str) -> list[Refund]:
    return list(shop.table.query_all(REFUNDS_OF_ORDER, order_id=order_id))


def get_refund(shop: ShopContext, order: Order, refund_id: str = "pi_1-1") -> Refund:
    found = shop.table.get(REFUND_BY_ID, order_id=order.order_id, refund_id=refund_id)
    assert found is not None
    return found


def refunded_total(shop: ShopContext, order_id: str) -> int:
    """Return an order's refunded amount. Assert that it is the sum of the order's refunds.

    Refunds of money that was never included in the order's paid amount do not count. Also assert that the refunds of
    each payment do not exceed the payment.
    """
    order = get_order(shop, order_id)
    counted = [refund for refund in refunds(shop, order_id) if refund.why not in REFUND_REASONS_OUTSIDE_ORDER]
    total = sum(refund.amount for refund in counted)
    assert total == order.refunded <= order.paid <= order.total
    for payment in payments(shop, order_id):
        assert sum(it.amount for it in counted if it.payment_id == payment.payment_id) <= payment.amount
    return total


def expiry_markers(shop: ShopContext, order_id: str) -> list[ExpiryMarker]:
    """Return the order's ExpiryMarker item as a list, which is empty if there is none.

    When DynamoDB deletes this item by TTL, the order is archived.
    """
    return [
        item
        for item in shop.table.query_all(ORDER_ITEM_COLLECTION, order_id=order_id)
        if isinstance(item, ExpiryMarker)
    ]
