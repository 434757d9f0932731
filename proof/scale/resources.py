"""Model the limits of AWS that delay or refuse requests, with one class for each kind of limit.

Times are simulated seconds. Each class counts uses and refusals, so that the model finds the limit reached first.
"""

import random
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field

BURST_SECONDS = 0.25
"""By default, a burst is the units of this time. The model ignores DynamoDB's burst capacity, which helps only once."""


@dataclass
class RateLimit:
    """A token bucket that delays requests above `rate` units a second, after a burst of `burst` units.

    DynamoDB and the API do not delay such a request: they refuse it, and the client retries with backoff. The model
    delays it, because the client waits equally long. `refused` counts the requests that had to wait.
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

    def take(self, units: float, now: float, max_wait: float = float("inf")) -> float | None:
        """Take units, and return the seconds to wait. If the wait exceeds `max_wait`, take nothing and return None."""
        self._level = min(self.burst, self._level + (now - self._at) * self.rate)
        self._at = now
        wait = max(0.0, units - self._level) / self.rate
        if wait > max_wait:
            self.refused += 1
            return None
        self._level -= units
        self.used += units
        self.refused += wait > 0
        return wait


@dataclass
class HotKeys:
    """A rate limit for each partition key that many orders share. `rate`: the units a second of a partition.

    DynamoDB may split a hot partition. The model does not: its hot keys have one item, or sort keys that increase, and
    a split helps neither."""

    rate: float
    buckets: dict[Hashable, RateLimit] = field(default_factory=dict)

    def take(self, key: Hashable, units: float, now: float, max_wait: float = 1e9) -> float | None:
        bucket = self.buckets.get(key)
        if bucket is None:
            bucket = self.buckets[key] = RateLimit(self.rate, _at=now)
        return bucket.take(units, now, max_wait)


@dataclass
class ItemLocks:
    """Allows one transaction at a time on an item. DynamoDB refuses a second transaction meanwhile, and bills it.

    `busy_until`: when the item's transaction ends. `changed_at`: when the item last changed. A transaction that is
    conditional on the item's version fails if it read the item earlier. `held`: transaction seconds, by item."""

    busy_until: dict[Hashable, float] = field(default_factory=dict)
    changed_at: dict[Hashable, float] = field(default_factory=dict)
    held: Counter[Hashable] = field(default_factory=Counter)

    def begin(self, items: Collection[Hashable], now: float, hold: float, read_at: float | None = None) -> bool:
        """Begin a transaction that takes `hold` seconds. Return False if it is refused.

        `read_at`: when the caller read the item's version; None if the transaction is not conditional on a version.
        """
        for item in items:
            if self.busy_until.get(item, 0) > now or (read_at is not None and self.changed_at.get(item, -1) > read_at):
                return False
        for item in items:
            self.busy_until[item] = self.changed_at[item] = now + hold
            self.held[item] += hold  # type: ignore[assignment]
        return True


@dataclass
class ExecutionEnvironments:
    """Lambda's limits: `concurrency` invocations at a time, and `started` new environments for each function in 10 s.

    `start_seconds`: the length of a cold start. `warm`: whether enough environments already run.
    `peak`: the highest number of concurrent invocations so far."""

    concurrency: float
    start_seconds: float
    started: float
    warm: bool = False
    in_use: int = 0
    peak: int = 0
    refused: int = 0
    _busy: Counter[str] = field(default_factory=Counter)
    _warm: Counter[str] = field(default_factory=Counter)
    _starts: dict[str, RateLimit] = field(default_factory=dict)

    def begin(self, function: str, now: float) -> float | None:
        """Begin an invocation. Return the seconds of its cold start, or 0; None if Lambda refuses it."""
        if self.in_use >= self.concurrency:
            self.refused += 1
            return None
        delay = 0.0
        if not self.warm and self._busy[function] >= self._warm[function]:
            starts = self._starts.setdefault(function, RateLimit(self.started / 10, self.started))
            if starts.take(1, now, max_wait=0) is None:
                self.refused += 1
                return None
            self._warm[function] += 1
            delay = self.start_seconds
        self._busy[function] += 1
        self.in_use += 1
        self.peak = max(self.peak, self.in_use)
        return delay

    def end(self, function: str) -> None:
        self._busy[function] -= 1
        self.in_use -= 1


@dataclass
class Pollers:
    """Lambda's pollers of a queue. They run `start` batches at a time.

    In each minute of a backlog, Lambda allows `growth_per_minute` more batches, up to `maximum`."""

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
        """Return how many batches may run now. `backlog`: whether messages wait. If so, Lambda adds pollers.

        Lambda removes pollers after a backlog. The model does not, because its runs are too short for that."""
        if backlog and self._at is not None:
            self._limit = min(self.maximum, self._limit + (now - self._at) / 60 * self.growth_per_minute)
        self._at = now if backlog else None
        return int(min(self._limit, self.maximum))


def jitter(random_source: random.Random, attempt: int) -> float:
    """Return the seconds before the next attempt, as in functions/dynamodb/retry.py."""
    return random_source.random() * 0.01 * (1 << min(attempt, 6))


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile of sorted values, or 0 if there are none. `share`: such as 0.99."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0
