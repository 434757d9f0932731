"""Proves a reaction: runs the simulation with its faults, and checks the invariants of the reaction's own file.

python -m proof.reactions fulfilment              run seeds 1 to 50, two at a time
python -m proof.reactions fulfilment --seeds 7    run one seed; if it fails, print the decisions that cause it

The command fails if an invariant is violated, or if it never had anything to check. The invariants of the shop must
hold, too. docs/how-to/prove-a-reaction.md explains the file and the output.
"""

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path

from local.world import dynamodb_engine as local_engine
from proof.simulation.minimizer import format_failure, replay_command, shrink_failure
from proof.simulation.reaction_invariants import NotProvable, load_invariants
from proof.simulation.runner import SeedResult, engines, run_seeds
from proof.simulation.template import template
from proof.support.fixtures import FAKE_AWS_ENVIRONMENT

PROGRESS_SEEDS = 10


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m proof.reactions", description="Prove a reaction under faults.")
    asked.add_argument("name", nargs="?", default="", help="the reaction, as functions/model/reactions.py names it")
    asked.add_argument("--seeds", default="1-50", help="the first and the last, as in 1-50, or one")
    asked.add_argument("--jobs", type=int, default=2, help="how many at a time")
    chosen = asked.parse_args()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(FAKE_AWS_ENVIRONMENT)
    first, _, last = chosen.seeds.partition("-")
    try:
        return prove(chosen.name, range(int(first), int(last or first) + 1), chosen.jobs)
    except NotProvable as error:
        print(error, file=sys.stderr)
        return 2


def prove(reaction: str, seeds: range, jobs: int) -> int:
    """Run the seeds, explain the shortest failed run, and return the exit code. Raises NotProvable."""
    names = [invariant.name for invariant in load_invariants(reaction)]
    began, queue = time.monotonic(), template().queue_of(reaction)
    faults, hits, checked = 0, 0, Counter[str]()
    failed: list[SeedResult] = []
    for number, verdict in enumerate(run_seeds(seeds, jobs, reaction), 1):
        faults += verdict.faults.total()
        hits += sum(f" @ {reaction} " in name or f" {queue}" in name for name in verdict.decisions)
        checked.update({name: verdict.premises[name] for name in names})
        if verdict.violations:
            failed.append(verdict)
            whose = "" if verdict.invariants & {*names} else " (an invariant of the shop)"
            print(f"seed {verdict.seed} fails{whose}: {verdict.violations[0]}", flush=True)
        if number % PROGRESS_SEEDS == 0 or number == len(seeds):
            so_far = f"{number} of {len(seeds)} seeds, {faults} faults, {hits} of them in {reaction}"
            print(f"{so_far}, {time.monotonic() - began:.0f} s", flush=True)
    print("How often each invariant had something to check:")
    for name in names:
        print(f"  {checked[name]:>7}  {name}")
    if failed:
        return _explain(min(failed, key=lambda verdict: len(verdict.decisions)))
    if unproved := [name for name in names if not checked[name]]:
        print(f"This proves nothing about {' and '.join(unproved)}. Correct the pattern, or run more seeds.")
        return 1
    print(f"{reaction} keeps its invariants. Next: plant a fault in its Lambda, and see this command fail.")
    return 0


def _explain(failed: SeedResult) -> int:
    print(f"Repeating seed {failed.seed} with fewer faults and commands, to find the cause:", flush=True)
    with engines(1) as (directory,):
        engine = local_engine.find(Path(directory))
        assert engine is not None
        print(format_failure(shrink_failure(engine, failed)))
    print(f"Next: correct the Lambda, and run the seed again: {replay_command(failed.seed, failed.reaction)}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
