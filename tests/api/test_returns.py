"""Tests returns over the API, and the refunds that the API shows for them."""

from typing import Any

import pytest

from functions.shop.fulfilment import fulfil_order
from proof.support.http_client import ANN, STAFF, WAREHOUSE, ApiHarness, HandlerResponse

MUG = {"product_id": "mug", "quantity": 1, "restock": True}


@pytest.fixture
def order_id(api: ApiHarness) -> str:
    """Deliver an order of two mugs and a pot. Return its id."""
    order_id = str(api.place_order(mug=2, pot=1).body["order_id"])
    api.pay(order_id)
    fulfil_order(api.shop, order_id)
    path = f"/orders/{order_id}/shipments/{order_id}-1"
    api.call("POST", f"{path}/dispatched", WAREHOUSE, {"carrier": "DHL", "tracking_number": "1"})
    assert api.call("POST", f"{path}/delivered", WAREHOUSE).status == 200
    return order_id


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


def test_a_key_covers_whether_the_goods_are_restocked(api: ApiHarness, order_id: str) -> None:
    back(api, order_id, MUG)
    assert back(api, order_id, {**MUG, "restock": False}).problem_type == "key-reused"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "lines"),
        ({"lines": []}, "lines"),
        ({"lines": [MUG, MUG]}, "lines"),
        ({"lines": [{"product_id": "mug", "quantity": 1}]}, "lines.0.restock"),
        ({"lines": [{**MUG, "restock": "yes"}]}, "lines.0.restock"),
        ({"lines": [{**MUG, "quantity": 0}]}, "lines.0.quantity"),
        ({"lines": [{**MUG, "quantity": 1.0}]}, "lines.0.quantity"),
        ({"lines": [{**MUG, "price": 1}]}, "lines.0.price"),
        ({"lines": [MUG], "refund_shipping": 1}, "refund_shipping"),
        ({"lines": [MUG], "to": "me"}, "to"),
        ({"lines": [MUG], "amount": 1}, "amount"),
        ({"lines": [{**MUG, "product_id": f"p{number}"} for number in range(91)]}, "lines"),
    ],
)
def test_a_return_that_makes_no_sense_is_refused_by_its_field(
    api: ApiHarness, order_id: str, body: Any, field: str
) -> None:
    before = api.table_images()
    refused = api.call("POST", f"/orders/{order_id}/returns", WAREHOUSE, body, key="k")
    assert list(refused.field_errors) == [field]
    assert api.table_images() == before


def test_a_return_needs_a_key(api: ApiHarness, order_id: str) -> None:
    assert list(back(api, order_id, MUG, key=None).field_errors) == ["idempotency-key"]
