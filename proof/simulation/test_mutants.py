"""Tests that the invariants or the oracle detect each bug that is planted in the shop's code. Run: `make mutants`."""

from functools import cache, partial

import pytest

from local.world.dynamodb_engine import Engine
from proof.simulation.invariants import INVARIANTS
from proof.simulation.mutants import MUTANTS, Mutant
from proof.simulation.runner import run_seed
from proof.simulation.world import Judge


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_fault_is_caught(engine: Engine, mutant: Mutant) -> None:
    run = partial(run_seed, engine, fierce=True, judges=(mutant.judge,), opens_at=mutant.opens_at)
    seen: dict[int, frozenset[str]] = {}
    with mutant.plant():
        for seed in range(mutant.first_seed, mutant.first_seed + mutant.seeds):
            if found := run(seed).invariants:
                seen[seed] = frozenset(found)
                if not mutant.sole_invariant:
                    break
    assert seen, mutant.description
    if mutant.sole_invariant:
        assert set(seen.values()) == {frozenset({mutant.sole_invariant})}, mutant.description
    assert not _wrong_without_fault(engine, next(iter(seen)), mutant.judge, mutant.opens_at)


@cache
def _wrong_without_fault(engine: Engine, seed: int, judge: Judge, opens_at: float | None) -> tuple[str, ...]:
    return run_seed(engine, seed, fierce=True, judges=(judge,), opens_at=opens_at).violations


def test_each_fault_can_be_planted_in_the_code_as_it_is_now() -> None:
    for mutant in MUTANTS:
        with mutant.plant():
            pass


def test_each_invariant_is_the_only_one_to_detect_some_fault() -> None:
    assert {mutant.sole_invariant for mutant in MUTANTS} - {""} == {invariant.__name__ for invariant in INVARIANTS}
