"""Tests that customers follow products, and that staff see the followers."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from functions.model.table import FOLLOW
from proof.support.http_client import ANN, BOB, STAFF, ApiHarness, Token
from proof.support.samples import SAMPLES

MINE = "/products/mug/followers/me"


def pages(api: ApiHarness, path: str, token: Token, **query: Any) -> Iterator[list[Any]]:
    cursor: dict[str, Any] = {}
    while cursor != {"cursor": None}:
        said = api.call("GET", path, token, **query, **cursor).body
        yield said["items"]
        cursor = {"cursor": said["cursor"]}


def test_a_customer_follows_a_product_and_does_not_any_more_as_often_as_they_like(api: ApiHarness) -> None:
    first, again = api.call("PUT", MINE, ANN), api.call("PUT", MINE, ANN)
    assert (first.status, again.status) == (200, 200)
    assert first.body == again.body
    assert first.body["product_id"] == "mug"
    assert api.call("GET", "/customers/me/follows", ANN).body == {"items": [first.body], "cursor": None}
    assert api.call("GET", "/customers/ann/follows", STAFF).body["items"] == [first.body]
    seen = api.call("GET", "/products/mug/followers", STAFF).body
    assert seen == {"items": [{"customer_id": "ann"}], "cursor": None}, "the list shows only the ids of followers"
    for _ in range(2):
        gone = api.call("DELETE", MINE, ANN)
        assert (gone.status, gone.body) == (200, {"product_id": "mug"})
        assert api.call("GET", "/products/mug/followers", STAFF).body["items"] == []
        assert api.call("GET", "/customers/me/follows", ANN).body["items"] == []


def test_following_a_missing_product_is_not_found(api: ApiHarness) -> None:
    for method in ("PUT", "DELETE"):
        refused = api.call(method, "/products/nothing/followers/me", ANN)
        assert (refused.status, refused.problem_type, refused.body["what"]) == (404, "not-found", "product")


def test_only_customers_follow(api: ApiHarness) -> None:
    assert api.call("PUT", MINE, BOB).problem_type == "not-registered"
    assert api.call("PUT", MINE, None).problem_type == "unauthenticated"
    assert api.call("PUT", MINE, ANN, {"customer_id": "bob"}).field_errors == {
        "customer_id": "is not a known parameter or field"
    }
    assert api.call("GET", "/products/mug/followers", STAFF).body["items"] == []


def test_a_customer_cannot_follow_for_another_customer(api: ApiHarness) -> None:
    api.register_customer(BOB)
    api.call("PUT", MINE, ANN)
    for method in ("PUT", "DELETE"):
        assert api.call(method, "/products/mug/followers/ann", BOB).problem_type == "no-such-route"
    assert api.call("DELETE", MINE, BOB).status == 200
    assert api.call("GET", "/products/mug/followers", STAFF).body["items"] == [{"customer_id": "ann"}]


def test_the_follows_of_a_customer_are_shown_to_the_customer_and_staff(api: ApiHarness) -> None:
    api.call("PUT", MINE, ANN)
    for customer in ("ann", "nobody"):
        refused = api.call("GET", f"/customers/{customer}/follows", BOB)
        assert (refused.status, refused.problem_type, refused.body["what"]) == (404, "not-found", "customer")
    assert api.call("GET", "/products/mug/followers", ANN).problem_type == "not-allowed"


@pytest.mark.parametrize(
    "path", ["/products/a b/followers/me", "/products/-/followers/me", f"/products/{'x' * 65}/followers/me"]
)
def test_a_malformed_product_id_is_rejected(api: ApiHarness, path: str) -> None:
    with api.record_requests() as sent:
        assert api.call("PUT", path, ANN).problem_type == "malformed"
        assert api.call("DELETE", path, ANN).problem_type == "malformed"
    assert sent == []


LISTS = {"/products/mug/followers": (STAFF, "customer_id"), "/customers/me/follows": (ANN, "product_id")}


@pytest.mark.parametrize("path", LISTS)
def test_beyond_a_megabyte_every_follow_comes_once(bare: ApiHarness, path: str) -> None:
    token, name = LISTS[path]
    ids = [f"x{number:02}" for number in range(30)]
    for id in ids:
        image = FOLLOW.encode(replace(SAMPLES[FOLLOW], **{name: id}))
        fat = {**image, "written_by_a_newer_version": {"S": "x" * 100_000}}
        bare.shop.table.client.put_item(TableName=bare.shop.table.name, Item=fat)
    found = list(pages(bare, path, token, limit=100))
    assert [one[name] for page in found for one in page] == ids
    assert len(found) > 2


def test_a_cursor_of_follows_belongs_to_its_list(bare: ApiHarness) -> None:
    for number in range(3):
        for ids in ({"customer_id": f"c{number}"}, {"product_id": f"p{number}"}):
            image = FOLLOW.encode(replace(SAMPLES[FOLLOW], **ids))
            bare.shop.table.client.put_item(TableName=bare.shop.table.name, Item=image)
    cursor = bare.call("GET", "/products/mug/followers", STAFF, limit=1).body["cursor"]
    assert len(bare.call("GET", "/products/mug/followers", STAFF, cursor=cursor).body["items"]) == 2
    assert list(bare.call("GET", "/products/pot/followers", STAFF, cursor=cursor).field_errors) == ["cursor"]
    own = bare.call("GET", "/customers/me/follows", ANN, limit=1).body["cursor"]
    assert list(bare.call("GET", "/customers/me/follows", BOB, cursor=own).field_errors) == ["cursor"]
    assert list(bare.call("GET", "/products/mug/followers", STAFF, cursor=own).field_errors) == ["cursor"]
