"""Tests returns over the API, and the refunds that the API shows for them."""

from typing import Any

import pytest

from proof.support.http_client import ANN, STAFF, WAREHOUSE, ApiHarness, HandlerResponse
from tests.api.conftest import place_delivered

MUG = {"product_id": "mug", "quantity": 1, "restock": True}


@pytest.fixture
def order_id(api: ApiHarness) -> str:
    """Deliver an order of two mugs and a pot. Return its id."""
    return place_delivered(api, mug=2, pot=1)


def back(api: ApiHarness, order_id: str, *lines: Any, key: str | None = "back-1", **more: Any) -> HandlerResponse:
    body = {"lines": list(lines), **more}
    return api.call("POST", f"/orders/{order_id}/returns", WAREHOUSE, body, key=key)


def test_a_return_is_refunded_and_shown_with_its_order(api: ApiHarness, order_id: str) -> None:
    made = back(api, order_id, MUG, {"product_id": "pot", "quantity": 1, "restock": False})
    assert (made.status, made.body["amount"], made.body["shipping"], made.body["currency"]) == (201, 2500, 0, "EUR")
    assert (made.body["quantities"], made.body["restocked"]) == ({"mug": 1, "pot": 1}, {"mug": 1})
    assert "customer_id" not in made.body
    whole = api.call("GET", f"/orders/{order_id}/whole", ANN).body
    assert (whole["order"]["status"], whole["order"]["refunded"]) == ("PARTIALLY_RETURNED", 2500)
    assert [(line["product_id"], line["returned"]) for line in whole["order"]["lines"]] == [("mug", 1), ("pot", 1)]
    (returned,), (refund,) = whole["returns"], whole["refunds"]
    assert returned == {name: value for name, value in made.body.items() if name != "refund_ids"}
    assert api.call("GET", f"/orders/{order_id}/returns", STAFF).body["items"] == [returned]
    assert ([refund["refund_id"]], refund["amount"], refund["why"]) == (made.body["refund_ids"], 2500, "RETURNED")
    assert (refund["status"], refund["payment_id"]) == ("REQUESTED", "pi_1")


def test_a_return_has_each_product_once(api: ApiHarness, order_id: str) -> None:
    assert list(back(api, order_id, MUG, MUG).field_errors) == ["lines"]
