"""Are weaknesses known of what is installed? `python -m ops.audit`, or `make audit`.

There are three outcomes, and three exit codes: 0 clean, 1 findings, 3 not audited. Clean is said only where somebody
who knows of weaknesses was asked about every package of the locks and knew of none: pip-audit, for one, says "No known
vulnerabilities found" and exits with 0 of packages that its index told it nothing about.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ops import locks

SECONDS = 300


class Outcome(Enum):
    """`value`: the exit code."""

    CLEAN = 0
    FINDINGS = 1
    NOT_AUDITED = 3


@dataclass(frozen=True)
class Audit:
    """What came of asking about `packages` packages. `unknown`: why some were not looked at."""

    of: str
    packages: int = 0
    findings: Sequence[str] = ()
    unknown: Sequence[str] = ()

    @property
    def outcome(self) -> Outcome:
        """A finding is one, whatever could not be looked at beside it."""
        if self.findings:
            return Outcome.FINDINGS
        return Outcome.NOT_AUDITED if self.unknown or not self.packages else Outcome.CLEAN

    def __str__(self) -> str:
        said = {
            Outcome.CLEAN: f"clean: nothing is known of its {self.packages} packages",
            Outcome.FINDINGS: f"{len(self.findings)} findings",
            Outcome.NOT_AUDITED: "not audited: " + (_few(self.unknown) or "nothing was looked at"),
        }
        return "\n".join([f"{self.of}: {said[self.outcome]}", *(f"  {finding}" for finding in self.findings)])


def of_python(said: str, locked: Mapping[str, str]) -> Audit:
    """What pip-audit said (its JSON) of what is locked for every machine."""
    report = _document(said)
    if "dependencies" not in report:
        return Audit("Python", unknown=["pip-audit told nothing: no network, or nobody who knows of weaknesses"])
    looked_at = {locks.canonical(it["name"]): it for it in report["dependencies"] if "vulns" in it}
    skipped = [it["name"] for it in report["dependencies"] if "vulns" not in it]
    missing = [name for name in locked if name not in looked_at and name not in map(locks.canonical, skipped)]
    return Audit(
        "Python",
        packages=len(looked_at),
        findings=[
            f"{name} {it['version']}: {found['id']}, mended in {', '.join(found['fix_versions']) or 'no version'}"
            for name, it in looked_at.items()
            for found in it["vulns"]
        ],
        unknown=[f"nothing was told of {name}" for name in [*skipped, *missing]],
    )


def of_node(said: str, locked: Mapping[str, str]) -> Audit:
    """What npm said (its JSON, version 2 of the report) of what is locked."""
    report = _document(said)
    if report.get("auditReportVersion") != 2:
        return Audit("Node", unknown=[f"npm told nothing: {report.get('message') or 'no report'}"])
    return Audit(
        "Node",
        packages=len(locked) if report["metadata"]["dependencies"]["total"] else 0,
        findings=[
            f"{name} {locked.get(name, it['range'])}: {cause['title']}, of {cause['range']}, {cause['url']}"
            for name, it in report["vulnerabilities"].items()
            for cause in it["via"]
            if isinstance(cause, dict)  # a text names a package that has a line of its own
        ],
    )


def outcome(audits: Iterable[Audit]) -> Outcome:
    """Of all together: a finding outweighs what was not looked at, and that outweighs what is clean."""
    outcomes = {audit.outcome for audit in audits}
    return next(it for it in (Outcome.FINDINGS, Outcome.NOT_AUDITED, Outcome.CLEAN) if it in outcomes)


def main() -> int:
    """Ask about both, say what came of it; the exit code."""
    python = [locks.tool("pip-audit"), "--disable-pip", "--require-hashes", "--requirement", str(locks.PYTHON),
              "--format", "json", "--progress-spinner", "off"]  # fmt: skip
    audits = [
        of_python(_said(python), locks.packages(locks.PYTHON, everywhere=True)),
        of_node(_said(locks.npm("audit", "--json")), locks.node_packages()),
    ]
    print(*audits, sep="\n")
    return outcome(audits).value


def _said(command: Sequence[str]) -> str:
    """What it prints; its exit code says too little: a finding and a broken network are one to both tools."""
    try:
        ran = subprocess.run(  # noqa: S603  a tool of ours
            command, cwd=locks.PROJECT, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return ""
    return ran.stdout


def _document(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _few(reasons: Sequence[str], most: int = 3) -> str:
    more = f", and of {len(reasons) - most} more" if len(reasons) > most else ""
    return ", ".join(reasons[:most]) + more


if __name__ == "__main__":
    sys.exit(main())
