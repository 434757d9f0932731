"""A report shows a difference with a script or a command, made from the probe."""

import re
import runpy
import sys
from pathlib import Path

import pytest
from moto import mock_aws

from proof.conformance.probes import PROBES, SERVICE_PROBES
from proof.conformance.reproduction import NoReproduction, render_report, render_script

(BATCH_WRITE,) = (probe for probe in SERVICE_PROBES if probe.name == "a_batch_write_has_at_most_25_items")


def test_every_fact_that_a_deployed_system_can_play_has_a_report() -> None:
    for probe in PROBES:
        if probe.not_deployable_because:
            with pytest.raises(NoReproduction):
                render_report(probe, {})
        else:
            (code,) = re.findall(r"```python\n(.*?)```", render_report(probe, {}), re.DOTALL)
            compile(code, probe.name, "exec")


def test_the_script_of_a_service_shows_the_difference_of_moto(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "reproduce.py"
    script.write_text(render_script(BATCH_WRITE))
    monkeypatch.setattr(sys, "argv", [str(script)])
    with mock_aws():
        runpy.run_path(str(script))
    assert "Error.Code: None  <- DIFFERS: on AWS it is 'ValidationException'" in capsys.readouterr().out


def test_a_report_says_how_the_fact_is_known_and_what_was_observed() -> None:
    found = {"moto 1": "differs: success instead of ValidationException", "other 2": "as expected"}
    report = render_report(BATCH_WRITE, found)
    assert "AWS's documentation says so: https://docs.aws.amazon.com/" in report
    assert "## Observed\n\n- moto 1: success instead of ValidationException\n\n## Reproduce it" in report
