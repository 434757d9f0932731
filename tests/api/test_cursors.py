"""A cursor is valid for one list only, with the same caller, resource and filters. All paged routes are tested."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from functions.api.http.context import PUBLIC_ROUTES
from functions.dynamodb import cursors
from functions.model.public_routes import GUEST_ROUTES
from functions.shop.lists import PagedQuery
from proof.support.every_route import QUERIES
from proof.support.http_client import ANN, BOB, STAFF, ApiHarness, HandlerResponse, Token
from tests.support.served_document import served_operations

EXCLUSIVE = {"GET /orders": {"status", "number", "phone"}, "GET /customers": {"email"}, "GET /audit": {"person"}}
"""By route: parameters that cannot be combined."""
OTHER_VALUES = {
    "status": "PAID",
    "number": "another1",
    "phone": "+43 1 555",
    "from": "2026-01-01",
    "to": "2027-01-01",
    "order": "oldest",
    "category": "/other/",
    "catalog": "other",
    "path": "/other/",
    "season": "2020-01",
    "day": "2020-01-01",
    "email": "bob@example.com",
    "item": "PRODUCT:pot",
    "person": "staff:bob",
}
"""For each filter of a list: another valid value."""


@dataclass(frozen=True)
class PagedList:
    """A list of the API. `query`: its filters."""

    route: str
    query: Mapping[str, str] = field(default_factory=dict)

    def call(self, api: ApiHarness, world: Mapping[str, str], token: Token = STAFF, **query: str) -> Any:
        asked = {name.removesuffix("_"): value for name, value in {**self.query, **query}.items()}
        caller = None if self.route in PUBLIC_ROUTES else token
        names = {f"{name}_" if name == "path" else name: value for name, value in asked.items()}
        return api.call("GET", self.route.partition(" ")[2].format(**world), caller, **names)


def paged_lists() -> Iterator[PagedList]:
    """Yield every list of the served document that takes a cursor. The lists of guests are aliases of other lists."""
    for route in served_operations():
        if "cursor" in parameters_of(route) and route not in GUEST_ROUTES:
            yield PagedList(route, QUERIES.get(route, {}))
    yield PagedList("GET /orders", {"status": "PENDING"})
    yield PagedList("GET /orders", {"number": "puew472m"})


def parameters_of(route: str) -> Mapping[str, str]:
    """Return where each parameter of a list is sent: in the path or in the query."""
    return {one["name"]: one["in"] for one in served_operations()[route].get("parameters", ())}


LISTS = list(paged_lists())


@pytest.fixture(autouse=True)
def more_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each page a cursor, as if every list had one more page."""
    seal = PagedQuery.seal
    monkeypatch.setattr(PagedQuery, "seal", lambda self, after: seal(self, after or "1"))


def cursor_of(api: ApiHarness, world: Mapping[str, str], one: PagedList) -> str:
    response = one.call(api, world)
    assert response.status == 200, one
    cursor: str = response.body["cursor"]
    return cursor


def is_refused(response: HandlerResponse) -> bool:
    return response.status == 400 and "cursor" in response.field_errors


def test_a_raised_version_of_the_key_rejects_earlier_cursors(
    api: ApiHarness, world: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cursor = cursor_of(api, world, LISTS[0])
    monkeypatch.setattr(cursors, "KEY_VERSION", cursors.KEY_VERSION + 1)
    assert is_refused(LISTS[0].call(api, world, cursor=cursor))


def test_a_cursor_is_refused_for_another_caller_resource_or_filter(api: ApiHarness, world: dict[str, str]) -> None:
    for one in LISTS:
        cursor = cursor_of(api, world, one)
        assert not is_refused(one.call(api, world, cursor=cursor)), f"{one}: the same list takes its cursor"
        if one.route not in PUBLIC_ROUTES:
            another = one.call(api, world, Token("another", STAFF.groups), cursor=cursor)
            assert is_refused(another), f"{one}: another caller"
        for name, place in parameters_of(one.route).items():
            if place == "path":
                response = one.call(api, {**world, name: "other"}, cursor=cursor)
                assert is_refused(response) or response.status == 404, f"{one}: another {name}"
            elif name not in ("limit", "fields", "cursor"):  # limit and fields do not change which items are in it
                changed: dict[str, Any] = {name: OTHER_VALUES[name]}
                response = one.call(api, world, cursor=cursor, **changed)
                excluded = response.field_errors.keys() & EXCLUSIVE.get(one.route, set())
                assert is_refused(response) or excluded, f"{one}: another {name}"


def test_access_is_checked_before_the_cursor(api: ApiHarness) -> None:
    path = "/customers/ann/orders"
    assert is_refused(api.call("GET", path, ANN, cursor="forged"))
    assert api.call("GET", path, BOB, cursor="forged").problem_type == api.call("GET", path, BOB).problem_type
