"""moto, which simulates AWS services in the tests, behaves as recorded in results.json."""

import pytest

from proof.conformance import results
from proof.conformance.probes import SERVICE_PROBES
from proof.conformance.runners import moto

OF_THE_TESTS = {"s3", "sqs", "events", "sesv2"}
CHOSEN = [probe for probe in SERVICE_PROBES if probe.service in OF_THE_TESTS]


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    return {probe.name: result for probe, result in moto.play(CHOSEN)}


@pytest.mark.filterwarnings("ignore:EventDetail should be of type dict")
@pytest.mark.parametrize("name", [probe.name for probe in CHOSEN])
def test_moto_answers_as_recorded(found: dict[str, str], name: str) -> None:
    assert found[name].partition(":")[0] == results.recorded("moto", name).partition(":")[0], found[name]
