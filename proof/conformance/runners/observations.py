"""A runner's observations of a probe, and their differences from the expected observations."""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from proof.conformance.probes.kinds import FailedBatch, MappingProbe

TOLERANCE_SECONDS = 0.25
DOCUMENT_KEYS = {"requestContext", "responseContext", "version", "timestamp", "DDBStreamBatchInfo", "payload"}
POSITION_KEYS = {
    "shardId",
    "startSequenceNumber",
    "endSequenceNumber",
    "approximateArrivalOfFirstRecord",
    "approximateArrivalOfLastRecord",
    "batchSize",
    "streamArn",
}


@dataclass(frozen=True, kw_only=True)
class ObservedCall:
    """An invocation: the numbers of its records, and the seconds from the start of the mapping to its start and end."""

    numbers: tuple[int, ...]
    started: float
    ended: float


@dataclass(kw_only=True)
class Observation:
    """The behavior of one mapping. `checkpoint`: the number of the last finished record, or None if it is unknown."""

    calls: list[ObservedCall] = field(default_factory=list)
    failed_batches: list[FailedBatch] = field(default_factory=list)
    malformed_documents: list[str] = field(default_factory=list)
    refused: bool = False
    checkpoint: int | None = None

    def add_document(self, document: Mapping[str, Any], numbers: Mapping[str, int]) -> None:
        """Add a document of the on-failure destination. `numbers`: the number of each record by sequence number."""
        try:
            self.failed_batches.append(_read_document(document, numbers))
        except (KeyError, ValueError, TypeError) as error:
            self.malformed_documents.append(f"{type(error).__name__} {error} in {json.dumps(document)[:500]}")


def _read_document(document: Mapping[str, Any], numbers: Mapping[str, int]) -> FailedBatch:
    context, position = document["requestContext"], document["DDBStreamBatchInfo"]
    if unknown := (document.keys() - DOCUMENT_KEYS) | (position.keys() ^ POSITION_KEYS):
        raise ValueError(f"unexpected keys {sorted(unknown)}")
    first, last = numbers[position["startSequenceNumber"]], numbers[position["endSequenceNumber"]]
    if "payload" in document:
        inside = [numbers[one["dynamodb"]["SequenceNumber"]] for one in json.loads(document["payload"])["Records"]]
        if (inside[0], inside[-1], len(inside)) != (first, last, position["batchSize"]):
            raise ValueError(f"the payload has other records: {inside}")
    return FailedBatch(
        records=(first, last),
        size=position["batchSize"],
        condition=context["condition"],
        invocations=context["approximateInvokeCount"],
        error=document["responseContext"].get("functionError") if "responseContext" in document else None,
        has_response="responseContext" in document,
        has_payload="payload" in document,
    )


def differences(probe: MappingProbe, seen: Observation, *, exact_times: bool) -> Iterator[str]:
    """Yield how an observation differs from the probe, in sentences. Without `exact_times`, a pause may be longer."""
    if seen.refused != probe.refused:
        yield f"the settings were {'refused' if seen.refused else 'accepted'}"
        return
    expected, made = [call.records for call in probe.calls], [call.numbers for call in seen.calls]
    if probe.any_order:
        expected, made = sorted(expected), sorted(made)
    if made != expected:
        yield f"invocations {_describe(made)} instead of {_describe(expected)}"
    elif not probe.any_order:
        yield from _time_differences(probe, seen, exact=exact_times)
    yield from _order_differences(probe, seen)
    peak = _peak(seen.calls)
    if probe.parallel and not probe.parallel[0] <= peak <= probe.parallel[1]:
        yield f"{peak} invocations at the same time instead of {probe.parallel[0]} to {probe.parallel[1]}"
    if sorted(seen.failed_batches, key=str) != sorted(probe.failed_batches, key=str):
        yield f"documents {seen.failed_batches} instead of {list(probe.failed_batches)}"
    yield from seen.malformed_documents
    if probe.checkpoint is not None and seen.checkpoint != probe.checkpoint:
        yield f"checkpoint {seen.checkpoint} instead of {probe.checkpoint}"


def _time_differences(probe: MappingProbe, seen: Observation, *, exact: bool) -> Iterator[str]:
    timed = [(call.at, made.started) for call, made in zip(probe.calls, seen.calls, strict=True) if call.at is not None]
    for at, started in timed:
        # A real mapping starts some time after its creation, so the time since the first invocation counts, too.
        for expected, found in ((at, started), (at - timed[0][0], started - timed[0][1])):
            if found < expected - TOLERANCE_SECONDS or (exact and found > expected + TOLERANCE_SECONDS):
                yield f"an invocation after {found:.1f} s instead of {expected:.1f} s"


def _order_differences(probe: MappingProbe, seen: Observation) -> Iterator[str]:
    """Check a rule of every mapping: the first deliveries of an item's records are in order."""
    reached: dict[str, int] = {}
    for call in seen.calls:
        for number in call.numbers:
            item = probe.writes[number - 1].item
            if number > reached.get(item, 0):
                skipped = [n for n in range(reached.get(item, 0) + 1, number) if probe.writes[n - 1].item == item]
                expected = {n for one in probe.calls for n in one.records}
                if expected.intersection(skipped):
                    yield f"record {number} of item {item} was delivered before {skipped}"
                reached[item] = number


def _peak(calls: list[ObservedCall]) -> int:
    return max((sum(one.started <= call.started < one.ended for one in calls) for call in calls), default=0)


def _describe(calls: list[tuple[int, ...]]) -> str:
    groups = [(records, len(list(group))) for records, group in itertools.groupby(calls)]
    return (
        ", ".join(_describe_records(records) + (f" x {times}" if times > 1 else "") for records, times in groups)
        or "none"
    )


def _describe_records(records: tuple[int, ...]) -> str:
    return f"[{records[0]}-{records[-1]}]" if len(records) > 6 else str(list(records))
