"""Tests the loop over the steps of `make prove`, rejected stages, and that every run destroys its stage."""

import json
import os
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, NoCredentialsError

from proof.account import __main__ as program
from proof.account import deployed
from proof.account.deployed import DeployedTarget
from proof.account.outcome import NOT_HERE, NOT_RUN, OK, NotPossible, Outcome
from proof.account.price import MAX_DOLLARS, estimate_dollars
from proof.account.steps import STEPS, Step, run_steps
from stacks import stage
from stacks.stage import EXAMPLE_STAGES, InvalidSetting

DESTROY = ".venv/bin/node node_modules/aws-cdk/bin/cdk destroy --all --force --context stage=dev"
DEPLOY = "make deploy STAGE=dev 'ARGS=--require-approval never'"


class Account:
    """An account that may have one stack. `ran`: the commands, which change only the stack."""

    def __init__(self) -> None:
        self.status: str | None = None
        self.ran: list[str] = []
        self.fails: set[str] = set()

    def run(self, words: Sequence[str], folder: Path) -> int:
        line = " ".join(f"'{word}'" if " " in word else word for word in words)
        self.ran.append(line)
        if line in self.fails:
            return 1
        self.status = None if "destroy" in line else "CREATE_COMPLETE"
        return 0

    def describe_stacks(self, StackName: str) -> Any:  # noqa: N803  boto3's name
        if self.status is None:
            said = f"Stack with id {StackName} does not exist"
            raise ClientError({"Error": {"Code": "ValidationError", "Message": said}}, "DescribeStacks")
        return {"Stacks": [{"StackStatus": self.status, "Outputs": []}]}

    def get_paginator(self, operation: str) -> Any:
        return self

    def paginate(self, **asked: Any) -> Any:
        return iter([{"StackResourceSummaries": []}])


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Account:
    made = Account()
    monkeypatch.setattr(boto3, "client", lambda *_, **__: made)
    monkeypatch.setattr(stage, "STAGES_FOLDER", EXAMPLE_STAGES)
    monkeypatch.setattr(program, "estimate_dollars", lambda name, orders: 1.5)
    monkeypatch.setattr(deployed, "run_command", made.run)
    return made


def note(said: str) -> Callable[[Any], Outcome]:
    """Return a step that only records that it ran."""

    def run(target: DeployedTarget) -> Outcome:
        target.run([said], Path())
        return Outcome(OK, said)

    return run


def prove(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *options: str) -> int:
    """Run `make prove` in the account, with a real deploy step and one step in place of all steps that use the shop."""
    deploy = next(one for one in STEPS if one.name == "deploy")
    smoke = Step("smoke", "-", note("smoke"), "-")
    steps = [deploy, smoke, Step("probes", "-", note("probes"), "-", needs_shop=False)]
    monkeypatch.setattr(program, "STEPS", steps)
    return program.main(["--stage", "dev", "--report", str(tmp_path), *options])


def not_run(report: dict[str, Any]) -> list[str]:
    return [one["name"] for one in report["steps"] if one["result"] == NOT_RUN]


# the run --------------------------------------------------------------------------------------------------------------
def test_a_proof_runs_every_step_and_destroys_and_its_report_names_an_emulator(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "")
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: nullcontext())
    assert prove(monkeypatch, tmp_path, "--endpoint", "http://127.0.0.1:4566") == 0
    assert account.ran == [DEPLOY, "smoke", "probes", DESTROY]
    assert os.environ["AWS_ENDPOINT_URL"] == "http://127.0.0.1:4566"
    report = (tmp_path / "report.md").read_text()
    assert ": PASSED" in report
    assert "http://127.0.0.1:4566 in " in report


def test_without_a_deployed_shop_only_the_steps_that_need_none_run(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    account.status = "ROLLBACK_COMPLETE"
    account.fails.add(DEPLOY)
    assert prove(monkeypatch, tmp_path) == 1
    assert account.ran == [DEPLOY, "probes", DESTROY]
    assert (
        "| smoke | **not run** | there is no shop, because its deploy failed |" in (tmp_path / "report.md").read_text()
    )


@pytest.mark.parametrize("interrupted", ["deploy", "smoke", "probes"])
@pytest.mark.parametrize(
    ("error", "verdict", "code"),
    [
        (KeyboardInterrupt(), "incomplete", 130),
        (AssertionError("a bug of the step"), "failed", 1),
        (SystemExit("Cannot read the stack"), "failed", 1),
    ],
)
def test_a_proof_that_ends_in_a_step_says_so_and_which_steps_did_not_run(
    account: Account,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    interrupted: str,
    error: BaseException,
    verdict: str,
    code: int,
) -> None:
    def end(target: Any) -> Outcome:
        raise error

    names = ["deploy", "smoke", "probes"]
    steps = [Step(name, "-", end if name == interrupted else note(name), "-", needs_shop=False) for name in names]
    monkeypatch.setattr(program, "STEPS", steps)
    assert program.main(["--stage", "dev", "--report", str(tmp_path)]) == code
    report = json.loads((tmp_path / "report.json").read_text())
    missing = names[names.index(interrupted) :] if isinstance(error, KeyboardInterrupt) else []
    assert (report["verdict"], not_run(report)) == (verdict, missing)
    assert str(error) in str(report)
    assert report["steps"][-1]["name"] == "destroy"
    assert verdict.upper() in (tmp_path / "report.md").read_text().splitlines()[0]


def test_a_proof_that_keeps_its_stage_is_incomplete(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert prove(monkeypatch, tmp_path, "--keep") == 1
    assert account.ran == [DEPLOY, "smoke", "probes"]
    assert account.status == "CREATE_COMPLETE"
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["verdict"], not_run(report)) == ("incomplete", ["destroy"])


def test_a_proof_that_is_interrupted_while_it_destroys_writes_its_report(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def end(target: Any) -> Outcome:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "DESTROY", replace(program.DESTROY, aws=end))
    assert prove(monkeypatch, tmp_path) == 130
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["verdict"], not_run(report)) == ("incomplete", ["destroy"])


def test_a_stage_that_is_not_destroyed_fails_the_proof(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    account.fails.add(DESTROY)
    assert prove(monkeypatch, tmp_path) == 1
    assert "orderstream-dev is not destroyed" in (tmp_path / "report.md").read_text()


# refusals -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("prod", None, "prod is protected: make prove runs only in a stage that it may destroy."),
        (
            "dev",
            "UPDATE_COMPLETE",
            "orderstream-dev exists: name a stage that does not exist, or set throw_away = true",
        ),
        ("unknown", None, "stage is 'unknown': it must be one of dev, prod"),
    ],
)
def test_a_stage_with_data_is_refused_with_one_sentence_before_any_command(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, status: str | None, said: str
) -> None:
    account.status = status
    with pytest.raises(SystemExit) as refused:
        prove(monkeypatch, tmp_path, "--stage", name)
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)
    assert account.ran == []


def test_a_stage_whose_file_marks_it_may_exist(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text('defaults_of = "dev"\nthrow_away = true\n')
    monkeypatch.setattr(stage, "STAGES_FOLDER", str(tmp_path))
    account.status = "UPDATE_COMPLETE"
    deployed.check_throw_away("mine")


def test_without_credentials_nothing_starts(account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(**_: Any) -> Any:
        raise NoCredentialsError

    monkeypatch.setattr(account, "describe_stacks", refuse)
    with pytest.raises(SystemExit, match="Unable to locate credentials"):
        prove(monkeypatch, tmp_path)
    assert account.ran == []


def test_a_proof_that_costs_too_much_is_refused_before_any_command(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(program, "estimate_dollars", lambda name, orders: MAX_DOLLARS + 0.01)
    with pytest.raises(SystemExit, match=r"^Refused: this proof may cost 2.01 USD, and the limit is 2.00"):
        prove(monkeypatch, tmp_path)
    assert account.ran == []


# prices ---------------------------------------------------------------------------------------------------------------
def test_the_default_burst_is_below_the_limit_and_a_large_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "STAGES_FOLDER", EXAMPLE_STAGES)
    default, large = (estimate_dollars("dev", orders) for orders in (200, 20_000))
    assert 1 < default < MAX_DOLLARS < large
    with pytest.raises(InvalidSetting):
        estimate_dollars("unknown", 200)


# the steps ------------------------------------------------------------------------------------------------------------
def test_a_step_that_cannot_exist_on_the_laptop_is_never_shown_as_passed() -> None:
    class Laptop:
        name = "laptop"

    absent = [one for one in STEPS if isinstance(one.laptop, str)]
    assert {one.name for one in absent} == {"failed deploy", "archive copy", "alarm", "backup", "restore"}
    for result in run_steps(Laptop(), steps=absent):
        assert result.outcome.status == NOT_HERE
        assert result.outcome.seen.startswith("not on the laptop: ")


def test_a_step_that_finds_that_it_is_not_possible_has_neither_passed_nor_failed(account: Account) -> None:
    def impossible(target: Any) -> Outcome:
        raise NotPossible("DynamoDB did not delete the item")

    (result,) = run_steps(DeployedTarget("dev"), steps=[Step("archive", "-", impossible, "-")])
    assert result.outcome == Outcome(NOT_RUN, "DynamoDB did not delete the item")


def test_the_page_describes_every_step() -> None:
    page = Path(program.__file__).parents[2].joinpath("docs", "prove.md").read_text(encoding="utf-8")
    assert [one.name for one in (*STEPS, program.DESTROY) if f"| {one.name} |" not in page] == []
