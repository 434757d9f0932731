"""Tests that each check of this folder detects the fault for which it was written. Run it: `make mutants`."""

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from local.world.dynamodb_engine import Engine
from local.world.harness import run_shop
from proof.mutants.edits import CHECKED_MUTANTS, CheckedMutant
from stacks import PROJECT

for file in sorted(Path(__file__).parent.glob("test_*.py")):
    importlib.import_module(f"proof.mutants.{file.stem}")  # its checks are added to CHECKED_MUTANTS
PRODUCT = [PROJECT / name for name in ("functions", "ops", "stacks")]


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", CHECKED_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_fault_is_caught_by_its_check(
    engine: Engine, surroundings: dict[str, str], new_table: Callable[[], str], mutant: CheckedMutant
) -> None:
    """`make test` runs the checks without a fault."""
    with (
        pytest.MonkeyPatch.context() as patch,
        run_shop(engine, surroundings, new_table(), patch) as harness,
        mutant.plant(),
        pytest.raises((AssertionError, pytest.fail.Exception)) as caught,
    ):
        mutant.check(harness)
    raised_in = Path(caught.traceback[-1].path)
    assert not any(raised_in.is_relative_to(folder) for folder in PRODUCT), "the check must detect the fault itself"


def test_each_fault_can_be_planted_in_the_current_code() -> None:
    for mutant in CHECKED_MUTANTS:
        with mutant.plant():
            pass
    assert len({mutant.name for mutant in CHECKED_MUTANTS}) == len(CHECKED_MUTANTS)
