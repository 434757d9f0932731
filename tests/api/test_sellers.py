"""Staff read and replace the seller, and invoices show it."""

from typing import Any

import pytest

from functions.shop.fulfilment import fulfil_order
from proof.support.http_client import ANN, HOME_ADDRESS, NO_MORE_PARTS, STAFF, ApiHarness

ADDRESS = {**HOME_ADDRESS, "name": "Elm & Sons"}
SELLER = {"address": ADDRESS, "tax_ids": ["ATU12345675", "21/815/08150"], "bank": "AT61 1904 3002 3457 3201"}
SHOWN = {**SELLER, "address": {**ADDRESS, **NO_MORE_PARTS}, "version": 1}


def test_staff_replace_the_seller_and_read_it(api: ApiHarness) -> None:
    missing = api.call("GET", "/seller", STAFF)
    assert (missing.status, missing.body["what"]) == (404, "seller")
    put = api.call("PUT", "/seller", STAFF, {**SELLER, "tax_ids": ["atu 12345675", "21/815/08150"]})
    assert (put.status, put.body) == (200, SHOWN)
    assert api.call("GET", "/seller", STAFF).body == SHOWN
    assert api.call("PUT", "/seller", STAFF, {"address": ADDRESS}).body == {
        **SHOWN,
        "tax_ids": [],
        "bank": None,
        "version": 2,
    }


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [("tax_ids", ["21/815/08150", "ATU12345674"], "tax_ids.1"), ("tax_ids", ["XX1"], "tax_ids.0")],
)
def test_a_wrong_field_of_the_seller_is_named(api: ApiHarness, field: str, value: Any, named: str) -> None:
    refused = api.call("PUT", "/seller", STAFF, {**SELLER, field: value})
    assert (refused.status, list(refused.field_errors)) == (400, [named])


def test_every_answer_with_an_invoice_shows_its_seller(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    api.pay(order_id)
    api.call("PUT", "/seller", STAFF, SELLER)
    assert fulfil_order(api.shop, order_id)
    api.call("PUT", "/seller", STAFF, {"address": ADDRESS})
    invoice = api.call("GET", f"/orders/{order_id}/invoice", ANN).body
    assert invoice["seller"] == SHOWN
    assert api.call("GET", f"/invoices/{invoice['invoice_id']}", ANN).body == invoice
    assert api.call("GET", "/customers/me/invoices", ANN).body["items"] == [invoice]
    assert api.call("GET", f"/orders/{order_id}/whole", ANN).body["invoices"] == [invoice]
