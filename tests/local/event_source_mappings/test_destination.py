import dataclasses
import json

import pytest

from local.event_source_mappings import FailureDelivered, MappingCounters
from tests.local.event_source_mappings.stream import (
    BUCKET,
    ERROR,
    FUNCTION,
    SHARD,
    START,
    STREAM,
    SUCCESS,
    feed_records,
    new_mapping,
    next_delivery,
    next_invocation,
    record,
    run_outcomes,
    sequence_numbers_of,
)

INSTANT = START + 40.479  # 2023-11-14T22:14:00.479Z


def test_a_discarded_batch_is_described_to_the_bucket_with_its_event_as_an_escaped_string() -> None:
    stream = new_mapping(max_retry_attempts=0, on_failure=BUCKET)
    stream.add_record(SHARD, record(1, item="é"), START)
    stream.add_record(SHARD, record(2, created_at=START + 5), START)
    failed = next_invocation(stream)
    stream.report_outcome(failed, ERROR, INSTANT)
    action = next_delivery(stream, INSTANT)
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


@pytest.mark.parametrize(("retries", "count"), [(0, 1), (2, 2)])
def test_the_document_of_a_record_that_grew_too_old_counts_its_invocations(retries: int, count: int) -> None:
    stream = new_mapping(max_record_age_seconds=60, on_failure=BUCKET, retry_delays_seconds=(30,))
    feed_records(stream, 1)
    stream.add_record(SHARD, record(2, created_at=START + 40), START)
    run_outcomes(stream, *[ERROR] * retries)
    action = next_delivery(stream, START + 61)
    assert sequence_numbers_of(action) == [1]
    context = action.document["requestContext"]
    assert (context["condition"], context["approximateInvokeCount"]) == ("RecordAgeExceeded", count)
    assert context["requestId"] == f"id-{count}"
    stream.report_outcome(action, FailureDelivered(), START + 61)
    assert sequence_numbers_of(next_invocation(stream, START + 61)) == [2]


@pytest.mark.parametrize("shard", [SHARD, "shardId-2"])
@pytest.mark.parametrize(
    ("succeeded", "counted"),
    [
        (True, MappingCounters(on_failure_destination_delivered=1)),
        (False, MappingCounters(destination_delivery_failures=1, dropped=1)),
    ],
)
def test_no_record_passes_a_discarded_batch_before_the_result_of_its_delivery(
    shard: str, succeeded: bool, counted: MappingCounters
) -> None:
    stream = new_mapping(max_retry_attempts=0, batch_size=1, on_failure=BUCKET)
    stream.add_shard("shardId-2", parent=SHARD)
    feed_records(stream, 1)
    feed_records(stream, 2, shard=shard)
    stream.close_shard(SHARD)
    run_outcomes(stream, ERROR)
    action = next_delivery(stream)
    assert stream.due_actions(START) == []
    assert stream.checkpoint() == {}
    stream.report_outcome(action, FailureDelivered(succeeded), START)
    assert stream.checkpoint() == {SHARD: "1"}
    assert stream.counters == dataclasses.replace(counted, polled=2, invoked=1, failed_invoke=1)
    assert sequence_numbers_of(next_invocation(stream)) == [2]


def test_the_rest_of_an_expired_half_runs_before_the_other_half() -> None:
    stream = new_mapping(max_record_age_seconds=60, bisect_on_error=True, on_failure=BUCKET, retry_delays_seconds=(61,))
    for number, created_at in enumerate([START, START + 30, START + 30, START + 30], start=1):
        stream.add_record(SHARD, record(number, created_at=created_at), START)
    assert run_outcomes(stream, ERROR, FailureDelivered(), SUCCESS, SUCCESS) == [[1, 2, 3, 4], [1], [2], [3, 4]]
