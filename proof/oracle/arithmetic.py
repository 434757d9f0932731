"""The shop's price list and its rules of money, written again by hand from the documentation.

Amounts are in the smallest unit of their currency, for example cents. All prices include the tax.
"""

from collections.abc import Iterable, Mapping
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Any

CURRENCIES = {"pen": "USD", "fan": "JPY"}
"""The currencies of the products that are not sold in EUR."""
SHIPPING = 490
"""The price of the shipping of an order in EUR in the stage `dev` (docs/settings.md). In USD and JPY it is 0."""
TAX_PERCENT = 20
RATES_OFF = {"SPRING": 2_000, "FREE": 10_000}
MAX_USES = {"SPRING": 3, "FREE": 2}
MAX_CLOCK_ERROR_SECONDS = 3
"""The largest error of a function's clock."""
BACKORDERED = "rug"
"""The only product that customers can order without stock."""


def price_of_goods(lines: Mapping[str, Any], pieces: Mapping[str, int] | None = None) -> int:
    """Return the price of some pieces of an order before the discount. `pieces`: by product; None means all pieces."""
    return sum(
        int(line["price"]) * (line["quantity"] if pieces is None else pieces.get(id, 0)) for id, line in lines.items()
    )


def discount_on(goods: int, rate: int) -> int:
    """Return the discount on goods at a rate (hundredths of a percent), rounded down. Shipping has no discount."""
    return int((Decimal(goods) * rate / 10_000).quantize(Decimal(1), ROUND_DOWN))


def tax_in(gross: int) -> int:
    """Return the tax that an amount includes, rounded half up."""
    return int((Decimal(gross) * TAX_PERCENT / (100 + TAX_PERCENT)).quantize(Decimal(1), ROUND_HALF_UP))


def paid_for(order: Mapping[str, Any], pieces: Mapping[str, int]) -> int:
    """Return the amount that the customer paid for some pieces: their price less their share of the discount, rounded
    down."""
    price, discount = price_of_goods(order["lines"], pieces), (order.get("discount") or {"amount": 0})["amount"]
    share = Decimal(discount) * price / price_of_goods(order["lines"])
    return price - int(share.quantize(Decimal(1), ROUND_DOWN))


def currency_of(products: Iterable[str]) -> str:
    """Return the currency of an order with these products. All products of an order have the same currency."""
    return CURRENCIES.get(next(iter(products)), "EUR")


def shown_amount(amount: int, currency: str) -> str:
    """Format an amount as the shop shows it: "12.50 EUR", or "1250 JPY", because JPY has no decimals."""
    return f"{amount} JPY" if currency == "JPY" else f"{Decimal(amount) / 100:.2f} {currency}"
