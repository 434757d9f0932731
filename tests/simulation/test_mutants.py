"""Tests that the invariants or the oracle detect each bug that is planted in the shop's code. Run: `make mutants`."""

import pytest

from local.dynamodb_engine import Engine
from tests.simulation.invariants import INVARIANTS
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.runner import run_seed


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_fault_is_caught(engine: Engine, mutant: Mutant) -> None:
    with mutant.plant():
        verdicts = (
            run_seed(engine, seed, fierce=True, judges=(mutant.judge,), opens_at=mutant.opens_at)
            for seed in range(mutant.first_seed, mutant.first_seed + mutant.seeds)
        )
        if mutant.sole_invariant:
            seen = [sentence for verdict in verdicts for sentence in verdict.violations]
            assert {sentence.partition(":")[0] for sentence in seen} == {mutant.sole_invariant}, (
                f"{mutant.description}: {seen}"
            )
        elif mutant.judge == "oracle":
            found = (name for verdict in verdicts for name in verdict.invariants)
            assert any(name.startswith("oracle_") for name in found), mutant.description
        else:
            assert any(verdict.violations for verdict in verdicts), mutant.description


def test_each_invariant_is_the_only_one_to_see_some_fault() -> None:
    assert {mutant.sole_invariant for mutant in MUTANTS} - {""} == {invariant.__name__ for invariant in INVARIANTS}
