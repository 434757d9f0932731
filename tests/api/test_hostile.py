"""Invalid input through the whole Lambda: a 4xx problem names the invalid field, and nothing is written."""

import json
from typing import Any

import pytest

from proof.support.http_client import ANN, HOME_ADDRESS, JSON, STAFF, ApiHarness, http_event, invoke_api, order_body

KEY = {"idempotency-key": "key-1"}
LINE = {"product_id": "mug", "quantity": 1}


TEXT = json.dumps(order_body())
HOSTILE_BODIES: dict[str, str] = {
    "too much": TEXT[:-1] + " " * 66_000 + "}",
    "ten thousand unknown fields": "{" + ",".join(f'"{number}":1' for number in range(6_000)) + "}",
    "an unknown field with an endless name": '{"' + "x" * 60_000 + '": 1}',
    "a very long list": json.dumps({"lines": [LINE] * 1500, "address": HOME_ADDRESS}),
}
"""Bodies whose problems the guard or the models write. test_guard.py has all kinds of malformed JSON."""


@pytest.mark.parametrize("name", HOSTILE_BODIES)
def test_a_hostile_body_gets_a_problem_and_writes_nothing(api: ApiHarness, name: str) -> None:
    before = api.table_images()
    body = HOSTILE_BODIES[name]
    for path in ("/orders", "/customers", "/orders/x/cancel"):
        refused = invoke_api(http_event("POST", path, token=ANN, body=body, headers={**JSON, **KEY}))
        assert refused.status in (400, 413)
        assert refused.problem_type in ("malformed", "too-large")
        assert len(refused.text) < 6_000
    assert api.table_images() == before


@pytest.mark.parametrize(
    "path",
    ["/", "", "/nothing", "/orders/", "//orders", "/Orders", "/orders/x/unknown", "/customers/me/settings/passwords"],
)
def test_a_path_there_is_not_gets_a_problem(bare: ApiHarness, path: str) -> None:
    refused = invoke_api(http_event("GET", path, token=ANN))
    assert (refused.status, refused.problem_type) == (404, "no-such-route")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/orders", "GET, POST"),
        ("PUT", "/orders/x", "GET"),
        ("HEAD", "/products/mug", "GET, PATCH"),
        ("GET", "/payments/events", "POST"),
        ("TRACE", "/docs", "GET"),
        ("get", "/docs", "GET"),
    ],
)
def test_a_method_that_a_path_does_not_know_gets_those_it_does(
    bare: ApiHarness, method: str, path: str, allowed: str
) -> None:
    refused = invoke_api(http_event(method, path, token=ANN))
    assert (refused.status, refused.problem_type, refused.headers["allow"]) == (405, "wrong-method", allowed)


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=101", "limit=-1", "limit=x", "limit=", "limit=1.5", "limit=1&limit=2", "limit=%00", "limit=1e1",
     "limit=99999999999999999999", "limit=20.0",
     "limit=%2B20", "limit=2_0", "limit=020", "limit= 20", "limit=%D9%A2%D9%A0", "cursor=x", "unknown=1",
     "limit[]=1", "%00=1", "=1", "status=PAID&order=upwards"],
)  # fmt: skip
def test_a_query_that_makes_no_sense_gets_a_problem(api: ApiHarness, query: str) -> None:
    refused = invoke_api(http_event("GET", "/orders", token=STAFF, query=query))
    assert (refused.status, refused.problem_type) == (400, "malformed")


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"version": "1.0", "httpMethod": "GET", "path": "/orders"},
        {"Records": []},
        {"requestContext": None},
        {"requestContext": {"http": {}}},
        {"requestContext": {"http": {"method": "GET"}, "stage": "$default"}},
    ],
)
def test_an_event_that_is_not_a_request_is_rejected_with_the_missing_field(
    bare: ApiHarness, raw: dict[str, Any]
) -> None:
    answered = invoke_api(raw)
    assert (answered.status, answered.body["instance"]) == (400, "invocation-1")
    (wrong,) = answered.body["errors"]
    assert wrong["why"] == "must be as in an HTTP API event (payload format 2.0)"


@pytest.mark.parametrize(
    ("part", "value"),
    [("headers", {"accept": None}), ("headers", []), ("cookies", 5), ("queryStringParameters", {"limit": 1}),
     ("rawPath", 5), ("rawQueryString", []), ("body", {}), ("isBase64Encoded", "yes"), ("requestContext", "x")],
)  # fmt: skip
def test_an_event_of_which_a_part_is_something_else_is_refused(bare: ApiHarness, part: str, value: Any) -> None:
    answered = invoke_api(http_event("GET", "/orders", token=ANN) | {part: value})
    assert answered.status == 400
    assert answered.body["errors"][0]["field"].startswith(part)


def test_headers_may_be_missing_altogether(bare: ApiHarness) -> None:
    raw = http_event("GET", "/docs")
    del raw["headers"]
    assert invoke_api(raw).status == 200


def test_a_body_of_a_method_that_has_none_is_not_looked_at(api: ApiHarness) -> None:
    for body in ("[" * 50_000, b"\xff", " " * 100_000):
        assert invoke_api(http_event("GET", "/customers/me", token=ANN, body=body)).status == 200
