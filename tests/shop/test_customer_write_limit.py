"""Tests the write limit of a customer, with several processes of the API whose clocks differ, on the real engine."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.model.errors import TooManyWrites
from functions.model.table import WRITE_LIMIT
from functions.shop.customer_write_limit import CLOCK_TOLERANCE_MS, UNCOUNTED_WRITES, WriteLimiter
from functions.shop.shop import ShopContext
from proof.support.client_faults import WireTap

AT = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
PER_MINUTE, BURST = 60, 20
SECONDS_PER_WRITE = 60 / PER_MINUTE


@dataclass
class Process:
    """A process of the API with its own limiter and clock. `ahead`: how many seconds its clock is ahead."""

    shop: ShopContext
    limiter: WriteLimiter
    ahead: float = 0.0
    at: float = 0.0

    def write(self, after: float) -> int:
        """Send a write this many seconds after AT. Return 0 if it is accepted, else the Retry-After in seconds."""
        self.at = after
        shop = replace(self.shop, table=replace(self.shop.table, clock=self.clock, sleep=lambda _: None))
        try:
            self.limiter.count_write(shop, "ann")
        except TooManyWrites as refused:
            return refused.retry_after_seconds
        return 0

    def clock(self) -> datetime:
        return AT + timedelta(seconds=self.at + self.ahead)


def start_processes(
    shop: ShopContext, *ahead: float, per_minute: int = PER_MINUTE, burst: int = BURST
) -> list[Process]:
    """Delete the item of the customer, and start processes whose clocks are ahead by these seconds."""
    shop.table.batch_delete([WRITE_LIMIT.key(customer_id="ann")])
    return [Process(shop, WriteLimiter(per_minute, burst), seconds) for seconds in ahead]


def most_accepted(processes: int, seconds: float) -> float:
    """Return the promised maximum: the burst, the rate, and some uncounted writes for each process and burst."""
    bursts = 1 + seconds / (BURST * SECONDS_PER_WRITE)
    return BURST + UNCOUNTED_WRITES + seconds / SECONDS_PER_WRITE + processes * UNCOUNTED_WRITES * bursts


@given(gaps=st.lists(st.tuples(st.integers(0, 2), st.sampled_from((0, 0, 0, 0.05, 0.4, 1, 5, 30))), max_size=120))
def test_no_sequence_of_writes_exceeds_burst_and_rate(shop: ShopContext, gaps: list[tuple[int, float]]) -> None:
    processes, at, accepted = start_processes(shop, 0, 0, 0), 0.0, []
    for number, gap in gaps:
        at += gap
        if not processes[number].write(at):
            accepted.append(at)
    for first, begin in enumerate(accepted):
        for last in range(first, len(accepted)):
            assert last - first + 1 <= most_accepted(3, accepted[last] - begin)


def test_writes_at_the_same_time_do_not_exceed_the_burst(shop: ShopContext) -> None:
    processes = start_processes(shop, 0, 0, 0, 0)
    together = threading.Barrier(len(processes))

    def flood(process: Process) -> int:
        together.wait()
        return sum(process.write(0.0) == 0 for _ in range(BURST))

    with ThreadPoolExecutor(len(processes)) as threads:
        accepted = sum(threads.map(flood, processes))
    assert BURST <= accepted <= most_accepted(len(processes), 0)


@given(waits=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), max_size=40))
def test_after_retry_after_a_write_is_always_accepted(shop: ShopContext, waits: list[tuple[int, int]]) -> None:
    processes, at = start_processes(shop, 0, 0), 0.0
    for number, wait in waits:
        at += wait
        while not (seconds := processes[number].write(at)):
            pass
        assert 1 <= seconds <= (UNCOUNTED_WRITES + 1) * SECONDS_PER_WRITE
        at += seconds
        assert processes[number].write(at) == 0


@pytest.mark.parametrize("seconds", [-9.0, -2.0, 0.0, 2.0, 9.0])
def test_a_customer_who_writes_at_the_allowed_rate_is_not_refused_if_clocks_differ(
    shop: ShopContext, seconds: float
) -> None:
    processes = start_processes(shop, 0, seconds)
    chance = random.Random(1)  # noqa: S311  which process gets a write
    assert not any(chance.choice(processes).write(number * SECONDS_PER_WRITE) for number in range(200))


def test_a_clock_that_is_minutes_ahead_blocks_no_customer(shop: ShopContext) -> None:
    right, wrong = start_processes(shop, 0, 300)
    for _ in range(2 * BURST):
        wrong.write(0)
    assert right.write(0) == 0
    longest = UNCOUNTED_WRITES * SECONDS_PER_WRITE + CLOCK_TOLERANCE_MS / 1000
    assert all(right.write(number * SECONDS_PER_WRITE) <= longest for number in range(30))


def test_a_process_that_starts_anew_counts_on(shop: ShopContext) -> None:
    (first,) = start_processes(shop, 0)
    while not first.write(0):
        pass
    again = Process(shop, WriteLimiter(PER_MINUTE, BURST))
    assert [again.write(0) for _ in range(UNCOUNTED_WRITES + 2)][-1] > 0


def test_the_item_expires_after_it_means_nothing(shop: ShopContext) -> None:
    (process,) = start_processes(shop, 0)
    while not process.write(0):
        pass
    (item,) = shop.table.batch_get([WRITE_LIMIT.key(customer_id="ann")])
    assert 60 <= item.ttl - item.used_until_ms / 1000 <= 120
    shop.table.batch_delete([WRITE_LIMIT.key(customer_id="ann")])
    assert process.write(item.ttl - AT.timestamp()) == 0


def test_a_lost_answer_counts_writes_twice_at_most(shop: ShopContext, patient_wire: WireTap) -> None:
    wire = patient_wire
    (process,) = start_processes(replace(shop, table=replace(shop.table, client=wire.client)), 0)
    wire.lose_response("PutItem")
    wire.lose_response("UpdateItem")
    counted = 2 * (UNCOUNTED_WRITES + 1)
    assert [process.write(0) for _ in range(counted)] == [0] * counted
    assert wire.pop_unused_replies() == []
    (item,) = shop.table.batch_get([WRITE_LIMIT.key(customer_id="ann")])
    assert item.used_until_ms / 1000 - AT.timestamp() == 2 * counted * SECONDS_PER_WRITE
    assert process.write(0) == 0


def test_a_process_remembers_only_the_latest_customers(shop: ShopContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functions.shop.customer_write_limit.MAX_REMEMBERED", 3)
    limiter = WriteLimiter(PER_MINUTE, BURST)
    for number in range(10):
        limiter.count_write(shop, f"c{number}")
    assert list(limiter._customers) == ["c7", "c8", "c9"]
