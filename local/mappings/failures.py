"""What a stream mapping makes of a batch that failed: how far it came, how it is split, what its document says.

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
    """Records that are invoked together. `attempts` counts its failures; the last two are its last invocation's."""

    records: Records = ()
    attempts: int = 0
    request_id: str = ""
    function_error: str | None = None


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """How an invocation went: the first `accepted` records are done, `failed` counts as failed, the rest is retried.

    `splits` says that nothing is known about the records singly, so that bisecting the batch helps.
    """

    accepted: int
    failed: int
    can_bisect: bool = False


def evaluate_response(records: Records, response: object, switches: MappingAssumptions) -> BatchOutcome:
    """The verdict on what a function returned while partial responses are on; bytes are a response that is no JSON.

    Everything before the lowest reported sequence number is done; that record and all after it are not. A response
    that names no record properly is the failure of all of them.
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
    """The identifiers a response reports as failed (None for one without an itemIdentifier); None if unreadable."""
    if response in (None, {}, []):
        return []
    if not isinstance(response, Mapping):
        return None
    reported = response.get("batchItemFailures")
    entries = reported if isinstance(reported, list) else [] if reported is None else [None]
    return [entry.get("itemIdentifier") if isinstance(entry, Mapping) else None for entry in entries]


def bisect_records(records: Records, switches: MappingAssumptions) -> list[Records]:
    """The two parts of a batch that failed, in the order in which they are tried."""
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
    """The invocation record of a discarded batch; a bucket's also has `payload`, the event as JSON in a string.

    A batch that grew too old has no responseContext, and an invoke count of 1 even if it was never invoked. AWS may put
    the failures of several bisected parts into one document; here each part that is discarded has its own.
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
    """Where a document lies in a bucket, None for other destinations; `now` is the instant of its timestamp."""
    if not _is_bucket(destination):
        return None
    return f"aws/lambda/{mapping_id}/{shard_id}/{_utc(now):%Y/%m/%d/%Y-%m-%dT%H.%M.%S}-{new_id()}"


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _is_bucket(destination: str) -> bool:
    return ":s3:::" in destination
