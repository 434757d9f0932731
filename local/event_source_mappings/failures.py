"""Handles failed invocations: evaluates responses, bisects failed batches, and builds invocation records.

An invocation record is the JSON document about a discarded batch that Lambda sends to the on-failure destination.

Sources: Lambda developer guide, "Configuring partial batch response with DynamoDB and Lambda" (success, failure,
checkpoint) and "Retain discarded records for a DynamoDB event source in Lambda" (document, S3 object key).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from local.event_source_mappings.records import Records, to_json_bytes, to_lambda_event
from local.event_source_mappings.settings import MappingAssumptions

DiscardReason: TypeAlias = Literal["RetryAttemptsExhausted", "RecordAgeExceeded"]


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records that are sent to the function in one invocation. `attempts` counts the failed attempts of this batch.

    `request_id` and `function_error` are those of the last invocation of this batch.
    """

    records: Records = ()
    attempts: int = 0
    request_id: str = ""
    function_error: str | None = None


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The result of an invocation: the first `accepted` records are done, and all other records are retried.

    `failed` is the number of records that failed. `can_bisect`: whether the batch may be split in two, because the
    response does not say which record failed.
    """

    accepted: int
    failed: int
    can_bisect: bool = False


def evaluate_response(records: Records, response: object, switches: MappingAssumptions) -> BatchOutcome:
    """Evaluate the response of a function that uses partial batch responses (ReportBatchItemFailures).

    All records before the lowest reported sequence number are done. The record with this number and all later records
    are retried. If the response contains an invalid identifier, the whole batch fails. A response of type bytes means
    that the response is not JSON.
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

    The list contains None for each entry without an itemIdentifier.
    """
    if response in (None, {}, []):
        return []
    if not isinstance(response, Mapping):
        return None
    reported = response.get("batchItemFailures")
    entries = reported if isinstance(reported, list) else [] if reported is None else [None]
    return [entry.get("itemIdentifier") if isinstance(entry, Mapping) else None for entry in entries]


def bisect_records(records: Records, switches: MappingAssumptions) -> list[Records]:
    """Split the records of a failed batch in two. Return both halves in the order in which they are retried."""
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
    """Build the invocation record of a discarded batch, a dict for JSON.

    If the destination is a bucket, the record also has `payload`, the event as a JSON string. If the batch was too old
    (RecordAgeExceeded), the record has no responseContext. The invoke count is at least 1, even if the function never
    received the batch. AWS may combine the failures of several halves of a split batch in one record. This model builds
    one record for each discarded half.
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

    `now` must be the same time as that in the invocation record's timestamp.
    """
    if not _is_bucket(destination):
        return None
    return f"aws/lambda/{mapping_id}/{shard_id}/{_utc(now):%Y/%m/%d/%Y-%m-%dT%H.%M.%S}-{new_id()}"


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _is_bucket(destination: str) -> bool:
    return ":s3:::" in destination
