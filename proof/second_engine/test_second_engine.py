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


def test_a_named_python_that_does_not_run_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(environment.VARIABLE, raising=False)
    assert environment.find_python() is None
    monkeypatch.setenv(environment.VARIABLE, os.fspath(tmp_path / "python3.13"))
    with pytest.raises(environment.NoPython, match="does not run"):
        environment.find_python()
