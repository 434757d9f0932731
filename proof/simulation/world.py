"""Simulates a whole shop from one random seed. Only the Lambda handlers and the local DynamoDB engine are real.

    simulation = Simulation(engine, seed)
    simulation.run()
    simulation.violations

A run has several parts, called eras. In each era, clients send requests while faults are injected. Then the faults
stop, an operator repairs the failures, and every invariant (a check of the whole shop) must hold. An oracle, which does
not use the product's code, must find no error either.

The first era lasts four days, and the second one lasts until day 100. A quarter of the runs, and all runs with
`fierce`, continue for a year: items expire, clients use archived orders, and an operator restores some of these orders.
At the end of some runs, customers try to read the data of others.
"""

import itertools
import json
import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any, Literal, get_args
from unittest import mock

import botocore.endpoint

from functions.adapters import payment_provider, webhook_sender
from functions.adapters.payment_provider import HttpPaymentProvider
from functions.dynamodb.table import Table
from functions.model.table import ROWS_BY_TYPE
from functions.runtime import clients, secrets
from functions.runtime.log import LOGGER_NAME, JsonFormatter, log_unreadable, metrics_logger
from functions.shop import imports
from functions.shop.shop import ShopContext
from local.world.dynamodb_engine import Engine
from ops.commands import restore
from ops.scan import sweep
from proof.oracle import judge
from proof.simulation.clients import ApiClients, SimulatedWarehouse
from proof.simulation.environment import SimulatedEnvironment
from proof.simulation.faults import DAY, HOUR, FaultInjector
from proof.simulation.invariants import WriteChecks, find_violations
from proof.simulation.lambdas import SimulatedLambda, clear_caches, save_router_state
from proof.simulation.ledger import Ledger, RecordedChange
from proof.simulation.observing import collect_observations
from proof.simulation.operators import Operator, corrupt_copies, drift_violations
from proof.simulation.poison import Poison
from proof.simulation.provider import FIRST_API_KEY, SimulatedProvider
from proof.simulation.queues import QueueWorker, SimulatedBus, SimulatedQueue
from proof.simulation.reaction_invariants import find_reaction_violations
from proof.simulation.rng import SeededRandom
from proof.simulation.rotations import PROVIDER_KEY, WEBHOOK_SECRET, SecretRotations
from proof.simulation.scheduler import TooManySteps, VirtualScheduler, run_sequentially
from proof.simulation.services import (
    SimulatedCognito,
    SimulatedDynamoDB,
    SimulatedEventBridge,
    SimulatedS3,
    SimulatedSecrets,
    SimulatedSes,
    SimulatedSqs,
)
from proof.simulation.situations import SITUATIONS
from proof.simulation.streams import SimulatedReader, SimulatedStream
from proof.simulation.subscribers import SimulatedSubscribers
from proof.simulation.table import SimulatedTable, TracedEngineConnection
from proof.simulation.template import choose_deployment
from proof.simulation.traffic import PlannedCommand, SimulatedTraffic
from proof.simulation.wire import Service, SimulatedWire
from proof.support.example_migrations import reading_former_names
from proof.support.http_client import WEBHOOK_SECRETS, Token

OPENS_AT = datetime(2026, 11, 2, 8, tzinfo=UTC).timestamp()
EDGES = tuple(
    datetime(*at, minute=17, tzinfo=UTC).timestamp()
    for at in ((2026, 11, 30, 22), (2026, 12, 30, 8), (2026, 12, 31, 22), (2028, 2, 28, 22), (2028, 2, 29, 8))
)
"""Other times at which the shop of a run may open.

They are at the end of a month, at the end of a year (then the invoice numbers begin again at 1) and at a leap day. They
are not on the hour, because DynamoDB deletes expired items at midnight.
"""
DAY_ENDS, QUARTER, YEAR, TWO_YEARS, THREE_YEARS = 4 * DAY, 100 * DAY, 470 * DAY, 800 * DAY, 1_110 * DAY
"""When the eras end, in seconds after the shop opens."""
QUIET_SECONDS = 13 * HOUR
"""How long the simulation waits before the operator repairs failures. All automatic retries have ended at this time.

The event source mapping of the stream retries a record for at most 12 hours. A queue moves a failed message to its
dead-letter queue in less time.
"""
MAX_CLEAN_UPS = 24
"""How often the operator may repair failures in one era (a part of the run). If failures are left, the test fails.

24 rounds of 13 hours are 13 days. The simulated payment provider may need up to a week to finish.
"""
PEPPER = "pepper of the simulation"
Judge = Literal["invariants", "oracle"]
JUDGES: tuple[Judge, ...] = get_args(Judge)

_tables = itertools.count(1)


@lru_cache(maxsize=1)
def _engine_connection(directory: str, engine: Engine) -> TracedEngineConnection:
    return TracedEngineConnection(engine)


class Simulation:
    """One simulation run of the whole shop. The seed decides all faults and commands of the run.

    `only`: the names of the faults and commands that may happen. None: all of them may happen. `fierce`: inject faults
    more often. `judges`: who checks the shop after each era: the invariants, which use the product's code, the oracle,
    which does not, or both. `opens_at`: when the shop opens, in epoch seconds; None: the seed decides. `reaction`: the
    name of a reaction whose own invariants are checked, too (proof/reactions). `premises`: how often each invariant and
    each rule of the oracle had something to check. `situations`: how often each situation of SITUATIONS occurred.
    `exceptions`: how many violations each exception allowed.
    """

    def __init__(
        self,
        engine: Engine,
        seed: int,
        only: Collection[str] | None = None,
        *,
        fierce: bool = False,
        judges: Collection[Judge] = JUDGES,
        opens_at: float | None = None,
        reaction: str = "",
    ) -> None:
        self.seed, self.only, self.judges, self.reaction = seed, only, judges, reaction
        self.rng = rng = SeededRandom(seed)
        drawn = rng.choice(EDGES, "which edge") if rng.happens(0.3, "opens at an edge") else OPENS_AT
        self.opens_at = drawn if opens_at is None else opens_at
        self.template = choose_deployment(rng.choice, fierce=fierce)
        self.trace: list[tuple[float, str, str]] = []
        self.tasks = tasks = VirtualScheduler(self.opens_at, save_router_state)
        self.faults = faults = FaultInjector(
            rng,
            only,
            is_off=True,
            fierce=fierce,
            reaction=reaction,
            on_strike=lambda strike: self.note("fault", strike.name),
        )
        name = f"simulated-{next(_tables)}"
        self.table = SimulatedTable(_engine_connection(str(engine.directory), engine), name, lambda: tasks.now)
        self.stream = SimulatedStream()
        self.lambdas = SimulatedLambda(tasks, rng, faults, self.template, self._is_broken, self.note)
        self.s3 = SimulatedS3(
            now=lambda: tasks.now,
            pause=tasks.pause,
            allows_overwrite=lambda bucket: (
                bucket == self.template.failures and self._is_running_as("customer_erasure")
            ),
        )
        self.queues = self._queues()
        self.bus = SimulatedBus(self.template.rules, self.queues, tasks, rng, faults)
        self.ses = SimulatedSes(tasks, faults)
        self.addresses: dict[str, str] = {}
        api, refunds = (self.template.functions[name].environment for name in ("api", "refund"))
        names = {WEBHOOK_SECRET: api["WEBHOOK_SECRET"], PROVIDER_KEY: refunds["PROVIDER_SECRET"]}
        first_values = {names[WEBHOOK_SECRET]: json.dumps(WEBHOOK_SECRETS), names[PROVIDER_KEY]: FIRST_API_KEY}
        self.secrets = SimulatedSecrets({api["PEPPER_SECRET"]: PEPPER, **first_values})
        self.wire = SimulatedWire(tasks, faults, rng, self._services())
        self.workers = [
            QueueWorker(settings, self.queues[settings.queue], tasks, self.lambdas)
            for settings in self.template.workers
        ]
        self.readers = {function: SimulatedReader(self, function) for function in self.template.streams}
        self.stream.readers = list(self.readers.values())
        self.poison = Poison(self)
        self.clients = ApiClients(tasks, rng, self.lambdas, self.note)
        self.provider = SimulatedProvider(self.clients, faults, rng)
        self.subscribers = SimulatedSubscribers(tasks, faults, rng)
        rotations = SecretRotations(tasks, rng, self.secrets, self.provider, names)
        self.environment = SimulatedEnvironment(self, rotations)
        fed = {queue for rule in self.template.rules for queue in rule.queues}
        (foreign,) = fed - {worker.queue for worker in self.template.workers}
        self.warehouse = SimulatedWarehouse(self.clients, self.queues[foreign], faults)
        self.traffic = SimulatedTraffic(rng, self.clients, self.provider, self.subscribers.endpoints, self.addresses)
        self.operator = Operator(self)
        self.violations: list[str] = []
        self.premises: Counter[str] = Counter()
        self.situations: Counter[str] = Counter()
        self.exceptions: Counter[str] = Counter()
        self.log_lines: list[str] = []
        self.planned: list[str] = []
        self.records: list[dict[str, Any]] = []
        self.changes: list[RecordedChange] = []
        self.write_checks = WriteChecks()
        self.table.listeners += [
            self.records.append,
            self.write_checks.check_record,
            self._trace_record,
            self.stream.append,
            self.environment.schedule_consequences,
            self.traffic.react,
            self.operator.react,
        ]

    def _is_broken(self, function: str) -> bool:
        return function in self.environment.broken_functions

    def _is_running_as(self, function: str) -> bool:
        return self.tasks.process is not None and self.tasks.process.name == function

    def _run_concurrently(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run calls one after the other. Only the Lambdas that send webhooks must not let one wait for another."""
        at_once = self._is_running_as("webhook") or self._is_running_as("webhook_retries")
        return self.tasks.run_concurrently(calls) if at_once else run_sequentially(calls)

    def _queues(self) -> dict[str, SimulatedQueue]:
        queues = {
            name: SimulatedQueue(settings, self.tasks, self.rng, self.faults)
            for name, settings in self.template.queues.items()
        }
        for queue in queues.values():
            if queue.settings.dead_letters:
                queue.dead_letters = queues[queue.settings.dead_letters]
        return queues

    def _publish(self, event: dict[str, Any]) -> None:
        """Put an event on the bus. The API publishes only the events of an order that staff publish again."""
        if self._is_running_as("api"):
            self.operator.published_ids.add(event["detail"]["id"])
        self.bus.publish(event)

    def _services(self) -> dict[str, Service]:
        return {
            "dynamodb": SimulatedDynamoDB(self.table, lambda: self.tasks.now, self.tasks.pause),
            "s3": self.s3,
            "events": SimulatedEventBridge(self.rng, lambda: self.tasks.now, self._publish),
            "sesv2": self.ses,
            "sqs": SimulatedSqs(self.queues),
            "secretsmanager": self.secrets,
            "cognito-idp": SimulatedCognito(self.addresses),
        }

    # the trace (what happened in the run) -----------------------------------------------------------------------------
    def note(self, who: str, what: str) -> None:
        self.trace.append((self.tasks.now, who, what))

    def _trace_record(self, record: dict[str, Any]) -> None:
        change = record["dynamodb"]
        image = change.get("NewImage") or change.get("OldImage")
        by = self.tasks.process.name if self.tasks.process else "time"
        state = image.get("status", {}).get("S", "")
        version = image.get("version", {}).get("N", "")
        place = f"{image['PK']['S']}/{image['SK']['S']}"
        self.note(by, f"{record['eventName']} {place} {state} {version}")
        if happened := RecordedChange.from_record(record):
            self.changes.append(happened)

    # the eras (parts of the run) --------------------------------------------------------------------------------------
    def run(self) -> None:
        """Run the simulation. Stop after the first era (part of the run) that violates an invariant.

        Afterwards, `violations` has a sentence for each violation.
        """
        with self._patched():
            try:
                for until in self._eras():
                    self._end_era(until)
                    if self.violations:
                        return
                if "oracle" in self.judges and self.rng.happens(0.25, "customers are curious"):
                    self.faults.is_off = True
                    self.clients.start("curious", self.traffic.read_data_of_others)
                    self.clients.start("exporting", self.traffic.export_own_data)
                    self.tasks.run(self.tasks.now + HOUR / 2)  # end before midnight, when items expire
                    self._judge(look_for_drift=False)
            except TooManySteps:
                self.violations.append(f"nothing_waits_for_ever: {self.tasks.steps} things happened, and more would")

    def _eras(self) -> Iterator[float]:
        """Start the eras (parts) of the run one after the other. For each era, yield the virtual time at which it ends.

        The caller takes a time from this iterator, runs the simulation up to it, and then takes the next one.
        """
        self.clients.start("staff", self.traffic.open_shop)
        opened = self.opens_at
        self.tasks.run(opened + HOUR)
        self._start_era(
            "day", opened + HOUR, 2 * HOUR, [*self.traffic.commands(), *self.operator.commands("day", 5 * DAY)]
        )
        yield opened + DAY_ENDS
        yield opened + QUARTER
        if not (self.faults.fierce or self.rng.happens(0.25, "lives on")):
            return
        expiries = [int(image["ttl"]["N"]) for image in self.table.of_type("ExpiryMarker")]
        begins = max(min(expiries, default=opened + QUARTER), self.tasks.now)
        self._start_era("year", begins, 3 * DAY, self.operator.commands("year", 30 * DAY))
        yield opened + YEAR
        tools = [*self.operator.restore_commands(), *self.operator.commands("late", HOUR)]
        self._start_era("late", self.tasks.now, HOUR, [*self.traffic.late_commands(), *tools])
        yield self.tasks.now + 4 * DAY
        yield self.tasks.now + 16 * DAY
        if self.rng.happens(0.4, "lives for three years"):
            for year, ends in enumerate((TWO_YEARS, THREE_YEARS), 2):
                tools = self.operator.commands(f"year {year}", 3 * HOUR)
                self._start_era(f"year {year}", self.tasks.now, 2 * HOUR, [*self.traffic.commands(100 * year), *tools])
                yield self.tasks.now + 4 * DAY
                yield opened + ends

    def _start_era(self, era: str, begins: float, lasts_seconds: float, commands: Sequence[PlannedCommand]) -> None:
        """Turn fault injection on, and schedule the outages and commands of an era (a part of the run).

        `begins`: the virtual time at which the era begins, in epoch seconds. `lasts_seconds`: the period in which
        outages may begin.
        """
        self.faults.is_off = False
        self.environment.schedule_misfortunes(era, begins, lasts_seconds)
        for command in commands:
            if self.only is None or command.name in self.only:
                self.planned.append(command.name)
                who = command.name.partition(":")[0]
                at = begins + command.after_seconds
                self.tasks.call_at(at, partial(self.note, "clients", command.name))
                self.clients.start(who, command.run, at - self.tasks.now)

    def _end_era(self, until: float) -> None:
        """Run to the end of the era (a part of the run), let an operator repair failures, and check the invariants.

        While the operator works, faults may kill the operator's tool, but no other faults are injected. If no invariant
        is violated, some runs also compare all copies with their source items. Some runs corrupt copies, and check that
        the operator's tool repairs them. In some runs, staff diagnose the orders.
        """
        self.tasks.run(until)
        self.faults.is_off = True
        self._clean_up()
        self._judge(look_for_drift=self.rng.happens(0.1, "a look for drift", until))
        if not self.violations and self.rng.happens(0.06, "something drifts", until):
            corrupt_copies(self)
            self.operator.repair_drift()
            self._judge(look_for_drift=True)
        if "oracle" in self.judges and not self.violations and self.rng.happens(0.25, "staff diagnose", until):
            self.clients.start("diagnosing", self.traffic.diagnose_orders)
            self._clean_up()
            self._judge(look_for_drift=False)
        self.faults.is_off = False

    def _clean_up(self) -> None:
        """Run until nothing is under way, and let an operator repair failures."""
        for _ in range(MAX_CLEAN_UPS):
            is_idle = self.tasks.run(self.tasks.now + QUIET_SECONDS)
            items_just_expired = self.tasks.now % DAY == 0 and not is_idle
            is_busy = self.provider.is_busy or self.environment.has_waiting_webhooks
            if not self.operator.clean_up() and not is_busy and not items_just_expired:
                return
        self.violations.append("nothing_waits_for_ever: there is still something to clear up")

    def _judge(self, *, look_for_drift: bool) -> None:
        """Add the violations that the judges find now. `look_for_drift`: also compare all copies with their sources."""
        if self.reaction:
            self.violations += find_reaction_violations(self, Ledger(self), self.reaction)
        if "invariants" in self.judges:
            ledger = Ledger(self)
            self.violations += find_violations(self, ledger)
            self.exceptions.update(ledger.exceptions)
            # A situation is counted over the whole run so far, not only this era.
            self.situations |= Counter({name: count(self, ledger) for name, count in SITUATIONS.items()})
            if look_for_drift and not self.violations:
                self.violations += [f"drift: {sentence}" for sentence in drift_violations(self)]
        if "oracle" in self.judges:
            verdict = judge(collect_observations(self))
            self.violations += verdict.violations
            self.premises.update(verdict.premises)
            self.exceptions.update(verdict.exceptions)

    @contextmanager
    def _patched(self) -> Iterator[None]:
        """In a `with` block, replace environment variables, AWS clients, sleeping and randomness by simulated ones."""
        ids = itertools.count(1)

        def shop(table_name: str, **settings: Any) -> ShopContext:
            table = Table(
                self.wire.client("dynamodb"),
                table_name,
                ROWS_BY_TYPE,
                clock=self.tasks.clock,
                sleep=self.tasks.pause,
                random=lambda: self.rng.random("jitter", next(ids)),
                new_request_token=lambda: f"{table_name}-{next(ids)}",
                on_decode_error=log_unreadable,
                run_concurrently=self._run_concurrently,
            )
            return ShopContext(table=table, new_id=lambda: f"id-{next(ids)}", **settings)

        def provider(_url: str, secret_name: str) -> HttpPaymentProvider:
            key = secrets.get_secret(secret_name, int(self.tasks.now // secrets.SECRET_CACHE_SECONDS))
            return HttpPaymentProvider("", key, self.provider)

        kept = random.getstate()
        # botocore draws its retry delays from this global generator. The seed makes them repeatable.
        random.seed(self.seed)
        clear_caches()
        try:
            with (
                reading_former_names() as self.renaming,
                _captured_logs(self.log_lines),
                mock.patch.dict(os.environ, self.template.environment(self.table.name)),
                mock.patch.dict(os.environ, CLIENT_ID=Token.client_id),
                mock.patch.object(clients, "client", self.wire.client),
                mock.patch.object(clients, "create_shop", shop),
                mock.patch.object(payment_provider, "get_payment_provider", provider),
                mock.patch.object(webhook_sender, "send", self.subscribers.send),
                mock.patch.object(webhook_sender, "check_address", return_value=None),
                mock.patch.object(webhook_sender, "datetime", SimpleNamespace(now=lambda _: self.tasks.clock())),
                mock.patch.object(botocore.endpoint, "time", self.wire.time),
                mock.patch.object(imports, "LINES_PER_PART", self.rng.choice((1, imports.LINES_PER_PART), "a part")),
                mock.patch.object(sweep, "PAGE_SIZE", self.rng.choice((100, sweep.PAGE_SIZE), "a page")),
                mock.patch.object(
                    restore,
                    "MAX_TRANSACTION_ITEMS",
                    self.rng.choice((2, restore.MAX_TRANSACTION_ITEMS), "a transaction"),
                ),
            ):
                yield
        finally:
            clear_caches()
            random.setstate(kept)


class _LineCollector(logging.Handler):
    """A log handler that appends each formatted line to a list."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))


@contextmanager
def _captured_logs(lines: list[str]) -> Iterator[None]:
    """In a `with` block, append everything that the process logs to `lines`, and write it nowhere else."""
    collector, loggers = _LineCollector(lines), [logging.getLogger(name) for name in (None, LOGGER_NAME)]
    kept = [(logger, logger.handlers) for logger in loggers]
    disabled = metrics_logger.disabled
    for logger in loggers:
        logger.handlers = [collector]
    metrics_logger.disabled = True
    try:
        yield
    finally:
        metrics_logger.disabled = disabled
        for logger, handlers in kept:
            logger.handlers = handlers
