from typing import Any

import pytest

from local.event_source_mappings import InvocationReturned, NotInvoked
from tests.local.event_source_mappings.stream import (
    ERROR,
    SHARD,
    START,
    SUCCESS,
    feed_records,
    new_mapping,
    next_invocation,
    report_failures,
    run_outcomes,
    sequence_numbers_of,
)


def test_a_retry_waits_and_waits_longer_after_each_failure_in_a_row() -> None:
    stream = new_mapping(retry_delays_seconds=(1, 5))
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


def test_without_a_retention_records_never_expire() -> None:
    stream = new_mapping(retention_seconds=None)
    feed_records(stream, 1)
    assert sequence_numbers_of(next_invocation(stream, START + 9e9)) == [1]


@pytest.mark.parametrize(
    "response",
    [
        *({"batchItemFailures": [entry]} for entry in ({"itemIdentifier": 2}, {}, "2", None)),
        {"batchItemFailures": [{"itemIdentifier": "2"}, {"itemIdentifier": 2}]},
        {"batchItemFailures": {"itemIdentifier": "2"}},
        {"batchItemFailures": "2"},
        b"not json",
        ["2"],
        1,
    ],
)
def test_a_malformed_response_fails_the_whole_batch_even_if_unknown_identifiers_are_ignored(response: object) -> None:
    stream = new_mapping(report_item_failures=True, unknown_identifier="ignored")
    feed_records(stream, 1, 2)
    assert run_outcomes(stream, InvocationReturned(response), SUCCESS) == [[1, 2], [1, 2]]


@pytest.mark.parametrize(
    ("options", "outcomes", "batches"),
    [
        (
            {"bisect_midpoint": "ceiling", "bisect_first": "upper", "bisect_on_error": True},
            [ERROR, SUCCESS, SUCCESS],
            [[1, 2, 3], [3], [1, 2]],
        ),
        (
            {"bisect_attempts": "reset", "bisect_on_error": True, "max_retry_attempts": 1},
            [report_failures(1), ERROR, ERROR, ERROR, SUCCESS],
            [[1, 2, 3], [1, 2, 3], [1], [1], [2, 3]],
        ),
        (
            {"progress_resets_attempts": False, "max_retry_attempts": 3},
            [report_failures(2)] * 4,
            [[1, 2, 3], [2, 3], [2, 3], [2, 3]],
        ),
        ({"unknown_identifier": "ignored"}, [report_failures(9, 3), report_failures(9)], [[1, 2, 3], [3]]),
        ({"unreadable_response": "succeeds"}, [InvocationReturned("ok")], [[1, 2, 3]]),
    ],
)
def test_each_assumption_about_failures_has_its_effect(
    options: dict[str, Any], outcomes: list[Any], batches: list[list[int]]
) -> None:
    stream = new_mapping(report_item_failures=True, **options)
    feed_records(stream, 1, 2, 3)
    assert run_outcomes(stream, *outcomes) == batches
    assert stream.next_action_at(START) is None
    assert stream.checkpoint() == {SHARD: "3"}
