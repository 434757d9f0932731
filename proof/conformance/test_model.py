"""The model of event source mappings behaves as every mapping probe says."""

import dataclasses
from typing import Any

import pytest

from local.event_source_mappings import MappingAssumptions
from proof.conformance.probes import MAPPING_PROBES
from proof.conformance.probes.kinds import Call, MappingProbe
from proof.conformance.runners import model


@pytest.mark.parametrize("probe", MAPPING_PROBES, ids=lambda probe: probe.name)
def test_the_model_behaves_as_the_probe_says(probe: MappingProbe) -> None:
    assert model.check(probe) == ""


@pytest.mark.parametrize("probe", [probe for probe in MAPPING_PROBES if probe.calls], ids=lambda probe: probe.name)
def test_a_probe_fails_if_an_invocation_is_missing_or_added(probe: MappingProbe) -> None:
    assert model.check(dataclasses.replace(probe, calls=probe.calls[1:]))
    assert model.check(dataclasses.replace(probe, calls=(*probe.calls, Call(records=(1,)))))


@pytest.mark.parametrize(
    "other",
    [
        {"bisect_midpoint": "ceiling"},
        {"bisect_first": "upper"},
        {"bisect_attempts": "reset"},
        {"progress_resets_attempts": False},
        {"unknown_identifier": "ignored"},
        {"unreadable_response": "succeeds"},
        {"failing_lane_stalls_shard": True},
        {"window_opens": "at_first_record"},
    ],
    ids=str,
)
def test_no_documented_probe_depends_on_an_assumption(other: dict[str, Any]) -> None:
    """AWS documents none of these assumptions, so a probe that depends on one is observed by others or expected."""
    depending = [probe for probe in MAPPING_PROBES if model.check(probe, MappingAssumptions(**other))]
    assert depending
    assert [probe.name for probe in depending if probe.known == "documented"] == []


def test_no_probe_depends_on_the_pauses_between_retries() -> None:
    other = MappingAssumptions(retry_delays_seconds=(0.05,))
    assert [probe.name for probe in MAPPING_PROBES if model.check(probe, other)] == []
