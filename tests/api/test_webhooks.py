"""Tests the routes of webhooks: addresses, secrets, and the translation of their answers."""

import socket
from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.writes import put_if_absent
from functions.model.table import DELIVERY
from proof.support.http_client import STAFF, ApiHarness
from proof.support.samples import SAMPLES

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


def test_each_attempt_is_listed(api: ApiHarness) -> None:
    webhook_id, attempt = create(api).body["webhook_id"], SAMPLES[DELIVERY]
    api.shop.table.write(put_if_absent(DELIVERY, replace(attempt, webhook_id=webhook_id, ttl=4_000_000_000)))
    (found,) = api.call("GET", f"/webhooks/{webhook_id}/deliveries", STAFF).body["items"]
    names = ("at", "event_id", "event_name", "object_id", "attempt", "error", "ms")
    assert found == {"status": attempt.http_status, **{name: getattr(attempt, name) for name in names}}
