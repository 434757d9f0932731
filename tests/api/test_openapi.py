"""Tests the OpenAPI document, and the list of problems."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from functions.api.app import app
from functions.api.http.context import PUBLIC_ROUTES
from functions.api.http.guard import IMPORT_ROUTE, METHODS_WITH_BODY, UploadedFile
from functions.api.http.problems import PROBLEM_TYPES
from functions.api.routes.imports import parse_lines
from functions.handlers.api import handler
from functions.model.public_routes import GUEST_ROUTES
from functions.runtime.environment import load_environment
from functions.shop.imports import ParsedLine
from proof.support.every_route import GUEST_LINK_ROUTES
from proof.support.http_client import http_event, invoke_api
from tests.support.served_document import served_document, served_operations

UNDESCRIBED = {"GET /openapi.json", "GET /docs"}
PAGES = dict.fromkeys(
    ("GET /guest/orders/{order_id}/page", "GET /invoices/{invoice_id}/print", "GET /unsubscribe", "POST /unsubscribe"),
    "text/html",
)
DOCUMENT = served_document()
OPERATIONS = served_operations()


def test_it_is_served_without_a_token_and_may_be_kept_for_a_while() -> None:
    served = invoke_api(http_event("GET", "/openapi.json"))
    assert (served.status, served.headers["content-type"]) == (200, "application/json")
    assert served.body == DOCUMENT
    assert served.headers["cache-control"] == "public, max-age=300"
    assert served.body["openapi"].startswith("3.1")


def test_the_document_is_served_compressed_if_the_client_accepts_it() -> None:
    raw = http_event("GET", "/openapi.json", headers={"accept-encoding": "gzip"})
    response = handler(raw, None)
    assert response["headers"]["Content-Encoding"] == "gzip"
    assert len(response["body"]) < 57_000, "each route adds about 300; the page loads the document once in 5 minutes"


def test_every_route_is_described() -> None:
    assert set(OPERATIONS) == {route.key for route in app.known_routes} - UNDESCRIBED


@pytest.mark.parametrize("key", OPERATIONS)
def test_a_route_describes_its_action_and_its_responses(key: str) -> None:
    operation = OPERATIONS[key]
    assert re.match(r"[A-Z].*\.$", operation["summary"], re.DOTALL)
    assert len(operation["tags"]) == 1
    assert not [name for name in operation if name.startswith("x-")]
    good = [status for status in operation["responses"] if status.startswith("2")]
    assert good
    with_body = {status: answer for status, answer in operation["responses"].items() if status != "304"}
    for status, answer in with_body.items():
        (media_type,) = answer["content"]
        answers = PAGES.get(key, "application/json")
        assert media_type == (answers if status in good else "application/problem+json")
        assert answer["content"][media_type]["schema"]
    assert (operation.get("security") == []) == (key in PUBLIC_ROUTES)
    assert (operation.get("security") == [{"guest_link": []}]) == (key in GUEST_ROUTES)
    assert ("401" in operation["responses"]) == (key not in PUBLIC_ROUTES or key in GUEST_LINK_ROUTES)
    assert ("304" in operation["responses"]) == key.startswith("GET")
    assert "content" not in operation["responses"].get("304", {})
    limited = not key.startswith("GET") and (key not in PUBLIC_ROUTES or key == "POST /guest/orders")
    assert ("429" in operation["responses"]) == limited
    assert ("413" in operation["responses"]) == (key.partition(" ")[0] in METHODS_WITH_BODY)


def test_operations_have_names_of_their_own() -> None:
    names = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(set(names)) == len(names)


def subclasses(cls: Any) -> Iterator[Any]:
    for one in cls.__subclasses__():
        yield one
        yield from subclasses(one)


BODIES = {
    content["schema"]["$ref"].rpartition("/")[2]
    for operation in OPERATIONS.values()
    for content in operation.get("requestBody", {}).get("content", {}).values()
    if "$ref" in content["schema"]
}
MODELS = {model.__name__: model for model in subclasses(BaseModel) if model.__module__.startswith("functions.")}


@pytest.mark.parametrize("name", sorted(BODIES))
def test_every_request_body_has_a_valid_example(name: str) -> None:
    # `find_omissions` checks that each body has an example
    for example in DOCUMENT["components"]["schemas"][name].get("examples", ()):
        assert MODELS[name].model_validate(example)


def test_a_file_of_products_has_an_example_of_each_kind_all_of_whose_lines_are_taken() -> None:
    content = OPERATIONS[IMPORT_ROUTE]["requestBody"]["content"]
    assert content.keys() == {"application/x-ndjson", "text/csv"}
    for media_type, described in content.items():
        lines = parse_lines(UploadedFile(media_type, described["example"].encode()))
        assert [line.product["product_id"] for line in lines if isinstance(line, ParsedLine)] == ["mug", "pot"]


def test_without_a_page_the_docs_are_a_list_of_problems_that_loads_and_runs_nothing() -> None:
    served = invoke_api(http_event("GET", "/docs"))
    assert (served.status, served.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert served.headers["content-security-policy"].startswith("default-src 'none'; base-uri 'none'")
    assert not re.search(r"<(script|style|link|img|iframe|object|embed|form|base)|\bon\w+=|\bsrc=", served.text)
    assert re.findall(r"href='?\"?([^'\" >]+)", served.text) == ["openapi.json"]
    assert set(re.findall(r"id='([\w-]+)'", served.text)) == {kind.slug for kind in PROBLEM_TYPES.values()}


def test_with_a_page_the_docs_redirect_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGE_URL", "https://shop.example/page/")
    load_environment.cache_clear()
    served = invoke_api(http_event("GET", "/docs"))
    load_environment.cache_clear()
    assert (served.status, served.text) == (302, "")
    assert served.headers["location"] == "https://shop.example/page/docs.html"
