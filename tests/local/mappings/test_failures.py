from typing import Any

import pytest

from local.mappings import Counters, Delivered, NotInvoked, Returned, Switches
from tests.local.mappings.stream import (
    BUCKET,
    ERROR,
    SHARD,
    START,
    SUCCESS,
    deliveries_of,
    feed,
    invocation,
    mapping,
    numbers_of,
    record,
    reports,
)

# Attempts


@pytest.mark.parametrize(("retries", "invocations"), [(0, 1), (1, 2), (3, 4)])
def test_n_retries_are_n_plus_one_invocations_and_then_the_next_records(retries: int, invocations: int) -> None:
    stream = mapping(max_retry_attempts=retries, batch_size=2)
    feed(stream, 1, 2, 3)
    assert deliveries_of(stream, *[ERROR] * invocations) == [[1, 2]] * invocations
    assert stream.counters == Counters(polled=3, invoked=2 * invocations, failed_invoke=2 * invocations, dropped=2)
    assert stream.checkpoint() == {SHARD: "2"}
    assert deliveries_of(stream, SUCCESS) == [[3]]


def test_without_a_limit_a_failing_batch_blocks_its_shard_for_ever() -> None:
    stream = mapping(batch_size=1, switches=Switches(retention_seconds=None))
    feed(stream, 1, 2)
    assert deliveries_of(stream, *[ERROR] * 500) == [[1]] * 500
    assert stream.checkpoint() == {}
    assert deliveries_of(stream, SUCCESS, SUCCESS) == [[1], [2]]


def test_a_retry_waits_and_waits_longer_after_each_failure_in_a_row() -> None:
    stream = mapping(switches=Switches(retry_delays_seconds=(1, 5)))
    feed(stream, 1)
    now = START
    for outcome, wait in ((ERROR, 0), (NotInvoked(), 1), (ERROR, 5), (SUCCESS, 5)):
        assert stream.next_at(now) == now + wait
        assert wait == 0 or stream.due(now + wait - 0.01) == []
        now += wait
        stream.result(invocation(stream, now), outcome, now)
    feed(stream, 2, now=now)
    stream.result(invocation(stream, now), ERROR, now)
    assert stream.next_at(now) == now + 1  # a success began a new row


def test_a_retry_is_not_topped_up_with_new_records() -> None:
    stream = mapping()
    feed(stream, 1)
    first = invocation(stream)
    feed(stream, 2)
    stream.result(first, ERROR, START)
    assert deliveries_of(stream, SUCCESS, SUCCESS) == [[1], [2]]


def test_not_being_invoked_uses_up_no_attempt() -> None:
    stream = mapping(max_retry_attempts=1)
    feed(stream, 1)
    throttled = NotInvoked()
    assert deliveries_of(stream, *[throttled] * 50, ERROR, *[throttled] * 50, SUCCESS) == [[1]] * 102
    assert stream.counters == Counters(polled=1, invoked=2, failed_invoke=101)
    assert stream.checkpoint() == {SHARD: "1"}


def test_not_being_invoked_splits_no_batch() -> None:
    stream = mapping(bisect_on_error=True)
    feed(stream, 1, 2)
    assert deliveries_of(stream, NotInvoked(), SUCCESS) == [[1, 2], [1, 2]]


def test_only_the_right_kind_of_outcome_is_taken() -> None:
    stream = mapping()
    feed(stream, 1)
    action = invocation(stream)
    with pytest.raises(ValueError, match="Delivered is no outcome of Invoke"):
        stream.result(action, Delivered(), START)
    stream.result(action, SUCCESS, START)


# Age


def test_records_over_the_maximum_age_are_cut_from_the_front_and_the_rest_is_invoked() -> None:
    stream = mapping(max_record_age_seconds=60)
    for number, created_at in enumerate([START, START + 1, START + 50], start=1):
        stream.feed(SHARD, record(number, created_at=created_at), START)
    assert numbers_of(invocation(stream, START + 62)) == [3]
    assert stream.counters.dropped == 2
    assert stream.checkpoint() == {SHARD: "2"}


def test_a_record_of_exactly_the_maximum_age_is_still_invoked() -> None:
    stream = mapping(max_record_age_seconds=60)
    feed(stream, 1)
    assert numbers_of(invocation(stream, START + 60)) == [1]


@pytest.mark.parametrize("outcome", [ERROR, NotInvoked()])
def test_age_ends_the_retries_of_whatever_failed(outcome: Any) -> None:
    stream = mapping(max_record_age_seconds=60, switches=Switches(retry_delays_seconds=(61,)))
    feed(stream, 1)
    stream.result(invocation(stream), outcome, START)
    assert stream.next_at(START) == START + 61
    assert stream.due(START + 61) == []
    assert (stream.counters.dropped, stream.checkpoint()) == (1, {SHARD: "1"})


def test_what_the_stream_no_longer_keeps_is_gone_and_counted_apart() -> None:
    stream = mapping(on_failure=BUCKET)
    feed(stream, 1)
    assert stream.due(START + 86_401) == []
    assert stream.counters == Counters(polled=1, expired=1)
    assert stream.checkpoint() == {SHARD: "1"}


def test_retention_goes_before_a_longer_maximum_age() -> None:
    stream = mapping(max_record_age_seconds=604_800, on_failure=BUCKET)
    feed(stream, 1)
    assert stream.due(START + 90_000) == []
    assert stream.counters.expired == 1


def test_a_switch_keeps_records_for_ever() -> None:
    stream = mapping(switches=Switches(retention_seconds=None))
    feed(stream, 1)
    assert numbers_of(invocation(stream, START + 9e9)) == [1]


# Bisect


def test_an_error_halves_the_batch_and_the_lower_half_is_finished_first() -> None:
    stream = mapping(bisect_on_error=True, max_retry_attempts=0)
    feed(stream, 1, 2, 3, 4, 5)
    outcomes = [ERROR, ERROR, SUCCESS, ERROR, ERROR, SUCCESS, SUCCESS]
    assert deliveries_of(stream, *outcomes) == [[1, 2, 3, 4, 5], [1, 2], [1], [2], [3, 4, 5], [3], [4, 5]]
    assert stream.counters.dropped == 1  # record 2, alone, without a retry: no split had used any up
    assert stream.checkpoint() == {SHARD: "5"}


def test_a_single_record_that_fails_uses_its_retries() -> None:
    stream = mapping(bisect_on_error=True, max_retry_attempts=2)
    feed(stream, 1, 2)
    assert deliveries_of(stream, *[ERROR] * 4, SUCCESS) == [[1, 2], [1], [1], [1], [2]]
    assert stream.counters.dropped == 1


def test_switches_choose_the_midpoint_and_the_first_half() -> None:
    stream = mapping(bisect_on_error=True, switches=Switches(bisect_midpoint="ceiling", bisect_first="upper"))
    feed(stream, 1, 2, 3)
    assert deliveries_of(stream, ERROR, SUCCESS, SUCCESS) == [[1, 2, 3], [3], [1, 2]]


@pytest.mark.parametrize(("attempts", "tries_of_one"), [("inherit", 1), ("reset", 2)])
def test_halves_inherit_the_attempts_already_counted_or_begin_anew(attempts: Any, tries_of_one: int) -> None:
    stream = mapping(
        bisect_on_error=True,
        report_item_failures=True,
        max_retry_attempts=1,
        switches=Switches(bisect_attempts=attempts),
    )
    feed(stream, 1, 2)
    # A report without progress counts one attempt; the error that splits the batch counts none.
    assert deliveries_of(stream, reports(1), ERROR) == [[1, 2], [1, 2]]
    assert deliveries_of(stream, *[ERROR] * tries_of_one, now=START) == [[1]] * tries_of_one
    assert stream.counters.dropped == 1


# Partial responses


@pytest.mark.parametrize(
    "response",
    [None, {}, [], {"batchItemFailures": []}, {"batchItemFailures": None}, {"status": "ok"}],
)
def test_an_empty_report_is_a_success(response: object) -> None:
    stream = mapping(report_item_failures=True)
    feed(stream, 1, 2)
    assert deliveries_of(stream, Returned(response)) == [[1, 2]]
    assert stream.checkpoint() == {SHARD: "2"}
    assert stream.counters == Counters(polled=2, invoked=2)


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
    stream = mapping(report_item_failures=True)
    feed(stream, 1, 2, 3)
    assert deliveries_of(stream, Returned({"batchItemFailures": failures}), SUCCESS) == [[1, 2, 3], [1, 2, 3]]
    assert stream.counters.failed_invoke == 3


@pytest.mark.parametrize("response", [b"not json", "ok", 1, True, ["2"]])
def test_a_response_that_cannot_be_read_fails_unless_a_switch_says_otherwise(response: object) -> None:
    careful = mapping(report_item_failures=True)
    feed(careful, 1)
    assert deliveries_of(careful, Returned(response), SUCCESS) == [[1], [1]]
    careless = mapping(report_item_failures=True, switches=Switches(unreadable_response="succeeds"))
    feed(careless, 1)
    assert deliveries_of(careless, Returned(response)) == [[1]]
    assert careless.checkpoint() == {SHARD: "1"}


def test_a_switch_ignores_identifiers_that_are_not_in_the_batch() -> None:
    ignoring = Switches(unknown_identifier="ignored")
    stream = mapping(report_item_failures=True, switches=ignoring)
    feed(stream, 1, 2, 3)
    assert deliveries_of(stream, reports(9, 3), reports(9)) == [[1, 2, 3], [3]]
    assert stream.checkpoint() == {SHARD: "3"}


@pytest.mark.parametrize("identifier", ["", None, 2])
def test_an_improper_identifier_fails_the_batch_even_where_unknown_ones_are_ignored(identifier: object) -> None:
    stream = mapping(report_item_failures=True, switches=Switches(unknown_identifier="ignored"))
    feed(stream, 1, 2)
    response = Returned({"batchItemFailures": [{"itemIdentifier": "2"}, {"itemIdentifier": identifier}]})
    assert deliveries_of(stream, response, SUCCESS) == [[1, 2], [1, 2]]


def test_the_lowest_reported_record_and_every_later_one_are_delivered_again() -> None:
    stream = mapping(report_item_failures=True)
    feed(stream, 8, 9, 10, 11, 12)
    first = invocation(stream)
    stream.result(first, reports(11, 9), START)
    assert stream.checkpoint() == {SHARD: "8"}
    assert deliveries_of(stream, SUCCESS) == [[9, 10, 11, 12]]  # 10 and 12 had succeeded
    assert stream.counters == Counters(polled=5, invoked=9, failed_invoke=2)


def test_without_report_item_failures_any_response_is_a_success() -> None:
    stream = mapping()
    feed(stream, 1, 2)
    assert deliveries_of(stream, reports(1)) == [[1, 2]]
    assert stream.checkpoint() == {SHARD: "2"}


def test_reported_failures_consume_retries_and_then_the_whole_rest_is_discarded() -> None:
    stream = mapping(report_item_failures=True, max_retry_attempts=2)
    feed(stream, 1, 2, 3)
    assert deliveries_of(stream, *[reports(1)] * 3) == [[1, 2, 3]] * 3
    assert (stream.counters.dropped, stream.checkpoint()) == (3, {SHARD: "3"})


def test_progress_in_the_batch_begins_a_new_count_of_retries() -> None:
    stream = mapping(report_item_failures=True, max_retry_attempts=3)
    feed(stream, 1, 2)
    assert deliveries_of(stream, *[reports(2)] * 5) == [[1, 2], [2], [2], [2], [2]]
    assert stream.counters.dropped == 1


def test_progress_forgets_the_retries_used_before_it() -> None:
    stream = mapping(report_item_failures=True, max_retry_attempts=1)
    feed(stream, 1, 2)
    assert deliveries_of(stream, reports(1), reports(2), reports(2), reports(2)) == [[1, 2], [1, 2], [2], [2]]
    assert stream.counters.dropped == 1


def test_a_switch_lets_progress_consume_retries_too() -> None:
    stream = mapping(report_item_failures=True, max_retry_attempts=3, switches=Switches(progress_resets_attempts=False))
    feed(stream, 1, 2)
    assert deliveries_of(stream, *[reports(2)] * 4) == [[1, 2], [2], [2], [2]]
    assert stream.counters.dropped == 1


def test_with_bisect_a_report_splits_at_its_record_and_an_error_still_halves() -> None:
    stream = mapping(report_item_failures=True, bisect_on_error=True)
    feed(stream, 1, 2, 3, 4, 5)
    outcomes = [reports(2), ERROR, SUCCESS, SUCCESS]
    assert deliveries_of(stream, *outcomes) == [[1, 2, 3, 4, 5], [2, 3, 4, 5], [2, 3], [4, 5]]


def test_a_failed_record_holds_back_later_records_of_its_item() -> None:
    stream = mapping(report_item_failures=True, batch_size=2)
    feed(stream, 1, 2)
    action = invocation(stream)
    feed(stream, 3, 4)
    stream.result(action, reports(2), START)
    outcomes = [reports(2), reports(2), SUCCESS, SUCCESS]
    assert deliveries_of(stream, *outcomes) == [[2], [2], [2], [3, 4]]
