"""What docs/extending.md shows is real: its diffs apply to this repository, and the tests that they add pass."""

import re
from pathlib import Path

from tests.support.applied_diff import PROJECT, apply_diff, copy_project, run_python


def test_the_changes_it_shows_apply_and_the_tests_they_add_pass(tmp_path: Path) -> None:
    text = (PROJECT / "docs/extending.md").read_text()
    diff = "".join(re.findall(r"```diff\n(.*?)```", text, re.DOTALL))
    tests = re.findall(r"^\+\+\+ b/(tests/\S+)", diff, re.MULTILINE)
    assert len(tests) == len(re.findall("^## ", text, re.MULTILINE)), "each of them has a test"
    folder = copy_project(tmp_path)
    apply_diff(folder, diff)
    ran = run_python(folder, "-m", "pytest", "-q", *tests)
    assert ran.returncode == 0, ran.stdout
