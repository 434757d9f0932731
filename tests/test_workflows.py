"""Tests GitHub's workflows: their targets exist, their actions are pinned, and each job has only needed permissions."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its types are a package of their own

from proof.simulation.minimizer import replay_command
from proof.support import fixtures

PROJECT = Path(__file__).parents[1]
FILES = sorted((PROJECT / ".github" / "workflows").glob("*.yml"))
SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
MAKE = re.compile(r"\bmake ([a-z-]+)")
LEAVE = {  # all permissions of these jobs; any other job only reads the code
    ("deploy", "read"): {"id-token": "write"},
    ("deploy", "deploy"): {"contents": "read", "id-token": "write"},
    ("diff", "diff"): {"contents": "read", "id-token": "write"},
    ("night", "report"): {"issues": "write"},
    ("release", "publish"): {"contents": "write", "id-token": "write", "attestations": "write"},
}


def read(name: str) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((PROJECT / ".github" / "workflows" / f"{name}.yml").read_text())
    found["on"] = found.pop(True)  # YAML 1.1 reads the word "on" as True
    return found


def steps(workflow: dict[Any, Any]) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


def commands(workflow: dict[Any, Any]) -> str:
    """Return all commands of a workflow, including those of the targets in a matrix."""
    targets = [
        f"make {target}"
        for job in workflow["jobs"].values()
        for target in job.get("strategy", {}).get("matrix", {}).get("target", ())
    ]
    return "\n".join([*(step["run"] for step in steps(workflow) if "run" in step), *targets])


def test_dependabot_updates_every_folder_with_dependencies() -> None:
    updates = yaml.safe_load((PROJECT / ".github" / "dependabot.yml").read_text())["updates"]
    folders = {it["package-ecosystem"]: it.get("directories") or [it["directory"]] for it in updates}
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout.split()
    nested = [Path(it).parent for it in tracked if Path(it).name == "requirements.in" and len(Path(it).parts) > 2]
    expected = ["/", *(f"/{folder}" for folder in nested)]
    assert folders.pop("uv") == expected, "the ecosystem uv also reads the folders directly below each of these"
    node = [f"/{it.rpartition('/')[0]}" for it in sorted(tracked) if Path(it).name == "package.json"]
    assert sorted(folders.pop("npm")) == sorted(node)
    assert folders == {"github-actions": ["/"]}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_action_is_pinned_by_its_commit_and_says_which_version_that_is(file: Path) -> None:
    used = re.findall(r"^\s*- uses: (.*)$", file.read_text(), re.MULTILINE)
    assert used
    assert len(used) == len([step for step in steps(read(file.stem)) if "uses" in step])
    for one in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one), one


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_job_has_only_the_permissions_of_its_task(file: Path) -> None:
    workflow = read(file.stem)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        wanted = LEAVE.get((file.stem, name), {"contents": "read"})
        assert job.get("permissions", workflow["permissions"]) == wanted
        assert job["timeout-minutes"] <= 120
    assert "secrets." not in file.read_text(), "GitHub stores no secrets"
    assert all(
        step["with"]["persist-credentials"] is False for step in steps(workflow) if "checkout" in step.get("uses", "")
    )


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_workflows_run_only_targets_of_the_makefile(file: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    ran = set(MAKE.findall(commands(read(file.stem))))
    assert ran
    assert ran <= targets


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_command_gets_values_only_by_its_environment(file: Path) -> None:
    assert [step["run"] for step in steps(read(file.stem)) if "${{" in step.get("run", "")] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_step_fails_with_any_command_of_its_pipes(file: Path) -> None:
    """GitHub runs `shell: bash` as SHELL. With its own default, only the last command of a pipe fails the step."""
    workflow = read(file.stem)
    assert workflow["defaults"] == {"run": {"shell": "bash"}}
    assert [one for one in (*workflow["jobs"].values(), *steps(workflow)) if {"defaults", "shell"} & one.keys()] == []


def test_checks_run_every_lane_of_a_submission() -> None:
    ours = set(MAKE.findall((PROJECT / ".ci" / "run").read_text()))
    assert set(MAKE.findall(commands(read("ci")))) == ours, ".ci/run and .github/workflows/ci.yml run the same targets"


class Collected:
    """A collected test, as the choice of a share sees it."""

    def __init__(self, file: str, number: int, marker: str) -> None:
        self.nodeid, self.path = f"{file}::test_{number}", Path(file)
        self.get_closest_marker = {marker: marker}.get


def test_the_shares_of_a_slow_lane_are_each_test_once() -> None:
    """The tests of a file stay together, and each planted fault is alone."""

    def chosen(tests: list[Collected], share: str) -> list[Collected]:
        config: Any = SimpleNamespace(
            getoption={"--share": share}.get, hook=SimpleNamespace(pytest_deselected=lambda items: None)
        )
        left: list[Any] = list(tests)
        fixtures.pytest_collection_modifyitems(config, left)
        return left

    run = (PROJECT / ".ci" / "run").read_text()
    (share,) = {*re.findall(r'^lane \S+ make \S+ ARGS="--share (.*)"$', run, re.MULTILINE)}
    for marker in ("slow", "mutants"):
        tests = [Collected(f"test_{file}.py", number, marker) for file in range(9) for number in range(4)]
        shares = [chosen(tests, share.replace("$share", str(number))) for number in range(1, 7)]
        assert all(shares)
        assert sorted((test for share in shares for test in share), key=tests.index) == tests
        files = [{test.path for test in share} for share in shares]
        assert (sum(map(len, files)) == 9) == (marker == "slow")
    assert chosen(tests, "1/1") == tests


def test_a_deploy_waits_for_its_environment_and_is_never_cancelled() -> None:
    workflow = read("deploy")
    jobs = workflow["jobs"]
    assert {name: job.get("environment") for name, job in jobs.items()} == {
        "read": "${{ inputs.stage }}",
        "prepare": None,
        "deploy": "${{ inputs.stage }}",
    }
    assert workflow["concurrency"] == {"group": "deploy-${{ inputs.stage }}", "cancel-in-progress": False}


def test_a_deploy_is_tested_and_reviewed_before_it() -> None:
    jobs = read("deploy")["jobs"]
    assert jobs["prepare"]["needs"] == "read"
    ran = [step["run"].partition(" STAGE=")[0] for step in jobs["prepare"]["steps"] if "run" in step]
    assert ran == ["make setup", "make check", "make test", "make check-deploy PARTS=template"]
    assert "prepare" in jobs["deploy"]["needs"]


def test_only_a_tag_of_a_version_is_released_and_only_after_its_tests() -> None:
    workflow = read("release")
    assert workflow["on"] == {"push": {"tags": ["v*"]}}
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    ran = [(step["run"], step.get("env")) for step in build["steps"] if "run" in step]
    tag = {"TAG": "${{ github.ref_name }}"}
    assert ran == [("make setup", None), ("make release", tag), ("make check", None), ("make test", None)]
    assert publish["needs"] == "build"


@pytest.mark.parametrize(("workflow", "job"), sorted(LEAVE.keys() - {("diff", "diff")}))
def test_a_job_with_permissions_runs_no_code_of_the_repository(workflow: str, job: str) -> None:
    """Such a job runs programs of GitHub's machine, and the CDK of the lock file without its installation scripts."""
    found = read(workflow)["jobs"][job]["steps"]
    taken = [step["with"]["sparse-checkout"].split() for step in found if "checkout" in step.get("uses", "")]
    assert taken == ([["cdk.json", "package.json", "package-lock.json"]] if job == "deploy" else [])
    lines = [line for step in found for line in step.get("run", "").splitlines()]
    assert not [line for line in lines if re.search(r"\b(make|python3?|pip|uv|npx)\b", line)]
    assert not [line for line in lines if "npm " in line and "--ignore-scripts" not in line]


def test_all_files_of_a_release_are_attested() -> None:
    publish = read("release")["jobs"]["publish"]
    (attested,) = (step["with"] for step in publish["steps"] if "attest" in step.get("uses", ""))
    assert attested == {"subject-checksums": "release/SHA256SUMS"}


def test_a_fork_gets_no_role() -> None:
    (job,) = read("diff")["jobs"].values()
    assert "head.repo.full_name == github.repository" in job["if"]


# the nightly report ---------------------------------------------------------------------------------------------------
GH = """#!/bin/sh
echo "$1 $2 $3" >> calls
case "$2" in
list) echo "$OPEN_ISSUE" ;;
*) while [ "$1" != --body-file ]; do shift; done; cat "$2" >> said ;;
esac
"""


def run_script(script: str, folder: Path, programs: Mapping[str, str], **variables: str) -> int:
    """Run the script of a step as GitHub does, with stubs of some programs, and return its exit code."""
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", **variables}
    return subprocess.run([*SHELL, script], cwd=folder, env=environment, check=False).returncode


@pytest.mark.parametrize(("open_issue", "call"), [("", "issue create --title"), ("7", "issue comment 7")])
def test_a_failing_seed_fails_the_night_and_is_reported_in_one_open_issue(
    tmp_path: Path, open_issue: str, call: str
) -> None:
    jobs = read("night")["jobs"]
    simulate, collect = (step["run"] for step in jobs["simulate"]["steps"] if "PART" in step.get("run", ""))
    failing = f"#!/bin/sh\necho 'seed 9'\necho '  replay: {replay_command(9)}'\nexit 2\n"
    assert run_script(simulate, tmp_path, {"make": failing}, PART="3", GITHUB_RUN_NUMBER="1") == 2
    assert run_script(collect, tmp_path, {}, PART="3", GITHUB_STEP_SUMMARY="summary") == 0
    report = jobs["report"]
    assert report["needs"] == "simulate"
    (step,) = (one for one in report["steps"] if "run" in one)
    assert run_script(step["run"], tmp_path, {"gh": GH}, OPEN_ISSUE=open_issue, TITLE="t", RUN="u", COMMIT="c") == 0
    assert (tmp_path / "calls").read_text().splitlines() == ["issue list --app", call]
    assert replay_command(9) in (tmp_path / "said").read_text().splitlines()
