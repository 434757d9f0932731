"""Simulates the DynamoDB stream of the table: its shards, and Lambda's event source mappings that read the shards."""

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from local.event_source_mappings import (
    Action,
    EventSourceMapping,
    FailureDelivered,
    InvocationFailed,
    InvocationReturned,
    Invoke,
    Outcome,
)
from proof.simulation.faults import DAY
from proof.simulation.table import STREAM
from proof.simulation.template import choose_assumptions

if TYPE_CHECKING:
    from proof.simulation.world import Simulation

RETENTION_SECONDS = DAY
RESULTS_LOST_SECONDS = 20.0
Record = Mapping[str, Any]


@dataclass
class StreamShard:
    """A shard of the records whose partition key's hash is from `low` to below `high`, once split from `parent`."""

    id: str
    parent: str | None
    low: int
    high: int
    records: list[Record] = field(default_factory=list)
    closed: bool = False


@dataclass
class SimulatedStream:
    """Simulates a DynamoDB stream: its shards, oldest first, and its readers, which hear of new records and shards."""

    shards: list[StreamShard] = field(default_factory=lambda: [StreamShard("shardId-0", None, 0, 1 << 32)])
    readers: list["SimulatedReader"] = field(default_factory=list)

    def append(self, record: Record) -> None:
        place = zlib.crc32(record["dynamodb"]["Keys"]["PK"]["S"].encode())
        shard = next(shard for shard in self.shards if not shard.closed and shard.low <= place < shard.high)
        shard.records.append(record)
        for reader in self.readers:
            reader.wake_soon()

    def split(self, share: float) -> None:
        """Replace an open shard with two halves. `share`: which open shard, from 0 (the oldest) to below 1."""
        open_ones = [shard for shard in self.shards if not shard.closed]
        shard = open_ones[int(share * len(open_ones))]
        shard.closed = True
        middle = (shard.low + shard.high) // 2
        for low, high in ((shard.low, middle), (middle, shard.high)):
            self.shards.append(StreamShard(f"shardId-{len(self.shards)}", shard.id, low, high))
        for reader in self.readers:
            reader.wake_soon()


class SimulatedReader:
    """Simulates the event source mapping from the stream to one function.

    A record is lost if it expires before it is processed, or if it fails and the on-failure destination does not store
    it. `lost_up_to`: no record that was created after this time is lost. `discarded`: the sequence numbers that the
    mapping discarded after its last retry. `on_loss`: called when a record is lost or discarded.
    """

    _mapping: EventSourceMapping

    def __init__(self, world: "Simulation", function: str) -> None:
        self.function, self.settings = function, world.template.mapping_settings(function)
        self._world, self._tasks, self._stream = world, world.tasks, world.stream
        self._assumptions = choose_assumptions(lambda values, name: world.rng.choice(values, "switch", function, name))
        self.on_loss: Callable[[], None] = lambda: None
        self.enabled = True
        self.lost_up_to = float("-inf")
        self.discarded: set[str] = set()
        self.mapping_count = 0
        self._batches = 0
        self._expired = 0
        self._wakes_at = float("inf")
        self._results_lost_until = 0.0
        self._read: dict[str, int] = {}
        self._handled: dict[str, int] = {}
        self.start_mapping(None)

    # the event source mapping -----------------------------------------------------------------------------------------
    def start_mapping(self, resume: Mapping[str, str] | None) -> None:
        """Create the mapping in place of an old one, whose running invocations are then ignored.

        `resume`: for each shard, the sequence number after which to begin. None: the configured starting position.
        """
        if self.mapping_count:
            for id, at in self._mapping.checkpoint().items():
                self._handled[id] = max(self._handled.get(id, 0), int(at))
        self.mapping_count += 1
        number = self.mapping_count
        self._mapping = EventSourceMapping(
            self.settings,
            mapping_id=f"{self.function}-{number}",
            function_arn=f"arn:aws:lambda:eu-central-1:000000000000:function:{self.function}",
            stream_arn=STREAM,
            new_id=lambda: f"{self.function}-{number}-{self._next_id()}",
            resume_from=resume,
            assumptions=self._assumptions,
        )
        begins_at_end = resume is None and self.settings.starting_position == "LATEST"
        self._read = {}
        self._expired = 0
        self._find_shards()
        if begins_at_end:
            self._read = {shard.id: len(shard.records) for shard in self._stream.shards}
        if resume is not None:
            for shard in self._stream.shards:
                handled = resume.get(shard.id)
                done = [one for one in shard.records if handled and int(_sequence_number(one)) <= int(handled)]
                self._read[shard.id] = len(done)
        self.wake_soon()

    def replace_mapping(self, *, from_checkpoint: bool) -> None:
        self.start_mapping(self._mapping.checkpoint() if from_checkpoint else None)

    def set_enabled(self, *, on: bool) -> None:
        self.enabled = on
        self.wake_soon()

    def count_unhandled(self) -> int:
        """Return how many records the mapping must still process. Records that expired from the stream do not count."""
        done = self._mapping.checkpoint()
        return sum(
            1
            for shard in self._stream.shards
            for record in shard.records
            if int(_sequence_number(record)) > int(done.get(shard.id, 0))
            and self._tasks.now - _created_at(record) < RETENTION_SECONDS
        )

    def wake_soon(self) -> None:
        """Schedule a poll of the stream within half a second. Lambda also polls each shard a few times per second."""
        number, soonest = self._next_id(), self._tasks.now + 0.05
        if soonest < self._wakes_at:
            self._wake(soonest + self._world.rng.uniform(0, 0.4, "poll", self.function, number))

    def _next_id(self) -> int:
        self._batches += 1
        return self._batches

    # polling ----------------------------------------------------------------------------------------------------------
    def _wake(self, when: float) -> None:
        if when < self._wakes_at:
            self._wakes_at = when
            self._tasks.call_at(when, lambda: self._poll(when))

    def _poll(self, when: float) -> None:
        if when != self._wakes_at:
            return  # another poll was scheduled for an earlier time, and has replaced this one
        self._wakes_at = float("inf")
        if not self.enabled:
            return
        self._find_shards()
        self._read_shards()
        fed = True
        # A child shard can be read only after its parent shard is finished. Each round may finish a parent shard, for
        # example if filters drop all its records. So repeat until a round reads no new record.
        while fed:
            for action in self._mapping.due_actions(self._tasks.now):
                self._execute(self._mapping, action)
            fed = self._read_shards()
        self._note_expired()
        if (next_at := self._mapping.next_action_at(self._tasks.now)) is not None:
            self._wake(next_at)

    def _find_shards(self) -> None:
        for shard in self._stream.shards[len(self._read) :]:
            self._mapping.add_shard(shard.id, shard.parent)
            self._read[shard.id] = 0

    def _read_shards(self) -> bool:
        """Pass new records to the mapping, except those past the retention. Return whether there were any."""
        any_fed, fed = False, True
        # A child shard can be read only after its parent shard is finished. Each round may read the last records of a
        # parent shard. So repeat until a round reads no new record.
        while fed:
            fed = False
            for shard in self._stream.shards:
                is_at_its_end = self._read[shard.id] == len(shard.records) and not shard.closed
                if is_at_its_end or not self._mapping.should_read(shard.id):
                    continue
                new = shard.records[self._read[shard.id] :]
                self._read[shard.id] = len(shard.records)
                for record in new:
                    if self._tasks.now - _created_at(record) > RETENTION_SECONDS:
                        if int(_sequence_number(record)) > self._handled.get(shard.id, 0):
                            self._record_loss(_created_at(record))
                    else:
                        self._mapping.add_record(shard.id, record, self._tasks.now)
                        any_fed = fed = True
                if shard.closed:
                    self._mapping.close_shard(shard.id)
        return any_fed

    def _note_expired(self) -> None:
        if self._mapping.counters.expired > self._expired:
            self._expired = self._mapping.counters.expired
            self._record_loss(self._tasks.now - RETENTION_SECONDS)

    def _record_loss(self, up_to: float) -> None:
        self.lost_up_to = max(self.lost_up_to, up_to)
        self.on_loss()

    def _execute(self, mapping: EventSourceMapping, action: Action) -> None:
        if not isinstance(action, Invoke):
            self.discarded |= {record.sequence_number for record in action.records}
            self.on_loss()
            kept = not self._world.faults.draw("kept by nobody", self.function, action.records[0].sequence_number)
            if kept:
                self._world.s3.put(
                    action.destination.rpartition(":")[2], str(action.key), json.dumps(action.document).encode()
                )
            else:
                self._record_loss(action.records[-1].created_at)
            self._tasks.call_later(0.02, lambda: self._report_outcome(mapping, action, FailureDelivered(kept)))
            return
        place = f"{action.records[0].sequence_number}+{len(action.records)} {self._next_id()}"

        def done(outcome: Outcome) -> None:
            if lost := self._world.faults.draw("result lost", self.function, place):
                self._results_lost_until = self._tasks.now + RESULTS_LOST_SECONDS * lost.share
            if isinstance(outcome, InvocationReturned) and self._tasks.now < self._results_lost_until:
                outcome = InvocationFailed("result lost")
            self._report_outcome(mapping, action, outcome)
            if self._world.faults.draw("delivered twice", self.function, place):
                self._world.lambdas.invoke(self.function, action.event, lambda _: None, f"{place} again")

        self._world.lambdas.invoke(self.function, action.event, done, place)

    def _report_outcome(self, mapping: EventSourceMapping, action: Action, outcome: Outcome) -> None:
        mapping.report_outcome(action, outcome, self._tasks.now)
        if mapping is self._mapping:
            self.wake_soon()


def _sequence_number(record: Record) -> str:
    return str(record["dynamodb"]["SequenceNumber"])


def _created_at(record: Record) -> float:
    return float(record["dynamodb"]["ApproximateCreationDateTime"])
