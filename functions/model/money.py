"""Money is an integer in the currency's minor unit (cents) beside an ISO 4217 code; it is never a float."""

from typing import Literal, get_args

Currency = Literal["CHF", "EUR", "GBP", "JPY", "USD"]
CURRENCIES: tuple[str, ...] = get_args(Currency)
MINOR_DIGITS = {"JPY": 0}
"""Digits after the decimal point; 2 for currencies not listed (ISO 4217)."""
MAX_MINOR_UNITS = 10**12
"""The largest allowed amount; far above any order, far below the integers that JSON parsers round."""


def parse_amounts(text: str) -> dict[str, int]:
    """Parse amounts by currency from a setting: "EUR:490,USD:590". Raises ValueError with the wrong part."""
    found: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        currency, _, amount = part.partition(":")
        if currency not in CURRENCIES or not amount.isdecimal() or int(amount) > MAX_MINOR_UNITS:
            raise ValueError(part)
        found[currency] = int(amount)
    return found


def format_amount(amount: int, currency: str) -> str:
    """Format an amount for display: 1250, EUR → 12.50 EUR."""
    digits = MINOR_DIGITS.get(currency, 2)
    whole, part = divmod(abs(amount), 10**digits)
    point = f".{part:0{digits}}" if digits else ""
    return f"{'-' if amount < 0 else ''}{whole}{point} {currency}"
