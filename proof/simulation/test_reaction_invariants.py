"""Tests the five ready invariants of a reaction with plain data, and the command that proves a reaction."""

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from proof.reactions import __main__ as command
from proof.simulation.reaction_invariants import (
    Effect,
    Evidence,
    NotProvable,
    ReactionInvariant,
    effect_log,
    in_order,
    load_invariants,
    no_effect_without_event,
    no_personal_data,
    nothing_lost,
    once,
    s3_object,
    table_item,
)
from proof.simulation.runner import SeedResult

REFUND, TOTAL = s3_object("refunds/{event_id}.json"), s3_object("{total}", "RefundRequested")


def event(id: str, version: int = 1, name: str = "RefundSucceeded", **data: Any) -> Mapping[str, Any]:
    return {"id": id, "type": name, "version": version, "data": {"order_id": "o1", "refund_id": id, **data}}


def line(event_id: str, effect: str | None = "done") -> Mapping[str, Any]:
    return {"message": "refund_recorded", "event_id": event_id, "effect": effect}


def evidence(*events: Mapping[str, Any], **more: Any) -> Evidence:
    return Evidence(events={one["id"]: one for one in events}, **more)


def check(invariant: ReactionInvariant, found: Evidence) -> tuple[int, list[str]]:
    """Return how much the invariant checked, and its violations."""
    sentences = list(invariant.check(found))
    return len(sentences), [sentence for sentence in sentences if sentence]


@pytest.mark.parametrize(
    ("effect", "objects", "violation"),
    [
        (REFUND, {}, "has no effect"),
        (REFUND, {"refunds/e2.json": [b"1"]}, "has no effect"),
        (REFUND, {"refunds/e1.json": [b"1"]}, ""),
        (REFUND, {"refunds/e1.json": [b"1", b"2"]}, "has more than one effect: refunds/e1.json (2 contents)"),
        (s3_object("{event_id}-*"), {"e1-a": [b"1"], "e1-b": [b"1"]}, "effect: e1-a (1 contents), e1-b (1 contents)"),
    ],
)
def test_once_wants_one_object_with_one_content(
    effect: Effect, objects: Mapping[str, Sequence[bytes]], violation: str
) -> None:
    (sentence,) = once(effect).check(evidence(event("e1"), objects=objects))
    assert sentence.endswith(violation) if violation else not sentence


def test_once_needs_no_effect_of_a_parked_event_and_nothing_without_events() -> None:
    assert check(once(REFUND), evidence()) == (0, [])
    assert check(once(REFUND), evidence(event("e1"), parked={"e1"})) == (0, [])


def test_events_with_the_same_values_share_one_effect_and_event_names_limit_it() -> None:
    orders = table_item("ORDER#{order_id}", "BOOKED", "OrderPaid")
    history = {("ORDER#o1", "BOOKED"): [(1.0, {"n": 1}), (2.0, {"n": 1}), (3.0, None)]}
    paid = [event("e1", name="OrderPaid"), event("e2", 2, name="OrderPaid"), event("e3", name="OrderCancelled")]
    assert check(once(orders), evidence(*paid, history=history)) == (1, [])


@pytest.mark.parametrize(
    ("effects", "wrong"), [([], 1), ([None], 0), (["a"], 0), (["a", None], 0), (["a", "b"], 1), (["a", "a"], 1)]
)
def test_once_counts_the_lines_with_an_effect(effects: list[str | None], wrong: int) -> None:
    outcomes = [line("e1", effect) for effect in effects]
    checked, violations = check(once(effect_log("refund_recorded")), evidence(event("e1"), outcomes=outcomes))
    assert (checked, len(violations)) == (1, wrong)


def test_an_event_is_lost_unless_its_outcome_is_logged_or_it_is_parked() -> None:
    events = [event("e1"), event("e2"), event("e3")]
    assert check(nothing_lost(), evidence()) == (0, [])
    found = evidence(*events, outcomes=[line("e1", None)], parked={"e2"})
    assert check(nothing_lost(), found) == (3, ["RefundSucceeded e3 was neither processed nor parked"])


@pytest.mark.parametrize(
    ("order", "checked", "wrong"),
    [("", 0, 0), ("1", 0, 0), ("12", 1, 0), ("21", 1, 1), ("1132", 2, 1), ("1-2", 1, 0), ("2r", 0, 0)],
)
def test_effects_of_an_item_come_in_the_order_of_its_versions(order: str, checked: int, wrong: int) -> None:
    events = [event(str(version), version) for version in (1, 2, 3)] + [event("r", 1), event("other", 1, order_id="o2")]
    outcomes = [line(id) for id in order] + [line("1", None), line("other")]
    found = evidence(*events, outcomes=outcomes, republished={"r"})
    counted, violations = check(in_order("order_id"), found)
    assert (counted, len(violations)) == (checked, wrong)


def test_versions_of_different_kinds_of_items_are_not_compared() -> None:
    events = [event("e1", 5, name="OrderPaid"), event("e2", 1)]
    assert check(in_order("order_id"), evidence(*events, outcomes=[line("e1"), line("e2")])) == (0, [])


def test_an_effect_without_an_event_is_found() -> None:
    objects = {"refunds/e1.json": [b""], "refunds/e9.json": [b""], "other/e1.json": [b""]}
    invariant = no_effect_without_event(REFUND)
    assert check(invariant, evidence(event("e1"))) == (0, [])
    assert check(invariant, evidence(event("e1"), objects=objects)) == (2, ["refunds/e9.json belongs to no event"])


@pytest.mark.parametrize(
    ("effect", "content", "is_named"),
    [
        (REFUND, {"objects": {"refunds/e1.json": [b"10 EUR"]}}, False),
        (REFUND, {"objects": {"refunds/e1.json": ["Änne Ash".encode()]}}, True),
        (s3_object("{order_id}.json"), {"objects": {"Änne Ash.json": [b""]}}, True),
        (table_item("A", "B"), {"history": {("A", "B"): [(1.0, {"name": {"S": "Änne Ash"}}), (2.0, None)]}}, True),
    ],
)
def test_personal_data_in_an_effect_or_its_key_is_found(effect: Effect, content: Any, is_named: bool) -> None:
    found = evidence(event("e1"), personal_words={"alice": ["Änne"], "bob": ["Bob"]}, **content)
    checked, violations = check(no_personal_data(effect), found)
    assert (checked, bool(violations)) == (1, is_named)
    assert all("personal data of alice" in sentence for sentence in violations)


@pytest.mark.parametrize(
    ("reaction", "invariants", "sentence"),
    [
        ("melting", None, "'melting' is no reaction. Choose one of .*: fulfilment, "),
        ("warehouse", None, "warehouse has no Lambda"),
        ("refund", None, "Write proof/reactions/refund.py with INVARIANTS"),
        ("refund", (), "proof/reactions/refund.py needs a tuple"),
        ("refund", once(REFUND), "proof/reactions/refund.py needs a tuple"),
        ("refund", (once(TOTAL),), "RefundRequested has no field total. Choose amount"),
        ("refund", (in_order("order_id", "OrderPaid"),), "refund gets no event OrderPaid. Choose RefundRequested"),
    ],
)
def test_a_reaction_that_cannot_be_proved_gets_one_sentence(
    reaction: str, invariants: Any, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_invariants.cache_clear()
    if invariants is not None:
        module = ModuleType(f"proof.reactions.{reaction}")
        monkeypatch.setattr(module, "INVARIANTS", invariants, raising=False)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(NotProvable, match=sentence):
        load_invariants(reaction)


@pytest.mark.parametrize(("unproved", "code"), [([], 0), ([0], 1), ([0, 2], 1)])
def test_the_proof_fails_if_an_invariant_checked_nothing(
    unproved: list[int], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [invariant.name for invariant in load_invariants("fulfilment")]
    missing = [names[number] for number in unproved]
    ran = SeedResult(1, (), (), Counter(), Counter(names) - Counter(missing), (), reaction="fulfilment")
    monkeypatch.setattr(command, "run_seeds", lambda seeds, jobs, reaction: [ran])
    assert command.prove("fulfilment", range(1, 2), 1) == code
    assert (f"This proves nothing about {' and '.join(missing)}. " in capsys.readouterr().out) is bool(code)


@pytest.mark.parametrize(("violated", "whose"), [(0, ": "), (None, " (an invariant of the shop): ")])
def test_a_failed_seed_is_explained_with_the_command_that_repeats_it(
    violated: int | None, whose: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "stock_adds_up" if violated is None else load_invariants("fulfilment")[violated].name
    failed = SeedResult(7, (f"{name}: wrong",), ("a", "b"), Counter(), Counter(), (), reaction="fulfilment")
    monkeypatch.setattr(command, "run_seeds", lambda seeds, jobs, reaction: [failed])
    monkeypatch.setattr(command, "shrink_failure", lambda engine, failed: replace(failed, decisions=("a",)))
    assert command.prove("fulfilment", range(7, 8), 1) == 1
    said = capsys.readouterr().out
    assert f"seed 7 fails{whose}{name}: wrong" in said
    assert said.endswith("run the seed again: make prove-reaction NAME=fulfilment SEEDS=7\n")


@pytest.mark.slow
def test_the_command_proves_a_reaction_of_the_shop() -> None:
    proved = subprocess.run(
        [sys.executable, "-m", "proof.reactions", "fulfilment", "--seeds", "1-2"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert proved.returncode == 0, proved.stdout + proved.stderr
    assert "fulfilment keeps its invariants" in proved.stdout
