"""The unfinished records of a stream mapping, by shard and lane.

Sources: Lambda developer guide, "Using AWS Lambda with Amazon DynamoDB" (batching window, batch size, payload limit,
concurrent batches per shard); DynamoDB developer guide, "Change data capture for DynamoDB Streams" (shard lineage).
"""

import zlib
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from local.mappings.actions import Action
from local.mappings.failures import DiscardReason, RecordBatch
from local.mappings.records import Records, StreamRecord
from local.mappings.settings import MappingAssumptions, MappingSettings

# Each record except the first adds a comma: count one for every record, and one less for the brackets.
_ENVELOPE_BYTES: Final = len('{"Records":[]}') - 1
IMMEDIATELY: Final = 0.0


@dataclass(slots=True)
class ShardLane:
    """One strictly ordered queue of records: first discarded batches, then retries, then new records.

    `action` is the action in progress, and `batch` its batch if it is an invocation. A lane runs one action at a time.
    """

    index: int
    settings: MappingSettings
    assumptions: MappingAssumptions
    discarded: deque[tuple[RecordBatch, DiscardReason]] = field(default_factory=deque)
    retries: deque[RecordBatch] = field(default_factory=deque)
    waiting: deque[StreamRecord] = field(default_factory=deque)
    waiting_bytes: int = _ENVELOPE_BYTES
    action: Action | None = None
    batch: RecordBatch = field(default_factory=RecordBatch)
    failures_in_a_row: int = 0
    retry_at: float = IMMEDIATELY
    completed_at: float | None = None

    @property
    def is_failing(self) -> bool:
        """Whether the lane has failed records to process. Records that failed and then expired block nothing."""
        is_at_it = self.action is not None or bool(self.retries)
        return (self.failures_in_a_row > 0 and is_at_it) or bool(self.discarded)

    def add(self, record: StreamRecord) -> None:
        self.waiting.append(record)
        self.waiting_bytes += record.size_bytes + 1

    def take_batch(self) -> Records:
        """Take the next batch of new records, up to the batch size and the payload limit, but at least one record."""
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
        """Return when the lane has something to do. None while an action is in progress or if the lane is empty."""
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
        # Assumption: a window that opened at completion and stayed empty to its end restarts at the first record.
        if self.assumptions.window_opens == "at_completion" and self.completed_at is not None:
            opened_at = self.completed_at if opened_at <= self.completed_at + window else opened_at
        return opened_at + window


@dataclass(slots=True)
class ShardProgress:
    """A shard, its lanes, and its progress.

    `unfinished` has the sequence numbers that were read and that the checkpoint has not passed, in order. `done` has
    those of them that are done but wait for an earlier record.
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
        """Mark a record as read. Return False if it was read before. Compares sequence numbers as numbers."""
        if int(record.sequence_number) <= self.read_up_to:
            return False
        self.read_up_to = int(record.sequence_number)
        self.unfinished.append(record.sequence_number)
        return True

    def mark_done(self, records: Records) -> None:
        """Mark records as done. The checkpoint advances up to the first unfinished record of any lane."""
        self.done.update(record.sequence_number for record in records)
        while self.unfinished and self.unfinished[0] in self.done:
            self.checkpoint = self.unfinished.popleft()
            self.done.remove(self.checkpoint)

    def lane_of(self, record: StreamRecord) -> ShardLane:
        """Return the lane of the record's item. An item always has the same lane, which keeps its records in order."""
        return self.lanes[zlib.crc32((self.assumptions.lane_salt + record.item_key).encode()) % len(self.lanes)]

    def ready_at(self, lane: ShardLane) -> float | None:
        """As `ShardLane.ready_at`. If failing lanes stall the shard, new records also wait for the shard's retries."""
        stalls = self.assumptions.failing_lane_stalls_shard and not lane.is_failing
        return None if stalls and any(other.is_failing for other in self.lanes) else lane.ready_at()
