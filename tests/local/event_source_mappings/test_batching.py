import json

import pytest

from local.event_source_mappings import (
    FilterCriteria,
    InvocationFailed,
    MappingAssumptions,
    MappingCounters,
    NotInvoked,
)
from tests.local.event_source_mappings.stream import (
    SHARD,
    START,
    SUCCESS,
    feed_records,
    new_mapping,
    next_invocation,
    record,
    run_outcomes,
    sequence_numbers_of,
)

ORDERS_ONLY = FilterCriteria(('{"dynamodb": {"NewImage": {"type": {"S": ["Order"]}}}}',))


def test_without_a_window_even_one_record_goes_at_once() -> None:
    stream = new_mapping()
    assert stream.next_action_at(START) is None
    feed_records(stream, 1)
    assert stream.next_action_at(START) == START
    assert next_invocation(stream).event == {"Records": [record(1)]}


def test_a_batch_is_at_most_the_batch_size_and_the_rest_waits_for_its_result() -> None:
    stream = new_mapping(batch_size=2)
    feed_records(stream, 1, 2, 3, 4, 5)
    first = next_invocation(stream)
    assert sequence_numbers_of(first) == [1, 2]
    assert stream.due_actions(START) == []
    assert stream.next_action_at(START) is None
    stream.report_outcome(first, SUCCESS, START)
    assert run_outcomes(stream, SUCCESS, SUCCESS) == [[3, 4], [5]]
    assert stream.next_action_at(START) is None


def test_a_window_gathers_records_until_it_ends() -> None:
    stream = new_mapping(batching_window_seconds=10)
    feed_records(stream, 1)
    feed_records(stream, 2, now=START + 9)
    assert stream.due_actions(START + 9.9) == []
    assert stream.next_action_at(START + 9) == START + 10
    assert sequence_numbers_of(next_invocation(stream, START + 10)) == [1, 2]


def test_a_full_batch_does_not_wait_for_its_window() -> None:
    stream = new_mapping(batching_window_seconds=10, batch_size=3)
    feed_records(stream, 1, 2)
    assert stream.due_actions(START) == []
    feed_records(stream, 3, now=START + 1)
    assert stream.next_action_at(START + 1) == START + 1
    assert sequence_numbers_of(next_invocation(stream, START + 1)) == [1, 2, 3]


def test_the_next_window_opens_when_the_previous_invocation_completes() -> None:
    stream = new_mapping(batching_window_seconds=10)
    feed_records(stream, 1)
    first = next_invocation(stream, START + 10)
    feed_records(stream, 2, now=START + 11)
    stream.report_outcome(first, SUCCESS, START + 30)
    assert stream.next_action_at(START + 30) == START + 40
    second = next_invocation(stream, START + 40)
    stream.report_outcome(second, SUCCESS, START + 40)
    feed_records(stream, 3, now=START + 45)  # the window that opened at 40 is not over
    assert stream.next_action_at(START + 45) == START + 50
    third = next_invocation(stream, START + 50)
    stream.report_outcome(third, SUCCESS, START + 50)
    feed_records(stream, 4, now=START + 100)  # the window is over
    assert stream.next_action_at(START + 100) == START + 110


def test_a_switch_lets_windows_open_at_their_first_record() -> None:
    stream = new_mapping(batching_window_seconds=10, switches=MappingAssumptions(window_opens="at_first_record"))
    feed_records(stream, 1)
    stream.report_outcome(next_invocation(stream, START + 10), SUCCESS, START + 10)
    feed_records(stream, 2, now=START + 15)
    assert stream.next_action_at(START + 15) == START + 25


def size_of(*numbers: int) -> int:
    event = {"Records": [record(number) for number in numbers]}
    return len(json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode())


@pytest.mark.parametrize(("limit", "first"), [(size_of(1, 2, 3), [1, 2, 3]), (size_of(1, 2, 3) - 1, [1, 2])])
def test_a_batch_ends_before_its_payload_exceeds_the_limit(limit: int, first: list[int]) -> None:
    stream = new_mapping(batching_window_seconds=300, switches=MappingAssumptions(payload_limit_bytes=limit))
    feed_records(stream, 1, 2, 3, 4)
    action = next_invocation(stream)  # a full batch is due before the window ends
    assert sequence_numbers_of(action) == first
    assert len(json.dumps(action.event, separators=(",", ":")).encode()) <= limit


def test_below_the_payload_limit_the_window_stays_open() -> None:
    stream = new_mapping(
        batching_window_seconds=300, switches=MappingAssumptions(payload_limit_bytes=size_of(1, 2) + 1)
    )
    feed_records(stream, 1, 2)
    assert stream.due_actions(START) == []
    feed_records(stream, 3)
    assert sequence_numbers_of(next_invocation(stream)) == [1, 2]


def test_sent_records_no_longer_count_for_the_payload() -> None:
    stream = new_mapping(batching_window_seconds=300, switches=MappingAssumptions(payload_limit_bytes=size_of(1, 2)))
    feed_records(stream, 1, 2)
    run_outcomes(stream, SUCCESS)
    feed_records(stream, 3)
    assert stream.due_actions(START) == []


def test_a_batch_of_exactly_the_payload_limit_does_not_wait_for_its_window() -> None:
    stream = new_mapping(batching_window_seconds=300, switches=MappingAssumptions(payload_limit_bytes=size_of(1, 2)))
    feed_records(stream, 1, 2)
    assert sequence_numbers_of(next_invocation(stream)) == [1, 2]


@pytest.mark.parametrize(("letters", "first"), [(10, [1, 2]), (21, [1])])
def test_the_payload_is_counted_in_bytes_of_utf_8(letters: int, first: list[int]) -> None:
    # The record has the item's name twice. Instead of "a", 10 letters é add 38 bytes; 21 add 82 bytes (40 characters).
    stream = new_mapping(switches=MappingAssumptions(payload_limit_bytes=size_of(1, 2) + 40))
    feed_records(stream, 1)
    stream.add_record(SHARD, record(2, item="é" * letters), START)
    assert sequence_numbers_of(next_invocation(stream)) == first


def test_a_record_over_the_payload_limit_goes_alone() -> None:
    stream = new_mapping(switches=MappingAssumptions(payload_limit_bytes=10))
    feed_records(stream, 1, 2)
    assert run_outcomes(stream, SUCCESS, SUCCESS) == [[1], [2]]


def test_the_default_payload_limit_is_six_megabytes() -> None:
    stream = new_mapping(batch_size=10_000)
    big = "x" * 400_000
    for number in range(1, 20):
        stream.add_record(SHARD, record(number, item=big), START)
    action = next_invocation(stream)
    size = len(json.dumps(action.event, separators=(",", ":")).encode())
    assert 6 * 1024 * 1024 - 810_000 < size <= 6 * 1024 * 1024


def test_rejected_records_take_no_place_in_a_batch() -> None:
    stream = new_mapping(batch_size=2, batching_window_seconds=10, filters=ORDERS_ONLY)
    for number, kind in enumerate(["Order", "Line", "Line", "Order"], start=1):
        stream.add_record(SHARD, record(number, kind=kind), START)
    assert sequence_numbers_of(next_invocation(stream)) == [1, 4]
    assert (stream.counters.polled, stream.counters.filtered_out) == (4, 2)


def test_a_switch_filters_after_the_batch_was_cut() -> None:
    late = MappingAssumptions(filters_before_batching=False)
    stream = new_mapping(batch_size=2, filters=ORDERS_ONLY, switches=late)
    for number, kind in enumerate(["Order", "Line", "Line", "Line", "Order"], start=1):
        stream.add_record(SHARD, record(number, kind=kind), START)
    assert run_outcomes(stream, SUCCESS, SUCCESS) == [[1], [5]]
    assert (stream.counters.polled, stream.counters.filtered_out) == (5, 3)
    assert stream.checkpoint() == {SHARD: "5"}


def test_rejected_records_invoke_nothing_and_the_checkpoint_passes_them() -> None:
    stream = new_mapping(filters=ORDERS_ONLY)
    for number in (1, 2):
        stream.add_record(SHARD, record(number, kind="Line"), START)
    assert stream.due_actions(START) == []
    assert stream.checkpoint() == {SHARD: "2"}
    assert stream.counters == MappingCounters(polled=2, filtered_out=2)


def test_the_checkpoint_waits_for_records_in_progress_although_later_records_were_rejected() -> None:
    stream = new_mapping(batch_size=1, filters=ORDERS_ONLY)
    for number, kind in enumerate(["Line", "Order", "Line", "Order", "Line"], start=1):
        stream.add_record(SHARD, record(number, kind=kind), START)
    assert stream.checkpoint() == {SHARD: "1"}
    first = next_invocation(stream)
    assert stream.checkpoint() == {SHARD: "1"}
    stream.report_outcome(first, SUCCESS, START)
    assert stream.checkpoint() == {SHARD: "3"}
    assert run_outcomes(stream, SUCCESS) == [[4]]
    assert stream.checkpoint() == {SHARD: "5"}


def test_a_record_added_twice_is_delivered_once() -> None:
    stream = new_mapping()
    feed_records(stream, 1, 2, 1, 2, 3)
    assert sequence_numbers_of(next_invocation(stream)) == [1, 2, 3]
    feed_records(stream, 3)
    assert stream.counters.polled == 3


def test_sequence_numbers_are_compared_as_numbers() -> None:
    stream = new_mapping()
    feed_records(stream, 9, 10, 100)
    assert sequence_numbers_of(next_invocation(stream)) == [9, 10, 100]


def test_finished_records_are_forgotten() -> None:
    stream = new_mapping()
    feed_records(stream, *range(1, 50))
    run_outcomes(stream, SUCCESS)
    shard = stream._shards[SHARD]
    assert not shard.unfinished
    assert not shard.done
    assert not shard.lanes[0].retries


def test_a_mapping_resumes_behind_its_checkpoint() -> None:
    stream = new_mapping(batch_size=2)
    feed_records(stream, 1, 2, 3)
    stream.report_outcome(next_invocation(stream), SUCCESS, START)
    stored = stream.checkpoint()
    assert stored == {SHARD: "2"}

    again = new_mapping(resume=stored)
    start = again.iterator_request(SHARD)
    assert (start.iterator_type, start.sequence_number) == ("AFTER_SEQUENCE_NUMBER", "2")
    feed_records(again, 1, 2, 3)  # the mapping ignores records before its position
    assert run_outcomes(again, SUCCESS) == [[3]]
    assert again.checkpoint() == {SHARD: "3"}


def test_a_checkpoint_is_kept_before_its_shard_is_found_again() -> None:
    assert new_mapping(resume={"shardId-9": "7"}).checkpoint() == {"shardId-9": "7"}


def test_reading_pauses_while_too_much_is_unfinished() -> None:
    stream = new_mapping(switches=MappingAssumptions(read_ahead_records=2))
    feed_records(stream, 1)
    assert stream.should_read(SHARD)
    feed_records(stream, 2)
    assert not stream.should_read(SHARD)
    stream.report_outcome(next_invocation(stream), SUCCESS, START)
    assert stream.should_read(SHARD)


def test_the_iterator_age_is_that_of_the_last_record_when_it_is_sent() -> None:
    stream = new_mapping()
    stream.add_record(SHARD, record(1, created_at=START), START)
    stream.add_record(SHARD, record(2, created_at=START + 2), START + 2)
    assert next_invocation(stream, START + 2.5).iterator_age_ms == 500


def test_every_invocation_has_its_own_request_id() -> None:
    stream = new_mapping(batch_size=1)
    feed_records(stream, 1, 2)
    first = next_invocation(stream)
    stream.report_outcome(first, InvocationFailed(), START)
    second = next_invocation(stream, START + 60)
    assert first.request_id != second.request_id
    assert first.records == second.records


def test_an_outcome_is_accepted_once_and_only_for_an_action_in_progress() -> None:
    stream = new_mapping()
    feed_records(stream, 1)
    action = next_invocation(stream)
    stream.report_outcome(action, NotInvoked(), START)
    with pytest.raises(ValueError, match="no such action is in progress"):
        stream.report_outcome(action, SUCCESS, START)
