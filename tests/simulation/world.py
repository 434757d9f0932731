"""A whole shop under one seed: the real handlers, the real table and stream mappings, everything else simulated.

    found = World(engine, seed).run()

A seed's story: the shop opens; people order, pay, cancel, while things go wrong; the dust settles and an operator
clears up; a hundred days pass. A quarter of the seeds, and all fierce ones, live on: through a year, in which what has
its time over ends, and things go wrong again; somebody comes back to what is archived, and some of it is restored. Each
time the dust has settled, every invariant must hold.
"""

import itertools
import json
import logging
import os
import random
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any
from unittest import mock

import botocore.endpoint

from functions import wiring
from functions.dynamodb.store import Table
from functions.model.table import BY_TYPE
from functions.shop.shop import Shop
from local.engine import Engine
from ops import restore, sweep
from tests.api.asking import WEBHOOK_SECRETS, Token
from tests.simulation.book import Book, Happened
from tests.simulation.chance import Chance
from tests.simulation.faults import DAY, HOUR, Faults
from tests.simulation.invariants import Steps, broken
from tests.simulation.lambdas import Lambdas, apart, forget
from tests.simulation.nature import Nature
from tests.simulation.operators import Operator, drifted, spoilt
from tests.simulation.people import People, Warehouse
from tests.simulation.poison import Poison
from tests.simulation.provider import Provider
from tests.simulation.queues import Bus, Queue, Worker
from tests.simulation.services import S3, Cognito, DynamoDB, EventBridge, Secrets, Ses, Sqs
from tests.simulation.streams import Reader, Stream
from tests.simulation.table import SimulatedTable, TappedLine
from tests.simulation.tasks import Endless, Tasks, in_turn
from tests.simulation.template import deployed, switches
from tests.simulation.traffic import Command, Traffic
from tests.simulation.wire import Service, Wire

OPENS_AT = datetime(2026, 11, 2, 8, tzinfo=UTC).timestamp()
DAY_ENDS, QUARTER, YEAR = OPENS_AT + 4 * DAY, OPENS_AT + 100 * DAY, OPENS_AT + 470 * DAY
DUST_SETTLES_SECONDS = 13 * HOUR
"""Longer than anything is tried again by itself: a stream record grows too old in twelve hours, a message sooner."""
CLEARING_UPS = 24
"""How often there may be something left to clear up after the last time: the provider takes up to a week."""
PEPPER = "pepper of the simulation"

_tables = itertools.count(1)


@lru_cache(maxsize=1)
def _line(directory: str, engine: Engine) -> TappedLine:
    return TappedLine(engine)


class World:
    """One seed. `only`: the faults and commands that may happen (None: all). `fierce`: with more faults than usual."""

    def __init__(self, engine: Engine, seed: int, only: Collection[str] | None = None, *, fierce: bool = False) -> None:
        self.seed, self.only = seed, only
        self.chance = chance = Chance(seed)
        self.template = deployed(chance.one_of)
        self.trace: list[tuple[float, str, str]] = []
        self.tasks = tasks = Tasks(chance, OPENS_AT, apart)
        self.faults = faults = Faults(
            chance, only, off=True, fierce=fierce, told=lambda strike: self.note("fault", strike.name)
        )
        name = f"simulated-{next(_tables)}"
        self.table = SimulatedTable(_line(str(engine.directory), engine), name, lambda: tasks.now)
        self.stream = Stream()
        self.lambdas = Lambdas(tasks, chance, faults, self.template, self._is_broken, self.note)
        self.s3 = S3(
            now=lambda: tasks.now,
            may_change=lambda bucket: bucket == self.template.failures and self._is("erasure"),
        )
        self.queues = self._queues()
        self.bus = Bus(self.template.rules, self.queues, tasks, chance, faults)
        self.ses = Ses(tasks)
        self.addresses: dict[str, str] = {}
        self.wire = Wire(tasks, faults, chance, self._services())
        self.workers = [
            Worker(settings, self.queues[settings.queue], tasks, faults, self.lambdas)
            for settings in self.template.workers
        ]
        self.readers = {function: self._reader(function) for function in self.template.streams}
        self.stream.readers = list(self.readers.values())
        self.poison = Poison(chance, faults, self.table, self.template, self.queues, self.bus)
        self.nature = Nature(
            tasks=tasks,
            chance=chance,
            faults=faults,
            table=self.table,
            stream=self.stream,
            lambdas=self.lambdas,
            template=self.template,
            readers=self.readers,
            poison=self.poison,
            note=self.note,
        )
        self.people = People(tasks, chance, self.lambdas, self.note)
        self.provider = Provider(self.people, faults, chance)
        fed = {queue for rule in self.template.rules for queue in rule.queues}
        (foreign,) = fed - {worker.queue for worker in self.template.workers}
        self.warehouse = Warehouse(self.people, self.queues[foreign], faults)
        self.traffic = Traffic(chance, self.people, self.provider, self.addresses)
        self.operator = Operator(self)
        self.violations: list[str] = []
        self.set_out: list[str] = []
        self.records: list[dict[str, Any]] = []
        self.happened: list[Happened] = []
        self.steps = Steps()
        self.table.listeners += [
            self.records.append,
            self.steps.look,
            self._tell,
            self.stream.append,
            self.nature.look_ahead,
            self.traffic.hear,
        ]

    def _is_broken(self, function: str) -> bool:
        return function in self.nature.broken

    def _is(self, function: str) -> bool:
        return self.tasks.process is not None and self.tasks.process.name == function

    def _queues(self) -> dict[str, Queue]:
        queues = {
            name: Queue(settings, self.tasks, self.chance, self.faults)
            for name, settings in self.template.queues.items()
        }
        for queue in queues.values():
            if queue.settings.dead_letters:
                queue.dead_letters = queues[queue.settings.dead_letters]
        return queues

    def _services(self) -> dict[str, Service]:
        api = self.template.functions["api"].environment
        secrets = {api["PEPPER_SECRET"]: PEPPER, api["WEBHOOK_SECRET"]: json.dumps(WEBHOOK_SECRETS)}
        secrets[self.template.functions["refunds"].environment["PROVIDER_SECRET"]] = "key of the simulation"
        return {
            "dynamodb": DynamoDB(self.table, self.chance),
            "s3": self.s3,
            "events": EventBridge(self.chance, lambda: self.tasks.now, self.bus.publish),
            "sesv2": self.ses,
            "sqs": Sqs(self.queues),
            "secretsmanager": Secrets(secrets),
            "cognito-idp": Cognito(self.addresses),
        }

    def _reader(self, function: str) -> Reader:
        chosen = switches(lambda values, name: self.chance.one_of(values, "switch", function, name))
        return Reader(
            function=function,
            settings=self.template.mapping(function),
            switches=chosen,
            stream=self.stream,
            tasks=self.tasks,
            chance=self.chance,
            faults=self.faults,
            lambdas=self.lambdas,
            keep=self.s3.keep,
        )

    # the trace --------------------------------------------------------------------------------------------------------
    def note(self, who: str, what: str) -> None:
        self.trace.append((self.tasks.now, who, what))

    def _tell(self, record: dict[str, Any]) -> None:
        change = record["dynamodb"]
        image = change.get("NewImage") or change.get("OldImage")
        by = self.tasks.process.name if self.tasks.process else "time"
        state = image.get("status", {}).get("S", "")
        version = image.get("version", {}).get("N", "")
        place = f"{image['PK']['S']}/{image['SK']['S']}"
        self.note(by, f"{record['eventName']} {place} {state} {version}")
        if happened := Happened.of(record):
            self.happened.append(happened)

    # the story --------------------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Live through the seed, up to its end or to the first time that something is wrong: `violations`."""
        with self._in_place():
            try:
                for until in self._eras():
                    self._settle(until)
                    if self.violations:
                        return
            except Endless:
                self.violations.append(f"nothing_waits_for_ever: {self.tasks.steps} things happened, and more would")

    def _eras(self) -> Iterator[float]:
        """Each era begins when it is asked for, and ends at the moment that is given."""
        self.people.begin("staff", self.traffic.open_shop)
        self.tasks.run(OPENS_AT + HOUR)
        self._go_wrong(
            "day", OPENS_AT + HOUR, 2 * HOUR, [*self.traffic.commands(), *self.operator.replays("day", 5 * DAY)]
        )
        yield DAY_ENDS
        yield QUARTER
        if not (self.faults.fierce or self.chance.happens(0.25, "lives on")):
            return
        expiries = [int(image["ttl"]["N"]) for image in self.table.of_type("Expiry")]
        self._go_wrong("year", min(expiries, default=QUARTER), 3 * DAY, [])
        yield YEAR
        replays = self.operator.replays("late", HOUR)
        self._go_wrong("late", self.tasks.now, HOUR, [*self.traffic.late(), *self.operator.restores(), *replays])
        yield self.tasks.now + 4 * DAY
        yield self.tasks.now + 16 * DAY

    def _go_wrong(self, era: str, begins: float, lasts_seconds: float, commands: Sequence[Command]) -> None:
        """Let faults strike from here on, and people do what they set out to."""
        self.faults.off = False
        self.nature.misfortunes(era, begins, lasts_seconds)
        for command in commands:
            if self.only is None or command.name in self.only:
                self.set_out.append(command.name)
                who = command.name.partition(":")[0]
                at = begins + command.after_seconds
                self.tasks.at(at, partial(self.note, "people", command.name))
                self.people.begin(who, command.do, at - self.tasks.now)

    def _settle(self, until: float) -> None:
        """Let time pass until then, faults strike no more, the dust settle, and an operator clear up."""
        self.tasks.run(until)
        self.faults.off = True
        for _ in range(CLEARING_UPS):
            self.tasks.run(self.tasks.now + DUST_SETTLES_SECONDS)
            if not self.operator.clear_up() and not self.provider.is_busy:
                break
        else:
            self.violations.append("nothing_waits_for_ever: there is still something to clear up")
        self.violations += broken(self, Book(self))
        if not self.violations and self.chance.happens(0.1, "a look for drift", until):
            self.violations += [f"drift: {sentence}" for sentence in drifted(self)]
        if not self.violations and self.chance.happens(0.06, "something drifts", until):
            spoilt(self)
            self.operator.mends()
            self.violations += [*broken(self, Book(self)), *(f"drift: {sentence}" for sentence in drifted(self))]
        self.faults.off = False

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        """Put the simulation in the place of the world: environment, wiring, sleep and chance."""
        ids = itertools.count(1)

        def shop(table_name: str, **settings: Any) -> Shop:
            table = Table(
                self.wire.client("dynamodb"),
                table_name,
                BY_TYPE,
                clock=self.tasks.clock,
                sleep=self.tasks.pause,
                random=lambda: self.chance.number("jitter", next(ids)),
                new_token=lambda: f"{table_name}-{next(ids)}",
                unreadable=wiring.passed_over,
                together=in_turn,
            )
            return Shop(table=table, new_id=lambda: f"id-{next(ids)}", **settings)

        def provider(_url: str, secret_name: str) -> Provider:
            assert wiring.secret(secret_name, int(self.tasks.now // wiring.SECRETS_KEPT_SECONDS))
            return self.provider

        kept = random.getstate()
        random.seed(self.seed)  # botocore's own jitter
        logging.disable(logging.CRITICAL)
        forget()
        try:
            with (
                mock.patch.dict(os.environ, self.template.environment(self.table.name)),
                mock.patch.dict(os.environ, CLIENT_ID=Token.client_id),
                mock.patch.object(wiring, "client", self.wire.client),
                mock.patch.object(wiring, "shop", shop),
                mock.patch.object(wiring, "provider", provider),
                mock.patch.object(botocore.endpoint, "time", self.wire.time),
                mock.patch.object(sweep, "PAGE", self.chance.one_of((100, sweep.PAGE), "a page")),
                mock.patch.object(restore, "MOST_ITEMS", self.chance.one_of((2, restore.MOST_ITEMS), "a transaction")),
            ):
                yield
        finally:
            forget()
            logging.disable(logging.NOTSET)
            random.setstate(kept)
