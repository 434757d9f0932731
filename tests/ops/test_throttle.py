"""Tests `--units-per-second`: by default, tools limit their requests to a table on AWS, but not to the local shop."""

from contextlib import suppress

import pytest

from local.world.dynamodb_engine import REGION, Engine
from local.world.harness import ShopHarness
from ops.__main__ import main
from ops.commands import migrate
from ops.scan import throttle
from ops.targets import DEFAULT_UNITS_PER_SECOND_ON_AWS
from proof.support.example_migrations import ADD_CATALOG

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


@pytest.mark.usefixtures("local_shop")
@pytest.mark.parametrize("command", [*ON_ANY_TABLE, *ON_A_WHOLE_SHOP, "health"])
def test_on_this_machine_a_sweep_has_no_limit_unless_one_is_given(limits: set[float], command: str) -> None:
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


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", [*ON_ANY_TABLE, *ON_A_WHOLE_SHOP, "health"])
def test_the_default_limit_protects_a_stack_on_aws(
    limits: set[float], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr("ops.commands.health.AWS_CHECKS", ())
    run(command, "--stack", "orderstream-dev")
    assert limits == {DEFAULT_UNITS_PER_SECOND_ON_AWS}
