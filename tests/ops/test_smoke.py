"""Tests the checks that `python -m ops smoke` adds to the scenarios. tests/laptop runs the scenarios in a shop."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from moto import mock_aws

from functions.adapters.stripe_webhook import verify_signature
from ops import scenarios
from ops.api_client import ApiResponse, UnexpectedResponse
from ops.commands import smoke
from ops.commands.smoke import StageTarget, missing_protections
from ops.scenarios import EffectMissing
from ops.targets import ShopTarget
from proof.support.synthesized import SynthesizedTemplate
from tests.stacks.conftest import templates

__all__ = ["templates"]

API = "https://api.mugs.test"


def shop_in_moto(groups: tuple[str, ...], secret: tuple[str, Any], **outputs: str) -> ShopTarget:
    """Return a stack that is deployed in moto. It has a user pool with these groups, and a secret: (output, value)."""
    cognito = boto3.client("cognito-idp")
    pool = cognito.create_user_pool(PoolName="p", UsernameAttributes=["email"])["UserPool"]["Id"]
    client = cognito.create_user_pool_client(UserPoolId=pool, ClientName="c")["UserPoolClient"]["ClientId"]
    for group in groups:
        cognito.create_group(UserPoolId=pool, GroupName=group)
    made = boto3.client("secretsmanager").create_secret(Name=secret[0], SecretString=json.dumps(secret[1]))
    outputs |= {"UserPoolId": pool, "UserPoolClientId": client, secret[0]: made["ARN"]}
    return ShopTarget(outputs, boto3.client, lambda kind: [])  # type: ignore[arg-type]


@pytest.fixture
def shop() -> Iterator[ShopTarget]:
    with mock_aws():
        secret = "WebhookSecret", {"current": "whsec", "previous": ""}
        yield shop_in_moto(("staff", "warehouse"), secret, StackName="orderstream-prod", TableName="t")


# protections ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("on", [True, False])
def test_a_protected_stage_without_its_protections_is_reported_and_an_unprotected_one_is_not(
    shop: ShopTarget, templates: dict[str, SynthesizedTemplate], on: bool
) -> None:
    def found(stage: str) -> list[str]:
        answers = SimpleNamespace(
            get_template=lambda StackName: {"TemplateBody": templates[stage].body},  # noqa: N803
            describe_stacks=lambda StackName: {"Stacks": [{"EnableTerminationProtection": on}]},  # noqa: N803
            describe_table=lambda TableName: {"Table": {"DeletionProtectionEnabled": on}},  # noqa: N803
            describe_user_pool=lambda UserPoolId: {"UserPool": {"DeletionProtection": "ACTIVE" if on else "INACTIVE"}},  # noqa: N803
        )
        return missing_protections(replace(shop, client=lambda service: answers))

    assert found("dev") == []
    assert len(found("prod")) == (0 if on else 3)


def test_a_missing_protection_fails_the_run_although_all_effects_arrive(
    shop: ShopTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smoke, "missing_protections", lambda shop: ["the table's deletion protection"])
    monkeypatch.setattr(smoke, "ScenarioClients", lambda stage: SimpleNamespace(discontinue_products=lambda: None))
    monkeypatch.setattr(smoke, "run_scenarios", lambda people: None)
    with pytest.raises(EffectMissing, match=r"^the table's deletion protection is off: run make deploy again$"):
        smoke.run_smoke(shop, API)


# users ----------------------------------------------------------------------------------------------------------------
class Staff:
    """An API client that counts the erasures."""

    def __init__(self, status: int) -> None:
        self.status, self.erased = status, 0

    def call(self, method: str, path: str) -> ApiResponse:
        assert (method, path[:11]) == ("DELETE", "/customers/")
        self.erased += 1
        return ApiResponse(self.status, None, {})


def addresses(shop: ShopTarget) -> set[str]:
    users = boto3.client("cognito-idp").list_users(UserPoolId=shop.outputs["UserPoolId"])["Users"]
    return {one["Value"] for user in users for one in user["Attributes"] if one["Name"] == "email"}


def test_a_stack_without_a_user_pool_is_reported_in_one_sentence(shop: ShopTarget) -> None:
    with pytest.raises(EffectMissing, match="it has no pool"):
        smoke.run_smoke(replace(shop, outputs={"StackName": "orderstream-prod"}), API)


def test_users_are_ses_simulators_addresses_with_a_password_of_their_own_and_their_groups(shop: ShopTarget) -> None:
    stage = StageTarget(shop, API)
    for user in ("alice", "staff", "staff", "warehouse"):
        stage.api_client(user)
    expected = {f"success+smoke-{stage.run_id}-{user}@simulator.amazonses.com" for user in smoke.GROUPS}
    assert addresses(shop) == expected
    pool = shop.outputs["UserPoolId"]
    cognito = boto3.client("cognito-idp")
    for group in ("staff", "warehouse"):
        (member,) = cognito.list_users_in_group(UserPoolId=pool, GroupName=group)["Users"]
        (email,) = [one["Value"] for one in member["Attributes"] if one["Name"] == "email"]
        assert f"-{group}@" in email
        assert member["UserStatus"] == "CONFIRMED"
    token = stage.api_client("alice").token
    assert token
    assert token() == token()


def test_cleaning_up_deletes_the_users_of_this_run_and_of_a_killed_one_and_nobody_else(
    shop: ShopTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, running, mine = (StageTarget(shop, API) for _ in range(3))
    killed.api_client("alice")
    running.api_client("staff")
    for user in smoke.GROUPS:
        mine.api_client(user)
    boto3.client("cognito-idp").admin_create_user(
        UserPoolId=shop.outputs["UserPoolId"],
        Username="ann@mugs.test",
        UserAttributes=[{"Name": "email", "Value": "ann@mugs.test"}],
    )
    call_moto = BaseClient._make_api_call  # type: ignore[attr-defined]

    def call(client: BaseClient, operation: str, asked: dict[str, Any]) -> Any:
        """Call moto, but let the user of the killed run be two hours old."""
        answer = call_moto(client, operation, asked)
        for user in answer.get("Users", ()):
            if killed.run_id in str(user["Attributes"]):
                user["UserCreateDate"] -= timedelta(hours=2)
        return answer

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    staff = Staff(202)
    mine._clients["staff"] = staff  # type: ignore[assignment]
    assert list(mine.clean_up()) == []
    assert staff.erased == 2
    assert addresses(shop) == {"ann@mugs.test", f"success+smoke-{running.run_id}-staff@simulator.amazonses.com"}


def test_a_customer_who_could_not_be_erased_keeps_the_user_so_that_the_next_run_finds_them(shop: ShopTarget) -> None:
    stage = StageTarget(shop, API)
    for user in smoke.GROUPS:
        stage.api_client(user)
    stage._clients["staff"] = Staff(503)  # type: ignore[assignment]
    (sentence,) = stage.clean_up()
    assert sentence.endswith(" is not erased: the API answered 503.")
    (left,) = addresses(shop)
    assert "-alice@" in left


# payments and shipments -----------------------------------------------------------------------------------------------
def test_a_payment_is_a_webhook_that_the_shop_accepts(shop: ShopTarget) -> None:
    stage = StageTarget(shop, API)
    sent: list[Any] = []

    def request(method: str, url: str, body: str, headers: dict[str, str]) -> Any:
        sent.append((method, url, json.loads(body)))
        verify_signature(headers["Stripe-Signature"], body, ["whsec"], datetime.now(UTC))
        return SimpleNamespace(status=status, data=b"no")

    stage._clients["staff"] = SimpleNamespace(pool=SimpleNamespace(request=request))  # type: ignore[assignment]
    order, status = {"order_id": "o1", "due": 2990, "currency": "EUR"}, 200
    stage.pay_by_card(order)
    ((method, url, event),) = sent
    assert (method, url) == ("POST", f"{API}/payments/events")
    assert event["type"] == "payment_intent.succeeded"
    assert event["data"]["object"]["metadata"] == {"order_id": "o1"}
    status = 400
    with pytest.raises(EffectMissing, match=r"^POST /payments/events answered 400"):
        stage.pay_by_card(order)


@pytest.mark.parametrize(("status", "fails"), [(200, False), (409, False), (500, True)])
def test_a_warehouse_that_was_faster_is_no_error(shop: ShopTarget, status: int, fails: bool) -> None:
    stage = StageTarget(shop, API)
    shipment = {"shipment_id": "o1-1", "tracking_number": None, "quantities": {"mug": 3, "pot": 3}}
    posted: list[Any] = []

    def call(method: str, path: str, body: Any, *, key: None) -> ApiResponse:
        posted.append((path.rpartition("/")[2], body and body.get("quantities")))
        return ApiResponse(status, None, {})

    fake = SimpleNamespace(get=lambda path: {"items": [shipment]}, call=call)
    stage._clients["warehouse"] = fake  # type: ignore[assignment]
    if fails:
        with pytest.raises(UnexpectedResponse, match="answered 500"):
            stage.ship("o1")
        return
    stage.ship("o1")
    assert posted == [("dispatched", {"mug": 3}), ("delivered", None)]


# scenarios ------------------------------------------------------------------------------------------------------------
def test_a_scenario_that_fails_does_not_stop_the_others_and_is_reported_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def failing(people: object) -> None:
        ran.append("failing")
        scenarios.wait_until("the invoice", lambda: None, timeout_seconds=0)

    def working(people: object) -> None:
        ran.append("working")

    monkeypatch.setattr(scenarios, "SCENARIOS", (failing, working))
    with pytest.raises(EffectMissing, match=r"^Not every effect arrived:\nthe invoice did not arrive within 0 s$"):
        scenarios.run_scenarios(None)  # type: ignore[arg-type]
    assert ran == ["failing", "working"]
    assert "FAILED: the invoice did not arrive" in capsys.readouterr().out
