"""Tests steps of `make prove` that are impossible. `make laptop` runs the other steps."""

import subprocess
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ops.targets import ShopTarget
from proof.account import laptop, shop_steps
from proof.account.outcome import NotPossible, StepFailed


def target_with(**clients: Any) -> Any:
    outputs = {"TableName": "orders", "StackName": "orderstream-dev"}
    shop = ShopTarget(outputs, lambda service: clients[service], lambda kind: ["api1"])
    return SimpleNamespace(shop=shop, api_url="https://api.test", expiry_seconds=3_600)


@pytest.mark.parametrize(
    ("found", "error", "said"),
    [
        ({"Item": {}}, NotPossible, "DynamoDB has not deleted an expired item within 60 minutes"),
        ({}, StepFailed, "the order has expired, but it is not archived"),
    ],
)
def test_an_archive_that_does_not_come_fails_only_if_the_item_has_expired(
    found: dict[str, Any], error: type[Exception], said: str
) -> None:
    target = target_with(dynamodb=SimpleNamespace(get_item=lambda **asked: found))
    with pytest.raises(error, match=said):
        shop_steps._explain_late_archive(target, {"order_id": "o1"})


def test_a_stage_without_a_canary_says_how_it_gets_one() -> None:
    with pytest.raises(NotPossible, match="set canary_minutes in its file"):
        shop_steps.run_canary(target_with())


@pytest.mark.parametrize(
    ("code", "output", "error"), [(0, "1 passed in 300 s", None), (1, "1 failed in 30 s", StepFailed)]
)
def test_a_rehearsal_that_fails_fails_its_step(
    monkeypatch: pytest.MonkeyPatch, code: int, output: str, error: type[Exception] | None
) -> None:
    done = SimpleNamespace(returncode=code, stdout=output)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    with pytest.raises(error) if error else nullcontext():
        laptop.rehearse_upgrade(laptop.LocalTarget())
