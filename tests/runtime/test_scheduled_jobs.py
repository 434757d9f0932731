"""Tests runs of scheduled jobs: they stop before their timeout, process all lists, and process each item once."""

import threading
from collections.abc import Iterator

import pytest

from functions.model import metrics
from functions.runtime import observability
from functions.runtime.scheduled_jobs import RunIncomplete, ScheduledRun, WorkList
from functions.runtime.time_limit import MARGIN_SECONDS, TimeLimit
from proof.support.alarm_model import EmittedMetrics, capture_metrics
from proof.support.lambda_context import FakeContext


@pytest.fixture
def told() -> Iterator[EmittedMetrics]:
    with capture_metrics() as found:
        yield found


def call(run: ScheduledRun, *lists: WorkList[int]) -> None:
    """Process the lists as a Lambda handler does, so that the metrics of the invocation are emitted."""

    def handler(event: dict[str, object], context: object) -> None:
        run.process(*lists)

    handler.__module__ = "functions.handlers.order_deadlines"
    observability.instrument_handler(handler)({}, None)


def counted(context: FakeContext, numbers: range, seconds: float = 1) -> tuple[WorkList[int], list[int]]:
    """Return a list whose items each take `seconds`, and the list of the items that were processed."""
    done: list[int] = []

    def handle(number: int) -> bool:
        done.append(number)
        return True

    return WorkList(iter(numbers), context.spending(seconds, handle)), done


@pytest.mark.parametrize(("items", "out_of_time"), [(4, []), (100, [1])])
def test_a_run_starts_no_item_when_less_than_its_margin_is_left(
    told: EmittedMetrics, items: int, out_of_time: list[int]
) -> None:
    context = FakeContext(MARGIN_SECONDS + 3)
    work, done = counted(context, range(items))
    call(ScheduledRun("order_deadlines", TimeLimit(context)), work)
    assert done == [0, 1, 2, 3], "the last one began exactly at the margin"
    assert (work.done, work.is_complete) == (4, items == 4)
    assert told.values(metrics.OUT_OF_TIME, function="order_deadlines") == out_of_time
    assert told.values(metrics.EFFECTS_FAILED) == [], "items that are left for the next run are no failures"


def test_every_list_gets_its_share_of_the_time() -> None:
    context = FakeContext(MARGIN_SECONDS + 9)
    lists = [counted(context, range(1000)), counted(context, range(1000, 2000)), counted(context, range(2000, 2001))]
    ScheduledRun("order_deadlines", TimeLimit(context)).process(*(work for work, _ in lists))
    assert [len(done) for _, done in lists] == [5, 4, 1]
    assert [work.is_complete for work, _ in lists] == [False, False, True]


def test_the_first_part_of_a_run_uses_only_its_share_of_the_time() -> None:
    context = FakeContext(MARGIN_SECONDS + 20)
    run = ScheduledRun("customer_erasure", TimeLimit(context))
    first, second = counted(context, range(100)), counted(context, range(100))
    run.process(first[0], time_limit=run.time_limit.share(0.5))
    run.process(second[0])
    assert [len(done) for _, done in (first, second)] == [11, 10]


def test_a_list_that_cannot_be_read_is_not_complete_and_stops_no_other() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise RuntimeError("no answer")

    context = FakeContext(900)
    other, done = counted(context, range(3))
    work = WorkList(broken(), lambda _: True)
    run = ScheduledRun("order_deadlines", TimeLimit(context))
    run.process(work, other)
    assert (work.done, work.is_complete, done, other.is_complete) == (1, False, [0, 1, 2], True)
    with pytest.raises(RunIncomplete, match="1 failed"):
        run.raise_if_failed()


def test_lanes_take_each_item_once_and_work_at_the_same_time() -> None:
    together = threading.Barrier(8, timeout=30)
    taken: list[int] = []

    def handle(number: int) -> bool:
        together.wait()  # fails unless eight items are processed at the same time
        taken.append(number)
        if number % 4 == 0:
            raise ValueError(number)
        return True

    lists = [WorkList(iter(range(start, start + 32)), handle) for start in (0, 32)]
    run = ScheduledRun("order_deadlines", TimeLimit(None), lanes=8)
    run.process(*lists)
    assert sorted(taken) == list(range(64))
    assert (sum(work.done for work in lists), run.failed_count) == (48, 16)
    assert all(work.is_complete for work in lists)


def test_lanes_stop_together_and_a_list_that_they_leave_is_not_complete() -> None:
    context = FakeContext(MARGIN_SECONDS + 2)
    work, done = counted(context, range(1000), seconds=0.1)
    ScheduledRun("order_deadlines", TimeLimit(context), lanes=8).process(work)
    assert 20 <= len(done) <= 28, "at most one item more for each lane"
    assert not work.is_complete


def test_the_log_of_a_lane_names_its_function(told: EmittedMetrics) -> None:
    def fail(number: int) -> bool:
        raise ValueError(number)

    run = ScheduledRun("order_deadlines", TimeLimit(None), lanes=4)
    call(run, WorkList(iter(range(12)), fail))
    assert told.values(metrics.EFFECTS_FAILED, function="order_deadlines") == [12]
