"""Record returned goods and decide their refund, in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from functions.dynamodb.keys import Instant, to_instant
from functions.dynamodb.table import TRANSACTION_LIMIT
from functions.dynamodb.writes import Write, put_if_absent
from functions.model.entities import Line, Order, Return
from functions.model.errors import AlreadyExists, InvalidInput, ReturnWindowOver, TooMuch
from functions.model.patterns import RETURNS_OF_ORDER
from functions.model.pricing import refund_due, shipping_value
from functions.model.states import apply_order_command
from functions.model.table import RETURN
from functions.shop import discounts, stock
from functions.shop.cancellation import put_expiry_marker
from functions.shop.idempotency import IdempotentResult, run_idempotently
from functions.shop.lists import ListPage, ListRequest
from functions.shop.order_money import count_credit
from functions.shop.orders import get_order, get_unarchived_order, list_items_of_order, save_order
from functions.shop.refunds import (
    UNEXPLAINED,
    Explanation,
    RefundDestination,
    get_store_credit_account_id,
    plan_refunds,
)
from functions.shop.shop import Caller, ShopContext


@dataclass(frozen=True)
class ReturnedGoods:
    """The returned quantity of a product. `restock`: True if the goods can be sold again."""

    quantity: int
    restock: bool

    def __post_init__(self) -> None:
        if self.quantity < 1:
            raise InvalidInput("quantity", "must be at least 1")


def return_goods(
    shop: ShopContext,
    caller: Caller,
    key: str,
    order_id: str,
    lines: Mapping[str, ReturnedGoods],
    *,
    refund_shipping: bool = False,
    to: RefundDestination = "original",
    explanation: Explanation = UNEXPLAINED,
) -> IdempotentResult:
    """Record returned goods of a delivered order and refund them. Only the warehouse and staff may call this command.

    `key`: the idempotency key. `lines`: the returned goods by product id. `refund_shipping`: whether to refund the
    shipping costs too, if they were not refunded before. `explanation`: the customer's mail about the refund shows it.

    One transaction writes the order, the return, its refunds, the stock and the expiry marker. If all goods of the
    order are now returned, its limited discount code can be redeemed once more. The refund never exceeds the money that
    the shop still keeps for the order. Money of a disputed payment is recorded as owed, and refunded if the shop wins.

    The result is the return as JSON, with the additional field "refund_ids". `amount` is refunded now, `owed` if the
    shop wins the dispute. `shipping` says how much of both is for shipping costs.

    If more pieces of a product are returned than possible, raises TooMuch with the product id and the quantity that can
    still be returned. Also raises NotAllowed, NotFound, WrongState, ReturnWindowOver, InvalidInput, AlreadyExists and
    IdempotencyKeyReused.
    """
    caller.require_group("warehouse", "staff")
    if not lines:
        raise InvalidInput("lines", "must not be empty")
    request = {
        "order_id": order_id,
        "lines": {id: [back.quantity, back.restock] for id, back in lines.items()},
        "refund_shipping": refund_shipping,
        "to": to,
        **explanation.given,
    }

    def decide(shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        before = get_unarchived_order(shop, order_id, "return")
        # Reject an order in the wrong state before any other check. Only the error (WrongState) matters here, so the
        # result is not used: a second call below changes the order.
        apply_order_command(before, "return", shop.now_instant())
        _check_return_window(shop, before)
        after = replace(before, lines=_count_returned(before.lines, lines))
        goods = refund_due(before, after)
        shipping = shipping_value(before) if refund_shipping and not before.shipping_refunded else 0
        account_id = get_store_credit_account_id(shop, before.customer_id, before.currency) if to == "credit" else None
        max_refund = min(goods + shipping, before.kept)
        plan = plan_refunds(shop, before, max_refund, "RETURNED", account_id, explanation)
        shipping_refund = max(0, max_refund - goods)
        all_back = all(line.returned == line.quantity_to_ship for line in after.lines.values())
        after = replace(
            apply_order_command(after, "return" if all_back else "return_part", shop.now_instant()),
            refunded=before.refunded + plan.amount,
            owed=before.owed + plan.owed,
            shipping_refunded=before.shipping_refunded or shipping > 0,  # credited once, even if no money is left
        )
        after = count_credit(before, after, goods + shipping)
        item = Return(
            order_id=order_id,
            # The id depends on the order: totals count each id once, so returns of two orders need different ids.
            return_id=shop.derive_id("return", order_id, caller.id, key),
            customer_id=before.customer_id,
            quantities={id: back.quantity for id, back in lines.items()},
            restocked={id: back.quantity for id, back in lines.items() if back.restock},
            amount=plan.amount,
            owed=plan.owed,
            shipping=shipping_refund,
            currency=before.currency,
            created_at=after.updated_at,
        )
        others: list[Write[Any]] = [
            put_if_absent(RETURN, item, condition_error=lambda found: AlreadyExists("return")),
            *plan.writes,
            *stock.restock(after, item.restocked),
            *(discounts.release(before) if all_back else ()),
            put_expiry_marker(shop, after, shop.return_window_days + shop.closed_order_days),
        ]
        # The transaction also has the order itself, and the Command of the idempotency key.
        writes = [*save_order(before, after, may_split=len(others) + 3 <= TRANSACTION_LIMIT), *others]
        return writes, {**asdict(item), "refund_ids": [refund.refund_id for refund in plan.refunds]}

    return run_idempotently(shop, caller.id, key, "return_goods", request, decide)


def _check_return_window(shop: ShopContext, order: Order) -> None:
    """Raise ReturnWindowOver if the order's return window has ended."""
    assert order.delivered_at is not None, "a returnable order has delivered_at"
    ends = returnable_until(shop, order.delivered_at)
    if shop.now_instant() >= ends:
        raise ReturnWindowOver(ends)


def returnable_until(shop: ShopContext, delivered_at: Instant) -> Instant:
    """Return the time at which the return window of an order ends, given the order's delivery time."""
    return to_instant(datetime.fromisoformat(delivered_at) + timedelta(days=shop.return_window_days))


def _count_returned(lines: Mapping[str, Line], returned: Mapping[str, ReturnedGoods]) -> dict[str, Line]:
    """Return the lines of an order with the returned quantities added. Raises TooMuch beyond the delivered ones."""
    for id, came in returned.items():
        line = lines.get(id)
        if came.quantity > (most := line.delivered - line.returned if line else 0):
            raise TooMuch(id, most)
    return {
        id: replace(line, returned=line.returned + returned[id].quantity) if id in returned else line
        for id, line in lines.items()
    }


def list_returns_of_order(shop: ShopContext, request: ListRequest, order_id: str) -> ListPage[Return]:
    """Return the returns of an order, sorted by return id. Raises NotFound and ArchiveUnavailable."""
    return list_items_of_order(shop, request, RETURNS_OF_ORDER, order_id, get_order(shop, request.caller, order_id))
