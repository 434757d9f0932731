"""Tests the options that select a shop: a stack, a table, or a local shop by the folder of its state."""

import argparse
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse, HTTPHeaders

from local.laptop import shop_client
from local.laptop.shop_target import find_local_target
from local.world.harness import ShopHarness
from ops import targets
from ops.__main__ import main, make_parser
from ops.commands import capacity, hot_keys
from ops.targets import ShopTarget
from proof.support.operator_shop import fake_shop_with_buckets

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
    with pytest.raises(SystemExit, match="read the metrics of orders in eu-west-3"):
        main([command, "--stack", "orderstream-dev", "--region", "eu-west-3"])


@pytest.mark.parametrize("command", ["health", "drift", 'archive-query "SELECT 1"', "failures list", "migrate status"])
def test_a_tool_reaches_the_local_shop_with_this_state(command: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*shlex.split(command), "--state", str(tmp_path)])
    assert f"python -m local --state {tmp_path} up" in str(ended.value)


@pytest.mark.parametrize("state", [None, Path("a folder")])
def test_a_command_that_a_tool_prints_reaches_the_same_shop(
    harness: ShopHarness, state: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop_client, "find", lambda _: fake_shop_with_buckets(harness))
    words = shlex.split(find_local_target(state).ops_command("failures redrive --all"))
    assert words[1:3] == ["-m", "ops"]
    assert make_parser().parse_args(words[3:]).state == state


def test_a_long_tool_gets_new_credentials_from_its_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with single sign-on, the profile's credentials expire. A client must ask for new ones."""
    script = tmp_path / "credentials.py"
    used: list[str] = []
    script.write_text(
        "import json, pathlib, datetime as d\n"
        f"path = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "count = int(path.read_text()) + 1 if path.exists() else 1\n"
        "path.write_text(str(count))\n"
        "end = (d.datetime.now(d.UTC) + d.timedelta(seconds=60)).isoformat()\n"  # botocore renews 15 minutes earlier
        "print(json.dumps({'Version': 1, 'AccessKeyId': f'AKIA{count}', 'SecretAccessKey': 's', 'SessionToken': 't',"
        " 'Expiration': end}))\n"
    )
    config = tmp_path / "config"
    config.write_text(f"[profile sso]\nregion = eu-central-1\ncredential_process = {sys.executable} {script}\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "sso")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    table = targets.resolve_table(argparse.Namespace(table="orders", region=None))

    def answer(request: Any, **_: object) -> Any:
        used.extend(re.findall(r"Credential=(AKIA\d+)", str(request.headers["Authorization"])))
        response: Any = AWSResponse(request.url, 200, HTTPHeaders(), None)
        response._content = b"{}"
        return response

    table.client.meta.events.register("before-send", answer)
    for _ in range(2):
        table.client.list_tables()
    assert len({*used}) == 2, used
