"""Tests the simulation with few seeds: invariants hold, runs are repeatable, and a planted bug is explained."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from functions.shop import stock
from local.world.dynamodb_engine import Engine
from proof.simulation import __main__ as simulation
from proof.simulation import runs
from proof.simulation.faults import DAY
from proof.simulation.invariants import INVARIANTS
from proof.simulation.minimizer import format_failure, minimize_decisions, shrink_failure
from proof.simulation.operators import drift_violations
from proof.simulation.runner import SeedResult, run_seed
from proof.simulation.services import SimulatedDynamoDB
from proof.simulation.situations import SITUATIONS
from proof.simulation.wire import WireResponse
from proof.simulation.world import Simulation
from proof.support.examples import many

QUICK = (1,)
FOUND = (111, 295, 1357, 5065, 5070, 6274, 6329)
"""Seeds that have found an error of the shop."""
FOUND_IN_SIMULATION = (289, 968, 1136, 5819, 5999, 6637)
"""Seeds that have failed because an invariant, the simulated operator, or the simulation itself was wrong."""


@pytest.mark.parametrize(
    "seed", [*QUICK, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (*FOUND, *FOUND_IN_SIMULATION))]
)
def test_every_invariant_holds_under_every_fault(engine: Engine, seed: int) -> None:
    verdict = run_seed(engine, seed)
    assert not verdict.violations, format_failure(verdict)
    assert verdict.faults.total() >= 20


def test_a_run_that_has_nothing_left_to_do_at_midnight_is_over(engine: Engine) -> None:
    """The clock stands at midnight if items have just expired. If no work is left, it never leaves midnight."""
    world = Simulation(engine, 1, only=frozenset())
    world.tasks.call_at((world.opens_at // DAY + 2) * DAY, lambda: None)
    world.run()
    assert not world.violations


def test_the_operator_looks_at_a_parked_record_before_it_is_too_old(engine: Engine) -> None:
    world = Simulation(engine, 1, only=frozenset())
    parked_at = world.opens_at + 10 * DAY
    world.tasks.call_at(parked_at, lambda: world.s3.put(world.template.failures, "parked/copies/one.json", b"{}"))
    world.tasks.call_at(parked_at + 70 * DAY, lambda: None)  # the era ends only here
    world.run()
    (looked_at,) = [at for at, _, what in world.trace if "1 cannot be redriven" in what]
    assert looked_at < parked_at + 4 * DAY


@pytest.mark.slow
def test_a_seed_is_the_same_every_time(engine: Engine) -> None:
    """Also after a run with another seed, and in a new process with another PYTHONHASHSEED."""
    first = run_seed(engine, 5)
    run_seed(engine, 6)
    again = run_seed(engine, 5)
    assert again.trace == first.trace
    alone = subprocess.run(
        [sys.executable, "-m", "proof.simulation", "--seed", "5"],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert first.digest[:16] in alone.stdout


def test_a_look_for_drift_sees_a_copy_that_is_gone_and_nothing_else(engine: Engine) -> None:
    world = Simulation(engine, 7)
    world.run()
    assert not world.violations
    assert list(drift_violations(world)) == []
    lost = world.table.of_type("Activity", "OrderSummary")[0]
    world.table.call("DeleteItem", Key={"PK": lost["PK"], "SK": lost["SK"]})
    (sentence,) = drift_violations(world)
    assert f" missing: {lost['PK']['S']} / {lost['SK']['S']} is None" in sentence


def test_a_seed_without_its_faults_plans_the_same_commands(engine: Engine) -> None:
    """Repeat a run without its injected faults: the clients plan the same commands, and no invariant is violated."""
    whole = run_seed(engine, 3)
    commands = [name for name in whole.decisions if " @ " not in name]
    calm = run_seed(engine, 3, only=frozenset(commands))
    assert [name for name in calm.decisions if " @ " not in name] == commands
    assert not calm.faults
    assert not calm.violations


def test_a_replica_that_is_not_late_answers_as_the_engine_does(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stale reads come from the recorded item versions. With a lag of 0, they must equal the engine's answers."""
    answer, compared = SimulatedDynamoDB.answer, []

    def both(self: SimulatedDynamoDB, operation: str, request: Any) -> WireResponse:
        real = answer(self, operation, request)
        if operation in ("Query", "GetItem", "BatchGetItem"):
            late = json.loads(self._table.stale_answer(operation, json.loads(request.body), lambda key: 0.0))
            compared.append((_comparable(json.loads(real.body)), _comparable(late)))
        return real

    monkeypatch.setattr(SimulatedDynamoDB, "answer", both)
    run_seed(engine, 2)
    assert len(compared) > 100
    assert [real for real, _ in compared] == [late for _, late in compared]


def _comparable(answer: dict[str, Any]) -> Any:
    """Return the items of a response, sorted for BatchGetItem, and the key at which the next page starts."""
    batches = answer.get("Responses", {}).values()
    batch = sorted(json.dumps(item, sort_keys=True) for items in batches for item in items)
    return answer.get("Item"), answer.get("Items"), answer.get("LastEvaluatedKey"), batch


@pytest.mark.slow
def test_a_violation_is_detected_and_reported_with_its_few_decisions(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bug: a cancelled or lapsed order keeps its stock. Fewer than three commands and faults must explain it."""

    def nothing(_: Any) -> Iterator[Any]:
        return iter(())

    monkeypatch.setattr(stock, "release", nothing)
    # The short version of the test begins with seed 2. Its failure needs half as many repeated runs as that of seed 1.
    failed = next(verdict for seed in range(many(1, 2), 10) if (verdict := run_seed(engine, seed)).violations)
    oracle = {"oracle_received_goods_are_there_or_in_an_order", "oracle_each_stock_item_adds_up"}
    assert failed.invariants == {"stock_adds_up", *oracle}
    small = shrink_failure(engine, failed)
    assert len(small.decisions) < 3
    text = format_failure(small)
    assert f"make simulate SEED={failed.seed}" in text
    assert small.decisions[0] in text
    assert "LAPSED" in text or "CANCELLED" in text


def test_the_minimizer_keeps_only_the_needed_decisions() -> None:
    decisions = [f"decision {number}" for number in range(50)]
    takes = {"decision 7", "decision 31"}
    assert set(minimize_decisions(decisions, lambda some: takes <= set(some), lambda: False)) == takes


APPLIED, OCCURRED = Counter(invariant.__name__ for invariant in INVARIANTS), Counter([*SITUATIONS])


def _result(seed: int, **counters: Any) -> SeedResult:
    plain = SeedResult(seed, (), (), Counter({"throttled": seed}), APPLIED, (), situations=OCCURRED)
    return replace(plain, **counters)


def test_a_run_ends_with_a_line_of_json_and_adds_it_to_the_runs_of_its_tree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "runs.jsonl"
    monkeypatch.setattr(simulation, "run_seeds", lambda seeds, jobs: map(_result, seeds))
    monkeypatch.setattr(runs, "tree_hash", lambda: "0123456789ab")
    assert simulation._run_many(range(1, 3), 1, 0, ledger) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == ledger.read_text().strip()
    line = json.loads(said[-1])
    assert (line["tree"], line["seeds"], line["failed"]) == ("0123456789ab", [1, 2], [])
    assert line["faults"] == {"throttled": 3}
    assert (line["premises"], line["situations"]) == (dict.fromkeys(APPLIED, 2), dict.fromkeys(OCCURRED, 2))
    assert simulation._run_many(range(3, 6), 1, 0, ledger) == 0
    assert "5 seeds of tree 0123456789ab are recorded." in capsys.readouterr().out
    with pytest.raises(SystemExit, match="Seeds 1-2 are recorded"):
        simulation._run_many(range(2, 3), 1, 0, ledger)


def test_a_run_is_not_recorded_if_the_code_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees = iter(("before", "after"))
    monkeypatch.setattr(simulation, "run_seeds", lambda seeds, jobs: map(_result, seeds))
    monkeypatch.setattr(runs, "tree_hash", lambda: next(trees))
    with pytest.raises(SystemExit, match="The code has changed"):
        simulation._run_many(range(1, 3), 1, 0, tmp_path / "runs.jsonl")
    assert not (tmp_path / "runs.jsonl").exists()


@pytest.mark.parametrize(
    ("counter", "missing"), [("premises", next(iter(APPLIED))), ("situations", next(iter(OCCURRED)))]
)
def test_a_long_run_fails_if_an_invariant_never_applied_or_a_situation_never_occurred(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, counter: str, missing: str
) -> None:
    ran = [_result(1, **{counter: {"premises": APPLIED, "situations": OCCURRED}[counter] - Counter([missing])})]
    monkeypatch.setattr(simulation, "run_seeds", lambda seeds, jobs: ran * len(seeds))
    assert simulation._run_many(range(1, 500), 1, 0, None) == 0
    assert simulation._run_many(range(1, 501), 1, 0, None) == 1
    said = f"These invariants never applied, or these situations never occurred: {missing}"
    assert said in capsys.readouterr().out
