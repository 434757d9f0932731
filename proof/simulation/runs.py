"""The recorded runs of the simulation: each line of runs.jsonl is a run of some seeds with one version of the code.

The version is the hash of all files that decide a run, its tree. The file has only runs of one tree, and no seed twice.
So its runs add up to one run of many seeds.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from proof.oracle.exceptions import find_excessive_exceptions

ROOT = Path(__file__).parents[2]
RUNS = Path(__file__).with_name("runs.jsonl")
TREE = (
    "app.py", "cdk.json", "functions", "local/event_source_mappings", "local/world", "ops", "proof/oracle",
    "proof/simulation", "proof/support", "stacks",
)  # fmt: skip
"""The files and folders that decide a run: the shop, its stacks and tools, and the simulation with its judges."""
NOT_IN_A_RUN = {RUNS.name, "mutants.py", "mutations.py", ".DS_Store"}
"""Names of files in TREE that decide no run, like tests."""
GUARANTEES = ROOT / "docs" / "guarantees.md"
HEADLINE = re.compile(r"(?<=<!-- runs: written by `make simulate` -->\n).*?(?=<!-- /runs -->)", re.DOTALL)
COUNTERS = ("faults", "premises", "situations", "exceptions")
ENOUGH_SEEDS = 500
"""From this number of seeds on, runs fail if an invariant never applied, or if a situation never occurred."""
ENOUGH_SEEDS_FOR_SHARES = 100
"""From this number of seeds on, runs fail if an exception of an invariant or of the oracle applied too often."""


def tree_hash(root: Path = ROOT) -> str:
    """Return a short hash of the paths and bytes of all files that decide a run."""
    names = (path for name in TREE for path in (root / name, *(root / name).rglob("*")) if path.is_file())
    found = hashlib.sha256()
    for path in sorted(names):
        if not path.name.startswith("test_") and path.name not in NOT_IN_A_RUN and path.suffix != ".pyc":
            place = path.relative_to(root).as_posix()
            found.update(f"{place} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()[:12]


@dataclass
class Runs:
    """What the runs of some seeds showed, in numbers of each. A premise or situation with 0 must occur, but did not."""

    seeds: int = 0
    failed: list[int] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    premises: Counter[str] = field(default_factory=Counter)
    situations: Counter[str] = field(default_factory=Counter)
    exceptions: Counter[str] = field(default_factory=Counter)

    def add(self, seeds: int, failed: Iterable[int], counters: Mapping[str, Any]) -> None:
        """Add more runs. `counters`: their COUNTERS, by name."""
        self.seeds += seeds
        self.failed += failed
        for name in COUNTERS:
            getattr(self, name).update(counters[name])

    def find_shortcomings(self) -> list[str]:
        """Return a sentence for each reason why these runs prove too little. Fewer seeds must show less."""
        found = []
        never = [name for counter in (self.premises, self.situations) for name, times in counter.items() if not times]
        if never and self.seeds >= ENOUGH_SEEDS:
            found.append(f"These invariants never applied, or these situations never occurred: {', '.join(never)}")
        if self.seeds >= ENOUGH_SEEDS_FOR_SHARES:
            excessive = find_excessive_exceptions(self.premises, self.exceptions)
            found += [f"This exception applied too often: {exception}" for exception in excessive]
        return found


def render_line(ran: Runs, tree: str, seeds: range) -> dict[str, Any]:
    """Return the line that records a run of these seeds today."""
    counters = {name: dict(sorted(getattr(ran, name).items())) for name in COUNTERS}
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    return {"tree": tree, "date": today, "seeds": [seeds[0], seeds[-1]], "failed": ran.failed, **counters}


def read_runs(ledger: Path) -> list[dict[str, Any]]:
    """Return the recorded runs in a file. A file that does not exist has none."""
    lines = ledger.read_text(encoding="utf-8").splitlines() if ledger.exists() else []
    return [json.loads(line) for line in lines]


def add_up(lines: Iterable[Mapping[str, Any]]) -> Runs:
    """Return the sum of recorded runs of the same tree."""
    found = Runs()
    for line in lines:
        first, last = line["seeds"]
        found.add(last - first + 1, line["failed"], line)
    return found


def find_recorded(ledger: Path, tree: str, seeds: range) -> str:
    """Return a sentence if one of these seeds is recorded for this tree, or ""."""
    for first, last in (line["seeds"] for line in read_runs(ledger) if line["tree"] == tree):
        if first <= seeds[-1] and seeds[0] <= last:
            return f"Seeds {first}-{last} are recorded for this tree, {tree}. Run other seeds."
    return ""


def record_run(ledger: Path, line: dict[str, Any]) -> str:
    """Append a run to the file without the runs of other trees. Return what it has now, as a sentence for each fact."""
    before = read_runs(ledger)
    kept = [one for one in before if one["tree"] == line["tree"]]
    lines = [*kept, line]
    ledger.write_text("".join(f"{json.dumps(one)}\n" for one in lines), encoding="utf-8")
    removed = f"Removed runs of another tree: {len(before) - len(kept)}. " if len(kept) < len(before) else ""
    return f"{removed}{add_up(lines).seeds:,} seeds of tree {line['tree']} are recorded."


def render_headline(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return what the recorded runs showed, and of which tree they are."""
    ran = add_up(lines)
    sums = f"Together the recorded runs have {ran.seeds:,} seeds and {ran.faults.total():,} faults."
    if not lines:
        return f"{sums} No run of this version is recorded yet.\n"
    dates = sorted({line["date"] for line in lines})
    failed = f"These seeds failed: {', '.join(map(str, ran.failed))}." if ran.failed else "No seed failed."
    sentences = [
        f"{sums} {failed}",
        *ran.find_shortcomings(),
        f"They ran from {dates[0]} to {dates[-1]} with the tree `{lines[0]['tree']}`.",
        "`python -m proof.simulation --tree` prints the tree of your files. If it is the same, these are their runs.",
    ]
    return "".join(f"{sentence}\n" for sentence in sentences)


def write_headline() -> None:
    """Write the sums of the recorded runs into docs/guarantees.md. README.md gets its number from there."""
    page = GUARANTEES.read_text(encoding="utf-8")
    GUARANTEES.write_text(HEADLINE.sub(lambda _: render_headline(read_runs(RUNS)), page), encoding="utf-8")
