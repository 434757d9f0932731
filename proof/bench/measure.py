"""Measure several functions in turn, so that a slow period of the machine slows all of them.

A `Figure` states a result: the value, its unit, the lower bound, and the aim, which the value should not exceed.
"""

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


@dataclass(frozen=True)
class Figure:
    """One row of docs/performance.md. `floor`: the lower bound for the same work. `max_value`: the aim in this unit."""

    what: str
    unit: str
    value: Spread | None = None
    floor: Spread | None = None
    max_value: float | None = None

    @property
    def is_reached(self) -> bool | None:
        """Whether the value reaches its aim; None if the figure has no aim."""
        return self.value.median <= self.max_value if self.max_value is not None and self.value else None


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

    In each round, every function runs `times` times. A first round warms up and does not count. `clock`: with
    time.process_time, the work of other processes does not count.
    """
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
