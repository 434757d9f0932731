"""Tests `python -m ops canary-setup`: it creates the canary's user and product once. `make prove` runs it, too."""

from typing import Any

import boto3
import pytest
from moto import mock_aws

from ops import targets
from ops.__main__ import main
from ops.api_client import ApiClient, ApiResponse
from ops.commands.smoke import StageTarget
from ops.targets import ShopTarget
from tests.ops.test_smoke import shop_in_moto

USER = {"username": "success+canary@simulator.amazonses.com", "password": "Aa1-secret-secret"}


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """The requests to the API, which answers 409 to a repeated request."""
    found: list[tuple[str, str | None]] = []

    def call(self: ApiClient, method: str, path: str, body: Any = None, *, key: str | None = None) -> ApiResponse:
        status = 409 if (path, key) in found else 201
        found.append((path, key))
        return ApiResponse(status, None, {})

    monkeypatch.setattr(ApiClient, "call", call)
    monkeypatch.setattr(StageTarget, "clean_up", lambda stage: iter(()))
    return found


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Any:
    with mock_aws():
        made = shop_in_moto(("staff",), ("CanarySecret", USER), StackName="orderstream-dev", ApiUrl="https://api")
        monkeypatch.setattr(targets, "resolve_target", lambda args: made)
        yield made


def test_the_user_of_the_secret_and_the_product_are_created_once(
    shop: ShopTarget, posted: list[tuple[str, str | None]], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        main(["canary-setup", "--stack", "orderstream-dev"])
    wanted = [("/customers", None), ("/products", None), ("/products/canary/receipts", "canary-stock")]
    assert posted == [*wanted, *wanted]
    users = boto3.client("cognito-idp").list_users(UserPoolId=shop.outputs["UserPoolId"])["Users"]
    emails = [one["Value"] for user in users for one in user["Attributes"] if one["Name"] == "email"]
    assert emails.count(USER["username"]) == 1
    assert capsys.readouterr().out.endswith("The canary has its user, its product and its stock.\n")


def test_a_stage_without_a_canary_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "resolve_target", lambda args: ShopTarget({}, boto3.client, lambda kind: []))  # type: ignore[arg-type]
    with pytest.raises(SystemExit, match=r"^The stage has no canary: set canary_minutes, and deploy\.$"):
        main(["canary-setup", "--stack", "orderstream-dev"])
