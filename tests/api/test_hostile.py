"""Invalid input through the whole Lambda: a 4xx problem names the invalid field, and nothing is written."""

import copy
import json
from typing import Any

import pytest

from proof.support.http_client import (
    ANN,
    HOME_ADDRESS,
    JSON,
    STAFF,
    ApiHarness,
    Token,
    http_event,
    invoke_api,
    order_body,
)

KEY = {"idempotency-key": "key-1"}
LINE = {"product_id": "mug", "quantity": 1}


MISSING = object()


def changed(field: str, value: Any) -> dict[str, Any]:
    """Return the body of an order with another value in one field. `field`: the path of the field."""
    body = copy.deepcopy(order_body())
    *way, last = field.split(".")
    inside: Any = body
    for step in way:
        inside = inside[int(step) if step.isdigit() else step]
    inside[last] = value
    if value is MISSING:
        del inside[last]
    return body


WRONG: dict[str, list[Any]] = {
    "lines.0.quantity": [0, -1, 10_001, 10**25, 1.0, 1.5, "1", None, True, [], {}, 1e400],
    "lines.0.product_id": ["", "a#b", "#", "mug\n", " mug", "mug ", "x/y", "x" * 65, 5, None],
    "lines.0.price": [-1, 12.5, "1", 10**10],
    "lines": [[], None, "mug", {}, [LINE] * 91, [LINE, LINE]],
    "address": [None, "Elm Row", [], [HOME_ADDRESS]],
    "address.name": ["", " ", "x" * 201, "a\x00", "a\x1b[2J", 5],
    "address.street": ["", "x" * 201, "a\nb", None],
    "address.postcode": ["x" * 21, None, 1010],
    "address.city": ["", "x" * 101],
    "address.country": ["", "at", "AUT", "UK", "XX", "ZZ", "\u0410T", 40, None],
    **{key: [1] for key in ["note", "lines.0.name", "address.planet", "address.__class__"]},
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG.items() for value in values])
def test_a_field_that_is_wrong_is_named(api: ApiHarness, field: str, value: Any) -> None:
    before = api.table_images()
    refused = invoke_api(
        http_event("POST", "/orders", token=ANN, body=json.dumps(changed(field, value)), headers={**JSON, **KEY})
    )
    assert refused.status == 400
    assert all(name == field or name.startswith(f"{field}.") or name == "body" for name in refused.field_errors), (
        refused.field_errors
    )
    assert api.table_images() == before


@pytest.mark.parametrize(
    "field", ["lines", "lines.0.product_id", "lines.0.quantity", "address", "address.name", "address.country"]
)
def test_a_field_that_is_missing_is_named(api: ApiHarness, field: str) -> None:
    refused = api.call("POST", "/orders", ANN, changed(field, MISSING), key="k")
    assert refused.field_errors == {field: "is required"}


TEXT = json.dumps(order_body())
HOSTILE_BODIES: dict[str, str | bytes] = {
    "nothing": "",
    "white space": "  \n",
    "not JSON": "{",
    "a list of one good order": f"[{TEXT}]",
    "two documents": TEXT + TEXT,
    "a byte order mark": "\ufeff" + TEXT,
    "a field twice, inside": TEXT.replace('"quantity": 2', '"quantity": 2, "quantity": 3'),
    "deep nesting": "[" * 60_000,
    "half a character": TEXT.replace("Wien", r"\ud800"),
    "a raw control character": TEXT.replace("Wien", "\x01"),
    "too much": TEXT[:-1] + " " * 66_000 + "}",
    "ten thousand unknown fields": "{" + ",".join(f'"{number}":1' for number in range(6_000)) + "}",
    "an unknown field with an endless name": '{"' + "x" * 60_000 + '": 1}',
    "a very long list": json.dumps({"lines": [LINE] * 1500, "address": HOME_ADDRESS}),
    "not UTF-8": TEXT.replace("Wien", "Köln").encode("latin-1"),
}
"""Bodies whose problems the guard or the models write. test_guard.py has all kinds of malformed JSON."""


@pytest.mark.parametrize("name", HOSTILE_BODIES)
def test_a_hostile_body_gets_a_problem_and_writes_nothing(api: ApiHarness, name: str) -> None:
    before = api.table_images()
    body = HOSTILE_BODIES[name]
    for path in ("/orders", "/customers", "/orders/x/cancel"):
        if (path, name) == ("/orders/x/cancel", "nothing"):
            continue
        refused = invoke_api(http_event("POST", path, token=ANN, body=body, headers={**JSON, **KEY}))
        assert refused.status in (400, 413)
        assert refused.problem_type in ("malformed", "too-large")
        assert len(refused.text) < 6_000
    assert api.table_images() == before


def test_a_body_of_another_type_or_of_two_types_is_refused(api: ApiHarness) -> None:
    before = api.table_images()
    for declared in ({"content-type": "text/plain"}, {**JSON, "Content-Type": "text/plain"}):
        refused = invoke_api(http_event("POST", "/orders", token=ANN, body=TEXT, headers={**KEY, **declared}))
        assert (refused.status, refused.problem_type) == (415, "wrong-media-type")
    assert api.table_images() == before


@pytest.mark.parametrize(
    "path",
    [
        "/orders/a#b", "/orders/a%23b", "/orders/" + "x" * 65, "/orders/a b", "/orders/%00", "/orders/\x00",
        "/orders/é", "/orders/..", "/orders/%2e%2e", "/orders/a;b", "/orders/a\nb", "/orders/-", "/orders/\ud800",
        "/customers/a#b/orders", "/products/a#b", "/products/" + "9" * 5000, "/invoices/#",
    ],
)  # fmt: skip
def test_an_id_that_could_forge_a_key_gets_a_problem(api: ApiHarness, path: str) -> None:
    with api.record_requests() as sent:
        refused = invoke_api(http_event("GET", path, token=STAFF))
    assert refused.status == 400
    assert set(refused.field_errors) <= {"path", "order_id", "customer_id", "product_id", "invoice_id"}
    assert sent == []


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
     "limit=99999999999999999999", "cursor=x", "unknown=1", "limit[]=1", "%00=1", "=1", "status=PAID&order=upwards"],
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


@pytest.mark.parametrize("path", ["/orders", "/customers/me/page", "/discounts"])
@pytest.mark.parametrize("limit", ["20.0", "%2B20", "2_0", "020", " 20", "20 ", "%D9%A2%D9%A0", "2e1"])
def test_a_number_in_a_query_consists_of_digits_only(api: ApiHarness, path: str, limit: str) -> None:
    refused = invoke_api(http_event("GET", path, token=STAFF, query=f"limit={limit}"))
    assert list(refused.field_errors) == ["limit"]


@pytest.mark.parametrize("claim", [5, True, {"staff": 1}, [["staff"]], [None]])
def test_a_group_is_a_text_in_a_list(bare: ApiHarness, claim: Any) -> None:
    raw = http_event("GET", "/activity", token=ANN, query="day=2026-11-21")
    raw["requestContext"]["authorizer"]["jwt"]["claims"]["cognito:groups"] = claim
    assert invoke_api(raw).problem_type == "not-allowed"


def test_claims_of_a_token_cannot_forge_a_key(bare: ApiHarness) -> None:
    for sub in ("a#b", "", " ", "é", "x" * 65, "a\n"):
        assert invoke_api(http_event("GET", "/orders", token=Token(sub))).status == 401
