import itertools

import pytest

from local.mappings import Delivered, Invoke, Switches
from tests.local.mappings.stream import (
    BUCKET,
    ERROR,
    SHARD,
    START,
    SUCCESS,
    delivery,
    feed,
    invocation,
    mapping,
    numbers_of,
    record,
)

CHILD, OTHER_CHILD = "shardId-2", "shardId-3"


def invoked(actions: list[object]) -> list[list[int]]:
    return [numbers_of(action) for action in actions if isinstance(action, Invoke)]


def items_in_two_lanes(salt: str = "") -> tuple[str, str]:
    """Two items that a mapping with two lanes keeps apart."""
    for other in itertools.count():
        stream = mapping(parallelization_factor=2, switches=Switches(lane_salt=salt))
        feed(stream, 1, item="a")
        feed(stream, 2, item=f"item-{other}")
        if len(stream.due(START)) == 2:
            return "a", f"item-{other}"
    raise AssertionError


# Lanes


def test_by_default_one_batch_of_a_shard_is_under_way() -> None:
    stream = mapping(batch_size=1)
    for number in range(1, 30):
        feed(stream, number, item=f"item-{number}")
    assert len(stream.due(START)) == 1
    assert stream.due(START) == []


def test_lanes_run_side_by_side_and_keep_the_order_of_each_item() -> None:
    stream = mapping(parallelization_factor=4)
    by_item: dict[str, list[int]] = {}
    for number in range(1, 61):
        item = f"item-{number % 12}"
        by_item.setdefault(item, []).append(number)
        feed(stream, number, item=item)
    batches = invoked([*stream.due(START)])
    assert 1 < len(batches) <= 4
    assert sorted(itertools.chain(*batches)) == list(range(1, 61))
    for numbers in by_item.values():
        (batch,) = [batch for batch in batches if numbers[0] in batch]
        assert [number for number in batch if number in numbers] == numbers


def test_an_item_is_its_whole_key() -> None:
    stream = mapping(parallelization_factor=10)
    for number in range(1, 41):
        one = record(number)
        one["dynamodb"]["Keys"]["SK"] = {"S": f"LINE#{number}"}
        stream.feed(SHARD, one, START)
    assert len(stream.due(START)) > 1  # one partition key, many items: they spread


def test_an_item_is_the_same_in_whatever_order_its_keys_are_named() -> None:
    stream = mapping(parallelization_factor=10)
    for number in range(1, 41):
        one = record(number)
        keys = {"PK": {"S": "a"}, "SK": {"S": "b"}}
        one["dynamodb"]["Keys"] = keys if number % 2 else dict(reversed(keys.items()))
        stream.feed(SHARD, one, START)
    assert len(stream.due(START)) == 1


def test_a_failing_lane_leaves_the_others_alone() -> None:
    a, b = items_in_two_lanes()
    stream = mapping(parallelization_factor=2)
    feed(stream, 1, item=a)
    feed(stream, 2, item=b)
    for action in stream.due(START):
        stream.result(action, ERROR if numbers_of(action) == [1] else SUCCESS, START)
    feed(stream, 3, item=b)
    assert invoked([*stream.due(START)]) == [[3]]


def test_a_switch_lets_a_failing_lane_stall_its_shard() -> None:
    a, b = items_in_two_lanes()
    stream = mapping(parallelization_factor=2, switches=Switches(failing_lane_stalls_shard=True))
    feed(stream, 1, item=a)
    feed(stream, 2, item=b)
    for action in stream.due(START):
        stream.result(action, ERROR if numbers_of(action) == [1] else SUCCESS, START)
    feed(stream, 3, item=b)
    assert stream.due(START) == []
    at = stream.next_at(START)
    assert at is not None
    assert at > START
    (retry,) = stream.due(at)
    assert numbers_of(retry) == [1]
    assert stream.due(at) == []
    stream.result(retry, SUCCESS, at)
    assert invoked([*stream.due(at)]) == [[3]]


def test_two_lanes_that_fail_at_once_do_not_stall_each_other_for_ever() -> None:
    a, b = items_in_two_lanes()
    stream = mapping(parallelization_factor=2, switches=Switches(failing_lane_stalls_shard=True))
    feed(stream, 1, item=a)
    feed(stream, 2, item=b)
    for action in stream.due(START):
        stream.result(action, ERROR, START)
    assert sorted(invoked([*stream.due(START + 60)])) == [[1], [2]]


def test_a_lane_whose_failed_record_the_stream_has_forgotten_stalls_nobody() -> None:
    a, b = items_in_two_lanes()
    stream = mapping(parallelization_factor=2, switches=Switches(failing_lane_stalls_shard=True))
    feed(stream, 1, item=a)
    for action in stream.due(START):
        stream.result(action, ERROR, START)
    later = START + 25 * 3600
    stream.feed(SHARD, record(2, b, created_at=later), later)
    assert invoked([*stream.due(later), *stream.due(later)]) == [[2]]


def test_the_checkpoint_is_the_lowest_of_the_lanes() -> None:
    a, b = items_in_two_lanes()
    stream = mapping(parallelization_factor=2)
    feed(stream, 1, item=a)
    feed(stream, 2, item=b)
    feed(stream, 3, item=a)
    feed(stream, 4, item=b)
    by_numbers = {tuple(numbers_of(action)): action for action in stream.due(START)}
    stream.result(by_numbers[2, 4], SUCCESS, START)
    assert stream.checkpoint() == {}
    stream.result(by_numbers[1, 3], SUCCESS, START)
    assert stream.checkpoint() == {SHARD: "4"}


def test_another_salt_is_another_assignment_to_lanes() -> None:
    a, b = items_in_two_lanes()
    together = 0
    for salt in map(str, range(20)):
        stream = mapping(parallelization_factor=2, switches=Switches(lane_salt=salt))
        feed(stream, 1, item=a)
        feed(stream, 2, item=b)
        together += len(stream.due(START)) == 1
    assert 0 < together < 20


# Shards


def test_batches_never_mix_shards() -> None:
    stream = mapping()
    stream.shard(CHILD)
    feed(stream, 1)
    feed(stream, 1, 2, shard=CHILD)
    assert [(action.shard_id, numbers_of(action)) for action in stream.due(START)] == [(SHARD, [1]), (CHILD, [1, 2])]


def test_a_parent_is_drained_before_its_children() -> None:
    stream = mapping(batch_size=1)
    stream.shard(CHILD, parent=SHARD)
    stream.shard(OTHER_CHILD, parent=SHARD)
    feed(stream, 1, 2)
    feed(stream, 3, shard=CHILD)
    feed(stream, 4, shard=OTHER_CHILD)
    stream.result(invocation(stream), SUCCESS, START)
    stream.close_shard(SHARD)
    last_of_parent = invocation(stream)
    assert numbers_of(last_of_parent) == [2]
    assert stream.next_at(START) is None
    assert not stream.wants(CHILD)
    stream.result(last_of_parent, SUCCESS, START)
    assert stream.wants(CHILD)
    assert invoked([*stream.due(START)]) == [[3], [4]]


def test_a_parent_is_not_drained_while_it_is_open() -> None:
    stream = mapping()
    stream.shard(CHILD, parent=SHARD)
    feed(stream, 3, shard=CHILD)
    assert stream.due(START) == []
    stream.close_shard(SHARD)
    assert numbers_of(invocation(stream)) == [3]


def test_an_undelivered_failure_of_the_parent_holds_back_its_children() -> None:
    stream = mapping(max_retry_attempts=0, on_failure=BUCKET)
    stream.shard(CHILD, parent=SHARD)
    feed(stream, 1)
    feed(stream, 2, shard=CHILD)
    stream.close_shard(SHARD)
    stream.result(invocation(stream), ERROR, START)
    failure = delivery(stream)
    assert stream.due(START) == []
    stream.result(failure, Delivered(), START)
    assert numbers_of(invocation(stream)) == [2]


def test_an_empty_parent_does_not_let_its_children_overtake_the_grandparent() -> None:
    stream = mapping()
    stream.shard(CHILD, parent=SHARD)
    stream.shard(OTHER_CHILD, parent=CHILD)
    feed(stream, 1)
    feed(stream, 2, shard=OTHER_CHILD)
    stream.close_shard(SHARD)
    stream.close_shard(CHILD)
    first = invocation(stream)
    assert numbers_of(first) == [1]
    stream.result(first, SUCCESS, START)
    assert numbers_of(invocation(stream)) == [2]


def test_a_parent_that_is_gone_holds_nobody_back() -> None:
    stream = mapping()
    stream.shard(CHILD, parent="shardId-0")
    feed(stream, 1, shard=CHILD)
    assert numbers_of(invocation(stream)) == [1]


def test_declaring_a_shard_again_changes_nothing() -> None:
    stream = mapping()
    feed(stream, 1)
    stream.shard(SHARD)
    assert numbers_of(invocation(stream)) == [1]


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
    switches = Switches(child_shards_start="LATEST" if child_shards_start == "LATEST" else "TRIM_HORIZON")
    stream = mapping(starting_position=starting_position, switches=switches)
    stream.shard(CHILD, parent=SHARD)
    assert stream.start_of(SHARD).iterator_type == first
    assert stream.start_of(CHILD).iterator_type == child
    assert stream.start_of(CHILD).sequence_number is None
