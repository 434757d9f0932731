"""Tests that `make setup` says in one sentence what a machine lacks, also on other systems than this one."""

import os
import platform
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from local.world import dynamodb_engine
from tests.test_workflows import read
from tools import machine
from tools.locks import PROJECT

ENGINE = "the local DynamoDB engine (`make synth` and `make deploy` work, `make up` and `make test` do not)"


@pytest.fixture
def complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Simulate a Mac that lacks nothing. Return the project's folder."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(platform, "python_version_tuple", lambda: ("3", "14", "1"))
    monkeypatch.setattr(shutil, "which", lambda name: f"/opt/homebrew/bin/{name}")
    monkeypatch.setattr(dynamodb_engine, "PROJECT", tmp_path)
    engine = tmp_path / "node_modules" / "@dynoxide" / "darwin-arm64" / "dynoxide"
    engine.parent.mkdir(parents=True)
    engine.touch()
    return tmp_path


def said(capsys: pytest.CaptureFixture[str]) -> str:
    assert machine.main() == 0
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("processor", "expected"), [("arm64", ""), ("x86_64", f"Missing on darwin-x86_64: {ENGINE}.\n")]
)
def test_only_the_engine_of_this_processor_counts(
    complete: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], processor: str, expected: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: processor)
    assert said(capsys) == expected


def test_all_missing_parts_are_one_sentence(
    complete: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(complete / "node_modules")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(platform, "python_version_tuple", lambda: ("3", "15", "0"))
    text = said(capsys)
    assert text.startswith(f"Missing on darwin-arm64: {ENGINE}, and Chromium (")
    assert "Git (all but `make release` and `make rehearse-upgrade` works), and a tested Python (this is 3.15;" in text
    assert (text.count("\n"), text.endswith(").\n")) == (1, True)


def test_the_tested_pythons_are_those_of_the_workflow() -> None:
    assert tuple(read("ci")["jobs"]["test"]["strategy"]["matrix"]["python"]) == machine.TESTED_PYTHONS


@pytest.mark.parametrize(("options", "says_so"), [((), True), (("--no-print-directory",), True), (("-i",), False)])
def test_a_check_that_ignores_errors_does_not_say_that_all_passed(options: tuple[str, ...], says_so: bool) -> None:
    command = ["make", "-n", *options, "check", "ARGS=i"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True)
    assert ("All checks passed" in done.stdout) is says_so


# the Python that `make setup` chooses ---------------------------------------------------------------------------------
def setup_with(pythons: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the recipe of .venv with only these Pythons. `pythons`: a shell script for each name on the PATH."""
    programs = folder / "bin"
    programs.mkdir()
    for name in ("sh", "make", "sed", "touch", "ln"):
        (programs / name).symlink_to(str(shutil.which(name)))
    for name, script in pythons.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(stat.S_IRWXU)
    for name in ("Makefile", "requirements.txt"):
        shutil.copy(PROJECT / name, folder / name)
    return subprocess.run(
        ["make", ".venv/.installed"],
        cwd=folder,
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )


OLD = 'case "$*" in *version_info*) exit 1;; esac'  # like the python3 of macOS, which is 3.9
NO_VENV = 'case "$*" in *ensurepip*) exit 1;; esac'
NEW = """case "$*" in
  --version) echo Python 3.14.1;;
  "-m venv"*) mkdir -p .venv/bin; echo 'echo "$*" >> calls; exit 3' > .venv/bin/python; chmod +x .venv/bin/python;;
esac"""


@pytest.mark.parametrize(
    ("newer", "sentence"),
    [
        ({}, "No Python 3.11 or newer was found. Install it, or set its path"),
        ({"python3.14": NO_VENV}, "python3.14 has no venv module."),
    ],
)
def test_a_python_that_cannot_be_used_is_one_sentence(tmp_path: Path, newer: dict[str, str], sentence: str) -> None:
    ran = setup_with({"python3": OLD, **newer}, tmp_path)
    assert ran.returncode
    assert sentence in ran.stderr


def test_python_3_14_is_found_and_a_package_that_cannot_be_installed_is_a_sentence(tmp_path: Path) -> None:
    ran = setup_with(
        {"python3": OLD, "python3.14": NEW, "mkdir": 'exec /bin/mkdir "$@"', "chmod": 'exec /bin/chmod "$@"'}, tmp_path
    )
    assert "Creating .venv with Python 3.14.1" in ran.stdout
    assert ran.returncode
    (sentence,) = re.findall("A package of requirements.txt .*", ran.stderr)
    assert sentence.endswith("Linux (x86-64, arm64) and macOS (arm64).")
