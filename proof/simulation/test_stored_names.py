"""Tests that a rename in the code does not change the names of stored and sent data."""

import json
from pathlib import Path

import pytest

from functions.model import table
from functions.model.reactions import REACTIONS
from local.world.dynamodb_engine import Engine
from proof.simulation.stored_names import stored_names
from proof.simulation.world import Simulation
from proof.support.example_migrations import reading_former_names
from proof.support.examples import many
from proof.support.recorded import Recorded

RECORDED = Path(__file__).with_name("stored_names.json")
SEEDS = range(1, 1 + many(40, 2))


def test_a_simulated_shop_stores_and_sends_only_recorded_names(engine: Engine) -> None:
    recorded = json.loads(RECORDED.read_text())
    for seed in SEEDS:
        world = Simulation(engine, seed)
        world.run()
        for what, names in stored_names(world).items():
            new = names - set(recorded.get(what, ()))
            assert not new, f"{what}: {sorted(new)} are not in {RECORDED.name}: a stored name may be added, not changed"


def test_every_recorded_type_and_key_is_still_in_the_model(pytestconfig: pytest.Config) -> None:
    record = Recorded(RECORDED, writes=pytestconfig.getoption("record"))
    types = {what.removesuffix(" keys") for what in record.entries if what.endswith(" keys")}
    with reading_former_names():  # the simulation also renames contributions, up and down
        gone = types - set(table.ROWS_BY_TYPE)
    record.check_names({what for what in record.entries if what.partition(" ")[0] not in gone})


def test_reactions_have_the_names_that_keys_and_prefixes_hold() -> None:
    assert [reaction.name for reaction in REACTIONS] == [
        "fulfilment", "order_notification", "product_alert", "refund", "customer_name", "archive", "import",
        "export", "webhook", "warehouse",
    ]  # fmt: skip
