"""Products, stock and sales."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from functions.api.fields import Category
from functions.dynamodb.writes import put
from functions.model.entities import OrderLine
from functions.model.table import CATEGORY, ORDER_LINE, PRODUCT, STOCK
from tests.api.asking import ANN, STAFF, Api
from tests.model.samples import SAMPLES

CUP: dict[str, Any] = {"product_id": "cup", "name": "Cup", "price": 700, "currency": "EUR"}
CATEGORIES = TypeAdapter(Category)
SEGMENT = re.compile(r"[a-z0-9-]{1,40}")
HOSTILE_CATEGORIES = [
    "", " ", "kitchen", "/kitchen", "kitchen/", "//", "/a//b/", "/./", "/../", "/a b/", "/Mugs/", "/m\u00fcgs/",
    "/a_b/", "/a#b/", "#", "/#/", "/a/\n", "\n/", "/a\x00/", "/\u0661/", "/%2f/", "\\a\\", f"/{'x' * 41}/",
    "/" + "a/" * 500, "/" * 5000, "/a/,/b/",
]  # fmt: skip


def test_a_product_is_offered_and_everybody_may_look_at_it(bare: Api) -> None:
    made = bare.ask("POST", "/products", STAFF, CUP)
    assert (made.status, made.headers["location"]) == (201, "/products/cup")
    assert made.said | CUP | {"category": "/", "catalog": "main"} == made.said
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
        *[("category", category) for category in (*HOSTILE_CATEGORIES, 5, None, ["/"], True)],
        *[("catalog", catalog) for catalog in ("", "Main", "a/b", "a#b", "x" * 41, "a b", "a\n", 5, None)],
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


# categories -----------------------------------------------------------------------------------------------------------
@given(
    st.from_regex(r"\A/([a-z0-9-]{1,40}/){0,30}\Z") | st.text("/a-#\n\u0661", max_size=24) | st.text(max_size=400),
)
def test_a_category_is_a_path_of_plain_names_and_stands_in_a_key_as_it_is(text: str) -> None:
    names = text.split("/")[1:-1] if text.startswith("/") and text.endswith("/") else [""]
    good = len(text) <= 1000 and all(SEGMENT.fullmatch(name) for name in names)
    try:
        assert CATEGORIES.validate_python(text) == text
    except ValidationError:
        assert not good
    else:
        assert good
        partition, _ = PRODUCT.templates("gsi1")
        assert partition.spell({"catalog": "main", "category": text}) == f"CATEGORY#main#{text}"
        key = CATEGORY.write(replace(SAMPLES[CATEGORY], path=text))
        assert all(len(key[name]["S"]) <= 1024 for name in ("SK", "GSI1SK") if name in key)


def offer(api: Api, *ids: str, **more: Any) -> None:
    for id in ids:
        assert api.ask("POST", "/products", STAFF, {**CUP, "product_id": id, **more}).status == 201


def listed(api: Api, **query: Any) -> list[str]:
    return [product["product_id"] for product in api.ask("GET", "/products", **query).said["items"]]


def pages(api: Api, **query: Any) -> Iterator[list[str]]:
    """All pages of a category, each as the ids of its products."""
    cursor: dict[str, Any] = {}
    while cursor != {"cursor": None}:
        said = api.ask("GET", "/products", **query, **cursor).said
        yield [product["product_id"] for product in said["items"]]
        cursor = {"cursor": said["cursor"]}


def test_everybody_may_see_what_is_for_sale_and_how_many_there_are(api: Api) -> None:
    offer(api, "cup", category="/kitchen/cups/")
    said = api.ask("GET", "/products").said
    each = [api.ask("GET", f"/products/{id}").said for id in ("mug", "pot")]
    assert said == {"items": [{**product, "available": 10} for product in each], "cursor": None}
    assert listed(api, category="/") == ["mug", "pot"]
    assert listed(api, category="/kitchen/") == []
    (cup,) = api.ask("GET", "/products", category="/kitchen/cups/").said["items"]
    assert (cup["product_id"], cup["category"], cup["available"]) == ("cup", "/kitchen/cups/", 0)


def test_a_product_moves_from_one_category_to_the_other(api: Api) -> None:
    moved = api.ask("PATCH", "/products/mug", STAFF, {"category": "/kitchen/"}).said
    assert (moved["category"], moved["price"], moved["version"]) == ("/kitchen/", 1250, 2)
    assert (listed(api), listed(api, category="/kitchen/")) == (["pot"], ["mug"])
    assert list(api.ask("PATCH", "/products/mug", STAFF, {"category": "kitchen"}).wrong) == ["category"]
    assert listed(api, category="/kitchen/") == ["mug"]


def test_a_product_of_several_parts_is_listed_with_all_there_is_and_one_that_is_owed_with_none(api: Api) -> None:
    offer(api, "cup", category="/new/", parts=3)
    offer(api, "jug", category="/new/", backorder=True)
    api.ask("POST", "/products/cup/receipts", STAFF, {"quantity": 10}, key="k")
    api.place(jug=2)
    shown = {one["product_id"]: one["available"] for one in api.ask("GET", "/products", category="/new/").said["items"]}
    assert (
        shown
        == {"cup": 10, "jug": 0}
        == {id: api.ask("GET", f"/products/{id}/stock").said["available"] for id in shown}
    )


def test_each_catalogue_lists_its_own_products(api: Api) -> None:
    offer(api, "cup", category="/kitchen/", catalog="b2b")
    offer(api, "jug", category="/kitchen/")
    assert listed(api, category="/kitchen/") == listed(api, category="/kitchen/", catalog="main") == ["jug"]
    assert listed(api, category="/kitchen/", catalog="b2b") == ["cup"]
    assert api.ask("PATCH", "/products/jug", STAFF, {"catalog": "b2b"}).said["catalog"] == "b2b"
    assert (listed(api, category="/kitchen/"), listed(api, category="/kitchen/", catalog="b2b")) == ([], ["cup", "jug"])
    cursor = api.ask("GET", "/products", category="/kitchen/", catalog="b2b", limit=1).said["cursor"]
    assert list(api.ask("GET", "/products", category="/kitchen/", cursor=cursor).wrong) == ["cursor"]
    assert list(api.ask("GET", "/products", catalog="B2B").wrong) == ["catalog"]


def test_products_come_once_each_by_their_ids_whatever_the_page(bare: Api) -> None:
    ids = ["Cup", "a", "a-b", "a.b", "a0", "ab", "b"]
    offer(bare, *reversed(ids), category="/k/")
    offer(bare, "a-a", category="/k/k/")
    for limit in (1, 2, 3, 7, 100):
        found = list(pages(bare, category="/k/", limit=limit))
        assert [id for page in found for id in page] == sorted(ids)
        assert all(len(page) <= limit for page in found)


def test_f10_beyond_a_megabyte_every_product_of_a_category_comes_once(bare: Api) -> None:
    ids, fat = [f"p{number:03}" for number in range(60)], "x" * 60_000
    for number, id in enumerate(ids):
        product = replace(SAMPLES[PRODUCT], product_id=id, name=fat, category="/fat/")
        stock = replace(SAMPLES[STOCK], product_id=id, part=0, available=number)
        for image in (PRODUCT.write(product), STOCK.write(stock)):
            bare.shop.table.client.put_item(TableName=bare.shop.table.name, Item=image)
    found = list(pages(bare, category="/fat/", limit=100))
    assert [id for page in found for id in page] == ids
    assert len(found) > 3
    cursor = bare.ask("GET", "/products", category="/fat/", limit=1).said["cursor"]
    (second,) = bare.ask("GET", "/products", category="/fat/", limit=1, cursor=cursor).said["items"]
    assert (second["product_id"], second["available"]) == ("p001", 1)


@pytest.mark.parametrize("category", HOSTILE_CATEGORIES)
def test_what_is_no_category_is_named_and_nothing_is_asked(api: Api, category: str) -> None:
    with api.requests() as sent:
        assert list(api.ask("GET", "/products", category=category).wrong) == ["category"]
    assert sent == []


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 101}, {"limit": "x"}, {"categroy": "/"}])
def test_a_list_of_products_that_makes_no_sense_is_malformed(api: Api, query: dict[str, Any]) -> None:
    assert list(api.ask("GET", "/products", **query).wrong) == list(query)


def test_a_cursor_of_products_belongs_to_its_category_and_to_no_other_list(api: Api) -> None:
    offer(api, "cup", "jug", category="/kitchen/")
    cursor = api.ask("GET", "/products", limit=1).said["cursor"]
    assert listed(api, cursor=cursor, category="/") == ["pot"]
    assert list(api.ask("GET", "/products", cursor=cursor, category="/kitchen/").wrong) == ["cursor"]
    assert list(api.ask("GET", "/products/mug/sales", STAFF, cursor=cursor).wrong) == ["cursor"]
    sold(api, "2026-11-20T00:00:00.000Z", "2026-11-21T00:00:00.000Z")
    others = api.ask("GET", "/products/mug/sales", STAFF, limit=1).said["cursor"]
    for wrong in (others, "x", cursor[:-4], cursor[:-1] + ("A" if cursor[-1] != "A" else "B") * 2):
        assert list(api.ask("GET", "/products", cursor=wrong).wrong) == ["cursor"]


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
