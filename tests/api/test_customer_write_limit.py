"""Tests the write limit of a customer: the API answers 429 with Retry-After. Other users have no limit."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.api.http import context
from functions.model.public_routes import GUEST_ROUTES
from proof.support.every_route import ROUTES, call_route
from proof.support.http_client import (
    ANN,
    BOB,
    STAFF,
    WAREHOUSE,
    ApiHarness,
    Token,
    http_event,
    invoke_api,
    payment_event,
    post_webhook,
)
from tests.api.conftest import limiting_writes

BURST = 10
GUEST_WRITES = {*GUEST_ROUTES, "POST /guest/orders", "POST /guest/orders/quote"}
"""Routes that need no access token, so they do not count as writes of a customer who is signed in."""


@pytest.fixture
def limited(api: ApiHarness, outside: pytest.MonkeyPatch) -> Iterator[ApiHarness]:
    """The API of a shop in which a customer may send 10 writes at once, then 30 a minute."""
    with limiting_writes(outside, 30, BURST):
        yield api


def write(api: ApiHarness, token: Token = ANN) -> Any:
    return api.call("PUT", "/products/mug/followers/me", token)


def flood(api: ApiHarness, token: Token = ANN) -> None:
    """Send writes until the API refuses a write."""
    for _ in range(2 * BURST):
        if write(api, token).status == 429:
            return
    pytest.fail("the API accepts every write")


def test_a_customer_who_sends_too_many_writes_must_wait(limited: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    at = limited.shop.now()
    monkeypatch.setattr(context.shop().table, "clock", lambda: at)
    assert [write(limited).status for _ in range(BURST)] == [200] * BURST
    flood(limited)
    refused = write(limited)
    assert (refused.status, refused.problem_type) == (429, "too-many-writes")
    assert refused.headers["cache-control"] == "private, no-store"
    seconds = int(refused.headers["retry-after"])
    assert refused.body["detail"] == (
        f"a customer may send 10 writes at once, then 30 a minute: send this request again in {seconds} seconds"
    )
    monkeypatch.setattr(context.shop().table, "clock", lambda: at + timedelta(seconds=seconds - 1, milliseconds=-1))
    assert write(limited).status == 429
    monkeypatch.setattr(context.shop().table, "clock", lambda: at + timedelta(seconds=seconds))
    assert write(limited).status == 200


def test_a_refused_write_changes_nothing_and_sends_nothing(limited: ApiHarness) -> None:
    flood(limited)
    before = limited.table_images()
    with limited.record_requests() as sent:
        assert limited.place_order("new").status == 429
        assert limited.call("DELETE", "/customers/me", ANN).status == 429
    assert sent == []
    assert limited.table_images() == before


def test_reads_and_other_customers_have_their_own_rate(limited: ApiHarness) -> None:
    limited.register_customer(BOB)
    flood(limited)
    assert limited.call("GET", "/customers/me", ANN).status == 200
    assert write(limited, BOB).status == 200


def test_staff_the_warehouse_and_the_provider_have_no_limit(limited: ApiHarness) -> None:
    for _ in range(3 * BURST):
        assert limited.call("POST", "/orders/none/shipments/none/delivered", WAREHOUSE).status == 404
        assert limited.call("POST", "/orders/none/cancel", STAFF).status == 404
        assert post_webhook(limited, payment_event("none", 1250)).status == 200
    assert not [one for one in limited.table_images() if one["type"]["S"] == "WriteLimit"]


def test_a_group_that_is_not_of_the_shop_is_limited(limited: ApiHarness) -> None:
    flood(limited, replace(ANN, groups=("staffing", "my-warehouse")))


def test_every_write_of_a_customer_counts(
    limited: ApiHarness, world: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    at = limited.shop.now()
    monkeypatch.setattr(context.shop().table, "clock", lambda: at)
    flood(limited)
    writes = {key for key in set(ROUTES) - GUEST_WRITES if not key.startswith("GET")}
    accepted = {key for key in writes if call_route(limited, world, key, ANN).status != 429}
    assert accepted == {"POST /payments/events", "POST /unsubscribe"}


def test_three_writes_cost_one_unit(limited: ApiHarness, logged: list[dict[str, Any]]) -> None:
    for _ in range(BURST):
        assert limited.call("DELETE", "/products/mug/followers/me", ANN).status == 200
    assert [line["units"]["write"] for line in logged] == [0, 0, 1, 0, 0, 1, 0, 0, 1, 0]


def test_a_request_without_a_valid_token_does_not_count(limited: ApiHarness) -> None:
    for _ in range(2 * BURST):
        assert invoke_api(http_event("PUT", "/products/mug/followers/me")).status == 401
    assert write(limited).status == 200
