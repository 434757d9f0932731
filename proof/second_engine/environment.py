"""Finds the Python of LocalEmu, and installs LocalEmu into build/second_engine."""

import os
import subprocess
import sys
from contextlib import suppress
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
    """Return a Python that LocalEmu runs on, or None. Raises NoPython if SECOND_PYTHON names another one."""
    wanted = os.environ.get(VARIABLE)
    script = "import sys; print(sys.executable if sys.version_info[:2] == (3, 13) else '')"
    with suppress(OSError):
        done = subprocess.run([wanted or PYTHON, "-c", script], capture_output=True, text=True, check=False)
        if path := done.stdout.strip():
            return path
    if wanted:
        raise NoPython(f"{VARIABLE}={wanted} is not Python 3.13, or does not run.")
    return None


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
