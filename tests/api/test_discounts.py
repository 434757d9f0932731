"""Discount codes: made, looked at and ended by staff, sent with an order by customers."""

from datetime import timedelta
from typing import Any

import pytest

from functions.dynamodb.keys import instant
from tests.api.asking import ANN, STAFF, Answered, Api, new_order

FIRST: dict[str, Any] = {
    "code": "first50",
    "percent": 20,
    "valid_from": "2026-01-01",
    "valid_until": "2099-12-01T09:30:00+01:00",
    "minimum": 2500,
    "currency": "EUR",
    "limit": 50,
    "parts": 4,
}


def offer(api: Api, code: str = "SPRING", percent: int = 10, **more: Any) -> None:
    assert api.ask("POST", "/discounts", STAFF, {"code": code, "percent": percent, **more}).status == 201


def place(api: Api, code: Any, key: str = "key-1", **quantities: int) -> Answered:
    return api.ask("POST", "/orders", ANN, {**new_order(**quantities), "discount_code": code}, key=key)


def test_a_code_is_made_and_shown_with_how_often_it_is_left(api: Api) -> None:
    made = api.ask("POST", "/discounts", STAFF, FIRST)
    assert (made.status, made.headers["location"]) == (201, "/discounts/FIRST50")
    now = made.said["created_at"]
    assert made.said == {
        "code": "FIRST50",
        "percent": 20,
        "valid_from": "2026-01-01T00:00:00.000Z",
        "valid_until": "2099-12-01T08:30:00.000Z",
        "minimum": 2500,
        "currency": "EUR",
        "limit": 50,
        "left": 50,
        "created_at": now,
        "updated_at": now,
        "version": 1,
    }
    assert api.ask("GET", "/discounts/First50", STAFF).said == made.said
    assert place(api, "FIRST50").status == 201
    assert api.ask("GET", "/discounts/FIRST50", STAFF).said["left"] == 49


def test_a_code_needs_no_more_than_its_percent(api: Api) -> None:
    made = api.ask("POST", "/discounts", STAFF, {"code": "SPRING", "percent": 100}).said
    left_out = ("valid_until", "minimum", "currency", "limit", "left")
    assert [made[name] for name in left_out] == [None, 0, None, None, None]
    assert made["valid_from"] == made["created_at"]


def test_a_code_is_made_once(api: Api) -> None:
    offer(api)
    refused = api.ask("POST", "/discounts", STAFF, {"code": "spring", "percent": 90})
    assert (refused.status, refused.problem, refused.said["what"]) == (409, "already-exists", "discount code")
    assert api.ask("GET", "/discounts/SPRING", STAFF).said["percent"] == 10


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("code", code) for code in ("", "a#b", "a b", "-a", "x" * 41, "é", "a/b", "a\n", 5, None)],
        *[("percent", percent) for percent in (0, 101, -1, 10.0, "10", None, True)],
        *[("valid_from", moment) for moment in ("", "yesterday", "2026-13-01", 5)],
        *[("valid_until", moment) for moment in ("", "2026-01-01", "2025-12-31T23:59:59.999Z", 5)],
        *[("minimum", minimum) for minimum in (0, -1, 10**9 + 1, 1.0, None)],
        *[("currency", currency) for currency in ("eur", "", 978)],
        *[("limit", limit) for limit in (0, -1, 1_000_001, 1.0, "1")],
        *[("parts", parts) for parts in (0, -1, 21, 51, 1.0, None)],
        ("left", 5),
    ],
)
def test_what_makes_no_code_is_named(bare: Api, field: str, value: Any) -> None:
    assert list(bare.ask("POST", "/discounts", STAFF, {**FIRST, field: value}).wrong) == [field]
    assert bare.contents() == []


def test_a_minimum_comes_with_its_currency_and_parts_with_a_limit(bare: Api) -> None:
    for left_out, field in (("currency", "minimum"), ("minimum", "minimum"), ("limit", "parts")):
        body = {name: value for name, value in FIRST.items() if name != left_out}
        assert list(bare.ask("POST", "/discounts", STAFF, body).wrong) == [field]
    assert bare.contents() == []


def test_a_code_is_ended_and_stays_ended(api: Api) -> None:
    offer(api, limit=5)
    ended = api.ask("POST", "/discounts/spring/end", STAFF)
    assert (ended.status, ended.said["valid_until"], ended.said["left"]) == (200, ended.said["updated_at"], 5)
    assert api.ask("POST", "/discounts/SPRING/end", STAFF).said == ended.said
    assert place(api, "SPRING").problem == "discount-not-valid"


@pytest.mark.parametrize(("method", "path"), [("GET", "/discounts/none"), ("POST", "/discounts/none/end")])
def test_a_code_there_is_not_is_not_found(api: Api, method: str, path: str) -> None:
    refused = api.ask(method, path, STAFF)
    assert (refused.status, refused.problem, refused.said["what"]) == (404, "not-found", "discount code")


# with an order --------------------------------------------------------------------------------------------------------
def test_an_order_has_the_discount_it_was_placed_with(api: Api) -> None:
    offer(api, percent=15)
    placed = place(api, "spring", mug=1, pot=1)
    assert placed.status == 201
    assert placed.said["discount"] == {"code": "SPRING", "percent": 15, "amount": 375}
    assert (placed.said["total"], placed.said["due"], placed.said["paid"]) == (2125, 2125, 0)
    assert placed.said["tax"] == {"rate": 2000, "net": 1771, "tax": 354}
    assert api.ask("GET", placed.headers["location"], ANN).said == placed.said


def test_a_discount_is_not_for_shipping(api: Api) -> None:
    cup = {"product_id": "cup", "name": "Cup", "price": 1000, "currency": "USD"}
    api.ask("POST", "/products", STAFF, cup)
    api.ask("POST", "/products/cup/receipts", STAFF, {"quantity": 5}, key="r")
    offer(api)
    placed = place(api, "SPRING", cup=2).said
    assert (placed["shipping"], placed["total"]) == (590, 2000 - 200 + 590)


def test_a_code_that_does_not_hold_says_why_and_the_order_can_be_had_without(api: Api) -> None:
    offer(api, "ONCE", limit=1)
    offer(api, "BIG", minimum=10_000, currency="EUR")
    offer(api, "LATER", valid_from=instant(api.shop.now() + timedelta(days=1)))
    assert place(api, "once", "k1", mug=1).status == 201
    whys = {}
    for code in ("ONCE", "big", "Later", "none"):
        refused = place(api, code, "k2", mug=1)
        assert (refused.status, refused.problem, refused.said["code"]) == (409, "discount-not-valid", code.upper())
        whys[code] = refused.said["why"]
    assert whys["ONCE"] == "it has been redeemed as often as it may be (1)"
    assert whys["big"] == "it is for goods of 100.00 EUR and more"
    assert whys["Later"].startswith("it is valid from 2")
    assert whys["none"] == "there is none"
    assert place(api, None, "k2", mug=1).status == 201
    assert api.ask("GET", "/products/mug/stock").said["available"] == 8


@pytest.mark.parametrize("code", ["", "a#b", "a b", " SPRING", "x" * 41, 5, [], "é", "a\n"])
def test_what_can_be_no_code_is_malformed(api: Api, code: Any) -> None:
    assert list(place(api, code).wrong) == ["discount_code"]
    assert api.ask("GET", "/products/mug/stock").said["available"] == 10


def test_a_code_left_out_and_no_code_are_two_requests(api: Api) -> None:
    api.place("key-1")
    assert place(api, None, "key-1").problem == "key-reused"


def test_an_order_that_costs_nothing_is_paid(api: Api) -> None:
    offer(api, percent=100)
    placed = place(api, "SPRING").said
    assert (placed["status"], placed["total"], placed["due"]) == ("PAID", 0, 0)
    assert api.ask("GET", "/orders", STAFF, status="PENDING").said["items"] == []
