"""Run profiles, and find the orders a second at which each effect meets its first limit."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

from scale.model import COPIES, EFFECTS, FULFILMENT, PUBLISHER, VERSIONED, Model, Setup
from scale.profiles import Profile, arrivals
from scale.resources import RateLimit, percentile

ORDER, COPIED, MAILED = EFFECTS[FULFILMENT], EFFECTS[COPIES], EFFECTS["order_notification"]
MEASURED = (ORDER, COPIED, MAILED)
FULL_ITEM = 0.6
"""An item whose transactions take this share of the time is full: with random arrivals, most others are refused."""
FULL_VERSIONED = 0.3
"""The same for a total or a series of invoice numbers: it is read before, and if it changes in between, the transaction
fails, too."""
VERSIONED_ITEMS = tuple(f"('{name}'" for name in VERSIONED)
MAX_GROWTH = 0.05
"""If more than this share of the effects is left over, orders come faster than the effect follows."""
MAX_LOST = 0.002
COUNTS, COUNTED_SECONDS = 16, 2.0
"""How often, and over how many seconds, the waiting effects are counted. A batch of copies is collected for as long."""
FULL, NOT_FULL = 1.02, 0.5
"""A rate up to the first is not exceeded, because orders come by chance. Invocations that are not refused count at most
as the second, because the most at one moment says little."""
MAX_SECONDS = 10.0
ORDERS, MOST_ORDERS = 1_000, 15_000
SHORTEST, LONGEST = 12.0, 200.0
"""A run has at least ORDERS, and lasts at least SHORTEST simulated seconds unless these are more than MOST_ORDERS. So
batches of copies, which are collected for two seconds, come in several waves."""


@dataclass(frozen=True)
class Load:
    """How full a key, lane or quota is: 1 if it takes no more. `limit`: its id in scale/limits.py.

    `is_rate`: whether it takes so much a second, and the share is that of the last third of the run.
    """

    limit: str
    what: str
    share: float
    effects: tuple[str, ...] = MEASURED
    is_rate: bool = False


@dataclass(frozen=True)
class Run:
    """A finished run. `rate`: orders a second.

    `waiting`: how many effects waited after two thirds of it, and at its end, on average of some moments before.
    `before`: what each rate limit had given after two thirds.
    """

    model: Model
    rate: float
    seconds: float
    waiting: Mapping[str, tuple[float, float]]
    before: Mapping[int, float]

    def _all(self, effect: str) -> Iterator[tuple[float, float]]:
        """Yield when each effect was requested, and its delay so far, without the first third of the run."""
        model = self.model
        waiting = ((began, model.env.now) for began in model.pending[effect].values())
        for began, done in (*model.effects[effect], *waiting):
            if began > self.seconds / 3:
                yield began, done - began

    def delays(self, effect: str) -> list[float]:
        """Return the sorted delays of an effect. An effect that has not happened counts with its delay so far."""
        return sorted(delay for _, delay in self._all(effect))

    def percentiles(self, effect: str) -> tuple[float, float]:
        delays = self.delays(effect)
        return percentile(delays, 0.50), percentile(delays, 0.99)

    def is_left_behind(self, effect: str) -> bool:
        """Return whether effects are requested faster than they happen, beyond what chance explains."""
        asked = sum(began > self.seconds * 2 / 3 for began, _ in self._all(effect))
        before, now = self.waiting[effect]
        return now - before > MAX_GROWTH * asked + 3 * sqrt(before)

    def holds(self, effect: str) -> bool:
        """Return whether the effect follows: no order is lost, and the delay neither grows nor is too long."""
        kept = sum(self.model.lost.values()) <= MAX_LOST * self.model.orders
        within = all(load.share <= FULL for load in self.loads if load.is_rate and effect in load.effects)
        return kept and within and not self.is_left_behind(effect) and self.percentiles(effect)[1] <= MAX_SECONDS

    @cached_property
    def loads(self) -> Sequence[Load]:
        """Every key, lane and quota of the run, the fullest first."""
        return sorted(self._loads(), key=lambda load: -load.share)

    def first_limit(self, effect: str) -> Load:
        return next(load for load in self.loads if effect in load.effects)

    def _loads(self) -> Iterator[Load]:
        model, seconds = self.model, self.model.env.now
        limits = model.setup.limits

        def load(limit: str, what: str, bucket: RateLimit, effects: tuple[str, ...] = MEASURED) -> Load:
            used = (bucket.used - self.before.get(id(bucket), 0)) / (self.seconds / 3)
            return Load(limit, what, used / bucket.rate, effects, is_rate=True)

        for (where, kind), bucket in model.throughput.items():
            initial = model.setup.fresh_table and limits[f"initial-{kind}"] < limits[f"table-{kind}"]
            yield load(f"{'initial' if initial else 'table'}-{kind}", where, bucket)
        for limit, hot in (
            ("partition-write", model.hot_writes),
            ("partition-read", model.hot_reads),
            ("index-write", model.hot_index_writes),
        ):
            for key, bucket in sorted(hot.buckets.items(), key=lambda one: -one[1].used)[:3]:
                yield load(limit, describe_key(key), bucket, key_effects(str(key)))
        for item, held in model.locks.held.most_common(5):
            full = FULL_VERSIONED if str(item).startswith(VERSIONED_ITEMS) else FULL_ITEM
            yield Load("item-transaction", describe_key(item), held / seconds / full, key_effects(str(item)))
        yield load("put-events", "all events", model.put_events, (ORDER, MAILED))
        yield load("bus-targets", "all events", model.targets, (ORDER, MAILED))
        yield load("api-throttle", "all requests", model.api_limits["account"])
        for name in ("requests", "webhooks"):
            yield load(f"stage-{name}", f"the throttle of {name}", model.api_limits[name])
        for customer, bucket in model.writes_of.items():
            yield load("customer-writes", f"the orders of {customer}", bucket)
        most = model.lambdas.most / model.lambdas.concurrency
        yield Load("lambda-concurrency", "all functions", most if model.lambdas.refused else min(most, NOT_FULL))
        if model.setup.mails:
            yield load("ses-rate", "all mails", model.mail_rate, (MAILED,))
        yield from self._lane_loads(seconds)

    def _lane_loads(self, seconds: float) -> Iterator[Load]:
        """Yield the loads of the lanes of stream shards, and of the pollers of queues."""
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
    """Return the effects that need a shared key."""
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
    """Run a profile at this rate. `seconds`: of simulated time; 0 if the number of orders decides."""
    seconds = seconds or min(LONGEST, max(min(SHORTEST, MOST_ORDERS / rate), ORDERS / rate))
    model = Model(profile.prepare(setup), seed)
    model.env.process(arrivals(model, profile, rate, seconds))
    first = run_and_count(model, seconds * 2 / 3)
    before = {id(bucket): bucket.used for bucket in model.rate_limits()}
    last = run_and_count(model, seconds)
    waiting = {effect: (first[effect], last[effect]) for effect in MEASURED}
    return Run(model, rate, seconds, waiting, before)


def run_and_count(model: Model, until: float) -> Mapping[str, float]:
    """Run until a time. Return how many effects waited on average of the last seconds: batches come in waves."""
    counts: dict[str, list[int]] = {effect: [] for effect in MEASURED}
    for step in range(COUNTS):
        at = until - COUNTED_SECONDS * (COUNTS - 1 - step) / COUNTS
        if at > model.env.now:
            model.env.run(at)
            for effect, found in counts.items():
                found.append(len(model.pending[effect]))
    return {effect: sum(found) / len(found) for effect, found in counts.items()}


@dataclass(frozen=True)
class Ceiling:
    """The most orders a second at which an effect follows, and the limit above it. `at_80`: a run at 80 % of it."""

    effect: str
    rate: float
    limit: Load
    at_80: Run


class Search:
    """Finds ceilings of one profile. Runs are kept, because several effects need the same ones."""

    def __init__(self, setup: Setup, profile: Profile) -> None:
        self.setup, self.profile = setup, profile
        self._runs: dict[float, Run] = {}

    def run(self, rate: float) -> Run:
        rate = float(f"{rate:.2g}") if rate < 100 else float(round(rate, -1))
        if rate not in self._runs:
            self._runs[rate] = run_profile(self.setup, self.profile, rate)
        return self._runs[rate]

    def ceiling(self, effect: str, start: float = 50.0) -> Ceiling:
        """Raise the rate until the effect does not follow, then halve the interval between both."""
        low, high = 0.0, start
        while (tried := self.run(high)).holds(effect) and high < 100_000:
            low = tried.rate
            high = low * (4 if tried.first_limit(effect).share < 0.2 else 2)
        failed = tried
        while low and failed.rate / low > 1.12:
            between = self.run((low * failed.rate) ** 0.5)
            if between.rate in (low, failed.rate):
                break
            if between.holds(effect):
                low = between.rate
            else:
                failed = between
        if not low:
            return self.ceiling(effect, start / 4)
        return Ceiling(effect, low, failed.first_limit(effect), self.run(0.8 * low))
