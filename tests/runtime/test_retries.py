"""Tests the retries of a queue's messages: they begin within seconds, wait longer each time, and wait for claims."""

import json
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from moto import mock_aws

from functions.handlers import event_publisher, order_notification_worker
from functions.model.retention import MAIL_CLAIM_SECONDS
from functions.model.retries import (
    DEFAULT_WAITS,
    ClaimHeld,
    RetryWaits,
    deferral_delay_seconds,
    max_receive_count,
    retry_delay_seconds,
)
from functions.runtime import clients
from functions.runtime.queue_batch import MessageBatch
from local.world.dynamodb_engine import REGION
from local.world.harness import ShopHarness

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


def test_waits_begin_with_seconds_and_double_up_to_ten_minutes() -> None:
    waits = [retry_delay_seconds(attempt) for attempt in range(1, 20)]
    assert waits[:4] == [5, 10, 20, 40]
    assert all(before <= after <= DEFAULT_WAITS.max_seconds for before, after in pairwise(waits))
    assert retry_delay_seconds(10_000) == 600
    assert [retry_delay_seconds(attempt, RetryWaits(1, 3)) for attempt in range(1, 5)] == [1, 2, 3, 3]


@pytest.mark.parametrize("timeout", [1, 90, 360, 1080])
def test_the_last_wait_ends_after_five_timeouts(timeout: int) -> None:
    waits = [retry_delay_seconds(attempt) for attempt in range(1, max_receive_count(timeout) + 1)]
    assert sum(waits[:-1]) < 5 * timeout <= sum(waits)


@pytest.mark.parametrize(("age", "delay"), [(0, 60), (59, 60), (60, 300), (299, 300), (300, 900), (3 * 86_400, 900)])
def test_a_deferred_mail_waits_longer_each_time_and_at_most_15_minutes(age: int, delay: int) -> None:
    assert deferral_delay_seconds(age, is_daily_quota=False) == delay
    assert deferral_delay_seconds(age, is_daily_quota=True) == 900


def make_sqs() -> Mock:
    """Return a client of SQS that records requests instead of sending them."""
    with mock_aws():
        return Mock(meta=boto3.client("sqs", region_name=REGION).meta)


def requests_of(sqs: Mock) -> list[Any]:
    return [call.kwargs for call in sqs.change_message_visibility_batch.call_args_list]


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> Mock:
    made, real = make_sqs(), clients.client
    monkeypatch.setattr(clients, "client", lambda service: made if service == "sqs" else real(service))
    return made


def message(number: int, attempt: int = 1) -> dict[str, Any]:
    return {
        "messageId": f"m{number}",
        "receiptHandle": f"handle {number}",
        "attributes": {"ApproximateReceiveCount": str(attempt)},
        "eventSourceARN": f"arn:aws:sqs:{REGION}:123456789012:shop-queue",
        "body": json.dumps({}),
    }


def failed_batch(*messages: dict[str, Any], error: Exception) -> MessageBatch:
    batch = MessageBatch(messages, lambda record, reason: None, lambda error, record: None)
    for one in messages:
        batch.retry_record(one, error)
    return batch


def test_a_failed_message_is_delivered_again_after_a_wait_by_its_attempt(sqs: Mock) -> None:
    failed_batch(message(1), message(2, attempt=3), error=TimeoutError()).change_message_visibility(NOW)
    (request,) = requests_of(sqs)
    assert request["QueueUrl"] == f"https://sqs.{REGION}.amazonaws.com/123456789012/shop-queue"
    assert [(one["ReceiptHandle"], one["VisibilityTimeout"]) for one in request["Entries"]] == [
        ("handle 1", 5),
        ("handle 2", 20),
    ]


def test_a_message_whose_effect_is_claimed_waits_until_the_claim_has_ended(sqs: Mock) -> None:
    failed_batch(message(1), error=ClaimHeld(int(NOW.timestamp()) + 70)).change_message_visibility(NOW)
    assert [one["VisibilityTimeout"] for one in requests_of(sqs)[0]["Entries"]] == [71]


def test_ten_messages_at_most_are_in_one_request(sqs: Mock) -> None:
    failed_batch(*map(message, range(23)), error=TimeoutError()).change_message_visibility(NOW)
    assert [len(one["Entries"]) for one in requests_of(sqs)] == [10, 10, 3]


def test_a_batch_without_failures_sends_nothing(sqs: Mock) -> None:
    MessageBatch([message(1)], lambda record, reason: None, lambda error, record: None).change_message_visibility(NOW)
    assert requests_of(sqs) == []


def test_if_sqs_does_not_answer_the_messages_are_still_reported(sqs: Mock) -> None:
    sqs.change_message_visibility_batch.side_effect = EndpointConnectionError(endpoint_url="https://sqs")
    batch = failed_batch(message(1), error=TimeoutError())
    batch.change_message_visibility(NOW)
    assert batch.response() == {"batchItemFailures": [{"itemIdentifier": "m1"}]}


def test_a_mail_that_failed_waits_for_the_end_of_its_claim(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqs, real = make_sqs(), clients.client

    def fail(*_: Any) -> str:
        raise TimeoutError

    harness.open_shop()
    harness.place_order("one", mug=1)
    records = harness.new_records()
    event_publisher.handler({"Records": records}, None)
    mails = [message(number) | sent for number, sent in enumerate(harness.take_messages("order_notification"))]
    monkeypatch.setattr(order_notification_worker, "send_mail", fail)
    monkeypatch.setattr(clients, "client", lambda service: sqs if service == "sqs" else real(service))
    for _ in range(2):  # the second time, the claim of the first run still lasts
        answer = order_notification_worker.handler({"Records": mails}, None)
        assert answer == {"batchItemFailures": [{"itemIdentifier": one["messageId"]} for one in mails]}
    waits = [entry["VisibilityTimeout"] for request in requests_of(sqs) for entry in request["Entries"]]
    assert len(waits) == 2
    assert all(MAIL_CLAIM_SECONDS - 5 < wait <= MAIL_CLAIM_SECONDS + 2 for wait in waits)
