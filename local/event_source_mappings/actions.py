"""Defines the actions that the model of an event source mapping returns, the outcomes of actions, and the counters.

An action is an invocation of the function, or the delivery of a failed batch to the on-failure destination. The driver
(local/laptop/poller.py or the simulation in the tests) executes each action and reports its outcome to the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from local.event_source_mappings.records import Records, to_lambda_event


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoke:
    """An action: invoke the function with `event`, then report InvocationReturned, InvocationFailed or NotInvoked.

    `lane`: the index of the lane (local/event_source_mappings/shards.py).
    `iterator_age_ms`: the metric IteratorAge, which is the age of the last record in the batch in milliseconds.
    `attempt`: 1 for the first attempt to process these records. Only failed attempts that count against the retry limit
    raise this number. A throttled invocation does not count.
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

    `document`: describes a batch that the mapping no longer retries.
    `destination`: the ARN of a bucket, queue or topic.
    `key`: the object key if the destination is a bucket, otherwise None.
    `lane`: the index of the lane (local/event_source_mappings/shards.py).
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
    """An outcome: the function could not be invoked, because it was throttled or unavailable.

    The batch is retried. This failure does not count against the retry limit.
    """

    reason: str = "throttled"


@dataclass(frozen=True, slots=True)
class FailureDelivered:
    """An outcome: the driver tried to send a failed batch to the on-failure destination (action DeliverFailure).

    `succeeded`: whether the destination accepted the batch. If not, the mapping drops the records, as AWS does.
    """

    succeeded: bool = True


Action: TypeAlias = Invoke | DeliverFailure
Outcome: TypeAlias = InvocationReturned | InvocationFailed | NotInvoked | FailureDelivered


@dataclass(slots=True)
class MappingCounters:
    """Counters for the opt-in CloudWatch metrics of an event source mapping. Fields are metric names in snake case.

    All fields count records, except `destination_delivery_failures`, which counts deliveries.
    `invoked`: each record is counted again in every invocation that contains the record.
    `failed_invoke`: each record is counted again in every attempt that fails for this record.
    `dropped`: the records that the function did not process and that no on-failure destination received.
    `expired`: the records that were older than the stream's retention. AWS has no metric for them.

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
    """The number of unfinished records of a mapping, by state.

    `waiting`: the records that were not sent to the function yet. `in_flight`: the records of actions in progress.
    `retrying`: the failed records that wait for a retry.
    `oldest_seconds`: the age of the oldest unfinished record, or 0 if all records are done.
    """

    waiting: int
    in_flight: int
    retrying: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class ShardIteratorRequest:
    """The arguments of a GetShardIterator request. `sequence_number` is set only for AFTER_SEQUENCE_NUMBER."""

    iterator_type: Literal["AFTER_SEQUENCE_NUMBER", "TRIM_HORIZON", "LATEST"]
    sequence_number: str | None = None
