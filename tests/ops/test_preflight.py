"""Tests `python -m ops preflight`: before a deploy, it reports what an account lacks, and it changes nothing.

The test makes up answers that moto lacks: of CloudFormation, of Service Quotas, and the limits of SES and Lambda.
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError, NoCredentialsError
from moto import mock_aws

from ops.__main__ import main
from ops.commands import preflight
from ops.commands.preflight import ASK_AWS, CHANGE, NO_ANSWER, NOT_ALLOWED, OK, Finding, Preflight
from proof.support.fixtures import PROJECT
from proof.support.synthesized import SynthesizedTemplate
from tests.adapters.test_identity_provider import OpenIdServer, provider
from tests.stacks.conftest import ON_CALL, templates

__all__ = ["provider", "templates"]

STACK, SENDER = "orderstream-prod", "orders@shop.test"
READS = ("Describe", "Get", "List")
DEFAULT_QUOTAS = {"L-AB614373": 40_000, "L-CF0CBE56": 40_000, "L-9B653E91": 2_400, "L-5540C5E3": 4_500}
MAY_SEND = {"ProductionAccessEnabled": True, "SendingEnabled": True, "EnforcementStatus": "HEALTHY"}
LARGE, SMALL = ({"MaxSendRate": rate, "Max24HourSend": day} for rate, day in ((500.0, 20_000_000.0), (1.0, 200.0)))
ABSENT = ("ValidationError", f"Stack with id {STACK} does not exist")


@pytest.fixture(scope="module")
def prod(templates: dict[str, SynthesizedTemplate], tmp_path_factory: pytest.TempPathFactory) -> SynthesizedTemplate:
    """The template of prod with a publishable key and sign-in pages, which have no default."""
    body = deepcopy(templates["prod"].body)
    body["Resources"]["Domain"] = {"Type": "AWS::Cognito::UserPoolDomain", "Properties": {"Domain": "mug-shop"}}
    variables = body["Resources"][templates["prod"].function("payment_starter")]["Properties"]["Environment"]
    variables["Variables"]["PUBLISHABLE_KEY"] = "pk_live_1"
    file = tmp_path_factory.mktemp("prod") / "template.json"
    file.write_text(json.dumps(body), encoding="utf-8")
    return SynthesizedTemplate(file, body)


class Account:
    """An account of moto that is ready for prod. `answers`: by operation, the answers that replace those of moto.

    A pair of strings is an error: its code and its message. `asked`: all operations that were called.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, Any] = {
            "DescribeStacks": ABSENT,
            "ListStacks": {"StackSummaries": []},
            "GetAccount": {**MAY_SEND, "SendQuota": LARGE},
            "GetEmailIdentity": {"VerifiedForSendingStatus": True, "DkimAttributes": {"Status": "SUCCESS"}},
            "GetAccountSettings": {"AccountLimit": {"ConcurrentExecutions": 1_000}},
            "GetServiceQuota": ("NoSuchResourceException", "never raised"),
            "GetAWSDefaultServiceQuota": lambda asked: {
                "Quota": {"Value": DEFAULT_QUOTAS.get(asked["QuotaCode"], 10_000)}
            },
        }
        boto3.client("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="28", Type="String")

    def deploy(self, status: str = "UPDATE_COMPLETE", own: tuple[str, ...] = (), **outputs: str) -> None:
        """Let the stack exist with this status, these outputs, and resources of these names."""
        listed = [{"OutputKey": key, "OutputValue": value} for key, value in outputs.items()]
        self.answers["DescribeStacks"] = {"Stacks": [{"StackStatus": status, "Outputs": listed}]}
        pages = [{"StackResourceSummaries": [{"PhysicalResourceId": name}]} for name in own or ("",)]
        for number, page in enumerate(pages[:-1]):
            page["NextToken"] = str(number + 1)  # type: ignore[assignment]
        self.answers["ListStackResources"] = lambda asked: pages[int(asked.get("NextToken", 0))]


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    call_moto = BaseClient._make_api_call  # type: ignore[attr-defined]

    def call(client: BaseClient, operation: str, asked: dict[str, Any]) -> Any:
        found.asked.append(operation)
        answer = found.answers.get(operation)
        if answer is None:
            return call_moto(client, operation, asked)
        if isinstance(answer, tuple):
            raise ClientError({"Error": {"Code": answer[0], "Message": answer[1]}}, operation)
        return answer(asked) if callable(answer) else answer

    with mock_aws():
        found = Account()
        monkeypatch.setattr(BaseClient, "_make_api_call", call)
        yield found


def stage_of(template: dict[str, Any], orders: float = 50) -> Preflight:
    return Preflight(STACK, template, orders, boto3.client)  # type: ignore[arg-type]


def check(template: SynthesizedTemplate, orders: float = 50) -> dict[str, Finding]:
    """Return the findings by their first column. Each value of this column is unique."""
    rows = list(preflight.run_checks(stage_of(template.body, orders)))
    found = {row.what: row for row in rows}
    assert len(found) == len(rows)
    return found


def failures(template: SynthesizedTemplate, orders: float = 50) -> dict[str, str]:
    return {what: row.verdict for what, row in check(template, orders).items() if row.verdict != OK}


def test_an_account_that_is_ready_passes_and_nothing_is_changed(account: Account, prod: SynthesizedTemplate) -> None:
    assert failures(prod) == {}
    assert account.asked
    assert [name for name in account.asked if not name.startswith(READS)] == []


def test_every_action_is_on_the_page_of_the_first_deploy(account: Account, prod: SynthesizedTemplate) -> None:
    account.deploy(AlarmsTopic=boto3.client("sns").create_topic(Name="alarms")["TopicArn"], TableName="t")
    account.answers["DescribeTable"] = {"Table": {}}
    account.asked.clear()
    assert failures(prod) == {}
    page = (PROJECT / "docs/first-deploy.md").read_text(encoding="utf-8")
    assert [name for name in account.asked if f":{name}`" not in page] == []


def test_the_command_prints_one_table_and_ends_with_0_or_1(
    account: Account, prod: SynthesizedTemplate, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["preflight", "--stack", STACK, "--template", str(prod.file), "--orders", "50"]
    main(command)
    said = capsys.readouterr().out
    assert said.startswith(f"{STACK} in account 123456789012, eu-central-1, for 50 orders a second\n")
    assert said.endswith("\n0 to change, 0 to ask AWS for, 0 unknown. Nothing was changed.\n")
    account.answers["GetAccountSettings"] = {"AccountLimit": {"ConcurrentExecutions": 10}}
    account.answers["GetEmailIdentity"] = ("NotFoundException", "none")
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 1
    said = capsys.readouterr().out
    assert "  -> request a higher quota: lambda L-B99A9384 in Service Quotas (docs/quotas.md)\n" in said
    assert said.endswith("\n1 to change, 1 to ask AWS for, 0 unknown. Nothing was changed.\n")


def test_a_question_that_is_not_allowed_is_said_with_its_action_and_is_no_failure(
    account: Account, prod: SynthesizedTemplate, capsys: pytest.CaptureFixture[str]
) -> None:
    account.answers["GetAccount"] = account.answers["GetServiceQuota"] = ("AccessDeniedException", "no")
    account.answers["DescribeAlarms"] = ("AccessDenied", "no")
    found = check(prod)
    refused = {what: row.found for what, row in found.items() if row.verdict == NOT_ALLOWED}
    assert refused["SES"] == "ses:GetAccount"
    assert refused["names"] == "cloudwatch:DescribeAlarms"
    assert refused["EventBridge: PutEvents requests"] == "servicequotas:GetServiceQuota"
    assert set(failures(prod).values()) == {NOT_ALLOWED}
    main(["preflight", "--stack", STACK, "--template", str(prod.file)])
    assert "0 to change, 0 to ask AWS for, 7 unknown" in capsys.readouterr().out


def test_a_question_without_an_answer_does_not_end_the_others_and_missing_credentials_do(
    account: Account, prod: SynthesizedTemplate
) -> None:
    account.answers["GetAccountSettings"] = ("ServiceException", "try later")
    assert failures(prod) == {"Lambda concurrency": NO_ANSWER}

    def no_credentials(_: object) -> None:
        raise NoCredentialsError

    account.answers["GetAccountSettings"] = no_credentials
    with pytest.raises(NoCredentialsError):
        check(prod)


# the account and the stack --------------------------------------------------------------------------------------------
BASIC = {"Parameter": {"Value": "5"}}
MAILS = dict.fromkeys(("SES: rate of mails", "SES: mails of a day"), ASK_AWS)


def stack(status: str) -> Any:
    return {"Stacks": [{"StackStatus": status, "Outputs": []}]}


@pytest.mark.parametrize(
    ("operation", "answer", "failed"),
    [
        ("GetParameter", ("ParameterNotFound", "none"), {"CDK bootstrap": CHANGE}),
        ("GetParameter", BASIC, {"CDK bootstrap": CHANGE}),
        ("DescribeStacks", stack("REVIEW_IN_PROGRESS"), {}),
        ("DescribeStacks", stack("ROLLBACK_COMPLETE"), {}),
        ("DescribeStacks", stack("UPDATE_IN_PROGRESS"), {"stack": CHANGE}),
        ("DescribeStacks", stack("UPDATE_ROLLBACK_FAILED"), {"stack": CHANGE}),
        ("GetAccount", {**MAY_SEND, "SendQuota": LARGE, "SendingEnabled": False}, {"SES sending": ASK_AWS}),
        ("GetAccount", {**MAY_SEND, "SendQuota": LARGE, "EnforcementStatus": "SHUTDOWN"}, {"SES sending": ASK_AWS}),
        ("GetAccount", {**MAY_SEND, "SendQuota": LARGE, "ProductionAccessEnabled": False}, {"SES sandbox": ASK_AWS}),
        ("GetAccount", {**MAY_SEND, "SendQuota": SMALL}, MAILS),
    ],
)
def test_an_account_that_is_not_ready_is_reported(
    account: Account, prod: SynthesizedTemplate, operation: str, answer: Any, failed: dict[str, str]
) -> None:
    account.answers["ListStackResources"] = {"StackResourceSummaries": []}
    account.answers[operation] = answer
    assert failures(prod) == failed


def test_a_protected_stage_shares_no_bootstrap_with_another_stage(account: Account, prod: SynthesizedTemplate) -> None:
    pages: list[Any] = [
        {"StackSummaries": [{"StackName": f"{STACK}-deploy"}], "NextToken": "1"},
        {"StackSummaries": []},
    ]
    account.answers["ListStacks"] = lambda asked: pages[int(asked.get("NextToken", 0))]
    assert check(prod)["other stages in the account"].verdict == OK, "its own stacks"
    pages[1]["StackSummaries"] = [{"StackName": "orderstream-dev"}, {"StackName": "CDKToolkit"}]
    row = check(prod)["other stages in the account"]
    assert (row.found, row.verdict) == ("orderstream-dev", CHANGE)
    parameter = prod.body["Parameters"]["BootstrapVersion"]
    own = prod.body | {"Parameters": {"BootstrapVersion": parameter | {"Default": "/cdk-bootstrap/prod1/version"}}}
    (row,) = preflight.check_other_stages(stage_of(own))
    assert (row.found, row.verdict) == ("orderstream-dev", OK)
    assert "can administer" in row.action, "until its execution role is limited, too"


def test_names_that_an_earlier_stack_left_behind_are_taken_and_those_of_the_stack_are_not(
    account: Account, prod: SynthesizedTemplate
) -> None:
    (bus,) = prod.properties("AWS::Events::EventBus").values()
    vault = prod.only_properties("AWS::Backup::BackupVault")["BackupVaultName"]
    alarm, logs = "orderstream-prod-throttling", "/orderstream/prod/event_publisher"
    boto3.client("events").create_event_bus(Name=bus["Name"])
    boto3.client("backup").create_backup_vault(BackupVaultName=vault)
    pool = boto3.client("cognito-idp").create_user_pool(PoolName="other")["UserPool"]["Id"]
    boto3.client("cognito-idp").create_user_pool_domain(Domain="mug-shop", UserPoolId=pool)
    boto3.client("cloudwatch").put_metric_alarm(
        AlarmName=alarm, EvaluationPeriods=1, ComparisonOperator="GreaterThanThreshold", Threshold=1, MetricName="m",
        Namespace="n", Period=60, Statistic="Sum",
    )  # fmt: skip
    for name in (logs, "/orderstream/prod/of-somebody-else"):
        boto3.client("logs").create_log_group(logGroupName=name)
    found = check(prod)["names"]
    assert found.verdict == CHANGE
    assert found.found == (
        f"taken: event bus {bus['Name']}, backup vault {vault}, sign-in domain mug-shop, alarm {alarm}, "
        f"log group {logs}"
    )
    account.deploy(own=(bus["Name"], vault, "mug-shop", alarm, logs))
    assert check(prod)["names"].verdict == OK


@pytest.mark.usefixtures("account")
def test_another_identity_provider_must_describe_itself(prod: SynthesizedTemplate, provider: OpenIdServer) -> None:
    assert "identity provider" not in check(prod), "the user pool is made by the deploy"
    properties = {"JwtConfiguration": {"Issuer": provider.issuer, "Audience": ["orders"]}}
    authorizer = {"Type": "AWS::ApiGatewayV2::Authorizer", "Properties": properties}
    resources = {**prod.body["Resources"], "Token": authorizer}
    foreign = SynthesizedTemplate(prod.file, {**prod.body, "Resources": resources})
    found = check(foreign)["identity provider"]
    assert (found.verdict, found.found) == (CHANGE, "its description has no right issuer, jwks_uri")
    provider.description |= {"issuer": f"{provider.issuer}/", "jwks_uri": "https://id.test/keys"}
    assert check(foreign)["identity provider"].found == "its description has no right issuer"
    provider.description["issuer"] = provider.issuer
    assert check(foreign)["identity provider"].verdict == OK
    properties["JwtConfiguration"] |= {"Issuer": "http://127.0.0.1:9"}
    assert check(foreign)["identity provider"].verdict == CHANGE


def test_alarms_of_a_protected_stage_need_a_confirmed_address(
    account: Account, prod: SynthesizedTemplate, templates: dict[str, SynthesizedTemplate]
) -> None:
    assert check(prod)["alarms"].action == "after the deploy, confirm the mail from AWS"
    sns = boto3.client("sns")
    topic = sns.create_topic(Name="alarms")["TopicArn"]
    account.deploy(AlarmsTopic=topic)
    account.answers["ListSubscriptionsByTopic"] = {
        "Subscriptions": [{"Endpoint": ON_CALL, "SubscriptionArn": "PendingConfirmation"}]
    }
    assert check(prod)["alarms"].verdict == CHANGE
    del account.answers["ListSubscriptionsByTopic"]
    sns.subscribe(TopicArn=topic, Protocol="email", Endpoint=ON_CALL)
    assert check(prod)["alarms"] == Finding("alarms", ON_CALL, "a confirmed address")
    assert check(templates["dev"])["alarms"].verdict == OK
    silent = json.loads(json.dumps(prod.body).replace("AWS::SNS::Subscription", "AWS::SNS::Other"))
    assert check(SynthesizedTemplate(prod.file, silent))["alarms"].verdict == CHANGE


# mails ----------------------------------------------------------------------------------------------------------------
def test_the_sender_or_its_domain_must_be_verified_and_signed(
    account: Account, prod: SynthesizedTemplate, templates: dict[str, SynthesizedTemplate]
) -> None:
    ses = boto3.client("sesv2")
    del account.answers["GetEmailIdentity"]
    assert check(prod)["sender"].found == f"{SENDER}: unknown to SES"
    ses.create_email_identity(EmailIdentity=SENDER)
    assert check(prod)["sender"].found == f"{SENDER}: unknown to SES", "Cognito needs the verified domain of the sender"
    body = json.loads(json.dumps(prod.body).replace("SourceArn", "Other"))
    assert check(SynthesizedTemplate(prod.file, body))["sender"].found.startswith(f"{SENDER}: ")
    ses.create_email_identity(EmailIdentity="shop.test")
    found = check(prod)
    assert found["sender"].found.startswith("shop.test: ")
    account.answers["GetEmailIdentity"] = {"VerifiedForSendingStatus": False, "DkimAttributes": {"Status": "PENDING"}}
    assert failures(prod) == {"sender": CHANGE, "DKIM": CHANGE}
    assert check(templates["dev"])["sender"].action == "set sender (docs/settings.md)"


# throughput -----------------------------------------------------------------------------------------------------------
def test_the_concurrency_is_that_of_the_template_and_a_new_account_has_too_little(
    account: Account, prod: SynthesizedTemplate
) -> None:
    mappings = prod.properties("AWS::Lambda::EventSourceMapping").values()
    factor = sum(one.get("ParallelizationFactor", 0) for one in mappings)
    queues = [one for one in mappings if "ParallelizationFactor" not in one]
    maxima = [one.get("ScalingConfig", {}).get("MaximumConcurrency", 5) for one in queues]
    parts = preflight.concurrency_of(stage_of(prod.body))
    assert parts == {"API": 7, "stream readers": 4 * factor, "queues": sum(maxima), "schedules": 7}
    assert preflight.concurrency_of(stage_of(prod.body, 200))["stream readers"] == 14 * factor
    account.answers["GetAccountSettings"] = {"AccountLimit": {"ConcurrentExecutions": sum(parts.values()) - 1}}
    assert failures(prod) == {"Lambda concurrency": "ask AWS"}


def test_a_reservation_leaves_a_hundred_invocations_to_the_others(account: Account, prod: SynthesizedTemplate) -> None:
    body = json.loads(json.dumps(prod.body))
    body["Resources"][prod.function("api")]["Properties"]["ReservedConcurrentExecutions"] = 40
    for resource in body["Resources"].values():
        if resource["Type"] == "AWS::Lambda::EventSourceMapping":
            resource["Properties"].pop("ScalingConfig", None)
    parts = preflight.concurrency_of(stage_of(body, 1))
    assert parts == {"reserved": 40, "without a reservation": 100}


def test_a_quota_or_setting_that_is_too_low_for_the_orders_is_reported(
    account: Account, prod: SynthesizedTemplate
) -> None:
    found = failures(prod, orders=600)
    assert found["EventBridge: PutEvents requests"] == ASK_AWS
    settings = {f"the table's {way} units at once" for way in ("write", "read")} | {"the stage's rate limit of the API"}
    assert {what for what, verdict in found.items() if verdict == CHANGE} == settings
    assert "the table's read units at once" not in failures(prod, orders=370)
    account.answers["GetServiceQuota"] = {"Quota": {"Value": 1e6}}  # a raised quota counts instead of its default
    account.deploy(TableName="t")
    account.answers["DescribeTable"] = {"Table": {"WarmThroughput": {"WriteUnitsPerSecond": 40_000}}}
    found = failures(prod, orders=500)
    assert [
        what for what in found if what.startswith(("EventBridge", "DynamoDB", "API Gateway", "the table's wr"))
    ] == []


@pytest.mark.parametrize(
    ("key", "url", "verdict"),
    [
        ("pk_live_1", "https://api.stripe.com", OK),
        ("pk_test_1", "https://api.stripe.com", CHANGE),
        ("", "https://api.stripe.com", CHANGE),
        ("", "", OK),
    ],
)
def test_customers_of_a_protected_stage_pay_with_real_money(key: str, url: str, verdict: str) -> None:
    variables = {"PUBLISHABLE_KEY": key, "PROVIDER_URL": url}
    starter = {"Type": "AWS::Lambda::Function", "Properties": {"Environment": {"Variables": variables}}}
    table = {"Type": "AWS::DynamoDB::GlobalTable", "UpdateReplacePolicy": "Retain"}
    stage = Preflight(STACK, {"Resources": {"Starter": starter, "Table": table}}, 1, str)
    assert [one.verdict for one in preflight.check_publishable_key(stage)] == [verdict]


def test_a_template_that_cannot_be_read_is_reported_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"^Cannot read the template: .* Run make check-deploy PARTS=account"):
        main(["preflight", "--stack", STACK, "--template", str(tmp_path / "none.json")])
