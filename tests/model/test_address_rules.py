"""Tests the rules of addresses: they are those of the package, and name what is wrong."""

import json

import pytest

from functions.model.address_rules import check_country, check_part, rules_by_country
from tools.address_rules import FILE, address_rules


def test_the_rules_are_those_of_the_installed_package() -> None:
    assert json.loads(FILE.read_text(encoding="utf-8")) == address_rules(), "run python -m tools.address_rules"
    assert len(rules_by_country()) == 249, "the countries of ISO 3166-1"


def test_the_example_of_each_postcode_has_its_form() -> None:
    for country, (_, *postcode) in rules_by_country().items():
        if postcode:
            check_part(country, "postcode", postcode[1])


@pytest.mark.parametrize(
    ("country", "part", "text", "problem"),
    [
        ("AT", "postcode", "1010", ""),
        ("AT", "postcode", "10115", "must be a postcode of AT, such as 1010"),
        ("AT", "postcode", "", "is required in AT"),
        ("AT", "region", None, ""),
        ("US", "region", None, "is required in US"),
        ("US", "region", "CA", ""),
        ("US", "postcode", "22162-1010", ""),
        ("GB", "postcode", "sw1a 1aa", ""),
        ("IE", "postcode", "", ""),
        ("IE", "postcode", "D02", "must be a postcode of IE, such as A65 F4E2"),
        ("HK", "postcode", "", ""),
        ("HK", "city", "", ""),
        ("AG", "postcode", "any", ""),
    ],
)
def test_a_part_is_checked_as_its_country_requires(country: str, part: str, text: str | None, problem: str) -> None:
    if problem:
        with pytest.raises(ValueError, match=problem):
            check_part(country, part, text)
    else:
        check_part(country, part, text)


def test_a_country_must_exist() -> None:
    assert check_country("AT") == "AT"
    for wrong in ("XX", "at", ""):
        with pytest.raises(ValueError, match="two-letter country code"):
            check_country(wrong)
