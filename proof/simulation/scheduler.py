"""Schedules the tasks of a simulation in virtual time, one at a time.

A task is a greenlet. It runs until it pauses, at each call to a service, for a time that the seed decides. Then the
task that is due next runs.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]

MAX_STEPS = 200_000
"""The maximum number of scheduler steps in a simulation run. It is ten times the number of steps of a busy run."""


def run_sequentially(questions: Sequence[Callable[[], Any]]) -> list[Any]:
    """Call the functions one after the other, in place of threads, whose order is not repeatable."""
    return [ask() for ask in questions]


class TooManySteps(Exception):
    """The simulation took more than `MAX_STEPS` steps: something probably loops forever."""


class ProcessDied(BaseException):
    """Kills a simulated process. A BaseException, so that `except Exception` in the shop's code does not catch it."""


@dataclass(eq=False)
class SimulatedProcess:
    """The process of a task. `skew_seconds`: the error of its clock. `ends_at`: when it is killed."""

    name: str
    skew_seconds: float = 0.0
    ends_at: float | None = None
    struck: list[str] = field(default_factory=list)


@dataclass
class VirtualScheduler:
    """Runs tasks in virtual time (`now`, in epoch seconds).

    `save_state`: called when a task pauses. It returns a function that restores the task's global variables when it
    continues, because all tasks share one interpreter.
    """

    now: float
    save_state: Callable[[], Callable[[], None]] = lambda: lambda: None
    steps: int = 0
    _waiting: list[tuple[float, int, Callable[[], Any]]] = field(default_factory=list)
    _running: dict[greenlet, SimulatedProcess] = field(default_factory=dict)
    _count: int = 0
    _loop: greenlet = field(default_factory=getcurrent)

    # virtual time -----------------------------------------------------------------------------------------------------
    def call_at(self, when: float, act: Callable[[], Any]) -> None:
        """Call `act` at a virtual time, or as soon as possible if that time is past."""
        self._count += 1
        heapq.heappush(self._waiting, (max(when, self.now), self._count, act))

    def call_later(self, seconds: float, act: Callable[[], Any]) -> None:
        self.call_at(self.now + seconds, act)

    def clock(self) -> datetime:
        """Return the current virtual time as the clock of the running process shows it. This clock may be wrong."""
        process = self._running.get(getcurrent())
        return datetime.fromtimestamp(self.now + (process.skew_seconds if process else 0.0), UTC)

    def run(self, until: float) -> bool:
        """Make all calls up to a virtual time. Return True if none is left after that. Raises `TooManySteps`."""
        while self._waiting and self._waiting[0][0] <= until:
            self.now, _, act = heapq.heappop(self._waiting)
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise TooManySteps
            act()
        if self._waiting:
            self.now = until
        return not self._waiting

    # tasks ------------------------------------------------------------------------------------------------------------
    def start(self, process: SimulatedProcess, work: Callable[[], object], after_seconds: float = 0.0) -> None:
        """Schedule a task that calls `work` in this simulated process, after a delay in virtual time."""

        def run() -> None:
            self._running[task] = process
            try:
                work()
            finally:
                del self._running[task]

        # A task that pauses switches to its parent greenlet. The parent must be the scheduler's loop. Without the
        # second argument, the parent would be the task that calls `start`.
        task = greenlet(run, self._loop)
        self.call_later(after_seconds, task.switch)

    @property
    def process(self) -> SimulatedProcess | None:
        """The simulated process of the running task. None if no task is running, for example in a test."""
        return self._running.get(getcurrent())

    def run_concurrently(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """Call the functions at the same time, as threads of the running process, and return their results.

        If a call raises an error, all others still run first. If one of them dies, the whole process dies.
        """
        task, process = getcurrent(), self._running.get(getcurrent())
        if process is None or len(calls) < 2:
            return run_sequentially(calls)
        results: dict[int, Any] = {}
        errors: list[BaseException] = []

        def run(number: int, call: Callable[[], Any]) -> None:
            try:
                results[number] = call()
            except ProcessDied as death:
                errors.insert(0, death)
                process.ends_at = self.now
            except Exception as error:  # noqa: BLE001  raised below, after the other calls
                errors.append(error)
                results[number] = None
            ended.append(number)
            if len(ended) == len(calls):
                self.call_at(self.now, task.switch)

        ended: list[int] = []
        for number, call in enumerate(calls):
            self.start(process, partial(run, number, call))
        restore = self.save_state()
        task.parent.switch()
        restore()
        if errors:
            raise errors[0]
        return [results[number] for number in range(len(calls))]

    def run_as(self, process: SimulatedProcess, work: Callable[[], Any]) -> Any:
        """Call `work` in the running task, but as another process, as a synchronous Lambda invocation does."""
        task = getcurrent()
        before = self._running[task]
        self._running[task] = process
        try:
            return work()
        finally:
            self._running[task] = before

    def pause(self, seconds: float) -> None:
        """Pause the running task for some virtual seconds. Raises `ProcessDied` if its process is killed then."""
        task = getcurrent()
        process = self._running.get(task)
        if process is None:
            return
        wakes = self.now + seconds
        if process.ends_at is not None and wakes > process.ends_at:
            wakes = process.ends_at
        self.call_at(wakes, task.switch)
        restore = self.save_state()
        task.parent.switch()
        restore()
        if process.ends_at is not None and self.now >= process.ends_at:
            process.struck.append("dies: its time is over")
            raise ProcessDied
