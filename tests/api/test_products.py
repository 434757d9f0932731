"""Products, stock and sales."""

from typing import Any

import pytest

from functions.dynamodb.writes import put
from functions.model.entities import OrderLine
from functions.model.table import ORDER_LINE
from tests.api.asking import ANN, STAFF, Api

CUP: dict[str, Any] = {"product_id": "cup", "name": "Cup", "price": 700, "currency": "EUR"}


def test_a_product_is_offered_and_everybody_may_look_at_it(bare: Api) -> None:
    made = bare.ask("POST", "/products", STAFF, CUP)
    assert (made.status, made.headers["location"]) == (201, "/products/cup")
    assert made.said | CUP == made.said
    assert bare.ask("GET", "/products/cup").said == made.said
    assert bare.ask("GET", "/products/cup/stock").said == {"product_id": "cup", "available": 0, "backorder": False}


def test_a_product_is_offered_once(bare: Api) -> None:
    bare.ask("POST", "/products", STAFF, CUP)
    refused = bare.ask("POST", "/products", STAFF, {**CUP, "price": 1})
    assert (refused.status, refused.problem, refused.said["what"]) == (409, "already-exists", "product")
    assert bare.ask("GET", "/products/cup").said["price"] == 700


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("product_id", id) for id in ("", "a#b", "#", "a b", "-a", ".", "x" * 65, "é", "a/b", "a\n", 5, None)],
        *[("price", price) for price in (-1, 10**9 + 1, 7.0, 7.5, "700", None, True, [700])],
        *[("currency", currency) for currency in ("eur", "ABC", "", "EURO", None, 978)],
        *[("parts", parts) for parts in (0, -1, 21, 1.0, "1")],
        *[("name", name) for name in ("", " ", "x" * 201, "a\tb")],
        *[("backorder", backorder) for backorder in (0, "yes", None)],
        ("colour", "blue"),
    ],
)
def test_what_makes_no_product_is_named(bare: Api, field: str, value: Any) -> None:
    assert list(bare.ask("POST", "/products", STAFF, {**CUP, field: value}).wrong) == [field]
    assert bare.contents() == []


@pytest.mark.parametrize("price", [1, 10**9])
def test_a_price_may_be_very_little_and_very_much(bare: Api, price: int) -> None:
    assert bare.ask("POST", "/products", STAFF, {**CUP, "price": price}).said["price"] == price


def test_a_price_or_a_name_is_changed_and_the_other_stays(api: Api) -> None:
    assert api.ask("PATCH", "/products/mug", STAFF, {"price": 990}).said["price"] == 990
    assert api.ask("PATCH", "/products/mug", STAFF, {"name": "Red mug"}).said["name"] == "Red mug"
    seen = api.ask("GET", "/products/mug").said
    assert (seen["name"], seen["price"]) == ("Red mug", 990)


def test_a_product_may_be_ordered_when_there_is_none_while_staff_say_so(bare: Api) -> None:
    assert bare.ask("POST", "/products", STAFF, {**CUP, "backorder": True}).said["backorder"] is True
    assert bare.ask("GET", "/products/cup/stock").said == {"product_id": "cup", "available": 0, "backorder": True}
    assert bare.ask("PATCH", "/products/cup", STAFF, {"backorder": False}).said["backorder"] is False
    assert bare.ask("GET", "/products/cup").said["backorder"] is False
    assert list(bare.ask("POST", "/products", STAFF, {**CUP, "parts": 2, "backorder": True}).wrong) == ["backorder"]


def test_a_change_of_nothing_is_malformed(api: Api) -> None:
    assert list(api.ask("PATCH", "/products/mug", STAFF, {}).wrong) == ["body"]
    assert list(api.ask("PATCH", "/products/mug", STAFF, {"currency": "USD"}).wrong) == ["currency"]


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("GET", "/stock"), ("PATCH", ""), ("POST", "/receipts")])
def test_a_product_there_is_not_is_not_found(api: Api, method: str, path: str) -> None:
    body = {"PATCH": {"price": 1}, "POST": {"quantity": 1}}.get(method)
    refused = api.ask(method, f"/products/cup{path}", STAFF, body, key="k")
    assert (refused.status, refused.problem, refused.said["what"]) == (404, "not-found", "product")


def test_goods_come_in_once_for_each_key(api: Api) -> None:
    first = api.ask("POST", "/products/mug/receipts", STAFF, {"quantity": 5}, key="delivery-1")
    again = api.ask("POST", "/products/mug/receipts", STAFF, {"quantity": 5}, key="delivery-1")
    assert (first.status, again.status) == (201, 200)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert again.said == first.said == {"product_id": "mug", "quantity": 5}
    assert api.ask("GET", "/products/mug/stock").said["available"] == 15
    misused = api.ask("POST", "/products/mug/receipts", STAFF, {"quantity": 6}, key="delivery-1")
    assert (misused.status, misused.problem) == (422, "key-reused")
    elsewhere = api.ask("POST", "/products/pot/receipts", STAFF, {"quantity": 5}, key="delivery-1")
    assert elsewhere.problem == "key-reused"


def test_goods_that_come_in_need_a_key(api: Api) -> None:
    assert list(api.ask("POST", "/products/mug/receipts", STAFF, {"quantity": 5}).wrong) == ["idempotency-key"]


@pytest.mark.parametrize("quantity", [0, -1, 1_000_001, 1.0, "5", None, True])
def test_goods_come_in_by_the_piece(api: Api, quantity: Any) -> None:
    refused = api.ask("POST", "/products/mug/receipts", STAFF, {"quantity": quantity}, key="k")
    assert list(refused.wrong) == ["quantity"]


def test_stock_in_parts_is_shown_as_one(bare: Api) -> None:
    bare.ask("POST", "/products", STAFF, {**CUP, "parts": 3})
    bare.ask("POST", "/products/cup/receipts", STAFF, {"quantity": 10}, key="k")
    assert bare.ask("GET", "/products/cup/stock").said["available"] == 10


# sales ----------------------------------------------------------------------------------------------------------------
def sold(api: Api, *moments: str) -> None:
    """A sale of a mug at each moment, as the stream copies it."""
    for number, moment in enumerate(moments):
        at: Any = moment
        line = OrderLine(
            order_id=f"o{number}",
            product_id="mug",
            customer_id=ANN.sub,
            placed_at=at,
            name="Blue mug",
            quantity=1,
            price=1250,
            currency="EUR",
            version=1,
        )
        api.shop.table.write(put(ORDER_LINE, line))


def sales(api: Api, **range_: Any) -> list[str]:
    return [sale["order_id"] for sale in api.ask("GET", "/products/mug/sales", STAFF, **range_).said["items"]]


def test_sales_are_shown_newest_first_and_by_half_open_ranges(api: Api) -> None:
    sold(api, "2026-11-20T23:59:59.999Z", "2026-11-21T00:00:00.000Z", "2026-11-21T23:59:59.999Z")
    assert sales(api) == ["o2", "o1", "o0"]
    assert sales(api, from_="2026-11-21") == ["o2", "o1"]
    assert sales(api, from_="2026-11-21", to="2026-11-22") == ["o2", "o1"]
    assert sales(api, to="2026-11-21") == ["o0"]
    assert sales(api, to="2026-11-21T00:00:00.001Z") == ["o1", "o0"]
    assert sales(api, from_="2026-11-21T23:59:59.999Z") == ["o2"]
    assert sales(api, from_="2026-11-21T01:00:00+01:00") == ["o2", "o1"]
    assert sales(api, from_="2026-11-21", to="2026-11-21") == []


@pytest.mark.parametrize(
    "moment",
    [
        "", "yesterday", "2026-13-01", "2026-02-30", "20261121", "2026-W47-6", "2026-11-21T09:30", "2026-11-21 09Z",
        "2026-11-21T09:30:00", "2026-11-21T25:00:00Z", "2026-11-21T09:30:00.0001Z", "0000-01-01", "1",
        "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "\uff12026-11-21", "2026-11-21#",
    ],
)  # fmt: skip
def test_what_is_no_day_or_moment_is_malformed(api: Api, moment: str) -> None:
    assert list(api.ask("GET", "/products/mug/sales", STAFF, from_=moment).wrong) == ["from"]


def test_a_range_that_ends_before_it_begins_is_malformed(api: Api) -> None:
    refused = api.ask("GET", "/products/mug/sales", STAFF, from_="2026-11-22", to="2026-11-21")
    assert refused.wrong == {"from": "is after to"}


def test_a_cursor_belongs_to_its_range(api: Api) -> None:
    sold(api, "2026-11-20T00:00:00.000Z", "2026-11-21T00:00:00.000Z")
    asked: dict[str, Any] = {"limit": 1, "from_": "2026-11-01"}
    cursor = api.ask("GET", "/products/mug/sales", STAFF, **asked).said["cursor"]
    assert sales(api, **asked, cursor=cursor) == ["o0"]
    elsewhere = api.ask("GET", "/products/mug/sales", STAFF, limit=1, from_="2026-11-02", cursor=cursor)
    assert list(elsewhere.wrong) == ["cursor"]
