"""Answers that caches may store: those of public routes, with an ETag, and 304 for a client that has the answer."""

import re
from urllib.parse import urlencode

import pytest

from functions.api.http.context import PUBLIC_ROUTES
from functions.model.public_routes import CACHED_ROUTES, cached_paths
from functions.shop import products
from functions.shop.shop import Caller
from stacks import PROJECT
from tests.api.every_route import QUERIES, ROUTES, call_route
from tests.support.http_client import ANN, STAFF, ApiHarness, HandlerResponse, Token, http_event, invoke_api

CACHEABLE = "public, max-age=0, s-maxage=10"


def read(path: str, has: str = "", token: Token | None = None) -> HandlerResponse:
    """Read a path. `has`: the header If-None-Match."""
    path, _, query = path.partition("?")
    headers = {"if-none-match": has} if has else {}
    return invoke_api(http_event("GET", path, token=token, headers=headers, query=query))


def read_route(world: dict[str, str], key: str, has: str = "", token: Token | None = None) -> HandlerResponse:
    query = {name.removesuffix("_"): value for name, value in QUERIES.get(key, {}).items()}
    return read(f"{key.partition(' ')[2].format(**world)}?{urlencode(query)}", has, token)


@pytest.mark.parametrize("key", sorted(CACHED_ROUTES))
def test_a_client_that_has_the_answer_gets_304_without_a_body(api: ApiHarness, world: dict[str, str], key: str) -> None:
    first = read_route(world, key)
    assert (first.status, first.headers["cache-control"]) == (200, CACHEABLE)
    etag = first.headers["etag"]
    for sent in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = read_route(world, key, sent)
        assert (again.status, again.text) == (304, ""), sent
        assert (again.headers["etag"], again.headers["cache-control"]) == (etag, CACHEABLE)
        assert "content-type" not in again.headers
    for sent in ("", '"other"', etag.strip('"'), etag[:-2] + '"'):
        assert read_route(world, key, sent).text == first.text, sent


def test_a_changed_answer_has_another_etag(api: ApiHarness) -> None:
    before = read("/products/mug").headers["etag"]
    staff = Caller(STAFF.sub, frozenset(STAFF.groups))
    products.update_product(api.shop, staff, "mug", "Blue mug", 1350)
    changed = read("/products/mug", before)
    assert (changed.status, changed.body["price"]) == (200, 1350)
    assert changed.headers["etag"] != before


def test_the_pages_of_a_list_have_etags_that_stay(api: ApiHarness) -> None:
    first = read("/products?category=/&limit=1")
    assert first.body["cursor"]
    assert read("/products?category=/&limit=1", first.headers["etag"]).status == 304


def test_no_cache_may_store_an_error(api: ApiHarness) -> None:
    for path in ("/products/none", "/products?unknown=1", "/nowhere", "/products?cursor=forged"):
        refused = read(path, "*")
        assert refused.status >= 400, path
        assert refused.headers["cache-control"] == "private, no-store", path
        assert "etag" not in refused.headers, path


def test_no_cache_may_store_any_other_answer(api: ApiHarness, world: dict[str, str]) -> None:
    statuses = set()
    for key in sorted(set(ROUTES) - {*CACHED_ROUTES, "GET /docs", "GET /openapi.json"}):
        for token in (ANN, STAFF):
            is_read = key.startswith("GET")
            answered = read_route(world, key, "*", token) if is_read else call_route(api, world, key, token)
            assert answered.headers["cache-control"] == "private, no-store", key
            assert "etag" not in answered.headers, key
            statuses.add(answered.status)
    assert {200, 201, 202, 403, 404, 409} <= statuses
    assert 304 not in statuses


def test_only_public_reads_are_cached() -> None:
    assert set(CACHED_ROUTES) < PUBLIC_ROUTES
    assert all(route.startswith("GET /") for route in CACHED_ROUTES)


def test_a_cached_answer_does_not_depend_on_the_caller(api: ApiHarness, world: dict[str, str]) -> None:
    for key in CACHED_ROUTES:
        answers = {read_route(world, key, token=token).headers["etag"] for token in (None, ANN, STAFF)}
        assert len(answers) == 1, key


def test_the_page_sends_no_token_to_the_cached_paths() -> None:
    """A token would give each customer their own entry in CloudFront's cache."""
    scripts = "\n".join(file.read_text("utf-8") for file in (PROJECT / "page").glob("*.js"))
    words = "|".join({path.split("/")[1] for path in cached_paths()})
    reads = re.findall(rf".*\bget\(`(?:/api/(?:{words})\b|[^`]*/stock`).*", scripts)
    assert len(reads) >= 3
    assert [read for read in reads if re.search(r"\bas\b", read)] == []
