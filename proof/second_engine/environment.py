"""Finds the Python of LocalEmu, and installs LocalEmu into build/second_engine."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from stacks import PROJECT

PYTHON = "python3.13"
"""The only Python of LocalEmu 1.3.2: 3.12 has no `warnings.deprecated`, and its requirements exclude 3.14."""
VARIABLE = "SECOND_PYTHON"
LOCK = Path(__file__).with_name("requirements.txt")
FOLDER = PROJECT / "build" / "second_engine"
STAMP = FOLDER / ".installed"


class NoPython(RuntimeError):
    """The Python that SECOND_PYTHON names cannot run LocalEmu."""


def find_python() -> str | None:
    """Return the path of a Python that LocalEmu runs on, or None if there is none.

    Raises NoPython if the environment variable SECOND_PYTHON names another one, or none that runs.
    """
    wanted = os.environ.get(VARIABLE)
    name, script = wanted or PYTHON, "import sys; print(sys.executable if sys.version_info[:2] == (3, 13) else '')"
    # A shim of pyenv runs only with a version.
    versions = [{"PYENV_VERSION": version} for version in _output(["pyenv", "whence", name], {}).split()]
    for variables in ({}, *versions):
        if path := _output([name, "-c", script], variables):
            return path
    if wanted:
        raise NoPython(f"{VARIABLE}={wanted} is not Python 3.13, or does not run.")
    return None


def _output(command: list[str], variables: Mapping[str, str]) -> str:
    """Return what a command prints, or "" if it cannot run or fails."""
    try:
        done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def install(python: str) -> str:
    """Install the packages of the lock file into build/second_engine, unless they are there. Return its Python."""
    inside, contents = str(FOLDER / "bin" / "python"), f"{python}\n{LOCK.read_text(encoding='utf-8')}"
    if not STAMP.exists() or STAMP.read_text(encoding="utf-8") != contents:
        print(f"Installing LocalEmu with {python} into {FOLDER.relative_to(PROJECT)}", flush=True)
        uv = (sys.executable, "-m", "uv")
        subprocess.run([*uv, "venv", "--quiet", "--clear", "--python", python, str(FOLDER)], check=True)
        packages = ["--require-hashes", "--requirement", str(LOCK)]
        subprocess.run([*uv, "pip", "install", "--quiet", "--python", inside, *packages], check=True)
        STAMP.write_text(contents, encoding="utf-8")
    return inside
