import itertools

from local.event_source_mappings import EventSourceMapping
from tests.local.event_source_mappings.stream import (
    ERROR,
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

CHILD, GRANDCHILD = "shardId-2", "shardId-3"


def due_numbers(stream: EventSourceMapping, now: float = START) -> list[list[int]]:
    return [sequence_numbers_of(action) for action in stream.due_actions(now)]


def items_in_two_lanes() -> tuple[str, str]:
    """Return the keys of two items whose records a mapping with two lanes puts into different lanes.

    A lane is one of the parallel sequences into which Lambda splits the records of a shard.
    """
    for number in itertools.count():
        other = f"item-{number}"
        stream = new_mapping(parallelization_factor=2)
        feed_records(stream, 1, item="a")
        feed_records(stream, 2, item=other)
        if len(stream.due_actions(START)) == 2:
            return "a", other
    raise AssertionError


def test_an_item_is_its_whole_key() -> None:
    stream = new_mapping(parallelization_factor=10)
    for number in range(1, 41):
        one = record(number)
        one["dynamodb"]["Keys"]["SK"] = {"S": f"LINE#{number}"}
        stream.add_record(SHARD, one, START)
    assert len(stream.due_actions(START)) > 1  # items with the same partition key are in several lanes


def test_an_item_is_the_same_in_any_order_of_its_key_attributes() -> None:
    stream = new_mapping(parallelization_factor=10)
    keys = {"PK": {"S": "a"}, "SK": {"S": "b"}}
    for number in (1, 2):
        one = record(number)
        one["dynamodb"]["Keys"] = keys if number == 1 else dict(reversed(keys.items()))
        stream.add_record(SHARD, one, START)
    assert due_numbers(stream) == [[1, 2]]


def test_another_salt_is_another_assignment_to_lanes() -> None:
    a, b = items_in_two_lanes()
    together = 0
    for salt in map(str, range(20)):
        stream = new_mapping(parallelization_factor=2, lane_salt=salt)
        feed_records(stream, 1, item=a)
        feed_records(stream, 2, item=b)
        together += len(stream.due_actions(START)) == 1
    assert 0 < together < 20


def test_an_assumption_lets_a_failing_lane_stall_the_lanes_that_do_not_fail() -> None:
    a, b = items_in_two_lanes()
    stream = new_mapping(parallelization_factor=2, failing_lane_stalls_shard=True, retry_delays_seconds=(1,))
    feed_records(stream, 1, item=a)
    feed_records(stream, 2, item=b)
    for action in stream.due_actions(START):
        stream.report_outcome(action, ERROR, START)
    feed_records(stream, 3, item=b)
    retries = stream.due_actions(START + 1)
    assert sorted(sequence_numbers_of(action) for action in retries) == [[1], [2]], "failing lanes stall each other"
    for action in retries:
        stream.report_outcome(action, ERROR if sequence_numbers_of(action) == [1] else SUCCESS, START + 1)
    assert due_numbers(stream, START + 1) == []
    (retry,) = stream.due_actions(START + 2)
    assert sequence_numbers_of(retry) == [1]
    assert due_numbers(stream, START + 2) == []
    stream.report_outcome(retry, SUCCESS, START + 2)
    assert due_numbers(stream, START + 2) == [[3]]


def test_a_lane_whose_failed_record_left_the_stream_stalls_no_other_lane() -> None:
    a, b = items_in_two_lanes()
    stream = new_mapping(parallelization_factor=2, failing_lane_stalls_shard=True)
    feed_records(stream, 1, item=a)
    run_outcomes(stream, ERROR)
    later = START + 25 * 3600
    stream.add_record(SHARD, record(2, b, created_at=later), later)
    assert due_numbers(stream, later) + due_numbers(stream, later) == [[2]]


def test_an_empty_parent_does_not_let_its_children_overtake_the_grandparent() -> None:
    stream = new_mapping()
    stream.add_shard(CHILD, parent=SHARD)
    stream.add_shard(GRANDCHILD, parent=CHILD)
    feed_records(stream, 1)
    feed_records(stream, 2, shard=GRANDCHILD)
    stream.close_shard(SHARD)
    stream.close_shard(CHILD)
    first = next_invocation(stream)
    assert sequence_numbers_of(first) == [1]
    stream.report_outcome(first, SUCCESS, START)
    assert due_numbers(stream) == [[2]]


def test_declaring_a_shard_again_changes_nothing() -> None:
    stream = new_mapping()
    feed_records(stream, 1)
    stream.add_shard(SHARD)
    assert due_numbers(stream) == [[1]]
