"""Tests the addresses in requests: what a country requires is checked where it is entered, and the field is named."""

from typing import Any

import pytest

from proof.support.http_client import ANN, HOME_ADDRESS, ApiHarness, HandlerResponse

TEN_COUNTRIES: list[dict[str, str]] = [
    {"country": "AT", "postcode": "1010", "city": "Wien"},
    {"country": "DE", "postcode": "10115", "city": "Berlin"},
    {"country": "CH", "postcode": "8001", "city": "Zürich"},
    {"country": "FR", "postcode": "75001", "city": "Paris"},
    {"country": "IT", "postcode": "20121", "city": "Milano", "region": "MI"},
    {"country": "GB", "postcode": "SW1A 1AA", "city": "London"},
    {"country": "IE", "city": "Dublin"},
    {"country": "US", "postcode": "90012", "city": "Los Angeles", "region": "CA"},
    {"country": "JP", "postcode": "100-0001", "city": "Tokyo", "region": "13"},
    {"country": "HK", "region": "HK"},
]


def ordered(api: ApiHarness, address: dict[str, Any]) -> HandlerResponse:
    body = {"lines": [{"product_id": "mug", "quantity": 1}], "address": address}
    return api.call("POST", "/orders", ANN, body, key="key")


@pytest.mark.parametrize("town", TEN_COUNTRIES, ids=lambda town: town["country"])
def test_an_order_to_a_country_keeps_all_parts_of_its_address(api: ApiHarness, town: dict[str, str]) -> None:
    given = {"name": "Ann Ash", "company": "Ash & Co", "street": "1 Elm Row", "street2": "Floor 2", "phone": "+43 1 5"}
    placed = ordered(api, given | town)
    assert placed.status == 201, placed.text
    assert placed.body["address"] == {"postcode": "", "city": "", "region": None} | given | town


@pytest.mark.parametrize(
    ("changed", "field", "why"),
    [
        ({"country": "DE"}, "address.postcode", "must be a postcode of DE, such as 26133"),
        ({"country": "US", "postcode": "90012"}, "address.region", "is required in US"),
        ({"country": "XX"}, "address.country", "must be a two-letter country code (ISO 3166-1), such as AT"),
        ({"phone": "call me"}, "address.phone", "must be a phone number, such as +43 1 234567"),
    ],
)
def test_a_wrong_part_is_named_with_what_to_do(api: ApiHarness, changed: dict[str, str], field: str, why: str) -> None:
    refused = ordered(api, {**HOME_ADDRESS, **changed})
    assert (refused.status, refused.body["errors"]) == (400, [{"field": field, "why": why}])
