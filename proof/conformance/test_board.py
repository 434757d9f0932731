"""The probes and their recorded results are complete, and the page shows them."""

import re
from collections import Counter

import pytest

from proof.conformance import board, results
from proof.conformance.__main__ import main
from proof.conformance.probes import MAPPING_PROBES, PROBES


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


def test_the_page_has_every_probe() -> None:
    assert all(f"`{probe.name}`" in board.render_page() for probe in PROBES)


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
    assert capsys.readouterr().out == "No AWS credentials and region were found, so no probe was played.\n"


def test_results_of_an_emulator_are_not_recorded_as_those_of_aws(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--aws", "--endpoint", "http://127.0.0.1:4566", "--record"])
    assert "without --record" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("endpoint", "removed", "message"),
    [
        ("http://127.0.0.1:9", "absent", "No emulator of AWS answers at http://127.0.0.1:9. Start it, or"),
        ("127.0.0.1:9", "absent", "No emulator of AWS answers at 127.0.0.1:9. Start it, or correct --endpoint."),
        ("http://127.0.0.1:9", "AWS_ACCESS_KEY_ID", "Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_DEFAULT_REG"),
        ("http://127.0.0.1:9", "AWS_DEFAULT_REGION", "Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_DEFAULT_RE"),
    ],
)
def test_an_emulator_that_cannot_be_used_is_an_error(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, removed: str, message: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "")
    monkeypatch.delenv(removed, raising=False)
    with pytest.raises(SystemExit, match=re.escape(message)):
        main(["--aws", "--endpoint", endpoint])
