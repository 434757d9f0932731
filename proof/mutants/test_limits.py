"""Limits and caches: a customer's writes and unpaid orders are limited, and no cache stores private answers."""

from datetime import timedelta

from functions.api.http import context
from local.world.harness import ShopHarness
from proof.mutants.test_access import open_api
from proof.support.http_client import ANN, ApiHarness, HandlerResponse, http_event, invoke_api

LIMIT = {"CUSTOMER_WRITES_PER_MINUTE": "6", "CUSTOMER_WRITE_BURST": "10"}
ACCEPTED_AT_MOST = 14
"""The burst of 10 writes, 2 more as a process counts 3 writes at once, and 2 that no process has counted yet."""


def follow(api: ApiHarness) -> HandlerResponse:
    return api.call("PUT", "/products/mug/followers/me", ANN)


def flood(api: ApiHarness) -> tuple[int, HandlerResponse]:
    """Send writes until one is refused. Return the number of accepted writes, and the refusal."""
    for number in range(40):
        if (answer := follow(api)).status == 429:
            return number, answer
    raise AssertionError("no write is refused")


def test_a_flood_of_writes_is_refused_after_the_burst(harness: ShopHarness) -> None:
    harness.open_shop()
    with open_api(harness, **LIMIT) as api:
        accepted, _ = flood(api)
        assert 10 <= accepted <= ACCEPTED_AT_MOST


def test_a_write_is_accepted_after_its_retry_after(harness: ShopHarness) -> None:
    harness.open_shop()
    with open_api(harness, **LIMIT) as api:
        _, refused = flood(api)
        harness.clock_offset += timedelta(seconds=int(refused.headers["retry-after"]))
        assert follow(api).status == 200


def test_all_processes_together_accept_no_more_than_the_burst(harness: ShopHarness) -> None:
    harness.open_shop()
    with open_api(harness, **LIMIT) as api:
        accepted = 0
        for _ in range(3):
            context.write_limiter.cache_clear()  # simulate another process
            accepted += flood(api)[0]
    assert accepted <= ACCEPTED_AT_MOST + 2 * 2


def test_no_cache_may_store_a_customer(harness: ShopHarness) -> None:
    harness.open_shop()
    with open_api(harness) as api:
        shown = api.call("GET", "/customers/me", ANN)
        assert (shown.status, shown.headers["cache-control"]) == (200, "private, no-store")


def test_a_product_that_changed_is_sent_again(harness: ShopHarness) -> None:
    harness.open_shop()
    with open_api(harness):
        etags = {
            invoke_api(http_event("GET", f"/products/{product_id}/rating")).headers["etag"]
            for product_id in ("mug", "pot")
        }
        assert len(etags) == 2


def test_a_customer_with_twenty_unpaid_orders_cannot_place_another_one(harness: ShopHarness) -> None:
    harness.open_shop(available=30)
    with open_api(harness, UNPAID_ORDERS_PER_CUSTOMER="20") as api:
        for number in range(20):
            assert api.place_order(f"key-{number}", mug=1).status == 201
        harness.process_all()
        refused = api.place_order("another", mug=1)
        assert (refused.status, refused.problem_type) == (409, "too-many-unpaid-orders")
        assert api.place_order("key-3", mug=1).status == 200
