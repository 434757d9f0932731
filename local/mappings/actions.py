"""What a stream mapping asks of its driver, what the driver answers, and what the mapping counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from local.mappings.records import Records, to_lambda_event


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoke:
    """Invoke the function with `event`, then report Returned, Failed or NotInvoked.

    `iterator_age_ms` is the metric IteratorAge: how long the batch's last record has been in the stream. `attempt`:
    which one this is for these records, by the count that their retries are limited by.
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
    """Send `document` as JSON to the on-failure destination, an ARN (to `key` if it is a bucket); report Delivered."""

    shard_id: str
    lane: int
    records: Records
    destination: str
    key: str | None
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InvocationReturned:
    """The function returned. `response` is the decoded JSON, or the raw bytes where they are not JSON."""

    response: object = None


@dataclass(frozen=True, slots=True)
class InvocationFailed:
    """The function raised or timed out. `error_type` is for whoever reads the trace; Lambda does not look at it."""

    error_type: str = "Unhandled"


@dataclass(frozen=True, slots=True)
class NotInvoked:
    """The function was not reached (throttled, not there, connection refused): retried, and no attempt is used up."""

    reason: str = "throttled"


@dataclass(frozen=True, slots=True)
class FailureDelivered:
    """What became of a Deliver. Where it did not succeed its records are dropped, as on AWS: nobody tries again."""

    succeeded: bool = True


Action: TypeAlias = Invoke | DeliverFailure
Outcome: TypeAlias = InvocationReturned | InvocationFailed | NotInvoked | FailureDelivered


@dataclass(slots=True)
class MappingCounters:
    """The opt-in metrics of a mapping, in records, under their CloudWatch names in snake case; `expired` is ours.

    `invoked` counts a record at every invocation that had it, `failed_invoke` at every try that failed it. `dropped`
    has what neither the function nor the destination took; what outlived the stream's retention is only `expired`.
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
    """What a mapping has read and is not done with, in records; `oldest_seconds`: how long the first of them waits."""

    waiting: int
    in_flight: int
    retrying: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class ShardIteratorRequest:
    """A GetShardIterator request: its ShardIteratorType and, where that needs one, its SequenceNumber."""

    iterator_type: Literal["AFTER_SEQUENCE_NUMBER", "TRIM_HORIZON", "LATEST"]
    sequence_number: str | None = None
