"""The shop's price list and its rules of money, written again by hand from the documentation.

Amounts are in the smallest unit of their currency, for example cents.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_DOWN, Decimal
from fractions import Fraction
from math import floor, inf
from typing import Any, NamedTuple

CURRENCIES = {"pen": "USD", "fan": "JPY"}
"""The currencies of the products that are not sold in EUR."""
RATES_OFF = {"SPRING": 1_750, "FREE": 10_000}
MAX_USES = {"SPRING": 4, "FREE": 2}
MAX_CLOCK_ERROR_SECONDS = 3
"""The largest error of a function's clock."""
BACKORDERED = "rug"
"""The only product that customers can order without stock."""


def price_of_goods(lines: Mapping[str, Any]) -> int:
    """Return the price of all pieces of an order before the discount."""
    return sum(int(line["price"]) * int(line["quantity"]) for line in lines.values())


def discount_on(goods: int, rate: int) -> int:
    """Return the discount on goods at a rate (hundredths of a percent), rounded down. Shipping has no discount."""
    return int((Decimal(goods) * rate / 10_000).quantize(Decimal(1), ROUND_DOWN))


class Row(NamedTuple):
    """What the customer pays for a line of an order, or for its shipping. `rate`: in hundredths of a percent."""

    rate: int
    net: int
    tax: int

    @property
    def gross(self) -> int:
        return self.net + self.tax


def taxed_row(amount: int, rate: int, *, is_net: bool) -> Row:
    """Return an amount with its tax, rounded half up. `is_net`: whether the tax is added to the amount."""
    factor = Fraction(rate, 10_000)
    tax = floor(amount * factor / (1 if is_net else 1 + factor) + Fraction(1, 2))
    return Row(rate, amount if is_net else amount - tax, tax)


def rows_of_goods(lines: Mapping[str, Any], discount: int, rates: Mapping[str, int], *, is_net: bool) -> dict[str, Row]:
    """Return the row of each product. The lines share the discount by price, in the order of their products.

    The shares of the first lines together are rounded down, so the last line gets the rest.
    """
    rows, shared, goods = {}, 0, Fraction(0)
    for product in sorted(lines):
        price = price_of_goods({product: lines[product]})
        goods += price
        share = floor(discount * goods / price_of_goods(lines)) - shared
        shared += share
        rows[product] = taxed_row(price - share, rates[product], is_net=is_net)
    return rows


def sums_by_rate(rows: Iterable[Row]) -> list[dict[str, int]]:
    """Return the table of taxes: the sums of the rows for each rate, highest rate first."""
    every = list(rows)
    return [
        {
            "rate": rate,
            "net": sum(row.net for row in every if row.rate == rate),
            "tax": sum(row.tax for row in every if row.rate == rate),
        }
        for rate in sorted({row.rate for row in every}, reverse=True)
    ]


def rate_of(rates: Sequence[Mapping[str, Any]], country: str, tax_classes: Sequence[str]) -> int:
    """Return the tax rate of goods in a country, or "*" if the country has none. The first class with a rate counts."""
    return next(
        int(one["rate"])
        for destination in (country, "*")
        for tax_class in tax_classes
        for one in rates
        if (one["destination"], one["tax_class"]) == (destination, tax_class)
    )


def shipping_price(method: Mapping[str, Any], country: str, currency: str, value: int, weight: int) -> int | None:
    """Return the price of a shipping method, or None if it cannot send the goods.

    `value`: of the goods after the discount. `weight`: in grams. Only the rates of the country count, or those for "*"
    if the country has none. The last rate whose lower limit is reached applies.
    """
    of_currency = [one for one in method["rates"] if one["currency"] == currency]
    of_country = [one for one in of_currency if one["destination"] == country]
    rates = of_country or [one for one in of_currency if one["destination"] == "*"]
    price, reached = None, {"value": value, "weight": weight}[method.get("by", "value")]
    for rate in sorted(rates, key=lambda one: int(one.get("from", 0))):
        if rate.get("from", 0) <= reached:
            price = int(rate["price"])
    is_free = value >= method.get("free_from", {}).get(currency, inf)
    return 0 if is_free and price is not None else price


def paid_for(lines: Mapping[str, Any], rows: Mapping[str, Row], pieces: Mapping[str, int]) -> int:
    """Return the amount that the customer paid for some pieces. Each piece has an equal share of its row.

    The shares of the pieces of a row together are rounded down.
    """
    return sum(floor(Fraction(rows[id].gross * count, lines[id]["quantity"])) for id, count in pieces.items())


def currency_of(products: Iterable[str]) -> str:
    """Return the currency of an order with these products. All products of an order have the same currency."""
    return CURRENCIES.get(next(iter(products)), "EUR")


def shown_amount(amount: int, currency: str) -> str:
    """Format an amount as the shop shows it: "1,250.00 EUR", or "1,250 JPY", because JPY has no decimals."""
    return f"{amount:,} JPY" if currency == "JPY" else f"{Decimal(amount) / 100:,.2f} {currency}"
