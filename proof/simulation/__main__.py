"""Simulates the shop with many random seeds, one simulation run per seed, or explains why one run fails.

python -m proof.simulation                   run seeds 1 to 500, two at a time python -m proof.simulation --seeds 1-5000
python -m proof.simulation --seed 42         run one seed; if it fails, find and print the decisions that cause it

A run of many seeds ends with one line of JSON: the commit, the seeds, how often each kind of fault was injected, and
how often each invariant (a rule for all stored data) had something to check. `--ledger FILE` appends this line to a
file, as proof of the run.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from local.world import dynamodb_engine as local_engine
from proof.simulation.faults import KINDS
from proof.simulation.invariants import INVARIANTS
from proof.simulation.ledger import find_excessive_exceptions
from proof.simulation.minimizer import format_failure, shrink_failure
from proof.simulation.runner import SeedResult, engines, run_seed, run_seeds
from proof.simulation.situations import SITUATIONS
from proof.support.fixtures import FAKE_AWS_ENVIRONMENT

ENOUGH_SEEDS = 500
"""From this number of seeds on, a run fails if an invariant never applied, or if a situation never occurred.

Then the run has proved nothing about it.
"""
ENOUGH_SEEDS_FOR_SHARES = 100
"""From this number of seeds on, a run fails if an exception of an invariant applied too often."""


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m proof.simulation", description="Simulate the shop.")
    asked.add_argument("--seeds", default="1-500", help="the first and the last, as in 1-500")
    asked.add_argument("--seed", type=int, help="run only this seed; if it fails, print the decisions that cause it")
    asked.add_argument("--jobs", type=int, default=2, help="how many at a time")
    asked.add_argument("--trace", action="store_true", help="with --seed: everything that happened")
    asked.add_argument("--explain", type=int, default=3, help="how many failed seeds are explained (default: 3)")
    asked.add_argument("--ledger", type=Path, help="append the line of JSON at the end to this file")
    chosen = asked.parse_args()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(FAKE_AWS_ENVIRONMENT)
    if chosen.seed is not None:
        return _run_one(chosen.seed, whole=chosen.trace)
    first, _, last = chosen.seeds.partition("-")
    return _run_many(range(int(first), int(last or first) + 1), chosen.jobs, chosen.explain, chosen.ledger)


def _run_many(seeds: range, jobs: int, explain: int, ledger: Path | None) -> int:
    """Run the seeds and print the sums. Explain the first failed seeds: this is slow, because it repeats their runs."""
    began = time.monotonic()
    faults: Counter[str] = Counter()
    premises = Counter({**{invariant.__name__: 0 for invariant in INVARIANTS}, **dict.fromkeys(SITUATIONS, 0)})
    failed: list[SeedResult] = []
    for number, verdict in enumerate(run_seeds(seeds, jobs), 1):
        faults.update(verdict.faults)
        premises.update(verdict.premises)
        if verdict.violations:
            failed.append(verdict)
            print(format_failure(verdict), flush=True)
        if number % 100 == 0:
            print(f"{number} seeds, {faults.total()} faults, {time.monotonic() - began:.0f} s", flush=True)
    for kind, means in KINDS.items():
        print(f"  {faults[kind]:>7}  {kind}: {means}")
    for name, times in sorted(premises.items()):
        print(f"  {times:>7}  {name}")
    unproved = [name for name, times in premises.items() if not times] if len(seeds) >= ENOUGH_SEEDS else []
    if unproved:
        print(f"These invariants never applied, or these situations never occurred: {', '.join(unproved)}")
    excessive = find_excessive_exceptions(premises) if len(seeds) >= ENOUGH_SEEDS_FOR_SHARES else []
    for exception in excessive:
        print(f"This exception of an invariant applied too often: {exception}")
    for verdict in failed[:explain]:
        _run_one(verdict.seed)
    seconds = time.monotonic() - began
    print(
        f"{len(seeds)} seeds ({seeds[0]}-{seeds[-1]}), {faults.total()} faults, {len(failed)} failed, {seconds:.0f} s"
    )
    line = json.dumps(
        {
            "commit": _commit(),
            "seeds": [seeds[0], seeds[-1]],
            "failed": [verdict.seed for verdict in failed],
            "faults": {kind: faults[kind] for kind in KINDS},
            "premises": dict(sorted(premises.items())),
        }
    )
    print(line)
    if ledger:
        with ledger.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    return bool(failed or unproved or excessive)


def _commit() -> str:
    """Return the abbreviated commit of the code, with "+" if files differ from it, or "" outside a git clone."""
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return asked.stdout.strip()


def _run_one(seed: int, *, whole: bool = False) -> int:
    with engines(1) as (directory,):
        engine = local_engine.find(Path(directory))
        assert engine is not None
        verdict = run_seed(engine, seed)
        if whole:
            print("\n".join(f"{at:.3f} {who} {what}" for at, who, what in verdict.trace))
        if verdict.violations:
            print(format_failure(shrink_failure(engine, verdict)))
        else:
            print(f"seed {seed}: {verdict.faults.total()} faults, every invariant holds, trace {verdict.digest[:16]}")
    return bool(verdict.violations)


if __name__ == "__main__":
    sys.exit(main())
