"""Shipping methods: keep the table of methods and rates, and find the methods and prices for an order.

A shop without methods ships for free. An order keeps the method and the price that it was placed with.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from functions.model.entities import (
    Address,
    ChosenShipping,
    Order,
    Product,
    ShippingMethod,
    ShippingRate,
    ShippingTable,
)
from functions.model.errors import InvalidInput, ShippingMethodNotAvailable
from functions.model.money import Currency
from functions.model.patterns import SHIPPING_TABLE
from functions.model.pricing import goods_total
from functions.model.table import SHIPPING_TABLE as SHIPPING_TABLE_ROW
from functions.shop.shop import Caller, ShopContext, retries_on_conflict, save_change

MAX_RATES = 500
"""The maximum number of rates of all methods together. The longest rates then fit into an item of 30 KB."""


@dataclass(frozen=True)
class AvailableMethod:
    """A shipping method that an order can choose. `price`: what it costs for this order, in minor units."""

    method: ShippingMethod
    price: int


def get_shipping_table(shop: ShopContext, caller: Caller) -> ShippingTable:
    """Return the shipping methods (access pattern A30), none with version 0 if none are stored. Raises NotAllowed."""
    caller.require_group("staff")
    now = shop.now_instant()
    return shop.table.get(SHIPPING_TABLE) or ShippingTable(methods=(), created_at=now, updated_at=now, version=0)


@retries_on_conflict
def replace_shipping_table(shop: ShopContext, caller: Caller, methods: Sequence[ShippingMethod]) -> ShippingTable:
    """Replace all shipping methods. New orders have them; others keep theirs. Only staff may call it.

    `methods`: in the order in which a checkout shows them. Without methods, the shop ships for free. Safe to repeat:
    equal methods are not written again. Raises NotAllowed, and InvalidInput if two methods have the same id, if two
    rates of a method have the same destination, currency and minimum, or if there are too many rates.
    """
    caller.require_group("staff")
    _check_methods(methods)
    before = get_shipping_table(shop, caller)
    wanted = replace(before, methods=tuple(replace(one, rates=_sorted(one.rates)) for one in methods))
    return save_change(shop, SHIPPING_TABLE_ROW, before, wanted)


def _check_methods(methods: Sequence[ShippingMethod]) -> None:
    if twice := [id for id, count in Counter(one.id for one in methods).items() if count > 1]:
        raise InvalidInput("methods", f"use each id once: {twice[0]} has several methods")
    for number, method in enumerate(methods):
        counted = Counter((one.destination, one.currency, str(one.minimum)) for one in method.rates)
        if same := [" ".join(key) for key, count in counted.items() if count > 1]:
            why = f"use one rate for each destination, currency and lower limit: {same[0]} has several"
            raise InvalidInput(f"methods.{number}.rates", why)
    if sum(len(method.rates) for method in methods) > MAX_RATES:
        raise InvalidInput("methods", f"use at most {MAX_RATES} rates for all methods together")


def _sorted(rates: Sequence[ShippingRate]) -> tuple[ShippingRate, ...]:
    return tuple(sorted(rates, key=lambda one: (one.destination, one.currency, one.minimum)))


# the shipping of an order ---------------------------------------------------------------------------------------------
def find_available_methods(
    table: ShippingTable | None, order: Order, products: Mapping[str, Product]
) -> tuple[AvailableMethod, ...]:
    """Return the methods that can send an order, with their prices, in the order of the table.

    `table`: None without methods. `order`: with its discount. `products`: by id; without a weight, they count 0 grams.
    """
    if table is None or order.address is None:
        return ()
    value = goods_total(order.lines) - (order.discount.amount if order.discount else 0)
    weight = sum(products[id].weight * line.quantity for id, line in order.lines.items())
    priced = [(one, find_price(one, order.address, order.currency, value, weight)) for one in table.methods]
    return tuple(AvailableMethod(method, price) for method, price in priced if price is not None)


def find_price(method: ShippingMethod, address: Address, currency: Currency, value: int, weight: int) -> int | None:
    """Return the price of a method in minor units. Return None if it has no rate for these goods at this address.

    `value`: of the goods after the discount, in minor units. `weight`: of the goods, in grams. Only the rates of the
    most exact destination with this currency count: the region of the address, its country, ELSEWHERE. Of these, the
    one with the highest minimum that the goods reach applies.
    """
    in_currency = [one for one in method.rates if one.currency == currency]
    present = {one.destination for one in in_currency}
    destination = next((one for one in address.destinations if one in present), None)
    reached = value if method.by == "value" else weight
    rates = [
        (one.minimum, one.price) for one in in_currency if one.destination == destination and one.minimum <= reached
    ]
    if not rates:
        return None
    free_from = (method.free_from or {}).get(currency)
    return 0 if free_from is not None and value >= free_from else max(rates)[1]


def set_shipping(
    order: Order, table: ShippingTable | None, available: Sequence[AvailableMethod], wanted: str | None
) -> Order:
    """Return the order with its shipping method and the price of it. Nothing is written.

    `available`: of `find_available_methods`. `wanted`: the id of a method, or None for the first available one. Without
    methods, the order ships for free. Raises ShippingMethodNotAvailable.
    """
    has_methods = table is not None and table.methods
    if wanted is None and not has_methods:
        return order
    chosen = next((one for one in available if wanted in (None, one.method.id)), None)
    if chosen is None:
        raise ShippingMethodNotAvailable(wanted, tuple(one.method.id for one in available))
    method = chosen.method
    kept = ChosenShipping(id=method.id, name=method.name, pickup=method.pickup, days=method.days)
    return replace(order, shipping=chosen.price, shipping_method=kept)
