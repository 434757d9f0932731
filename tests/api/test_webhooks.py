"""Tests the routes of webhooks: addresses, secrets, and the translation of their answers."""

import socket
from datetime import timedelta
from typing import Any

import pytest

from functions.model.changes import make_stream_record, parse_change
from functions.model.events import OutboxPlace
from functions.model.table import ORDER
from functions.shop import webhooks
from functions.shop.webhook_deliveries import Answer, Result, build_wanted_event, deliver, list_subscribed
from proof.support.http_client import STAFF, ApiHarness
from proof.support.samples import order

BODY = {"url": "https://hooks.example.com/orders", "events": ["OrderPlaced"], "where": {"currency": "EUR"}}


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names lead to a public address, and those that begin with "inside" into a private network."""

    def find(host: str, port: int, **_: Any) -> list[Any]:
        address = "10.0.0.1" if host.startswith("inside") else "93.184.215.14"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", find)


def create(api: ApiHarness, key: str = "k", **changed: Any) -> Any:
    return api.call("POST", "/webhooks", STAFF, {**BODY, **changed}, key=key)


def test_the_secret_is_in_the_first_answer_and_in_its_repetition_only(api: ApiHarness) -> None:
    made, again = create(api), create(api)
    assert (made.status, again.status, again.body) == (201, 200, made.body)
    assert made.body["secret"].startswith("whsec_")
    webhook_id = made.body["webhook_id"]
    shown = api.call("GET", f"/webhooks/{webhook_id}", STAFF).body
    assert shown.items() >= {**BODY, "status": "ACTIVE", "failures": 0, "is_replaying": False}.items()
    assert "secret" not in shown
    assert api.call("GET", "/webhooks", STAFF).body["items"] == [shown]
    rotated = api.call("POST", f"/webhooks/{webhook_id}/secret", STAFF, key="r").body
    assert rotated["secret"] not in ("", made.body["secret"])
    assert rotated["old_secret_until"] > shown["created_at"]


@pytest.mark.parametrize("url", ["https://inside.example.com/", "http://hooks.example.com/", "https://127.0.0.2/"])
def test_an_address_that_leads_inward_is_refused_by_name(api: ApiHarness, url: str) -> None:
    webhook_id = create(api).body["webhook_id"]
    for refused in (create(api, "other", url=url), api.call("PATCH", f"/webhooks/{webhook_id}", STAFF, {"url": url})):
        assert (refused.status, refused.body["errors"][0]["field"]) == (400, "url")


def test_a_webhook_is_paused_resumed_replayed_and_deleted(api: ApiHarness) -> None:
    path = f"/webhooks/{create(api).body['webhook_id']}"
    assert api.call("PATCH", path, STAFF, {"status": "PAUSED"}).body["paused_by"] == "staff"
    assert api.call("PATCH", path, STAFF, {"status": "ACTIVE"}).body["paused_by"] is None
    asked = {"from": "2026-11-01", "events": ["OrderPlaced"], "object_id": "ORDER:o1/ORDER"}
    replayed = api.call("POST", f"{path}/replay", STAFF, asked)
    assert (replayed.status, replayed.body["is_replaying"]) == (202, True)
    assert api.call("POST", f"{path}/replay", STAFF, asked).problem_type == "wrong-state"
    assert [api.call("DELETE", path, STAFF).status for _ in range(2)] == [200, 404]
    assert api.call("GET", path, STAFF).status == 404


def test_each_attempt_is_listed(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "ACTIVE_AFTER", timedelta())
    webhook_id, shop = create(api, events=[]).body["webhook_id"], api.shop
    change = parse_change(make_stream_record(ORDER.encode(order())))
    assert change is not None
    detail = build_wanted_event(shop, change, list_subscribed(shop))
    assert detail is not None
    deliver(shop, webhook_id, OutboxPlace(**detail["outbox"]), lambda _: Answer(500, None, 7), Result())
    (found,) = api.call("GET", f"/webhooks/{webhook_id}/deliveries", STAFF).body["items"]
    expected = {"event_name": "OrderPlaced", "object_id": "ORDER:o1/ORDER", "attempt": 1, "status": 500, "ms": 7}
    assert found.items() >= {**expected, "event_id": change.id, "error": None}.items()
