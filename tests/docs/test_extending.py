"""Applies the diffs of docs/extending.md, each alone and all together, and the README's diff. Each must be complete."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.applied_diff import PROJECT, apply_diff, copy_project, run_python

TEXT = (PROJECT / "docs/extending.md").read_text(encoding="utf-8")
DIFFS = {
    section.partition("\n")[0]: "".join(re.findall(r"```diff\n(.*?)```", section, re.DOTALL))
    for section in re.split("^## ", TEXT, flags=re.MULTILINE)[1:]
    if "```diff" in section
}
(MAIL_OF_README,) = re.findall(r"```diff\n(.*?)```", (PROJECT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
FILES_TO_OPEN = {
    "An access pattern with its route": 3,
    "A field that is copied": 3,
    "A total": 3,
    "An entity with its routes and personal data": 5,
    "A reaction with its own Lambda": 4,
}
EVERY = {**DIFFS, "all together": "".join(DIFFS.values())}


def changed_files(diff: str) -> list[str]:
    return re.findall(r"^\+\+\+ b/(\S+)", diff, re.MULTILINE)


def test_each_extension_changes_few_files_and_has_a_test() -> None:
    opened = {
        name: [file for file in changed_files(diff) if not file.startswith(("tests/", "proof/"))]
        for name, diff in DIFFS.items()
    }
    assert {name: len(files) for name, files in opened.items()} == FILES_TO_OPEN
    shown = re.findall(r"^\| an? (.+) \| (\d) \|$", TEXT, re.MULTILINE)
    assert {name: int(files) for name, files in shown} == {
        name.partition(" ")[2]: files for name, files in FILES_TO_OPEN.items()
    }
    assert all(re.search(r"^--- /dev/null\n\+\+\+ b/tests/", diff, re.MULTILINE) for diff in DIFFS.values())


@pytest.mark.parametrize(
    "diff",
    [
        *(pytest.param(diff, id=name, marks=pytest.mark.slow) for name, diff in EVERY.items()),
        pytest.param(MAIL_OF_README, id="the mail of the README"),
    ],
)
def test_each_extension_applies_its_tests_pass_and_only_recorded_files_are_missing(diff: str, tmp_path: Path) -> None:
    folder = copy_project(tmp_path)
    apply_diff(folder, diff)
    python = [file for file in changed_files(diff) if file.endswith(".py")]
    for program in (["ruff", "check"], ["ruff", "format", "--check"], ["tools.declarations"]):
        checked = run_python(folder, "-m", *program, *(python if program[0] == "ruff" else ()))
        assert checked.returncode == 0, checked.stdout + checked.stderr
    missing = run_python(folder, "-m", "tests.support.omissions").stderr.splitlines()
    assert [sentence for sentence in missing if not sentence.endswith("run `make record`")] == []
    recorded = run_python(folder, "-m", "pytest", "--record", "-q", "-n", "0", "tests/api/test_route_table.py")
    assert recorded.returncode == 0, recorded.stdout
    added = re.findall(r"^--- /dev/null\n\+\+\+ b/(tests/\S+)", diff, re.MULTILINE)
    ran = run_python(folder, "-m", "pytest", "-q", *(added or ["tests/mails"]))
    assert ran.returncode == 0, ran.stdout


@pytest.mark.extending
@pytest.mark.parametrize("diff", EVERY.values(), ids=EVERY)
def test_after_its_checklist_all_checks_and_tests_pass(diff: str, tmp_path: Path) -> None:
    folder = copy_project(tmp_path)
    apply_diff(folder, diff)
    # these folders are links to installed packages, so make must install nothing
    installed = ["-o", ".venv/.installed", "-o", "node_modules/.installed"]
    make = shutil.which("make") or "make"
    for target in (["record"], ["docs"], ["check"], ["test", "ARGS=--ignore tests/docs/test_extending.py"]):
        ran = subprocess.run([make, *installed, *target], cwd=folder, text=True, capture_output=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
