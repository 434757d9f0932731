"""Tests `--units-per-second`: by default, tools limit their requests to a table on AWS, but not to the local shop."""

from contextlib import suppress

import pytest

from functions.runtime import clients
from local.laptop import shop_client
from local.world.dynamodb_engine import REGION, Engine
from local.world.harness import ShopHarness
from ops import targets
from ops.__main__ import main
from ops.commands import migrate
from ops.scan import throttle
from ops.targets import DEFAULT_UNITS_PER_SECOND_ON_AWS, ShopTarget
from proof.support.example_migrations import ADD_CATALOG
from proof.support.operator_shop import BUCKETS, NAMES, fake_shop_with_buckets

ON_ANY_TABLE = ["drift", "drift --only accounts", "drift --all", "migrate up --dry-run"]
ON_A_WHOLE_SHOP = [
    "replay --from-table --copies --dry-run",
    "replay --from-table --reactions --to-all --dry-run",
    "restore --from 2020-01-01 --to 2020-01-02 --dry-run",
    "restore unheard-of",
]


@pytest.fixture(autouse=True)
def one_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "load_migrations", lambda: {"0001": ADD_CATALOG})


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> set[float]:
    """Record the limits of the tools in units per second. They do not delay requests here."""
    found: set[float] = set()
    monkeypatch.setattr(
        throttle.CapacityThrottle, "__init__", lambda self, table, units_per_second: found.add(units_per_second)
    )
    monkeypatch.setattr(throttle.CapacityThrottle, "__enter__", lambda self: None)
    monkeypatch.setattr(throttle.CapacityThrottle, "__exit__", lambda self, *_: None)
    return found


def run(command: str, *more: str) -> None:
    """Run a command with any exit code."""
    with suppress(SystemExit):
        main([*command.split(), *more])


@pytest.mark.parametrize("command", [*ON_ANY_TABLE, *ON_A_WHOLE_SHOP, "health"])
def test_on_this_machine_a_sweep_has_no_limit_unless_one_is_given(
    harness: ShopHarness, limits: set[float], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(shop_client, "find", lambda _: fake_shop_with_buckets(harness))
    run(command)
    assert limits == set()
    run(command, "--units-per-second", "7e6")
    assert limits == {7e6}


@pytest.mark.parametrize("command", ON_ANY_TABLE)
def test_the_default_limit_protects_a_table_on_aws(
    harness: ShopHarness, engine: Engine, limits: set[float], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", engine.endpoint)
    run(command, "--table", harness.shop.table.name, "--region", REGION)
    assert limits == {DEFAULT_UNITS_PER_SECOND_ON_AWS} == {100}


@pytest.mark.parametrize("command", [*ON_ANY_TABLE, *ON_A_WHOLE_SHOP, "health"])
def test_the_default_limit_protects_a_stack_on_aws(
    harness: ShopHarness, limits: set[float], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def client(service: str) -> object:
        return harness.engine.dynamodb() if service == "dynamodb" else clients.client(service)

    outputs = {"TableName": harness.shop.table.name, **BUCKETS}
    deployed = ShopTarget(outputs, client, lambda kind: NAMES.get(kind, []))
    monkeypatch.setattr(targets, "_find_deployed_target", lambda name, region: deployed)
    monkeypatch.setattr("ops.commands.health.AWS_CHECKS", ())
    run(command, "--stack", "orderstream-dev")
    assert limits == {DEFAULT_UNITS_PER_SECOND_ON_AWS}
