"""Tests the options that select a shop: a stack, a table, or a local shop by the folder of its state."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from local.laptop.shop_target import find_local_target
from ops import targets
from ops.__main__ import main, make_parser
from ops.commands import capacity, hot_keys
from ops.targets import ShopTarget

DEPLOYED = {("orderstream-dev", "eu-west-3"): ShopTarget({"TableName": "orders"}, lambda _: None, lambda _: [])}


@pytest.mark.parametrize(("command", "module"), [("hot-keys", hot_keys), ("capacity", capacity)])
def test_the_metrics_of_a_stack_are_those_of_its_table(
    command: str, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(cloudwatch: Any, dynamodb: Any, table: str, *_: Any) -> Any:
        raise OSError(f"read the metrics of {table} in {cloudwatch.meta.region_name}")

    for name in ("fetch_throttle_report", "fetch_traffic"):
        monkeypatch.setattr(module, name, fetch, raising=False)
    monkeypatch.setattr(targets, "_find_deployed_target", lambda *which: DEPLOYED[which])
    with pytest.raises(OSError, match="read the metrics of orders in eu-west-3"):
        main([command, "--stack", "orderstream-dev", "--region", "eu-west-3"])


@pytest.mark.parametrize("command", ["health", "drift", 'archive-query "SELECT 1"', "failures list", "migrate status"])
def test_a_tool_reaches_the_local_shop_with_this_state(command: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*shlex.split(command), "--state", str(tmp_path)])
    assert f"python -m local --state {tmp_path} up" in str(ended.value)


@pytest.mark.usefixtures("local_shop")
@pytest.mark.parametrize("state", [None, Path("a folder")])
def test_a_command_that_a_tool_prints_reaches_the_same_shop(state: Path | None) -> None:
    words = shlex.split(find_local_target(state).ops_command("failures redrive --all"))
    assert words[1:3] == ["-m", "ops"]
    assert make_parser().parse_args(words[3:]).state == state
