"""States a result: the value, its unit, the lower bound, and the aim, which the value should not exceed."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """The median of a value in several rounds, with the lower and upper quartile."""

    median: float
    low: float
    high: float


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
