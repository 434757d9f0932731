"""What docs/extending.md shows is real: its diffs apply to this repository, and the tests that they add pass."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEEDED = ("functions", "stacks", "local", "docs", "tests", "tools", "pyproject.toml")


def test_the_changes_it_shows_apply_and_the_tests_they_add_pass(tmp_path: Path) -> None:
    text = (ROOT / "docs/extending.md").read_text()
    diff = "".join(re.findall(r"```diff\n(.*?)```", text, re.DOTALL))
    tests = re.findall(r"^\+\+\+ b/(tests/\S+)", diff, re.MULTILINE)
    assert len(tests) == len(re.findall("^## ", text, re.MULTILINE)), "each of them has a test"
    for name in NEEDED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, tmp_path / name)
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")
    outside_of_any_repository = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    apply = ["git", "apply", "-C1", "-"]
    applied = subprocess.run(
        apply, cwd=tmp_path, input=diff, text=True, capture_output=True, env=outside_of_any_repository, check=False
    )
    assert applied.returncode == 0, f"{applied.stderr}: the code around it has changed, so change the diff"
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *tests],
        cwd=tmp_path,
        env=quiet,
        text=True,
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
