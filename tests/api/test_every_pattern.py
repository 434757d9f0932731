"""Every access pattern (a named read of the table) is used by at least one route of the API, with one exception."""

import string
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from functions.dynamodb.patterns import Get, Query
from functions.dynamodb.table import Table
from functions.model.patterns import PATTERNS
from proof.support.every_route import ROUTES, call_route
from proof.support.http_client import ANN, STAFF, ApiHarness
from tools.declarations import declared_at

ROWS = {
    *(f"A{number}" for number in range(1, 6)),
    "A6",  # companies
    *(f"A{number}" for number in range(7, 27)),
}
MORE: tuple[tuple[str, dict[str, str]], ...] = (
    ("/customers", {"email": "ann@example.com"}),
    ("/orders", {"status": "PENDING"}),
    ("/orders", {"number": "PUEW472M"}),
    ("/orders", {"phone": "+43 1 234567"}),
    ("/orders", {"status": "PENDING", "order": "oldest"}),
    ("/orders", {"order": "oldest"}),
    ("/invoices", {"order": "oldest"}),
    ("/payments", {"order": "oldest"}),
    ("/audit", {"person": "staff:ann"}),
)
"""Requests with query parameters, which use further access patterns."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Record which routes use each access pattern from now on. The test sets the current route under the key `now`."""
    found: dict[str, set[str]] = defaultdict(set)
    get, query, batch_get = Table.get, Table.query, Table.batch_get

    def noted_get(self: Table, pattern: Get[Any], **known: str) -> Any:
        found[pattern.id].update(found["now"])
        return get(self, pattern, **known)

    def noted_query(self: Table, pattern: Query[Any], **known: Any) -> Any:
        found[pattern.id].update(found["now"])
        return query(self, pattern, **known)

    def noted_batch(self: Table, keys: Sequence[Mapping[str, Any]], **how: bool) -> list[Any]:
        if keys and all(key["PK"]["S"].startswith("CATALOG#") for key in keys):
            found["A8d"].update(found["now"])
        if any(key["PK"]["S"].startswith("STOCK#") for key in keys):
            found["A11"].update(found["now"])
        return batch_get(self, keys, **how)

    monkeypatch.setattr(Table, "get", noted_get)
    monkeypatch.setattr(Table, "query", noted_query)
    monkeypatch.setattr(Table, "batch_get", noted_batch)
    return found


def test_every_access_pattern_is_used_by_a_route(
    api: ApiHarness, world: dict[str, str], asked: dict[str, set[str]]
) -> None:
    for key in sorted(ROUTES, key=lambda key: (not key.startswith("GET"), key == "DELETE /customers/{customer_id}")):
        for token in (ANN, STAFF):
            asked["now"] = {key}
            call_route(api, world, key, token)
    for path, named in MORE:
        asked["now"] = {f"GET {path}"}
        assert api.call("GET", path, STAFF, **named).status == 200
    by_row = {id: asked[id] for id in [pattern.id for pattern in PATTERNS if pattern.id[0] == "A"] + ["A8d"]}
    for id, routes in by_row.items():
        if not routes and id != "A10c":  # only commands and the erasure read A10c, no route does
            at = declared_at("patterns", id)
            pytest.fail(f"{at}: no route asks {id}: add one to functions/api/routes, or name it C…, R…", pytrace=False)
    assert {id.rstrip(string.ascii_lowercase) for id in by_row} >= ROWS
