"""Simulates the shop with many random seeds, one simulation run per seed, or explains why one run fails.

    python -m proof.simulation                  # run seeds 1 to 500, two at a time
    python -m proof.simulation --seeds 1-5000   # run these seeds
    python -m proof.simulation --seed 42        # run one seed; if it fails, find and print the decisions that cause it

A run of many seeds ends with one line of JSON: a hash of the code (its tree), the date, the seeds, and how often each
fault, premise (an invariant had something to check), situation and exception occurred. `--ledger FILE` appends this
line to a file, as proof of the run, and refuses seeds that the file has of the same tree. `--tree` prints the hash.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from local.world import dynamodb_engine as local_engine
from proof.simulation import runs
from proof.simulation.faults import KINDS
from proof.simulation.invariants import INVARIANTS
from proof.simulation.minimizer import format_failure, shrink_failure
from proof.simulation.runner import engines, run_seed, run_seeds
from proof.simulation.situations import SITUATIONS
from proof.support.fixtures import FAKE_AWS_ENVIRONMENT


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m proof.simulation", description="Simulate the shop.")
    asked.add_argument("--seeds", default="1-500", help="the first and the last, as in 1-500")
    asked.add_argument("--seed", type=int, help="run only this seed; if it fails, print the decisions that cause it")
    asked.add_argument("--jobs", type=int, default=2, help="how many at a time")
    asked.add_argument("--trace", action="store_true", help="with --seed: everything that happened")
    asked.add_argument("--explain", type=int, default=3, help="how many failed seeds are explained (default: 3)")
    asked.add_argument("--ledger", type=Path, help="append the line of JSON at the end to this file")
    asked.add_argument("--tree", action="store_true", help="print the hash of the code that decides a run, and end")
    chosen = asked.parse_args()
    if chosen.tree:
        print(runs.tree_hash())
        return 0
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(FAKE_AWS_ENVIRONMENT)
    if chosen.seed is not None:
        return _run_one(chosen.seed, whole=chosen.trace)
    first, _, last = chosen.seeds.partition("-")
    return _run_many(range(int(first), int(last or first) + 1), chosen.jobs, chosen.explain, chosen.ledger)


def _run_many(seeds: range, jobs: int, explain: int, ledger: Path | None) -> int:
    """Run the seeds and print the sums. Explain the first failed seeds: this is slow, because it repeats their runs."""
    began, tree = time.monotonic(), runs.tree_hash()
    if ledger and (recorded := runs.find_recorded(ledger, tree, seeds)):
        sys.exit(recorded)
    ran = runs.Runs()
    ran.premises.update({invariant.__name__: 0 for invariant in INVARIANTS})
    ran.situations.update(dict.fromkeys(SITUATIONS, 0))
    for number, verdict in enumerate(run_seeds(seeds, jobs), 1):
        ran.add(1, [verdict.seed] if verdict.violations else [], verdict.__dict__)
        if verdict.violations:
            print(format_failure(verdict), flush=True)
        if number % 100 == 0:
            print(f"{number} seeds, {ran.faults.total()} faults, {time.monotonic() - began:.0f} s", flush=True)
    _print_counters(ran)
    line = runs.render_line(ran, tree, seeds)
    shortcomings = ran.find_shortcomings()
    if ledger:
        if runs.tree_hash() != tree:
            sys.exit("The code has changed since the run began, so the run is not recorded.")
        print(runs.record_run(ledger, line))
        if ledger.resolve() == runs.RUNS.resolve():
            runs.write_headline()
        shortcomings += runs.add_up(runs.read_runs(ledger)).find_shortcomings()
    for seed in ran.failed[:explain]:
        _run_one(seed)
    for shortcoming in dict.fromkeys(shortcomings):
        print(shortcoming)
    faults, seconds = ran.faults.total(), time.monotonic() - began
    print(f"{len(seeds)} seeds ({seeds[0]}-{seeds[-1]}), {faults} faults, {len(ran.failed)} failed, {seconds:.0f} s")
    print(json.dumps(line))
    return bool(ran.failed or shortcomings)


def _print_counters(ran: runs.Runs) -> None:
    print("Faults:")
    for kind, means in KINDS.items():
        print(f"  {ran.faults[kind]:>7}  {kind}: {means}")
    for counter in ("premises", "situations", "exceptions"):
        print(f"{counter.capitalize()}:")
        for name, times in sorted(getattr(ran, counter).items()):
            print(f"  {times:>7}  {name}")


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
