"""Plays mapping probes on the model of event source mappings (local/event_source_mappings), with a virtual clock."""

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from local.event_source_mappings import (
    DeliverFailure,
    EventSourceMapping,
    FailureDelivered,
    InvocationFailed,
    InvocationReturned,
    Invoke,
    MappingAssumptions,
    MappingSettings,
    NotInvoked,
    Outcome,
)
from proof.conformance.probes.kinds import MappingProbe, Write
from proof.conformance.runners.function import TIMEOUT_SECONDS, decide, record_number
from proof.conformance.runners.observations import Observation, ObservedCall, differences

START = 1_700_000_000.0
ARN = "arn:aws:dynamodb:eu-central-1:000000000000:table/probe/stream/2026-01-01T00:00:00.000"
FUNCTION_ARN = "arn:aws:lambda:eu-central-1:000000000000:function:probe"
DESTINATIONS = {"$bucket": "arn:aws:s3:::failures", "$queue": "arn:aws:sqs:eu-central-1:000000000000:failures"}
FIRST_SEQUENCE_NUMBER = 100000000000000000000


def check(probe: MappingProbe, assumptions: MappingAssumptions | None = None) -> str:
    """Play a probe and return how the model differs from the probe, or "". `assumptions`: see `play`."""
    return "; ".join(differences(probe, play(probe, assumptions), exact_times=True))


def play(probe: MappingProbe, assumptions: MappingAssumptions | None = None) -> Observation:
    """Play a probe and return what the model did. `assumptions`: behavior that AWS does not document."""
    try:
        settings = mapping_settings(probe)
    except ValueError:
        return Observation(refused=True)
    return _Play(probe, settings, assumptions).run()


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


@dataclass
class _Play:
    probe: MappingProbe
    settings: MappingSettings
    assumptions: MappingAssumptions | None
    seen: Observation = field(default_factory=Observation)
    agenda: list[tuple[float, int, Callable[[float], None]]] = field(default_factory=list)

    def run(self) -> Observation:
        self._order, self._uses, ids = itertools.count(), Counter[str](), itertools.count()
        last = self.probe.resume_after
        self.mapping = EventSourceMapping(
            self.settings,
            mapping_id="mapping",
            function_arn=FUNCTION_ARN,
            stream_arn=ARN,
            new_id=lambda: f"id-{next(ids)}",
            assumptions=self.assumptions,
            resume_from={"shardId-1": str(FIRST_SEQUENCE_NUMBER + last)} if last else None,
        )
        for shard in sorted({write.shard for write in self.probe.writes}):
            self.mapping.add_shard(shard, self.probe.parents.get(shard))
        for write, record in stream_records(self.probe):
            skipped = self.mapping.iterator_request(write.shard).iterator_type == "LATEST" and write.at == 0
            if not skipped:
                self._schedule(write.at, self._reader(write.shard, record))
        for shard in self.probe.closed:
            self._schedule(0, lambda _, shard=shard: self.mapping.close_shard(shard))  # type: ignore[misc]
        self._run_agenda()
        done = self.mapping.checkpoint().get("shardId-1")
        self.seen.checkpoint = int(done) - FIRST_SEQUENCE_NUMBER if done else None
        self.seen.calls.sort(key=lambda call: call.started)
        return self.seen

    def _run_agenda(self) -> None:
        now = 0.0
        while now <= self.probe.watch_seconds:
            while self.agenda and self.agenda[0][0] <= now:
                heapq.heappop(self.agenda)[2](now)
            for action in self.mapping.due_actions(START + now):
                self._start(action, now)
            due = self.mapping.next_action_at(START + now)
            times = [self.agenda[0][0]] if self.agenda else []
            times += [max(now, due - START)] if due is not None else []
            if not times:
                return
            now = min(times)

    def _schedule(self, at: float, step: Callable[[float], None]) -> None:
        heapq.heappush(self.agenda, (at, next(self._order), step))

    def _reader(self, shard: str, record: dict[str, Any]) -> Callable[[float], None]:
        return lambda now: self.mapping.add_record(shard, record, START + now)

    def _start(self, action: Invoke | DeliverFailure, now: float) -> None:
        numbers = {record_number(dict(one.event), deletions(self.probe)): one.sequence_number for one in action.records}
        if isinstance(action, DeliverFailure):
            self.seen.add_document(action.document, {sequence: number for number, sequence in numbers.items()})
            self._report(action, FailureDelivered(), now)
            return
        kind, response = decide(function_rules(self.probe), numbers, self._count)
        seconds = self.probe.function_seconds + (TIMEOUT_SECONDS if kind == "timeout" else 0)
        self.seen.calls.append(ObservedCall(numbers=tuple(numbers), started=now, ended=now + seconds))
        outcomes: dict[str, Outcome] = {
            "throttle": NotInvoked(),
            "timeout": InvocationFailed(),
            "error": InvocationFailed(),
        }
        self._report(action, outcomes.get(kind, InvocationReturned(response)), now + seconds)

    def _report(self, action: Invoke | DeliverFailure, outcome: Outcome, at: float) -> None:
        self._schedule(at, lambda now: self.mapping.report_outcome(action, outcome, START + now))

    def _count(self, rule: str) -> int:
        self._uses[rule] += 1
        return self._uses[rule]
