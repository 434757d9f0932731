"""The actions that a mapping requests from its driver, their outcomes, and the mapping's counters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from local.mappings.records import Records, to_lambda_event


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoke:
    """Invoke the function with `event`, then report InvocationReturned, InvocationFailed or NotInvoked.

    `iterator_age_ms` is the metric IteratorAge: the age of the batch's last record in the stream. `attempt` is the
    number of this attempt for these records, as counted against the retry limit.
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
    """Send `document` as JSON to the on-failure destination, then report FailureDelivered.

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
    """The function returned. `response` is the decoded JSON, or the raw bytes if they are not JSON."""

    response: object = None


@dataclass(frozen=True, slots=True)
class InvocationFailed:
    """The function raised or timed out. `error_type` is for traces only; Lambda ignores it."""

    error_type: str = "Unhandled"


@dataclass(frozen=True, slots=True)
class NotInvoked:
    """The function was not reached (throttled, missing, connection refused). The retry does not use up an attempt."""

    reason: str = "throttled"


@dataclass(frozen=True, slots=True)
class FailureDelivered:
    """The outcome of a DeliverFailure. If it failed, its records are dropped: AWS does not retry a delivery."""

    succeeded: bool = True


Action: TypeAlias = Invoke | DeliverFailure
Outcome: TypeAlias = InvocationReturned | InvocationFailed | NotInvoked | FailureDelivered


@dataclass(slots=True)
class MappingCounters:
    """The opt-in metrics of a mapping, in records, under their CloudWatch names in snake case. AWS has no `expired`.

    `invoked` counts a record at every invocation that contains it, `failed_invoke` at every attempt that fails it.
    `dropped` counts the records that neither the function nor the destination accepted. `expired` counts the records
    that were older than the stream's retention.
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
    """The unfinished records of a mapping. `oldest_seconds` is the age of the oldest of them."""

    waiting: int
    in_flight: int
    retrying: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class ShardIteratorRequest:
    """A GetShardIterator request: its ShardIteratorType, and its SequenceNumber if that type needs one."""

    iterator_type: Literal["AFTER_SEQUENCE_NUMBER", "TRIM_HORIZON", "LATEST"]
    sequence_number: str | None = None
