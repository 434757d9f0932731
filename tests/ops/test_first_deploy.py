"""Tests `python -m ops first-deploy`, by which `make deploy` protects only a stack that exists."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from ops.__main__ import main
from ops.commands import first_deploy
from stacks import PROJECT

STACK = "orderstream-prod"
ABSENT = ClientError(
    {"Error": {"Code": "ValidationError", "Message": f"Stack with id {STACK} does not exist"}}, "DescribeStacks"
)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return a function that runs the command with this status of the stack, or this error, and returns the output."""

    def said(status: str | Exception) -> str:
        class CloudFormation:
            def describe_stacks(self, **asked: str) -> dict[str, Any]:
                assert asked == {"StackName": STACK}
                if isinstance(status, Exception):
                    raise status
                return {"Stacks": [{"StackStatus": status}]}

        monkeypatch.setattr(boto3, "client", lambda *_, **__: CloudFormation())
        main(["first-deploy", "--stack", STACK])
        return capsys.readouterr().out

    return said


@pytest.mark.parametrize("status", [ABSENT, *sorted(first_deploy.NEVER_CREATED)])
def test_a_stack_that_was_never_created_completely_is_deployed_for_the_first_time(
    said: Callable[..., str], status: str | Exception
) -> None:
    assert said(status) == "yes\n"


@pytest.mark.parametrize("status", ["CREATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_FAILED"])
def test_a_stack_that_exists_is_not_even_if_a_later_deploy_failed(said: Callable[..., str], status: str) -> None:
    assert said(status) == ""


PROTECTED, UNPROTECTED = (
    "deploy --all --context stage=dev",
    "deploy --all --context stage=dev --context first_deploy=true",
)
FAKE_CDK = """#!/bin/sh
echo "$@" >> "$LOG"
[ $(wc -l < "$LOG") -gt $FAILURES ] || { echo "The role cannot be assumed by Lambda." >&2; exit 1; }
"""


@pytest.mark.parametrize(
    ("first", "failures", "deploys", "succeeds"),
    [
        ("yes", 0, [UNPROTECTED, PROTECTED], True),
        ("yes", 1, [UNPROTECTED, UNPROTECTED, PROTECTED], True),
        ("yes", 2, [UNPROTECTED, UNPROTECTED], False),
        ("", 1, [PROTECTED], False),
    ],
)
def test_make_deploy_repeats_only_the_first_deploy_and_only_once(
    tmp_path: Path, first: str, failures: int, deploys: list[str], succeeds: bool
) -> None:
    log, cdk, python = (tmp_path / name for name in ("log", "cdk", "python"))
    for command, script in ((cdk, FAKE_CDK), (python, f"#!/bin/sh\necho {first}\n")):
        command.write_text(script)
        command.chmod(0o755)
    make = [
        "make",
        "deploy",
        "--old-file=check-deploy-template",
        f"cdk={cdk}",
        f"python={python}",
        "STAGE=dev",
        "ARGS=",
    ]
    environment = {"PATH": os.environ["PATH"], "LOG": str(log), "FAILURES": str(failures)}
    done = subprocess.run(make, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    assert [line.strip() for line in log.read_text().splitlines()] == deploys
    assert (done.returncode == 0) == succeeds, done.stderr
