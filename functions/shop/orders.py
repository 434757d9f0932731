"""Orders: place, read, list, cancel, and what the passing of time does to them (lapse, assumed delivery)."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from functions.dynamodb.keys import instant
from functions.dynamodb.patience import Busy
from functions.dynamodb.store import Page
from functions.dynamodb.writes import Changed, Write, change, put
from functions.model.entities import (
    Address,
    ArchivedOrder,
    Customer,
    Expiry,
    Line,
    Order,
    OrderLine,
    OrderStatus,
    OrderSummary,
    Placer,
    Product,
    QueuedOrder,
)
from functions.model.errors import (
    Invalid,
    KeyReused,
    MixedCurrencies,
    NotFound,
    NotRegistered,
    PriceChanged,
    UnknownProducts,
    WrongState,
)
from functions.model.money import MOST_MINOR_UNITS
from functions.model.patterns import A12, A13, A14, A15, A16, A17, A12b, A16b
from functions.model.states import moved
from functions.model.table import CUSTOMER, EXPIRY, ORDER, PRODUCT
from functions.shop import stock
from functions.shop.keyed import fingerprint
from functions.shop.shop import Caller, Shop, decided_again

MOST_PRODUCTS = 90
"""Products in one order: with the order itself and spare room for split stock it is one transaction of 100 items."""
REPLANS = 4


@dataclass(frozen=True)
class Wanted:
    """A line as asked for. `price`: what the client showed, where it says so; if it is another now that is refused."""

    quantity: int
    price: int | None = None

    def __post_init__(self) -> None:
        if self.quantity < 1:
            raise Invalid("quantity", "is less than one")


@dataclass(frozen=True)
class Placed:
    """`replayed`: the key had placed this order before; it is shown as it is now."""

    order: Order | ArchivedOrder
    replayed: bool


def order_id_of(shop: Shop, customer_id: str, key: str) -> str:
    """The order that this customer's key makes, and always makes: 128 bits, so that nobody guesses one."""
    return base64.b32encode(shop.digest("order", customer_id, key)[:16]).decode().rstrip("=").lower()


def place_order(
    shop: Shop, caller: Caller, key: str, lines: Mapping[str, Wanted], address: Address, body: Mapping[str, Any]
) -> Placed:
    """Place an order: one BatchGet, one transaction of the order and its stock. `body`: the request as it was sent.

    The order is its own idempotency record: its id is made of customer and key, the write holds only if there is none.
    A refused placement does not burn its key. Stock is reserved with the order, so an accepted order has its goods.

    Raises NotRegistered, UnknownProducts, MixedCurrencies, PriceChanged, OutOfStock, KeyReused, Invalid, Busy.
    """
    order_id = order_id_of(shop, caller.id, key)
    print_of_body = fingerprint(body)
    keys = [ORDER.key(order_id=order_id), CUSTOMER.key(customer_id=caller.id)]
    found = shop.table.batch_get([*keys, *(PRODUCT.key(product_id=id) for id in lines)], consistent=True)
    for existing in found:
        if isinstance(existing, Order | ArchivedOrder):
            return _replay(existing, print_of_body)
    if not any(isinstance(item, Customer) for item in found):
        raise NotRegistered
    products = {item.product_id: item for item in found if isinstance(item, Product)}
    order = _order(shop, caller, order_id, lines, products, address, print_of_body)
    plan = {id: stock.first_plan(order_id, product, lines[id].quantity) for id, product in products.items()}
    for _ in range(REPLANS):
        taken = stock.taking(order, plan)
        try:
            shop.table.write(put(ORDER, taken, refused=Exists), *stock.take(taken))
        except Exists as refusal:
            return _replay(refusal.order, print_of_body)
        except stock.Short:
            plan = stock.planned_again(shop, order, products)
            continue
        return Placed(taken, replayed=False)
    raise Busy


def _order(
    shop: Shop,
    caller: Caller,
    order_id: str,
    lines: Mapping[str, Wanted],
    products: Mapping[str, Product],
    address: Address,
    print_of_body: str,
) -> Order:
    """The order as it will be written, at the products' prices now."""
    if unknown := tuple(id for id in lines if id not in products):
        raise UnknownProducts(unknown)
    currencies = tuple(sorted({product.currency for product in products.values()}))
    if len(currencies) > 1:
        raise MixedCurrencies(currencies)
    changed = {id: products[id].price for id, line in lines.items() if line.price not in (None, products[id].price)}
    if changed:
        raise PriceChanged(changed)
    total = sum(products[id].price * line.quantity for id, line in lines.items())
    if total > MOST_MINOR_UNITS:
        raise Invalid("lines", "the order costs more than one order may")
    now = shop.instant()
    return Order(
        order_id=order_id,
        customer_id=caller.id,
        status="PENDING",
        placed_at=now,
        updated_at=now,
        currency=products[next(iter(lines))].currency,
        total=total,
        lines={
            id: Line(name=products[id].name, price=products[id].price, quantity=line.quantity)
            for id, line in lines.items()
        },
        address=address,
        fingerprint=print_of_body,
    )


def _replay(existing: Order | ArchivedOrder, print_of_body: str) -> Placed:
    if existing.fingerprint != print_of_body:
        raise KeyReused
    return Placed(existing, replayed=True)


class Exists(Exception):
    """The order is there already."""

    def __init__(self, order: Order | ArchivedOrder | None) -> None:
        super().__init__("placed before")
        assert order is not None, "the item that refused is returned with the refusal"
        self.order = order


# ending ---------------------------------------------------------------------------------------------------------------
def expiry(shop: Shop, order: Order, days: int) -> Write[Expiry]:
    """The marker of a closed order: when it ends, the order is archived."""
    ends = shop.now() + timedelta(days=days)
    marker = Expiry(
        order_id=order.order_id,
        customer_id=order.customer_id,
        created_at=order.updated_at,
        ttl=int(ends.timestamp()),
    )
    return put(EXPIRY, marker)


def cancel_order(shop: Shop, caller: Caller, order_id: str) -> Order:
    """Cancel an order that is not paid yet; its goods are free again in the same transaction. Repeatable.

    Raises NotFound, WrongState.
    """

    def attempt() -> Order:
        order = _open(order_by_id(shop, caller, order_id), "cancel")
        return order if order.status == "CANCELLED" else _end(shop, moved(order, "cancel", shop.instant()), order)

    return decided_again(shop, attempt)


def _end(shop: Shop, after: Order, before: Order) -> Order:
    """Close an order that was never paid for."""
    shop.table.write(change(ORDER, before, after), *stock.release(before), expiry(shop, after, shop.retention_days))
    return after


def unpaid(shop: Shop, placed_before: datetime) -> Iterator[str]:
    """The orders that were placed before this moment and are still not paid, as the queue shows them."""
    waiting = shop.table.every(A16b, queue="PENDING", until=instant(placed_before))
    return (order.order_id for order in waiting)


def lapse(shop: Shop, order_id: str) -> bool:
    """Close an unpaid order; its goods are free again. False where it was paid or ended meanwhile. Repeatable."""
    try:
        order = open_order(shop, order_id, "lapse")
        _end(shop, moved(order, "lapse", shop.instant()), order)
    except (WrongState, NotFound, Changed):  # the index shows what was
        return False
    return True


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
    return _open(found, command)


def _open(order: Order | ArchivedOrder, command: str) -> Order:
    if isinstance(order, ArchivedOrder):
        raise WrongState("order", "ARCHIVED", command)
    return order


def whole_order(shop: Shop, caller: Caller, order_id: str, limit: int, after: str | None) -> Page[Any]:
    """A12b: the order, its sales lines, payments, invoice, shipments and timeline, in key order. Raises NotFound."""
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
    return _open(_seen(caller, shop.table.get(A13, order_id=order_id)), "show its lines").lines


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


def sales_of_product(
    shop: Shop, caller: Caller, product_id: str, since: str, until: str, limit: int, after: str | None
) -> Page[OrderLine]:
    """A17: sales of orders placed in [since, until), newest first. For staff. Raises NotAllowed."""
    caller.must_be("staff")
    return shop.table.query(A17, product_id=product_id, since=since, until=until, limit=limit, after=after)
