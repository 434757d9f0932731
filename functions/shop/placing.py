"""Placing an order: prices, discount, shipping and goods, all in one write."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from functions.dynamodb.patience import Busy
from functions.dynamodb.writes import put
from functions.model import amounts
from functions.model.entities import Address, ArchivedOrder, Customer, Discount, Line, Order, Product
from functions.model.errors import (
    Invalid,
    KeyReused,
    MixedCurrencies,
    NotRegistered,
    PriceChanged,
    UnknownProducts,
)
from functions.model.money import MOST_MINOR_UNITS
from functions.model.table import CUSTOMER, DISCOUNT, ORDER, PRODUCT
from functions.shop import discounts, stock
from functions.shop.keyed import fingerprint
from functions.shop.shop import Caller, Shop

MOST_PRODUCTS = 90
"""Products in one order: with the order itself, its discount and whatever ends it, one transaction of 100 items."""
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
    """The order that this customer's key makes, and always makes."""
    return shop.id_of("order", customer_id, key)


def place_order(
    shop: Shop,
    caller: Caller,
    key: str,
    lines: Mapping[str, Wanted],
    address: Address,
    body: Mapping[str, Any],
    discount_code: str | None = None,
) -> Placed:
    """Place an order: one BatchGet, one transaction of the order, its stock and its redemption of a limited code.

    `body`: the request as it was sent. The order is its own idempotency record: its id is made of customer and key, the
    write holds only if there is none. A refused placement does not burn its key. Stock is reserved with the order: an
    accepted order has its goods, but for what it tells as backordered. One that costs nothing is PAID as it is placed.

    Raises NotRegistered, UnknownProducts, MixedCurrencies, PriceChanged, DiscountNotValid, OutOfStock, KeyReused,
    Invalid, Busy.
    """
    order_id = order_id_of(shop, caller.id, key)
    print_of_body = fingerprint(body)
    keys = [ORDER.key(order_id=order_id), CUSTOMER.key(customer_id=caller.id)]
    keys += [PRODUCT.key(product_id=id) for id in lines]
    if discount_code is not None:
        keys.append(DISCOUNT.key(code=discounts.code_of(discount_code)))
    found = shop.table.batch_get(keys, consistent=True)
    for existing in found:
        if isinstance(existing, Order | ArchivedOrder):
            return _replay(existing, print_of_body)
    customer = next((item for item in found if isinstance(item, Customer)), None)
    if customer is None:
        raise NotRegistered
    products = {item.product_id: item for item in found if isinstance(item, Product)}
    discount = next((item for item in found if isinstance(item, Discount)), None)
    order = _order(shop, customer, order_id, lines, products, address, print_of_body)
    if discount_code is not None:
        order = discounts.applied(order, discounts.code_of(discount_code), discount)
    if not order.total:
        order = replace(order, status="PAID", paid_at=order.placed_at)
    try:
        return Placed(_written(shop, stock.planned(order, products), products, discount), replayed=False)
    except Exists as refusal:
        return _replay(refusal.order, print_of_body)


def _written(shop: Shop, order: Order, products: Mapping[str, Product], discount: Discount | None) -> Order:
    """The order as it was written, its goods and its redemption taken from where there are any."""
    for _ in range(REPLANS):
        try:
            shop.table.write(put(ORDER, order, refused=Exists), *stock.take(order), *discounts.redeemed(order))
        except stock.Short:
            order = stock.planned_again(shop, order, products)
        except discounts.UsedUp:
            assert discount is not None, "nothing else is used up"
            order = discounts.counted_again(shop, order, discount)
        else:
            return order
    raise Busy


def _order(
    shop: Shop,
    customer: Customer,
    order_id: str,
    lines: Mapping[str, Wanted],
    products: Mapping[str, Product],
    address: Address,
    print_of_body: str,
) -> Order:
    """The order at the products' prices now, with shipping and without a discount."""
    if unknown := tuple(id for id in lines if id not in products):
        raise UnknownProducts(unknown)
    currencies = tuple(sorted({product.currency for product in products.values()}))
    if len(currencies) > 1:
        raise MixedCurrencies(currencies)
    changed = {id: products[id].price for id, line in lines.items() if line.price not in (None, products[id].price)}
    if changed:
        raise PriceChanged(changed)
    ordered = {
        id: Line(name=products[id].name, price=products[id].price, quantity=line.quantity) for id, line in lines.items()
    }
    currency = products[next(iter(lines))].currency
    shipping = shop.shipping.get(currency, 0)
    total = amounts.total(amounts.goods(ordered), 0, shipping)
    if total > MOST_MINOR_UNITS:
        raise Invalid("lines", "the order costs more than one order may")
    now = shop.instant()
    return Order(
        order_id=order_id,
        customer_id=customer.customer_id,
        status="PENDING",
        placed_at=now,
        updated_at=now,
        currency=currency,
        total=total,
        lines=ordered,
        address=address,
        fingerprint=print_of_body,
        shipping=shipping,
        tax_rate=shop.tax_rate,
        customer_name=customer.name,
        customer_version=customer.version,
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
