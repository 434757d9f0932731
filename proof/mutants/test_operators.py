"""The gate detects a fault in a tested line, and names one that no test sees."""

import subprocess
import sys

import pytest

from local.laptop.shop_client import PROJECT
from proof.mutants.operators import DETECTED, SURVIVED, compile_fault, find_faults

SOURCE = """
def fee(total: int, is_member: bool) -> int:
    if total > 100 and not is_member:
        print("a fee")
        return 1
    return 0
"""


def test_each_kind_of_fault_is_found_and_changes_the_function() -> None:
    faults = find_faults(SOURCE)
    assert {fault.kind for fault in faults} == {
        "boundary", "constant", "dropped call", "dropped condition", "dropped not", "reversed condition"
    }  # fmt: skip
    original = compile(SOURCE, "fee.py", "exec")
    for fault in faults:
        assert compile_fault(SOURCE, "fee.py", fault) not in original.co_consts, fault


@pytest.mark.slow
def test_a_fault_that_fewer_tests_miss_survives() -> None:
    def run(tests: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "proof.mutants.operators", "functions/model/money.py", tests, "--count", "8"]
        return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)

    detected = [line for line in run("tests/model/test_money.py").stdout.splitlines() if line.startswith(DETECTED)]
    assert detected
    assert detected[0].replace(DETECTED, SURVIVED) in run("tests/model/test_events.py").stdout
    assert run("tests/model/no_such_test.py").returncode == 2
