"""Chooses the batches that an event source mapping must deliver now, and handles the outcomes of invocations.

Sources: Lambda developer guide, "Using AWS Lambda with Amazon DynamoDB" (order, parallel batches, starting positions),
"Retain discarded records for a DynamoDB event source in Lambda" (attempts, age, bisect, destination), "Configuring
partial batch response with DynamoDB and Lambda"; CloudFormation user guide, AWS::Lambda::EventSourceMapping.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import takewhile

from local.event_source_mappings.actions import (
    Action,
    DeliverFailure,
    FailureDelivered,
    InvocationFailed,
    InvocationReturned,
    Invoke,
    MappingCounters,
    MappingLoad,
    NotInvoked,
    Outcome,
    ShardIteratorRequest,
)
from local.event_source_mappings.failures import (
    BatchOutcome,
    DiscardReason,
    UndeliveredBatch,
    bisect_records,
    build_invocation_record,
    evaluate_response,
    invocation_record_key,
)
from local.event_source_mappings.records import LambdaRecord, Records, StreamRecord, is_unchanged
from local.event_source_mappings.settings import INFINITE, MappingAssumptions, MappingSettings
from local.event_source_mappings.shards import ShardLane, ShardProgress


class EventSourceMapping:
    """A model of one event source mapping of a DynamoDB stream.

    `new_id`: returns a new id at each call. `resume_from`: the `checkpoint()` of an earlier mapping, or None. All
    records after it are delivered again, even if the earlier mapping delivered some of them.
    """

    def __init__(
        self,
        settings: MappingSettings,
        *,
        mapping_id: str,
        function_arn: str,
        stream_arn: str,
        new_id: Callable[[], str],
        resume_from: Mapping[str, str] | None = None,
        assumptions: MappingAssumptions | None = None,
    ) -> None:
        self.settings = settings
        self.assumptions = assumptions or MappingAssumptions()
        self.counters = MappingCounters()
        self._mapping_id = mapping_id
        self._function_arn = function_arn
        self._stream_arn = stream_arn
        self._new_id = new_id
        self._resume_from = dict(resume_from or {})
        self._shards: dict[str, ShardProgress] = {}

    def add_shard(self, shard_id: str, parent: str | None = None) -> None:
        """Add a shard, before its records. Safe to repeat.

        Its records wait until its parent, if that was added, is done. So first add all shards of a DescribeStream
        response.
        """
        if shard_id not in self._shards:
            count = self.settings.parallelization_factor
            lanes = tuple(ShardLane(index, self.settings, self.assumptions) for index in range(count))
            self._shards[shard_id] = ShardProgress(
                shard_id, parent, lanes, self.assumptions, self._resume_from.get(shard_id)
            )

    def iterator_request(self, shard_id: str) -> ShardIteratorRequest:
        """Return the arguments of the GetShardIterator request to start reading a shard, which the driver sends.

        A shard is read from its checkpoint, else from `child_shards_start` if its parent was added, else from the
        starting position in the settings. Raises KeyError if the shard was not added with `add_shard`.
        """
        shard = self._shards[shard_id]
        if shard.checkpoint is not None:
            return ShardIteratorRequest("AFTER_SEQUENCE_NUMBER", shard.checkpoint)
        is_child = shard.parent in self._shards
        return ShardIteratorRequest(
            self.assumptions.child_shards_start if is_child else self.settings.starting_position
        )

    def should_read(self, shard_id: str) -> bool:
        """Return whether to read more: not while the parent or `read_ahead_records` records are unfinished."""
        shard = self._shards[shard_id]
        return self._can_run(shard) and len(shard.unfinished) < self.assumptions.read_ahead_records

    def add_record(self, shard_id: str, record: LambdaRecord, now: float) -> None:
        """Add the next record of a shard, in stream order. Safe to repeat. `now`: epoch seconds at its reading."""
        shard = self._shards[shard_id]
        one = StreamRecord.from_event(record, now)
        if not shard.mark_read(one):
            return
        if is_unchanged(record):
            shard.mark_done((one,))
            return
        self.counters.polled += 1
        if not self.assumptions.filters_before_batching or self._filter_records(shard, (one,)):
            shard.lane_of(one).add(one)

    def close_shard(self, shard_id: str) -> None:
        """Mark a shard as read to its end (no NextShardIterator). Its children wait until all its records are done."""
        self._shards[shard_id].is_closed = True

    def checkpoint(self) -> dict[str, str]:
        """Return, by shard id, the sequence number up to which all records are done, for `resume_from`."""
        shards = {shard.shard_id: shard.checkpoint for shard in self._shards.values() if shard.checkpoint is not None}
        return self._resume_from | shards

    def measure_load(self, now: float) -> MappingLoad:
        """Return how many records wait, are in progress, or wait for a retry, and the age of the oldest such record."""
        lanes = [lane for shard in self._shards.values() for lane in shard.lanes]
        under_way = [record for lane in lanes if lane.action for record in lane.action.records]
        retrying = [record for lane in lanes for batch in lane.retries for record in batch.records]
        oldest = [lane.waiting[0] for lane in lanes if lane.waiting]
        since = min((record.created_at for record in (*under_way, *retrying, *oldest)), default=now)
        return MappingLoad(
            waiting=sum(len(lane.waiting) for lane in lanes),
            in_flight=len(under_way),
            retrying=len(retrying),
            oldest_seconds=max(0.0, now - since),
        )

    def due_actions(self, now: float) -> list[Action]:
        """Return the actions to start now, all of them in parallel, at most one for each lane, and each only once.

        A lane (local/event_source_mappings/shards.py) then waits until the driver calls `report_outcome`.
        """
        lanes = [(shard, lane) for shard in self._shards.values() for lane in shard.lanes]
        actions = [self._next_action(shard, lane, now) for shard, lane in lanes]
        return [action for action in actions if action is not None]

    def next_action_at(self, now: float) -> float | None:
        """Return the epoch seconds of the next due action, or `now`, or None if only the driver can cause one."""
        times = [self._ready_at(shard, lane) for shard in self._shards.values() for lane in shard.lanes]
        return min((max(now, time) for time in times if time is not None), default=None)

    def report_outcome(self, action: Action, outcome: Outcome, now: float) -> None:
        """Handle the outcome of an action, once. Raises ValueError if it is not in progress, or does not fit."""
        shard = self._shards[action.shard_id]
        lane = shard.lanes[action.lane]
        if lane.action is not action:
            raise ValueError(f"no such action is in progress in lane {action.lane} of {action.shard_id}")
        match action, outcome:
            case Invoke(), NotInvoked():
                self.counters.failed_invoke += len(action.records)
                self._schedule_retry(lane, [lane.batch], now)
            case Invoke(), InvocationReturned() | InvocationFailed():
                self._handle_invocation(shard, lane, action, outcome, now)
            case DeliverFailure(), FailureDelivered():
                self._handle_delivery(shard, action.records, outcome.succeeded)
            case _:
                raise ValueError(f"{type(outcome).__name__} is not an outcome of {type(action).__name__}")
        lane.action = None
        lane.completed_at = now

    def _can_run(self, shard: ShardProgress) -> bool:
        return shard.parent not in self._shards or self._is_drained(self._shards[shard.parent])

    def _is_drained(self, shard: ShardProgress) -> bool:
        return shard.is_closed and not shard.unfinished and self._can_run(shard)

    def _ready_at(self, shard: ShardProgress, lane: ShardLane) -> float | None:
        return shard.ready_at(lane) if self._can_run(shard) else None

    def _next_action(self, shard: ShardProgress, lane: ShardLane, now: float) -> Action | None:
        while (ready_at := self._ready_at(shard, lane)) is not None and ready_at <= now:
            if lane.discarded:
                return self._deliver(shard, lane, *lane.discarded.popleft(), now)
            batch = lane.retries.popleft() if lane.retries else UndeliveredBatch(self._new_records(shard, lane))
            young = self._discard_old_records(shard, lane, batch, now)
            if young and not lane.discarded:
                return self._invoke(shard, lane, replace(batch, records=young), now)
            if young:
                lane.retries.appendleft(replace(batch, records=young))
        return None

    def _new_records(self, shard: ShardProgress, lane: ShardLane) -> Records:
        records = lane.take_batch()
        return records if self.assumptions.filters_before_batching else self._filter_records(shard, records)

    def _filter_records(self, shard: ShardProgress, records: Records) -> Records:
        accepted = [self.settings.filters.matches(record.event) for record in records]
        self.counters.filtered_out += accepted.count(False)
        shard.mark_done(tuple(record for record, kept in zip(records, accepted, strict=True) if not kept))
        return tuple(record for record, kept in zip(records, accepted, strict=True) if kept)

    def _discard_old_records(
        self, shard: ShardProgress, lane: ShardLane, batch: UndeliveredBatch, now: float
    ) -> Records:
        """Return the batch without the old records at its front.

        One past the stream's retention is only counted as expired. One past the maximum record age is discarded: it
        goes to the on-failure destination, if there is one.
        """
        expired, kept = _split_by_age(batch.records, now, self.assumptions.retention_seconds)
        self.counters.expired += len(expired)
        shard.mark_done(expired)
        limit = self.settings.max_record_age_seconds
        aged, young = _split_by_age(kept, now, None if limit == INFINITE else limit)
        if aged:
            self._discard(shard, lane, replace(batch, records=aged), "RecordAgeExceeded")
        return young

    def _invoke(self, shard: ShardProgress, lane: ShardLane, batch: UndeliveredBatch, now: float) -> Invoke:
        lane.batch = batch
        lane.action = action = Invoke(
            request_id=self._new_id(),
            shard_id=shard.shard_id,
            lane=lane.index,
            records=batch.records,
            iterator_age_ms=max(0, round((now - batch.records[-1].created_at) * 1000)),
            attempt=batch.attempts + 1,
        )
        return action

    def _deliver(
        self, shard: ShardProgress, lane: ShardLane, batch: UndeliveredBatch, condition: DiscardReason, now: float
    ) -> DeliverFailure:
        destination = self.settings.on_failure or ""
        document = build_invocation_record(
            batch if batch.request_id else replace(batch, request_id=self._new_id()),
            condition,
            function_arn=self._function_arn,
            stream_arn=self._stream_arn,
            shard_id=shard.shard_id,
            destination=destination,
            now=now,
        )
        lane.action = action = DeliverFailure(
            shard_id=shard.shard_id,
            lane=lane.index,
            records=batch.records,
            destination=destination,
            key=invocation_record_key(destination, self._mapping_id, shard.shard_id, now, self._new_id),
            document=document,
        )
        return action

    def _handle_invocation(
        self,
        shard: ShardProgress,
        lane: ShardLane,
        action: Invoke,
        outcome: InvocationReturned | InvocationFailed,
        now: float,
    ) -> None:
        verdict = self._evaluate_outcome(action.records, outcome)
        self.counters.invoked += len(action.records)
        self.counters.failed_invoke += verdict.failed
        shard.mark_done(action.records[: verdict.accepted])
        rest = replace(
            lane.batch,
            records=action.records[verdict.accepted :],
            request_id=action.request_id,
            function_error="Unhandled" if isinstance(outcome, InvocationFailed) else None,
        )
        retries = self.settings.max_retry_attempts
        if verdict.accepted:
            lane.failures_in_a_row = 0
        if not rest.records:
            return
        if verdict.can_bisect and self.settings.bisect_on_error and len(rest.records) > 1:
            attempts = rest.attempts if self.assumptions.bisect_attempts == "inherit" else 0
            parts = bisect_records(rest.records, self.assumptions)
            self._schedule_retry(lane, [replace(rest, records=part, attempts=attempts) for part in parts], now)
        elif verdict.accepted and self.assumptions.progress_resets_attempts:
            self._schedule_retry(lane, [replace(rest, attempts=0)], now)
        elif rest.attempts < retries or retries == INFINITE:
            self._schedule_retry(lane, [replace(rest, attempts=rest.attempts + 1)], now)
        else:
            self._discard(shard, lane, replace(rest, attempts=rest.attempts + 1), "RetryAttemptsExhausted")

    def _evaluate_outcome(self, records: Records, outcome: InvocationReturned | InvocationFailed) -> BatchOutcome:
        if isinstance(outcome, InvocationFailed):
            return BatchOutcome(accepted=0, failed=len(records), can_bisect=True)
        if not self.settings.report_item_failures:
            return BatchOutcome(accepted=len(records), failed=0)
        return evaluate_response(records, outcome.response, self.assumptions)

    def _schedule_retry(self, lane: ShardLane, batches: list[UndeliveredBatch], now: float) -> None:
        lane.failures_in_a_row += 1
        lane.retry_at = now + self.assumptions.retry_delay_seconds(lane.failures_in_a_row)
        lane.retries.extendleft(reversed(batches))

    def _discard(
        self, shard: ShardProgress, lane: ShardLane, batch: UndeliveredBatch, condition: DiscardReason
    ) -> None:
        lane.failures_in_a_row = 0
        if self.settings.on_failure:
            lane.discarded.append((batch, condition))
        else:
            self.counters.dropped += len(batch.records)
            shard.mark_done(batch.records)

    def _handle_delivery(self, shard: ShardProgress, records: Records, succeeded: bool) -> None:
        if succeeded:
            self.counters.on_failure_destination_delivered += len(records)
        else:
            self.counters.destination_delivery_failures += 1
            self.counters.dropped += len(records)
        shard.mark_done(records)


def _split_by_age(records: Records, now: float, limit_seconds: float | None) -> tuple[Records, Records]:
    """Split off the records at the front that are older than the limit; none if there is no limit."""
    if limit_seconds is None:
        return (), records
    old = sum(1 for _ in takewhile(lambda record: now - record.created_at > limit_seconds, records))
    return records[:old], records[old:]
