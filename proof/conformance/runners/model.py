"""Plays mapping probes on the model of event source mappings (local/event_source_mappings), with a virtual clock."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from local.event_source_mappings import (
    InvocationFailed,
    InvocationReturned,
    Invoke,
    MappingAssumptions,
    MappingSettings,
    NotInvoked,
    Outcome,
    Played,
    drive,
    new_mapping,
)
from local.event_source_mappings.playing import START
from local.event_source_mappings.records import Records
from proof.conformance.probes.kinds import MappingProbe, Probe, Write
from proof.conformance.results import as_result
from proof.conformance.runners.function import TIMEOUT_SECONDS, decide, record_number
from proof.conformance.runners.observations import Observation, ObservedCall, differences

DESTINATIONS = {"$bucket": "arn:aws:s3:::failures", "$queue": "arn:aws:sqs:eu-central-1:000000000000:failures"}
FIRST_SEQUENCE_NUMBER = 100000000000000000000


def play_probes(probes: Sequence[Probe]) -> Iterator[tuple[Probe, str]]:
    """Play the mapping probes among these, and yield each with its result."""
    yield from ((probe, as_result(check(probe))) for probe in probes if isinstance(probe, MappingProbe))


def check(probe: MappingProbe, assumptions: MappingAssumptions | None = None) -> str:
    """Play a probe and return how the model differs from the probe, or "". `assumptions`: see `play`."""
    return "; ".join(differences(probe, play(probe, assumptions), exact_times=True))


def play(probe: MappingProbe, assumptions: MappingAssumptions | None = None) -> Observation:
    """Play a probe and return what the model did. `assumptions`: behavior that AWS does not document."""
    try:
        settings = mapping_settings(probe)
    except ValueError:
        return Observation(refused=True)
    last = probe.resume_after
    mapping = new_mapping(settings, assumptions, {"shardId-1": str(FIRST_SEQUENCE_NUMBER + last)} if last else None)
    for shard in sorted({write.shard for write in probe.writes}):
        mapping.add_shard(shard, probe.parents.get(shard))
    steps: list[tuple[float, Callable[[float], object]]] = [
        (write.at, partial(mapping.add_record, write.shard, record))
        for write, record in stream_records(probe)
        if write.at > 0 or mapping.iterator_request(write.shard).iterator_type != "LATEST"
    ]
    steps += [(0, lambda _, shard=shard: mapping.close_shard(shard)) for shard in probe.closed]  # type: ignore[misc]
    return _observe(probe, drive(mapping, steps, _function(probe), seconds=probe.watch_seconds))


def _function(probe: MappingProbe) -> Callable[[Invoke], tuple[Outcome, float]]:
    """Return the function of a probe. It takes the seconds that the probe says, and ends late at a timeout."""
    uses = Counter[str]()

    def count(rule: str) -> int:
        uses[rule] += 1
        return uses[rule]

    def invoke(action: Invoke) -> tuple[Outcome, float]:
        kind, response = decide(function_rules(probe), _numbers(probe, action.records), count)
        failed: dict[str, Outcome] = {
            "throttle": NotInvoked(),
            "timeout": InvocationFailed(),
            "error": InvocationFailed(),
        }
        seconds = probe.function_seconds + (TIMEOUT_SECONDS if kind == "timeout" else 0)
        return failed.get(kind, InvocationReturned(response)), seconds

    return invoke


def _observe(probe: MappingProbe, played: Played) -> Observation:
    done = played.mapping.checkpoint().get("shardId-1")
    seen = Observation(checkpoint=int(done) - FIRST_SEQUENCE_NUMBER if done else None)
    for one in played.invocations:
        numbers = tuple(_numbers(probe, one.records))
        seen.calls.append(ObservedCall(numbers=numbers, started=one.started, ended=one.ended))
    for failure in played.discarded:
        sent = {sequence: number for number, sequence in _numbers(probe, failure.records).items()}
        seen.add_document(failure.document, sent)
    return seen


def _numbers(probe: MappingProbe, records: Records) -> dict[int, str]:
    """Return the sequence number of each record by its number in the probe."""
    return {record_number(dict(one.event), deletions(probe)): one.sequence_number for one in records}


def mapping_settings(probe: MappingProbe) -> MappingSettings:
    """Return the settings of a probe for the model. Raises ValueError if AWS must refuse them."""
    properties = {"StartingPosition": "TRIM_HORIZON", **probe.settings}
    if destination := properties.pop("DestinationConfig", None):
        arn = DESTINATIONS[destination["OnFailure"]["Destination"]]
        properties["DestinationConfig"] = {"OnFailure": {"Destination": arn}}
    return MappingSettings.from_template(properties)


def function_rules(probe: MappingProbe) -> list[dict[str, Any]]:
    """Return the behaviour of a probe's function in the form that the function takes."""
    return [asdict(rule) for rule in probe.behaviour]


def deletions(probe: MappingProbe) -> dict[str, int]:
    """Return the number of each deletion by its item. A probe deletes an item at most once."""
    return {write.item: number for number, write in enumerate(probe.writes, 1) if write.action == "delete"}


def image(number: int, write: Write) -> dict[str, Any]:
    """Return the item that a write puts, as DynamoDB JSON."""
    return {**item_key(write), "n": {"N": str(number)}, **write.attributes}


def item_key(write: Write) -> dict[str, Any]:
    """Return the key of the item that a write changes. The sort key is constant."""
    return {"PK": {"S": write.item}, "SK": {"S": "-"}}


def send_write(client: Any, table: str, number: int, write: Write) -> None:
    """Send a write of a probe to a table."""
    if write.action == "put":
        client.put_item(TableName=table, Item=image(number, write))
    else:
        client.delete_item(TableName=table, Key=item_key(write))


def stream_records(probe: MappingProbe) -> Iterator[tuple[Write, dict[str, Any]]]:
    """Yield each write of a probe with its stream record, in the shape in which Lambda passes it to a function."""
    items: dict[str, dict[str, Any]] = {}
    for number, write in enumerate(probe.writes, 1):
        old, new = items.pop(write.item, None), image(number, write) if write.action == "put" else None
        if new:
            items[write.item] = new
        change: dict[str, Any] = {
            "ApproximateCreationDateTime": START + write.at - write.age,
            "Keys": item_key(write),
            "SequenceNumber": str(FIRST_SEQUENCE_NUMBER + number),
            "SizeBytes": 26,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        }
        change |= {"NewImage": new} if new else {}
        change |= {"OldImage": old} if old else {}
        name = "INSERT" if not old else "MODIFY" if new else "REMOVE"
        yield write, {"eventID": f"e{number}", "eventName": name, "eventSource": "aws:dynamodb", "dynamodb": change}
