"""Tests that docs/scale.md and docs/quotas.md show stored figures that belong to the current code."""

from pathlib import Path

import pytest

from proof.scale import limits, report
from proof.scale.deployment import Deployment
from proof.scale.model import Setup
from proof.scale.runs import ORDER, run_profile


@pytest.mark.slow
def test_the_pages_equal_the_stored_figures(deployment: Deployment) -> None:
    files = report.render_files(deployment)
    stale = [path.name for path, text in files.items() if path.read_text(encoding="utf-8") != text]
    if stale:
        pytest.fail(f"{', '.join(stale)} is stale: run `make scale ARGS=page`", pytrace=False)


def test_the_stored_figures_belong_to_the_present_traces_numbers_and_model(deployment: Deployment) -> None:
    if report.load_results()["digest"] != report.digest(deployment):
        pytest.fail("proof/scale/results.json is stale: run `make scale`", pytrace=False)


@pytest.mark.slow
def test_a_run_gives_the_stored_figures_again(deployment: Deployment) -> None:
    row = report.find_row(report.load_results(), "flash")
    run = run_profile(Setup(deployment, limits.defaults()), report.PROFILE_BY_NAME["flash"], row["at_80_rate"])
    assert [round(value, 2) for value in run.percentiles(ORDER)] == row["at_80"][ORDER]


def test_every_quota_says_how_many_orders_a_second_its_default_takes_and_where_to_raise_it() -> None:
    page = Path(report.DOCS / "quotas.md").read_text(encoding="utf-8")
    asked = [one for one in limits.LIMITS if one.kind == "quota"]
    assert asked == [one for one in limits.LIMITS if one.quota]
    for limit in asked:
        assert limit.quota is not None
        (row,) = [line for line in page.splitlines() if f"/{limit.quota[0]}/quotas/{limit.quota[1]})" in line]
        orders = float(row.split(" | ")[3].replace(",", ""))
        assert orders * report.needs(1)[limit.id] == pytest.approx(limit.value, rel=0.05)
