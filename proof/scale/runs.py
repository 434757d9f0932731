"""Simulate load profiles. Find the highest rate at which each effect keeps up with the orders, and the AWS limit that
prevents a higher rate."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

from proof.scale.model import COPIES, EFFECTS, FULFILMENT, PUBLISHER, VERSIONED, Model, Setup
from proof.scale.profiles import Profile, arrivals
from proof.scale.resources import RateLimit, percentile

ORDER, COPIED, MAILED = EFFECTS[FULFILMENT], EFFECTS[COPIES], EFFECTS["order_notification"]
MEASURED = (ORDER, COPIED, MAILED)
FULL_ITEM_SHARE = 0.6
"""An item counts as fully used if transactions hold it for this share of the time: then most new transactions fail."""
FULL_VERSIONED_SHARE = 0.3
"""Replaces FULL_ITEM_SHARE for totals and invoice series: their transactions also fail if the item has changed."""
VERSIONED_ITEMS = tuple(f"('{name}'" for name in VERSIONED)
MAX_LEFT_SHARE = 0.05
"""How much the number of waiting effects may grow in the last third of a run, as a share of the effects requested."""
MAX_LOST_SHARE = 0.002
SAMPLES, SAMPLED_SECONDS = 16, 2.0
"""The waiting effects are counted this often within these seconds, which are one batch window of copies_reader."""
MAX_RATE_SHARE = 1.02
"""The highest used share of a rate limit at which an effect keeps up. It exceeds 1, because orders arrive at random."""
UNREFUSED_SHARE = 0.5
"""If Lambda refused no invocation, a higher used share of its concurrency counts as 0.5: a short peak does no harm."""
MAX_P99_SECONDS = 10.0
MIN_ORDERS, MAX_ORDERS = 1_000, 15_000
MIN_RUN_SECONDS, MAX_RUN_SECONDS = 12.0, 200.0
"""The simulated seconds of a run. A run has at least MIN_ORDERS orders. It lasts at least MIN_RUN_SECONDS (several
batch windows of copies_reader), but is shorter if it would otherwise have more than MAX_ORDERS orders."""


@dataclass(frozen=True)
class Load:
    """The used share of a limit. `limit`: its id in proof/scale/limits.py. `what`: the key, reader, queue or quota.

    `share`: 1 if the limit is fully used. `effects`: the effects that depend on the limit. `is_rate`: whether the
    limit is a rate. If so, `share` covers only the last third of the run."""

    limit: str
    what: str
    share: float
    effects: tuple[str, ...] = MEASURED
    is_rate: bool = False


@dataclass(frozen=True)
class Run:
    """A finished simulation run. `rate`: orders a second.

    `waiting`: how many effects waited after two thirds of the run, and at its end. `before`: how many units of each
    rate limit the first two thirds of the run used, by the id() of the limit."""

    model: Model
    rate: float
    seconds: float
    waiting: Mapping[str, tuple[float, float]]
    before: Mapping[int, float]

    def _measured_delays(self, effect: str) -> Iterator[tuple[float, float]]:
        """Yield the request time and the delay of each effect. Skips the first third of the run."""
        model = self.model
        waiting = ((began, model.env.now) for began in model.pending[effect].values())
        for began, done in (*model.effects[effect], *waiting):
            if began > self.seconds / 3:
                yield began, done - began

    def delays(self, effect: str) -> list[float]:
        """Return the sorted delays of an effect in seconds. An effect that still waits counts with its wait so far."""
        return sorted(delay for _, delay in self._measured_delays(effect))

    def percentiles(self, effect: str) -> tuple[float, float]:
        delays = self.delays(effect)
        return percentile(delays, 0.50), percentile(delays, 0.99)

    def falls_behind(self, effect: str) -> bool:
        """Return whether the number of waiting effects grows in the last third of the run, by more than chance."""
        asked = sum(began > self.seconds * 2 / 3 for began, _ in self._measured_delays(effect))
        before, now = self.waiting[effect]
        return now - before > MAX_LEFT_SHARE * asked + 3 * sqrt(before)

    def keeps_up(self, effect: str) -> bool:
        """Return whether the effect keeps up: few orders are lost, and its delay is short and does not grow."""
        kept = sum(self.model.lost.values()) <= MAX_LOST_SHARE * self.model.orders
        within = all(load.share <= MAX_RATE_SHARE for load in self.loads if load.is_rate and effect in load.effects)
        return kept and within and not self.falls_behind(effect) and self.percentiles(effect)[1] <= MAX_P99_SECONDS

    @cached_property
    def loads(self) -> Sequence[Load]:
        """The used shares of all limits of the run, the highest first."""
        return sorted(self._loads(), key=lambda load: -load.share)

    def first_limit(self, effect: str) -> Load:
        return next(load for load in self.loads if effect in load.effects)

    def _loads(self) -> Iterator[Load]:
        model, seconds = self.model, self.model.env.now

        def load(limit: str, what: str, bucket: RateLimit, effects: tuple[str, ...] = MEASURED) -> Load:
            used = (bucket.used - self.before.get(id(bucket), 0)) / (self.seconds / 3)
            return Load(limit, what, used / bucket.rate, effects, is_rate=True)

        for (where, kind), bucket in model.throughput.items():
            yield load(f"table-{kind}", where, bucket)
        for limit, hot in (
            ("partition-write", model.hot_writes),
            ("partition-read", model.hot_reads),
            ("index-write", model.hot_index_writes),
        ):
            for key, bucket in sorted(hot.buckets.items(), key=lambda one: -one[1].used)[:3]:
                yield load(limit, describe_key(key), bucket, key_effects(str(key)))
        for item, held in model.locks.held.most_common(5):
            full = FULL_VERSIONED_SHARE if str(item).startswith(VERSIONED_ITEMS) else FULL_ITEM_SHARE
            yield Load("item-transaction", describe_key(item), held / seconds / full, key_effects(str(item)))
        yield load("put-events", "all events", model.put_events, (ORDER, MAILED))
        yield load("bus-targets", "all events", model.targets, (ORDER, MAILED))
        yield load("api-throttle", "all requests", model.api_limits["account"])
        for name in ("requests", "webhooks"):
            yield load(f"stage-{name}", f"the throttle of {name}", model.api_limits[name])
        peak = model.lambdas.peak / model.lambdas.concurrency
        yield Load("lambda-concurrency", "all functions", peak if model.lambdas.refused else min(peak, UNREFUSED_SHARE))
        yield from self._lane_loads(seconds)

    def _lane_loads(self, seconds: float) -> Iterator[Load]:
        """Yield how busy the lanes (parallel batches) of each stream reader and the pollers of each queue are."""
        model = self.model
        for reader, effects in ((COPIES, (COPIED,)), (PUBLISHER, (ORDER, MAILED))):
            number = model.setup.stream_shards * model.deployment.readers[reader].parallelization
            busy = sum(lane.busy_seconds for (name, _, _), lane in model.lanes.items() if name == reader)
            yield Load("parallelization", f"the lanes of {reader}", busy / seconds / number, effects)
        for name, queue in model.queues.items():
            effects = (ORDER,) if queue.reaction == FULFILMENT else (MAILED,)
            is_mapping = queue.pollers.maximum == queue.mapping.max_concurrency
            limit = "max-concurrency" if is_mapping else "queue-maximum"
            share = queue.pollers.busy_seconds / seconds / queue.pollers.maximum
            yield Load(limit, f"the queue {name}", share, effects)


def key_effects(key: str) -> tuple[str, ...]:
    """Return the effects that wait if a shared key is busy. `key`: the key or item as text."""
    if any(
        name in key for name in ("SalesMinute", "SALES_MINUTE", "BestSeller", "SEASON", "SALES", "ACTIVITY", "PRODUCT#")
    ):
        return (COPIED,)
    if "InvoiceSeries" in key or "SERIES#" in key:
        return (ORDER,)
    return MEASURED


def describe_key(key: object) -> str:
    parts = key if isinstance(key, tuple) else (key,)
    flat = [str(part) for one in parts for part in (one if isinstance(one, tuple) else (one,))]
    return " ".join(part for part in flat if part != "table")


def run_profile(setup: Setup, profile: Profile, rate: float, seconds: float = 0, seed: int = 1) -> Run:
    """Simulate a load profile with `rate` orders a second. `seconds`: simulated time; 0 to derive it from `rate`."""
    seconds = seconds or min(MAX_RUN_SECONDS, max(min(MIN_RUN_SECONDS, MAX_ORDERS / rate), MIN_ORDERS / rate))
    model = Model(profile.prepare(setup), seed)
    model.env.process(arrivals(model, profile, rate, seconds))
    first = run_and_count(model, seconds * 2 / 3)
    before = {id(bucket): bucket.used for bucket in model.rate_limits()}
    last = run_and_count(model, seconds)
    waiting = {effect: (first[effect], last[effect]) for effect in MEASURED}
    return Run(model, rate, seconds, waiting, before)


def run_and_count(model: Model, until: float) -> Mapping[str, float]:
    """Run the model until a time. Return how many effects of each kind wait then.

    Batches come in waves, so each number is the average of the last SAMPLES counts."""
    counts: dict[str, list[int]] = {effect: [] for effect in MEASURED}
    for step in range(SAMPLES):
        at = until - SAMPLED_SECONDS * (SAMPLES - 1 - step) / SAMPLES
        if at > model.env.now:
            model.env.run(at)
            for effect, found in counts.items():
                found.append(len(model.pending[effect]))
    return {effect: sum(found) / len(found) for effect, found in counts.items()}


@dataclass(frozen=True)
class Ceiling:
    """An effect's highest possible rate, the limit that prevents a higher rate, and a run at 80 % of that rate."""

    effect: str
    rate: float
    limit: Load
    at_80: Run


class Search:
    """Finds the highest rates of a load profile. Caches runs, because several effects need the same runs."""

    def __init__(self, setup: Setup, profile: Profile) -> None:
        self.setup, self.profile = setup, profile
        self._runs: dict[float, Run] = {}

    def run(self, rate: float) -> Run:
        rate = float(f"{rate:.2g}") if rate < 100 else float(round(rate, -1))
        if rate not in self._runs:
            self._runs[rate] = run_profile(self.setup, self.profile, rate)
        return self._runs[rate]

    def ceiling(self, effect: str, start: float = 50.0) -> Ceiling:
        """Find the highest rate at which an effect keeps up. `start`: the first rate to try.

        Raises the rate until the effect does not keep up, then halves the interval."""
        low, high = 0.0, start
        while (tried := self.run(high)).keeps_up(effect) and high < 100_000:
            low = tried.rate
            high = low * (4 if tried.first_limit(effect).share < 0.2 else 2)
        failed = tried
        while low and failed.rate / low > 1.12:
            between = self.run((low * failed.rate) ** 0.5)
            if between.rate in (low, failed.rate):
                break
            if between.keeps_up(effect):
                low = between.rate
            else:
                failed = between
        if not low:
            return self.ceiling(effect, start / 4)
        return Ceiling(effect, low, failed.first_limit(effect), self.run(0.8 * low))
