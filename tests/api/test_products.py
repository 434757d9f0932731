"""Tests products, their stock and their sales over the API."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from functions.api.http.fields import CategoryPath
from functions.dynamodb.writes import put_if_absent
from functions.model.entities import Sale
from functions.model.table import CATEGORY, PRODUCT, SALE, STOCK
from proof.support.actors import ensure_category
from proof.support.http_client import ANN, STAFF, ApiHarness
from proof.support.samples import SAMPLES

CUP: dict[str, Any] = {"product_id": "cup", "name": "Cup", "price": 700, "currency": "EUR"}
CATEGORIES = TypeAdapter(CategoryPath)
SEGMENT = re.compile(r"[a-z0-9-]{1,40}")
HOSTILE_CATEGORIES = [
    "", " ", "kitchen", "kitchen/", "//", "/a//b/", "/./", "/../", "/a b/", "/Mugs/", "/m\u00fcgs/",
    "/a_b/", "/a#b/", "#", "/#/", "/a/\n", "\n/", "/a\x00/", "/\u0661/", "/%2f/", "\\a\\", f"/{'x' * 41}/",
    "/" + "a/" * 500, "/" * 5000, "/a/,/b/",
]  # fmt: skip


def test_a_new_product_is_visible_to_all_users(bare: ApiHarness) -> None:
    made = bare.call("POST", "/products", STAFF, CUP)
    assert (made.status, made.headers["location"]) == (201, "/products/cup")
    assert made.body | CUP | {"category": "/", "catalog": "main"} == made.body
    assert bare.call("GET", "/products/cup").body == made.body
    assert bare.call("GET", "/products/cup/stock").body == {"product_id": "cup", "available": 0, "backorder": False}


def test_a_product_is_offered_once(bare: ApiHarness) -> None:
    bare.call("POST", "/products", STAFF, CUP)
    refused = bare.call("POST", "/products", STAFF, {**CUP, "price": 1})
    assert (refused.status, refused.problem_type, refused.body["what"]) == (409, "already-exists", "product")
    assert bare.call("GET", "/products/cup").body["price"] == 700


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("product_id", id) for id in ("", "a#b", "#", "a b", "-a", ".", "x" * 65, "é", "a/b", "a\n", 5, None)],
        *[("price", price) for price in (-1, 10**9 + 1, 7.0, 7.5, "700", None, True, [700])],
        *[("currency", currency) for currency in ("eur", "ABC", "", "EURO", None, 978)],
        *[("parts", parts) for parts in (0, -1, 91, 1.0, "1")],
        *[("name", name) for name in ("", " ", "x" * 201, "a\tb")],
        *[("backorder", backorder) for backorder in (0, "yes", None)],
        *[("category", category) for category in (*HOSTILE_CATEGORIES, 5, None, ["/"], True)],
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


def test_a_price_or_a_name_is_changed_and_the_other_stays(api: ApiHarness) -> None:
    assert api.call("PATCH", "/products/mug", STAFF, {"price": 990}).body["price"] == 990
    assert api.call("PATCH", "/products/mug", STAFF, {"name": "Red mug"}).body["name"] == "Red mug"
    seen = api.call("GET", "/products/mug").body
    assert (seen["name"], seen["price"]) == ("Red mug", 990)


def test_a_product_without_stock_can_be_ordered_while_staff_allow_backorders(bare: ApiHarness) -> None:
    assert bare.call("POST", "/products", STAFF, {**CUP, "backorder": True}).body["backorder"] is True
    assert bare.call("GET", "/products/cup/stock").body == {"product_id": "cup", "available": 0, "backorder": True}
    assert bare.call("PATCH", "/products/cup", STAFF, {"backorder": False}).body["backorder"] is False
    assert bare.call("GET", "/products/cup").body["backorder"] is False
    assert list(bare.call("POST", "/products", STAFF, {**CUP, "parts": 2, "backorder": True}).field_errors) == [
        "backorder"
    ]


def test_a_change_of_nothing_is_malformed(api: ApiHarness) -> None:
    assert list(api.call("PATCH", "/products/mug", STAFF, {}).field_errors) == ["body"]
    assert list(api.call("PATCH", "/products/mug", STAFF, {"currency": "USD"}).field_errors) == ["currency"]


@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("GET", "/stock"), ("PATCH", ""), ("POST", "/receipts"), ("POST", "/write-offs")]
)
def test_a_product_there_is_not_is_not_found(api: ApiHarness, method: str, path: str) -> None:
    bodies: dict[str, Any] = {
        "PATCH": {"price": 1},
        "POST/receipts": {"quantity": 1},
        "POST/write-offs": {"quantity": 1, "reason": "LOST"},
    }
    body = bodies.get(method + path)
    refused = api.call(method, f"/products/cup{path}", STAFF, body, key="k")
    assert (refused.status, refused.problem_type, refused.body["what"]) == (404, "not-found", "product")


def test_goods_come_in_once_for_each_key(api: ApiHarness) -> None:
    first = api.call("POST", "/products/mug/receipts", STAFF, {"quantity": 5}, key="delivery-1")
    again = api.call("POST", "/products/mug/receipts", STAFF, {"quantity": 5}, key="delivery-1")
    assert (first.status, again.status) == (201, 200)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert again.body == first.body == {"product_id": "mug", "quantity": 5}
    assert api.call("GET", "/products/mug/stock").body["available"] == 15
    misused = api.call("POST", "/products/mug/receipts", STAFF, {"quantity": 6}, key="delivery-1")
    assert (misused.status, misused.problem_type) == (422, "key-reused")
    elsewhere = api.call("POST", "/products/pot/receipts", STAFF, {"quantity": 5}, key="delivery-1")
    assert elsewhere.problem_type == "key-reused"


def test_goods_that_come_in_need_a_key(api: ApiHarness) -> None:
    assert list(api.call("POST", "/products/mug/receipts", STAFF, {"quantity": 5}).field_errors) == ["idempotency-key"]


@pytest.mark.parametrize("quantity", [0, -1, 1_000_001, 1.0, "5", None, True])
def test_goods_come_in_by_the_piece(api: ApiHarness, quantity: Any) -> None:
    refused = api.call("POST", "/products/mug/receipts", STAFF, {"quantity": quantity}, key="k")
    assert list(refused.field_errors) == ["quantity"]


def test_damaged_goods_are_written_off_once_for_each_key(api: ApiHarness) -> None:
    lost = {"quantity": 3, "reason": "DAMAGED"}
    first, again = (api.call("POST", "/products/mug/write-offs", STAFF, lost, key="shelf-4") for _ in range(2))
    assert (first.status, again.status, again.headers["idempotent-replayed"]) == (201, 200, "true")
    assert first.body == again.body == {"product_id": "mug", **lost}
    assert api.call("GET", "/products/mug/stock").body["available"] == 7
    misused = api.call("POST", "/products/mug/write-offs", STAFF, {**lost, "reason": "LOST"}, key="shelf-4")
    assert misused.problem_type == "key-reused"


def test_goods_that_orders_have_reserved_are_not_written_off(api: ApiHarness) -> None:
    api.place_order(mug=4)
    refused = api.call("POST", "/products/mug/write-offs", STAFF, {"quantity": 7, "reason": "LOST"}, key="k")
    assert (refused.status, refused.problem_type, refused.body["short"]) == (409, "out-of-stock", {"mug": 6})
    assert api.call("GET", "/products/mug/stock").body["available"] == 6
    assert api.call("POST", "/products/mug/write-offs", STAFF, {"quantity": 6, "reason": "LOST"}, key="k").status == 201


@pytest.mark.parametrize(
    ("body", "field"), [({"quantity": 0, "reason": "LOST"}, "quantity"), ({"quantity": 1, "reason": "gone"}, "reason")]
)
def test_a_write_off_has_a_quantity_and_a_known_reason(api: ApiHarness, body: dict[str, Any], field: str) -> None:
    assert list(api.call("POST", "/products/mug/write-offs", STAFF, body, key="k").field_errors) == [field]


def test_stock_in_parts_is_shown_as_one(bare: ApiHarness) -> None:
    bare.call("POST", "/products", STAFF, {**CUP, "parts": 3})
    bare.call("POST", "/products/cup/receipts", STAFF, {"quantity": 10}, key="k")
    assert bare.call("GET", "/products/cup/stock").body["available"] == 10


# categories -----------------------------------------------------------------------------------------------------------
@given(
    st.from_regex(r"\A/([a-z0-9-]{1,40}/){0,30}([a-z0-9-]{1,40})?\Z")
    | st.text("/a-#\n\u0661", max_size=24)
    | st.text(max_size=400),
)
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


def offer(api: ApiHarness, *ids: str, **more: Any) -> None:
    ensure_category(api.shop, more.get("category", "/"), more.get("catalog", "main"))
    for id in ids:
        assert api.call("POST", "/products", STAFF, {**CUP, "product_id": id, **more}).status == 201


def listed(api: ApiHarness, **query: Any) -> list[str]:
    return [product["product_id"] for product in api.call("GET", "/products", **query).body["items"]]


def pages(api: ApiHarness, **query: Any) -> Iterator[list[str]]:
    """Return all pages of a category, each as the ids of its products."""
    cursor: dict[str, Any] = {}
    while cursor != {"cursor": None}:
        said = api.call("GET", "/products", **query, **cursor).body
        yield [product["product_id"] for product in said["items"]]
        cursor = {"cursor": said["cursor"]}


def test_all_users_see_the_products_of_a_category_and_their_stock(api: ApiHarness) -> None:
    offer(api, "cup", category="/kitchen/cups/")
    said = api.call("GET", "/products").body
    each = [api.call("GET", f"/products/{id}").body for id in ("mug", "pot")]
    assert said == {"items": [{**product, "available": 10} for product in each], "cursor": None}
    assert listed(api, category="/") == ["mug", "pot"]
    assert listed(api, category="/kitchen/") == []
    (cup,) = api.call("GET", "/products", category="/kitchen/cups/").body["items"]
    assert (cup["product_id"], cup["category"], cup["available"]) == ("cup", "/kitchen/cups/", 0)


def test_a_product_moves_from_one_category_to_the_other(api: ApiHarness) -> None:
    ensure_category(api.shop, "/kitchen/")
    moved = api.call("PATCH", "/products/mug", STAFF, {"category": "/kitchen/"}).body
    assert (moved["category"], moved["price"], moved["version"]) == ("/kitchen/", 1250, 2)
    assert (listed(api), listed(api, category="/kitchen/")) == (["pot"], ["mug"])
    assert list(api.call("PATCH", "/products/mug", STAFF, {"category": "kitchen"}).field_errors) == ["category"]
    assert listed(api, category="/kitchen/") == ["mug"]


def test_a_discontinued_product_is_in_no_category_and_in_no_new_order_until_it_is_sold_again(api: ApiHarness) -> None:
    before = api.place_order("before", mug=1).body["order_id"]
    ended = api.call("PATCH", "/products/mug", STAFF, {"discontinued": True}).body
    assert (ended["discontinued"], ended["category"]) == (True, "/")
    assert listed(api) == ["pot"]
    refused = api.place_order("after", mug=1, pot=1)
    assert (refused.status, refused.problem_type, refused.body["product_ids"]) == (409, "discontinued", ["mug"])
    assert api.call("GET", "/products/mug").body["discontinued"] is True
    assert api.call("POST", f"/orders/{before}/cancel", ANN).body["status"] == "CANCELLED"
    assert api.call("GET", "/products/mug/stock").body["available"] == 10
    api.call("PATCH", "/products/mug", STAFF, {"discontinued": False})
    assert listed(api) == ["mug", "pot"]
    assert api.place_order("after", mug=1, pot=1).status == 201


def test_a_product_is_refused_in_a_category_that_does_not_exist(api: ApiHarness) -> None:
    ensure_category(api.shop, "/kitchen/", "b2b")
    created = api.call("POST", "/products", STAFF, {**CUP, "category": "/kitchen/"})
    moved = api.call("PATCH", "/products/mug", STAFF, {"category": "/kitchen/"})
    for refused in (created, moved):
        assert (refused.status, refused.problem_type) == (409, "unknown-category")
        assert (refused.body["field"], refused.body["path"]) == ("category", "/kitchen/")
        assert refused.body["detail"] == "category: the category /kitchen/ does not exist: create it first"
    assert api.call("GET", "/products/cup").problem_type == "not-found"
    assert api.call("PATCH", "/products/mug", STAFF, {"category": "/kitchen/", "catalog": "b2b"}).status == 200
    root = api.call("PATCH", "/products/mug", STAFF, {"category": "/", "catalog": "new"})
    assert root.status == 200, "every catalogue has a root"


def test_a_product_of_several_parts_is_listed_with_all_there_is_and_one_that_is_owed_with_none(api: ApiHarness) -> None:
    offer(api, "cup", category="/new/", parts=3)
    offer(api, "jug", category="/new/", backorder=True)
    api.call("POST", "/products/cup/receipts", STAFF, {"quantity": 10}, key="k")
    api.place_order(jug=2)
    shown = {
        one["product_id"]: one["available"] for one in api.call("GET", "/products", category="/new/").body["items"]
    }
    assert (
        shown
        == {"cup": 10, "jug": 0}
        == {id: api.call("GET", f"/products/{id}/stock").body["available"] for id in shown}
    )


def test_each_catalog_lists_its_own_products(api: ApiHarness) -> None:
    offer(api, "cup", category="/kitchen/", catalog="b2b")
    offer(api, "jug", category="/kitchen/")
    assert listed(api, category="/kitchen/") == listed(api, category="/kitchen/", catalog="main") == ["jug"]
    assert listed(api, category="/kitchen/", catalog="b2b") == ["cup"]
    assert api.call("PATCH", "/products/jug", STAFF, {"catalog": "b2b"}).body["catalog"] == "b2b"
    assert (listed(api, category="/kitchen/"), listed(api, category="/kitchen/", catalog="b2b")) == ([], ["cup", "jug"])
    cursor = api.call("GET", "/products", category="/kitchen/", catalog="b2b", limit=1).body["cursor"]
    assert list(api.call("GET", "/products", category="/kitchen/", cursor=cursor).field_errors) == ["cursor"]
    assert list(api.call("GET", "/products", catalog="B2B").field_errors) == ["catalog"]


def test_products_are_listed_once_each_by_id_at_every_page_size(bare: ApiHarness) -> None:
    ids = ["Cup", "a", "a-b", "a.b", "a0", "ab", "b"]
    offer(bare, *reversed(ids), category="/k/")
    offer(bare, "a-a", category="/k/k/")
    for limit in (1, 2, 3, 7, 100):
        found = list(pages(bare, category="/k/", limit=limit))
        assert [id for page in found for id in page] == sorted(ids)
        assert all(len(page) <= limit for page in found)


def test_beyond_a_megabyte_every_product_of_a_category_comes_once(bare: ApiHarness) -> None:
    ids, fat = [f"p{number:03}" for number in range(60)], "x" * 60_000
    for number, id in enumerate(ids):
        product = replace(SAMPLES[PRODUCT], product_id=id, name=fat, category="/fat/")
        stock = replace(SAMPLES[STOCK], product_id=id, part=0, available=number, moved=None)
        for image in (PRODUCT.encode(product), STOCK.encode(stock)):
            bare.shop.table.client.put_item(TableName=bare.shop.table.name, Item=image)
    found = list(pages(bare, category="/fat/", limit=100))
    assert [id for page in found for id in page] == ids
    assert len(found) > 3
    cursor = bare.call("GET", "/products", category="/fat/", limit=1).body["cursor"]
    (second,) = bare.call("GET", "/products", category="/fat/", limit=1, cursor=cursor).body["items"]
    assert (second["product_id"], second["available"]) == ("p001", 1)


@pytest.mark.parametrize("category", HOSTILE_CATEGORIES)
def test_a_malformed_category_is_rejected_without_a_request_to_the_table(api: ApiHarness, category: str) -> None:
    with api.record_requests() as sent:
        assert list(api.call("GET", "/products", category=category).field_errors) == ["category"]
    assert sent == []


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 101}, {"limit": "x"}, {"categroy": "/"}])
def test_a_list_of_products_that_makes_no_sense_is_malformed(api: ApiHarness, query: dict[str, Any]) -> None:
    assert list(api.call("GET", "/products", **query).field_errors) == list(query)


def test_a_cursor_of_products_belongs_to_its_category_and_to_no_other_list(api: ApiHarness) -> None:
    offer(api, "cup", "jug", category="/kitchen/")
    cursor = api.call("GET", "/products", limit=1).body["cursor"]
    assert listed(api, cursor=cursor, category="/") == ["pot"]
    assert list(api.call("GET", "/products", cursor=cursor, category="/kitchen/").field_errors) == ["cursor"]
    assert list(api.call("GET", "/products/mug/sales", STAFF, cursor=cursor).field_errors) == ["cursor"]
    sold(api, "2026-11-20T00:00:00.000Z", "2026-11-21T00:00:00.000Z")
    others = api.call("GET", "/products/mug/sales", STAFF, limit=1).body["cursor"]
    for wrong in (others, "x", cursor[:-4], cursor[:-1] + ("A" if cursor[-1] != "A" else "B") * 2):
        assert list(api.call("GET", "/products", cursor=wrong).field_errors) == ["cursor"]


# sales ----------------------------------------------------------------------------------------------------------------
def sold(api: ApiHarness, *moments: str) -> None:
    """Write a sale of a mug at each of these times, as the stream's reader does."""
    for number, moment in enumerate(moments):
        at: Any = moment
        line = Sale(
            order_id=f"o{number}",
            product_id="mug",
            customer_id=ANN.sub,
            placed_at=at,
            name="Blue mug",
            quantity=1,
            price=1250,
            currency="EUR",
            version=1,
            ttl=1 << 40,
        )
        api.shop.table.write(put_if_absent(SALE, line))


def sales(api: ApiHarness, **range_: Any) -> list[str]:
    return [sale["order_id"] for sale in api.call("GET", "/products/mug/sales", STAFF, **range_).body["items"]]


def test_sales_are_shown_newest_first_and_by_half_open_ranges(api: ApiHarness) -> None:
    sold(api, "2026-11-20T23:59:59.999Z", "2026-11-21T00:00:00.000Z", "2026-11-21T23:59:59.999Z")
    assert sales(api) == ["o2", "o1", "o0"]
    assert sales(api, from_="2026-11-21") == ["o2", "o1"]
    assert sales(api, from_="2026-11-21", to="2026-11-22") == ["o2", "o1"]
    assert sales(api, to="2026-11-21") == ["o0"]
    assert sales(api, to="2026-11-21T00:00:00.001Z") == ["o1", "o0"]
    assert sales(api, from_="2026-11-21T23:59:59.999Z") == ["o2"]
    assert sales(api, from_="2026-11-21T01:00:00+01:00") == ["o2", "o1"]


@pytest.mark.parametrize(
    "moment",
    [
        "", "yesterday", "2026-13-01", "2026-02-30", "20261121", "2026-W47-6", "2026-11-21T09:30", "2026-11-21 09Z",
        "2026-11-21T09:30:00", "2026-11-21T25:00:00Z", "2026-11-21T09:30:00.0001Z", "0000-01-01", "1",
        "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "\uff12026-11-21", "2026-11-21#",
    ],
)  # fmt: skip
def test_a_malformed_day_or_time_is_rejected(api: ApiHarness, moment: str) -> None:
    assert list(api.call("GET", "/products/mug/sales", STAFF, from_=moment).field_errors) == ["from"]


def test_a_cursor_belongs_to_its_range(api: ApiHarness) -> None:
    sold(api, "2026-11-20T00:00:00.000Z", "2026-11-21T00:00:00.000Z")
    asked: dict[str, Any] = {"limit": 1, "from_": "2026-11-01"}
    cursor = api.call("GET", "/products/mug/sales", STAFF, **asked).body["cursor"]
    assert sales(api, **asked, cursor=cursor) == ["o0"]
    elsewhere = api.call("GET", "/products/mug/sales", STAFF, limit=1, from_="2026-11-02", cursor=cursor)
    assert list(elsewhere.field_errors) == ["cursor"]
