"""Stores the unfinished records of an event source mapping, by shard and lane.

Lambda can split the records of a shard into several sequences and process these sequences in parallel. Each sequence is
called a lane. The setting ParallelizationFactor is the number of lanes of a shard.

Sources: Lambda developer guide, "Using AWS Lambda with Amazon DynamoDB" (batching window, batch size, payload limit,
concurrent batches per shard); DynamoDB developer guide, "Change data capture for DynamoDB Streams" (shard lineage).
"""

import zlib
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from local.event_source_mappings.actions import Action
from local.event_source_mappings.failures import DiscardReason, UndeliveredBatch
from local.event_source_mappings.records import Records, StreamRecord
from local.event_source_mappings.settings import MappingAssumptions, MappingSettings

# The size of an event without records. `ShardLane` counts a comma for each record, which is one comma too many.
_ENVELOPE_BYTES: Final = len('{"Records":[]}') - 1
IMMEDIATELY: Final = 0.0


@dataclass(slots=True)
class ShardLane:
    """A lane of a shard: it processes its records in order, with one action at a time.

    It first delivers `discarded` batches to the on-failure destination. Then it retries failed batches, and then it
    sends new records (`waiting`). `action`: the one in progress, or None. `batch`: of the last invocation. `retry_at`,
    `completed_at`: the epoch seconds of the next retry, and of the end of the last action.
    """

    index: int
    settings: MappingSettings
    assumptions: MappingAssumptions
    discarded: deque[tuple[UndeliveredBatch, DiscardReason]] = field(default_factory=deque)
    retries: deque[UndeliveredBatch] = field(default_factory=deque)
    waiting: deque[StreamRecord] = field(default_factory=deque)
    waiting_bytes: int = _ENVELOPE_BYTES
    action: Action | None = None
    batch: UndeliveredBatch = field(default_factory=UndeliveredBatch)
    failures_in_a_row: int = 0
    retry_at: float = IMMEDIATELY
    completed_at: float | None = None

    @property
    def is_failing(self) -> bool:
        """Whether the lane still has failed records to retry, or a discarded batch to deliver."""
        is_at_it = self.action is not None or bool(self.retries)
        return (self.failures_in_a_row > 0 and is_at_it) or bool(self.discarded)

    def add(self, record: StreamRecord) -> None:
        self.waiting.append(record)
        self.waiting_bytes += record.size_bytes + 1

    def take_batch(self) -> Records:
        """Remove and return the next new records, at least one, up to the batch size and the payload limit."""
        taken: list[StreamRecord] = []
        size = _ENVELOPE_BYTES
        while self.waiting and len(taken) < self.settings.batch_size:
            size += self.waiting[0].size_bytes + 1
            if taken and size > self.assumptions.payload_limit_bytes:
                break
            taken.append(self.waiting.popleft())
            self.waiting_bytes -= taken[-1].size_bytes + 1
        return tuple(taken)

    def ready_at(self) -> float | None:
        """Return when the next action may start, in epoch seconds (0: at once); None if busy or without records."""
        if self.action:
            return None
        if self.discarded:
            return IMMEDIATELY
        if self.retries:
            return self.retry_at
        return self._batch_complete_at() if self.waiting else None

    def _batch_complete_at(self) -> float:
        window = self.settings.batching_window_seconds
        is_full = len(self.waiting) >= self.settings.batch_size
        if not window or is_full or self.waiting_bytes >= self.assumptions.payload_limit_bytes:
            return IMMEDIATELY
        opened_at = self.waiting[0].polled_at
        # The batching window is the time in which a lane waits for more records before it sends a batch. If
        # `window_opens` is "at_completion", the window opens when the lane's previous action ends. If the first waiting
        # record was read after the end of this window, a new window opens at the time of this read.
        if self.assumptions.window_opens == "at_completion" and self.completed_at is not None:
            opened_at = self.completed_at if opened_at <= self.completed_at + window else opened_at
        return opened_at + window


@dataclass(slots=True)
class ShardProgress:
    """A shard with its lanes, its unfinished records and its checkpoint: up to it, all records are done.

    `unfinished`: the sequence numbers after the checkpoint that were read, in stream order, of which some are `done`.
    """

    shard_id: str
    parent: str | None
    lanes: tuple[ShardLane, ...]
    assumptions: MappingAssumptions
    checkpoint: str | None
    is_closed: bool = False
    read_up_to: int = -1
    unfinished: deque[str] = field(default_factory=deque)
    done: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.checkpoint is not None:
            self.read_up_to = int(self.checkpoint)

    def mark_read(self, record: StreamRecord) -> bool:
        """Mark a record as read. Return True if the record is new, and False if it was read before."""
        if int(record.sequence_number) <= self.read_up_to:
            return False
        self.read_up_to = int(record.sequence_number)
        self.unfinished.append(record.sequence_number)
        return True

    def mark_done(self, records: Records) -> None:
        """Mark records as done, and advance the checkpoint to the record before the shard's first unfinished record."""
        self.done.update(record.sequence_number for record in records)
        while self.unfinished and self.unfinished[0] in self.done:
            self.checkpoint = self.unfinished.popleft()
            self.done.remove(self.checkpoint)

    def lane_of(self, record: StreamRecord) -> ShardLane:
        """Return the lane of a record. All records of an item use the same lane, so they stay in order."""
        return self.lanes[zlib.crc32((self.assumptions.lane_salt + record.item_key).encode()) % len(self.lanes)]

    def ready_at(self, lane: ShardLane) -> float | None:
        """Return `ShardLane.ready_at`, or None if another lane has failed and `failing_lane_stalls_shard` is set."""
        stalls = self.assumptions.failing_lane_stalls_shard and not lane.is_failing
        return None if stalls and any(other.is_failing for other in self.lanes) else lane.ready_at()
