"""Check the installed packages for known vulnerabilities: `python -m tools.audit`, or `make audit`.

The exit code is 0 for clean, 1 for findings, and 3 if a package of the lock files was not audited. That of pip-audit is
not enough: it exits with 0 if the index does not know a package. Python packages of other platforms are not checked.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tools import locks

TIMEOUT_SECONDS = 300


class AuditOutcome(Enum):
    """The outcome of an audit. The value of each member is the exit code."""

    CLEAN = 0
    FINDINGS = 1
    NOT_AUDITED = 3


@dataclass(frozen=True)
class AuditReport:
    """The result for the packages of one ecosystem, such as "Python" or "Node".

    `unaudited`: why some packages were not audited.
    """

    ecosystem: str
    packages: int = 0
    findings: Sequence[str] = ()
    unaudited: Sequence[str] = ()

    @property
    def outcome(self) -> AuditOutcome:
        """The outcome of this report. If there are findings, it is FINDINGS, even if some packages were not audited."""
        if self.findings:
            return AuditOutcome.FINDINGS
        return AuditOutcome.NOT_AUDITED if self.unaudited or not self.packages else AuditOutcome.CLEAN

    def __str__(self) -> str:
        summaries = {
            AuditOutcome.CLEAN: f"clean: no known vulnerabilities in {self.packages} packages",
            AuditOutcome.FINDINGS: f"{len(self.findings)} findings",
            AuditOutcome.NOT_AUDITED: "not audited: " + (_join_first(self.unaudited) or "no package was checked"),
        }
        return "\n".join(
            [f"{self.ecosystem}: {summaries[self.outcome]}", *(f"  {finding}" for finding in self.findings)]
        )


def parse_pip_audit(output: str, locked_versions: Mapping[str, str]) -> AuditReport:
    """Return a report from the JSON output of pip-audit.

    `locked_versions`: the version of each locked package. A package that is not in the output counts as not audited.
    """
    report = _parse_json_object(output)
    if "dependencies" not in report:
        return AuditReport(
            "Python", unaudited=["pip-audit returned no report: no network or no vulnerability database"]
        )
    looked_at = {locks.canonical_name(it["name"]): it for it in report["dependencies"] if "vulns" in it}
    skipped = [it["name"] for it in report["dependencies"] if "vulns" not in it]
    missing = [
        name for name in locked_versions if name not in looked_at and name not in map(locks.canonical_name, skipped)
    ]
    return AuditReport(
        "Python",
        packages=len(looked_at),
        findings=[
            f"{name} {it['version']}: {found['id']}, fixed in {', '.join(found['fix_versions']) or 'no version'}"
            for name, it in looked_at.items()
            for found in it["vulns"]
        ],
        unaudited=[f"no result for {name}" for name in [*skipped, *missing]],
    )


def parse_npm_audit(output: str, locked_versions: Mapping[str, str]) -> AuditReport:
    """Return a report from the JSON output of npm audit (report version 2).

    `locked_versions`: the version of each package in the lock file.
    """
    report = _parse_json_object(output)
    if report.get("auditReportVersion") != 2:
        return AuditReport("Node", unaudited=[f"npm returned no audit report: {report.get('message') or 'no message'}"])
    return AuditReport(
        "Node",
        packages=len(locked_versions) if report["metadata"]["dependencies"]["total"] else 0,
        findings=[
            f"{name} {locked_versions.get(name, it['range'])}: {cause['title']}, in {cause['range']}, {cause['url']}"
            for name, it in report["vulnerabilities"].items()
            for cause in it["via"]
            if isinstance(cause, dict)  # a string refers to another package, which has its own entry
        ],
    )


def overall_outcome(audits: Iterable[AuditReport]) -> AuditOutcome:
    """Return the worst outcome of several reports: FINDINGS is worse than NOT_AUDITED, which is worse than CLEAN."""
    outcomes = {audit.outcome for audit in audits}
    return next(it for it in (AuditOutcome.FINDINGS, AuditOutcome.NOT_AUDITED, AuditOutcome.CLEAN) if it in outcomes)


def main() -> int:
    """Audit the Python and Node packages, print a report for each and return the exit code."""
    python = [locks.tool_path("pip-audit"), "--disable-pip", "--require-hashes", "--requirement",
              str(locks.PYTHON_LOCK),
              "--format", "json", "--progress-spinner", "off"]  # fmt: skip
    audits = [
        parse_pip_audit(_run_tool(python), locks.locked_packages(locks.PYTHON_LOCK, here=True)),
        parse_npm_audit(_run_tool(locks.npm_command("audit", "--json")), dict(locks.locked_node_packages())),
    ]
    print(*audits, sep="\n")
    return overall_outcome(audits).value


def _run_tool(command: Sequence[str]) -> str:
    """Run an audit tool and return its output; "" after a timeout.

    The exit code is ignored, because both tools return the same code for a finding and for a network error.
    """
    try:
        ran = subprocess.run(  # noqa: S603  only `main` calls this, with fixed commands
            command, cwd=locks.PROJECT, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return ""
    return ran.stdout


def _parse_json_object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _join_first(reasons: Sequence[str], limit: int = 3) -> str:
    more = f", and {len(reasons) - limit} more" if len(reasons) > limit else ""
    return ", ".join(reasons[:limit]) + more


if __name__ == "__main__":
    sys.exit(main())
