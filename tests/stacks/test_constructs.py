"""Tests constructs alone, because no template of a stage shows them.

All are in one file, so that only one process of the tests starts the CDK's Node. Each test imports its construct
itself, so that the collection of tests starts no Node.
"""

from dataclasses import replace
from typing import Any

import pytest

from functions.model import retention
from stacks.stage import STAGES, Stage
from tools.declarations import InvalidDeclarations

TABLE = "AWS::DynamoDB::GlobalTable"
FIREWALL = replace(STAGES["prod"], web_acl="arn:aws:wafv2:us-east-1:111122223333:global/webacl/name/id")


def table_of(**settings: Any) -> Any:
    """Return the properties of the table of a stage with these settings."""
    from stacks.table import OrdersTable  # isort: skip  # noqa: PLC0415  it starts the CDK's Node
    from aws_cdk import App, Stack, assertions  # noqa: PLC0415
    from aws_cdk import aws_kms as kms  # noqa: PLC0415

    stack = Stack(App(), "stack")
    OrdersTable(stack, "Table", stage=Stage(name="mine", protect=False, **settings), key=kms.Key(stack, "Key"))
    (found,) = assertions.Template.from_stack(stack).find_resources(TABLE).values()
    return found["Properties"]


def test_a_maximum_of_on_demand_units_applies_to_the_table_and_each_index() -> None:
    table = table_of(max_read_units=40, max_write_units=20)
    (replica,) = table["Replicas"]
    write, read = {"MaxWriteRequestUnits": 20}, {"MaxReadRequestUnits": 40}
    assert [it["WriteOnDemandThroughputSettings"] for it in (table, *table["GlobalSecondaryIndexes"])] == [write] * 4
    assert [it["ReadOnDemandThroughputSettings"] for it in (replica, *replica["GlobalSecondaryIndexes"])] == [read] * 4


def test_warm_throughput_is_set_for_the_table_and_the_named_indexes() -> None:
    def warm(**settings: tuple[str, ...]) -> list[dict[str, int] | None]:
        table = table_of(**settings)
        return [one.get("WarmThroughput") for one in (table, *table["GlobalSecondaryIndexes"])]

    assert warm() == [None] * 4, "warm throughput is not set by default"
    assert warm(warm_write_units=("table:40000", "GSI2:20000"), warm_read_units=("*:15000", "GSI3:0")) == [
        {"ReadUnitsPerSecond": 15000, "WriteUnitsPerSecond": 40000},
        {"ReadUnitsPerSecond": 15000},
        {"ReadUnitsPerSecond": 15000, "WriteUnitsPerSecond": 20000},
        None,
    ]


def test_a_restored_table_takes_the_place_of_the_stacks_own() -> None:
    from stacks.table import OrdersTable  # isort: skip  # noqa: PLC0415  it starts the CDK's Node
    from aws_cdk import App, Stack, assertions  # noqa: PLC0415

    stack, arn = Stack(App(), "stack"), "arn:aws:dynamodb:eu-central-1:111122223333:table/restored"
    stage = Stage(name="mine", protect=True, stream_arn=f"{arn}/stream/2026-11-21T09:30:00.000")
    table = OrdersTable(stack, "Table", stage=stage, key=None)
    assert (table.name, table.arn, table.stream_arn) == ("restored", arn, stage.stream_arn)
    assert table.index_arns["GSI2"] == f"{arn}/index/GSI2"
    assert not assertions.Template.from_stack(stack).find_resources(TABLE)


def test_clients_can_move_to_cloudfront_before_the_apis_own_address_is_closed() -> None:
    from stacks.secrets import ShopSecrets  # isort: skip  # noqa: PLC0415  it starts the CDK's Node
    from aws_cdk import App, Stack  # noqa: PLC0415
    from aws_cdk import aws_kms as kms  # noqa: PLC0415

    stack = Stack(App(), "stack")
    key = kms.Key(stack, "Key")
    closed, moving = (
        ShopSecrets(stack, f"Secrets{only}", stage=replace(FIREWALL, require_cloudfront=only), key=key)
        for only in (True, False)
    )
    assert closed.required_origin_secret_arn == closed.origin_secret_arn
    assert moving.origin_secret, "CloudFront sends the secret already"
    assert moving.required_origin_secret_arn == "", "the API requires no secret yet"


@pytest.mark.parametrize(("prefix", "plan"), [("", "LITE"), ("my-shop", "ESSENTIALS")])
def test_sign_in_pages_need_a_higher_plan_of_cognito(prefix: str, plan: str) -> None:
    from stacks.identity import Identity  # isort: skip  # noqa: PLC0415  it starts the CDK's Node
    from aws_cdk import App, Stack, assertions  # noqa: PLC0415

    from stacks.mail import ShopMail  # noqa: PLC0415

    stack, stage = Stack(App(), "stack"), replace(STAGES["dev"], sign_in_prefix=prefix)
    Identity(stack, "Identity", stage=stage, mail=ShopMail(stack, "Mail", stage=stage))
    (pool,) = assertions.Template.from_stack(stack).find_resources("AWS::Cognito::UserPool").values()
    assert pool["Properties"]["UserPoolTier"] == plan


def test_an_inconsistent_retention_fails_the_synth(monkeypatch: pytest.MonkeyPatch) -> None:
    from stacks.orders_stack import OrdersStack  # isort: skip  # noqa: PLC0415  it starts the CDK's Node
    from aws_cdk import App  # noqa: PLC0415

    def wrong() -> None:
        raise ValueError("retention: effects are kept for 1 d")

    monkeypatch.setattr(retention, "validate_retention", wrong)
    with pytest.raises(InvalidDeclarations, match=r"functions/model/retention\.py: .*effects are kept"):
        OrdersStack(App(), "stack", stage=STAGES["dev"], code=None)


def test_a_finding_of_cdk_nag_fails_the_synth() -> None:
    from stacks.nag_suppressions import add_nag_checks  # isort: skip  # noqa: PLC0415  it starts the CDK's Node
    from aws_cdk import App, Stack  # noqa: PLC0415
    from aws_cdk import aws_s3 as s3  # noqa: PLC0415

    app = App()
    s3.Bucket(Stack(app, "stack"), "Bare")
    add_nag_checks(app)
    with pytest.raises(RuntimeError, match=r"AwsSolutions-S10"):
        app.synth()


def test_operators_are_the_roles_and_users_that_the_stage_names() -> None:
    from stacks.operators import trusted_principals  # isort: skip  # noqa: PLC0415  it starts the CDK's Node
    from aws_cdk import App, Stack, assertions  # noqa: PLC0415
    from aws_cdk import aws_iam as iam  # noqa: PLC0415

    arns = ("arn:aws:iam::111122223333:role/oncall", "arn:aws:iam::111122223333:user/ann")
    stack = Stack(App(), "stack")
    iam.Role(stack, "Role", assumed_by=trusted_principals(replace(STAGES["dev"], operators=arns)))
    (role,) = assertions.Template.from_stack(stack).find_resources("AWS::IAM::Role").values()
    statements = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert {it["Principal"]["AWS"]: it.get("Condition") for it in statements} == {
        "arn:aws:iam::111122223333:role/oncall": None,
        "arn:aws:iam::111122223333:user/ann": {"Bool": {"aws:MultiFactorAuthPresent": "true"}},
    }, "the session of a role has no second factor, so its own trust policy must require one"
