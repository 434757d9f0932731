"""Plays a mapping with a virtual clock: a test of a function needs no stream, and waits for nothing."""

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from local.event_source_mappings.actions import (
    DeliverFailure,
    FailureDelivered,
    InvocationFailed,
    InvocationReturned,
    Invoke,
    Outcome,
)
from local.event_source_mappings.mapping import EventSourceMapping
from local.event_source_mappings.records import LambdaRecord, Records
from local.event_source_mappings.settings import MappingAssumptions, MappingSettings

START = 1_700_000_000.0
"""The epoch seconds at which the virtual clock starts."""
SHARD = "shardId-1"
STREAM_ARN = "arn:aws:dynamodb:eu-central-1:000000000000:table/played/stream/2026-01-01T00:00:00.000"
FUNCTION_ARN = "arn:aws:lambda:eu-central-1:000000000000:function:played"
TWO_DAYS = 172_800.0
"""Twice the time for which a stream keeps a record, so every retry has ended by then."""


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """An invocation that was played. `started`, `ended`: seconds after the start of the clock."""

    records: Records
    outcome: Outcome
    started: float
    ended: float

    @property
    def numbers(self) -> list[int]:
        """The sequence numbers of its records."""
        return [int(record.sequence_number) for record in self.records]


@dataclass(kw_only=True)
class Played:
    """The invocations by their start, the batches for the on-failure destination, and the mapping at the end."""

    mapping: EventSourceMapping
    invocations: list[Invocation] = field(default_factory=list)
    discarded: list[DeliverFailure] = field(default_factory=list)

    @property
    def batches(self) -> list[list[int]]:
        """The sequence numbers of each invocation."""
        return [one.numbers for one in self.invocations]


def insertions(items: Iterable[Mapping[str, Any]], *, keys: Sequence[str] = ("PK",)) -> list[LambdaRecord]:
    """Return the records of new items, from sequence number 1. `items`: DynamoDB JSON. `keys`: of the primary key."""
    return [
        {
            "eventID": f"event-{number}",
            "eventName": "INSERT",
            "eventVersion": "1.1",
            "eventSource": "aws:dynamodb",
            "awsRegion": "eu-central-1",
            "eventSourceARN": STREAM_ARN,
            "dynamodb": {
                "ApproximateCreationDateTime": START,
                "Keys": {key: item[key] for key in keys},
                "NewImage": dict(item),
                "SequenceNumber": str(number),
                "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
        }
        for number, item in enumerate(items, 1)
    ]


def play(
    handler: Callable[[dict[str, Any], Any], Any],
    records: Iterable[LambdaRecord],
    settings: MappingSettings,
    *,
    assumptions: MappingAssumptions | None = None,
) -> Played:
    """Deliver the records of one shard to a function until none is left, and return what happened.

    `handler`: gets the event, and None as its context. Its response, or its exception, decides as in Lambda what is
    retried. `records`: in the order of the stream (`insertions`). All of them exist when the mapping starts.
    """

    def invoke(action: Invoke) -> tuple[Outcome, float]:
        try:
            return InvocationReturned(handler(action.event, None)), 0
        except Exception as error:  # noqa: BLE001  Lambda retries after any error of a function
            return InvocationFailed(type(error).__name__), 0

    mapping = new_mapping(settings, assumptions)
    mapping.add_shard(SHARD)
    return drive(mapping, [(0, partial(mapping.add_record, SHARD, record)) for record in records], invoke)


def new_mapping(
    settings: MappingSettings,
    assumptions: MappingAssumptions | None = None,
    resume_from: Mapping[str, str] | None = None,
) -> EventSourceMapping:
    """Return a mapping without shards, whose ids are counted, so that each run has the same ids."""
    ids = itertools.count()
    return EventSourceMapping(
        settings,
        mapping_id="mapping",
        function_arn=FUNCTION_ARN,
        stream_arn=STREAM_ARN,
        new_id=lambda: f"id-{next(ids)}",
        assumptions=assumptions,
        resume_from=resume_from,
    )


def drive(
    mapping: EventSourceMapping,
    steps: Iterable[tuple[float, Callable[[float], object]]],
    invoke: Callable[[Invoke], tuple[Outcome, float]],
    *,
    seconds: float = TWO_DAYS,
) -> Played:
    """Run a mapping with a virtual clock until it has nothing to do, or until `seconds` have passed.

    `steps`: functions of the epoch seconds by the second at which they run, such as `mapping.add_record`. `invoke`:
    returns the outcome and the seconds that it took. Each destination accepts each failed batch.
    """
    played, order = Played(mapping=mapping), itertools.count()
    agenda: list[tuple[float, int, Callable[[float], object]]] = [(at, next(order), step) for at, step in steps]
    heapq.heapify(agenda)
    now = 0.0
    while now <= seconds:
        while agenda and agenda[0][0] <= now:
            heapq.heappop(agenda)[2](START + now)
        for action in mapping.due_actions(START + now):
            outcome: Outcome
            if isinstance(action, DeliverFailure):
                played.discarded.append(action)
                outcome, ended = FailureDelivered(), now
            else:
                outcome, took = invoke(action)
                ended = now + took
                done = Invocation(records=action.records, outcome=outcome, started=now, ended=ended)
                played.invocations.append(done)
            report: Callable[[float], object] = partial(mapping.report_outcome, action, outcome)
            heapq.heappush(agenda, (ended, next(order), report))
        due = mapping.next_action_at(START + now)
        times = [agenda[0][0]] if agenda else []
        times += [max(now, due - START)] if due is not None else []
        if not times:
            break
        now = min(times)
    return played
