"""moto, which simulates AWS services in the tests, behaves as recorded in results.json."""

from collections.abc import Iterator

import pytest

from functions.runtime import clients
from proof.conformance import results
from proof.conformance.probes import SERVICE_PROBES
from proof.conformance.probes.kinds import ServiceProbe
from proof.conformance.runners.registry import MOTO_SERVICES, play_moto


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, str]]:
    yield {probe.name: result for probe, result in play_moto(SERVICE_PROBES)}
    clients.client.cache_clear()


@pytest.mark.filterwarnings("ignore:EventDetail should be of type dict")
@pytest.mark.parametrize(
    "probe", [probe for probe in SERVICE_PROBES if probe.service in MOTO_SERVICES], ids=lambda probe: probe.name
)
def test_moto_answers_as_recorded(found: dict[str, str], probe: ServiceProbe) -> None:
    recorded = results.recorded("moto", probe.name)
    assert found[probe.name].partition(":")[0] == recorded.partition(":")[0], found[probe.name]
