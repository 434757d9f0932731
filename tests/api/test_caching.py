"""Answers to reads have an ETag. If a client sends this ETag, the API answers 304. Caches may store public answers."""

import re
from urllib.parse import urlencode

import pytest

from functions.adapters import object_store
from functions.api.http.context import PUBLIC_ROUTES
from functions.handlers.api import handler
from functions.model.public_routes import CACHED_ROUTES, GUEST_ROUTES, cached_paths
from functions.shop.shop import ShopContext
from proof.support.client_faults import fail_calls
from proof.support.every_route import QUERIES, ROUTES, as_guest, call_route, guest_token
from proof.support.http_client import ANN, STAFF, ApiHarness, HandlerResponse, Token, http_event, invoke_api
from proof.support.lambda_context import FakeContext
from stacks import PROJECT
from tests.api.hostile.request import token_for

CACHEABLE = "public, max-age=0, s-maxage=10"
PRIVATE = "private, no-store"
PAGES = {"GET /docs", "GET /openapi.json"}
SIGNED = {"GET /guest/orders/{order_id}/page", "GET /invoices/{invoice_id}/print", "GET /unsubscribe"}
OWN_CONTROL = dict.fromkeys(PAGES, "public, max-age=300")


def read(path: str, has: str = "", token: Token | None = None) -> HandlerResponse:
    """Read a path. `has`: the value of the header If-None-Match."""
    path, _, query = path.partition("?")
    headers = {"if-none-match": has} if has else {}
    return invoke_api(http_event("GET", path, token=token, headers=headers, query=query))


def read_route(world: dict[str, str], key: str, has: str = "", token: Token | None = None) -> HandlerResponse:
    world, token = as_guest(key, world), guest_token(world) if key in GUEST_ROUTES else token
    query = {name.removesuffix("_"): value for name, value in QUERIES.get(key, {}).items()}
    return read(f"{key.partition(' ')[2].format(**world)}?{urlencode(query)}", has, token)


def test_a_client_that_has_the_answer_gets_304_without_a_body(
    api: ApiHarness, world: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = api.shop.now()
    monkeypatch.setattr(ShopContext, "now", lambda _: now)  # a print link has the second in which it was created
    monkeypatch.setattr(object_store, "create_link", lambda *part: "/".join(map(str, part)))  # so has a signed link
    for key in [key for key in ROUTES if key.startswith("GET") and key not in SIGNED]:
        token = token_for(key)
        control = CACHEABLE if key in CACHED_ROUTES else OWN_CONTROL.get(key, PRIVATE)
        first = read_route(world, key, token=token)
        assert (first.status, first.headers["cache-control"]) == (200, control), key
        etag = first.headers["etag"]
        assert re.fullmatch('"[0-9a-f]{32}"', etag), "the ETag must be a strong one"
        again = read_route(world, key, etag, token)
        assert (again.status, again.text) == (304, ""), key
        assert (again.headers["etag"], again.headers["cache-control"]) == (etag, control), key
        assert "content-type" not in again.headers, key


def test_the_etag_may_be_weak_or_one_of_a_list(api: ApiHarness) -> None:
    first = read("/products/mug")
    etag = first.headers["etag"]
    for sent in (f"W/{etag}", f'"other", {etag}', "*"):
        assert read("/products/mug", sent).status == 304, sent
    for sent in ("", '"other"', etag.strip('"'), etag[:-2] + '"'):
        assert read("/products/mug", sent).text == first.text, sent


def test_a_changed_answer_is_sent_again_with_another_etag(api: ApiHarness) -> None:
    before = read("/customers/me", token=ANN).headers["etag"]
    api.call("PATCH", "/customers/me", ANN, {"name": "Anna"})
    changed = read("/customers/me", before, ANN)
    assert (changed.status, changed.body["name"]) == (200, "Anna")
    assert changed.headers["etag"] != before


def test_compressed_and_plain_answers_have_different_etags(api: ApiHarness) -> None:
    compressed = http_event("GET", "/openapi.json", headers={"accept-encoding": "gzip"})
    first, again = (handler(compressed, FakeContext())["headers"]["ETag"] for _ in range(2))
    assert first == again != read("/openapi.json").headers["etag"]


def test_no_cache_may_store_an_error(api: ApiHarness) -> None:
    for path in ("/products/none", "/products?unknown=1", "/nowhere", "/products?cursor=forged"):
        refused = read(path, "*")
        assert refused.status >= 400, path
        assert refused.headers["cache-control"] == "private, no-store", path
        assert "etag" not in refused.headers, path


@pytest.mark.parametrize(("code", "status"), [("AccessDeniedException", 500), ("ThrottlingException", 503)])
def test_no_cache_may_store_a_fault_of_a_public_read(
    api: ApiHarness, code: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api.shop.table, "sleep", lambda _: None)
    assert read("/products/mug").headers["cache-control"] == CACHEABLE
    with fail_calls("dynamodb", "GetItem", code):
        failed = read("/products/mug")
    assert (failed.status, failed.headers["cache-control"]) == (status, PRIVATE)


def test_no_cache_may_store_any_other_answer(api: ApiHarness, world: dict[str, str]) -> None:
    statuses = set()
    for key in sorted(set(ROUTES) - {*CACHED_ROUTES, *PAGES}):
        for token in (ANN, STAFF):
            is_read = key.startswith("GET")
            answered = read_route(world, key, "", token) if is_read else call_route(api, world, key, token)
            assert answered.headers["cache-control"] == PRIVATE, key
            assert answered.headers["x-content-type-options"] == "nosniff", key
            assert ("etag" in answered.headers) == (is_read and answered.status == 200), key
            statuses.add(answered.status)
    assert {200, 201, 202, 403, 404, 409} <= statuses
    assert 304 not in statuses


def test_a_write_ignores_the_etag_that_a_client_has(api: ApiHarness) -> None:
    raw = http_event("PUT", "/products/mug/followers/me", token=ANN, headers={"if-none-match": "*"})
    assert invoke_api(raw).status == 200


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
