"""Explains why a run fails: repeats it with fewer commands and faults, until only those of the failure are left."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from local.world.dynamodb_engine import Engine
from proof.simulation.runner import SeedResult, run_seed

MAX_RUNS = 200
MAX_LINES = 100


def shrink_failure(engine: Engine, failed: SeedResult) -> SeedResult:
    """Repeat a failed run with fewer and fewer decisions, and return the last run with the same violated invariant.

    A decision is a planned command or an injected fault. The method is delta debugging (Zeller and Hildebrandt),
    limited to about `MAX_RUNS` runs.
    """
    invariant = failed.violations[0].partition(":")[0]
    best = failed
    runs = 0

    def still_fails(decisions: Sequence[str]) -> bool:
        nonlocal best, runs
        runs += 1
        verdict = run_seed(engine, failed.seed, frozenset(decisions), reaction=failed.reaction)
        if invariant in verdict.invariants:
            best = verdict
            return True
        return False

    decisions = list(failed.decisions)
    commands = [decision for decision in decisions if _kind(decision) == decision]
    if commands and still_fails(commands):  # if the run fails without any fault, remove all faults at once
        decisions = commands
    for kind in dict.fromkeys(map(_kind, decisions)):  # first try to remove all faults of a kind at once
        rest = [decision for decision in decisions if _kind(decision) != kind]
        if rest and runs < MAX_RUNS and still_fails(rest):
            decisions = rest
    minimize_decisions(decisions, still_fails, lambda: runs >= MAX_RUNS)
    return best


def _kind(decision: str) -> str:
    """Return the kind of an injected fault, such as "throttled". Return the name of a planned command unchanged."""
    kind, at, _ = decision.partition(" @ ")
    return kind if at else decision


def minimize_decisions(
    decisions: list[str], still_fails: Callable[[Sequence[str]], bool], enough: Callable[[], bool]
) -> list[str]:
    """Remove decisions from a run as long as it still fails, large groups first, and return those that are left."""
    parts = 2
    while len(decisions) > 1 and not enough():
        size = -(-len(decisions) // parts)
        for start in range(0, len(decisions), size):
            rest = decisions[:start] + decisions[start + size :]
            if rest and not enough() and still_fails(rest):
                decisions, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(decisions))
    return decisions


def format_failure(verdict: SeedResult) -> str:
    """Return the violations, the command that repeats the run, its commands and faults, and lines of its trace."""
    sentences = "\n".join(f"  {violation}" for violation in verdict.violations[:5])
    head = f"seed {verdict.seed}\n{sentences}\n  replay: {replay_command(verdict.seed, verdict.reaction)}\n"
    if not verdict.trace:
        return head
    decisions = "\n".join(f"  {name}" for name in verdict.decisions)
    lines = _relevant_lines(verdict)
    left_out = f"\n  ... and {len(lines) - MAX_LINES} lines before" if len(lines) > MAX_LINES else ""
    return f"{head}it takes {len(verdict.decisions)} decisions\n{decisions}{left_out}\n" + "\n".join(lines[-MAX_LINES:])


def replay_command(seed: int, reaction: str = "") -> str:
    return f"make prove-reaction NAME={reaction} SEEDS={seed}" if reaction else f"make simulate SEED={seed}"


def _relevant_lines(verdict: SeedResult) -> list[str]:
    """Return the lines of the trace about faults, commands, operators and ids of the violations; without ids, all."""
    names = {name for violation in verdict.violations for name in re.findall(r"\b[0-9a-z]{26,32}\b", violation)}
    lines = []
    for at, who, what in verdict.trace:
        if not names or who in ("fault", "clients", "operator") or any(name in what for name in names):
            lines.append(f"  {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S.%f} {who:<13} {what}")
    return lines
