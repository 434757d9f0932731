import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from local.event_source_mappings import MappingCounters, is_unchanged, to_lambda_record
from tests.local.event_source_mappings.stream import SHARD, STREAM, feed_records, new_mapping, next_invocation, record

WIRE: dict[str, Any] = {
    "eventID": "e1",
    "eventName": "MODIFY",
    "eventVersion": "1.0",
    "eventSource": "aws:dynamodb",
    "awsRegion": "us-east-1",
    "dynamodb": {
        "ApproximateCreationDateTime": datetime(2026, 11, 1, 10, 20, 30, 999_000, tzinfo=UTC),
        "Keys": {"PK": {"S": "a"}},
        "OldImage": {"PK": {"S": "a"}, "n": {"N": "1.50"}},
        "NewImage": {
            "PK": {"S": "a"},
            "n": {"N": "2"},
            "bytes": {"B": b"\x00\xff"},
            "chunks": {"BS": [b"a", b"bc"]},
            "deep": {"L": [{"M": {"inner": {"B": b"deep"}}}, {"NULL": True}, {"BOOL": False}]},
            "names": {"SS": ["x", "y"]},
        },
        "SequenceNumber": "100000000000000000001",
        "SizeBytes": 59,
        "StreamViewType": "NEW_AND_OLD_IMAGES",
    },
}


def converted(**more: Any) -> dict[str, Any]:
    return to_lambda_record(WIRE | more, region="eu-central-1", stream_arn=STREAM)


def test_a_record_is_turned_into_the_shape_lambda_sends() -> None:
    assert converted() == {
        "eventID": "e1",
        "eventName": "MODIFY",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "eu-central-1",
        "dynamodb": {
            "ApproximateCreationDateTime": 1793528430.0,
            "Keys": {"PK": {"S": "a"}},
            "OldImage": {"PK": {"S": "a"}, "n": {"N": "1.50"}},
            "NewImage": {
                "PK": {"S": "a"},
                "n": {"N": "2"},
                "bytes": {"B": "AP8="},
                "chunks": {"BS": ["YQ==", "YmM="]},
                "deep": {"L": [{"M": {"inner": {"B": "ZGVlcA=="}}}, {"NULL": True}, {"BOOL": False}]},
                "names": {"SS": ["x", "y"]},
            },
            "SequenceNumber": "100000000000000000001",
            "SizeBytes": 59,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
        "eventSourceARN": STREAM,
    }
    assert isinstance(converted()["dynamodb"]["ApproximateCreationDateTime"], float)


def test_the_conversion_does_not_change_the_record() -> None:
    before = copy.deepcopy(WIRE)
    converted()
    assert before == WIRE


@pytest.mark.parametrize("seconds", [1700000000, 1700000000.75])
def test_a_virtual_creation_time_may_be_a_number_of_seconds(seconds: float) -> None:
    event = converted(dynamodb=WIRE["dynamodb"] | {"ApproximateCreationDateTime": seconds})
    assert event["dynamodb"]["ApproximateCreationDateTime"] == 1700000000.0


@pytest.mark.parametrize("identity", [{}, {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}])
def test_an_expiry_carries_the_identity_of_time_to_live_even_if_the_engine_leaves_it_empty(identity: Any) -> None:
    event = converted(userIdentity=identity)
    assert event["userIdentity"] == {"type": "Service", "principalId": "dynamodb.amazonaws.com"}


def test_a_write_by_a_user_carries_no_identity() -> None:
    assert "userIdentity" not in converted()
    assert "userIdentity" not in converted(userIdentity=None)


def test_only_a_record_with_two_equal_images_is_unchanged() -> None:
    image = {"PK": {"S": "a"}, "n": {"N": "1"}}
    assert is_unchanged({"dynamodb": {"OldImage": image, "NewImage": dict(image)}})
    assert not is_unchanged({"dynamodb": {"OldImage": image, "NewImage": image | {"n": {"N": "2"}}}})
    assert not is_unchanged({"dynamodb": {"OldImage": image}})
    assert not is_unchanged({"dynamodb": {"NewImage": image}})
    assert not is_unchanged({"dynamodb": {"Keys": {"PK": {"S": "a"}}}})


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ({"SS": ["x", "y"]}, {"SS": ["y", "x"]}, True),  # a set has no order
        ({"NS": ["1", "2"]}, {"NS": ["2", "1"]}, True),
        ({"BS": ["AA==", "AQ=="]}, {"BS": ["AQ==", "AA=="]}, True),
        ({"SS": ["x", "y"]}, {"SS": ["x"]}, False),
        ({"SS": ["1"]}, {"NS": ["1"]}, False),
        ({"L": [{"S": "x"}, {"S": "y"}]}, {"L": [{"S": "y"}, {"S": "x"}]}, False),  # a list has an order
        ({"L": [{"S": "x"}]}, {"L": [{"S": "x"}, {"S": "y"}]}, False),
        ({"L": [{"M": {"s": {"SS": ["x", "y"]}}}]}, {"L": [{"M": {"s": {"SS": ["y", "x"]}}}]}, True),
        ({"M": {"SS": {"L": []}}}, {"M": {"SS": {"L": []}}}, True),  # an attribute may have the name SS
        ({"M": {"SS": {"S": "x"}}}, {"M": {"SS": {"S": "y"}}}, False),
        ({"S": "1"}, {"N": "1"}, False),
        ({"BOOL": True}, {"BOOL": False}, False),
    ],
)
def test_images_are_equal_when_they_hold_the_same(old: Any, new: Any, same: bool) -> None:
    assert is_unchanged({"dynamodb": {"OldImage": {"attribute": old}, "NewImage": {"attribute": new}}}) is same


def test_a_write_that_changed_nothing_is_not_delivered_and_the_checkpoint_passes_it() -> None:
    stream = new_mapping()
    same = record(1)
    same["dynamodb"]["OldImage"] = same["dynamodb"]["NewImage"]
    stream.add_record(SHARD, same, 0.0)
    assert stream.due_actions(0.0) == []
    assert stream.checkpoint() == {SHARD: "1"}
    assert stream.counters == MappingCounters()  # AWS writes no record of such a write, so nothing is counted
    feed_records(stream, 2)
    assert next_invocation(stream).event == {"Records": [record(2)]}
