"""Returns: goods that came back, and the money that goes back for them, decided in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from functions.dynamodb.keys import Instant, instant
from functions.dynamodb.store import Page
from functions.dynamodb.writes import Write, change, put
from functions.model.amounts import freed
from functions.model.entities import Line, Order, Return
from functions.model.errors import AlreadyExists, Invalid, ReturnWindowOver, TooMuch
from functions.model.patterns import A12e
from functions.model.states import moved
from functions.model.table import ORDER, RETURN
from functions.shop import discounts, stock
from functions.shop.ending import expiry
from functions.shop.keyed import Answer, once_per_key
from functions.shop.orders import open_order, opened, order_by_id
from functions.shop.refunds import To, given_back, store_credit_of
from functions.shop.shop import Caller, Shop


@dataclass(frozen=True)
class Back:
    """So many of a product came back. `restock`: they can be sold again."""

    quantity: int
    restock: bool

    def __post_init__(self) -> None:
        if self.quantity < 1:
            raise Invalid("quantity", "is less than one")


def return_goods(
    shop: Shop,
    caller: Caller,
    key: str,
    order_id: str,
    lines: Mapping[str, Back],
    *,
    refund_shipping: bool = False,
    to: To = "original",
) -> Answer:
    """Goods of a delivered order came back; what was paid for them is given back, and shipping once, if that is asked.

    Keyed. For the warehouse and staff. One transaction of the order, the return, its refunds, the stock and the moved
    marker of the order's end; with the last piece the order's redemption of a discount code is free again. Never more
    is given back than is kept: where some was given back for other reasons, or the customer's bank has taken it, it is
    less. What the bank disputes is owed, and given back once that is won, then always to where it came from.

    Result: the return as JSON and "refund_ids"; its `amount` is given back, `owed` not yet, `shipping` is a part of
    both. Raises NotAllowed, NotFound, WrongState, ReturnWindowOver, Invalid, TooMuch(product, how many can still come
    back), KeyReused; AlreadyExists where the key made a return so long ago that it is forgotten.
    """
    caller.must_be("warehouse", "staff")
    if not lines:
        raise Invalid("lines", "is empty")
    asked = {
        "order_id": order_id,
        "lines": {id: [back.quantity, back.restock] for id, back in lines.items()},
        "refund_shipping": refund_shipping,
        "to": to,
    }

    def decide() -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        before = open_order(shop, order_id, "return")
        moved(before, "return", shop.instant())  # refused where nothing can come back, before anything else is said
        _must_be_in_time(shop, before)
        after = replace(before, lines=_returned(before.lines, lines))
        goods = freed(before, after)
        shipping = before.shipping if refund_shipping and not before.shipping_refunded else 0
        account_id = store_credit_of(shop, before.customer_id, before.currency) if to == "credit" else None
        most = min(goods + shipping, before.paid - before.refunded - before.owed)
        back = given_back(shop, before, most, "RETURNED", account_id)
        of_shipping = max(0, most - goods)
        all_back = all(line.returned == line.to_send for line in after.lines.values())
        after = replace(
            moved(after, "return" if all_back else "return_part", shop.instant()),
            refunded=before.refunded + back.amount,
            owed=before.owed + back.owed,
            shipping_refunded=before.shipping_refunded or of_shipping > 0,
        )
        item = Return(
            order_id=order_id,
            return_id=shop.id_of("return", caller.id, key),
            customer_id=before.customer_id,
            quantities={id: back.quantity for id, back in lines.items()},
            restocked={id: back.quantity for id, back in lines.items() if back.restock},
            amount=back.amount,
            owed=back.owed,
            shipping=of_shipping,
            currency=before.currency,
            created_at=after.updated_at,
        )
        writes: list[Write[Any]] = [
            change(ORDER, before, after),
            put(RETURN, item, refused=lambda found: AlreadyExists("return")),
            *back.writes,
            *stock.restocked(before, item.restocked),
            *(discounts.released(before) if all_back else ()),
            expiry(shop, after, shop.return_window_days + shop.retention_days),
        ]
        return writes, {**asdict(item), "refund_ids": [refund.refund_id for refund in back.refunds]}

    return once_per_key(shop, caller.id, key, "return_goods", asked, decide)


def _must_be_in_time(shop: Shop, order: Order) -> None:
    """Raises ReturnWindowOver from the moment on that the window ends."""
    assert order.delivered_at is not None, "an order that can be returned says when it was delivered"
    ends = returnable_until(shop, order.delivered_at)
    if shop.instant() >= ends:
        raise ReturnWindowOver(ends)


def returnable_until(shop: Shop, delivered_at: Instant) -> Instant:
    """The moment from which on an order that was delivered then cannot be returned any more."""
    return instant(datetime.fromisoformat(delivered_at) + timedelta(days=shop.return_window_days))


def _returned(lines: Mapping[str, Line], back: Mapping[str, Back]) -> dict[str, Line]:
    """The lines with what came back counted; raises TooMuch where more of a product did than is with the customer."""
    for id, came in back.items():
        line = lines.get(id)
        if came.quantity > (most := line.delivered - line.returned if line else 0):
            raise TooMuch(id, most)
    return {
        id: replace(line, returned=line.returned + back[id].quantity) if id in back else line
        for id, line in lines.items()
    }


def returns_of_order(shop: Shop, caller: Caller, order_id: str, limit: int, after: str | None) -> Page[Return]:
    """What came back of an order, by return id. For its customer and staff.

    Raises NotFound; WrongState where the order is archived, with its returns.
    """
    opened(order_by_id(shop, caller, order_id), "show its returns")
    return shop.table.query(A12e, order_id=order_id, limit=limit, after=after)
