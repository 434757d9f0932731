"""Measure the same work of several shops in turns, so that a slow machine slows all of them equally."""

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """The median of a value in several rounds, with the lower and upper quartile."""

    median: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Spread":
        """Return the spread in another unit: all values multiplied by the factor."""
        return Spread(self.median * factor, self.low * factor, self.high * factor)


WAYS = ("ours", "usual", "promising", "floor")


@dataclass(frozen=True)
class Figure:
    """A row of docs/performance.md: a measured value of each shop. None: that shop has no such work.

    `usual`: of the usual shop. `promising`: of the usual shop with PROMISES=same. `floor`: the lower bound.
    `max_ratio`, `max_value`: the aim for our value, as a share of the usual shop's value, or in the figure's unit."""

    what: str
    unit: str
    ours: Spread | None = None
    usual: Spread | None = None
    floor: Spread | None = None
    max_ratio: float | None = None
    max_value: float | None = None
    promising: Spread | None = None

    @classmethod
    def of(cls, what: str, unit: str, ways: Mapping[str, Spread], **aims: float | None) -> "Figure":
        """Return a figure. `ways`: the measured values, by a name in WAYS."""
        ours, usual, promising, floor = map(ways.get, WAYS)
        return cls(what, unit, ours, usual, floor, promising=promising, **aims)

    @property
    def ratio(self) -> float | None:
        """Our value as a share of the usual shop's."""
        return self.ours.median / self.usual.median if self.ours and self.usual else None

    @property
    def promising_ratio(self) -> float | None:
        """Our value as a share of the value of the usual shop with the same promises."""
        other = self.promising
        return self.ours.median / other.median if self.ours and other and other.median else None

    @property
    def is_reached(self) -> bool | None:
        """Whether our value reaches its aim; None if the figure has no aim."""
        if self.max_ratio is not None and self.ratio is not None:
            return self.ratio <= self.max_ratio
        return self.ours.median <= self.max_value if self.max_value is not None and self.ours else None


def exact(value: float) -> Spread:
    """Return the spread of a value that is the same in every run, such as units, requests or bytes."""
    return Spread(value, value, value)


def spread(values: Iterable[float]) -> Spread:
    """Return the median and the quartiles of at least two values."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def measure_in_turns(
    ways: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 15,
    times: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Spread]:
    """Return the duration of one call of each function, in the clock's unit.

    In each round, every function runs `times` times. A first round warms up and does not count. `clock`: use
    time.process_time to exclude the work of other processes."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    gc.collect()
    gc.freeze()  # otherwise each collection below visits every loaded module, and takes longer than the measured work
    for number in range(rounds + 1):
        for name, work in ways.items():
            gc.collect()
            gc.disable()
            began = clock()
            for _ in range(times):
                work()
            took = (clock() - began) / times
            gc.enable()
            if number:
                taken[name].append(took)
    gc.unfreeze()
    return {name: spread(values) for name, values in taken.items()}
