"""Goods that come back, as the API takes them, and the money that it shows going back."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from functions.shop.shipments import request_shipment
from tests.api.asking import ANN, BOB, STAFF, WAREHOUSE, Answered, Api

MUG = {"product_id": "mug", "quantity": 1, "restock": True}


@pytest.fixture
def order_id(api: Api) -> str:
    """Two mugs and a pot, delivered."""
    order_id = str(api.place(mug=2, pot=1).said["order_id"])
    api.pay(order_id)
    request_shipment(api.shop, order_id)
    path = f"/orders/{order_id}/shipments/{order_id}-1"
    api.ask("POST", f"{path}/dispatched", WAREHOUSE, {"carrier": "DHL", "tracking_number": "1"})
    assert api.ask("POST", f"{path}/delivered", WAREHOUSE).status == 200
    return order_id


@pytest.fixture
def later(api: Api) -> Iterator[timedelta]:
    """It is 30 days later for the shop."""
    clock = api.shop.table.clock
    api.shop.table.clock = lambda: clock() + timedelta(days=30)
    yield timedelta(days=30)
    api.shop.table.clock = clock


def back(api: Api, order_id: str, *lines: Any, key: str | None = "back-1", **more: Any) -> Answered:
    body = {"lines": list(lines), **more}
    return api.ask("POST", f"/orders/{order_id}/returns", WAREHOUSE, body, key=key)


def test_what_comes_back_is_refunded_and_shown_with_its_order(api: Api, order_id: str) -> None:
    made = back(api, order_id, MUG, {"product_id": "pot", "quantity": 1, "restock": False})
    assert (made.status, made.said["amount"], made.said["shipping"], made.said["currency"]) == (201, 2500, 0, "EUR")
    assert (made.said["quantities"], made.said["restocked"]) == ({"mug": 1, "pot": 1}, {"mug": 1})
    assert "customer_id" not in made.said
    whole = api.ask("GET", f"/orders/{order_id}/whole", ANN).said
    assert (whole["order"]["status"], whole["order"]["refunded"]) == ("PARTIALLY_RETURNED", 2500)
    assert [(line["product_id"], line["returned"]) for line in whole["order"]["lines"]] == [("mug", 1), ("pot", 1)]
    (returned,), (refund,) = whole["returns"], whole["refunds"]
    assert returned == {name: value for name, value in made.said.items() if name != "refund_ids"}
    assert ([refund["refund_id"]], refund["amount"], refund["why"]) == (made.said["refund_ids"], 2500, "RETURNED")
    assert (refund["status"], refund["payment_id"]) == ("REQUESTED", "pi_1")
    assert api.ask("GET", "/products/mug/stock").said["available"] == 9
    assert api.ask("GET", "/products/pot/stock").said["available"] == 9


def test_the_same_key_answers_the_same_and_returns_nothing_twice(api: Api, order_id: str) -> None:
    first = back(api, order_id, MUG)
    before = api.contents()
    again = back(api, order_id, MUG)
    assert (again.status, again.said, again.headers["idempotent-replayed"]) == (200, first.said, "true")
    assert back(api, order_id, {**MUG, "restock": False}).problem == "key-reused"
    assert api.contents() == before


def test_returns_are_listed_for_who_placed_the_order_and_staff_page_by_page(api: Api, order_id: str) -> None:
    made = [back(api, order_id, MUG, key=key).said for key in ("one", "two")]
    path = f"/orders/{order_id}/returns"
    for token in (ANN, STAFF):
        first = api.ask("GET", path, token, limit=1).said
        rest = api.ask("GET", path, token, limit=1, cursor=first["cursor"]).said
        shown = [one["return_id"] for one in first["items"] + rest["items"]]
        assert sorted(shown) == sorted(one["return_id"] for one in made)
    for token in (BOB, WAREHOUSE):
        assert api.ask("GET", path, token).problem == "not-found"


def test_a_customer_takes_back_nothing_for_themselves(api: Api, order_id: str) -> None:
    refused = api.ask("POST", f"/orders/{order_id}/returns", ANN, {"lines": [MUG]}, key="k")
    assert (refused.status, refused.problem) == (403, "not-allowed")
    assert api.ask("POST", "/orders/other/returns", WAREHOUSE, {"lines": [MUG]}, key="k").problem == "not-found"


def test_what_was_not_delivered_does_not_come_back(api: Api) -> None:
    order_id = api.place().said["order_id"]
    refused = back(api, order_id, MUG)
    assert (refused.problem, refused.said["state"], refused.said["command"]) == ("wrong-state", "PENDING", "return")


def test_no_more_comes_back_than_was_delivered(api: Api, order_id: str) -> None:
    refused = back(api, order_id, {**MUG, "quantity": 3})
    assert (refused.status, refused.problem) == (409, "too-much")
    assert (refused.said["field"], refused.said["most"]) == ("mug", 2)


def test_after_its_window_nothing_of_an_order_comes_back(api: Api, order_id: str, later: timedelta) -> None:
    refused = back(api, order_id, MUG)
    assert (refused.status, refused.problem) == (409, "return-window-over")
    delivered = api.ask("GET", f"/orders/{order_id}", ANN).said["delivered_at"]
    assert refused.said["ended_at"][:10] > delivered[:10]


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
def test_a_return_that_makes_no_sense_is_refused_by_its_field(api: Api, order_id: str, body: Any, field: str) -> None:
    before = api.contents()
    refused = api.ask("POST", f"/orders/{order_id}/returns", WAREHOUSE, body, key="k")
    assert list(refused.wrong) == [field]
    assert api.contents() == before


def test_a_return_needs_a_key(api: Api, order_id: str) -> None:
    assert list(back(api, order_id, MUG, key=None).wrong) == ["idempotency-key"]
