"""Tests the parts of the second engine's lane that need no LocalEmu."""

import os
from pathlib import Path

import pytest

from proof.second_engine import environment, stack
from proof.support.synthesized import synthesize

STAGES = ("prod", "dev")


@pytest.mark.parametrize("stage", STAGES)
def test_two_places_of_a_template_are_changed_for_the_second_engine(stage: str) -> None:
    template = synthesize(f"orderstream-{stage}", stage=stage).body
    adapted, changes = stack.adapt(template)
    assert changes == 2, "two statements of the operators' tools name the event archive"
    different = [id for id, one in template["Resources"].items() if adapted["Resources"][id] != one]
    assert len(different) == 1
    assert different[0].startswith("OperatorsTools")


def test_what_the_second_engine_only_accepts_is_in_a_template() -> None:
    types = {one["Type"] for stage in STAGES for one in _resources(stage)}
    assert types >= stack.NOT_CREATED


def _resources(stage: str) -> list[stack.Template]:
    return list(synthesize(f"orderstream-{stage}", stage=stage).body["Resources"].values())


def _install_command(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(environment.VARIABLE, raising=False)
    return tmp_path


def test_a_shim_that_does_not_run_gets_the_version_of_its_manager(commands: Path) -> None:
    _install_command(commands, "python3.13", '[ "$PYENV_VERSION" = 3.13.9 ] && echo /there/python3.13')
    assert environment.find_python() is None
    _install_command(commands, "pyenv", "echo 3.13.9")
    assert environment.find_python() == "/there/python3.13"


def test_a_named_python_that_does_not_run_is_an_error(commands: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment.find_python() is None
    monkeypatch.setenv(environment.VARIABLE, os.fspath(commands / "python3.13"))
    with pytest.raises(environment.NoPython, match="does not run"):
        environment.find_python()
