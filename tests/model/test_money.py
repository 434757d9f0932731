"""Tests the format of amounts."""

import pytest

from functions.model.money import CURRENCIES, MINOR_DIGITS, format_amount


@pytest.mark.parametrize(
    ("amount", "currency", "expected"),
    [
        (1250, "EUR", "12.50 EUR"),
        (5, "USD", "0.05 USD"),
        (0, "CHF", "0.00 CHF"),
        (-1250, "EUR", "-12.50 EUR"),
        (-5, "GBP", "-0.05 GBP"),
        (1250, "JPY", "1250 JPY"),
        (-3, "JPY", "-3 JPY"),
        (10**12, "EUR", "10000000000.00 EUR"),
        (5000, "KRW", "5000 KRW"),
        (5000, "VND", "5000 VND"),
        (5000, "CLP", "5000 CLP"),
        (5000, "KWD", "5.000 KWD"),
        (-5, "BHD", "-0.005 BHD"),
        (5000, "CLF", "0.5000 CLF"),
        (5000, "SEK", "50.00 SEK"),
    ],
)
def test_an_amount_is_shown_with_the_digits_of_its_currency(amount: int, currency: str, expected: str) -> None:
    assert format_amount(amount, currency) == expected


def test_every_currency_with_digits_of_its_own_is_listed_once_with_its_code() -> None:
    assert len(MINOR_DIGITS) == 17 + 7 + 2
    assert all(len(currency) == 3 and currency.isupper() for currency in MINOR_DIGITS)
    assert [currency for currency in CURRENCIES if currency in MINOR_DIGITS] == ["JPY"]
