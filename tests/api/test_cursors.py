"""A cursor is valid for one list only, with the same caller, resource and filters. All paged routes are tested."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from functions.api.app import app
from functions.api.http import paging
from functions.api.http.context import PUBLIC_ROUTES
from functions.api.http.openapi import document
from functions.api.http.paging import ListRequest
from functions.dynamodb.patterns import Query
from functions.dynamodb.table import Table
from proof.support.every_route import QUERIES, STAFF_ROUTES
from proof.support.http_client import ANN, STAFF, ApiHarness, HandlerResponse, Token

EXCLUSIVE = {"GET /orders": {"status", "number"}, "GET /customers": {"email"}}
"""By route: parameters that cannot be combined."""
OTHER_VALUES = {
    "status": "PAID",
    "number": "another1",
    "from": "2026-01-01",
    "to": "2027-01-01",
    "order": "oldest",
    "category": "/other/",
    "catalog": "other",
    "path": "/other/",
    "season": "2020-01",
    "day": "2020-01-01",
    "email": "bob@example.com",
}
"""For each filter of a list: another valid value."""


@dataclass(frozen=True)
class PagedList:
    """A list of the API. `query`: its filters."""

    route: str
    query: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return self.route.partition(" ")[2]

    @property
    def token(self) -> Token:
        return STAFF if self.route in STAFF_ROUTES or "status" in self.query else ANN

    def call(self, api: ApiHarness, world: Mapping[str, str], token: Token | None = None, **query: str) -> Any:
        asked = {name.removesuffix("_"): value for name, value in {**self.query, **query}.items()}
        caller = None if self.route in PUBLIC_ROUTES else token or self.token
        names = {f"{name}_" if name == "path" else name: value for name, value in asked.items()}
        return api.call("GET", self.path.format(**world), caller, **names)


def paged_lists() -> Iterator[PagedList]:
    """Yield every list of the served document that takes a cursor."""
    for path in document(app)["paths"]:
        if "cursor" in parameters_of(path):
            yield PagedList(f"GET {path}", QUERIES.get(f"GET {path}", {}))
    yield PagedList("GET /orders", {"status": "PENDING"})
    yield PagedList("GET /orders", {"number": "puew472m"})


def parameters_of(path: str) -> Mapping[str, str]:
    """Return where each parameter of a list is sent: in the path or in the query."""
    operation = document(app)["paths"][path].get("get", {})
    return {one["name"]: one["in"] for one in operation.get("parameters", ())}


LISTS = list(paged_lists())
SAME_LISTS = {"GET /orders", "GET /customers/{customer_id}/orders"}
"""Two routes of the same list: a customer's own orders."""


@dataclass
class Asked:
    """The table query of a request to a list. `request`: the ListRequest. `known`: the values of its keys and range."""

    request: ListRequest | None = None
    known: set[str] | None = None


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()
    after, query = ListRequest.after.fget, Table.query  # type: ignore[attr-defined]

    def noted_after(self: ListRequest) -> str | None:
        found.request = self
        position: str | None = after(self)
        return position

    def noted_query(self: Table, pattern: Query[Any], **known: Any) -> Any:
        if found.request is not None and pattern is found.request.query:
            keys = {name: value for name, value in known.items() if name not in ("limit", "after")}
            if pattern.filter_by:  # the order's id determines the other values
                keys = {pattern.filter_by: known[pattern.filter_by]}
            found.known = {str(value) for value in keys.values() if value}
        return query(self, pattern, **known)

    monkeypatch.setattr(ListRequest, "after", property(noted_after))
    monkeypatch.setattr(Table, "query", noted_query)
    return found


def cursor_of(api: ApiHarness, world: Mapping[str, str], one: PagedList, asked: Asked) -> str:
    """Return a cursor of this list, as if it had one more page."""
    asked.request = None
    assert one.call(api, world).status == 200, one
    assert asked.request is not None
    cursor = asked.request.seal_cursor("1")
    assert cursor is not None
    return cursor


def is_refused(response: HandlerResponse) -> bool:
    return response.status == 400 and "cursor" in response.field_errors


@pytest.mark.parametrize("one", LISTS, ids=str)
def test_a_cursor_is_bound_to_every_key_that_its_query_reads(
    api: ApiHarness, world: dict[str, str], asked: Asked, one: PagedList
) -> None:
    cursor_of(api, world, one, asked)
    assert asked.request is not None
    assert asked.known is not None, "the test saw the query"
    assert asked.known <= set(asked.request.arguments)


def test_a_cursor_is_refused_by_every_other_list(api: ApiHarness, world: dict[str, str], asked: Asked) -> None:
    cursors = [(one, cursor_of(api, world, one, asked)) for one in LISTS]
    assert len({one.route for one in LISTS}) > 25
    for one, cursor in cursors:
        assert not is_refused(one.call(api, world, cursor=cursor)), f"{one} takes its own cursor"
        for other in LISTS:
            if other != one and not ({one.route, other.route} == SAME_LISTS and not one.query and not other.query):
                assert is_refused(other.call(api, world, one.token, cursor=cursor)), f"{other} took a cursor of {one}"


def test_a_raised_version_of_the_key_rejects_earlier_cursors(
    api: ApiHarness, world: dict[str, str], asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    cursor = cursor_of(api, world, LISTS[0], asked)
    monkeypatch.setattr(paging, "CURSOR_KEY_VERSION", paging.CURSOR_KEY_VERSION + 1)
    assert is_refused(LISTS[0].call(api, world, cursor=cursor))


@pytest.mark.parametrize("one", LISTS, ids=str)
def test_a_cursor_is_refused_for_another_caller_resource_or_filter(
    api: ApiHarness, world: dict[str, str], asked: Asked, one: PagedList
) -> None:
    cursor = cursor_of(api, world, one, asked)
    if one.route not in PUBLIC_ROUTES:
        another = Token("another", one.token.groups)
        assert is_refused(one.call(api, world, another, cursor=cursor)), "another caller"
    for name, place in parameters_of(one.path).items():
        if place == "path":
            other = {**world, name: "other"}
            assert is_refused(one.call(api, other, cursor=cursor)), f"another {name}"
        elif name not in ("limit", "fields", "cursor"):  # limit and fields do not change which items are in the list
            changed: dict[str, Any] = {name: OTHER_VALUES[name]}
            response = one.call(api, world, cursor=cursor, **changed)
            excluded = response.field_errors.keys() & EXCLUSIVE.get(one.route, set())
            assert is_refused(response) or excluded, f"another {name}"
