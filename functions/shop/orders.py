"""Orders: read, list, and change what can still be changed."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from functions.dynamodb.keys import Instant
from functions.dynamodb.store import Page
from functions.dynamodb.writes import change
from functions.model.entities import (
    Address,
    ArchivedOrder,
    Line,
    Order,
    OrderStatus,
    OrderSummary,
    Placer,
    QueuedOrder,
)
from functions.model.errors import NotFound, WrongState
from functions.model.patterns import A12, A13, A14, A15, A16, A12b, A16b
from functions.model.states import moved
from functions.model.table import ORDER
from functions.shop.shop import Caller, Shop, decided_again


# reading --------------------------------------------------------------------------------------------------------------
def order_by_id(shop: Shop, caller: Caller, order_id: str) -> Order | ArchivedOrder:
    """A12. The stub, where the order is archived. Raises NotFound, for another's as for none."""
    return _seen(caller, shop.table.get(A12, order_id=order_id))


def _seen(caller: Caller, found: Order | ArchivedOrder | None) -> Order | ArchivedOrder:
    if found is None or not caller.sees(found.customer_id):
        raise NotFound("order")
    return found


def open_order(shop: Shop, order_id: str, command: str) -> Order:
    """An order that can still be written; raises NotFound, WrongState for one that is archived."""
    found = shop.table.get(A12, order_id=order_id)
    if found is None:
        raise NotFound("order")
    return opened(found, command)


def opened(order: Order | ArchivedOrder, command: str) -> Order:
    if isinstance(order, ArchivedOrder):
        raise WrongState("order", "ARCHIVED", command)
    return order


def whole_order(shop: Shop, caller: Caller, order_id: str, limit: int, after: str | None) -> Page[Any]:
    """A12b: the order and all it owns, from its invoices to its timeline, in key order. Raises NotFound."""
    placed_by(shop, caller, order_id)
    return shop.table.query(A12b, order_id=order_id, limit=limit, after=after)


def placed_by(shop: Shop, caller: Caller, order_id: str) -> Placer:
    """A15. Raises NotFound, for another's as for none."""
    placer = shop.table.get(A15, order_id=order_id)
    if placer is None or not caller.sees(placer.customer_id):
        raise NotFound("order")
    return placer


def lines_of_order(shop: Shop, caller: Caller, order_id: str) -> Mapping[str, Line]:
    """A13: by product; an archived order's lines lie in the archive. Raises NotFound, WrongState."""
    return opened(_seen(caller, shop.table.get(A13, order_id=order_id)), "show its lines").lines


def orders_of_customer(
    shop: Shop, caller: Caller, customer_id: str, limit: int, after: str | None
) -> Page[OrderSummary]:
    """A14, newest first; a new order appears when its record has gone through the stream. Raises NotFound."""
    if not caller.sees(customer_id):
        raise NotFound("customer")
    return shop.table.query(A14, customer_id=customer_id, limit=limit, after=after)


def orders_by_status(
    shop: Shop,
    caller: Caller,
    status: OrderStatus,
    *,
    oldest_first: bool,
    since: str,
    until: str,
    limit: int,
    after: str | None,
) -> Page[QueuedOrder]:
    """A16: open orders placed in [since, until). For staff. Raises NotAllowed."""
    caller.must_be("staff")
    pattern = A16b if oldest_first else A16
    return shop.table.query(pattern, queue=status, since=since, until=until, limit=limit, after=after)


def with_paid(order: Order, amount: int, at: Instant) -> Order:
    """An order with so much more paid for it: PAID once nothing is due any more. Raises WrongState."""
    paid = order.paid + amount
    if paid < order.total:
        return replace(moved(order, "pay_part", at), paid=paid)
    return replace(moved(order, "pay", at), paid=paid, paid_at=at)


# changing -------------------------------------------------------------------------------------------------------------
def readdress(shop: Shop, caller: Caller, order_id: str, address: Address) -> Order:
    """Have an order sent elsewhere, as long as the warehouse has not got it. For its customer and staff. Repeatable.

    Raises NotFound, WrongState.
    """

    def attempt() -> Order:
        before = opened(order_by_id(shop, caller, order_id), "readdress")
        if before.address == address:
            return before
        after = replace(moved(before, "readdress", shop.instant()), address=address)
        shop.table.write(change(ORDER, before, after))
        return after

    return decided_again(shop, attempt)
