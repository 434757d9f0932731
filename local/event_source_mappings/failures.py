"""Evaluates the responses of a function, bisects failed batches, and builds invocation records.

An invocation record is a JSON document about a batch that Lambda no longer retries. Lambda sends the document to the
on-failure destination.

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
class UndeliveredBatch:
    """The records of one invocation.

    `attempts`: the failed attempts to process this batch that count against the retry limit. `request_id`: of the last
    invocation, or "". `function_error`: its function error, or None.
    """

    records: Records = ()
    attempts: int = 0
    request_id: str = ""
    function_error: str | None = None


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The result of an invocation: the first `accepted` records are done, the others are retried.

    `failed`: without the records that are retried only because an earlier one failed. `can_bisect`: whether it is
    unknown which record failed, so that the mapping may split the batch.
    """

    accepted: int
    failed: int
    can_bisect: bool = False


def evaluate_response(records: Records, response: object, switches: MappingAssumptions) -> BatchOutcome:
    """Evaluate the response of a function that uses partial batch responses (ReportBatchItemFailures).

    All records before the lowest failed sequence number are done, all others are retried. If an identifier is empty or
    not a string, the whole batch fails. A `response` of bytes is not JSON. `switches`: what AWS does not document.
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
    """Return the identifiers of failed records, or None if the response is not a JSON object.

    An entry without an itemIdentifier becomes None. If batchItemFailures is not a list, the result is [None].
    """
    if response in (None, {}, []):
        return []
    if not isinstance(response, Mapping):
        return None
    reported = response.get("batchItemFailures")
    entries = reported if isinstance(reported, list) else [] if reported is None else [None]
    return [entry.get("itemIdentifier") if isinstance(entry, Mapping) else None for entry in entries]


def bisect_records(records: Records, switches: MappingAssumptions) -> list[Records]:
    """Split the records of a failed batch: the half that is retried first, and the other, by the assumptions."""
    middle = (len(records) + (switches.bisect_midpoint == "ceiling")) // 2
    lower, upper = records[:middle], records[middle:]
    return [lower, upper] if switches.bisect_first == "lower" else [upper, lower]


def build_invocation_record(
    batch: UndeliveredBatch,
    condition: DiscardReason,
    *,
    function_arn: str,
    stream_arn: str,
    shard_id: str,
    destination: str,
    now: float,
) -> dict[str, Any]:
    """Build the JSON document about a discarded batch for the on-failure destination.

    For a bucket, it has the event as JSON (`payload`). If the batch was too old (RecordAgeExceeded), it has no
    responseContext. `approximateInvokeCount` is at least 1. If both halves of a split batch are discarded, this model
    sends two documents, while AWS may send one. `now`: epoch seconds, for the timestamp.
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
    """Return the S3 object key of an invocation record with this `now`, or None if the destination is no bucket."""
    if not _is_bucket(destination):
        return None
    return f"aws/lambda/{mapping_id}/{shard_id}/{_utc(now):%Y/%m/%d/%Y-%m-%dT%H.%M.%S}-{new_id()}"


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _is_bucket(destination: str) -> bool:
    return ":s3:::" in destination
