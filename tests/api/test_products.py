"""Tests products, their stock and their sales over the API."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from functions.api.http.fields import CategoryPath
from functions.model.table import CATEGORY, PRODUCT
from proof.support.actors import ensure_category
from proof.support.http_client import STAFF, ApiHarness
from proof.support.samples import SAMPLES

CUP: dict[str, Any] = {"product_id": "cup", "name": "Cup", "price": 700, "currency": "EUR"}
CATEGORIES = TypeAdapter(CategoryPath)
SEGMENT = re.compile(r"[a-z0-9-]{1,40}")


def test_a_new_product_is_visible_to_all_users(bare: ApiHarness) -> None:
    made = bare.call("POST", "/products", STAFF, CUP)
    assert (made.status, made.headers["location"]) == (201, "/products/cup")
    assert made.body | CUP | {"category": "/", "catalog": "main"} == made.body
    assert bare.call("GET", "/products/cup").body == made.body
    assert bare.call("GET", "/products/cup/stock").body == {"product_id": "cup", "available": 0, "backorder": False}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("product_id", id) for id in ("", "a#b", "#", "a b", "-a", ".", "x" * 65, "é", "a/b", "a\n", 5, None)],
        *[("price", price) for price in (-1, 10**9 + 1, 7.0, 7.5, "700", None, True, [700])],
        *[("currency", currency) for currency in ("eur", "ABC", "", "EURO", None, 978)],
        *[("parts", parts) for parts in (0, -1, 91, 1.0, "1")],
        *[("name", name) for name in ("", " ", "x" * 201, "a\tb")],
        *[("backorder", backorder) for backorder in (0, "yes", None)],
        *[
            ("category", category)
            for category in ("", "kitchen/", "//", "/../", "/Mugs/", "/a#b/", 5, None, ["/"], True)
        ],
        *[("catalog", catalog) for catalog in ("", "Main", "a/b", "a#b", "x" * 41, "a b", "a\n", 5, None)],
        ("colour", "blue"),
    ],
)
def test_invalid_fields_of_a_product_are_named(bare: ApiHarness, field: str, value: Any) -> None:
    assert list(bare.call("POST", "/products", STAFF, {**CUP, field: value}).field_errors) == [field]
    assert bare.table_images() == []


@pytest.mark.parametrize("price", [1, 10**9])
def test_a_price_may_be_very_little_and_very_much(bare: ApiHarness, price: int) -> None:
    assert bare.call("POST", "/products", STAFF, {**CUP, "price": price}).body["price"] == price


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


def test_goods_that_come_in_need_a_key(api: ApiHarness) -> None:
    made = api.call("POST", "/products/mug/receipts", STAFF, {"quantity": 5}, key="delivery-1")
    assert (made.status, made.body) == (201, {"product_id": "mug", "quantity": 5})
    assert api.call("GET", "/products/mug/stock").body["available"] == 15
    assert list(api.call("POST", "/products/mug/receipts", STAFF, {"quantity": 5}).field_errors) == ["idempotency-key"]


@pytest.mark.parametrize("quantity", [0, -1, 1_000_001, 1.0, "5", None, True])
def test_goods_come_in_by_the_piece(api: ApiHarness, quantity: Any) -> None:
    refused = api.call("POST", "/products/mug/receipts", STAFF, {"quantity": quantity}, key="k")
    assert list(refused.field_errors) == ["quantity"]


def test_damaged_goods_are_written_off(api: ApiHarness) -> None:
    lost = {"quantity": 3, "reason": "DAMAGED"}
    made = api.call("POST", "/products/mug/write-offs", STAFF, lost, key="shelf-4")
    assert (made.status, made.body) == (201, {"product_id": "mug", **lost})
    assert api.call("GET", "/products/mug/stock").body["available"] == 7


@pytest.mark.parametrize(
    ("body", "field"), [({"quantity": 0, "reason": "LOST"}, "quantity"), ({"quantity": 1, "reason": "gone"}, "reason")]
)
def test_a_write_off_has_a_quantity_and_a_known_reason(api: ApiHarness, body: dict[str, Any], field: str) -> None:
    assert list(api.call("POST", "/products/mug/write-offs", STAFF, body, key="k").field_errors) == [field]


# categories -----------------------------------------------------------------------------------------------------------
@given(
    st.from_regex(r"\A/([a-z0-9-]{1,40}/){0,30}([a-z0-9-]{1,40})?\Z")
    | st.text("/a-#\n\u0661", max_size=24)
    | st.text(max_size=400),
)
@example("/a/\n")
@example("/" + "/".join(["a" * 40] * 24) + "/" + "a" * 15)
def test_a_category_is_a_path_of_plain_names_and_is_stored_in_a_key_with_a_slash_at_its_end(text: str) -> None:
    whole = text if text.endswith("/") else f"{text}/"
    names = whole.split("/")[1:-1] if text.startswith("/") else [""]
    good = len(text) <= 1000 and all(SEGMENT.fullmatch(name) for name in names)
    try:
        assert CATEGORIES.validate_python(text) == whole
    except ValidationError:
        assert not good
    else:
        assert good
        partition, _ = PRODUCT.templates("gsi1")
        assert partition.render({"catalog": "main", "offered_in": whole}) == f"CATEGORY#main#{whole}"
        key = CATEGORY.encode(replace(SAMPLES[CATEGORY], path=whole))
        assert all(len(key[name]["S"]) <= 1024 for name in ("SK", "GSI1SK") if name in key)


def test_all_users_see_the_products_of_a_category_and_their_stock(api: ApiHarness) -> None:
    ensure_category(api.shop, "/kitchen/", "b2b")
    cup = api.call("POST", "/products", STAFF, {**CUP, "category": "/kitchen", "catalog": "b2b"}).body
    each = [api.call("GET", f"/products/{id}").body for id in ("mug", "pot")]
    of_root = {"items": [{**product, "available": 10} for product in each], "cursor": None}
    assert api.call("GET", "/products").body == api.call("GET", "/products", category="/").body == of_root
    assert api.call("GET", "/products", category="/kitchen/").body["items"] == []
    assert api.call("GET", "/products", category="/kitchen/", catalog="b2b").body["items"] == [{**cup, "available": 0}]


@pytest.mark.parametrize(
    "query",
    [{"limit": 0}, {"limit": 101}, {"limit": "x"}, {"categroy": "/"}, {"category": "kitchen"}, {"catalog": "B2B"}],
)
def test_a_malformed_list_of_products_is_rejected_without_a_request_to_the_table(
    api: ApiHarness, query: dict[str, Any]
) -> None:
    with api.record_requests() as sent:
        assert list(api.call("GET", "/products", **query).field_errors) == list(query)
    assert sent == []
