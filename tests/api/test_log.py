"""Tests the log: one line for each request, with enough fields to find the request, and without personal data."""

import json
import re
from typing import Any

import pytest

from functions.handlers.api import handler
from functions.runtime.environment import load_environment
from proof.support.every_route import GUEST_KEY
from proof.support.http_client import ANN, STAFF, WAREHOUSE, ApiHarness, http_event, invoke_api
from proof.support.lambda_context import FakeContext
from tests.api.hostile.corpus import single_mutations
from tests.api.hostile.request import valid_request

Lines = list[dict[str, Any]]


def test_a_request_is_one_line(api: ApiHarness, logged: Lines) -> None:
    api.place_order()
    (line,) = logged
    assert {name: line[name] for name in ("level", "route", "status", "request_id", "function", "invocation")} == {
        "level": "INFO",
        "route": "POST /orders",
        "status": 201,
        "request_id": "request-1",
        "function": "api",
        "invocation": "invocation-1",
    }
    assert 0 < line["ms"] < 10_000


def test_each_answer_has_the_id_of_its_log_line(api: ApiHarness, logged: Lines) -> None:
    asked = [
        http_event("GET", "/products/mug"),
        http_event("GET", "/products/mug", headers={"if-none-match": "*"}),
        http_event("GET", "/orders", token=ANN, query="limit=0"),
        http_event("GET", "/orders"),
        http_event("GET", "/no/such/route"),
    ]
    for number, event in enumerate(asked):
        event["requestContext"]["requestId"] = f"request-{number}="
    answers = [handler(event, FakeContext()) for event in (*asked, {})]  # {}: no event of API Gateway
    assert [one["statusCode"] for one in answers] == [200, 304, 400, 401, 404, 400]
    ids = [*(f"request-{number}=" for number in range(len(asked))), FakeContext.aws_request_id]
    assert [one["headers"]["X-Request-Id"] for one in answers] == ids
    assert [line["request_id"] for line in logged if line["message"] == "request_handled"] == ids
    assert [json.loads(one["body"])["instance"] for one in answers[2:]] == ids[2:]


def test_a_stage_with_server_timing_shows_the_requests_units_and_cost_of_each_answer(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "server-timing" not in api.place_order("key-0").headers
    monkeypatch.setenv("UNIT_PRICES", "0.125 0.625")
    load_environment.cache_clear()
    with api.record_requests() as sent:
        placed = api.place_order()
    read = api.call("GET", f"/orders/{placed.body['order_id']}", ANN)
    unsigned = api.call("GET", "/customers/me")
    assert [re.sub(r"dur=[\d.]+", "dur=…", one.headers["server-timing"]) for one in (placed, read, unsigned)] == [
        f'app;dur=…, table;desc="Table requests: {requests}", read;desc="Read units: {read_units}", '
        f'write;desc="Write units: {write_units}", cost;desc="Table cost: {cost} USD"'
        for requests, read_units, write_units, cost in (
            (len(sent), 5, 5, "0.00000375"),
            (1, 1, 0, "0.000000125"),
            (0, 0, 0, "0"),
        )
    ]


def test_a_request_logs_its_order_and_its_consumed_units(api: ApiHarness, logged: Lines) -> None:
    order_id = api.place_order().body["order_id"]
    api.call("GET", f"/orders/{order_id}", ANN)
    api.call("GET", "/orders/ann%40example.com", ANN)
    assert [(line.get("order_id"), line["units"]) for line in logged] == [
        (order_id, {"read": 5.0, "write": 5.0}),
        (order_id, {"read": 1.0, "write": 0.0}),
        (None, {"read": 0.0, "write": 0.0}),
    ]


def test_a_log_line_has_the_id_of_staff_but_not_of_a_customer(api: ApiHarness, logged: Lines) -> None:
    order_id = api.place_order().body["order_id"]
    for who in (ANN, STAFF, WAREHOUSE):
        api.call("GET", f"/orders/{order_id}", who)
    api.call("GET", f"/customers/{ANN.sub}", ANN)
    assert [line.get("staff_id") for line in logged] == [None, None, STAFF.sub, WAREHOUSE.sub, None]
    values = [str(value) for line in logged for value in line.values()]
    assert ANN.sub not in values


def test_a_rejected_request_logs_its_problem(api: ApiHarness, logged: Lines) -> None:
    api.place_order(mug=11)
    invoke_api(http_event("GET", "/secret/path", token=ANN))
    assert [(line["route"], line["status"], line["problem"]) for line in logged] == [
        ("POST /orders", 409, "out-of-stock"),
        ("none", 404, "no-such-route"),
    ]


def test_an_unexpected_error_is_logged_with_level_error(
    api: ApiHarness, logged: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: Any) -> None:
        raise ZeroDivisionError("1 Elm Row")

    monkeypatch.setattr(api.shop.table.client, "batch_get_item", broken)
    api.place_order()
    (line,) = logged
    assert (line["level"], line["status"], line["fault"]["error"]) == ("ERROR", 500, "ZeroDivisionError")
    assert any("batch_get" in place for place in line["fault"]["at"])


@pytest.mark.parametrize(
    "key", ["POST /orders", "POST /customers", "PATCH /orders/{order_id}/address", "GET /customers"]
)
def test_nothing_about_a_person_is_logged(api: ApiHarness, world: dict[str, str], logged: Lines, key: str) -> None:
    asked = valid_request(key, world, api)
    path = key.partition(" ")[2]
    ways = list(single_mutations(asked, ["email"], path))[::7]
    del logged[:]
    for way in ways:
        handler(way.change(asked).event(api), FakeContext())
    assert len(logged) == len(ways) > 50
    text = json.dumps(logged)
    people = ("Ash", "Elm", "Wien", "Bob", "@", "Bearer", "a.b.c", "192.0.2.1", GUEST_KEY)
    assert not [word for word in people if word in text]
