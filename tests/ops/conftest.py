"""Fixtures of the tests of the operator tools."""

from typing import Any

import pytest

from functions.runtime import clients
from local.laptop import shop_client
from local.world.harness import ShopHarness
from ops import targets
from ops.targets import ShopTarget
from proof.support.operator_shop import BUCKETS, NAMES, fake_shop_with_buckets


@pytest.fixture
def local_shop(harness: ShopHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands use the shop of the test as the local shop."""
    monkeypatch.setattr(shop_client, "find", lambda _: fake_shop_with_buckets(harness))


@pytest.fixture
def here(harness: ShopHarness, monkeypatch: pytest.MonkeyPatch) -> ShopHarness:
    """Let every target option select the shop of the test."""

    def client(service: str) -> Any:
        return harness.engine.dynamodb() if service == "dynamodb" else clients.client(service)

    outputs = {"TableName": harness.shop.table.name, **BUCKETS}
    found = ShopTarget(outputs, client, lambda kind: NAMES[kind], options=["--stack", "any"])
    monkeypatch.setattr(targets, "resolve_target", lambda given: found)
    monkeypatch.setattr(found.table, "clock", harness.now)
    return harness
