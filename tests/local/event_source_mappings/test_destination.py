import json

import pytest

from local.event_source_mappings import FailureDelivered, MappingAssumptions, MappingCounters, NotInvoked
from tests.local.event_source_mappings.stream import (
    BUCKET,
    ERROR,
    FUNCTION,
    QUEUE,
    SHARD,
    START,
    STREAM,
    SUCCESS,
    feed_records,
    new_mapping,
    next_delivery,
    next_invocation,
    record,
    report_failures,
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


def test_a_queue_gets_no_records_and_no_key() -> None:
    stream = new_mapping(max_retry_attempts=0, on_failure=QUEUE)
    feed_records(stream, 1)
    run_outcomes(stream, ERROR)
    action = next_delivery(stream)
    assert (action.destination, action.key) == (QUEUE, None)
    assert "payload" not in action.document


def test_the_invoke_count_restarts_with_each_retry_budget() -> None:
    stream = new_mapping(report_item_failures=True, max_retry_attempts=3, on_failure=BUCKET)
    feed_records(stream, 1, 2)
    assert len(run_outcomes(stream, *[report_failures(2)] * 5)) == 5
    action = next_delivery(stream)
    assert action.document["requestContext"]["approximateInvokeCount"] == 4
    # null, because the function reported the failure and raised no error
    assert action.document["responseContext"]["functionError"] is None
    assert action.document["DDBStreamBatchInfo"]["startSequenceNumber"] == "2"


def test_a_discarded_batch_that_was_never_invoked_reports_its_age() -> None:
    stream = new_mapping(max_record_age_seconds=60, on_failure=BUCKET)
    feed_records(stream, 1)
    stream.add_record(SHARD, record(2, created_at=START + 60), START)
    action = next_delivery(stream, START + 61)
    assert sequence_numbers_of(action) == [1]
    assert "responseContext" not in action.document
    context = action.document["requestContext"]
    assert (context["condition"], context["approximateInvokeCount"]) == ("RecordAgeExceeded", 1)
    assert context["requestId"] == "id-1"
    stream.report_outcome(action, FailureDelivered(), START + 61)
    assert sequence_numbers_of(next_invocation(stream, START + 61)) == [2]


def test_nothing_passes_a_discarded_batch_before_its_document_is_delivered() -> None:
    stream = new_mapping(max_retry_attempts=0, batch_size=1, on_failure=BUCKET)
    feed_records(stream, 1, 2)
    run_outcomes(stream, ERROR)
    action = next_delivery(stream)
    assert stream.due_actions(START) == []
    assert stream.checkpoint() == {}
    stream.report_outcome(action, FailureDelivered(), START)
    assert stream.checkpoint() == {SHARD: "1"}
    assert stream.counters == MappingCounters(polled=2, invoked=1, failed_invoke=1, on_failure_destination_delivered=1)
    assert sequence_numbers_of(next_invocation(stream)) == [2]


def test_a_failed_delivery_drops_its_records() -> None:
    stream = new_mapping(max_retry_attempts=0, on_failure=BUCKET)
    feed_records(stream, 1, 2)
    run_outcomes(stream, ERROR)
    stream.report_outcome(next_delivery(stream), FailureDelivered(succeeded=False), START)
    assert stream.counters == MappingCounters(
        polled=2, invoked=2, failed_invoke=2, dropped=2, destination_delivery_failures=1
    )
    assert stream.checkpoint() == {SHARD: "2"}
    assert stream.next_action_at(START) is None


@pytest.mark.parametrize("outcome", [NotInvoked(), ERROR, SUCCESS])
def test_a_delivery_is_answered_with_a_delivery(outcome: object) -> None:
    stream = new_mapping(max_retry_attempts=0, on_failure=BUCKET)
    feed_records(stream, 1)
    run_outcomes(stream, ERROR)
    action = next_delivery(stream)
    with pytest.raises(ValueError, match="is not an outcome of Deliver"):
        stream.report_outcome(action, outcome, START)  # type: ignore[arg-type]


def test_each_half_of_a_bisected_batch_that_fails_has_its_own_document() -> None:
    stream = new_mapping(bisect_on_error=True, max_retry_attempts=0, on_failure=BUCKET)
    feed_records(stream, 1, 2)
    delivered = FailureDelivered()
    assert run_outcomes(stream, ERROR, ERROR, delivered, ERROR, delivered) == [[1, 2], [1], [1], [2], [2]]
    assert stream.counters.on_failure_destination_delivered == 2


def test_age_is_checked_again_before_every_retry() -> None:
    stream = new_mapping(
        max_record_age_seconds=60, on_failure=BUCKET, switches=MappingAssumptions(retry_delays_seconds=(30,))
    )
    feed_records(stream, 1)
    stream.add_record(SHARD, record(2, created_at=START + 40), START)
    now = START
    for _ in range(3):
        now = stream.next_action_at(now) or 0.0
        stream.report_outcome(next_invocation(stream, now), ERROR, now)
    action = next_delivery(stream, now + 30)
    assert sequence_numbers_of(action) == [1]
    assert action.document["requestContext"]["approximateInvokeCount"] == 3
    stream.report_outcome(action, FailureDelivered(), now + 30)
    assert sequence_numbers_of(next_invocation(stream, now + 30)) == [2]


def test_the_rest_of_an_expired_half_runs_before_the_other_half() -> None:
    stream = new_mapping(
        max_record_age_seconds=60,
        bisect_on_error=True,
        on_failure=BUCKET,
        switches=MappingAssumptions(retry_delays_seconds=(61,)),
    )
    for number, created_at in enumerate([START, START + 30, START + 30, START + 30], start=1):
        stream.add_record(SHARD, record(number, created_at=created_at), START)
    assert run_outcomes(stream, ERROR, FailureDelivered(), SUCCESS, SUCCESS) == [[1, 2, 3, 4], [1], [2], [3, 4]]
