"""Checks of the time limits: a run or a batch stops before its timeout, and reports what it leaves."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from functions.handlers import copies_reader, fulfilment_worker, order_deadlines
from functions.runtime import clients
from local.world.harness import READERS, ShopHarness
from proof.support.lambda_context import FakeContext


@contextmanager
def slow_transactions(context: FakeContext) -> Iterator[None]:
    """Let each transaction take a second of the invocation's time."""
    events, spend = clients.client("dynamodb").meta.events, context.spending(1, lambda **_: None)
    events.register("before-call.dynamodb.TransactWriteItems", spend)
    try:
        yield
    finally:
        events.unregister("before-call.dynamodb.TransactWriteItems", spend)


def run_deadlines(harness: ShopHarness, seconds: float = 900, **event: int) -> dict[str, int]:
    context = FakeContext(seconds)
    with slow_transactions(context):
        return order_deadlines.handler({"time": f"{harness.now():%Y-%m-%dT%H:%M:%SZ}", **event}, context)


def place_orders(harness: ShopHarness, number: int) -> None:
    harness.open_shop(available=50)
    for key in range(number):
        harness.place_order(f"key-{key}", mug=1)


def ship_order(harness: ShopHarness) -> None:
    order_id = harness.place_order("sent", mug=1)
    harness.pay_order(order_id)
    harness.process_all()
    harness.dispatch_order(order_id)


def test_a_run_stops_10_seconds_before_its_timeout(harness: ShopHarness) -> None:
    place_orders(harness, 6)
    harness.clock_offset = timedelta(minutes=31)
    assert run_deadlines(harness, seconds=12.5) == {"lapsed": 3, "assumed_delivered": 0}
    assert run_deadlines(harness) == {"lapsed": 3, "assumed_delivered": 0}


def test_a_run_processes_all_its_lists(harness: ShopHarness) -> None:
    place_orders(harness, 8)
    ship_order(harness)
    harness.clock_offset = timedelta(days=31)
    assert run_deadlines(harness) == {"lapsed": 8, "assumed_delivered": 1}


def test_a_run_without_time_for_all_takes_items_of_each_list(harness: ShopHarness) -> None:
    place_orders(harness, 12)
    ship_order(harness)
    harness.clock_offset = timedelta(days=31)
    done = run_deadlines(harness, seconds=15)
    assert done["assumed_delivered"] == 1
    assert done["lapsed"] < 12


def test_four_runs_process_the_orders_of_all_shards(harness: ShopHarness) -> None:
    place_orders(harness, 16)
    harness.clock_offset = timedelta(minutes=31)
    assert sum(run_deadlines(harness, group=group, groups=4)["lapsed"] for group in range(4)) == 16


def test_a_message_that_was_not_started_is_reported(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.pay_order(harness.place_order())
    READERS["event_publisher"].handler({"Records": harness.new_records()}, None)
    messages = harness.take_messages("fulfilment")
    answer: Any = fulfilment_worker.handler({"Records": messages}, FakeContext(5))
    assert [one["itemIdentifier"] for one in answer["batchItemFailures"]] == [one["messageId"] for one in messages]


def test_a_stream_record_that_was_not_started_is_reported(harness: ShopHarness) -> None:
    harness.open_shop()
    records = harness.new_records()
    numbers = [one["dynamodb"]["SequenceNumber"] for one in records]
    answer: Any = copies_reader.handler({"Records": records}, FakeContext(5))
    assert [one["itemIdentifier"] for one in answer["batchItemFailures"]] == numbers
