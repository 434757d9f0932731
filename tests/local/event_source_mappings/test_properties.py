"""Tests that runs are repeatable, lose no record, and keep each item's order at every failure, throttle and kill."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from local.event_source_mappings import (
    DeliverFailure,
    FailureDelivered,
    FilterCriteria,
    InvocationFailed,
    InvocationReturned,
    Invoke,
    NotInvoked,
    Outcome,
)
from proof.support.examples import many
from tests.local.event_source_mappings.stream import (
    BUCKET,
    ORDERS_ONLY,
    SHARD,
    START,
    new_mapping,
    record,
    report_failures,
    sequence_numbers_of,
)

CHILD = "shardId-2"

OPTIONS = st.fixed_dictionaries(
    {
        "batch_size": st.integers(1, 6),
        "batching_window_seconds": st.sampled_from([0, 0, 5]),
        "parallelization_factor": st.integers(1, 3),
        "max_retry_attempts": st.integers(0, 3),
        "max_record_age_seconds": st.sampled_from([-1, -1, 60]),
        "bisect_on_error": st.booleans(),
        "report_item_failures": st.booleans(),
        "filters": st.sampled_from([FilterCriteria(), ORDERS_ONLY]),
        "on_failure": st.sampled_from([BUCKET, BUCKET, None]),
        "retry_delays_seconds": st.sampled_from([(0.2, 1.0), (0.0,), (25.0,)]),
        "bisect_midpoint": st.sampled_from(["floor", "ceiling"]),
        "bisect_attempts": st.sampled_from(["inherit", "reset"]),
        "progress_resets_attempts": st.booleans(),
        "lane_salt": st.sampled_from(["", "x", "y"]),
        "failing_lane_stalls_shard": st.booleans(),
        "window_opens": st.sampled_from(["at_completion", "at_first_record"]),
        "filters_before_batching": st.booleans(),
        "payload_limit_bytes": st.sampled_from([1200, 6 * 1024 * 1024]),
        "retention_seconds": st.none(),
    }
)
HANDLINGS = st.sampled_from(["honest", "honest", "success", "error", "report", "unknown", "throttled"])


@dataclass(frozen=True)
class Case:
    """Changes as (item, kind), and the outcomes of invocations. After the last outcome, all invocations succeed."""

    changes: list[tuple[str, str]]
    first_of_child: int
    poison: frozenset[int]
    options: dict[str, Any]
    handlings: list[tuple[str, int]]
    deliveries: list[bool]
    killed_at_steps: frozenset[int]
    steps_in_flight: int


CASES = st.builds(
    Case,
    changes=st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["Order", "Order", "Line"])), min_size=5, max_size=24
    ),
    first_of_child=st.integers(1, 25),
    poison=st.frozensets(st.integers(1, 24), max_size=3),
    options=OPTIONS,
    handlings=st.lists(st.tuples(HANDLINGS, st.integers(0, 5)), min_size=5, max_size=25),
    deliveries=st.lists(st.booleans(), max_size=4),
    killed_at_steps=st.one_of(st.just(frozenset()), st.frozensets(st.integers(1, 12), min_size=1, max_size=3)),
    steps_in_flight=st.integers(0, 2),
)


@dataclass
class World:
    """Runs a case on the mapping, and records what happens to each record, by sequence number."""

    case: Case
    now: float = START
    trace: list[tuple[float, object]] = field(default_factory=list)
    read: dict[str, int] = field(default_factory=dict)
    accepted: list[int] = field(default_factory=list)
    described: set[int] = field(default_factory=set)
    undelivered: set[int] = field(default_factory=set)
    in_flight: list[tuple[int, Any, Outcome]] = field(default_factory=list)
    kills: int = 0
    dropped_before_kills: int = 0

    def __post_init__(self) -> None:
        self.handlings = iter(self.case.handlings)
        self.deliveries = iter(self.case.deliveries)
        numbered = list(enumerate(self.case.changes, start=1))
        self.items = {number: item for number, (item, _) in numbered}
        is_filtered = self.case.options["filters"] == ORDERS_ONLY
        self.rejected = {number for number, (_, kind) in numbered if kind == "Line" and is_filtered}
        self.shards = {
            SHARD: [number for number in self.items if number < self.case.first_of_child],
            CHILD: [number for number in self.items if number >= self.case.first_of_child],
        }
        self.start({})

    def start(self, resume: dict[str, str]) -> None:
        """Start a new process. Running actions may have had their effect, but report no outcome."""
        self.in_flight = []
        self.mapping = new_mapping(resume=resume, **self.case.options)
        self.mapping.add_shard(CHILD, parent=SHARD)
        self.read = {shard: int(resume.get(shard, 0)) for shard in self.shards}

    @property
    def dropped(self) -> int:
        return self.dropped_before_kills + self.mapping.counters.dropped

    @property
    def handled(self) -> set[int]:
        return {*self.accepted, *self.described, *self.undelivered, *self.rejected}

    def run(self) -> "World":
        for step in range(2000):
            if step in self.case.killed_at_steps:
                self.kills += 1
                self.dropped_before_kills = self.dropped
                self.start(self.mapping.checkpoint())
            is_read_out = self.read_some()
            for action in self.mapping.due_actions(self.now):
                self.trace.append((self.now, action))
                self.in_flight.append((step, action, self.do(action)))
            for begun, action, outcome in [*self.in_flight]:
                if begun + self.case.steps_in_flight <= step:
                    self.in_flight.remove((begun, action, outcome))
                    self.mapping.report_outcome(action, outcome, self.now)
            self.check_checkpoint()
            next_at = self.mapping.next_action_at(self.now)
            if is_read_out and next_at is None and not self.in_flight:
                return self
            self.now = next_at if is_read_out and next_at is not None and not self.in_flight else self.now + 0.5
        raise AssertionError("the mapping does not come to an end")

    def read_some(self) -> bool:
        for shard, numbers in self.shards.items():
            unread = [number for number in numbers if number > self.read[shard]]
            for number in unread[:3]:
                kind = self.case.changes[number - 1][1]
                one = record(number, self.items[number], created_at=START + number // 2, kind=kind)
                self.mapping.add_record(shard, one, self.now)
                self.read[shard] = number
            if len(unread) <= 3:
                self.mapping.close_shard(shard)
        return all(numbers[-1:] <= [self.read[shard]] for shard, numbers in self.shards.items())

    def do(self, action: Invoke | DeliverFailure) -> Outcome:
        numbers = sequence_numbers_of(action)
        if isinstance(action, DeliverFailure):
            succeeded = next(self.deliveries, True)
            (self.described if succeeded else self.undelivered).update(numbers)
            return FailureDelivered(succeeded)
        assert 0 < len(numbers) <= self.case.options["batch_size"]
        assert action.shard_id == SHARD or self.is_drained(SHARD)
        outcome, accepted = self.handle(numbers)
        for number in numbers[:accepted]:
            self.check_order(number)
            self.accepted.append(number)
        return outcome

    def is_drained(self, shard: str) -> bool:
        last = self.shards[shard][-1:]
        return not last or self.mapping.checkpoint().get(shard) == str(last[0])

    def handle(self, numbers: list[int]) -> tuple[Outcome, int]:
        """Return the function's response to a batch, and how many of the first records Lambda then regards as done."""
        reporting = self.case.options["report_item_failures"]
        handling, place = next(self.handlings, ("honest", 0))
        bad = [number for number in numbers if number in self.case.poison]
        if handling == "throttled":
            return NotInvoked(), 0
        if handling == "error" or (handling == "honest" and bad and not reporting):
            return InvocationFailed(), 0
        if handling == "unknown":
            return report_failures(999), 0 if reporting else len(numbers)
        if handling == "report":
            bad = numbers[place % len(numbers) :: 2]
        if handling == "success" or not bad or not reporting:
            return InvocationReturned(), len(numbers)
        return report_failures(*reversed(bad)), numbers.index(bad[0])

    def check_order(self, number: int) -> None:
        """Check that a record is done only after all earlier records of its item, except dropped records.

        After a kill, a dropped record comes again if the checkpoint is before it: a parallel sequence was slower.
        """
        earlier = {one for one in self.items if one < number and self.items[one] == self.items[number]}
        assert len(earlier - self.handled) <= (0 if self.case.options["on_failure"] else self.dropped)
        came_back = number in self.handled or (self.kills and self.dropped)
        if not came_back:
            assert not any(one > number and self.items[one] == self.items[number] for one in self.accepted)

    def check_checkpoint(self) -> None:
        checkpoint = self.mapping.checkpoint()
        passed = {n for shard, numbers in self.shards.items() for n in numbers if n <= int(checkpoint.get(shard, 0))}
        assert len(passed - self.handled) <= (0 if self.case.options["on_failure"] else self.dropped)


@settings(max_examples=many(300, 25))
@given(CASES)
def test_every_record_is_accepted_described_or_counted_and_no_item_is_overtaken(case: Case) -> None:
    world = World(case).run()
    everything = set(world.items)
    unseen = everything - world.handled
    ends = {shard: str(numbers[-1]) for shard, numbers in world.shards.items() if numbers}
    assert world.mapping.checkpoint() == ends
    counters = world.mapping.counters
    event(f"kills: {world.kills}")
    event(f"described: {bool(world.described)}, undelivered: {bool(world.undelivered)}, unseen: {bool(unseen)}")
    if case.options["on_failure"]:
        assert unseen == set()
    assert len(unseen) <= world.dropped
    if not world.kills:
        assert counters.polled == len(everything)
        assert counters.filtered_out == len(world.rejected)
        assert counters.on_failure_destination_delivered == len(world.described)
        assert counters.dropped == len(unseen | world.undelivered)
        assert len(world.accepted) == len(set(world.accepted))
        assert counters.invoked >= len(world.accepted)
