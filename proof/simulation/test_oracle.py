"""Tests the oracle: it does not import the product, its arithmetic is right, and each rule has something to check."""

import subprocess
import sys
from collections import Counter

import pytest

from local.world.dynamodb_engine import Engine
from proof.oracle import RULES, arithmetic
from proof.simulation.mutants import BEFORE_MONTH_END
from proof.simulation.runner import run_seed
from proof.simulation.world import Judge
from proof.support.examples import many

ORACLE: tuple[Judge, ...] = ("oracle",)


def test_the_oracle_does_not_import_the_product() -> None:
    asked = "import sys, proof.oracle; print([n for n in sys.modules if n.split('.')[0] in sys.argv[1:]])"
    product = ["functions", "ops", "stacks", "local"]
    said = subprocess.run([sys.executable, "-c", asked, *product], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("amount", "is_net", "net", "tax"),
    [
        (600, False, 500, 100),
        (490, False, 408, 82),
        (2, False, 2, 0),
        (3, False, 2, 1),  # 3 * 20 / 120 is 0.5, which is rounded up
        (600, True, 600, 120),
        (12, True, 12, 2),
        (13, True, 13, 3),  # 2.6
    ],
)
def test_a_tax_is_rounded_half_up(amount: int, is_net: bool, net: int, tax: int) -> None:
    assert arithmetic.taxed_row(amount, 2_000, is_net=is_net) == (2_000, net, tax)


def test_a_discount_is_rounded_down_and_shared_by_price() -> None:
    assert arithmetic.discount_on(999, 2_000) == 199
    lines = {"mug": {"price": 333, "quantity": 1}, "tea": {"price": 111, "quantity": 6}}
    rows = arithmetic.rows_of_goods(lines, 199, {"mug": 2_000, "tea": 1_000}, is_net=False)
    assert [row.gross for row in rows.values()] == [333 - 66, 666 - 133]  # a third of 199 is 66.3
    assert arithmetic.paid_for(lines, rows, {"tea": 5}) == 444  # five sixths of 533 are 444.2
    assert arithmetic.paid_for(lines, rows, {"mug": 1, "tea": 6}) == 999 - 199


def test_sales_around_the_end_of_a_month_count_for_their_month(engine: Engine) -> None:
    verdicts = [run_seed(engine, seed, judges=ORACLE, opens_at=BEFORE_MONTH_END) for seed in range(1, many(20, 5))]
    assert [sentence for verdict in verdicts for sentence in verdict.violations] == []
    premises = [premise for verdict in verdicts for premise in verdict.premises]
    for month in ("2026-11", "2026-12"):
        assert any(f"the sales of a product in {month}" in premise for premise in premises)


@pytest.mark.slow
def test_each_rule_has_something_to_check(engine: Engine) -> None:
    premises = sum((run_seed(engine, seed, judges=ORACLE).premises for seed in range(1, 20)), Counter[str]())
    assert {premise.partition(":")[0] for premise in premises} == {rule.__name__ for rule in RULES}
