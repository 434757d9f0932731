"""Virtual time, and tasks that take turns in it: everything that happens in a simulation happens here, one at a time.

A task is a greenlet. It runs until it pauses, which it does wherever its code calls out; then whatever is due next goes
on. How long a pause takes is the caller's to say (out of the seed), so the order of things is the seed's alone.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]

from tests.simulation.chance import SeededRandom

MAX_STEPS = 100_000
"""Ten times what a lively seed takes."""


def run_sequentially(questions: Sequence[Callable[[], Any]]) -> list[Any]:
    """The answers to several questions, one after the other: threads would make it another story each time."""
    return [ask() for ask in questions]


class TooManySteps(Exception):
    """Something goes on and on."""


class ProcessDied(BaseException):
    """The process died here. No handler sees it: what catches every Exception does not catch this."""


@dataclass(eq=False)
class SimulatedProcess:
    """What a task runs as: one call of a function, or somebody outside. `skew_seconds`: how wrong its clock is.

    `ends_at`: when it is killed, at the latest. `struck`: what went wrong in it.
    """

    name: str
    skew_seconds: float = 0.0
    ends_at: float | None = None
    struck: list[str] = field(default_factory=list)


@dataclass
class VirtualScheduler:
    """`now`: virtual epoch seconds. `apart` is asked, when a task is put aside, for what puts its own things in place
    again: a process of Lambda shares nothing with another, our tasks share this interpreter."""

    chance: SeededRandom
    now: float
    save_state: Callable[[], Callable[[], None]] = lambda: lambda: None
    steps: int = 0
    _waiting: list[tuple[float, int, Callable[[], Any]]] = field(default_factory=list)
    _running: dict[greenlet, SimulatedProcess] = field(default_factory=dict)
    _count: int = 0
    _loop: greenlet = field(default_factory=getcurrent)

    # time -------------------------------------------------------------------------------------------------------------
    def call_at(self, when: float, act: Callable[[], Any]) -> None:
        """Do something at a moment, or now if that is past."""
        self._count += 1
        heapq.heappush(self._waiting, (max(when, self.now), self._count, act))

    def call_later(self, seconds: float, act: Callable[[], Any]) -> None:
        self.call_at(self.now + seconds, act)

    def clock(self) -> datetime:
        """What the clock of whoever asks shows."""
        process = self._running.get(getcurrent())
        return datetime.fromtimestamp(self.now + (process.skew_seconds if process else 0.0), UTC)

    def run(self, until: float) -> bool:
        """Let everything happen that is due by then. Returns whether nothing is left; else the time is `until`."""
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
        """Begin a task."""

        def run() -> None:
            self._running[task] = process
            try:
                work()
            finally:
                del self._running[task]

        task = greenlet(run, self._loop)  # not under the task that starts it, which would go on in its pauses
        self.call_later(after_seconds, task.switch)

    @property
    def process(self) -> SimulatedProcess | None:
        """Who is running; None outside of any task."""
        return self._running.get(getcurrent())

    def run_as(self, process: SimulatedProcess, work: Callable[[], Any]) -> Any:
        """Do something in this task, as another process: a function that is called, and waited for."""
        task = getcurrent()
        before = self._running[task]
        self._running[task] = process
        try:
            return work()
        finally:
            self._running[task] = before

    def pause(self, seconds: float) -> None:
        """Let time pass, and others run. Raises Died when the process's time is over meanwhile.

        Outside of any task (the test itself, looking around) nothing happens.
        """
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
