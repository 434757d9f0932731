import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from local.event_source_mappings import MappingCounters, is_unchanged, to_lambda_record
from local.event_source_mappings.records import TTL_IDENTITY
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
    before = copy.deepcopy(WIRE)
    binary = {
        "bytes": {"B": "AP8="},
        "chunks": {"BS": ["YQ==", "YmM="]},
        "deep": {"L": [{"M": {"inner": {"B": "ZGVlcA=="}}}, {"NULL": True}, {"BOOL": False}]},
    }
    change = WIRE["dynamodb"]
    event = converted()
    assert event == WIRE | {
        "eventVersion": "1.1",
        "awsRegion": "eu-central-1",
        "dynamodb": change | {"ApproximateCreationDateTime": 1793528430.0, "NewImage": change["NewImage"] | binary},
        "eventSourceARN": STREAM,
    }
    assert isinstance(event["dynamodb"]["ApproximateCreationDateTime"], float)
    assert before == WIRE, "the conversion changed its argument"


def test_a_virtual_creation_time_may_be_a_number_of_seconds() -> None:
    event = converted(dynamodb=WIRE["dynamodb"] | {"ApproximateCreationDateTime": 1700000000.75})
    assert event["dynamodb"]["ApproximateCreationDateTime"] == 1700000000.0


def test_only_an_expiry_carries_an_identity_even_if_the_engine_leaves_it_empty() -> None:
    for identity in ({}, {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}):
        assert converted(userIdentity=identity)["userIdentity"] == TTL_IDENTITY
    assert "userIdentity" not in converted(userIdentity=None)


@pytest.mark.parametrize("change", [{"OldImage": {}}, {"NewImage": {}}, {"Keys": {"PK": {"S": "a"}}}])
def test_a_record_without_two_images_is_a_change(change: Any) -> None:
    assert not is_unchanged({"dynamodb": change})


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
