"""Evaluates the result of an invocation, bisects failed batches, and builds the records of discarded batches.

Sources: Lambda developer guide, "Configuring partial batch response with DynamoDB and Lambda" (success, failure,
checkpoint) and "Retain discarded records for a DynamoDB event source in Lambda" (document, S3 object key).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from local.mappings.records import Records, to_json_bytes, to_lambda_event
from local.mappings.settings import MappingAssumptions

DiscardReason: TypeAlias = Literal["RetryAttemptsExhausted", "RecordAgeExceeded"]


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records that are invoked together. `attempts` counts its failures.

    `request_id` and `function_error` are those of its last invocation.
    """

    records: Records = ()
    attempts: int = 0
    request_id: str = ""
    function_error: str | None = None


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The result of an invocation: the first `accepted` records are done, `failed` failed, the rest is retried.

    `can_bisect`: the response does not say which record failed, so bisecting the batch helps to find it.
    """

    accepted: int
    failed: int
    can_bisect: bool = False


def evaluate_response(records: Records, response: object, switches: MappingAssumptions) -> BatchOutcome:
    """Evaluate a function's response, with partial batch responses on. A response in bytes is one that is not JSON.

    All records before the lowest reported sequence number are done. That record and all after it are retried. If the
    response contains an invalid identifier, the whole batch fails.
    """
    success = BatchOutcome(accepted=len(records), failed=0)
    failure = BatchOutcome(accepted=0, failed=len(records), can_bisect=True)
    identifiers = _reported_identifiers(response)
    if identifiers is None:
        return failure if switches.unreadable_response == "fails" else success
    if not all(isinstance(identifier, str) and identifier for identifier in identifiers):
        return failure
    places = {record.sequence_number: place for place, record in enumerate(records)}
    known = {places[identifier] for identifier in identifiers if identifier in places}
    if switches.unknown_identifier == "fails" and not places.keys() >= set(identifiers):
        return failure
    return BatchOutcome(accepted=min(known), failed=len(known)) if known else success


def _reported_identifiers(response: object) -> list[object] | None:
    """Return the identifiers that a response reports as failed, or None if the response is unreadable.

    An entry without an itemIdentifier is None in the list.
    """
    if response in (None, {}, []):
        return []
    if not isinstance(response, Mapping):
        return None
    reported = response.get("batchItemFailures")
    entries = reported if isinstance(reported, list) else [] if reported is None else [None]
    return [entry.get("itemIdentifier") if isinstance(entry, Mapping) else None for entry in entries]


def bisect_records(records: Records, switches: MappingAssumptions) -> list[Records]:
    """Return the two parts of a failed batch, in the order in which they are retried."""
    middle = (len(records) + (switches.bisect_midpoint == "ceiling")) // 2
    lower, upper = records[:middle], records[middle:]
    return [lower, upper] if switches.bisect_first == "lower" else [upper, lower]


def build_invocation_record(
    batch: RecordBatch,
    condition: DiscardReason,
    *,
    function_arn: str,
    stream_arn: str,
    shard_id: str,
    destination: str,
    now: float,
) -> dict[str, Any]:
    """Build the invocation record of a discarded batch. For a bucket it also has `payload`, the event as a JSON string.

    If the batch exceeded the maximum age, the record has no responseContext; its invoke count is at least 1, even if
    the batch was never invoked. AWS may combine the failures of several bisected parts in one document; here each
    discarded part has its own.
    """
    first, last = batch.records[0], batch.records[-1]
    document: dict[str, Any] = {
        "requestContext": {
            "requestId": batch.request_id,
            "functionArn": function_arn,
            "condition": condition,
            "approximateInvokeCount": max(batch.attempts, 1),
        }
    }
    if condition == "RetryAttemptsExhausted":
        document["responseContext"] = {
            "statusCode": 200,
            "executedVersion": "$LATEST",
            "functionError": batch.function_error,
        }
    document |= {
        "version": "1.0",
        "timestamp": _utc(now).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "DDBStreamBatchInfo": {
            "shardId": shard_id,
            "startSequenceNumber": first.sequence_number,
            "endSequenceNumber": last.sequence_number,
            "approximateArrivalOfFirstRecord": f"{_utc(first.created_at):%Y-%m-%dT%H:%M:%SZ}",
            "approximateArrivalOfLastRecord": f"{_utc(last.created_at):%Y-%m-%dT%H:%M:%SZ}",
            "batchSize": len(batch.records),
            "streamArn": stream_arn,
        },
    }
    if _is_bucket(destination):
        document["payload"] = to_json_bytes(to_lambda_event(batch.records)).decode()
    return document


def invocation_record_key(
    destination: str, mapping_id: str, shard_id: str, now: float, new_id: Callable[[], str]
) -> str | None:
    """Return the object key of an invocation record in a bucket, or None for other destinations.

    `now` must be the time of the record's timestamp.
    """
    if not _is_bucket(destination):
        return None
    return f"aws/lambda/{mapping_id}/{shard_id}/{_utc(now):%Y/%m/%d/%Y-%m-%dT%H.%M.%S}-{new_id()}"


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _is_bucket(destination: str) -> bool:
    return ":s3:::" in destination
