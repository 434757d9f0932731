from typing import Any

import pytest

from local.event_source_mappings import (
    FailureDelivered,
    InvocationReturned,
    MappingAssumptions,
    MappingCounters,
    NotInvoked,
)
from tests.local.event_source_mappings.stream import (
    BUCKET,
    ERROR,
    SHARD,
    START,
    SUCCESS,
    feed_records,
    new_mapping,
    next_invocation,
    record,
    report_failures,
    run_outcomes,
    sequence_numbers_of,
)

# Attempts


@pytest.mark.parametrize(("retries", "invocations"), [(0, 1), (1, 2), (3, 4)])
def test_n_retries_are_n_plus_one_invocations_and_then_the_next_records(retries: int, invocations: int) -> None:
    stream = new_mapping(max_retry_attempts=retries, batch_size=2)
    feed_records(stream, 1, 2, 3)
    assert run_outcomes(stream, *[ERROR] * invocations) == [[1, 2]] * invocations
    assert stream.counters == MappingCounters(
        polled=3, invoked=2 * invocations, failed_invoke=2 * invocations, dropped=2
    )
    assert stream.checkpoint() == {SHARD: "2"}
    assert run_outcomes(stream, SUCCESS) == [[3]]


def test_without_a_limit_a_failing_batch_blocks_its_shard_for_ever() -> None:
    stream = new_mapping(batch_size=1, switches=MappingAssumptions(retention_seconds=None))
    feed_records(stream, 1, 2)
    assert run_outcomes(stream, *[ERROR] * 500) == [[1]] * 500
    assert stream.checkpoint() == {}
    assert run_outcomes(stream, SUCCESS, SUCCESS) == [[1], [2]]


def test_a_retry_waits_and_waits_longer_after_each_failure_in_a_row() -> None:
    stream = new_mapping(switches=MappingAssumptions(retry_delays_seconds=(1, 5)))
    feed_records(stream, 1)
    now = START
    for outcome, wait in ((ERROR, 0), (NotInvoked(), 1), (ERROR, 5), (SUCCESS, 5)):
        assert stream.next_action_at(now) == now + wait
        assert wait == 0 or stream.due_actions(now + wait - 0.01) == []
        now += wait
        stream.report_outcome(next_invocation(stream, now), outcome, now)
    feed_records(stream, 2, now=now)
    stream.report_outcome(next_invocation(stream, now), ERROR, now)
    assert stream.next_action_at(now) == now + 1  # after a success, the retry delays start again


def test_a_retry_is_not_topped_up_with_new_records() -> None:
    stream = new_mapping()
    feed_records(stream, 1)
    first = next_invocation(stream)
    feed_records(stream, 2)
    stream.report_outcome(first, ERROR, START)
    assert run_outcomes(stream, SUCCESS, SUCCESS) == [[1], [2]]


def test_a_throttled_invocation_uses_no_retry() -> None:
    stream = new_mapping(max_retry_attempts=1)
    feed_records(stream, 1)
    throttled = NotInvoked()
    assert run_outcomes(stream, *[throttled] * 50, ERROR, *[throttled] * 50, SUCCESS) == [[1]] * 102
    assert stream.counters == MappingCounters(polled=1, invoked=2, failed_invoke=101)
    assert stream.checkpoint() == {SHARD: "1"}


def test_a_throttled_invocation_splits_no_batch() -> None:
    stream = new_mapping(bisect_on_error=True)
    feed_records(stream, 1, 2)
    assert run_outcomes(stream, NotInvoked(), SUCCESS) == [[1, 2], [1, 2]]


def test_only_the_right_kind_of_outcome_is_taken() -> None:
    stream = new_mapping()
    feed_records(stream, 1)
    action = next_invocation(stream)
    with pytest.raises(ValueError, match="Delivered is not an outcome of Invoke"):
        stream.report_outcome(action, FailureDelivered(), START)
    stream.report_outcome(action, SUCCESS, START)


# Age


def test_records_over_the_maximum_age_are_cut_from_the_front_and_the_rest_is_invoked() -> None:
    stream = new_mapping(max_record_age_seconds=60)
    for number, created_at in enumerate([START, START + 1, START + 50], start=1):
        stream.add_record(SHARD, record(number, created_at=created_at), START)
    assert sequence_numbers_of(next_invocation(stream, START + 62)) == [3]
    assert stream.counters.dropped == 2
    assert stream.checkpoint() == {SHARD: "2"}


def test_a_record_of_exactly_the_maximum_age_is_still_invoked() -> None:
    stream = new_mapping(max_record_age_seconds=60)
    feed_records(stream, 1)
    assert sequence_numbers_of(next_invocation(stream, START + 60)) == [1]


@pytest.mark.parametrize("outcome", [ERROR, NotInvoked()])
def test_the_maximum_record_age_ends_the_retries_of_every_failure(outcome: Any) -> None:
    stream = new_mapping(max_record_age_seconds=60, switches=MappingAssumptions(retry_delays_seconds=(61,)))
    feed_records(stream, 1)
    stream.report_outcome(next_invocation(stream), outcome, START)
    assert stream.next_action_at(START) == START + 61
    assert stream.due_actions(START + 61) == []
    assert (stream.counters.dropped, stream.checkpoint()) == (1, {SHARD: "1"})


def test_records_older_than_the_retention_of_the_stream_are_counted_as_expired() -> None:
    stream = new_mapping(on_failure=BUCKET)
    feed_records(stream, 1)
    assert stream.due_actions(START + 86_401) == []
    assert stream.counters == MappingCounters(polled=1, expired=1)
    assert stream.checkpoint() == {SHARD: "1"}


def test_the_retention_of_the_stream_limits_a_longer_maximum_age() -> None:
    stream = new_mapping(max_record_age_seconds=604_800, on_failure=BUCKET)
    feed_records(stream, 1)
    assert stream.due_actions(START + 90_000) == []
    assert stream.counters.expired == 1


def test_a_switch_keeps_records_for_ever() -> None:
    stream = new_mapping(switches=MappingAssumptions(retention_seconds=None))
    feed_records(stream, 1)
    assert sequence_numbers_of(next_invocation(stream, START + 9e9)) == [1]


# Bisect


def test_an_error_halves_the_batch_and_the_lower_half_is_finished_first() -> None:
    stream = new_mapping(bisect_on_error=True, max_retry_attempts=0)
    feed_records(stream, 1, 2, 3, 4, 5)
    outcomes = [ERROR, ERROR, SUCCESS, ERROR, ERROR, SUCCESS, SUCCESS]
    assert run_outcomes(stream, *outcomes) == [[1, 2, 3, 4, 5], [1, 2], [1], [2], [3, 4, 5], [3], [4, 5]]
    assert stream.counters.dropped == 1  # record 2 failed alone and may not be retried; splits use no retries
    assert stream.checkpoint() == {SHARD: "5"}


def test_a_single_record_that_fails_uses_its_retries() -> None:
    stream = new_mapping(bisect_on_error=True, max_retry_attempts=2)
    feed_records(stream, 1, 2)
    assert run_outcomes(stream, *[ERROR] * 4, SUCCESS) == [[1, 2], [1], [1], [1], [2]]
    assert stream.counters.dropped == 1


def test_switches_choose_the_midpoint_and_the_first_half() -> None:
    stream = new_mapping(
        bisect_on_error=True, switches=MappingAssumptions(bisect_midpoint="ceiling", bisect_first="upper")
    )
    feed_records(stream, 1, 2, 3)
    assert run_outcomes(stream, ERROR, SUCCESS, SUCCESS) == [[1, 2, 3], [3], [1, 2]]


@pytest.mark.parametrize(("attempts", "tries_of_one"), [("inherit", 1), ("reset", 2)])
def test_halves_inherit_the_retry_count_or_start_at_zero(attempts: Any, tries_of_one: int) -> None:
    stream = new_mapping(
        bisect_on_error=True,
        report_item_failures=True,
        max_retry_attempts=1,
        switches=MappingAssumptions(bisect_attempts=attempts),
    )
    feed_records(stream, 1, 2)
    # A report without progress counts as an attempt. The error that splits the batch does not count.
    assert run_outcomes(stream, report_failures(1), ERROR) == [[1, 2], [1, 2]]
    assert run_outcomes(stream, *[ERROR] * tries_of_one, now=START) == [[1]] * tries_of_one
    assert stream.counters.dropped == 1


# Partial responses


@pytest.mark.parametrize(
    "response", [None, {}, [], {"batchItemFailures": []}, {"batchItemFailures": None}, {"status": "ok"}]
)
def test_an_empty_report_is_a_success(response: object) -> None:
    stream = new_mapping(report_item_failures=True)
    feed_records(stream, 1, 2)
    assert run_outcomes(stream, InvocationReturned(response)) == [[1, 2]]
    assert stream.checkpoint() == {SHARD: "2"}
    assert stream.counters == MappingCounters(polled=2, invoked=2)


@pytest.mark.parametrize(
    "failures",
    [
        [{"itemIdentifier": ""}],
        [{"itemIdentifier": None}],
        [{"itemidentifier": "2"}],
        [{"itemIdentifier": 123}],
        [{"itemIdentifier": 2}],
        [{}],
        ["2"],
        [None],
        [{"itemIdentifier": "2"}, {"itemIdentifier": ""}],
        [{"itemIdentifier": "9"}],
        [{"itemIdentifier": "9"}, {"itemIdentifier": "2"}],
        {"itemIdentifier": "2"},
        "2",
    ],
)
def test_a_report_that_names_no_record_of_the_batch_fails_the_whole_batch(failures: object) -> None:
    stream = new_mapping(report_item_failures=True)
    feed_records(stream, 1, 2, 3)
    assert run_outcomes(stream, InvocationReturned({"batchItemFailures": failures}), SUCCESS) == [[1, 2, 3], [1, 2, 3]]
    assert stream.counters.failed_invoke == 3


@pytest.mark.parametrize("response", [b"not json", "ok", 1, True, ["2"]])
def test_a_response_that_cannot_be_read_fails_unless_a_switch_says_otherwise(response: object) -> None:
    careful = new_mapping(report_item_failures=True)
    feed_records(careful, 1)
    assert run_outcomes(careful, InvocationReturned(response), SUCCESS) == [[1], [1]]
    careless = new_mapping(report_item_failures=True, switches=MappingAssumptions(unreadable_response="succeeds"))
    feed_records(careless, 1)
    assert run_outcomes(careless, InvocationReturned(response)) == [[1]]
    assert careless.checkpoint() == {SHARD: "1"}


def test_a_switch_ignores_identifiers_that_are_not_in_the_batch() -> None:
    ignoring = MappingAssumptions(unknown_identifier="ignored")
    stream = new_mapping(report_item_failures=True, switches=ignoring)
    feed_records(stream, 1, 2, 3)
    assert run_outcomes(stream, report_failures(9, 3), report_failures(9)) == [[1, 2, 3], [3]]
    assert stream.checkpoint() == {SHARD: "3"}


@pytest.mark.parametrize("identifier", ["", None, 2])
def test_an_improper_identifier_fails_the_batch_even_where_unknown_ones_are_ignored(identifier: object) -> None:
    stream = new_mapping(report_item_failures=True, switches=MappingAssumptions(unknown_identifier="ignored"))
    feed_records(stream, 1, 2)
    response = InvocationReturned({"batchItemFailures": [{"itemIdentifier": "2"}, {"itemIdentifier": identifier}]})
    assert run_outcomes(stream, response, SUCCESS) == [[1, 2], [1, 2]]


def test_the_lowest_reported_record_and_every_later_one_are_delivered_again() -> None:
    stream = new_mapping(report_item_failures=True)
    feed_records(stream, 8, 9, 10, 11, 12)
    first = next_invocation(stream)
    stream.report_outcome(first, report_failures(11, 9), START)
    assert stream.checkpoint() == {SHARD: "8"}
    assert run_outcomes(stream, SUCCESS) == [[9, 10, 11, 12]]  # records 10 and 12 had succeeded before
    assert stream.counters == MappingCounters(polled=5, invoked=9, failed_invoke=2)


def test_without_report_item_failures_any_response_is_a_success() -> None:
    stream = new_mapping()
    feed_records(stream, 1, 2)
    assert run_outcomes(stream, report_failures(1)) == [[1, 2]]
    assert stream.checkpoint() == {SHARD: "2"}


def test_reported_failures_consume_retries_and_then_the_whole_rest_is_discarded() -> None:
    stream = new_mapping(report_item_failures=True, max_retry_attempts=2)
    feed_records(stream, 1, 2, 3)
    assert run_outcomes(stream, *[report_failures(1)] * 3) == [[1, 2, 3]] * 3
    assert (stream.counters.dropped, stream.checkpoint()) == (3, {SHARD: "3"})


def test_progress_forgets_the_retries_used_before_it() -> None:
    stream = new_mapping(report_item_failures=True, max_retry_attempts=1)
    feed_records(stream, 1, 2)
    assert run_outcomes(stream, report_failures(1), report_failures(2), report_failures(2), report_failures(2)) == [
        [1, 2],
        [1, 2],
        [2],
        [2],
    ]
    assert stream.counters.dropped == 1


def test_a_switch_lets_progress_consume_retries_too() -> None:
    stream = new_mapping(
        report_item_failures=True, max_retry_attempts=3, switches=MappingAssumptions(progress_resets_attempts=False)
    )
    feed_records(stream, 1, 2)
    assert run_outcomes(stream, *[report_failures(2)] * 4) == [[1, 2], [2], [2], [2]]
    assert stream.counters.dropped == 1


def test_with_bisect_a_report_splits_at_its_record_and_an_error_still_halves() -> None:
    stream = new_mapping(report_item_failures=True, bisect_on_error=True)
    feed_records(stream, 1, 2, 3, 4, 5)
    outcomes = [report_failures(2), ERROR, SUCCESS, SUCCESS]
    assert run_outcomes(stream, *outcomes) == [[1, 2, 3, 4, 5], [2, 3, 4, 5], [2, 3], [4, 5]]
