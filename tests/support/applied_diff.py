"""Applies diffs to a copy of the project, and runs programs there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
LEFT_OUT = {".git", ".venv", "node_modules", "build", ".local", "__pycache__"}


def copy_project(folder: Path) -> Path:
    """Copy the project into an empty folder, with links to its installed packages. Return the folder."""
    for path in PROJECT.iterdir():
        if path.name in LEFT_OUT:  # .git is a file in a worktree
            continue
        if path.is_dir():
            shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(path, folder / path.name)
    for name in (".venv", "node_modules"):
        (folder / name).symlink_to(PROJECT / name)
    return folder


def apply_diff(folder: Path, diff: str) -> None:
    """Apply a diff in a copy of the project. Fails if the code around a change is not as the diff shows it."""
    outside_of_any_repository = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    apply = ["git", "apply", "-C1", "-"]
    applied = subprocess.run(
        apply, cwd=folder, input=diff, text=True, capture_output=True, env=outside_of_any_repository, check=False
    )
    assert applied.returncode == 0, f"{applied.stderr}: the code around it has changed, so change the diff"


def run_python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this Python in a copy of the project, and return its output."""
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=quiet, text=True, capture_output=True, check=False
    )
