"""Copies of one change, and copies of several items, are written at the same time."""

from threading import Barrier, current_thread
from typing import Any

from functions.handlers import copies_reader
from functions.runtime import clients
from local.world.harness import ShopHarness
from proof.mutants.edits import detects, edit_code
from proof.simulation.mutations import patch_attribute


class Meetings:
    """Holds back each put of an item of one type, at most 10 seconds, until another such put is sent, too."""

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


@detects(
    "copies of a change are sent one after the other",
    edit_code(
        copies_reader.write_copies,
        (
            "table.run_concurrently([partial(write_unless_newer, table, write)",
            "print([write_unless_newer(table, write)",
        ),
    ),
)
def test_the_copies_of_a_change_are_sent_at_the_same_time(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=1, pot=1)
    harness.process_all(("copies_reader",))
    harness.pay_order(order_id)
    records = [one for one in harness.new_records() if one["dynamodb"]["Keys"]["SK"]["S"] == "ORDER"]
    assert Meetings("Sale").handle(records) == []


@detects("items of a batch are processed one after the other", patch_attribute(copies_reader, "ITEMS_AT_ONCE", 1))
def test_the_copies_of_several_orders_are_sent_at_the_same_time(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.place_order("one", mug=1)
    harness.place_order("two", mug=1)
    assert Meetings("Activity").handle(harness.new_records()) == []
