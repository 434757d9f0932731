"""The table's stream: shards that split, and the event source mappings that read them, driven in virtual time."""

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from local.mappings import (
    Action,
    Delivered,
    EventSourceMapping,
    Failed,
    Invoke,
    Outcome,
    Returned,
    Settings,
    Switches,
)
from tests.simulation.chance import Chance
from tests.simulation.faults import DAY, Faults
from tests.simulation.lambdas import Lambdas
from tests.simulation.table import STREAM
from tests.simulation.tasks import Tasks

RETENTION_SECONDS = DAY
RESULTS_LOST_SECONDS = 20.0
Record = Mapping[str, Any]


@dataclass
class Shard:
    """A range of the partition keys' hashes, [low, high), and the records of its time."""

    id: str
    parent: str | None
    low: int
    high: int
    records: list[Record] = field(default_factory=list)
    closed: bool = False


@dataclass
class Stream:
    """All shards, the oldest first. `readers` are told when there is something new."""

    shards: list[Shard] = field(default_factory=lambda: [Shard("shardId-0", None, 0, 1 << 32)])
    readers: list["Reader"] = field(default_factory=list)

    def append(self, record: Record) -> None:
        place = zlib.crc32(record["dynamodb"]["Keys"]["PK"]["S"].encode())
        shard = next(shard for shard in self.shards if not shard.closed and shard.low <= place < shard.high)
        shard.records.append(record)
        for reader in self.readers:
            reader.notice()

    def split(self, share: float) -> None:
        """Close an open shard, and have two take its place."""
        open_ones = [shard for shard in self.shards if not shard.closed]
        shard = open_ones[int(share * len(open_ones))]
        shard.closed = True
        middle = (shard.low + shard.high) // 2
        for low, high in ((shard.low, middle), (middle, shard.high)):
            self.shards.append(Shard(f"shardId-{len(self.shards)}", shard.id, low, high))
        for reader in self.readers:
            reader.notice()


@dataclass
class Reader:
    """One stream mapping. `lost_up_to`: records made up to then may have been lost, because the stream forgot them
    before they were handled, or because nobody took what the mapping gave up. `gave_up`: the numbers of all it did.
    `alarm` is rung at both."""

    function: str
    settings: Settings
    switches: Switches
    stream: Stream
    tasks: Tasks
    chance: Chance
    faults: Faults
    lambdas: Lambdas
    keep: Callable[[str, str, bytes], None]
    alarm: Callable[[], None] = lambda: None
    on: bool = True
    lost_up_to: float = float("-inf")
    gave_up: set[str] = field(default_factory=set)
    mappings: int = 0
    _batches: int = 0
    _expired: int = 0
    _wakes_at: float = float("inf")
    _results_lost_until: float = 0.0
    _mapping: EventSourceMapping = field(init=False)
    _read: dict[str, int] = field(init=False)
    _handled: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.begin(None)

    # the mapping ------------------------------------------------------------------------------------------------------
    def begin(self, resume: Mapping[str, str] | None) -> None:
        """A new mapping in the old one's place. What the old one has under way, nobody waits for any more."""
        if self.mappings:
            for id, at in self._mapping.checkpoint().items():
                self._handled[id] = max(self._handled.get(id, 0), int(at))
        self.mappings += 1
        number = self.mappings
        self._mapping = EventSourceMapping(
            self.settings,
            mapping_id=f"{self.function}-{number}",
            function_arn=f"arn:aws:lambda:eu-central-1:000000000000:function:{self.function}",
            stream_arn=STREAM,
            new_id=lambda: f"{self.function}-{number}-{self._next_id()}",
            resume=resume,
            switches=self.switches,
        )
        begins_at_end = resume is None and self.settings.starting_position == "LATEST"
        self._read = {}
        self._expired = 0
        self._find_shards()
        if begins_at_end:
            self._read = {shard.id: len(shard.records) for shard in self.stream.shards}
        if resume is not None:
            for shard in self.stream.shards:
                handled = resume.get(shard.id)
                done = [one for one in shard.records if handled and int(_number(one)) <= int(handled)]
                self._read[shard.id] = len(done)
        self.notice()

    def replace(self, *, from_checkpoint: bool) -> None:
        self.begin(self._mapping.checkpoint() if from_checkpoint else None)

    def turn(self, *, on: bool) -> None:
        self.on = on
        self.notice()

    def behind(self) -> int:
        """How many records are neither handled nor given up."""
        done = self._mapping.checkpoint()
        return sum(
            1
            for shard in self.stream.shards
            for record in shard.records
            if int(_number(record)) > int(done.get(shard.id, 0)) and self.tasks.now - _made(record) < RETENTION_SECONDS
        )

    def notice(self) -> None:
        """There may be something to do soon: shards are looked at a few times a second."""
        number, soonest = self._next_id(), self.tasks.now + 0.05
        if soonest < self._wakes_at:
            self._wake(soonest + self.chance.between(0, 0.4, "poll", self.function, number))

    def _next_id(self) -> int:
        self._batches += 1
        return self._batches

    # driving it -------------------------------------------------------------------------------------------------------
    def _wake(self, when: float) -> None:
        if when < self._wakes_at:
            self._wakes_at = when
            self.tasks.at(when, lambda: self._look(when))

    def _look(self, when: float) -> None:
        if when != self._wakes_at:
            return  # it was woken earlier meanwhile, and has looked then
        self._wakes_at = float("inf")
        if not self.on:
            return
        self._find_shards()
        self._feed()
        fed = True
        while fed:  # a parent may be done without a call, where nothing of it passes, and its children begin
            for action in self._mapping.due(self.tasks.now):
                self._do(self._mapping, action)
            fed = self._feed()
        self._note_expired()
        if (next_at := self._mapping.next_at(self.tasks.now)) is not None:
            self._wake(next_at)

    def _find_shards(self) -> None:
        for shard in self.stream.shards[len(self._read) :]:
            self._mapping.shard(shard.id, shard.parent)
            self._read[shard.id] = 0

    def _feed(self) -> bool:
        """Read on in every shard, if there is more; what the stream has forgotten is passed over, and may be lost."""
        any_fed, fed = False, True
        while fed:  # a parent may be done with what was fed, and its children begin
            fed = False
            for shard in self.stream.shards:
                is_at_its_end = self._read[shard.id] == len(shard.records) and not shard.closed
                if is_at_its_end or not self._mapping.wants(shard.id):
                    continue
                new = shard.records[self._read[shard.id] :]
                self._read[shard.id] = len(shard.records)
                for record in new:
                    if self.tasks.now - _made(record) > RETENTION_SECONDS:
                        if int(_number(record)) > self._handled.get(shard.id, 0):
                            self._lose(_made(record))
                    else:
                        self._mapping.feed(shard.id, record, self.tasks.now)
                        any_fed = fed = True
                if shard.closed:
                    self._mapping.close_shard(shard.id)
        return any_fed

    def _note_expired(self) -> None:
        if self._mapping.counters.expired > self._expired:
            self._expired = self._mapping.counters.expired
            self._lose(self.tasks.now - RETENTION_SECONDS)

    def _lose(self, up_to: float) -> None:
        self.lost_up_to = max(self.lost_up_to, up_to)
        self.alarm()

    def _do(self, mapping: EventSourceMapping, action: Action) -> None:
        if not isinstance(action, Invoke):
            self.gave_up |= {record.sequence_number for record in action.records}
            self.alarm()
            kept = not self.faults.at("kept by nobody", self.function, action.records[0].sequence_number)
            if kept:
                self.keep(action.destination.rpartition(":")[2], str(action.key), json.dumps(action.document).encode())
            else:
                self._lose(action.records[-1].created_at)
            self.tasks.after(0.02, lambda: self._done(mapping, action, Delivered(kept)))
            return
        place = f"{action.records[0].sequence_number}+{len(action.records)} {self._next_id()}"

        def done(outcome: Outcome) -> None:
            if lost := self.faults.at("result lost", self.function, place):
                self._results_lost_until = self.tasks.now + RESULTS_LOST_SECONDS * lost.share
            if isinstance(outcome, Returned) and self.tasks.now < self._results_lost_until:
                outcome = Failed("result lost")
            self._done(mapping, action, outcome)
            if self.faults.at("delivered twice", self.function, place):
                self.lambdas.invoke(self.function, action.event, lambda _: None, f"{place} again")

        self.lambdas.invoke(self.function, action.event, done, place)

    def _done(self, mapping: EventSourceMapping, action: Action, outcome: Outcome) -> None:
        mapping.result(action, outcome, self.tasks.now)
        if mapping is self._mapping:
            self.notice()


def _number(record: Record) -> str:
    return str(record["dynamodb"]["SequenceNumber"])


def _made(record: Record) -> float:
    return float(record["dynamodb"]["ApproximateCreationDateTime"])
