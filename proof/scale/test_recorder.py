"""Tests that the stored traces equal a new recording, and that the engine reports the same units."""

import pytest

from local.world.dynamodb_engine import Engine
from proof.scale import recorder
from proof.scale.demand import per_order
from proof.scale.recorder import Trace

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recorded(engine: Engine) -> dict[str, Trace]:
    """A new recording."""
    return recorder.record_all(engine)


@pytest.fixture
def traces() -> dict[str, Trace]:
    return recorder.load_traces()


def test_the_stored_traces_equal_a_new_recording(recorded: dict[str, Trace]) -> None:
    if recorder.to_json(recorded) != recorder.TRACES.read_text(encoding="utf-8"):
        pytest.fail("proof/scale/traces.json is stale: run `make scale ARGS=record`, then `make scale`", pytrace=False)


def test_the_units_of_each_key_add_up_to_the_units_that_the_engine_reports(traces: dict[str, Trace]) -> None:
    for name, trace in traces.items():
        requests = [one for call in trace.calls for one in call.requests]
        found = {"read": sum(one.units(read=True) for one in requests)}
        found["written"] = sum(one.units(read=False) for one in requests)
        assert found == trace.engine_units, name


def test_a_life_has_the_mails_events_and_messages_of_the_cost_page(traces: dict[str, Trace]) -> None:
    requests = [one for call in traces["1"].calls for one in call.requests]
    assert sum(one.service == "sesv2" for one in requests) == 4
    assert sum(len(one.entries) for one in requests) == 17
    assert per_order()["messages"] == pytest.approx(12)


def test_every_invocation_has_a_cause_that_is_recorded_too(traces: dict[str, Trace]) -> None:
    for name in ("1", "5", "20"):
        calls = traces[name].calls
        known = {"ttl", *(f"{call.function} {call.trigger}" for call in calls)}
        assert {call.cause for call in calls if call.function != "api"} <= known
