"""Runs simulations with many seeds in parallel. Each worker is a process with its own DynamoDB engine."""

import gc
import hashlib
import os
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from local.world import dynamodb_engine as local_engine
from local.world.dynamodb_engine import SHARED_MEMORY, Engine
from proof.simulation.template import template
from proof.simulation.world import JUDGES, Judge, Simulation

ENGINES: list[Engine] = []
"""The local DynamoDB engine of this worker process, as its only element."""
SEEDS_PER_ENGINE = 10
"""Restart the engine after this many runs: at each transaction it searches all those of the last 10 minutes."""
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
_runs = count(1)


@dataclass(frozen=True)
class SeedResult:
    """The result of a simulation run with one random seed.

    `violations`: sentences that begin with the name of the invariant. `decisions`: the names of the planned commands
    and injected faults. `premises`: how often each invariant and each rule of the oracle had something to check.
    `exceptions`: how many violations each exception allowed.
    """

    seed: int
    violations: tuple[str, ...]
    decisions: tuple[str, ...]
    faults: Counter[str]
    premises: Counter[str]
    trace: tuple[tuple[float, str, str], ...]
    situations: Counter[str] = field(default_factory=Counter)
    exceptions: Counter[str] = field(default_factory=Counter)
    reaction: str = ""

    @property
    def digest(self) -> str:
        """A hash of the run's trace (the list of all that happened). A repeated run must have the same hash."""
        return hashlib.sha256(repr(self.trace).encode()).hexdigest()

    @property
    def invariants(self) -> set[str]:
        return {violation.partition(":")[0] for violation in self.violations}


def run_seed(
    engine: Engine,
    seed: int,
    only: Collection[str] | None = None,
    *,
    fierce: bool = False,
    judges: Collection[Judge] = JUDGES,
    opens_at: float | None = None,
    reaction: str = "",
) -> SeedResult:
    """Run the simulation with one seed. `only`: the names of the commands and faults that may happen; None: all."""
    world = Simulation(engine, seed, only, fierce=fierce, judges=judges, opens_at=opens_at, reaction=reaction)
    world.run()
    return SeedResult(
        seed=seed,
        violations=tuple(dict.fromkeys(world.violations)),
        decisions=(*world.planned, *dict.fromkeys(strike.name for strike in world.faults.strikes)),
        faults=Counter(strike.kind for strike in world.faults.strikes),
        premises=world.premises,
        trace=tuple(world.trace),
        situations=world.situations,
        exceptions=world.exceptions,
        reaction=reaction,
    )


def run_seeds(seeds: Sequence[int], jobs: int, reaction: str = "") -> Iterator[SeedResult]:
    """Run these seeds in `jobs` processes, and yield the results, without their `trace`."""
    template()  # synthesize the template once and cache it, so that no worker has to synthesize it
    with engines(jobs) as directories, get_context("spawn").Manager() as manager:
        free: Any = manager.Queue()
        for number, directory in enumerate(directories):
            free.put((number, directory))
        with ProcessPoolExecutor(jobs, get_context("spawn"), _init_worker, (free,)) as workers:
            yield from workers.map(partial(_run_in_worker, reaction=reaction), seeds)


def _init_worker(free: Any) -> None:
    number, directory = free.get()
    pin_to_core(number)
    engine = local_engine.find(Path(directory))
    assert engine is not None, "the engine was started before its worker"
    ENGINES.append(engine)
    gc.freeze()  # exclude the imported objects from garbage collection, which is slow otherwise
    gc.set_threshold(50_000, 50, 100)


def _run_in_worker(seed: int, reaction: str) -> SeedResult:
    if next(_runs) % SEEDS_PER_ENGINE == 0:
        ENGINES[0] = local_engine.start(ENGINES[0].directory)
    try:
        verdict = run_seed(ENGINES[0], seed, reaction=reaction)
    except Exception as error:  # noqa: BLE001  an error of a judge fails this seed, not all seeds of the range
        where = traceback.extract_tb(error.__traceback__)[-1]
        broken = f"the_run_ends: {error!r} in {where.filename}:{where.lineno}"
        return SeedResult(seed, (broken,), (), Counter(), Counter(), ())
    return SeedResult(**{**verdict.__dict__, "trace": ()})


def pin_to_core(number: int) -> None:
    """Pin this process and its children to a core. Waking another core takes longer than most requests."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {CORES[number % len(CORES)]})


@contextmanager
def engines(count: int) -> Iterator[list[str]]:
    """Start `count` engines, each in a folder of its own, in shared memory if possible, and yield the folders."""
    directories = [
        Path(tempfile.mkdtemp(prefix="orderstream-", dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None))
        for _ in range(count)
    ]
    started = []
    for number, directory in enumerate(directories):
        if count > 1:
            pin_to_core(number)
        started.append(local_engine.start(directory))
    if CORES:
        os.sched_setaffinity(0, CORES)
    try:
        yield [str(directory) for directory in directories]
    finally:
        for engine in started:
            engine.stop()
            shutil.rmtree(engine.directory)
