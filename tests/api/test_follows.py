"""Follows, as customers make them and staff see them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from functions.model.table import FOLLOW
from tests.api.asking import ANN, BOB, STAFF, Api, Token
from tests.model.samples import SAMPLES

MINE = "/products/mug/followers/me"


def pages(api: Api, path: str, token: Token, **query: Any) -> Iterator[list[Any]]:
    cursor: dict[str, Any] = {}
    while cursor != {"cursor": None}:
        said = api.ask("GET", path, token, **query, **cursor).said
        yield said["items"]
        cursor = {"cursor": said["cursor"]}


def test_a_customer_follows_a_product_and_does_not_any_more_as_often_as_they_like(api: Api) -> None:
    first, again = api.ask("PUT", MINE, ANN), api.ask("PUT", MINE, ANN)
    assert (first.status, again.status) == (200, 200)
    assert first.said == again.said
    assert first.said["product_id"] == "mug"
    assert api.ask("GET", "/customers/me/follows", ANN).said == {"items": [first.said], "cursor": None}
    assert api.ask("GET", "/customers/ann/follows", STAFF).said["items"] == [first.said]
    seen = api.ask("GET", "/products/mug/followers", STAFF).said
    assert seen == {"items": [{"customer_id": "ann"}], "cursor": None}, "an id, and nothing else"
    for _ in range(2):
        gone = api.ask("DELETE", MINE, ANN)
        assert (gone.status, gone.said) == (200, {"product_id": "mug"})
        assert api.ask("GET", "/products/mug/followers", STAFF).said["items"] == []
        assert api.ask("GET", "/customers/me/follows", ANN).said["items"] == []


def test_what_there_is_not_is_not_found(api: Api) -> None:
    for method in ("PUT", "DELETE"):
        refused = api.ask(method, "/products/nothing/followers/me", ANN)
        assert (refused.status, refused.problem, refused.said["what"]) == (404, "not-found", "product")


def test_only_customers_follow(api: Api) -> None:
    assert api.ask("PUT", MINE, BOB).problem == "not-registered"
    assert api.ask("PUT", MINE, None).problem == "unauthenticated"
    assert api.ask("PUT", MINE, ANN, {"customer_id": "bob"}).wrong == {"customer_id": "is not known here"}
    assert api.ask("GET", "/products/mug/followers", STAFF).said["items"] == []


def test_nobody_follows_for_another(api: Api) -> None:
    api.register(BOB)
    api.ask("PUT", MINE, ANN)
    for method in ("PUT", "DELETE"):
        assert api.ask(method, "/products/mug/followers/ann", BOB).problem == "no-such-route"
    assert api.ask("DELETE", MINE, BOB).status == 200
    assert api.ask("GET", "/products/mug/followers", STAFF).said["items"] == [{"customer_id": "ann"}]


def test_who_follows_what_is_theirs_and_staffs_to_know(api: Api) -> None:
    api.ask("PUT", MINE, ANN)
    for customer in ("ann", "nobody"):
        refused = api.ask("GET", f"/customers/{customer}/follows", BOB)
        assert (refused.status, refused.problem, refused.said["what"]) == (404, "not-found", "customer")
    assert api.ask("GET", "/products/mug/followers", ANN).problem == "not-allowed"


@pytest.mark.parametrize(
    "path", ["/products/a b/followers/me", "/products/-/followers/me", f"/products/{'x' * 65}/followers/me"]
)
def test_what_is_no_id_is_malformed(api: Api, path: str) -> None:
    with api.requests() as sent:
        assert api.ask("PUT", path, ANN).problem == "malformed"
        assert api.ask("DELETE", path, ANN).problem == "malformed"
    assert sent == []


LISTS = {"/products/mug/followers": (STAFF, "customer_id"), "/customers/me/follows": (ANN, "product_id")}


@pytest.mark.parametrize("path", LISTS)
def test_f10_beyond_a_megabyte_every_follow_comes_once(bare: Api, path: str) -> None:
    token, name = LISTS[path]
    ids = [f"x{number:02}" for number in range(30)]
    for id in ids:
        image = FOLLOW.write(replace(SAMPLES[FOLLOW], **{name: id}))
        fat = {**image, "written_by_a_newer_version": {"S": "x" * 100_000}}
        bare.shop.table.client.put_item(TableName=bare.shop.table.name, Item=fat)
    found = list(pages(bare, path, token, limit=100))
    assert [one[name] for page in found for one in page] == ids
    assert len(found) > 2


def test_a_cursor_of_follows_belongs_to_its_list(bare: Api) -> None:
    for number in range(3):
        for ids in ({"customer_id": f"c{number}"}, {"product_id": f"p{number}"}):
            image = FOLLOW.write(replace(SAMPLES[FOLLOW], **ids))
            bare.shop.table.client.put_item(TableName=bare.shop.table.name, Item=image)
    cursor = bare.ask("GET", "/products/mug/followers", STAFF, limit=1).said["cursor"]
    assert len(bare.ask("GET", "/products/mug/followers", STAFF, cursor=cursor).said["items"]) == 2
    assert list(bare.ask("GET", "/products/pot/followers", STAFF, cursor=cursor).wrong) == ["cursor"]
    own = bare.ask("GET", "/customers/me/follows", ANN, limit=1).said["cursor"]
    assert list(bare.ask("GET", "/customers/me/follows", BOB, cursor=own).wrong) == ["cursor"]
    assert list(bare.ask("GET", "/products/mug/followers", STAFF, cursor=own).wrong) == ["cursor"]
