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
    """The records that are sent to the function in one invocation.

    `attempts`: the number of failed attempts to process this batch. Attempts that do not count against the retry limit,
    such as throttled invocations, are not included.
    `request_id`: the request id of the last invocation, or "" before the first invocation.
    `function_error`: the function error of the last invocation, or None if there was no error or no invocation yet.
    """

    records: Records = ()
    attempts: int = 0
    request_id: str = ""
    function_error: str | None = None


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The result of an invocation: the first `accepted` records of the batch are done, the other records are retried.

    `accepted`: the number of records at the front of the batch that the function processed.
    `failed`: the number of records that failed, without records that are retried only because an earlier record failed.
    `can_bisect`: True if it is unknown which record failed. Then the mapping may split the batch in two.
    """

    accepted: int
    failed: int
    can_bisect: bool = False


def evaluate_response(records: Records, response: object, switches: MappingAssumptions) -> BatchOutcome:
    """Evaluate the response of a function that uses partial batch responses (ReportBatchItemFailures).

    The response names the sequence numbers of the failed records. All records before the lowest of these numbers are
    done. The record with the lowest number and all later records are retried. If an identifier is empty or not a
    string, the whole batch fails. A `response` of type bytes means that the function did not return JSON.

    `switches`: the assumptions about responses whose handling AWS does not document.
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
    """Return the identifiers that a response reports as failed, or None if the response is not a JSON object.

    The list is empty if the response is empty or null, or has no batchItemFailures. An entry without an itemIdentifier
    becomes None in the list. If batchItemFailures is not a list, the result is [None].
    """
    if response in (None, {}, []):
        return []
    if not isinstance(response, Mapping):
        return None
    reported = response.get("batchItemFailures")
    entries = reported if isinstance(reported, list) else [] if reported is None else [None]
    return [entry.get("itemIdentifier") if isinstance(entry, Mapping) else None for entry in entries]


def bisect_records(records: Records, switches: MappingAssumptions) -> list[Records]:
    """Split the records of a failed batch in two halves. Return the half that is retried first, then the other half.

    `switches`: the assumptions about the sizes and the order of the halves, which AWS does not document.
    """
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
    """Build the invocation record of a discarded batch: the JSON document for the on-failure destination.

    If the destination is a bucket, the document also has `payload`, the event as a JSON string. If the batch was too
    old (RecordAgeExceeded), the document has no responseContext. `approximateInvokeCount` is at least 1, even if the
    function never received the batch.

    If both halves of a split batch are discarded, this model sends two documents, while AWS may send one. `now`: the
    current time in epoch seconds, for the timestamp.
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
    """Return the S3 object key of an invocation record, or None if the destination is not a bucket.

    `now`: the same epoch seconds as for `build_invocation_record`. `new_id`: returns a random id for the key's end.
    """
    if not _is_bucket(destination):
        return None
    return f"aws/lambda/{mapping_id}/{shard_id}/{_utc(now):%Y/%m/%d/%Y-%m-%dT%H.%M.%S}-{new_id()}"


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _is_bucket(destination: str) -> bool:
    return ":s3:::" in destination
