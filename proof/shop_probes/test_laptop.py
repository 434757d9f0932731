"""The components of the local shop behave as recorded in results.json, and mostly as the probes say.

tests/laptop/test_prove.py plays all probes, also those that need a local AWS or that wait, and those of access
patterns, whose units tests/model/test_request_units.py checks.
"""

import pytest

from local.world.dynamodb_engine import Engine
from proof.conformance import results
from proof.conformance.probes import MAPPING_PROBES, SERVICE_PROBES, destinations
from proof.conformance.probes.kinds import MappingProbe, Probe, ServiceProbe
from proof.conformance.runners import services
from proof.conformance.runners.services import System
from proof.shop_probes.laptop import engine_system, play_pollers

ON_THE_ENGINE = [probe for probe in SERVICE_PROBES if probe.service == "dynamodb"]
QUICK = [*destinations.PROBES, *(probe for probe in MAPPING_PROBES if probe.name.startswith("bisect_"))]


def name(probe: Probe) -> str:
    return probe.name


def assert_recorded(probe: Probe, result: str) -> None:
    """Assert that a result is of the recorded kind: as expected, different, or not run."""
    recorded = results.recorded("laptop", probe.name)
    assert result.partition(":")[0] == recorded.partition(":")[0], f"{result}; recorded: {recorded}"


@pytest.fixture(scope="module")
def system(engine: Engine) -> System:
    return engine_system(engine)


@pytest.fixture(scope="module")
def quick_results(engine: Engine) -> dict[str, str]:
    return {probe.name: result for probe, result in play_pollers(engine, QUICK)}


@pytest.mark.parametrize("probe", ON_THE_ENGINE, ids=name)
def test_the_local_dynamodb_answers_as_recorded(system: System, probe: ServiceProbe) -> None:
    assert_recorded(probe, results.as_result(services.check(probe, system)))


@pytest.mark.parametrize("probe", QUICK, ids=name)
def test_the_poller_behaves_as_recorded(quick_results: dict[str, str], probe: MappingProbe) -> None:
    assert_recorded(probe, quick_results[probe.name])
