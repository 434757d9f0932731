"""Copies of one change, and copies of several items, are written at the same time. Copies of one item are in order."""

import json
from itertools import count
from threading import Barrier, Event, current_thread
from typing import Any

import pytest

from functions.handlers import copies_reader
from functions.runtime import clients
from functions.shop.fulfilment import fulfil_order
from local.world.harness import ShopHarness
from proof.mutants.items import stored_items
from proof.mutants.test_log_lines import capture_output
from proof.support.client_faults import fail_calls, run_before_call


class Meetings:
    """Holds back each put of an item of one type until another put of such an item is sent, too.

    If no other put is sent within 10 seconds, the put fails.
    """

    def __init__(self, item_type: str) -> None:
        self.word, self.barrier = f'"type": {{"S": "{item_type}"}}'.replace(" ", ""), Barrier(2, timeout=10)
        self.threads: list[str] = []

    def __call__(self, params: dict[str, Any], **_: Any) -> None:
        if self.word in params["body"].decode().replace(" ", ""):
            self.threads.append(current_thread().name)
            self.barrier.wait()

    def handle(self, records: list[Any]) -> list[str]:
        """Let the copies reader process the records, and return the sequence numbers of those that failed."""
        events = clients.client("dynamodb").meta.events
        events.register_first("before-call.dynamodb.PutItem", self)
        try:
            failures = copies_reader.handler({"Records": records}, None)["batchItemFailures"]
        finally:
            events.unregister("before-call.dynamodb.PutItem", self)
        return [one["itemIdentifier"] for one in failures]


def test_the_copies_of_a_change_are_sent_at_the_same_time(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=1, pot=1)
    harness.process_all(("copies_reader",))
    harness.pay_order(order_id)
    records = [one for one in harness.new_records() if one["dynamodb"]["Keys"]["SK"]["S"] == "ORDER"]
    assert Meetings("Sale").handle(records) == []


def test_the_copies_of_several_orders_are_sent_at_the_same_time(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.place_order("one", mug=1)
    harness.place_order("two", mug=1)
    assert Meetings("Activity").handle(harness.new_records()) == []


def test_the_changes_of_an_order_in_one_batch_are_copied_in_their_order(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=1)
    harness.pay_order(order_id)
    fulfil_order(harness.shop, order_id)
    records_started, another_started, apply = count(1), Event(), copies_reader.apply_record

    def apply_and_count(*arguments: Any) -> Any:
        if next(records_started) == 2:
            another_started.set()
        return apply(*arguments)

    with (
        pytest.MonkeyPatch.context() as patch,
        fail_calls("dynamodb", "PutItem", "InternalServerError", times=1),
        # If a later change is not held back, it begins before the write of the first change fails.
        run_before_call("dynamodb", "PutItem", lambda: another_started.wait(2)),
    ):
        patch.setattr(copies_reader, "apply_record", apply_and_count)
        records = [one for one in harness.new_records() if one["dynamodb"]["Keys"]["PK"]["S"] == f"ORDER#{order_id}"]
        orders = [one for one in records if one["dynamodb"]["Keys"]["SK"]["S"] == "ORDER"]
        failed = copies_reader.handler({"Records": orders}, None)["batchItemFailures"]
    numbers = [one["dynamodb"]["SequenceNumber"] for one in orders]
    assert len(numbers) > 2
    assert [one["itemIdentifier"] for one in failed] == numbers, "the later changes wait for the first"
    assert stored_items(harness, "OrderSummary") == []


def test_a_log_line_of_a_batch_names_its_invocation_whichever_thread_writes_it(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.place_order("one", mug=1)
    harness.place_order("two", mug=1)
    with fail_calls("dynamodb", "PutItem", "InternalServerError"), capture_output() as output:
        copies_reader.handler({"Records": harness.new_records()}, None)
    lines = [json.loads(line) for line in output.getvalue().splitlines() if '"record_failed"' in line]
    assert len(lines) > 1
    assert {line.get("function") for line in lines} == {"copies_reader"}
