"""Simulates the shop with many random seeds, one simulation run per seed, or explains why one run fails.

python -m tests.simulation                   run seeds 1 to 500, two at a time
python -m tests.simulation --seeds 1-5000
python -m tests.simulation --seed 42         run one seed; if it fails, find and print the decisions that cause it
"""

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path

from local import dynamodb_engine as local_engine
from tests.conftest import FAKE_AWS_ENVIRONMENT
from tests.simulation.faults import KINDS
from tests.simulation.minimizer import format_story, shrink_failure
from tests.simulation.runner import SeedResult, engines, run_seed, run_seeds

MAX_STORIES = 3
"""How many failed runs are explained at most.

An explanation is slow, because it repeats the failed run with fewer and fewer faults and commands.
"""


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.simulation", description="Simulate the shop.")
    asked.add_argument("--seeds", default="1-500", help="the first and the last, as in 1-500")
    asked.add_argument("--seed", type=int, help="only this one, with its story")
    asked.add_argument("--jobs", type=int, default=2, help="how many at a time")
    asked.add_argument("--trace", action="store_true", help="with --seed: everything that happened")
    chosen = asked.parse_args()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(FAKE_AWS_ENVIRONMENT)
    if chosen.seed is not None:
        return _run_one(chosen.seed, whole=chosen.trace)
    first, _, last = chosen.seeds.partition("-")
    return _run_many(range(int(first), int(last or first) + 1), chosen.jobs)


def _run_many(seeds: range, jobs: int) -> int:
    began = time.monotonic()
    faults: Counter[str] = Counter()
    premises: Counter[str] = Counter()
    failed: list[SeedResult] = []
    for number, verdict in enumerate(run_seeds(seeds, jobs), 1):
        faults += verdict.faults
        premises += verdict.premises
        if verdict.violations:
            failed.append(verdict)
            print(format_story(verdict), flush=True)
        if number % 100 == 0:
            print(f"{number} seeds, {faults.total()} faults, {time.monotonic() - began:.0f} s", flush=True)
    for kind, means in KINDS.items():
        print(f"  {faults[kind]:>7}  {kind}: {means}")
    print("How often each rule of the oracle had something to check:")
    for premise, times in sorted(premises.items()):
        print(f"  {times:>7}  {premise}")
    seconds = time.monotonic() - began
    print(
        f"{len(seeds)} seeds ({seeds[0]}-{seeds[-1]}), {faults.total()} faults, {len(failed)} failed, {seconds:.0f} s"
    )
    for verdict in failed[:MAX_STORIES]:
        _run_one(verdict.seed)
    return bool(failed)


def _run_one(seed: int, *, whole: bool = False) -> int:
    with engines(1) as (directory,):
        engine = local_engine.find(Path(directory))
        assert engine is not None
        verdict = run_seed(engine, seed)
        if whole:
            print("\n".join(f"{at:.3f} {who} {what}" for at, who, what in verdict.trace))
        if verdict.violations:
            print(format_story(shrink_failure(engine, verdict)))
        else:
            print(f"seed {seed}: {verdict.faults.total()} faults, every invariant holds, trace {verdict.digest[:16]}")
    return bool(verdict.violations)


if __name__ == "__main__":
    sys.exit(main())
