"""Builds small streams and event source mappings for the tests of the mapping.

proof/conformance/test_model.py plays the probes on the model: each probe states how AWS behaves. The tests in this
folder test what no probe states, for example assumptions, counters and error messages.
"""

import itertools
from dataclasses import fields
from typing import Any

from local.event_source_mappings import (
    DeliverFailure,
    EventSourceMapping,
    FilterCriteria,
    InvocationFailed,
    InvocationReturned,
    Invoke,
    MappingAssumptions,
    MappingSettings,
)

START = 1_700_000_000.0  # 2023-11-14T22:13:20Z
SHARD = "shardId-1"
STREAM = "arn:aws:dynamodb:eu-central-1:000000000000:table/orders/stream/2026-11-01T00:00:00.000"
FUNCTION = "arn:aws:lambda:eu-central-1:000000000000:function:copies"
BUCKET = "arn:aws:s3:::failures"
QUEUE = "arn:aws:sqs:eu-central-1:000000000000:failures"

ORDERS_ONLY = FilterCriteria(('{"dynamodb": {"NewImage": {"type": {"S": ["Order"]}}}}',))
ERROR = InvocationFailed("KeyError")
SUCCESS = InvocationReturned()


def record(
    number: int, item: str = "a", *, created_at: float = START, kind: str = "Order", **more: Any
) -> dict[str, Any]:
    """Return a stream record in the shape that Lambda gets. `number`: its sequence number."""
    return {
        "eventID": f"event-{number}",
        "eventName": "INSERT",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "eu-central-1",
        "dynamodb": {
            "ApproximateCreationDateTime": created_at,
            "Keys": {"PK": {"S": item}},
            "NewImage": {"PK": {"S": item}, "type": {"S": kind}, "n": {"N": str(number)}},
            "SequenceNumber": str(number),
            "SizeBytes": 26,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
        "eventSourceARN": STREAM,
    } | more


def new_mapping(*, resume: dict[str, str] | None = None, **options: Any) -> EventSourceMapping:
    """Return a mapping with one shard. Its ids are counted instead of random.

    `options`: fields of `MappingSettings` and of `MappingAssumptions`.
    """
    ids = itertools.count(1)
    names = {one.name for one in fields(MappingAssumptions)}
    made = EventSourceMapping(
        MappingSettings(**{name: value for name, value in options.items() if name not in names}),
        mapping_id="mapping-1",
        function_arn=FUNCTION,
        stream_arn=STREAM,
        new_id=lambda: f"id-{next(ids)}",
        assumptions=MappingAssumptions(**{name: value for name, value in options.items() if name in names}),
        resume_from=resume,
    )
    made.add_shard(SHARD)
    return made


def feed_records(
    stream: EventSourceMapping, *numbers: int, item: str = "a", now: float = START, shard: str = SHARD
) -> None:
    for number in numbers:
        stream.add_record(shard, record(number, item), now)


def sequence_numbers_of(action: Invoke | DeliverFailure) -> list[int]:
    return [int(one.sequence_number) for one in action.records]


def report_failures(*numbers: int) -> InvocationReturned:
    """Return the function's response that reports these sequence numbers as failed."""
    return InvocationReturned({"batchItemFailures": [{"itemIdentifier": str(number)} for number in numbers]})


def next_invocation(stream: EventSourceMapping, now: float = START) -> Invoke:
    """Return the only due action, which is an invocation."""
    (action,) = stream.due_actions(now)
    assert isinstance(action, Invoke)
    return action


def next_delivery(stream: EventSourceMapping, now: float = START) -> DeliverFailure:
    """Return the only due action, which is a delivery to the on-failure destination."""
    (action,) = stream.due_actions(now)
    assert isinstance(action, DeliverFailure)
    return action


def run_outcomes(stream: EventSourceMapping, *outcomes: Any, now: float = START) -> list[list[int]]:
    """Run one action after the other with these outcomes. Return the sequence numbers of each action."""
    seen = []
    for outcome in outcomes:
        now = stream.next_action_at(now) or now
        (action,) = stream.due_actions(now)
        seen.append(sequence_numbers_of(action))
        stream.report_outcome(action, outcome, now)
    return seen
