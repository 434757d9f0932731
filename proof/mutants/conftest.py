"""Prints at the end of a run which mutants the simulation and the checks of this folder caught."""

import re
from textwrap import fill
from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many mutants were caught, and their names. Print nothing if no mutant was tested."""
    names: dict[str, list[str]] = {}
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, ()):
            found = re.search(r"::test_a_planted_fault_is_caught\w*\[(.*)\]$", getattr(report, "nodeid", ""))
            if found and (report.when == "call" or outcome == "error"):
                names.setdefault(outcome, []).append(found[1])
    if not names:
        return
    caught, missed = names.get("passed", []), [*names.get("failed", []), *names.get("error", [])]
    terminalreporter.section("mutants")
    terminalreporter.write_line(f"{len(caught)} of {len(caught) + len(missed)} mutants were caught:")
    terminalreporter.write_line(fill(", ".join(sorted(caught)), width=120))
    if missed:
        terminalreporter.write_line(f"Not caught: {', '.join(sorted(missed))}")
