import itertools

import pytest

from local.event_source_mappings import EventSourceMapping, FailureDelivered, Invoke, MappingAssumptions
from tests.local.event_source_mappings.stream import (
    BUCKET,
    ERROR,
    SHARD,
    START,
    SUCCESS,
    feed_records,
    new_mapping,
    next_delivery,
    next_invocation,
    record,
    sequence_numbers_of,
)

CHILD, OTHER_CHILD = "shardId-2", "shardId-3"


def invoked(actions: list[object]) -> list[list[int]]:
    return [sequence_numbers_of(action) for action in actions if isinstance(action, Invoke)]


def items_in_two_lanes(salt: str = "") -> tuple[str, str]:
    """Return the keys of two items whose records a mapping with two lanes puts into different lanes.

    A lane is one of the parallel sequences into which Lambda splits the records of a shard.
    """
    for other in itertools.count():
        stream = new_mapping(parallelization_factor=2, switches=MappingAssumptions(lane_salt=salt))
        feed_records(stream, 1, item="a")
        feed_records(stream, 2, item=f"item-{other}")
        if len(stream.due_actions(START)) == 2:
            return "a", f"item-{other}"
    raise AssertionError


def after_failures(*failed: int, stalls: bool) -> EventSourceMapping:
    """Return a mapping with two lanes, after the failures of these records. The second lane has more records."""
    a, b = items_in_two_lanes()
    stream = new_mapping(parallelization_factor=2, switches=MappingAssumptions(failing_lane_stalls_shard=stalls))
    feed_records(stream, 1, item=a)
    feed_records(stream, 2, item=b)
    for action in stream.due_actions(START):
        stream.report_outcome(action, ERROR if sequence_numbers_of(action)[0] in failed else SUCCESS, START)
    if 2 not in failed:
        feed_records(stream, 3, item=b)
    return stream


# Lanes (the parallel sequences into which Lambda splits the records of a shard)


def test_by_default_one_batch_of_a_shard_is_under_way() -> None:
    stream = new_mapping(batch_size=1)
    for number in range(1, 30):
        feed_records(stream, number, item=f"item-{number}")
    assert len(stream.due_actions(START)) == 1
    assert stream.due_actions(START) == []


def test_lanes_run_side_by_side_and_keep_the_order_of_each_item() -> None:
    stream = new_mapping(parallelization_factor=4)
    by_item: dict[str, list[int]] = {}
    for number in range(1, 61):
        item = f"item-{number % 12}"
        by_item.setdefault(item, []).append(number)
        feed_records(stream, number, item=item)
    batches = invoked([*stream.due_actions(START)])
    assert 1 < len(batches) <= 4
    assert sorted(itertools.chain(*batches)) == list(range(1, 61))
    for numbers in by_item.values():
        (batch,) = [batch for batch in batches if numbers[0] in batch]
        assert [number for number in batch if number in numbers] == numbers


def test_an_item_is_its_whole_key() -> None:
    stream = new_mapping(parallelization_factor=10)
    for number in range(1, 41):
        one = record(number)
        one["dynamodb"]["Keys"]["SK"] = {"S": f"LINE#{number}"}
        stream.add_record(SHARD, one, START)
    assert len(stream.due_actions(START)) > 1  # items with the same partition key are in several lanes


def test_an_item_is_the_same_in_any_order_of_its_key_attributes() -> None:
    stream = new_mapping(parallelization_factor=10)
    for number in range(1, 41):
        one = record(number)
        keys = {"PK": {"S": "a"}, "SK": {"S": "b"}}
        one["dynamodb"]["Keys"] = keys if number % 2 else dict(reversed(keys.items()))
        stream.add_record(SHARD, one, START)
    assert len(stream.due_actions(START)) == 1


def test_a_failing_lane_leaves_the_others_alone() -> None:
    stream = after_failures(1, stalls=False)
    assert invoked([*stream.due_actions(START)]) == [[3]]


def test_a_switch_lets_a_failing_lane_stall_its_shard() -> None:
    stream = after_failures(1, stalls=True)
    assert stream.due_actions(START) == []
    at = stream.next_action_at(START)
    assert at is not None
    assert at > START
    (retry,) = stream.due_actions(at)
    assert sequence_numbers_of(retry) == [1]
    assert stream.due_actions(at) == []
    stream.report_outcome(retry, SUCCESS, at)
    assert invoked([*stream.due_actions(at)]) == [[3]]


def test_two_lanes_that_fail_at_once_do_not_stall_each_other_for_ever() -> None:
    stream = after_failures(1, 2, stalls=True)
    assert sorted(invoked([*stream.due_actions(START + 60)])) == [[1], [2]]


def test_a_lane_whose_failed_record_left_the_stream_stalls_no_other_lane() -> None:
    a, b = items_in_two_lanes()
    stream = new_mapping(parallelization_factor=2, switches=MappingAssumptions(failing_lane_stalls_shard=True))
    feed_records(stream, 1, item=a)
    for action in stream.due_actions(START):
        stream.report_outcome(action, ERROR, START)
    later = START + 25 * 3600
    stream.add_record(SHARD, record(2, b, created_at=later), later)
    assert invoked([*stream.due_actions(later), *stream.due_actions(later)]) == [[2]]


def test_the_checkpoint_is_the_lowest_of_the_lanes() -> None:
    a, b = items_in_two_lanes()
    stream = new_mapping(parallelization_factor=2)
    feed_records(stream, 1, item=a)
    feed_records(stream, 2, item=b)
    feed_records(stream, 3, item=a)
    feed_records(stream, 4, item=b)
    by_numbers = {tuple(sequence_numbers_of(action)): action for action in stream.due_actions(START)}
    stream.report_outcome(by_numbers[2, 4], SUCCESS, START)
    assert stream.checkpoint() == {}
    stream.report_outcome(by_numbers[1, 3], SUCCESS, START)
    assert stream.checkpoint() == {SHARD: "4"}


def test_another_salt_is_another_assignment_to_lanes() -> None:
    a, b = items_in_two_lanes()
    together = 0
    for salt in map(str, range(20)):
        stream = new_mapping(parallelization_factor=2, switches=MappingAssumptions(lane_salt=salt))
        feed_records(stream, 1, item=a)
        feed_records(stream, 2, item=b)
        together += len(stream.due_actions(START)) == 1
    assert 0 < together < 20


# Shards


def test_batches_never_mix_shards() -> None:
    stream = new_mapping()
    stream.add_shard(CHILD)
    feed_records(stream, 1)
    feed_records(stream, 1, 2, shard=CHILD)
    assert [(action.shard_id, sequence_numbers_of(action)) for action in stream.due_actions(START)] == [
        (SHARD, [1]),
        (CHILD, [1, 2]),
    ]


def test_a_parent_is_drained_before_its_children() -> None:
    stream = new_mapping(batch_size=1)
    stream.add_shard(CHILD, parent=SHARD)
    stream.add_shard(OTHER_CHILD, parent=SHARD)
    feed_records(stream, 1, 2)
    feed_records(stream, 3, shard=CHILD)
    feed_records(stream, 4, shard=OTHER_CHILD)
    stream.report_outcome(next_invocation(stream), SUCCESS, START)
    stream.close_shard(SHARD)
    last_of_parent = next_invocation(stream)
    assert sequence_numbers_of(last_of_parent) == [2]
    assert stream.next_action_at(START) is None
    assert not stream.should_read(CHILD)
    stream.report_outcome(last_of_parent, SUCCESS, START)
    assert stream.should_read(CHILD)
    assert invoked([*stream.due_actions(START)]) == [[3], [4]]


def test_a_parent_is_not_drained_while_it_is_open() -> None:
    stream = new_mapping()
    stream.add_shard(CHILD, parent=SHARD)
    feed_records(stream, 3, shard=CHILD)
    assert stream.due_actions(START) == []
    stream.close_shard(SHARD)
    assert sequence_numbers_of(next_invocation(stream)) == [3]


def test_an_undelivered_failure_of_the_parent_holds_back_its_children() -> None:
    stream = new_mapping(max_retry_attempts=0, on_failure=BUCKET)
    stream.add_shard(CHILD, parent=SHARD)
    feed_records(stream, 1)
    feed_records(stream, 2, shard=CHILD)
    stream.close_shard(SHARD)
    stream.report_outcome(next_invocation(stream), ERROR, START)
    failure = next_delivery(stream)
    assert stream.due_actions(START) == []
    stream.report_outcome(failure, FailureDelivered(), START)
    assert sequence_numbers_of(next_invocation(stream)) == [2]


def test_an_empty_parent_does_not_let_its_children_overtake_the_grandparent() -> None:
    stream = new_mapping()
    stream.add_shard(CHILD, parent=SHARD)
    stream.add_shard(OTHER_CHILD, parent=CHILD)
    feed_records(stream, 1)
    feed_records(stream, 2, shard=OTHER_CHILD)
    stream.close_shard(SHARD)
    stream.close_shard(CHILD)
    first = next_invocation(stream)
    assert sequence_numbers_of(first) == [1]
    stream.report_outcome(first, SUCCESS, START)
    assert sequence_numbers_of(next_invocation(stream)) == [2]


def test_an_expired_parent_shard_blocks_no_child() -> None:
    stream = new_mapping()
    stream.add_shard(CHILD, parent="shardId-0")
    feed_records(stream, 1, shard=CHILD)
    assert sequence_numbers_of(next_invocation(stream)) == [1]


def test_declaring_a_shard_again_changes_nothing() -> None:
    stream = new_mapping()
    feed_records(stream, 1)
    stream.add_shard(SHARD)
    assert sequence_numbers_of(next_invocation(stream)) == [1]


@pytest.mark.parametrize(
    ("starting_position", "child_shards_start", "first", "child"),
    [
        ("TRIM_HORIZON", "TRIM_HORIZON", "TRIM_HORIZON", "TRIM_HORIZON"),
        ("LATEST", "TRIM_HORIZON", "LATEST", "TRIM_HORIZON"),
        ("LATEST", "LATEST", "LATEST", "LATEST"),
    ],
)
def test_reading_starts_at_the_starting_position_and_in_children_at_their_beginning(
    starting_position: str, child_shards_start: str, first: str, child: str
) -> None:
    switches = MappingAssumptions(child_shards_start="LATEST" if child_shards_start == "LATEST" else "TRIM_HORIZON")
    stream = new_mapping(starting_position=starting_position, switches=switches)
    stream.add_shard(CHILD, parent=SHARD)
    assert stream.iterator_request(SHARD).iterator_type == first
    assert stream.iterator_request(CHILD).iterator_type == child
    assert stream.iterator_request(CHILD).sequence_number is None
