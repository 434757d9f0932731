"""The shop finds the shipping methods of an order, with their prices, in the table that staff keep."""

from dataclasses import replace
from typing import Any

import pytest

from functions.model.entities import ChosenShipping, DeliveryDays, Order, ShippingMethod, ShippingRate, ShippingTable
from functions.model.errors import InvalidInput, NotAllowed, ShippingMethodNotAvailable
from functions.model.money import Currency
from functions.model.patterns import SHIPMENTS_OF_ORDER
from functions.shop import discounts, placing, products, shipping_methods
from functions.shop.placing import Quote, RequestedLine
from functions.shop.shipping_methods import MAX_RATES, find_price
from functions.shop.shop import ShopContext
from proof.support.actors import (
    ANN,
    HOME_ADDRESS,
    STAFF,
    WAREHOUSE,
    advance_to_status,
    create_stocked_product,
    get_order,
    place,
    set_shipping_prices,
)


def rate(destination: str = "*", price: int = 490, minimum: int = 0, currency: str = "EUR") -> ShippingRate:
    return ShippingRate(destination=destination, currency=currency, minimum=minimum, price=price)


def method(id: str = "standard", *rates: ShippingRate, **more: Any) -> ShippingMethod:
    return ShippingMethod(id=id, name=id.capitalize(), rates=rates or (rate(),), **more)


def keep(shop: ShopContext, *methods: ShippingMethod) -> ShippingTable:
    return shipping_methods.replace_shipping_table(shop, STAFF, methods)


def quote(shop: ShopContext, wanted: str | None = None, *, code: str | None = None, **quantities: int) -> Quote:
    lines = {id: RequestedLine(quantity) for id, quantity in (quantities or {"mug": 1}).items()}
    return placing.quote_order(shop, ANN, lines, HOME_ADDRESS, code, shipping_method=wanted)


def order_with(shop: ShopContext, wanted: str | None, key: str = "key") -> Order:
    lines = {"mug": RequestedLine(1)}
    placed = placing.place_order(shop, ANN, key, lines, HOME_ADDRESS, {}, shipping_method=wanted).order
    assert isinstance(placed, Order)
    return placed


# the table ------------------------------------------------------------------------------------------------------------
def test_staff_replace_the_table_and_a_repeated_write_changes_nothing(shop: ShopContext) -> None:
    empty = shipping_methods.get_shipping_table(shop, STAFF)
    assert (empty.methods, empty.version) == ((), 0)
    first = keep(shop, method("standard", rate("DE"), rate("AT")), method("express"))
    assert [one.destination for one in first.methods[0].rates] == ["AT", "DE"], "rates are sorted, methods are not"
    assert keep(shop, method("standard", rate("AT"), rate("DE")), method("express")) == first
    assert keep(shop, method("express"), method("standard", rate("AT"), rate("DE"))).version == 2
    assert [one.id for one in shipping_methods.get_shipping_table(shop, STAFF).methods] == ["express", "standard"]
    for caller in (ANN, WAREHOUSE):
        with pytest.raises(NotAllowed):
            shipping_methods.get_shipping_table(shop, caller)
        with pytest.raises(NotAllowed):
            shipping_methods.replace_shipping_table(shop, caller, [])


@pytest.mark.parametrize(
    ("methods", "field"),
    [
        ([method(), method()], "methods"),
        ([method(), method("express", rate("AT"), rate("AT", 1))], "methods.1.rates"),
        ([method("one", *map(rate, map(str, range(MAX_RATES)))), method("two")], "methods"),
    ],
)
def test_a_wrong_table_is_rejected_with_its_field(shop: ShopContext, methods: list[ShippingMethod], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        keep(shop, *methods)
    assert refusal.value.field == field
    assert shipping_methods.get_shipping_table(shop, STAFF).version == 0


# the price of a method ------------------------------------------------------------------------------------------------
RATES = (
    rate("US-CA", 900),
    rate("US", 700),
    rate("US", 500, minimum=3000),
    rate("AT", 490),
    rate("AT", 290, minimum=2500),
    rate("*", 1490),
    rate("*", 1990, currency="USD"),
)


@pytest.mark.parametrize(
    ("country", "region", "currency", "value", "price"),
    [
        ("AT", None, "EUR", 2499, 490),
        ("AT", None, "EUR", 2500, 290),
        ("AT", "9", "EUR", 0, 490),
        ("US", "NY", "EUR", 2999, 700),
        ("US", "CA", "EUR", 9999, 900),  # the rates of the country do not count
        ("DE", None, "EUR", 0, 1490),
        ("AT", None, "USD", 0, 1990),  # Austria has no rate in this currency
        ("AT", None, "JPY", 0, None),
    ],
)
def test_the_rates_of_the_most_exact_destination_count(
    country: str, region: str | None, currency: Currency, value: int, price: int | None
) -> None:
    address = replace(HOME_ADDRESS, country=country, region=region)
    for rates in (RATES, RATES[::-1]):
        assert find_price(method("standard", *rates), address, currency, value, 0) == price


def test_rates_by_weight_compare_the_weight_and_a_method_is_free_from_a_value() -> None:
    heavy = method("heavy", rate(price=500), rate(price=900, minimum=1000), by="weight", free_from={"EUR": 5000})
    prices = [find_price(heavy, HOME_ADDRESS, "EUR", *goods) for goods in ((0, 999), (4999, 1000), (5000, 1000))]
    assert prices == [500, 900, 0]


def test_below_the_lowest_minimum_of_its_destination_a_method_is_not_available() -> None:
    large = method("large", rate("AT", minimum=1000), rate("*"))
    assert [find_price(large, HOME_ADDRESS, "EUR", value, 0) for value in (999, 1000)] == [None, 490]
    free = replace(large, free_from={"EUR": 500})
    assert find_price(free, HOME_ADDRESS, "EUR", 999, 0) is None, "a method that is not available is not free"


# orders ---------------------------------------------------------------------------------------------------------------
def test_without_methods_an_order_ships_for_free(shop: ShopContext) -> None:
    for _ in range(2):
        shown = quote(shop)
        assert (shown.shipping_methods, shown.order.shipping, shown.order.shipping_method) == ((), 0, None)
        keep(shop, method("standard", rate()))
        keep(shop)
    with pytest.raises(ShippingMethodNotAvailable) as refusal:
        quote(shop, "standard")
    assert (refusal.value.shipping_method, refusal.value.available) == ("standard", ())


def test_an_order_has_the_only_method(shop: ShopContext) -> None:
    keep(shop, method())
    shown = quote(shop)
    assert [(one.method.id, one.price) for one in shown.shipping_methods] == [("standard", 490)]
    assert quote(shop, "standard") == replace(shown, order=quote(shop, "standard").order)
    assert (shown.order.shipping, shown.order.total) == (490, 1740)


def test_an_order_chooses_one_of_two_methods_and_keeps_it(shop: ShopContext) -> None:
    express = method("express", rate(price=990), days=DeliveryDays(min=1, max=1))
    keep(shop, method("standard", days=DeliveryDays(min=2, max=4)), express)
    assert [(one.method.id, one.price) for one in quote(shop).shipping_methods] == [("standard", 490), ("express", 990)]
    first, second = order_with(shop, None, "one"), order_with(shop, "express", "two")
    assert (first.shipping, first.shipping_method and first.shipping_method.id) == (490, "standard")
    chosen = ChosenShipping(id="express", name="Express", days=DeliveryDays(min=1, max=1))
    assert (second.shipping, second.shipping_method) == (990, chosen)
    keep(shop, method("standard", rate(price=1)))
    assert get_order(shop, second.order_id) == second


def test_a_method_that_cannot_send_the_order_is_left_out_and_rejected(shop: ShopContext) -> None:
    keep(shop, method("abroad", rate("DE")), method("standard"))
    assert [one.method.id for one in quote(shop).shipping_methods] == ["standard"]
    assert quote(shop).order.shipping_method == ChosenShipping(id="standard", name="Standard")
    for wanted in ("abroad", "unknown"):
        with pytest.raises(ShippingMethodNotAvailable) as refusal:
            order_with(shop, wanted)
        assert (refusal.value.shipping_method, refusal.value.available) == (wanted, ("standard",))
    keep(shop, method("abroad", rate("DE")))
    with pytest.raises(ShippingMethodNotAvailable) as refusal:
        order_with(shop, None)
    assert (refusal.value.shipping_method, refusal.value.available) == (None, ())


def test_the_value_of_the_goods_is_that_after_the_discount(shop: ShopContext) -> None:
    keep(shop, method(free_from={"EUR": 2500}))
    discounts.create_discount(shop, STAFF, "spring", 1000)
    assert quote(shop, mug=2).order.shipping == 0
    assert quote(shop, mug=2, code="spring").order.shipping == 490
    assert quote(shop, mug=3, code="spring").order.shipping == 0


def test_the_weight_is_that_of_all_pieces_and_a_product_without_weight_counts_nothing(shop: ShopContext) -> None:
    create_stocked_product(shop, "vase", 9, weight=400)
    keep(shop, method("standard", rate(price=100), rate(price=200, minimum=1000), by="weight"))
    assert quote(shop, mug=9, vase=2).order.shipping == 100
    assert quote(shop, mug=1, vase=3).order.shipping == 200
    products.update_product(shop, STAFF, "vase", weight=0)
    assert quote(shop, mug=1, vase=3).order.shipping == 100


def test_the_shipment_shows_the_method(shop: ShopContext) -> None:
    set_shipping_prices(shop, EUR=490)
    order = advance_to_status(shop, place(shop), "FULFILLING")
    (parcel,) = shop.table.query_all(SHIPMENTS_OF_ORDER, order_id=order.order_id)
    assert (parcel.shipping_method, parcel.pickup) == ("standard", False)
    assert order.shipping_method is not None


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        (ChosenShipping(id="standard", name="A parcel", days=DeliveryDays(min=2, max=4)), "standard 2-4 A parcel"),
        (ChosenShipping(id="shop", name="Shop in Vienna", pickup=True), "shop -/pickup Shop in Vienna"),
        (ChosenShipping(id="a", name="B", pickup=True, days=DeliveryDays(min=0, max=1)), "a 0-1/pickup B"),
    ],
)
def test_the_method_of_an_order_is_a_short_text(chosen: ChosenShipping, text: str) -> None:
    assert chosen.to_text() == text
    assert ChosenShipping.from_text(text) == chosen
