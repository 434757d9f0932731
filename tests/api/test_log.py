"""The log: one line for each request, that tells enough to find it and nothing about a person."""

import json
from typing import Any

import pytest

from functions.api.handler import handler
from tests.api.asking import ANN, STAFF, WAREHOUSE, Api, Context, answer_to, event, new_order
from tests.api.hostile.corpus import spoiled
from tests.api.hostile.request import good

Lines = list[dict[str, Any]]


def test_a_request_is_one_line(api: Api, logged: Lines) -> None:
    api.place()
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


def test_a_request_names_its_order_and_says_what_it_consumed(api: Api, logged: Lines) -> None:
    order_id = api.place().said["order_id"]
    api.ask("GET", f"/orders/{order_id}", ANN)
    api.ask("GET", "/orders/ann%40example.com", ANN)
    assert [(line.get("order_id"), line["units"]) for line in logged] == [
        (order_id, {"read": 3.0, "write": 5.0}),
        (order_id, {"read": 1.0, "write": 0.0}),
        (None, {"read": 0.0, "write": 0.0}),
    ]


def test_what_staff_do_is_told_by_their_id_and_of_a_customer_not_even_that(api: Api, logged: Lines) -> None:
    order_id = api.place().said["order_id"]
    for who in (ANN, STAFF, WAREHOUSE):
        api.ask("GET", f"/orders/{order_id}", who)
    api.ask("GET", f"/customers/{ANN.sub}", ANN)
    assert [line.get("staff_id") for line in logged] == [None, None, STAFF.sub, WAREHOUSE.sub, None]
    values = [str(value) for line in logged for value in line.values()]
    assert ANN.sub not in values


def test_a_refused_request_says_with_which_problem(api: Api, logged: Lines) -> None:
    api.place(mug=11)
    answer_to(event("GET", "/secret/path", token=ANN))
    assert [(line["route"], line["status"], line["problem"]) for line in logged] == [
        ("POST /orders", 409, "out-of-stock"),
        ("none", 404, "no-such-route"),
    ]


def test_a_fault_is_a_line_of_its_own_level(api: Api, logged: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: Any) -> None:
        raise ZeroDivisionError("1 Elm Row")

    monkeypatch.setattr(api.shop.table.client, "batch_get_item", broken)
    api.place()
    (line,) = logged
    assert (line["level"], line["status"], line["fault"]["error"]) == ("ERROR", 500, "ZeroDivisionError")
    assert any("batch_get" in place for place in line["fault"]["at"])


def test_nothing_about_a_person_is_logged(api: Api, logged: Lines) -> None:
    body = new_order()
    body["lines"][0]["quantity"] = "Ann Ash"
    api.ask("POST", "/orders", ANN, body, key="k-of-ann")
    api.place("k-of-ann")
    api.ask("PATCH", "/customers/me", ANN, {"name": "Ann Oak\n"})
    api.ask("GET", "/customers", ANN, email="ann@example.com")
    text = json.dumps(logged)
    assert len(logged) == 4
    for secret in ("Ash", "Oak", "Elm", "Wien", "@", "Bearer", "a.b.c", "k-of-ann", "192.0.2.1"):
        assert secret not in text


@pytest.mark.parametrize(
    "key", ["POST /orders", "POST /customers", "PATCH /orders/{order_id}/address", "GET /customers"]
)
def test_nothing_about_a_person_is_logged_of_hostile_requests(
    api: Api, world: dict[str, str], logged: Lines, key: str
) -> None:
    asked = good(key, world, api)
    path = key.partition(" ")[2]
    ways = list(spoiled(asked, ["email"], path))[::7]
    del logged[:]
    for way in ways:
        handler(way.change(asked).event(api), Context())
    assert len(logged) == len(ways) > 50
    text = json.dumps(logged)
    assert not [word for word in ("Ash", "Elm", "Wien", "Bob", "@", "Bearer", "a.b.c", "192.0.2.1") if word in text]
