"""Measures the same work in several ways, in turns, so that a slow machine slows all of them."""

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """The result of several rounds: the median, and the quartiles around it."""

    median: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Spread":
        """The same in another unit."""
        return Spread(self.median * factor, self.low * factor, self.high * factor)


WAYS = ("ours", "usual", "promising", "floor")


@dataclass(frozen=True)
class Figure:
    """One measured thing in four columns; None where there is no such way. `unit`: of all four.

    `usual`: as the published designs do it. `floor`: the least that is known of. `max_ratio`: which part of the usual
    way's ours may be; `max_value`: what ours itself may be. `promising`: the usual way with the same promises.
    """

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
        """`ways`: "ours", "usual", "promising" and "floor", as far as they were measured."""
        ours, usual, promising, floor = map(ways.get, WAYS)
        return cls(what, unit, ours, usual, floor, promising=promising, **aims)

    @property
    def ratio(self) -> float | None:
        """Ours, as a part of the usual way's."""
        return self.ours.median / self.usual.median if self.ours and self.usual else None

    @property
    def promising_ratio(self) -> float | None:
        """Ours, as a part of the usual way's with the same promises."""
        other = self.promising
        return self.ours.median / other.median if self.ours and other and other.median else None

    @property
    def is_reached(self) -> bool | None:
        """Whether ours is as small as it should be; None: nothing is said of that."""
        if self.max_ratio is not None and self.ratio is not None:
            return self.ratio <= self.max_ratio
        return self.ours.median <= self.max_value if self.max_value is not None and self.ours else None


def exact(value: float) -> Spread:
    """A figure that is the same every time: units, requests, bytes."""
    return Spread(value, value, value)


def spread(values: Iterable[float]) -> Spread:
    """The result of at least two rounds."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def side_by_side(
    ways: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 15,
    times: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Spread]:
    """Return the duration of one call of each way, in the clock's unit. The ways take turns with `times` calls each, in
    this number of rounds after a first one that does not count. `clock`: a clock of the processor leaves out the work
    of other processes."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    gc.collect()
    gc.freeze()  # or each collection below would look at all that this process has loaded, which takes longer than work
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
