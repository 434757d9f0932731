"""Fulfilment: the orders of a batch share one transaction, and each has one invoice with the next number."""

import os
from types import SimpleNamespace
from typing import Any
from unittest import mock

from functions.handlers import event_publisher, fulfilment_worker
from functions.model.entities import Address, hash_to_bucket
from functions.runtime import clients
from functions.shop import erasure, orders
from local.world.harness import ANN, ShopHarness
from proof.mutants.items import stored_items, text
from proof.support.client_faults import fail_calls, record_calls, run_before_call

Message = dict[str, Any]
NEIGHBOUR = Address(name="Bo Birch", street="2 Elm Row", postcode="1010", city="Wien", country="AT")


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


def invoices(harness: ShopHarness) -> list[tuple[str, int]]:
    """Return the order and the number, without its year, of each invoice, by number."""
    found = [(text(one, "order_id"), int(text(one, "invoice_id")[5:])) for one in stored_items(harness, "Invoice")]
    return sorted(found, key=lambda one: one[1])


def test_two_workers_that_issue_invoices_at_once_take_different_numbers(harness: ShopHarness) -> None:
    (first, second, third), messages = pay_orders(harness, 3)
    assert handle(messages[0]) == []
    with run_before_call("dynamodb", "TransactWriteItems", lambda: handle(messages[1])):
        assert handle(messages[2]) == []
    assert invoices(harness) == [(first, 1), (second, 2), (third, 3)]


def test_the_first_two_invoices_of_a_year_take_different_numbers(harness: ShopHarness) -> None:
    (first, second), messages = pay_orders(harness, 2)
    with run_before_call("dynamodb", "TransactWriteItems", lambda: handle(messages[0])):
        assert handle(messages[1]) == []
    assert invoices(harness) == [(first, 1), (second, 2)]


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


TWO_LANES = {"INVOICE_SERIES": "2"}


@mock.patch.dict(os.environ, TWO_LANES)
def test_each_lane_has_a_series_of_its_own_without_gaps(harness: ShopHarness) -> None:
    _, messages = pay_orders(harness, 10)
    for message in messages:
        assert handle(message) == []
    by_series: dict[str, list[int]] = {}
    for invoice in stored_items(harness, "Invoice"):
        series, _, digits = text(invoice, "invoice_id")[4:].rpartition("-")
        by_series.setdefault(series, []).append(int(digits))
    assert sorted(by_series) == ["", "-B"]
    assert all(sorted(own) == list(range(1, len(own) + 1)) for own in by_series.values())


@mock.patch.dict(os.environ, TWO_LANES)
def test_a_batch_takes_the_next_series_if_its_own_is_busy(harness: ShopHarness) -> None:
    (order_id,), messages = pay_orders(harness, 1)
    replies = [{"CancellationReasons": [{"Code": "TransactionConflict"}, *[{"Code": "None"}] * 3]}]

    def cancel_first(**_: Any) -> Any:
        if not replies:
            return None
        error = {"Error": {"Code": "TransactionCanceledException", "Message": "busy"}, **replies.pop()}
        return SimpleNamespace(status_code=400, headers={}), {**error, "ResponseMetadata": {"HTTPStatusCode": 400}}

    events = clients.client("dynamodb").meta.events
    events.register_first("before-call.dynamodb.TransactWriteItems", cancel_first)
    try:
        assert handle(*messages) == []
    finally:
        events.unregister("before-call.dynamodb.TransactWriteItems", cancel_first)
    (invoice,) = stored_items(harness, "Invoice")
    assert ("-B-" in text(invoice, "invoice_id")) == (hash_to_bucket(order_id, 2) == 0)


def test_a_batch_with_two_messages_about_an_order_is_one_transaction(harness: ShopHarness) -> None:
    (first, second), messages = pay_orders(harness, 2)
    with record_calls("dynamodb", "TransactWriteItems") as writes:
        assert handle(*messages, {**messages[0], "messageId": "again"}) == []
    assert len(writes) == 1
    assert invoices(harness) == [(first, 1), (second, 2)]


def test_an_unreadable_message_keeps_no_other_order_of_its_batch_from_its_invoice(harness: ShopHarness) -> None:
    (first, second), messages = pay_orders(harness, 2)
    broken = {"messageId": "broken", "body": "no event"}
    assert handle(messages[0], broken, messages[1]) == []
    assert invoices(harness) == [(first, 1), (second, 2)]


def test_an_order_that_fails_keeps_no_other_order_of_its_batch_from_its_invoice(harness: ShopHarness) -> None:
    (_, second), messages = pay_orders(harness, 2)
    with fail_calls("dynamodb", "TransactWriteItems", "InternalServerError", times=2):  # both orders, then only order 1
        assert handle(*messages) == [messages[0]["messageId"]]
    assert invoices(harness) == [(second, 1)]


def test_a_message_that_is_delivered_again_succeeds_and_changes_nothing(harness: ShopHarness) -> None:
    (order_id,), (message,) = pay_orders(harness, 1)
    assert handle(message) == []
    before = harness.partition(f"ORDER#{order_id}")
    assert handle(message) == []
    assert (harness.partition(f"ORDER#{order_id}"), invoices(harness)) == (before, [(order_id, 1)])


def test_an_invoice_shows_the_customers_name_and_after_an_erasure_the_name_of_the_address(
    harness: ShopHarness,
) -> None:
    _, messages = pay_orders(harness, 2)
    for order_id in {text(order, "order_id") for order in stored_items(harness, "Order")}:
        orders.change_address(harness.shop, ANN, order_id, NEIGHBOUR)
    assert handle(messages[0]) == []
    assert [text(invoice, "name") for invoice in stored_items(harness, "Invoice")] == ["Ann Ash"]
    erasure.erase_customer(harness.shop, ANN, ANN.id)
    harness.process_all()
    assert handle(messages[1]) == []
    assert {text(invoice, "name") for invoice in stored_items(harness, "Invoice")} == {"Ann Ash", "Bo Birch"}
