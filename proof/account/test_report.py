"""Tests the report of `make prove`, and which differences of probes let it fail."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from proof.account.outcome import DIFFERS, FAILED, NOT_HERE, NOT_RUN, OK, Outcome
from proof.account.probes import judge_probes
from proof.account.report import build_report, render_report, write_report
from proof.account.steps import STEPS, Result
from proof.conformance import results
from proof.conformance.probes import PROBES

FIRST, SECOND, THIRD = PROBES[:3]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Let one probe have a recorded difference on AWS, and another probe no difference."""
    found = {FIRST.name: "differs: a known limit", SECOND.name: results.OK}
    monkeypatch.setattr(results, "recorded", lambda runner, name: found.get(name, "") if runner == "aws" else "")
    return found


@pytest.mark.parametrize(
    ("played", "status"),
    [
        ({FIRST.name: "differs: a known limit, with other words", SECOND.name: results.OK, THIRD.name: results.OK}, OK),
        ({FIRST.name: results.OK, SECOND.name: "differs: 2 instead of 1"}, DIFFERS),
        ({SECOND.name: results.OK, THIRD.name: "differs: never played before"}, DIFFERS),
        ({FIRST.name: results.OK, SECOND.name: "not run: ClientError"}, DIFFERS),
        ({FIRST.name: results.OK, THIRD.name: "not run: it needs a verified sender"}, OK),
        ({FIRST.name: results.OK, THIRD.name: results.not_run(OSError("timed out"))}, NOT_RUN),
        ({THIRD.name: "not run: AccessDenied"}, FAILED),
    ],
)
def test_only_a_difference_that_is_not_listed_fails(
    recorded: dict[str, str], played: dict[str, str], status: str
) -> None:
    probes = {one.name: one for one in (FIRST, SECOND, THIRD)}
    outcome = judge_probes("aws", [(probes[name], result) for name, result in played.items()])
    assert outcome.status == status
    assert set(outcome.listed) <= {FIRST.name}


def report(*outcomes: Outcome) -> dict[str, object]:
    found = [Result(step, one, 2.5) for step, one in zip(STEPS, outcomes, strict=False)]
    return build_report(found, target="aws", dollars=1.5, began="2026-11-25T21:00:00Z", region="eu-central-1")


def test_the_report_names_each_step_and_each_difference(tmp_path: Path) -> None:
    probes = Outcome(DIFFERS, "seen", {"a": "differs: x | y", "b": "differs: z", "c": "not run: w"}, ("b",))
    made = report(Outcome(OK, "fine"), probes, Outcome(NOT_HERE, "the reason"))
    write_report(made, tmp_path)
    assert json.loads((tmp_path / "report.json").read_text()) == made
    text = (tmp_path / "report.md").read_text()
    assert made["verdict"] == "failed"
    assert made["differences"] == [
        {"probe": "a", "found": "x | y", "listed": False},
        {"probe": "b", "found": "z", "listed": True},
    ]
    for row in (
        "| failed deploy | ok | fine | 2 |",
        "| deploy | **differs** | seen |",
        "| smoke | not possible here | the reason |",
        "| `a` | **no** | x \\| y |",
        "| `b` | yes | z |",
        "| `c` | not run: w |",
    ):
        assert row in text, text


def test_the_report_does_not_contain_the_number_of_the_account() -> None:
    said = "User: arn:aws:iam::210987654321:user/ann may not call RestoreTableToPointInTime"
    text = json.dumps(report(Outcome(FAILED, said)))
    assert "210987654321" not in text
    assert "arn:aws:iam::111122223333:user/ann" in text


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        ((OK, OK), "passed"),
        ((OK, NOT_HERE), "passed"),
        ((OK, NOT_RUN), "incomplete"),
        ((FAILED, NOT_RUN), "failed"),
        ((OK, DIFFERS), "failed"),
    ],
)
def test_a_report_passes_only_if_every_step_ran_that_can_exist_there(statuses: Sequence[str], verdict: str) -> None:
    made = report(*(Outcome(status, "the reason") for status in statuses))
    assert made["verdict"] == verdict
    assert verdict.upper() in render_report(made).splitlines()[0]
