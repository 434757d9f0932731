"""Categories: staff create them, and all users read them."""

from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest

from functions.model.table import CATEGORY
from proof.support.http_client import ANN, STAFF, ApiHarness
from proof.support.samples import SAMPLES
from tests.api.test_products import HOSTILE_CATEGORIES

TREE = ("/kitchen/", "/kitchen/cups/", "/kitchen/mugs/", "/kitchen/mugs/blue/", "/garden/")


def grow(api: ApiHarness, *paths: str, **more: Any) -> None:
    for path in paths:
        made = api.call("POST", "/categories", STAFF, {"path": path, "name": f"Name of {path}"[:200], **more})
        assert made.status == 201, made.text


def pages(api: ApiHarness, route: str, **query: Any) -> list[list[str]]:
    """Return all pages of a list, each as the paths of its categories."""
    found: list[list[str]] = []
    cursor: dict[str, Any] = {}
    while cursor != {"cursor": None}:
        said = api.call("GET", f"/categories/{route}", **query, **cursor).body
        found.append([category["path"] for category in said["items"]])
        cursor = {"cursor": said["cursor"]}
    return found


def test_a_new_category_is_shown_to_all_users_with_its_ancestors(bare: ApiHarness) -> None:
    grow(bare, *TREE)
    made = bare.call("POST", "/categories", STAFF, {"path": "/kitchen/mugs/red/", "name": "Red mugs"})
    assert (made.status, made.headers["location"]) == (
        201,
        "/categories?path=%2Fkitchen%2Fmugs%2Fred%2F&catalog=main",
    )
    path, _, query = made.headers["location"].partition("?")
    seen = bare.call("GET", path, path_="/kitchen/mugs/red/", catalog="main").body
    assert query == "path=%2Fkitchen%2Fmugs%2Fred%2F&catalog=main"
    assert [one["path"] for one in seen.pop("ancestors")] == ["/kitchen/", "/kitchen/mugs/"]
    assert seen == made.body
    assert (seen["catalog"], seen["parent"], seen["name"], seen["version"]) == (
        "main", "/kitchen/mugs/", "Red mugs", 1,
    )  # fmt: skip


def test_children_and_descendants_of_a_path_and_of_the_root(bare: ApiHarness) -> None:
    grow(bare, *TREE)
    assert pages(bare, "children") == pages(bare, "children", path_="/") == [["/garden/", "/kitchen/"]]
    assert pages(bare, "children", path_="/kitchen/") == [["/kitchen/cups/", "/kitchen/mugs/"]]
    assert pages(bare, "descendants") == [sorted(TREE)]
    assert pages(bare, "descendants", path_="/kitchen/") == [sorted(TREE[1:4])]
    assert pages(bare, "descendants", path_="/kitchen/", catalog="b2b") == [[]]


def test_a_category_three_hundred_levels_deep_is_shown_with_all_its_ancestors_and_its_lists_are_paged(
    bare: ApiHarness,
) -> None:
    deep = list(accumulate(("a/" for _ in range(300)), initial="/"))[1:]
    grow(bare, *deep)
    seen = bare.call("GET", "/categories", path_=deep[-1]).body
    assert [one["path"] for one in seen["ancestors"]] == deep[:-1]
    for found in (pages(bare, "descendants", limit=70), pages(bare, "descendants", limit=100)):
        assert [path for page in found for path in page] == deep
        assert len(found) > 1


def test_a_list_continues_after_the_longest_possible_path(bare: ApiHarness) -> None:
    above = list(accumulate((f"{'x' * 40}/" for _ in range(23)), initial="/"))[1:]
    longest = [f"{above[-1]}{letter * 40}/" for letter in "ab"]
    assert {len(path) for path in longest} == {985}
    grow(bare, *above, *longest)
    for route in ("children", "descendants"):
        assert pages(bare, route, path_=above[-1], limit=1) == [[longest[0]], [longest[1]], []]


def test_beyond_a_megabyte_every_category_comes_once(bare: ApiHarness) -> None:
    wanted = [f"/fat/{number:03}/" for number in range(30)]
    for path in wanted:
        fat = replace(SAMPLES[CATEGORY], path=path, name="x" * 100_000)
        bare.shop.table.client.put_item(TableName=bare.shop.table.name, Item=CATEGORY.encode(fat))
    for route in ("children", "descendants"):
        found = pages(bare, route, path_="/fat/", limit=100)
        assert [path for page in found for path in page] == wanted
        assert len(found) > 2


def test_a_category_gets_another_name(bare: ApiHarness) -> None:
    grow(bare, "/kitchen/")
    renamed = bare.call("PATCH", "/categories", STAFF, {"name": "Cooking"}, path_="/kitchen/")
    assert (renamed.status, renamed.body["name"], renamed.body["version"]) == (200, "Cooking", 2)
    assert bare.call("GET", "/categories", path_="/kitchen/").body["name"] == "Cooking"
    assert list(bare.call("PATCH", "/categories", STAFF, {}, path_="/kitchen/").field_errors) == ["name"]


def test_a_category_is_deleted_when_it_has_no_subcategories_and_lists_no_products(bare: ApiHarness) -> None:
    grow(bare, "/kitchen/", "/kitchen/mugs/", "/kitchens/")
    cup = {"product_id": "cup", "name": "Cup", "price": 700, "currency": "EUR", "category": "/kitchen/mugs/"}
    assert bare.call("POST", "/products", STAFF, cup).status == 201

    def delete(path: str) -> Any:
        said = bare.call("DELETE", "/categories", STAFF, path_=path)
        return said.body["what"] if said.status == 409 else said.body if said.status == 200 else said.problem_type

    assert (delete("/kitchen/"), delete("/kitchen/mugs/")) == ("subcategories", "products")
    bare.call("PATCH", "/products/cup", STAFF, {"discontinued": True})
    assert delete("/kitchen/mugs/") == {"catalog": "main", "path": "/kitchen/mugs/"}
    assert delete("/kitchen/mugs/") == "not-found"
    assert delete("/kitchen/") == {"catalog": "main", "path": "/kitchen/"}
    resumed = bare.call("PATCH", "/products/cup", STAFF, {"discontinued": False})
    assert resumed.problem_type == "unknown-category"
    moved = bare.call("PATCH", "/products/cup", STAFF, {"discontinued": False, "category": "/kitchens/"})
    assert moved.body["category"] == "/kitchens/"


def test_a_category_is_created_once_and_only_in_an_existing_parent(bare: ApiHarness) -> None:
    grow(bare, "/kitchen/")
    again = bare.call("POST", "/categories", STAFF, {"path": "/kitchen/", "name": "Another"})
    assert (again.status, again.problem_type, again.body["what"]) == (409, "already-exists", "category")
    lost = bare.call("POST", "/categories", STAFF, {"path": "/garden/pots/", "name": "Pots"})
    assert (lost.status, lost.problem_type, lost.body["path"]) == (409, "unknown-category", "/garden/")
    assert pages(bare, "descendants") == [["/kitchen/"]]


@pytest.mark.parametrize("method", ["GET", "PATCH"])
def test_a_category_there_is_not_is_not_found(bare: ApiHarness, method: str) -> None:
    body = {"name": "Kitchen"} if method == "PATCH" else None
    for path in ("/", "/kitchen/"):
        refused = bare.call(method, "/categories", STAFF, body, path_=path)
        assert (refused.status, refused.problem_type, refused.body["what"]) == (404, "not-found", "category")


@pytest.mark.parametrize("path", HOSTILE_CATEGORIES)
def test_a_malformed_category_path_is_rejected_without_a_request_to_the_table(bare: ApiHarness, path: str) -> None:
    with bare.record_requests() as sent:
        assert list(bare.call("POST", "/categories", STAFF, {"path": path, "name": "X"}).field_errors) == ["path"]
        assert list(bare.call("PATCH", "/categories", STAFF, {"name": "X"}, path_=path).field_errors) == ["path"]
        for route in ("", "/children", "/descendants"):
            assert list(bare.call("GET", f"/categories{route}", path_=path).field_errors) == ["path"]
    assert sent == []


@pytest.mark.parametrize(
    ("field", "value"), [("name", ""), ("name", "a\tb"), ("name", 5), ("catalog", "B2B"), ("catalog", ""), ("x", 1)]
)
def test_invalid_fields_of_a_category_are_named(bare: ApiHarness, field: str, value: Any) -> None:
    refused = bare.call("POST", "/categories", STAFF, {"path": "/kitchen/", "name": "Kitchen", field: value})
    assert list(refused.field_errors) == [field]
    assert bare.table_images() == []


def test_a_category_is_asked_for_by_its_path(bare: ApiHarness) -> None:
    assert list(bare.call("GET", "/categories").field_errors) == ["path"]
    assert list(bare.call("PATCH", "/categories", STAFF, {"name": "X"}).field_errors) == ["path"]


def test_staff_alone_make_categories(bare: ApiHarness) -> None:
    grow(bare, "/kitchen/")
    before = bare.table_images()
    assert bare.call("POST", "/categories", ANN, {"path": "/garden/", "name": "X"}).problem_type == "not-allowed"
    assert bare.call("PATCH", "/categories", ANN, {"name": "X"}, path_="/kitchen/").problem_type == "not-allowed"
    assert bare.call("POST", "/categories", None, {"path": "/garden/", "name": "X"}).problem_type == "unauthenticated"
    assert bare.table_images() == before


def test_a_cursor_of_categories_belongs_to_its_list(bare: ApiHarness) -> None:
    grow(bare, *TREE)
    cursor = bare.call("GET", "/categories/children", limit=1).body["cursor"]
    (second,) = bare.call("GET", "/categories/children", cursor=cursor).body["items"]
    assert second["path"] == "/kitchen/"
    others: list[tuple[str, dict[str, Any]]] = [
        ("children", {"path_": "/kitchen/"}),
        ("children", {"catalog": "b2b"}),
        ("descendants", {}),
    ]
    for route, query in others:
        assert list(bare.call("GET", f"/categories/{route}", cursor=cursor, **query).field_errors) == ["cursor"]
