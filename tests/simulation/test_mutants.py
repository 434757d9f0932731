"""Faults planted in the product are seen by the invariants; `make mutants` asks for these."""

import pytest

from local.engine import Engine
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.runs import run_seed


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_fault_is_caught(engine: Engine, mutant: Mutant) -> None:
    with mutant.plant():
        assert any(run_seed(engine, seed).violations for seed in range(1, mutant.seeds + 1)), mutant.does
