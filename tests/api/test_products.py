"""Tests products, their stock and their sales over the API."""

from typing import Any

from proof.support.actors import ensure_category
from proof.support.http_client import STAFF, ApiHarness

CUP: dict[str, Any] = {"product_id": "cup", "name": "Cup", "price": 700, "currency": "EUR"}


def test_a_new_product_is_visible_to_all_users(bare: ApiHarness) -> None:
    made = bare.call("POST", "/products", STAFF, CUP)
    assert (made.status, made.headers["location"]) == (201, "/products/cup")
    assert made.body | CUP | {"category": "/", "catalog": "main"} == made.body
    assert bare.call("GET", "/products/cup").body == made.body
    assert bare.call("GET", "/products/cup/stock").body == {"product_id": "cup", "available": 0, "backorder": False}


def test_each_field_of_a_product_can_be_changed(bare: ApiHarness) -> None:
    ensure_category(bare.shop, "/kitchen/", "b2b")
    bare.call("POST", "/products", STAFF, {**CUP, "parts": 3})
    change = {"name": "Red cup", "price": 990, "category": "/kitchen/", "catalog": "b2b"}
    change |= {"parts": 1, "backorder": True, "discontinued": True}
    changed = bare.call("PATCH", "/products/cup", STAFF, {**change, "reason": "sale"})
    assert (changed.status, changed.body | change) == (200, changed.body)
    assert bare.call("GET", "/products/cup").body == changed.body
    assert bare.call("GET", "/products/cup/stock").body == {"product_id": "cup", "available": 0, "backorder": True}


def test_a_change_of_nothing_is_malformed(api: ApiHarness) -> None:
    assert list(api.call("PATCH", "/products/mug", STAFF, {}).field_errors) == ["body"]
    assert list(api.call("PATCH", "/products/mug", STAFF, {"currency": "USD"}).field_errors) == ["currency"]


def test_goods_that_come_in_are_in_stock(api: ApiHarness) -> None:
    made = api.call("POST", "/products/mug/receipts", STAFF, {"quantity": 5}, key="delivery-1")
    assert (made.status, made.body) == (201, {"product_id": "mug", "quantity": 5})
    assert api.call("GET", "/products/mug/stock").body["available"] == 15


def test_damaged_goods_are_written_off(api: ApiHarness) -> None:
    lost = {"quantity": 3, "reason": "DAMAGED"}
    made = api.call("POST", "/products/mug/write-offs", STAFF, lost, key="shelf-4")
    assert (made.status, made.body) == (201, {"product_id": "mug", **lost})
    assert api.call("GET", "/products/mug/stock").body["available"] == 7


# categories -----------------------------------------------------------------------------------------------------------
def test_all_users_see_the_products_of_a_category_and_their_stock(api: ApiHarness) -> None:
    ensure_category(api.shop, "/kitchen/", "b2b")
    cup = api.call("POST", "/products", STAFF, {**CUP, "category": "/kitchen", "catalog": "b2b"}).body
    each = [api.call("GET", f"/products/{id}").body for id in ("mug", "pot")]
    of_root = {"items": [{**product, "available": 10} for product in each], "cursor": None}
    assert api.call("GET", "/products").body == api.call("GET", "/products", category="/").body == of_root
    assert api.call("GET", "/products", category="/kitchen/").body["items"] == []
    assert api.call("GET", "/products", category="/kitchen/", catalog="b2b").body["items"] == [{**cup, "available": 0}]
