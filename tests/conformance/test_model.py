"""The model of event source mappings behaves as every mapping probe says."""

import dataclasses

import pytest

from tests.conformance.probes import MAPPING_PROBES
from tests.conformance.probes.kinds import Call, MappingProbe
from tests.conformance.runners import model


@pytest.mark.parametrize("probe", MAPPING_PROBES, ids=lambda probe: probe.name)
def test_the_model_behaves_as_the_probe_says(probe: MappingProbe) -> None:
    assert model.check(probe) == ""


@pytest.mark.parametrize("probe", [probe for probe in MAPPING_PROBES if probe.calls], ids=lambda probe: probe.name)
def test_a_probe_fails_if_an_invocation_is_missing_or_added(probe: MappingProbe) -> None:
    assert model.check(dataclasses.replace(probe, calls=probe.calls[1:]))
    assert model.check(dataclasses.replace(probe, calls=(*probe.calls, Call(records=(1,)))))
