"""The actions that the model of an event source mapping returns, the outcomes of actions, and the counters.

An action is an invocation, or the delivery of a failed batch to the on-failure destination. The driver executes each
action and reports its outcome to the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from local.event_source_mappings.records import Records, to_lambda_event


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoke:
    """An action: invoke the function with `event`, then report InvocationReturned, InvocationFailed or NotInvoked.

    `iterator_age_ms`: the age of the last record in the batch. `attempt`: 1 for the first attempt to process these
    records. Only failed attempts that count against the retry limit raise it: throttled invocations do not.
    """

    request_id: str
    shard_id: str
    lane: int
    records: Records
    iterator_age_ms: int
    attempt: int = 1

    @property
    def event(self) -> dict[str, Any]:
        return to_lambda_event(self.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverFailure:
    """An action: send `document` as JSON to the on-failure destination, then report FailureDelivered.

    `destination`: the ARN of a bucket, queue or topic. `key`: the object key if it is a bucket, else None.
    """

    shard_id: str
    lane: int
    records: Records
    destination: str
    key: str | None
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InvocationReturned:
    """An outcome: the function returned. `response` is the decoded JSON, or bytes if the response is not JSON."""

    response: object = None


@dataclass(frozen=True, slots=True)
class InvocationFailed:
    """An outcome: the function raised an error or timed out. The model ignores `error_type`, which is for logs only."""

    error_type: str = "Unhandled"


@dataclass(frozen=True, slots=True)
class NotInvoked:
    """An outcome: the function was throttled or unavailable. The retry does not count against the retry limit."""

    reason: str = "throttled"


@dataclass(frozen=True, slots=True)
class FailureDelivered:
    """An outcome of DeliverFailure. If it did not succeed, the mapping drops the records, as AWS does."""

    succeeded: bool = True


Action: TypeAlias = Invoke | DeliverFailure
Outcome: TypeAlias = InvocationReturned | InvocationFailed | NotInvoked | FailureDelivered


@dataclass(slots=True)
class MappingCounters:
    """Counters for the opt-in CloudWatch metrics of an event source mapping. Fields are metric names in snake case.

    All fields count records, except `destination_delivery_failures`, which counts deliveries. `invoked` and
    `failed_invoke` count a record at each attempt. `dropped`: the records that were neither processed nor stored.
    `expired`: the records that were older than the stream's retention; AWS has no metric for them.

    Source: Lambda developer guide, "Types of metrics for Lambda functions".
    """

    polled: int = 0
    filtered_out: int = 0
    invoked: int = 0
    failed_invoke: int = 0
    dropped: int = 0
    on_failure_destination_delivered: int = 0
    destination_delivery_failures: int = 0
    expired: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingLoad:
    """The number of unfinished records of a mapping, by state, and the age of the oldest, or 0."""

    waiting: int
    in_flight: int
    retrying: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class ShardIteratorRequest:
    """The arguments of a GetShardIterator request. `sequence_number` is set only for AFTER_SEQUENCE_NUMBER."""

    iterator_type: Literal["AFTER_SEQUENCE_NUMBER", "TRIM_HORIZON", "LATEST"]
    sequence_number: str | None = None
