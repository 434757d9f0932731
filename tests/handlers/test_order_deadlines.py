"""Tests the deadlines of orders: they use the schedule's time, end each due order once, and end no other order."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.handlers import order_deadlines
from functions.model.entities import STATUS_SHARDS
from functions.runtime import clients
from functions.runtime.scheduled_jobs import RunIncomplete
from functions.runtime.time_limit import MARGIN_SECONDS
from functions.shop import orders
from local.world.harness import STAFF, ShopHarness
from proof.support.actors import get_stock
from proof.support.client_faults import fail_calls
from proof.support.lambda_context import FakeContext


def run(harness: ShopHarness, at: datetime) -> dict[str, int]:
    """Run the Lambda as its schedule does at this time."""
    return harness.lapse(at.strftime("%Y-%m-%dT%H:%M:%SZ"))


def status(harness: ShopHarness, order_id: str) -> str:
    return orders.get_order(harness.shop, STAFF, order_id).status


def available(harness: ShopHarness, product_id: str = "mug") -> int:
    return sum(part.available for part in get_stock(harness.shop, product_id))


@pytest.fixture
def shipped(harness: ShopHarness) -> str:
    harness.open_shop()
    order_id = harness.place_order(mug=1)
    harness.pay_order(order_id)
    harness.process_all()
    harness.dispatch_order(order_id)
    return order_id


# unpaid orders --------------------------------------------------------------------------------------------------------
def test_an_order_not_paid_in_its_window_lapses_and_gives_its_goods_back(harness: ShopHarness) -> None:
    harness.open_shop(available=5)
    order_id = harness.place_order(mug=3)
    assert run(harness, harness.now() + timedelta(minutes=29)) == {"lapsed": 0, "assumed_delivered": 0}
    assert (status(harness, order_id), available(harness)) == ("PENDING", 2)
    assert run(harness, harness.now() + timedelta(minutes=31)) == {"lapsed": 1, "assumed_delivered": 0}
    assert (status(harness, order_id), available(harness)) == ("LAPSED", 5)


def test_the_window_is_measured_by_the_schedules_time_not_by_when_it_runs(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=1)
    due = harness.now() + timedelta(minutes=29)
    harness.clock_offset = timedelta(hours=2)
    assert run(harness, due)["lapsed"] == 0
    assert status(harness, order_id) == "PENDING"


def test_one_order_that_fails_stops_no_other(harness: ShopHarness) -> None:
    harness.open_shop(available=5)
    placed = [harness.place_order(f"key-{number}", mug=1) for number in range(3)]
    late = harness.now() + timedelta(minutes=31)
    refused = fail_calls("dynamodb", "TransactWriteItems", "InternalServerError", times=1)
    with refused, pytest.raises(RunIncomplete, match="1 failed"):
        run(harness, late)
    assert sorted(status(harness, order_id) for order_id in placed) == ["LAPSED", "LAPSED", "PENDING"]
    assert run(harness, late)["lapsed"] == 1
    assert available(harness) == 5


# time and lanes -------------------------------------------------------------------------------------------------------
def due_orders(harness: ShopHarness, number: int) -> list[str]:
    harness.open_shop(available=number)
    placed = [harness.place_order(f"key-{number}", mug=1) for number in range(number)]
    harness.clock_offset = timedelta(minutes=31)
    return placed


def run_within(
    harness: ShopHarness, seconds: float, monkeypatch: pytest.MonkeyPatch, **event: int
) -> tuple[dict[str, int], int]:
    """Run the job with this many seconds left. Each order takes a second. Return the result and the request count."""
    context = FakeContext(MARGIN_SECONDS + seconds)
    requests = 0

    def count(**_: Any) -> None:
        nonlocal requests
        requests += 1

    events = clients.client("dynamodb").meta.events
    with monkeypatch.context() as patch:
        for name in ("lapse_order", "assume_delivered"):
            patch.setattr(order_deadlines, name, context.spending(1, getattr(order_deadlines, name)))
        events.register("before-call.dynamodb", count)
        try:
            done = order_deadlines.handler({"time": f"{harness.now():%Y-%m-%dT%H:%M:%SZ}", **event}, context)
        finally:
            events.unregister("before-call.dynamodb", count)
    return done, requests


def test_orders_for_which_there_is_no_time_lapse_in_the_next_runs(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed = due_orders(harness, 10)
    lists = 2 * STATUS_SHARDS.read
    first, requests = run_within(harness, 3, monkeypatch)
    assert first == {"lapsed": 4, "assumed_delivered": 0}
    assert 2 * 4 < requests <= lists + 2 * 4, "a lapse is one read and one transaction"
    assert sorted(status(harness, order_id) for order_id in placed) == ["LAPSED"] * 4 + ["PENDING"] * 6
    assert run_within(harness, 3, monkeypatch)[0]["lapsed"] == 4
    last, requests = run_within(harness, 3, monkeypatch)
    assert (last["lapsed"], requests) == (2, lists + 2 * 2)
    assert run_within(harness, 3, monkeypatch) == ({"lapsed": 0, "assumed_delivered": 0}, lists)
    assert available(harness) == 10


@pytest.mark.parametrize("groups", [1, 2, 3, STATUS_SHARDS.read, STATUS_SHARDS.read + 1])
def test_the_runs_of_a_minute_share_the_orders_by_shard(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch, groups: int
) -> None:
    placed = due_orders(harness, 12)
    of_shard = Counter(int(STATUS_SHARDS.of(order_id)) for order_id in placed)
    assert len(of_shard) == STATUS_SHARDS.read
    done = [run_within(harness, 99, monkeypatch, group=group, groups=groups) for group in range(groups)]
    assert sum(result["lapsed"] for result, _ in done) == available(harness) == 12
    if groups == STATUS_SHARDS.read:
        assert [result["lapsed"] for result, _ in done] == [of_shard[group] for group in range(groups)]
        assert [requests for _, requests in done] == [2 + 2 * of_shard[group] for group in range(groups)], (
            "one query for each list, in one shard"
        )


# shipped orders -------------------------------------------------------------------------------------------------------
def test_a_shipped_order_without_confirmation_is_finally_marked_as_delivered(
    harness: ShopHarness, shipped: str
) -> None:
    assert run(harness, harness.now() + timedelta(days=29))["assumed_delivered"] == 0
    assert run(harness, harness.now() + timedelta(days=31)) == {"lapsed": 0, "assumed_delivered": 1}
    assert status(harness, shipped) == "DELIVERED"
    assert run(harness, harness.now() + timedelta(days=31))["assumed_delivered"] == 0
