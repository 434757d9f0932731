"""Fulfilment: a worker reads the last invoice number after its orders, so that the number is seldom outdated."""

from typing import Any

from functions.handlers import event_publisher, fulfilment_worker
from local.world.harness import ShopHarness
from proof.support.client_faults import record_calls, run_before_call

Message = dict[str, Any]


def pay_orders(harness: ShopHarness, count: int) -> tuple[list[str], list[Message]]:
    """Place and pay orders. Return their ids and the messages of the fulfilment queue, both in the same order."""
    harness.open_shop(available=100)
    ids = [harness.place_order(f"key-{one}", mug=2) for one in range(count)]
    for order_id in ids:
        harness.pay_order(order_id, f"evt-{order_id}", f"pi-{order_id}")
    event_publisher.handler({"Records": harness.new_records()}, None)
    messages = harness.take_messages("fulfilment")
    return ids, sorted(messages, key=lambda message: [id in message["body"] for id in ids], reverse=True)


def handle(*messages: Message) -> list[str]:
    """Run the fulfilment Lambda with these messages. Return the ids of the messages that failed."""
    answer = fulfilment_worker.handler({"Records": list(messages)}, None)
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def test_a_worker_reads_the_last_number_after_its_orders_so_that_it_is_seldom_outdated(harness: ShopHarness) -> None:
    """Another worker takes a number while this worker reads its order. No transaction fails."""
    _, messages = pay_orders(harness, 3)
    assert handle(messages[0]) == []
    with (
        record_calls("dynamodb", "TransactWriteItems") as writes,
        run_before_call("dynamodb", "Query", lambda: handle(messages[1])),
    ):
        assert handle(messages[2]) == []
    assert len(writes) == 2
