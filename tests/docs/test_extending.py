"""Applies the diffs of docs/extending.md, each alone and all together, and those of README and the how-tos.

The section that removes a noun has commands, too. It is applied alone.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.applied_diff import PROJECT, apply_diff, copy_project, run_python

TEXT = (PROJECT / "docs/extending.md").read_text(encoding="utf-8")
SECTIONS = {section.partition("\n")[0]: section for section in re.split("^## ", TEXT, flags=re.MULTILINE)[1:]}
REMOVAL = SECTIONS.pop("The removal of a noun")
DIFFS = {
    name: "".join(re.findall(r"```diff\n(.*?)```", section, re.DOTALL))
    for name, section in SECTIONS.items()
    if "```diff" in section
}


def diff_of(page: str) -> str:
    return "".join(re.findall(r"```diff\n(.*?)```", (PROJECT / page).read_text(encoding="utf-8"), re.DOTALL))


NEW_TEST = re.compile(r"^--- /dev/null\n\+\+\+ b/(tests/\S+)", re.MULTILINE)
FILES_TO_OPEN = {
    "An access pattern with its route": 3,
    "A field that is copied": 3,
    "A total": 3,
    "An entity with its routes and personal data": 5,
    "A reaction with its own Lambda": 4,
}
(DIFF_OF_REMOVAL,) = re.findall(r"```diff\n(.*?)```", REMOVAL, re.DOTALL)
MAX_REMOVED_BY_HAND = 246
"""The maximum number of lines of the diff, beside what the commands delete: otherwise the model is not declarative."""
COPY_WITH_COMMIT = "git init -q && git add -A && git -c user.name=test -c user.email=test@example.com commit -qm copy"


def remove_noun(folder: Path) -> None:
    """Run the commands of the section, and apply its diff between them, as its reader does."""
    first, last = re.findall(r"```sh\n(.*?)```", REMOVAL, re.DOTALL)
    own_repository = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    run = partial(subprocess.run, cwd=folder, env=own_repository, check=True)
    for commands in (COPY_WITH_COMMIT, first):
        run(["sh", "-ec", commands])
    apply_diff(folder, DIFF_OF_REMOVAL)
    run(["sh", "-ec", last])


EVERY: dict[str, Callable[[Path], None]] = {
    **{name: partial(apply_diff, diff=diff) for name, diff in DIFFS.items()},
    "all together": partial(apply_diff, diff="".join(DIFFS.values())),
    "the removal of a noun": remove_noun,
}
OTHERS = {page: diff_of(page) for page in ("README.md", "docs/how-to/change-texts.md", "docs/how-to/add-a-field.md")}
TESTS: dict[str, list[str]] = {
    **{name: NEW_TEST.findall(diff) for name, diff in DIFFS.items()},
    "all together": NEW_TEST.findall("".join(DIFFS.values())),
    "the removal of a noun": ["tests/model/test_patterns.py", "tests/api/test_customers.py"],
    **{page: ["tests/mails", *NEW_TEST.findall(diff)] for page, diff in OTHERS.items()},
}
"""The tests that an extension adds, or that cover the code around what is changed."""


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
    assert all(NEW_TEST.search(diff) for diff in DIFFS.values())


def test_the_removal_of_a_noun_is_short() -> None:
    assert len(DIFF_OF_REMOVAL.splitlines()) <= MAX_REMOVED_BY_HAND


@pytest.mark.parametrize("diff", ["".join(DIFFS.values()), *OTHERS.values()], ids=["extending", *OTHERS])
def test_each_diff_fits_the_code(diff: str, tmp_path: Path) -> None:
    apply_diff(copy_project(tmp_path), diff)


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTS)
def test_each_extension_applies_its_tests_pass_and_only_recorded_files_are_missing(name: str, tmp_path: Path) -> None:
    folder = copy_project(tmp_path)
    if name in EVERY:
        EVERY[name](folder)
    else:
        apply_diff(folder, OTHERS[name])
    for program in (["ruff", "check", "."], ["ruff", "format", "--check", "."], ["tools.declarations"]):
        checked = run_python(folder, "-m", *program)
        assert checked.returncode == 0, checked.stdout + checked.stderr
    missing = run_python(folder, "-m", "tests.support.omissions").stderr.splitlines()
    assert [sentence for sentence in missing if not sentence.endswith("run `make record`")] == []
    recorded = run_python(folder, "-m", "pytest", "--record", "-q", "-n", "0", "tests/api/test_route_table.py")
    assert recorded.returncode == 0, recorded.stdout
    ran = run_python(folder, "-m", "pytest", "-q", *TESTS[name])
    assert ran.returncode == 0, ran.stdout


@pytest.mark.extending
@pytest.mark.parametrize("extend", EVERY.values(), ids=EVERY)
def test_after_its_checklist_all_checks_and_tests_pass(extend: Callable[[Path], None], tmp_path: Path) -> None:
    folder = copy_project(tmp_path)
    extend(folder)
    # these folders are links to installed packages, so make must install nothing
    installed = ["-o", ".venv/.installed", "-o", "node_modules/.installed"]
    make = shutil.which("make") or "make"
    for target in (["record"], ["docs"], ["check"], ["test", "ARGS=--ignore tests/docs/test_extending.py"]):
        ran = subprocess.run([make, *installed, *target], cwd=folder, text=True, capture_output=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
