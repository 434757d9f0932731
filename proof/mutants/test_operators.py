"""The gate detects a fault in a tested line, reports one that no test sees, and fails if a detected fault is lost."""

import json
import subprocess
import sys
from pathlib import Path

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
def test_a_detected_fault_that_fewer_tests_miss_is_named(tmp_path: Path) -> None:
    module, out = "functions/model/money.py", tmp_path / "before.json"
    command = [sys.executable, "-m", "proof.mutants.operators", module, "--count", "8"]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *more], cwd=PROJECT, capture_output=True, text=True, check=False)

    assert run("--out", str(out), "--", "tests/model/test_money.py").returncode == 0
    detected = [name for name, one in json.loads(out.read_text()).items() if one == DETECTED]
    assert detected
    fewer = run("--before", str(out), "--", "tests/model/test_events.py")
    assert (fewer.returncode, f"{SURVIVED}: {detected[0]}" in fewer.stdout) == (1, True)
    assert f"No longer detected: {detected[0]}" in fewer.stdout
    assert run("--", "tests/model/no_such_test.py").returncode == 2
