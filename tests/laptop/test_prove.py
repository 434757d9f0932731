"""Runs `make prove` on this machine: the steps smoke, poison, burst, archive and drift in a shop, then every probe.

The upgrade is left out: `make rehearse-upgrade` runs it each night.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from local.laptop.shop_client import PROJECT
from proof.account.outcome import NOT_RUN
from proof.conformance import results
from proof.conformance.probes import PROBES
from proof.shop_probes import access_patterns

pytestmark = pytest.mark.laptop
NOT_ON_THE_LAPTOP = {"failed deploy", "archive copy", "alarm", "backup", "restore"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report of `make prove` without the upgrade, which is incomplete."""
    folder: Path = tmp_path_factory.mktemp("prove")
    command = [sys.executable, "-m", "proof.account", "--skip", "upgrade", "--report", str(folder)]
    done = subprocess.run(
        command, cwd=PROJECT, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    print(done.stdout)
    assert done.returncode == 1, done.stdout[-8000:]
    found: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    not_run = [one["name"] for one in found["steps"] if one["result"] == NOT_RUN]
    assert (found["verdict"], not_run) == ("incomplete", ["upgrade"])
    return found


def test_every_step_that_can_exist_here_is_ok_and_no_other_is_shown_as_passed(report: dict[str, Any]) -> None:
    found = {one["name"]: one["result"] for one in report["steps"]}
    absent = {name for name, result in found.items() if result == "not possible here"}
    assert absent == {*NOT_ON_THE_LAPTOP}
    absent.add("upgrade")
    assert {found[name] for name in found.keys() - absent} == {"ok"}
    assert all(
        one["seen"].startswith("not on the laptop") for one in report["steps"] if one["name"] in NOT_ON_THE_LAPTOP
    )


def test_every_probe_behaves_as_recorded_on_the_laptop(report: dict[str, Any]) -> None:
    patterns = {probe.name for probe in access_patterns.PROBES}
    assert report["probes"].keys() == {probe.name for probe in PROBES} | patterns
    assert {report["probes"][name] for name in patterns} == {results.OK}
    changed = {
        name: (result, recorded)
        for name, result in report["probes"].items()
        if name not in patterns
        and result.partition(":")[0] != (recorded := results.recorded("laptop", name)).partition(":")[0]
    }
    assert changed == {}
