"""Simulates time-based events: schedules, DynamoDB's TTL deletions and long outages.

No code polls here. When a stream record is written, its consequences are scheduled for a later virtual time.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from functions.shop.erasure import SETTLE_PERIOD
from local.event_source_mappings import InvocationReturned, Outcome
from tests.simulation.faults import DAY, HOUR, MINUTE, FaultInjector
from tests.simulation.lambdas import SimulatedLambda
from tests.simulation.poison import Poison
from tests.simulation.rng import SeededRandom
from tests.simulation.scheduler import VirtualScheduler
from tests.simulation.streams import SimulatedReader, SimulatedStream
from tests.simulation.table import Image, Key, SimulatedTable
from tests.simulation.template import StackModel

MAX_EXPIRY_DELAY_SECONDS = 48 * HOUR
"""How many seconds after its TTL DynamoDB may delete an item (Developer guide: "within a few days")."""
GOES_ROUND_SECONDS = 24 * HOUR
MAX_REPLACEMENT_SECONDS = 10 * MINUTE
OUTAGE_SECONDS = {
    "reader fails": (25 * HOUR, 48 * HOUR),
    "worker fails": (25 * HOUR, 48 * HOUR),
    "mapping off": (26 * HOUR, 50 * HOUR),
}


@dataclass
class SimulatedEnvironment:
    """Schedules time-based events. `broken_functions`: the functions that currently fail at every invocation."""

    tasks: VirtualScheduler
    chance: SeededRandom
    faults: FaultInjector
    table: SimulatedTable
    stream: SimulatedStream
    lambdas: SimulatedLambda
    template: StackModel
    readers: dict[str, SimulatedReader]
    poison: Poison
    note: Callable[[str, str], None]
    broken_functions: set[str] = field(default_factory=set)
    _kept_off: Counter[str] = field(default_factory=Counter)
    _lapses_due: set[int] = field(default_factory=set)
    _erasures_due: set[int] = field(default_factory=set)
    _erasing: set[str] = field(default_factory=set)
    _ending: dict[int, list[tuple[Key, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lapse = self.template.functions["lapse"].environment
        self._waits = {
            "PENDING": int(lapse["PAYMENT_WINDOW_MINUTES"]) * MINUTE,
            "SHIPPED": int(lapse["ASSUMED_DELIVERED_DAYS"]) * DAY,
        }

    # consequences of a write ------------------------------------------------------------------------------------------
    def schedule_consequences(self, record: dict[str, Any]) -> None:
        """Schedule what follows from a stream record: the TTL deletion, an erasure, the end of an unpaid order."""
        image = record["dynamodb"].get("NewImage")
        if image is None:
            return
        if "ttl" in image:
            key = image["PK"]["S"], image["SK"]["S"]
            late = MAX_EXPIRY_DELAY_SECONDS * self.chance.random("expiry", *key) ** 3
            self._schedule_expiry(int(image["ttl"]["N"]) + late, key, image["ttl"]["N"])
        self._schedule_erasures(image)
        if image["type"]["S"] == "Order":
            seconds = self._waits.get(image["status"]["S"])
            if seconds is not None:
                self._schedule_lapse(self.tasks.now + seconds + 5)

    def _schedule_expiry(self, moment: float, key: Key, ttl: str) -> None:
        """Schedule the deletion of an expired item. Items are deleted once a day, as by a background scan."""
        round_ = int(moment // GOES_ROUND_SECONDS + 1) * int(GOES_ROUND_SECONDS)
        if round_ not in self._ending:
            self._ending[round_] = []
            self.tasks.call_at(round_, partial(self._expire, round_))
        self._ending[round_].append((key, ttl))

    def _expire(self, round_: int) -> None:
        ended = dict(self._ending.pop(round_))
        images = {key: self.table.image(key) for key in ended}
        self.table.expire(
            [key for key, image in images.items() if image and image.get("ttl", {}).get("N") == ended[key]]
        )

    # the schedule -----------------------------------------------------------------------------------------------------
    def _schedule_lapse(self, moment: float) -> None:
        """Schedule two runs of the lapse function (it ends unpaid orders, and marks late shipments as delivered).

        The real schedule runs the function every minute. The simulation runs it only if an order may be due. The second
        run, a minute later, finds orders that a lagging index hides from the first run.
        """
        for due in (int(moment // MINUTE) + 1, int(moment // MINUTE) + 2):
            if due not in self._lapses_due:
                self._lapses_due.add(due)
                self.tasks.call_at(due * MINUTE, partial(self._lapse, due * MINUTE))

    def _lapse(self, moment: float) -> None:
        """Run the lapse function (it ends unpaid orders) if an order may be due. If it fails, schedule another run."""
        if not any(self._may_be_due(image) for image in self.table.of_type("Order")):
            return
        event = {"time": datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}

        def done(outcome: Outcome) -> None:
            if not isinstance(outcome, InvocationReturned):
                self._schedule_lapse(self.tasks.now)

        for again in range(1 + bool(self.faults.draw("schedule twice", event["time"]))):
            self.lambdas.invoke("lapse", event, done, f"{event['time']} {again}")

    def _may_be_due(self, image: Image) -> bool:
        """Return whether the lapse function may end this order as unpaid, or mark its shipments as delivered.

        An order is due if it has had its status long enough. Sometimes the result is also True if the order changed
        less than two minutes ago, because a lagging index may still show the old status.
        """
        if image["order_id"]["S"] in self.poison.order_ids:
            return False
        *_, (changed_at, _) = self.table.history[image["PK"]["S"], "ORDER"]
        waited = self.tasks.now - changed_at
        if waited < 2 * MINUTE and self.chance.happens(0.3, "index late", image["order_id"]["S"], self.tasks.now):
            return True
        return waited >= self._waits.get(image["status"]["S"], float("inf"))

    def _schedule_erasures(self, image: Image) -> None:
        """Schedule the erasure function after a write, if the function may have work.

        The real schedule runs the function every hour. The simulation runs it after half of the writes of a customer
        during the erasure. It also runs it when the settle period (the time that an erasure must wait) is over, and
        every five days while an erasure is open.
        """
        customer_id = image.get("customer_id", {}).get("S", "")
        if image["type"]["S"] == "ErasedCustomer":
            if image["status"]["S"] == "ERASED":
                self._erasing.discard(customer_id)
                return
            self._erasing.add(customer_id)
            self._schedule_erasure(self.tasks.now + SETTLE_PERIOD.total_seconds())
        if customer_id in self._erasing and self.chance.happens(0.5, "erased soon", image["PK"]["S"], image["SK"]["S"]):
            self._schedule_erasure(self.tasks.now)

    def _schedule_erasure(self, moment: float) -> None:
        self._schedule_erasure_in_hour(int(moment // HOUR) + 1)

    def _schedule_erasure_in_hour(self, hour: int) -> None:
        if hour not in self._erasures_due:
            self._erasures_due.add(hour)
            self.tasks.call_at(hour * HOUR, partial(self._erase, hour * HOUR))

    def _erase(self, moment: float) -> None:
        if not self._erasing:
            return
        self._schedule_erasure_in_hour((int(moment // DAY) + 5) * 24)
        event = {"time": datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}

        def done(outcome: Outcome) -> None:
            if not isinstance(outcome, InvocationReturned):
                self._schedule_erasure(self.tasks.now)

        for again in range(1 + bool(self.faults.draw("schedule twice", "erasure", event["time"]))):
            self.lambdas.invoke("erasure", event, done, f"{event['time']} {again}")

    # long outages -----------------------------------------------------------------------------------------------------
    def schedule_misfortunes(self, era: str, begins: float, lasts_seconds: float) -> None:
        """Draw and schedule the outages of an era (a part of the run). An outage lasts at most 50 hours."""

        def moment(*question: object) -> float:
            """Return a time soon after the start of one third of the era, mostly the first third.

            On the first day, clients send most of their requests at these times.
            """
            third = int(3 * self.chance.random("third", era, *question) ** 2) / 3
            return begins + lasts_seconds * third + 10 * MINUTE * self.chance.random("moment", era, *question) ** 4

        for number in range(2):
            self.tasks.call_at(moment("poison", number), partial(self.poison.inject, f"{era}-{number}"))
        for number in range(3):
            if strike := self.faults.draw("shard split", era, number):
                self.tasks.call_at(moment("split", number), partial(self.stream.split, strike.share))
        for name in self.readers:
            for kind in ("mapping replaced", "mapping begun anew"):
                if strike := self.faults.draw(kind, name, era):
                    replace = partial(self._replace, name, strike.share, from_checkpoint=kind == "mapping replaced")
                    self.tasks.call_at(moment(kind, name), replace)
            self._schedule_outage("mapping off", era, name, moment)
            self._schedule_outage("reader fails", era, name, moment)
        for worker in self.template.workers:
            self._schedule_outage("worker fails", era, worker.function, moment)

    def _replace(self, name: str, share: float, *, from_checkpoint: bool) -> None:
        """Delete an event source mapping and create a new one up to 10 minutes later."""

        def begin() -> None:
            self.readers[name].replace_mapping(from_checkpoint=from_checkpoint)
            self._switch(name, on=True)

        self._switch(name, on=False)
        self.tasks.call_later(MAX_REPLACEMENT_SECONDS * share, begin)

    def _switch(self, name: str, *, on: bool) -> None:
        """Add or remove one reason to disable an event source mapping. Enable the mapping if no reason is left.

        `on`: remove the reason.
        """
        self._kept_off[name] += -1 if on else 1
        self.readers[name].set_enabled(on=not self._kept_off[name])

    def _schedule_outage(self, kind: str, era: str, name: str, moment: Callable[..., float]) -> None:
        if strike := self.faults.draw(kind, name, era):
            starts = moment(kind, name)
            self.tasks.call_at(starts, partial(self._turn, kind, name, on=False))
            self.tasks.call_at(
                starts + OUTAGE_SECONDS[kind][strike.share > 0.5], partial(self._turn, kind, name, on=True)
            )

    def _turn(self, kind: str, name: str, *, on: bool) -> None:
        self.note(name, f"{kind}: {'over' if on else 'begins'}")
        if kind == "mapping off":
            self._switch(name, on=on)
        elif on:
            self.broken_functions.discard(name)
        else:
            self.broken_functions.add(name)
