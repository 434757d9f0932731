"""The facts and their recorded results are complete, and a run of them is shown as it was."""

import json
from collections import Counter
from pathlib import Path

import pytest

from proof.conformance import board, results
from proof.conformance.__main__ import main
from proof.conformance.board import Figures
from proof.conformance.probes import MAPPING_PROBES, PROBES
from proof.conformance.results import OK


def test_no_two_probes_share_a_name() -> None:
    assert [name for name, times in Counter(probe.name for probe in PROBES).items() if times > 1] == []


def test_a_probe_says_one_sentence_and_links_to_the_documentation() -> None:
    for probe in PROBES:
        assert probe.says.endswith("."), probe.name
        assert probe.source.startswith("https://docs.aws.amazon.com/"), probe.name


def test_a_rule_of_a_probe_names_a_record_of_the_probe() -> None:
    for probe in MAPPING_PROBES:
        named = {rule.record for rule in probe.behaviour} | {n for call in probe.calls for n in call.records}
        assert named <= set(range(1, len(probe.writes) + 1)), probe.name


def test_every_probe_was_played_by_a_runner() -> None:
    assert results.unplayed(probe.name for probe in PROBES) == [], "run `make record`"
    assert {name for runner in results.load().values() for name in runner["results"]} <= {p.name for p in PROBES}


def test_a_recorded_result_has_one_of_three_forms() -> None:
    for runner in results.load().values():
        for result in runner["results"].values():
            assert result == results.OK or result.startswith((results.DIFFERS, results.NOT_RUN))


def test_without_credentials_the_aws_runner_plays_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert main(["--aws"]) == 0
    assert capsys.readouterr().out == "No AWS credentials and region were found, so no fact was played.\n"


def test_the_two_figures_count_what_agrees_and_what_a_deployed_system_can_play() -> None:
    only_model = next(probe.name for probe in PROBES if probe.not_deployable_because)
    found = {
        "one_record_is_a_batch": OK,
        "batch_size_is_a_maximum": "differs: x",
        only_model: OK,
        "filter_equal": "not run: x",
    }
    assert Figures.of(found) == Figures(agreeing=2, played=3, covered=2, playable=212)
    assert (Figures.of(found).agreement, Figures.of({}).agreement) == ("2 of 3 (66 %)", "0 of 0")
    assert "filters                            0       0          33" in board.render_board({})


def test_a_run_of_the_model_is_written_as_json_and_badges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--json", str(tmp_path / "run.json"), "--badges", str(tmp_path / "badges")]
    assert main(["--model", "one_record_is_a_batch", "retry_adds_no_records", *options]) == 0
    assert "agreement: 2 of 2 (100 %) of the facts that were played\n" in capsys.readouterr().out
    run = json.loads((tmp_path / "run.json").read_text())
    assert (run["system"], run["agreement"]) == ("model", {"agreeing": 2, "played": 2})
    facts = {fact["name"]: fact for fact in run["facts"]}
    assert facts.keys() == {probe.name for probe in PROBES}
    assert (facts["one_record_is_a_batch"]["known"], facts["filter_equal"]["result"]) == ("documented", None)
    badge = json.loads((tmp_path / "badges" / "coverage.json").read_text())
    assert badge == {"schemaVersion": 1, "label": "AWS coverage", "message": "2 of 212 (0 %)", "color": "blue"}


def test_a_fact_that_a_run_on_aws_confirms_is_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = {"aws": {"versions": {}, "results": {"one_record_is_a_batch": OK, "filter_equal": "differs: x"}}}
    monkeypatch.setattr(results, "load", lambda: recorded)
    known = {probe.name: results.how_known(probe) for probe in PROBES}
    assert (known["one_record_is_a_batch"], known["filter_equal"]) == ("observed", "documented")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "choose a system: --model, --moto, --endpoint URL, --aws"),
        (["--model", "no_such"], "there is no fact no_such: --names prints all facts"),
        (["--model", "--as", "other=1"], "--as names what answers at --endpoint"),
        (["--endpoint", "http://127.0.0.1:9", "--record"], "--record needs --as NAME=VERSION"),
        (
            ["--endpoint", "http://127.0.0.1:9"],
            "No emulator of AWS answers at http://127.0.0.1:9. Start it, or correct",
        ),
        (["--endpoint", "127.0.0.1:9"], "No emulator of AWS answers at 127.0.0.1:9. Start it, or correct --endpoint."),
        (["--reproduce", "age_ends_retries"], "age_ends_retries has no script: a deployed mapping cannot read records"),
    ],
)
def test_an_error_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "")
    with pytest.raises(SystemExit):
        main(arguments)
    assert capsys.readouterr().err.startswith(f"aws-conformance: {message}")
