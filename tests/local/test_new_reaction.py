"""A declared reaction runs, without further changes, in every shop that runs in one process."""

import json
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from functions.model import reactions
from functions.model.reactions import REACTIONS, Reaction
from local.seed.memory_shop import LEFT_OUT
from local.world.dynamodb_engine import Engine
from local.world.harness import aws_surroundings, run_shop
from proof.bench import measured_shop
from proof.scale.recorder import open_recorded_shop
from proof.simulation.template import template
from tests.local.test_seed import play


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Declare a reaction `audit` to paid orders. Yield the names of the events that its Lambda got."""
    names: set[str] = set()

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        names.update(json.loads(record["body"])["detail"]["type"] for record in event["Records"])
        return {"batchItemFailures": []}

    worker: Any = ModuleType("functions.handlers.audit_worker")
    worker.handler = handler
    monkeypatch.setitem(sys.modules, worker.__name__, worker)
    audit = Reaction("audit", ("OrderPaid",), "writes a record", "the record's key", function="audit_worker")
    monkeypatch.setattr(reactions, "REACTIONS", (*REACTIONS, audit))
    yield names
    assert names == {"OrderPaid"}


@pytest.mark.usefixtures("audited")
def test_a_new_reaction_runs_in_the_harness(
    engine: Engine, new_table: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with aws_surroundings(engine) as queues, run_shop(engine, queues, new_table(), monkeypatch) as harness:
        harness.open_shop()
        harness.pay_order(harness.place_order())
        harness.process_all()


@pytest.mark.usefixtures("audited")
def test_a_new_reaction_runs_in_the_benchmark(engine: Engine) -> None:
    with measured_shop.open_environment(engine) as (_, queues), measured_shop.open_shop(engine, queues) as shop:
        shop.open("ann", ["mug"])
        shop.pay(shop.place("ann", "key-1", {"mug": 1}), measured_shop.PRICE)
        shop.deliver_all()


@pytest.mark.usefixtures("audited")
def test_a_new_reaction_runs_in_the_recorder_of_the_scale_model(engine: Engine) -> None:
    with open_recorded_shop(engine) as live:
        live.shop.open("ann", ["mug"])
        live.pay(live.place("ann", {"mug": 1}))
        live.deliver_all()


@pytest.mark.usefixtures("audited")
def test_a_new_reaction_runs_in_a_seeded_shop() -> None:
    play(5)


def test_a_seeded_shop_leaves_out_declared_reactions_and_those_without_a_lambda() -> None:
    assert {one.name for one in REACTIONS if one.function is None} <= set(LEFT_OUT) <= {one.name for one in REACTIONS}


def test_the_simulation_has_the_queue_and_the_rule_of_each_reaction() -> None:
    queues = {worker.function: worker.queue for worker in template().workers}
    events = {queue: rule.types for rule in template().rules for queue in rule.queues}
    declared = {one.name: set(one.event_names) for one in REACTIONS if one.function}
    assert {name: events[queue] for name, queue in queues.items()} == declared
