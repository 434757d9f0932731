"""The parts of AWS that can refuse or delay a request, each with its limit, as small classes that tests use alone.

Times are simulated seconds. Each class counts what it did, so that the model can name the limit that is met first.
"""

import random
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Split = Literal["any", "never", "increasing"]
"""Whether DynamoDB can split a hot partition key: "any" sort key is written, it is one item ("never"), or each new sort
key is the last one ("increasing"), so the newest half stays hot after a split."""


BURST_SECONDS = 0.25
"""How much a bucket holds. DynamoDB keeps up to five minutes of unused units: that helps once, so it is left out."""


@dataclass
class RateLimit:
    """A token bucket: `rate` a second, and a burst. It delays what is above it; the caller decides how long it waits.

    DynamoDB and the API refuse instead of delaying, and the client tries again with backoff. A client that tries until
    it succeeds waits as long as in a queue, so both are the same here, except for `refused`, which counts the waits.
    """

    rate: float
    burst: float = 0
    used: float = 0
    refused: int = 0
    _level: float = field(init=False)
    _at: float = 0

    def __post_init__(self) -> None:
        self.burst = self.burst or self.rate * BURST_SECONDS
        self._level = self.burst

    def take(self, units: float, now: float, patience: float = float("inf")) -> float | None:
        """Take units, and return how long to wait for them; None, and take nothing, if it is longer than `patience`."""
        self._level = min(self.burst, self._level + (now - self._at) * self.rate)
        self._at = now
        wait = max(0.0, units - self._level) / self.rate
        if wait > patience:
            self.refused += 1
            return None
        self._level -= units
        self.used += units
        self.refused += wait > 0
        return wait


@dataclass
class HotKeys:
    """The partition keys that many orders share: each has at most the units of a partition.

    `split_seconds`: after so long above its limit, a key that DynamoDB can split gets two partitions, then four. AWS
    does not publish this time.
    """

    rate: float
    split_seconds: float = 300
    buckets: dict[Hashable, RateLimit] = field(default_factory=dict)
    _hot_since: dict[Hashable, float] = field(default_factory=dict)

    def take(
        self, key: Hashable, units: float, now: float, split: Split = "never", patience: float = 1e9
    ) -> float | None:
        bucket = self.buckets.get(key)
        if bucket is None:
            bucket = self.buckets[key] = RateLimit(self.rate, _at=now)
        wait = bucket.take(units, now, patience)
        if wait == 0:
            self._hot_since.pop(key, None)
        elif split == "any" and now - self._hot_since.setdefault(key, now) >= self.split_seconds:
            bucket.rate *= 2
            bucket.burst *= 2
            self._hot_since[key] = now
        return wait


@dataclass
class ItemLocks:
    """One transaction at a time on an item. A second one is refused, and billed.

    `changed_at`: when an item was changed last. A transaction that read the item before must fail, if its condition is
    the item's version.
    """

    busy_until: dict[Hashable, float] = field(default_factory=dict)
    changed_at: dict[Hashable, float] = field(default_factory=dict)
    held: Counter[Hashable] = field(default_factory=Counter)
    attempts: int = 0
    refused: Counter[Hashable] = field(default_factory=Counter)

    def begin(self, items: Collection[Hashable], now: float, hold: float, read_at: float | None = None) -> bool:
        """Begin a transaction that takes `hold` seconds. Return False if it is refused.

        `read_at`: when it read the items; None if it does not depend on what it read.
        """
        self.attempts += 1
        for item in items:
            if self.busy_until.get(item, 0) > now or (read_at is not None and self.changed_at.get(item, -1) > read_at):
                self.refused[item] += 1
                return False
        for item in items:
            self.busy_until[item] = self.changed_at[item] = now + hold
            self.held[item] += hold  # type: ignore[assignment]
        return True


@dataclass
class ExecutionEnvironments:
    """Lambda's invocations: at most `concurrency` at a time, and `started` new environments of a function in 10 s.

    `grown`: the environments exist already, so no invocation waits for its start.
    """

    concurrency: float
    start_seconds: float
    started: float
    grown: bool = False
    in_use: int = 0
    most: int = 0
    refused: int = 0
    cold_starts: int = 0
    _busy: Counter[str] = field(default_factory=Counter)
    _warm: Counter[str] = field(default_factory=Counter)
    _starts: dict[str, RateLimit] = field(default_factory=dict)

    def begin(self, function: str, now: float) -> float | None:
        """Begin an invocation. Return the seconds of its start; None if Lambda refuses it."""
        if self.in_use >= self.concurrency:
            self.refused += 1
            return None
        delay = 0.0
        if not self.grown and self._busy[function] >= self._warm[function]:
            starts = self._starts.setdefault(function, RateLimit(self.started / 10, self.started))
            if starts.take(1, now, patience=0) is None:
                self.refused += 1
                return None
            self._warm[function] += 1
            self.cold_starts += 1
            delay = self.start_seconds
        self._busy[function] += 1
        self.in_use += 1
        self.most = max(self.most, self.in_use)
        return delay

    def end(self, function: str) -> None:
        self._busy[function] -= 1
        self.in_use -= 1


@dataclass
class Pollers:
    """How many batches of a queue Lambda processes at the same time: few at first, more each minute of a backlog."""

    start: float
    growth_per_minute: float
    maximum: float
    busy: int = 0
    busy_seconds: float = 0
    _limit: float = field(init=False)
    _at: float | None = None

    def __post_init__(self) -> None:
        self._limit = self.start

    def allowed(self, now: float, *, backlog: bool) -> int:
        """Return how many batches may run now. `backlog`: whether messages wait, so that Lambda adds pollers.

        Lambda also removes pollers after a backlog. The model leaves that out: no profile is long enough.
        """
        if backlog and self._at is not None:
            self._limit = min(self.maximum, self._limit + (now - self._at) / 60 * self.growth_per_minute)
        self._at = now if backlog else None
        return int(min(self._limit, self.maximum))


def jitter(random_source: random.Random, attempt: int) -> float:
    """Return the wait before the next attempt, as functions/dynamodb/retry.py waits."""
    return random_source.random() * 0.01 * (1 << min(attempt, 6))


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile of sorted values, such as 0.99; 0 if there are none."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0
