"""Tests the tax table, the rates that an order takes from it, and what follows from them."""

from dataclasses import replace
from typing import Any

import pytest

from functions.model.entities import Address, TaxRate, TaxTable
from functions.model.errors import InvalidInput, NoTaxRate
from functions.shop import imports, orders, placing, products, taxes
from functions.shop.imports import ParsedLine
from functions.shop.invoices import get_invoice_of_order
from functions.shop.placing import RequestedLine
from functions.shop.shop import ShopContext
from proof.support.actors import ANN, HOME_ADDRESS, STAFF, create_stocked_product, get_order, place, set_shipping_prices
from proof.support.client_faults import WireTap
from proof.support.samples import AT, order
from tests.support.order_money import deliver_order, refunded_total, return_pieces


def rate(destination: str, rate: int, tax_class: str = "standard", valid_from: str = "2000-01-01") -> TaxRate:
    return TaxRate(destination=destination, tax_class=tax_class, valid_from=valid_from, rate=rate)


def table(*rates: TaxRate, **more: Any) -> TaxTable:
    return TaxTable(rates=rates, created_at=AT, updated_at=AT, **{"reverse_charge_in": (), **more})


AUSTRIA = (rate("AT", 2000), rate("AT", 1000, "reduced"))


# the table ------------------------------------------------------------------------------------------------------------
def test_the_table_is_empty_until_staff_replace_it(shop: ShopContext, wire: WireTap) -> None:
    empty = taxes.get_tax_table(shop, STAFF)
    assert (empty.rates, empty.reverse_charge_in, empty.net_prices, empty.version) == ((), (), False, 0)
    first = taxes.replace_tax_table(shop, STAFF, AUSTRIA, ["FR", "DE", "FR"])
    assert (first.rates, first.reverse_charge_in, first.version) == (AUSTRIA[::-1], ("DE", "FR"), 1), "sorted"
    wire.clear()
    assert taxes.replace_tax_table(shop, STAFF, AUSTRIA, ["FR", "DE"]) == first
    assert wire.operations == ["GetItem"], "an equal table is not written again"
    second = taxes.replace_tax_table(shop, STAFF, [rate("DE", 1900)], net_prices=True)
    assert (second.rates, second.reverse_charge_in, second.net_prices) == ((rate("DE", 1900),), (), True)
    assert taxes.get_tax_table(shop, STAFF) == second


def test_a_table_that_was_replaced_meanwhile_is_replaced_again(
    shop: ShopContext, rival: ShopContext, wire: WireTap
) -> None:
    wire.run_before_call("PutItem", lambda: taxes.replace_tax_table(rival, STAFF, [rate("DE", 1900)]))
    assert taxes.replace_tax_table(shop, STAFF, AUSTRIA).version == 2
    assert taxes.get_tax_table(shop, STAFF).rates == AUSTRIA[::-1]


def test_a_destination_has_one_rate_for_a_class_and_day(shop: ShopContext) -> None:
    with pytest.raises(InvalidInput, match="AT standard 2000-01-01 has several") as refusal:
        taxes.replace_tax_table(shop, STAFF, [*AUSTRIA, rate("AT", 2100)])
    assert (refusal.value.field, taxes.get_tax_table(shop, STAFF).version) == ("rates", 0)


# the rate of a class at a destination ---------------------------------------------------------------------------------
RATES = table(
    rate("US-CA", 725),
    rate("US", 100),
    rate("US", 300, "shipping"),
    rate("US", 0, "food"),
    rate("*", 1),
    rate("*", 2, "food"),
    rate("FI", 2400),
    rate("FI", 2550, valid_from="2024-09-01"),
    rate("FI", 2600, valid_from="2030-01-01"),
)


@pytest.mark.parametrize(
    ("country", "region", "classes", "day", "wanted"),
    [
        ("US", "CA", ["standard"], "2026-11-21", 725),
        ("US", "NY", ["standard"], "2026-11-21", 100),
        ("US", None, ["standard"], "2026-11-21", 100),
        ("CA", None, ["standard"], "2026-11-21", 1),
        ("US", "CA", ["food"], "2026-11-21", 0),
        ("AT", None, ["food"], "2026-11-21", 2),
        ("US", None, ["shipping", "standard"], "2026-11-21", 300),
        ("US", "CA", ["shipping", "standard"], "2026-11-21", 725),  # the standard rate of the region comes first
        ("FI", None, ["standard"], "2024-08-31", 2400),
        ("FI", None, ["standard"], "2024-09-01", 2550),
        ("FI", None, ["standard"], "2029-12-31", 2550),
        ("FI", None, ["standard"], "1999-12-31", None),  # the rates of * begin in 2000 too
        ("US", "CA", ["books"], "2026-11-21", None),
    ],
)
def test_the_rate_of_a_class_is_that_of_the_region_then_the_country_then_elsewhere(
    country: str, region: str | None, classes: list[str], day: str, wanted: int | None
) -> None:
    address = replace(HOME_ADDRESS, country=country, region=region)
    if wanted is not None:
        assert taxes.find_rate(RATES, address, classes, day) == wanted
        return
    with pytest.raises(NoTaxRate) as refusal:
        taxes.find_rate(RATES, address, classes, day)
    assert (refusal.value.country, refusal.value.tax_class) == (country, classes[-1])


# the rates of an order ------------------------------------------------------------------------------------------------
CLASSES = {"cup": "reduced", "mug": "standard", "pot": "reduced"}


def ordered(**changed: Any) -> Any:
    """Return an order of a cup, a mug and a pot to Austria."""
    (line, *_) = order().lines.values()
    values = {"lines": dict.fromkeys(CLASSES, line), "address": HOME_ADDRESS, "shipping": 490, "placed_at": AT}
    return order(**values | changed)


@pytest.mark.parametrize("missing", [None, table()])
def test_without_rates_an_order_has_no_taxes(missing: TaxTable | None) -> None:
    assert taxes.set_tax_rates(ordered(), missing, CLASSES) == ordered()


def test_an_order_has_the_most_common_rate_and_other_lines_their_own() -> None:
    priced = taxes.set_tax_rates(ordered(), table(*AUSTRIA), CLASSES)
    assert (priced.tax_rate, priced.shipping_tax_rate, priced.net_prices) == (1000, 2000, False)
    assert {id: line.tax_rate for id, line in priced.lines.items()} == {"cup": None, "mug": 2000, "pot": None}
    free = taxes.set_tax_rates(ordered(shipping=0), table(*AUSTRIA, net_prices=True), CLASSES)
    assert (free.shipping_tax_rate, free.net_prices) == (None, True)


@pytest.mark.parametrize(
    ("tax_id", "country", "reverse"),
    [
        ("DE136695976", "DE", True),
        ("EL094259216", "DE", True),  # EL is Greece
        (None, "DE", False),
        ("DE136695976", "AT", False),  # the goods stay in the country of the seller
        ("ATU12345675", "DE", False),  # the customer is in the country of the seller
    ],
)
def test_a_business_owes_the_tax_if_its_country_and_its_address_are_listed(
    tax_id: str | None, country: str, reverse: bool
) -> None:
    rates = table(*AUSTRIA, rate("DE", 1900), rate("DE", 700, "reduced"), reverse_charge_in=("DE", "GR"))
    placed = ordered(tax_id=tax_id, address=replace(HOME_ADDRESS, country=country))
    priced = taxes.set_tax_rates(placed, rates, CLASSES)
    assert (priced.reverse_charge, priced.tax_rate == 0) == (reverse, reverse)


# orders, invoices and returns -----------------------------------------------------------------------------------------
def test_an_order_of_a_net_shop_pays_its_quote_and_keeps_its_rates_until_all_is_returned(shop: ShopContext) -> None:
    set_shipping_prices(shop, EUR=490)
    create_stocked_product(shop, "book", 10, price=999, tax_class="reduced")
    taxes.replace_tax_table(shop, STAFF, AUSTRIA, net_prices=True)
    quote = placing.quote_order(shop, ANN, {"book": RequestedLine(1), "mug": RequestedLine(2)}, HOME_ADDRESS).order
    placed = place(shop, book=1, mug=2)
    assert placed.total == quote.total == (999 + 100) + (2500 + 500) + (490 + 98)

    taxes.replace_tax_table(shop, STAFF, [rate("AT", 2500)])
    deliver_order(shop, placed)
    shown = [(one.rate, one.net, one.tax) for one in get_invoice_of_order(shop, ANN, placed.order_id).taxes]
    assert shown == [(2000, 2990, 598), (1000, 999, 100)]
    back = return_pieces(shop, placed, "one", mug=1, refund_shipping=True).result
    assert (back["amount"], back["shipping"]) == (1500 + 588, 588)
    return_pieces(shop, placed, "rest", book=1, mug=1)
    assert refunded_total(shop, placed.order_id) == placed.total


def test_an_order_without_a_rate_for_its_destination_is_rejected(shop: ShopContext, wire: WireTap) -> None:
    taxes.replace_tax_table(shop, STAFF, [rate("DE", 1900)])
    wire.clear()
    with pytest.raises(NoTaxRate, match="the shop does not sell goods of the tax class standard to AT"):
        place(shop)
    with pytest.raises(NoTaxRate):
        placing.quote_order(shop, ANN, {"mug": RequestedLine(1)}, HOME_ADDRESS)
    assert set(wire.operations) == {"BatchGetItem"}


@pytest.mark.parametrize(("field", "value"), [("country", "DE"), ("region", "9")])
def test_an_address_cannot_move_to_other_taxes(shop: ShopContext, field: str, value: str) -> None:
    placed = place(shop)
    elsewhere: Address = replace(HOME_ADDRESS, city="Linz", **{field: value})
    with pytest.raises(InvalidInput, match="place another order") as refusal:
        orders.change_address(shop, ANN, placed.order_id, elsewhere)
    assert refusal.value.field == field
    assert get_order(shop, placed.order_id) == placed


def test_the_tax_class_of_a_product_is_set_by_its_creation_a_change_and_an_import(shop: ShopContext) -> None:
    def tax_class(product_id: str) -> str:
        return products.get_product(shop, product_id).tax_class

    create_stocked_product(shop, "book", 0, tax_class="reduced")
    assert (tax_class("mug"), tax_class("book")) == ("standard", "reduced")
    products.update_product(shop, STAFF, "mug", tax_class="zero")
    products.update_product(shop, STAFF, "book", name="Book")
    assert (tax_class("mug"), tax_class("book")) == ("zero", "reduced")
    lines = [
        ParsedLine(1, {"product_id": "pot", "tax_class": "zero"}, 0),
        ParsedLine(2, {"product_id": "book", "name": "Red book"}, 0),
        ParsedLine(3, {"product_id": "map", "name": "Map", "price": 1, "currency": "EUR", "tax_class": "zero"}, 0),
    ]
    started = imports.import_products(shop, STAFF, "key", {}, lambda: lines).result["import_id"]
    imports.write_part(shop, started, 0, is_retry=False, wait=lambda: None)
    assert (tax_class("pot"), tax_class("book"), tax_class("map")) == ("zero", "reduced", "zero")
