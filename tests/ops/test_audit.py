"""Tests `python -m ops audit`, and under which name the tools act."""

import json
from argparse import Namespace
from typing import Any

import pytest

from local.world.harness import ShopHarness
from ops import targets
from ops.__main__ import main
from ops.scan.checkpoint import current_operator

OPTIONS: dict[str, Any] = {"operator": None, "stack": None, "region": None, "dry_run": False}


@pytest.fixture
def here(harness: ShopHarness, monkeypatch: pytest.MonkeyPatch) -> ShopHarness:
    monkeypatch.setattr(targets, "resolve_table", lambda args: harness.shop.table)
    monkeypatch.delenv("ORDERSTREAM_OPERATOR", raising=False)
    return harness


def entries(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    main(["audit", *arguments])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("options", "variable", "by"),
    [
        ({"operator": "eve"}, "bob", "ops:eve"),
        ({}, "bob", "ops:bob"),
        ({}, "", f"ops:{current_operator()}"),
        ({"stack": "shop"}, "", "ops:sue"),
    ],
)
def test_a_tool_acts_under_a_given_name_or_under_the_identity_of_the_operator(
    here: ShopHarness,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    variable: str,
    by: str,
) -> None:
    arn = "arn:aws:sts::111122223333:assumed-role/operators/sue"

    class Sts:
        def get_caller_identity(self) -> dict[str, str]:
            return {"Arn": arn}

    monkeypatch.setattr("boto3.client", lambda service, **_: Sts())
    monkeypatch.setenv("ORDERSTREAM_OPERATOR", variable)
    targets.record_run(Namespace(**OPTIONS | options), here.shop, "restore", "RESTORE", reason="a claim")
    (entry,) = entries(capsys, "RESTORE")
    assert (entry["by"], entry["command"], entry["reason"]) == (by, "restore", "a claim")
    assert entries(capsys, "--by", by) == [entry]


def test_a_dry_run_is_not_recorded(here: ShopHarness, capsys: pytest.CaptureFixture[str]) -> None:
    targets.record_run(Namespace(**OPTIONS | {"dry_run": True}), here.shop, "restore", "RESTORE")
    assert entries(capsys, "RESTORE") == []


def test_the_entries_are_printed_newest_first_since_a_time(
    here: ShopHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    for order in ("o1", "o2"):
        targets.record_run(Namespace(**OPTIONS), here.shop, f"restore {order}", "RESTORE")
    found = [entry["at"] for entry in entries(capsys, "RESTORE")]
    assert found == sorted(found, reverse=True)
    assert len(found) == 2
    assert entries(capsys, "RESTORE", "--since", "2999-01-01") == []
