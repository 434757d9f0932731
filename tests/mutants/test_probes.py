"""Tests that each check of this folder detects the fault for which it was written. Run it: `make mutants`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from local.dynamodb_engine import Engine
from stacks import PROJECT, synth_cache
from tests.mutants.probes import PROBES, Probe
from tests.support.harness import run_shop

PRODUCT = [PROJECT / name for name in ("functions", "ops", "stacks")]


@pytest.mark.mutants
@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_a_planted_fault_is_caught_by_its_check(
    engine: Engine, surroundings: dict[str, str], new_table: Callable[[], str], probe: Probe
) -> None:
    with pytest.MonkeyPatch.context() as patch, run_shop(engine, surroundings, new_table(), patch) as harness:
        probe.check(harness)
    with (
        pytest.MonkeyPatch.context() as patch,
        run_shop(engine, surroundings, new_table(), patch) as harness,
        probe.plant(),
        pytest.raises((AssertionError, pytest.fail.Exception)) as caught,
    ):
        probe.check(harness)
    raised_in = Path(caught.traceback[-1].path)
    assert not any(raised_in.is_relative_to(folder) for folder in PRODUCT), "the check must detect the fault itself"


def test_each_fault_can_be_planted_in_the_product_as_it_is_now() -> None:
    for probe in PROBES:
        with probe.plant():
            synth_cache.load_template("orderstream-dev", {"laptop": "true"})
    assert len({probe.name for probe in PROBES}) == len(PROBES)
