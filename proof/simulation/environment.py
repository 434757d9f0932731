"""Simulates time-based events: scheduled Lambda runs, DynamoDB's TTL deletions and long outages.

The simulation does not run its schedules every minute. When an item is written, the simulation computes which events
may follow from this write, and schedules them for a later virtual time.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from functions.shop.erasure import SETTLE_PERIOD
from local.event_source_mappings import InvocationReturned, Outcome
from local.laptop.schedules import transform_event
from proof.simulation.faults import DAY, HOUR, MINUTE
from proof.simulation.rotations import SecretRotations
from proof.simulation.services import DAILY_QUOTA, LOW_QUOTA, REFUSALS_OF_ALL_MAILS
from proof.simulation.subscribers import FAILING
from proof.simulation.table import Image, Key

if TYPE_CHECKING:
    from proof.simulation.world import Simulation

MAX_EXPIRY_DELAY_SECONDS = 48 * HOUR
"""An expired item stays for a random delay of at most this many seconds after its TTL, until the next daily deletion.
"""
GOES_ROUND_SECONDS = 24 * HOUR
MAX_REPLACEMENT_SECONDS = 10 * MINUTE
OUTAGE_SECONDS = {
    "reader fails": (25 * HOUR, 48 * HOUR),
    "worker fails": (25 * HOUR, 48 * HOUR),
    "mapping off": (26 * HOUR, 50 * HOUR),
    "mails paused": (1 * HOUR, 4 * HOUR),
    "mail quota": (2 * HOUR, 8 * HOUR),
    "rule fails": (48 * HOUR, 96 * HOUR),
    "deadly record": (25 * HOUR, 48 * HOUR),
    "secret rotated": (25 * HOUR, 48 * HOUR),
    "subscriber fails": (2 * HOUR, 80 * HOUR),
}
BEGINS, ENDS = ": begins", ": over"
"""The ends of the notes about an outage in the trace."""


class SimulatedEnvironment:
    """Schedules Lambda runs, TTL deletions and outages in virtual time. `broken_functions` now always fail."""

    def __init__(self, world: "Simulation", rotations: SecretRotations) -> None:
        self._world, self.rotations = world, rotations
        self._tasks, self._rng, self._faults = world.tasks, world.rng, world.faults
        self.broken_functions: set[str] = set()
        self._kept_off: Counter[str] = Counter()
        self._lapses_due: set[int] = set()
        self._erasures_due: set[int] = set()
        self._retries_due: set[int] = set()
        self._webhooks: dict[str, Image] = {}
        self._waiting: dict[Key, Image] = {}
        self._erasing: set[str] = set()
        self._ending: dict[int, list[tuple[Key, str]]] = {}
        lapse = world.template.functions["order_deadlines"].environment
        self._waits = {
            "PENDING": int(lapse["PAYMENT_WINDOW_MINUTES"]) * MINUTE,
            "SHIPPED": int(lapse["ASSUMED_DELIVERED_DAYS"]) * DAY,
        }

    # consequences of a write ------------------------------------------------------------------------------------------
    def schedule_consequences(self, record: dict[str, Any]) -> None:
        """Schedule what may follow from this stream record: the item's TTL deletion, and runs of scheduled Lambdas."""
        image = record["dynamodb"].get("NewImage")
        self._schedule_retries_after(record["dynamodb"]["Keys"], image)
        if image is None:
            return
        if "ttl" in image:
            key = image["PK"]["S"], image["SK"]["S"]
            late = MAX_EXPIRY_DELAY_SECONDS * self._rng.random("expiry", *key) ** 3
            self._schedule_expiry(int(image["ttl"]["N"]) + late, key, image["ttl"]["N"])
        self._schedule_erasures(image)
        if image["type"]["S"] == "Order":
            seconds = self._waits.get(image["status"]["S"])
            if seconds is not None:
                self._schedule_lapse(self._tasks.now + seconds + 5)

    def _schedule_expiry(self, moment: float, key: Key, ttl: str) -> None:
        """Delete an item at the first daily deletion after `moment`, unless its `ttl` changes before."""
        round_ = int(moment // GOES_ROUND_SECONDS + 1) * int(GOES_ROUND_SECONDS)
        if round_ not in self._ending:
            self._ending[round_] = []
            self._tasks.call_at(round_, partial(self._expire, round_))
        self._ending[round_].append((key, ttl))

    def _expire(self, round_: int) -> None:
        ended = dict(self._ending.pop(round_))
        images = {key: self._world.table.image(key) for key in ended}
        self._world.table.expire(
            [key for key, image in images.items() if image and image.get("ttl", {}).get("N") == ended[key]]
        )

    # scheduled Lambda runs --------------------------------------------------------------------------------------------
    def _schedule_lapse(self, moment: float) -> None:
        """Schedule `order_deadlines` at the next two full minutes. A stale index may hide an order from the first."""
        for due in (int(moment // MINUTE) + 1, int(moment // MINUTE) + 2):
            if due not in self._lapses_due:
                self._lapses_due.add(due)
                self._tasks.call_at(due * MINUTE, partial(self._lapse, due * MINUTE))

    def _lapse(self, moment: float) -> None:
        """Run each target of `order_deadlines` if it may have work, and again if it fails or has too little time."""
        if not any(self._may_be_due(image) for image in self._world.table.of_type("Order")):
            return
        event = {"time": datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}

        def done(outcome: Outcome) -> None:
            timeout_seconds = self._world.template.functions["order_deadlines"].timeout_seconds
            late = self._tasks.now - moment > timeout_seconds / 2
            if late or not isinstance(outcome, InvocationReturned):
                self._schedule_lapse(self._tasks.now)

        for number, transformer in enumerate(self._world.template.schedules["order_deadlines"]):
            own = transform_event(transformer, event) if transformer else event
            for again in range(1 + bool(self._faults.draw("schedule twice", event["time"], str(number)))):
                self._world.lambdas.invoke("order_deadlines", own, done, f"{event['time']} {number} {again}")

    def _may_be_due(self, image: Image) -> bool:
        """Return whether `order_deadlines` might have work for this order, sometimes as a stale index shows it."""
        if image["order_id"]["S"] in self._world.poison.order_ids:
            return False
        *_, (changed_at, _) = self._world.table.history[image["PK"]["S"], "ORDER"]
        waited = self._tasks.now - changed_at
        if waited < 2 * MINUTE and self._rng.happens(0.3, "index late", image["order_id"]["S"], self._tasks.now):
            return True
        return waited >= self._waits.get(image["status"]["S"], float("inf"))

    def _schedule_erasures(self, image: Image) -> None:
        """Schedule a run of `customer_erasure`, which really runs every hour, if this write may give it work.

        These are the end of an erasure's waiting period, later writes to half of the customer's items, every fifth day
        until the erasure is finished, and a failed run.
        """
        customer_id = image.get("customer_id", {}).get("S", "")
        if image["type"]["S"] == "ErasedCustomer":
            if image["status"]["S"] == "ERASED":
                self._erasing.discard(customer_id)
                return
            self._erasing.add(customer_id)
            self._schedule_erasure(self._tasks.now + SETTLE_PERIOD.total_seconds())
        if customer_id in self._erasing and self._rng.happens(0.5, "erased soon", image["PK"]["S"], image["SK"]["S"]):
            self._schedule_erasure(self._tasks.now)

    def _schedule_erasure(self, moment: float) -> None:
        self._schedule_erasure_in_hour(int(moment // HOUR) + 1)

    def _schedule_erasure_in_hour(self, hour: int) -> None:
        if hour not in self._erasures_due:
            self._erasures_due.add(hour)
            self._tasks.call_at(hour * HOUR, partial(self._erase, hour * HOUR))

    def _erase(self, moment: float) -> None:
        if not self._erasing:
            return
        self._schedule_erasure_in_hour((int(moment // DAY) + 5) * 24)
        event = {"time": datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}

        def done(outcome: Outcome) -> None:
            if not isinstance(outcome, InvocationReturned):
                self._schedule_erasure(self._tasks.now)

        for again in range(1 + bool(self._faults.draw("schedule twice", "customer_erasure", event["time"]))):
            self._world.lambdas.invoke("customer_erasure", event, done, f"{event['time']} {again}")

    def _schedule_retries_after(self, keys: Image, image: Image | None) -> None:
        """Note which webhooks there are, and which of their objects wait for a retry. Schedule the next run."""
        partition, sort = keys["PK"]["S"], keys["SK"]["S"]
        if partition == "WEBHOOKS":
            self._webhooks.pop(sort, None)
            if image:
                self._webhooks[sort] = image
        elif sort.startswith("CURSOR#"):
            self._waiting.pop((partition, sort), None)
            if image and "retry_at" in image:
                self._waiting[partition, sort] = image
        else:
            return
        self._schedule_retries()

    def _schedule_retries(self) -> None:
        """Schedule a run of `webhook_retries` at the full minute after the next work of a webhook."""
        if waits := list(self._waits_of_webhooks()):
            due = int(max(min(waits), self._tasks.now) // MINUTE) + 1
            if due not in self._retries_due:
                self._retries_due.add(due)
                self._tasks.call_at(due * MINUTE, partial(self._retry_webhooks, due))

    def _retry_webhooks(self, due: int) -> None:
        """If the Lambda `webhook_retries` may have work, run it, sometimes twice."""
        self._retries_due.discard(due)
        if min(self._waits_of_webhooks(), default=inf) > self._tasks.now:
            self._schedule_retries()
            return
        for again in range(1 + bool(self._faults.draw("schedule twice", "webhook_retries", due))):
            self._world.lambdas.invoke("webhook_retries", {}, lambda _: self._schedule_retries(), f"{due} {again}")

    def _waits_of_webhooks(self) -> Iterator[float]:
        """Yield until when each object waits whose next event is to be sent again, and each replay. 0: not at all."""
        active = {sort: webhook for sort, webhook in self._webhooks.items() if webhook["status"]["S"] == "ACTIVE"}
        yield from (0.0 for webhook in active.values() if "replay" in webhook)
        for (partition, _), cursor in self._waiting.items():
            if webhook := active.get(partition):
                yield max(_seconds_of(cursor), _seconds_of(webhook))

    @property
    def has_waiting_webhooks(self) -> bool:
        """Whether a webhook is paused, or has events to be sent again."""
        is_paused = any(webhook["status"]["S"] == "PAUSED" for webhook in self._webhooks.values())
        return is_paused or any(True for _ in self._waits_of_webhooks())

    # long outages -----------------------------------------------------------------------------------------------------
    def schedule_misfortunes(self, era: str, begins: float, lasts_seconds: float) -> None:
        """Schedule random larger faults of an era: outages, splits of shards, and what no Lambda can read.

        During an outage, a function fails at every invocation, or an event source mapping is disabled or replaced.
        """

        def moment(*question: object) -> float:
            """Return when a fault begins: at most 10 minutes after the start of a third, mostly of the first.

            In the first era, clients send most requests just after these starts.
            """
            third = int(3 * self._rng.random("third", era, *question) ** 2) / 3
            return begins + lasts_seconds * third + 10 * MINUTE * self._rng.random("moment", era, *question) ** 4

        for number in range(2):
            self._tasks.call_at(moment("poison", number), partial(self._world.poison.inject, f"{era}-{number}"))
        for number in range(3):
            if strike := self._faults.draw("shard split", era, number):
                self._tasks.call_at(moment("split", number), partial(self._world.stream.split, strike.share))
        for name in self._world.readers:
            for kind in ("mapping replaced", "mapping begun anew"):
                if strike := self._faults.draw(kind, name, era):
                    self._tasks.call_at(moment(kind, name), partial(self._replace, kind, name, strike.share))
        for kind, name in self._possible_outages():
            self._schedule_outage(kind, era, name, moment)

    def _possible_outages(self) -> Iterator[tuple[str, str]]:
        """Yield the kind of each outage that may happen, and the name of the affected function, queue or service."""
        for name in self._world.readers:
            yield from (("mapping off", name), ("reader fails", name), ("deadly record", name))
        for worker in self._world.template.workers:
            yield from (("worker fails", worker.function), ("deadly record", worker.function))
        yield from (("rule fails", queue) for rule in self._world.template.rules for queue in rule.queues)
        yield from (("mails paused", "ses"), ("mail quota", "ses"))
        yield from (("secret rotated", kind) for kind in self.rotations.names)
        yield from (("subscriber fails", name) for name in FAILING if name in self._world.subscribers.endpoints)

    def _replace(self, kind: str, name: str, share: float) -> None:
        """Replace the event source mapping of a function after `share` of 10 minutes without one.

        If `kind` is "mapping replaced", the new mapping resumes from the checkpoint of the old one. Otherwise it begins
        at its configured starting position.
        """

        def begin() -> None:
            self._world.readers[name].replace_mapping(from_checkpoint=kind == "mapping replaced")
            self._switch(name, on=True)

        self._world.note(name, f"{kind}{BEGINS}")
        self._switch(name, on=False)
        self._tasks.call_later(MAX_REPLACEMENT_SECONDS * share, begin)

    def _switch(self, name: str, *, on: bool) -> None:
        """Disable or enable a function's mapping. Outages can overlap: it is enabled when the last of them ends."""
        self._kept_off[name] += -1 if on else 1
        self._world.readers[name].set_enabled(on=not self._kept_off[name])

    def _schedule_outage(self, kind: str, era: str, name: str, moment: Callable[..., float]) -> None:
        if strike := self._faults.draw(kind, name, era):
            starts = moment(kind, name)
            ends = starts + OUTAGE_SECONDS[kind][strike.share > 0.5]
            self._tasks.call_at(starts, partial(self._turn, kind, name, ends, on=False))
            self._tasks.call_at(ends, partial(self._turn, kind, name, ends, on=True))

    def _turn(self, kind: str, name: str, ends: float, *, on: bool) -> None:
        """Begin or end an outage. `ends`: when it ends. `on`: False when the outage begins, True when it ends."""
        self._world.note(name, f"{kind}{ENDS if on else BEGINS}")
        match kind:
            case "mapping off":
                self._switch(name, on=on)
            case "secret rotated":
                (self.rotations.end if on else self.rotations.begin)(name)
            case "subscriber fails":
                self._world.subscribers.turn(name, on=on)
            case "deadly record":
                self._world.lambdas.deadly_next[name] = 0.0 if on else ends
            case "rule fails":
                self._world.bus.failing_until[name] = ends
            case "mails paused":
                self._world.ses.paused_with = (
                    None if on else self._rng.choice(REFUSALS_OF_ALL_MAILS, kind, self._tasks.now)
                )
            case "mail quota":
                self._world.ses.daily_quota = DAILY_QUOTA if on else LOW_QUOTA
            case _ if on:
                self.broken_functions.discard(name)
            case _:
                self.broken_functions.add(name)


def _seconds_of(image: Image) -> float:
    """Return until when a webhook or an object of it waits, in epoch seconds; 0 if it does not wait."""
    return datetime.fromisoformat(image["retry_at"]["S"]).timestamp() if "retry_at" in image else 0.0
