import json

import pytest

from local.mappings import Counters, Delivered, NotInvoked, Switches
from tests.local.mappings.stream import (
    BUCKET,
    ERROR,
    FUNCTION,
    QUEUE,
    SHARD,
    START,
    STREAM,
    SUCCESS,
    deliveries_of,
    delivery,
    feed,
    invocation,
    mapping,
    numbers_of,
    record,
    reports,
)

INSTANT = START + 40.479  # 2023-11-14T22:14:00.479Z


def test_a_discarded_batch_is_described_to_the_bucket_with_its_event_as_an_escaped_string() -> None:
    stream = mapping(max_retry_attempts=0, on_failure=BUCKET)
    stream.feed(SHARD, record(1, item="é"), START)
    stream.feed(SHARD, record(2, created_at=START + 5), START)
    failed = invocation(stream)
    stream.result(failed, ERROR, INSTANT)
    action = delivery(stream, INSTANT)
    assert action.destination == BUCKET
    assert action.key == "aws/lambda/mapping-1/shardId-1/2023/11/14/2023-11-14T22.14.00-id-2"
    assert action.document == {
        "requestContext": {
            "requestId": failed.request_id,
            "functionArn": FUNCTION,
            "condition": "RetryAttemptsExhausted",
            "approximateInvokeCount": 1,
        },
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "version": "1.0",
        "timestamp": "2023-11-14T22:14:00.479Z",
        "DDBStreamBatchInfo": {
            "shardId": SHARD,
            "startSequenceNumber": "1",
            "endSequenceNumber": "2",
            "approximateArrivalOfFirstRecord": "2023-11-14T22:13:20Z",
            "approximateArrivalOfLastRecord": "2023-11-14T22:13:25Z",
            "batchSize": 2,
            "streamArn": STREAM,
        },
        "payload": action.document["payload"],
    }
    assert isinstance(action.document["payload"], str)
    assert json.loads(action.document["payload"]) == failed.event
    assert json.loads(json.dumps(action.document)) == action.document


def test_a_queue_gets_no_records_and_no_key() -> None:
    stream = mapping(max_retry_attempts=0, on_failure=QUEUE)
    feed(stream, 1)
    deliveries_of(stream, ERROR)
    action = delivery(stream)
    assert (action.destination, action.key) == (QUEUE, None)
    assert "payload" not in action.document


def test_the_invoke_count_is_that_of_the_last_budget() -> None:
    stream = mapping(report_item_failures=True, max_retry_attempts=3, on_failure=BUCKET)
    feed(stream, 1, 2)
    assert len(deliveries_of(stream, *[reports(2)] * 5)) == 5
    action = delivery(stream)
    assert action.document["requestContext"]["approximateInvokeCount"] == 4
    assert action.document["responseContext"]["functionError"] is None  # reported, not raised
    assert action.document["DDBStreamBatchInfo"]["startSequenceNumber"] == "2"


def test_a_batch_that_grew_too_old_says_so_though_it_was_never_invoked() -> None:
    stream = mapping(max_record_age_seconds=60, on_failure=BUCKET)
    feed(stream, 1)
    stream.feed(SHARD, record(2, created_at=START + 60), START)
    action = delivery(stream, START + 61)
    assert numbers_of(action) == [1]
    assert "responseContext" not in action.document
    context = action.document["requestContext"]
    assert (context["condition"], context["approximateInvokeCount"]) == ("RecordAgeExceeded", 1)
    assert context["requestId"] == "id-1"
    stream.result(action, Delivered(), START + 61)
    assert numbers_of(invocation(stream, START + 61)) == [2]


def test_nothing_passes_a_discarded_batch_before_its_document_is_delivered() -> None:
    stream = mapping(max_retry_attempts=0, batch_size=1, on_failure=BUCKET)
    feed(stream, 1, 2)
    deliveries_of(stream, ERROR)
    action = delivery(stream)
    assert stream.due(START) == []
    assert stream.checkpoint() == {}
    stream.result(action, Delivered(), START)
    assert stream.checkpoint() == {SHARD: "1"}
    assert stream.counters == Counters(polled=2, invoked=1, failed_invoke=1, on_failure_destination_delivered=1)
    assert numbers_of(invocation(stream)) == [2]


def test_a_failed_delivery_drops_its_records() -> None:
    stream = mapping(max_retry_attempts=0, on_failure=BUCKET)
    feed(stream, 1, 2)
    deliveries_of(stream, ERROR)
    stream.result(delivery(stream), Delivered(succeeded=False), START)
    assert stream.counters == Counters(polled=2, invoked=2, failed_invoke=2, dropped=2, destination_delivery_failures=1)
    assert stream.checkpoint() == {SHARD: "2"}
    assert stream.next_at(START) is None


@pytest.mark.parametrize("outcome", [NotInvoked(), ERROR, SUCCESS])
def test_a_delivery_is_answered_with_a_delivery(outcome: object) -> None:
    stream = mapping(max_retry_attempts=0, on_failure=BUCKET)
    feed(stream, 1)
    deliveries_of(stream, ERROR)
    action = delivery(stream)
    with pytest.raises(ValueError, match="is no outcome of Deliver"):
        stream.result(action, outcome, START)  # type: ignore[arg-type]


def test_each_half_of_a_bisected_batch_that_fails_has_its_own_document() -> None:
    stream = mapping(bisect_on_error=True, max_retry_attempts=0, on_failure=BUCKET)
    feed(stream, 1, 2)
    delivered = Delivered()
    assert deliveries_of(stream, ERROR, ERROR, delivered, ERROR, delivered) == [[1, 2], [1], [1], [2], [2]]
    assert stream.counters.on_failure_destination_delivered == 2


def test_age_is_checked_again_before_every_retry() -> None:
    stream = mapping(max_record_age_seconds=60, on_failure=BUCKET, switches=Switches(retry_delays_seconds=(30,)))
    feed(stream, 1)
    stream.feed(SHARD, record(2, created_at=START + 40), START)
    now = START
    for _ in range(3):
        now = stream.next_at(now) or 0.0
        stream.result(invocation(stream, now), ERROR, now)
    action = delivery(stream, now + 30)
    assert numbers_of(action) == [1]
    assert action.document["requestContext"]["approximateInvokeCount"] == 3
    stream.result(action, Delivered(), now + 30)
    assert numbers_of(invocation(stream, now + 30)) == [2]


def test_what_is_left_of_an_aged_half_still_goes_before_the_other_half() -> None:
    stream = mapping(
        max_record_age_seconds=60,
        bisect_on_error=True,
        on_failure=BUCKET,
        switches=Switches(retry_delays_seconds=(61,)),
    )
    for number, created_at in enumerate([START, START + 30, START + 30, START + 30], start=1):
        stream.feed(SHARD, record(number, created_at=created_at), START)
    assert deliveries_of(stream, ERROR, Delivered(), SUCCESS, SUCCESS) == [[1, 2, 3, 4], [1], [2], [3, 4]]
