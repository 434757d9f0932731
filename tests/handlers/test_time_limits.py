"""Tests batches whose time runs out: records that were not started are delivered again, and no effect happens twice."""

from typing import Any

import pytest

from functions.handlers import copies_reader, event_publisher, fulfilment_worker
from functions.handlers.copies_reader import TOTALS_SECONDS
from functions.model import changes, metrics
from functions.runtime.time_limit import MARGIN_SECONDS
from local.world.harness import READERS, ShopHarness
from proof.support.alarm_model import capture_metrics
from proof.support.client_faults import fail_calls, record_calls, run_before_call
from proof.support.lambda_context import FakeContext


def numbers(records: list[dict[str, Any]]) -> list[str]:
    return [record["dynamodb"]["SequenceNumber"] for record in records]


def reported(answer: dict[str, Any]) -> list[str]:
    return [one["itemIdentifier"] for one in answer["batchItemFailures"]]


def paid_messages(harness: ShopHarness, queue: str, orders: int) -> list[dict[str, Any]]:
    """Pay orders. Return the messages in this queue as SQS delivers them."""
    for number in range(orders):
        harness.pay_order(harness.place_order(f"key-{number}", mug=1), f"evt_{number}", f"pi_{number}")
    READERS["event_publisher"].handler({"Records": harness.new_records()}, None)
    arn = f"arn:aws:sqs:eu-central-1:123456789012:{queue}"
    received = {"eventSourceARN": arn, "attributes": {"ApproximateReceiveCount": "1"}}
    return [{**one, **received, "receiptHandle": one["messageId"]} for one in harness.take_messages(queue)]


# streams --------------------------------------------------------------------------------------------------------------
def test_a_reader_reports_the_records_that_it_did_not_start_and_then_copies_them(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    harness.pay_order(order_id)
    harness.place_order("two", mug=1)
    records = harness.new_records()
    context = FakeContext(TOTALS_SECONDS + 3)
    applied: list[str] = []

    def apply(shop: Any, record: Any) -> Any:
        applied.append(record["dynamodb"]["SequenceNumber"])
        return real(shop, record)

    real = copies_reader.apply_record
    monkeypatch.setattr(copies_reader, "ITEMS_AT_ONCE", 1)
    monkeypatch.setattr(copies_reader, "apply_record", context.spending(1, apply))
    with capture_metrics() as told:
        left = reported(copies_reader.handler({"Records": records}, context))
    assert applied == numbers(records)[:4]
    assert left == numbers(records)[4:], "Lambda continues with the first of these records"
    assert told.values(metrics.OUT_OF_TIME, function="copies_reader") == [1]
    assert told.values(metrics.EFFECTS_FAILED, function="copies_reader") == []
    context.remaining_seconds = 900
    rest = records[numbers(records).index(left[0]) :]
    assert reported(copies_reader.handler({"Records": rest}, context)) == []
    assert sorted(applied, key=int) == numbers(records), "each record is processed once"
    summaries = [one for one in harness.partition("CUSTOMER#ann") if one["type"]["S"] == "OrderSummary"]
    assert sorted(one["status"]["S"] for one in summaries) == ["PAID", "PENDING"]


def test_the_publisher_sends_what_it_has_prepared_and_the_rest_at_the_next_delivery(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.open_shop()
    for number in range(6):
        harness.pay_order(harness.place_order(f"key-{number}", mug=1), f"evt_{number}", f"pi_{number}")
    records = harness.new_records()
    context = FakeContext(MARGIN_SECONDS + 9)
    monkeypatch.setattr(changes, "parse_change", context.spending(1, changes.parse_change))
    with record_calls("events", "PutEvents") as calls:
        left = reported(event_publisher.handler({"Records": records}, context))
        assert left == numbers(records)[10:]
        first = [entry["Detail"] for call in calls for entry in call["Entries"]]
        context.remaining_seconds = 900
        assert reported(event_publisher.handler({"Records": records[10:]}, context)) == []
    sent = [entry["Detail"] for call in calls for entry in call["Entries"]]
    assert first
    assert sent[: len(first)] == first
    assert len(sent) == len({*sent})
    with record_calls("events", "PutEvents") as all_at_once:
        event_publisher.handler({"Records": records}, None)
    assert sorted(sent) == sorted(entry["Detail"] for call in all_at_once for entry in call["Entries"])


# queues ---------------------------------------------------------------------------------------------------------------
def test_a_message_that_was_not_started_comes_again_within_seconds(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.open_shop()
    messages = paid_messages(harness, "fulfilment", 2)
    with record_calls("sqs", "ChangeMessageVisibilityBatch") as changed:
        left = reported(fulfilment_worker.handler({"Records": messages}, FakeContext(MARGIN_SECONDS - 1)))
    assert left == [one["messageId"] for one in messages]
    assert [entry["VisibilityTimeout"] for call in changed for entry in call["Entries"]] == [5, 5]
    assert reported(fulfilment_worker.handler({"Records": messages}, FakeContext(900))) == []
    found = harness.shop.table.client.scan(TableName=harness.shop.table.name, ConsistentRead=True)["Items"]
    assert {image["status"]["S"] for image in found if image["type"]["S"] == "Order"} == {"FULFILLING"}


def test_a_batch_that_fails_together_is_not_split_when_the_time_is_over(harness: ShopHarness) -> None:
    harness.open_shop()
    messages = paid_messages(harness, "fulfilment", 2)
    context = FakeContext(MARGIN_SECONDS + 1)
    slow = run_before_call("dynamodb", "TransactWriteItems", context.spending(5, lambda: None))
    with slow, fail_calls("dynamodb", "TransactWriteItems", "InternalServerError", times=1):
        left = reported(fulfilment_worker.handler({"Records": messages}, context))
    assert left == [one["messageId"] for one in messages]
