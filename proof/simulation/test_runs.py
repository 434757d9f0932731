"""Tests the recorded runs: the hash of the code, the sums of several runs, and what too few or odd runs lack."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from proof.oracle.exceptions import MAX_EXCEPTION_PERCENT, Exceptions
from proof.simulation.runs import (
    GUARANTEES,
    RUNS,
    Runs,
    add_up,
    find_recorded,
    read_runs,
    record_run,
    render_headline,
    tree_hash,
)


def _line(first: int, last: int, tree: str = "a", **counters: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"failed": [], "faults": {}, "premises": {}, "situations": {}, "exceptions": {}}
    return {"tree": tree, "date": "2026-11-29", "seeds": [first, last], **empty, **counters}


def test_the_recorded_runs_are_of_one_tree_and_lack_nothing() -> None:
    lines = read_runs(RUNS)
    assert len({line["tree"] for line in lines}) <= 1
    seeds = [seed for line in lines for seed in range(line["seeds"][0], line["seeds"][1] + 1)]
    assert len(seeds) == len({*seeds})
    assert add_up(lines).find_shortcomings() == []


def test_the_hash_changes_with_each_file_that_decides_a_run_and_with_no_other(tmp_path: Path) -> None:
    shop, other = tmp_path / "functions" / "shop.py", tmp_path / "docs" / "page.md"
    for path in (shop, other):
        path.parent.mkdir()
        path.write_text("1")
    first = tree_hash(tmp_path)
    assert len(first) == 12
    other.write_text("2")
    for name in ("test_shop.py", "shop.cpython-313.pyc", "mutants.py"):
        (tmp_path / "functions" / name).write_text("2")
    assert tree_hash(tmp_path) == first
    shop.write_text("2")
    second = tree_hash(tmp_path)
    shop.rename(tmp_path / "functions" / "orders.py")
    assert len({first, second, tree_hash(tmp_path)}) == 3
    (tmp_path / "functions").rename(tmp_path / "ops")
    moved = tree_hash(tmp_path)
    assert moved == tree_hash(tmp_path.rename(tmp_path.with_name("another clone")))


def test_a_run_of_another_tree_replaces_the_recorded_runs(tmp_path: Path) -> None:
    ledger = tmp_path / "runs.jsonl"
    assert read_runs(ledger) == []
    assert record_run(ledger, _line(1, 250)) == "250 seeds of tree a are recorded."
    assert record_run(ledger, _line(501, 1_500)) == "1,250 seeds of tree a are recorded."
    said = record_run(ledger, _line(1, 2, "b"))
    assert said == "Removed runs of another tree: 2. 2 seeds of tree b are recorded."
    assert read_runs(ledger) == [_line(1, 2, "b")]


@pytest.mark.parametrize(
    ("seeds", "tree", "is_refused"),
    [
        (range(11, 21), "a", True),
        (range(1, 12), "a", True),
        (range(20, 30), "a", True),
        (range(1, 100), "a", True),
        (range(1, 11), "a", False),
        (range(21, 30), "a", False),
        (range(11, 21), "b", False),
    ],
)
def test_no_seed_is_recorded_twice_for_a_tree(tmp_path: Path, seeds: range, tree: str, is_refused: bool) -> None:
    ledger = tmp_path / "runs.jsonl"
    assert find_recorded(ledger, tree, seeds) == ""
    record_run(ledger, _line(11, 20))
    assert ("Seeds 11-20 are recorded" in find_recorded(ledger, tree, seeds)) is is_refused


def test_runs_that_lack_a_premise_alone_may_have_it_together() -> None:
    lines = [_line(1, 250, premises={"stock_adds_up": 0}), _line(251, 500, premises={"stock_adds_up": 3})]
    assert add_up([lines[0], _line(251, 500)]).find_shortcomings() == [
        "These invariants never applied, or these situations never occurred: stock_adds_up"
    ]
    assert add_up(lines).premises == {"stock_adds_up": 3}
    assert add_up(lines).find_shortcomings() == []


@pytest.mark.parametrize("premises", [{"rule": 200}, {"rule: one": 150, "rule: two": 50}])
def test_runs_fail_if_an_exception_applies_more_often_than_its_limit(premises: dict[str, int]) -> None:
    reason = "the record was lost"
    most = 2 * MAX_EXCEPTION_PERCENT[reason]
    allowed = Runs(100, premises=Counter(premises), exceptions=Counter({f"rule: {reason}": most}))
    assert allowed.find_shortcomings() == []
    allowed.exceptions[f"rule: {reason}"] += 1
    assert allowed.find_shortcomings() == [f"This exception applied too often: rule: {reason}: {most + 1} of 200"]
    allowed.seeds = 99
    assert allowed.find_shortcomings() == []


def test_a_violation_that_an_exception_allows_is_counted() -> None:
    counted = Exceptions()
    counted.rule = "rule"
    assert list(counted.violation_unless("wrong", {"the record was lost": False})) == ["wrong"]
    assert (
        list(counted.violation_unless("wrong", {"the customer was erased": False, "the record was lost": True})) == []
    )
    assert counted.exceptions == {"rule: the record was lost": 1}
    with pytest.raises(AssertionError, match="no limit"):
        counted.found_exception("no limit")


def test_the_headline_has_the_sums_of_all_runs_and_their_tree() -> None:
    assert render_headline(read_runs(RUNS)) in GUARANTEES.read_text()
    assert "No run of this version is recorded yet." in render_headline([])
    one = _line(1, 500, faults={"throttled": 1_000})
    said = render_headline([one, {**_line(501, 600, faults={"throttled": 5}), "date": "2026-11-30"}])
    assert "have 600 seeds and 1,005 faults. No seed failed." in said
    assert "from 2026-11-29 to 2026-11-30 with the tree `a`." in said
    assert "These seeds failed: 7, 9." in render_headline([{**one, "failed": [7, 9]}])
    lacking = _line(1, 500, premises={"stock_adds_up": 0})
    assert "These invariants never applied" in render_headline([lacking])
