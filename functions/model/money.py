"""Amounts of money: integers in the currency's minor unit (cents), never floats.

The ISO 4217 code of the currency is stored in a separate field.
"""

from dataclasses import dataclass
from typing import Literal, get_args

Currency = Literal["CHF", "EUR", "GBP", "JPY", "USD"]
CURRENCIES: tuple[str, ...] = get_args(Currency)
_CURRENCIES_BY_DIGITS = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
MINOR_DIGITS = {currency: digits for digits, listed in _CURRENCIES_BY_DIGITS.items() for currency in listed.split()}
"""Number of digits after the decimal point, by currency. Currencies that are not listed have 2 digits.

Source: ISO 4217, List One, "CcyMnrUnts": https://www.six-group.com/en/products-services/financial-information/data-standards.html
The shop sells in CURRENCIES only, but the payment provider may report money in any currency.
"""
MAX_MINOR_UNITS = 10**12
"""The largest allowed amount. It is far above the total of any order.

It is also far below 2**53. JSON parsers may round numbers above 2**53.
"""


@dataclass(frozen=True)
class MoneyFormat:
    """How a language writes amounts. `decimal`: before the minor units. `group`: between thousands.

    `amount`: where the currency stands.
    """

    decimal: str = "."
    group: str = ""
    amount: str = "{number} {currency}"


def format_amount(amount: int, currency: str, form: MoneyFormat = MoneyFormat()) -> str:
    """Format an amount in minor units for display: 1250 and "EUR" become "12.50 EUR"."""
    digits = MINOR_DIGITS.get(currency, 2)
    whole, part = divmod(abs(amount), 10**digits)
    point = f"{form.decimal}{part:0{digits}}" if digits else ""
    number = f"{'-' if amount < 0 else ''}{whole:,}".replace(",", form.group) + point
    return form.amount.format(number=number, currency=currency)
