"""Staff read and replace the tax table, and orders with a wrong tax id or without a rate are rejected."""

from typing import Any

import pytest

from functions.api.routes.taxes import MAX_RATES
from proof.support.http_client import ANN, HOME_ADDRESS, STAFF, ApiHarness, order_body

AUSTRIA = {"destination": "AT", "tax_class": "standard", "rate": 2000}


def test_staff_replace_the_table_and_read_it(api: ApiHarness) -> None:
    empty = {"rates": [], "reverse_charge_in": [], "net_prices": False, "updated_at": None, "version": 0}
    assert api.call("GET", "/tax-table", STAFF).body == empty
    put = api.call("PUT", "/tax-table", STAFF, {"rates": [AUSTRIA], "reverse_charge_in": ["DE"], "net_prices": True})
    assert put.status == 200
    assert put.body | {"updated_at": ""} == {
        "rates": [{**AUSTRIA, "valid_from": "2000-01-01"}],
        "reverse_charge_in": ["DE"],
        "net_prices": True,
        "updated_at": "",
        "version": 1,
    }
    assert api.call("GET", "/tax-table", STAFF).body == put.body


@pytest.mark.parametrize("day", ["", "2026-02-30", "1.1.2026", "2026-1-1", 20260101, None])
def test_a_rate_is_valid_from_a_day(api: ApiHarness, day: Any) -> None:
    refused = api.call("PUT", "/tax-table", STAFF, {"rates": [AUSTRIA, {**AUSTRIA, "valid_from": day}]})
    assert list(refused.field_errors) == ["rates.1.valid_from"]


def test_the_largest_table_is_stored(api: ApiHarness) -> None:
    rate = {"destination": "US-CAL", "valid_from": "2026-01-01", "rate": 10_000}
    rates = [{**rate, "tax_class": f"{number:032}"} for number in range(MAX_RATES + 1)]
    assert list(api.call("PUT", "/tax-table", STAFF, {"rates": rates}).field_errors) == ["rates"]
    assert len(api.call("PUT", "/tax-table", STAFF, {"rates": rates[1:]}).body["rates"]) == MAX_RATES


@pytest.mark.parametrize("tax_id", ["", "ATU12345674"])
def test_a_wrong_tax_id_of_a_basket_is_named(api: ApiHarness, tax_id: Any) -> None:
    for path in ("/orders", "/orders/quote"):
        refused = api.call("POST", path, ANN, {**order_body(), "tax_id": tax_id}, key="k")
        assert (refused.status, list(refused.field_errors)) == (400, ["tax_id"])


def test_an_order_and_its_quote_show_the_taxes_and_the_reverse_charge(api: ApiHarness) -> None:
    api.call("PUT", "/tax-table", STAFF, {"rates": [AUSTRIA], "reverse_charge_in": ["DE"]})
    body = {
        **order_body(mug=2),
        "address": {**HOME_ADDRESS, "postcode": "10115", "country": "DE"},
        "tax_id": "de 136 695 976",
    }
    for path in ("/orders/quote", "/orders"):
        at_home = api.call("POST", path, ANN, order_body(mug=2), key="home").body
        assert (at_home["taxes"], at_home["net_prices"]) == ([{"rate": 2000, "net": 2083, "tax": 417}], False)
        assert [line["tax_rate"] for line in at_home["lines"]] == [2000]
        abroad = api.call("POST", path, ANN, body, key="abroad").body
        assert (abroad["taxes"], abroad["reverse_charge"]) == ([{"rate": 0, "net": 2500, "tax": 0}], True)
    assert abroad["tax_id"] == "DE136695976"
