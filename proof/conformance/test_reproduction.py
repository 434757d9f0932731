"""A reproduction is a script that shows a difference, made from the probe."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from moto import mock_aws

from proof.conformance.probes import PROBES
from proof.conformance.probes.kinds import QueueProbe
from proof.conformance.reproduction import NoReproduction, render_report, render_script

BY_NAME = {probe.name: probe for probe in PROBES}


def test_every_fact_that_a_deployed_system_can_play_without_a_queue_has_a_script() -> None:
    for probe in PROBES:
        if probe.not_deployable_because or isinstance(probe, QueueProbe):
            with pytest.raises(NoReproduction):
                render_script(probe)
        else:
            compile(render_script(probe), probe.name, "exec")


def test_the_script_of_a_service_shows_the_difference_of_moto(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "reproduce.py"
    script.write_text(render_script(BY_NAME["a_batch_write_has_at_most_25_items"]))
    monkeypatch.setattr(sys, "argv", [str(script)])
    with mock_aws():
        runpy.run_path(str(script))
    assert "Error.Code: None  <- DIFFERS: on AWS it is 'ValidationException'" in capsys.readouterr().out


def test_a_report_says_how_the_fact_is_known_and_what_was_observed() -> None:
    found = {"moto 1": "differs: success instead of ValidationException", "other 2": "as expected"}
    report = render_report(BY_NAME["a_batch_write_has_at_most_25_items"], found)
    assert "AWS's documentation says so: https://docs.aws.amazon.com/" in report
    assert "## Observed\n\n- moto 1: success instead of ValidationException\n\n## Reproduce it" in report


@pytest.mark.slow
def test_the_script_of_a_mapping_shows_the_invocations(ministack: str, tmp_path: Path) -> None:
    script = tmp_path / "reproduce.py"
    script.write_text(render_script(BY_NAME["a_failing_record_blocks_its_shard"]))
    done = subprocess.run(
        [sys.executable, str(script), ministack], env=os.environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.count("records [1]") == 3
    assert done.stdout.endswith("AWS invokes with [[1], [1], [1], [2]]\n")
