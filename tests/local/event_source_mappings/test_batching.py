from typing import Literal

import pytest

from local.event_source_mappings import FailureDelivered, MappingCounters, NotInvoked
from local.event_source_mappings.actions import ShardIteratorRequest
from tests.local.event_source_mappings.stream import (
    BUCKET,
    ERROR,
    ORDERS_ONLY,
    SHARD,
    START,
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

CHILD = "shardId-2"


@pytest.mark.parametrize(
    ("window_opens", "read_at", "due_at"),
    [
        ("at_completion", 15, 20),
        ("at_completion", 100, 110),  # the window that opened at 10 is over
        ("at_first_record", 15, 25),
    ],
)
def test_a_window_opens_after_the_previous_invocation_or_at_its_first_record(
    window_opens: str, read_at: int, due_at: int
) -> None:
    stream = new_mapping(batching_window_seconds=10, window_opens=window_opens)
    feed_records(stream, 1)
    stream.report_outcome(next_invocation(stream, START + 10), SUCCESS, START + 10)
    feed_records(stream, 2, now=START + read_at)
    assert stream.next_action_at(START + read_at) == START + due_at


def test_an_assumption_filters_after_the_batch_was_cut() -> None:
    stream = new_mapping(batch_size=2, filters=ORDERS_ONLY, filters_before_batching=False)
    for number, kind in enumerate(["Order", "Line", "Line", "Line", "Order"], start=1):
        stream.add_record(SHARD, record(number, kind=kind), START)
    assert run_outcomes(stream, SUCCESS, SUCCESS) == [[1], [5]]
    assert stream.counters == MappingCounters(polled=5, filtered_out=3, invoked=2)
    assert stream.checkpoint() == {SHARD: "5"}


def test_a_record_that_was_read_before_is_ignored() -> None:
    stream = new_mapping()
    feed_records(stream, 9, 10, 9, 100, 10, 100)
    assert sequence_numbers_of(next_invocation(stream)) == [9, 10, 100]


def test_finished_records_are_forgotten() -> None:
    stream = new_mapping()
    feed_records(stream, *range(1, 50))
    run_outcomes(stream, SUCCESS)
    shard = stream._shards[SHARD]
    assert not shard.unfinished
    assert not shard.done
    assert not shard.lanes[0].retries


def test_a_resumed_mapping_keeps_all_checkpoints_and_reads_after_them() -> None:
    checkpoints = {SHARD: "2", "shardId-9": "7"}
    stream = new_mapping(resume=checkpoints)
    assert stream.iterator_request(SHARD) == ShardIteratorRequest("AFTER_SEQUENCE_NUMBER", "2")
    assert stream.checkpoint() == checkpoints


@pytest.mark.parametrize("starts_at", ["TRIM_HORIZON", "LATEST"])
def test_an_assumption_decides_where_reading_starts_in_a_child_shard(
    starts_at: Literal["TRIM_HORIZON", "LATEST"],
) -> None:
    stream = new_mapping(starting_position="LATEST", child_shards_start=starts_at)
    stream.add_shard(CHILD, parent=SHARD)
    assert stream.iterator_request(SHARD) == ShardIteratorRequest("LATEST")
    assert stream.iterator_request(CHILD) == ShardIteratorRequest(starts_at)


def test_reading_pauses_while_too_many_records_or_the_parent_shard_are_unfinished() -> None:
    stream = new_mapping(read_ahead_records=2)
    stream.add_shard(CHILD, parent=SHARD)
    feed_records(stream, 1)
    assert stream.should_read(SHARD)
    feed_records(stream, 2)
    assert not stream.should_read(SHARD)
    stream.close_shard(SHARD)
    assert not stream.should_read(CHILD)
    run_outcomes(stream, SUCCESS)
    assert stream.should_read(SHARD)
    assert stream.should_read(CHILD)


def test_the_iterator_age_is_that_of_the_last_record_when_it_is_sent() -> None:
    stream = new_mapping()
    feed_records(stream, 1)
    stream.add_record(SHARD, record(2, created_at=START + 2), START + 2)
    assert next_invocation(stream, START + 2.5).iterator_age_ms == 500


def test_an_action_takes_one_outcome_and_only_of_its_kind() -> None:
    stream = new_mapping(max_retry_attempts=0, on_failure=BUCKET)
    feed_records(stream, 1)
    invocation = next_invocation(stream)
    with pytest.raises(ValueError, match="FailureDelivered is not an outcome of Invoke"):
        stream.report_outcome(invocation, FailureDelivered(), START)
    stream.report_outcome(invocation, ERROR, START)
    with pytest.raises(ValueError, match="no such action is in progress"):
        stream.report_outcome(invocation, ERROR, START)
    delivery = next_delivery(stream)
    for outcome in (NotInvoked(), ERROR, SUCCESS):
        with pytest.raises(ValueError, match="is not an outcome of DeliverFailure"):
            stream.report_outcome(delivery, outcome, START)


def test_the_counters_count_records_by_what_happened_to_them() -> None:
    stream = new_mapping(batch_size=3, report_item_failures=True, max_retry_attempts=1, filters=ORDERS_ONLY)
    stream.add_record(SHARD, record(1, kind="Line"), START)
    feed_records(stream, 2, 3, 4, 5)
    run_outcomes(stream, NotInvoked(), report_failures(4, 3), report_failures(3), ERROR, SUCCESS)
    assert stream.counters == MappingCounters(
        polled=5, filtered_out=1, invoked=3 + 2 + 2 + 1, failed_invoke=3 + 2 + 1 + 2, dropped=2
    )
