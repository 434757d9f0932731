"""Why a seed fails, in as few lines as will do: its decisions are left out until only those are left that it takes."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from local.engine import Engine
from tests.simulation.runs import SeedResult, run_seed

MAX_RUNS = 200
MAX_LINES = 100


def shrink_failure(engine: Engine, failed: SeedResult) -> SeedResult:
    """The run with the fewest decisions found that breaks the same invariant. A decision is a command that somebody
    sets out to do, or a fault; the delta debugging of Zeller and Hildebrandt, with a limit."""
    invariant = failed.violations[0].partition(":")[0]
    best = failed
    runs = 0

    def still_fails(decisions: Sequence[str]) -> bool:
        nonlocal best, runs
        runs += 1
        verdict = run_seed(engine, failed.seed, frozenset(decisions))
        if invariant in verdict.invariants:
            best = verdict
            return True
        return False

    decisions = list(failed.decisions)
    commands = [decision for decision in decisions if _kind(decision) == decision]
    if commands and still_fails(commands):  # it takes nothing that goes wrong
        decisions = commands
    for kind in dict.fromkeys(map(_kind, decisions)):  # most kinds of fault have nothing to do with it
        rest = [decision for decision in decisions if _kind(decision) != kind]
        if rest and runs < MAX_RUNS and still_fails(rest):
            decisions = rest
    minimize_decisions(decisions, still_fails, lambda: runs >= MAX_RUNS)
    return best


def _kind(decision: str) -> str:
    """Of a fault its kind; a command is of its own."""
    kind, at, _ = decision.partition(" @ ")
    return kind if at else decision


def minimize_decisions(
    decisions: list[str], still_fails: Callable[[Sequence[str]], bool], enough: Callable[[], bool]
) -> list[str]:
    """Leave out ever smaller parts of the decisions, as long as it still fails without them."""
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


def format_story(verdict: SeedResult) -> str:
    """A verdict as a story: what is wrong, how to see it again, and what led to it."""
    sentences = "\n".join(f"  {violation}" for violation in verdict.violations[:5])
    head = f"seed {verdict.seed}\n{sentences}\n  replay: {replay_command(verdict.seed)}\n"
    if not verdict.trace:
        return head
    decisions = "\n".join(f"  {name}" for name in verdict.decisions)
    lines = _relevant_lines(verdict)
    left_out = f"\n  ... and {len(lines) - MAX_LINES} lines before" if len(lines) > MAX_LINES else ""
    return f"{head}it takes {len(verdict.decisions)} decisions\n{decisions}{left_out}\n" + "\n".join(lines[-MAX_LINES:])


def replay_command(seed: int) -> str:
    return f"make simulate SEED={seed}"


def _relevant_lines(verdict: SeedResult) -> list[str]:
    """The trace, as far as it is about what is wrong: what the sentences name, and what went wrong before."""
    names = {name for violation in verdict.violations for name in re.findall(r"\b[0-9a-z]{26,32}\b", violation)}
    lines = []
    for at, who, what in verdict.trace:
        if not names or who in ("fault", "people", "operator") or any(name in what for name in names):
            lines.append(f"  {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S.%f} {who:<13} {what}")
    return lines
