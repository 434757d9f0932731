"""Write the report of `make prove`: build/prove/report.json and report.md, without account numbers and addresses."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from docs.markdown import escape, render_table
from proof.account.outcome import NOT_HERE
from proof.account.steps import Result, judge
from proof.conformance.results import DIFFERS, NOT_RUN
from stacks import PROJECT

FOLDER = PROJECT / "build" / "prove"
SEND_TO = "docs/prove.md#send-the-report"


def build_report(results: Sequence[Result], *, target: str, dollars: float | None, **facts: Any) -> dict[str, Any]:
    """Return the report as data. `dollars`: the estimated price. `facts`: further facts about the run, by name."""
    report = {
        "target": target,
        "verdict": judge(results),
        "version": _version(),
        **facts,
        "seconds": round(sum(one.seconds for one in results), 1),
        "estimated_dollars": None if dollars is None else round(dollars, 2),
        "steps": [
            {
                "name": one.step.name,
                "proves": one.step.proves,
                "result": one.outcome.status,
                "seen": one.outcome.seen,
                "seconds": round(one.seconds, 1),
            }
            for one in results
        ],
        "differences": [
            {"probe": name, "found": result.removeprefix(DIFFERS), "listed": name in one.outcome.listed}
            for one in results
            for name, result in one.outcome.probes.items()
            if result.startswith(DIFFERS)
        ],
        "probes": {name: result for one in results for name, result in one.outcome.probes.items()},
    }
    # Errors of AWS contain the number of the account in ARNs.
    hidden: dict[str, Any] = json.loads(re.sub(r"(?<!\d)\d{12}(?!\d)", "111122223333", json.dumps(report)))
    return hidden


def _version() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--tags"],
        cwd=PROJECT,
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() or "unknown"


def render_report(report: Mapping[str, Any]) -> str:
    return "\n\n".join(_parts(report)) + "\n"


def _parts(report: Mapping[str, Any]) -> Iterator[str]:
    yield f"# Proof of Orderstream {report['version']}: {report['verdict'].upper()}"
    where = (
        "this machine"
        if report["target"] == "laptop"
        else f"{report.get('endpoint') or 'an AWS account'} in {report.get('region')}"
    )
    cost = "" if report["estimated_dollars"] is None else f", at most {report['estimated_dollars']:.2f} USD by estimate"
    yield f"On {where}, begun {report.get('began')}, {report['seconds']:.0f} s{cost}. What the steps do: docs/prove.md."
    yield render_table(("step", "result", "seen", "s"), [_row(one) for one in report["steps"]])
    if different := report["differences"]:
        yield "## Probes that differ"
        rows = [(f"`{one['probe']}`", "yes" if one["listed"] else "**no**", escape(one["found"])) for one in different]
        yield render_table(("probe", "listed", "found"), rows)
    if not_run := {name: why for name, why in report["probes"].items() if why.startswith(NOT_RUN)}:
        yield "## Probes that could not be played"
        yield render_table(("probe", "why"), [(f"`{name}`", escape(why)) for name, why in not_run.items()])
    if report["target"] == "aws":
        yield f"Please send this report to the authors of Orderstream: {SEND_TO}."


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    result = one["result"] if one["result"] in ("ok", NOT_HERE) else f"**{one['result']}**"
    return one["name"], result, escape(one["seen"]), f"{one['seconds']:.0f}"


def write_report(report: Mapping[str, Any], folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (folder / "report.md").write_text(render_report(report), encoding="utf-8")
