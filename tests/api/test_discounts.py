"""Tests discount codes: staff create, read and end them, and customers send them with an order."""

from typing import Any

from proof.support.http_client import ANN, STAFF, ApiHarness, HandlerResponse, order_body

FIRST: dict[str, Any] = {
    "code": "first50",
    "rate": 2000,
    "valid_from": "2026-01-01",
    "valid_until": "2099-12-01T09:30:00+01:00",
    "minimum": 2500,
    "currency": "EUR",
    "limit": 50,
    "parts": 4,
}


def offer(api: ApiHarness, code: str = "SPRING", rate: int = 1000, **more: Any) -> None:
    assert api.call("POST", "/discounts", STAFF, {"code": code, "rate": rate, **more}).status == 201


def place(api: ApiHarness, code: Any, key: str = "key-1", **quantities: int) -> HandlerResponse:
    return api.call("POST", "/orders", ANN, {**order_body(**quantities), "discount_code": code}, key=key)


def test_a_new_code_shows_its_remaining_redemptions(api: ApiHarness) -> None:
    made = api.call("POST", "/discounts", STAFF, FIRST)
    assert (made.status, made.headers["location"]) == (201, "/discounts/FIRST50")
    times = {"valid_from": "2026-01-01T00:00:00.000Z", "valid_until": "2099-12-01T08:30:00.000Z"}
    assert made.body.items() >= {"code": "FIRST50", "rate": 2000, "minimum": 2500, "left": 50, **times}.items()
    assert api.call("GET", "/discounts/First50", STAFF).body == made.body
    assert place(api, "FIRST50").status == 201
    assert api.call("GET", "/discounts/FIRST50", STAFF).body["left"] == 49


def test_a_code_needs_no_more_than_its_rate(api: ApiHarness) -> None:
    made = api.call("POST", "/discounts", STAFF, {"code": "SPRING", "rate": 10000}).body
    left_out = ("valid_until", "minimum", "currency", "limit", "left")
    assert [made[name] for name in left_out] == [None, 0, None, None, None]
    assert made["valid_from"] == made["created_at"]
