"""The actions that an event source mapping requests from its driver, the outcomes of actions, and the counters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from local.event_source_mappings.records import Records, to_lambda_event


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoke:
    """An action: invoke the function with `event`, then report InvocationReturned, InvocationFailed or NotInvoked.

    `iterator_age_ms` is the metric IteratorAge: the age of the last record in the batch. `attempt` is 1 for the first
    attempt to process these records. It counts only attempts that count against the retry limit.
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

    `destination` is an ARN. `key` is the object key if the destination is a bucket, otherwise None.
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
    """An outcome: the function raised an error or timed out. `error_type` is only for logs; the model ignores it."""

    error_type: str = "Unhandled"


@dataclass(frozen=True, slots=True)
class NotInvoked:
    """An outcome: the function could not be invoked, because it was throttled or unavailable.

    The retry does not count as an attempt.
    """

    reason: str = "throttled"


@dataclass(frozen=True, slots=True)
class FailureDelivered:
    """An outcome: the DeliverFailure action succeeded or failed.

    If it failed, the mapping drops the records, because AWS does not retry the delivery.
    """

    succeeded: bool = True


Action: TypeAlias = Invoke | DeliverFailure
Outcome: TypeAlias = InvocationReturned | InvocationFailed | NotInvoked | FailureDelivered


@dataclass(slots=True)
class MappingCounters:
    """The opt-in CloudWatch metrics of an event source mapping. Each field is named like its metric, in snake case.

    Fields count records, except `destination_delivery_failures`, which counts deliveries. `invoked` counts a record in
    every invocation that contains it. `failed_invoke` counts a record in every attempt that fails for it. `dropped`
    counts records that neither the function nor the destination accepted. `expired` counts records that were older than
    the stream's retention; AWS has no such metric.
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
    """The number of unfinished records of a mapping, by state. `oldest_seconds` is the age of the oldest record."""

    waiting: int
    in_flight: int
    retrying: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class ShardIteratorRequest:
    """The arguments of a GetShardIterator request. Only AFTER_SEQUENCE_NUMBER needs a sequence number."""

    iterator_type: Literal["AFTER_SEQUENCE_NUMBER", "TRIM_HORIZON", "LATEST"]
    sequence_number: str | None = None
