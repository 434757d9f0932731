"""Tests the tax table, the rates that an order takes from it, and what follows from them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from functions.model.entities import Address, Order, TaxRate, TaxTable
from functions.model.errors import InvalidInput, NoTaxRate
from functions.model.patterns import INVOICES_OF_ORDER
from functions.shop import imports, orders, placing, products, taxes
from functions.shop.credit_notes import issue_credit_note
from functions.shop.imports import ParsedLine
from functions.shop.invoices import get_invoice_of_order
from functions.shop.placing import RequestedLine, place_order
from functions.shop.shop import ShopContext
from functions.shop.taxes import replace_tax_table
from proof.support.actors import ANN, HOME_ADDRESS, STAFF, create_stocked_product, get_order, place, set_shipping_prices
from proof.support.samples import AT, order
from tests.shop.conftest import TappedShop
from tests.shop.test_discounts import offer
from tests.support.order_money import deliver_order, refunded_total, return_pieces


def rate(destination: str, rate: int, tax_class: str = "standard", valid_from: str = "2000-01-01") -> TaxRate:
    return TaxRate(destination=destination, tax_class=tax_class, valid_from=valid_from, rate=rate)


def table(*rates: TaxRate, **more: Any) -> TaxTable:
    return TaxTable(rates=rates, created_at=AT, updated_at=AT, **{"reverse_charge_in": (), **more})


AUSTRIA = (rate("AT", 2000), rate("AT", 1000, "reduced"))


# the table ------------------------------------------------------------------------------------------------------------
def test_the_table_is_empty_until_staff_replace_it(shop: TappedShop) -> None:
    empty = taxes.get_tax_table(shop, STAFF)
    assert (empty.rates, empty.reverse_charge_in, empty.net_prices, empty.version) == ((), (), False, 0)
    first = taxes.replace_tax_table(shop, STAFF, AUSTRIA, ["FR", "DE", "FR"])
    assert (first.rates, first.reverse_charge_in, first.version) == (AUSTRIA[::-1], ("DE", "FR"), 1), "sorted"
    second = taxes.replace_tax_table(shop, STAFF, [rate("DE", 1900)], net_prices=True)
    assert (second.rates, second.reverse_charge_in, second.net_prices) == ((rate("DE", 1900),), (), True)
    assert taxes.get_tax_table(shop, STAFF) == second


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


def test_an_order_without_a_rate_for_its_destination_is_rejected(shop: TappedShop) -> None:
    taxes.replace_tax_table(shop, STAFF, [rate("DE", 1900)])
    shop.wire.clear()
    with pytest.raises(NoTaxRate, match="the shop does not sell goods of the tax class standard to AT"):
        place(shop)
    with pytest.raises(NoTaxRate):
        placing.quote_order(shop, ANN, {"mug": RequestedLine(1)}, HOME_ADDRESS)
    assert set(shop.wire.operations) == {"BatchGetItem"}


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


# worked examples ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Example:
    """An order and its invoice.

    `rates`: by class. `basket`: price, quantity and class by product. `rows`: the rate, net, tax and gross of each row.
    `back`: the returned pieces; `refund`: their money; `credit`: the net amount and the tax of their credit note by
    rate. Rates and `discount` are in hundredths of a percent.
    """

    to: str
    rates: Mapping[str, int]
    basket: Mapping[str, tuple[int, int, str]]
    shipping: int
    discount: int
    rows: Mapping[str, tuple[int, int, int, int]]
    back: Mapping[str, int]
    refund: int
    credit: Mapping[int, tuple[int, int]]
    currency: str = "EUR"
    net_prices: bool = False
    tax_id: str | None = None


EXAMPLES = {
    # 20 % and 10 % (books): https://europa.eu/youreurope/business/taxation/vat/vat-rules-rates/
    # goods 59.83, less 7 % = 4.18 (4.1881): book 2.09 (4.18 * 29.98 / 59.83 = 2.0945), cup the rest, 2.09
    "Austria": Example(
        to="AT",
        rates={"standard": 2000, "books": 1000},
        basket={"book": (14_99, 2, "books"), "cup": (9_95, 3, "standard")},
        shipping=4_90,
        discount=700,
        rows={
            "book": (1000, 25_35, 2_54, 27_89),  # 27.89 * 10 / 110 = 2.535
            "cup": (2000, 23_13, 4_63, 27_76),  # 27.76 * 20 / 120 = 4.627
            "shipping": (2000, 4_08, 82, 4_90),  # 4.90 * 20 / 120 = 0.817
        },
        back={"book": 1, "cup": 1},
        refund=13_94 + 9_25,  # 27.89 / 2 = 13.945 and 27.76 / 3 = 9.253
        credit={1000: (12_67, 1_27), 2000: (7_71, 1_54)},  # 13.94 * 2.54 / 27.89 = 1.270, 9.25 * 4.63 / 27.76 = 1.543
    ),
    # An Austrian seller lists DE, and not AT. The customer owes the tax: Directive 2006/112/EC, articles 196 and
    # 226(11a), https://eur-lex.europa.eu/eli/dir/2006/112/oj (for goods, article 138 exempts the seller)
    "reverse charge": Example(
        to="DE",
        rates={"standard": 1900},
        basket={"cup": (12_49, 3, "standard")},
        shipping=5_90,
        discount=333,
        rows={"cup": (0, 36_23, 0, 36_23), "shipping": (0, 5_90, 0, 5_90)},  # 37.47 less 1.24 (1.2478)
        back={"cup": 2},
        refund=24_15,  # 36.23 * 2 / 3 = 24.153
        credit={0: (24_15, 0)},
        net_prices=True,
        tax_id="DE136695976",
    ),
    # 20 %: https://www.gov.uk/vat-rates. Books 0 %:
    # https://www.gov.uk/government/publications/vat-notice-70110-zero-rating-of-books-and-other-forms-of-printed-matter
    # goods 25.99, less 15 % = 3.89 (3.8985): book 2.39 (3.89 * 15.98 / 25.99 = 2.3918), cup 1.50
    "United Kingdom": Example(
        to="GB",
        rates={"standard": 2000, "books": 0},
        basket={"book": (7_99, 2, "books"), "cup": (10_01, 1, "standard")},
        shipping=3_95,
        discount=1500,
        rows={
            "book": (0, 13_59, 0, 13_59),
            "cup": (2000, 7_09, 1_42, 8_51),  # 8.51 * 20 / 120 = 1.418
            "shipping": (2000, 3_29, 66, 3_95),  # 3.95 * 20 / 120 = 0.658
        },
        back={"book": 1},
        refund=6_79,  # 13.59 / 2 = 6.795
        credit={0: (6_79, 0)},
        currency="GBP",
    ),
    # 7.25 % outside of special districts: https://cdtfa.ca.gov/formspubs/pub105/basic-rules.htm
    # Delivery by a carrier is not taxed: CDTFA, publication 100
    # goods 49.97, less 10 % = 4.99 (4.997): cup 2.99 (4.99 * 29.97 / 49.97 = 2.9928), vase 2.00
    "California": Example(
        to="US-CA",
        rates={"standard": 725, "shipping": 0},
        basket={"cup": (9_99, 3, "standard"), "vase": (20_00, 1, "standard")},
        shipping=5_00,
        discount=1000,
        rows={
            "cup": (725, 26_98, 1_96, 28_94),  # 26.98 * 7.25 % = 1.956
            "vase": (725, 18_00, 1_31, 19_31),  # 18.00 * 7.25 % = 1.305, half up
            "shipping": (0, 5_00, 0, 5_00),
        },
        back={"cup": 2},
        refund=19_29,  # 28.94 * 2 / 3 = 19.293
        credit={725: (17_98, 1_31)},  # 19.29 * 1.96 / 28.94 = 1.3064
        currency="USD",
        net_prices=True,
    ),
}


def sell(shop: ShopContext, example: Example) -> Order:
    """Place, pay, invoice and deliver the order of an example. Return it."""
    rates = [
        TaxRate(destination=example.to, tax_class=one, valid_from="2000-01-01", rate=rate)
        for one, rate in example.rates.items()
    ]
    replace_tax_table(shop, STAFF, rates, [example.to[:2]] if example.tax_id else [], net_prices=example.net_prices)
    for id, (price, many, tax_class) in example.basket.items():
        create_stocked_product(shop, id, many, price=price, currency=example.currency, tax_class=tax_class)
    offer(shop, rate=example.discount)
    address = replace(HOME_ADDRESS, country=example.to[:2], region=example.to[3:] or None)
    wanted = {id: RequestedLine(many) for id, (_, many, _) in example.basket.items()}
    set_shipping_prices(shop, **{example.currency: example.shipping})
    placed = place_order(shop, ANN, "key", wanted, address, {}, "SPRING", tax_id=example.tax_id).order
    assert isinstance(placed, Order)
    return deliver_order(shop, placed)


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_an_invoice_and_a_return_are_as_a_bookkeeper_computes_them(shop: ShopContext, example: Example) -> None:
    order = sell(shop, example)
    invoice = get_invoice_of_order(shop, ANN, order.order_id)
    sums: dict[int, tuple[int, int]] = {}
    for rate, net, tax, gross in example.rows.values():
        assert net + tax == gross
        net_before, tax_before = sums.get(rate, (0, 0))
        sums[rate] = net_before + net, tax_before + tax
    assert {one.rate: (one.net, one.tax) for one in invoice.taxes} == sums
    assert invoice.total == sum(gross for _, _, _, gross in example.rows.values()) == order.paid
    assert (invoice.reverse_charge, invoice.tax_id) == (example.tax_id is not None, example.tax_id)

    assert return_pieces(shop, order, **example.back).result["amount"] == example.refund
    assert invoice.total - refunded_total(shop, order.order_id) == get_order(shop, order.order_id).kept
    issue_credit_note(shop, order.order_id)
    *_, note = shop.table.query_all(INVOICES_OF_ORDER, order_id=order.order_id)
    assert {one.rate: (one.net, one.tax) for one in note.taxes} == example.credit
    rest = {id: many - example.back.get(id, 0) for id, (_, many, _) in example.basket.items()}
    return_pieces(shop, order, "rest", **{id: many for id, many in rest.items() if many}, refund_shipping=True)
    assert refunded_total(shop, order.order_id) == invoice.total, "all returns together give everything back"
    issue_credit_note(shop, order.order_id)
    _, *notes = shop.table.query_all(INVOICES_OF_ORDER, order_id=order.order_id)
    parts = [(one.rate, one.net, one.tax) for note in notes for one in note.taxes]
    for rate, (net, tax) in sums.items():
        assert (sum(n for r, n, _ in parts if r == rate), sum(t for r, _, t in parts if r == rate)) == (net, tax)
