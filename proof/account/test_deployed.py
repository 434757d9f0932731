"""Tests the steps of `make prove` in an account: commands and calls of AWS in their order, with moto and stubs."""

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from functions.model.table import create_table_request
from ops import targets
from ops.api_client import UnexpectedResponse
from ops.commands.review import MAPPING
from ops.targets import ShopTarget
from proof.account import deployed, shop_steps
from proof.account.deployed import DeployedTarget, OrdersComing, follow_command, read_commands
from proof.account.outcome import OK, NotPossible, Outcome, StepFailed
from proof.support.synthesized import synthesize
from stacks import PROJECT, synth_cache

STREAM = "arn:aws:dynamodb:eu-central-1:111122223333:table/orderstream-dev-restored/stream/2026-11-21T09:30:00.000"


class Commands:
    """Records the commands that run, with the folder if it is not this project. `codes`: exit codes."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.codes: dict[str, int] = {}

    def __call__(self, words: Sequence[str], folder: Path) -> int:
        line = " ".join(words)
        self.ran.append(line if folder == PROJECT else f"{folder.name}: {line}")
        return next((code for part, code in self.codes.items() if part in line), 0)


@pytest.fixture
def commands() -> Commands:
    return Commands()


@pytest.fixture
def target(commands: Commands) -> DeployedTarget:
    return DeployedTarget("dev", run=commands)


def give_shop(target: DeployedTarget, monkeypatch: pytest.MonkeyPatch, **clients: Any) -> None:
    """Let the target find a stack with these clients, also after each deploy."""
    outputs = {
        "TableName": "orders", "KeyArn": "key", "FulfilmentMapping": "mapping-1", "CustomerErasureRule": "erasure",
        "BackupVault": "vault", "BackupRole": "role", "ArchiveBucket": "archive", "ArchiveCopyBucket": "copy",
    }  # fmt: skip
    shop = ShopTarget(outputs, lambda service: clients[service], lambda kind: [])
    monkeypatch.setattr(targets, "resolve_target", lambda args: shop)


def test_a_command_gets_no_variable_of_make_prove_and_the_python_of_the_project(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "ARGS", "ALLOW", "STAGE", "AWS_REGION"):
        monkeypatch.setenv(name, "of make prove")
    assert deployed.run_command(["sh", "-c", "env > seen; exit 3"], tmp_path) == 3
    seen = dict(line.partition("=")[::2] for line in (tmp_path / "seen").read_text().splitlines())
    assert [name for name, value in seen.items() if value == "of make prove"] == ["AWS_REGION"]
    assert seen["PATH"].startswith(str(PROJECT / ".venv" / "bin"))


# the failed deploy ----------------------------------------------------------------------------------------------------
LAST, ROLE = ("Failing", deployed.WAIT_CONDITION), ("Role", "AWS::IAM::Role")


@pytest.mark.parametrize(
    ("failed", "code", "exists", "error"),
    [
        ([LAST], 1, False, None),
        ([], 1, False, (StepFailed, "did not fail at its last resource: no resource failed")),
        ([ROLE, LAST], 1, False, (StepFailed, "did not fail at its last resource: Role")),
        ([], 0, False, (StepFailed, "the deploy succeeded")),
        ([LAST], 1, True, (NotPossible, "not its first deploy")),
    ],
)
def test_only_a_first_deploy_that_fails_at_its_last_resource_is_as_wanted(
    target: DeployedTarget,
    commands: Commands,
    monkeypatch: pytest.MonkeyPatch,
    failed: list[tuple[str, str]],
    code: int,
    exists: bool,
    error: tuple[type[Exception], str] | None,
) -> None:
    events = [{"LogicalResourceId": id, "ResourceType": kind, "ResourceStatus": "CREATE_FAILED"} for id, kind in failed]
    events.append({"LogicalResourceId": "Table", "ResourceType": deployed.TABLE, "ResourceStatus": "DELETE_COMPLETE"})
    pages = SimpleNamespace(paginate=lambda **asked: [{"StackEvents": events}])
    client = SimpleNamespace(get_paginator=lambda operation: pages)
    monkeypatch.setattr(boto3, "client", lambda *_, **__: client)
    monkeypatch.setattr(deployed, "is_first_deploy", lambda stack, region: not exists)
    commands.codes["fail_deploy=true"] = code
    with pytest.raises(error[0], match=error[1]) if error else nullcontext():
        assert deployed.fail_deploy(target).status == OK
    wanted = "make deploy STAGE=dev ARGS=--require-approval never -c fail_deploy=true"
    assert commands.ran == ([] if exists else [wanted])


# the end of a proof ---------------------------------------------------------------------------------------------------
def test_the_end_empties_the_buckets_destroys_the_stack_and_deletes_restored_tables(
    target: DeployedTarget, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mock_aws():
        s3, dynamodb = boto3.client("s3"), boto3.client("dynamodb")
        stacks = ["orderstream-dev"]
        s3.create_bucket(Bucket="files", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        monkeypatch.setattr(deployed, "_exists", lambda client, stack: stack in stacks)
        monkeypatch.setattr(deployed, "_physical_ids", lambda client, stack, kind: ["files"])
        s3.put_bucket_versioning(Bucket="files", VersioningConfiguration={"Status": "Enabled"})
        for _ in range(2):
            s3.put_object(Bucket="files", Key="order", Body=b"{}")
        s3.delete_object(Bucket="files", Key="order")
        dynamodb.create_table(**create_table_request("restored"))
        target.restored_tables.append("restored")
        found: list[Any] = []

        def run(words: Sequence[str], folder: Path) -> int:
            found.append(s3.list_object_versions(Bucket="files"))
            stacks.clear()
            return commands(words, folder)

        target.run = run
        assert deployed.destroy(target).status == OK
        assert [one.get("Versions", []) + one.get("DeleteMarkers", []) for one in found] == [[]]
        assert commands.ran == [f"{' '.join(deployed.CDK)} destroy --all --force --context stage=dev"]
        assert dynamodb.list_tables()["TableNames"] == []
        assert deployed.destroy(target) == Outcome(OK, "there was no stack to destroy")


# alarms and backups ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("summary", "fails"),
    [("Successfully executed action arn:aws:sns:topic", False), ("Failed to execute action arn:aws:sns:topic", True)],
)
def test_an_alarm_that_does_not_reach_its_topic_fails_the_step(
    target: DeployedTarget, monkeypatch: pytest.MonkeyPatch, summary: str, fails: bool
) -> None:
    raised: list[str] = []
    cloudwatch = SimpleNamespace(
        set_alarm_state=lambda AlarmName, **_: raised.append(AlarmName),  # noqa: N803  boto3's name
        describe_alarm_history=lambda **_: {"AlarmHistoryItems": [{"HistorySummary": summary}]},
    )
    give_shop(target, monkeypatch, cloudwatch=cloudwatch)
    with pytest.raises(StepFailed, match="Failed to execute") if fails else nullcontext():
        assert deployed.raise_alarm(target).status == OK
    assert raised == ["orderstream-dev-over-refunded"]


@pytest.mark.parametrize("used", ["key", "alias/aws/dynamodb"])
def test_a_backup_is_restored_with_the_key_of_the_shop_and_deleted(
    target: DeployedTarget, monkeypatch: pytest.MonkeyPatch, used: str
) -> None:
    called: list[tuple[str, dict[str, Any]]] = []
    answers: dict[str, Any] = {
        "start_backup_job": {"BackupJobId": "b1"},
        "describe_backup_job": {"State": "COMPLETED", "RecoveryPointArn": "point"},
        "start_restore_job": {"RestoreJobId": "r1"},
        "describe_restore_job": {"Status": "COMPLETED"},
    }

    class Backup:
        def __getattr__(self, operation: str) -> Callable[..., Any]:
            def call(**asked: Any) -> Any:
                called.append((operation, asked))
                return answers.get(operation)

            return call

    table = {"Table": {"TableArn": "table", "SSEDescription": {"KMSMasterKeyArn": used}}}
    give_shop(target, monkeypatch, backup=Backup(), dynamodb=SimpleNamespace(describe_table=lambda **_: table))
    with pytest.raises(StepFailed, match="not the key of the shop") if used != "key" else nullcontext():
        assert deployed.restore_backup(target).status == OK
    asked = dict(called)
    assert asked["start_restore_job"]["Metadata"]["kmsMasterKeyArn"] == "key"
    assert asked["delete_recovery_point"]["RecoveryPointArn"] == "point", "a vault with backups cannot be deleted"
    assert target.restored_tables == [asked["start_restore_job"]["Metadata"]["targetTableName"]]


def test_a_deleted_object_of_the_archive_is_restored_from_its_copy(
    target: DeployedTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mock_aws():
        s3 = boto3.client("s3")
        for bucket in ("archive", "copy"):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
            s3.put_object(Bucket=bucket, Key="orders/day=2026-11-21/o1/1.json", Body=b"{}")
        give_shop(target, monkeypatch, s3=s3)
        assert deployed.restore_object(target).status == OK
        s3.put_object(Bucket="copy", Key="orders/day=2026-11-21/o1/1.json", Body=b"damaged")
        with pytest.raises(StepFailed, match="has other content"):
            deployed.restore_object(target)


# the restore ----------------------------------------------------------------------------------------------------------
class DynamoDb:
    """A DynamoDB client whose restored table is ready at once. `called`: the operations that change something."""

    def __init__(self) -> None:
        self.called: list[tuple[str, dict[str, Any]]] = []

    def describe_continuous_backups(self, TableName: str) -> Any:  # noqa: N803  boto3's name
        latest = {"LatestRestorableDateTime": datetime.now(UTC) + timedelta(minutes=1)}
        return {"ContinuousBackupsDescription": {"PointInTimeRecoveryDescription": latest}}

    def describe_table(self, TableName: str) -> Any:  # noqa: N803
        return {"Table": {"TableStatus": "ACTIVE", "LatestStreamArn": STREAM}}

    def __getattr__(self, operation: str) -> Callable[..., None]:
        return lambda **asked: self.called.append((operation, asked))


@contextmanager
def no_customers(target: Any) -> Iterator[Any]:
    people = SimpleNamespace(
        place_order=lambda *_, **__: {"order_id": "o1"},
        create_stocked_product=lambda quantity: "mug",
        pay_order=lambda order: None,
        target=SimpleNamespace(ship=lambda order_id: None),
        alice=SimpleNamespace(get=lambda path: {"status": "DELIVERED"}),
    )
    yield people


@pytest.mark.slow
def test_a_restore_follows_the_runbook_and_allows_only_what_its_stream_replaces(
    target: DeployedTarget, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = synthesize("orderstream-dev").body, synthesize("orderstream-dev", stream_arn=STREAM).body
    dynamodb = DynamoDb()
    cloudformation = SimpleNamespace(get_template=lambda StackName: {"TemplateBody": before})  # noqa: N803
    give_shop(target, monkeypatch, dynamodb=dynamodb, cloudformation=cloudformation)
    monkeypatch.setattr(synth_cache, "load_template", lambda stack, context: after)
    monkeypatch.setattr(shop_steps, "customers", no_customers)
    monkeypatch.setattr(shop_steps, "drift", lambda target: Outcome(OK, "no drift"))
    assert deployed.restore(target).status == OK
    assert [operation for operation, _ in dynamodb.called] == [
        "restore_table_to_point_in_time",
        "update_table",
        "update_time_to_live",
    ]
    assert dynamodb.called[0][1]["SSESpecificationOverride"]["KMSMasterKeyId"] == "key"
    (name,) = target.restored_tables
    assert name.startswith("orderstream-dev-restored-"), "the deploy role may read only such tables"
    deploy, *replays = commands.ran
    assert f"-c stream_arn={STREAM} ALLOW=" in deploy
    allowed = [before["Resources"][id]["Type"] for id in deploy.partition("ALLOW=")[2].split()]
    assert allowed == [MAPPING, MAPPING], "a throw-away stage does not retain its table"
    assert [line.partition("replay ")[2] for line in replays] == [
        "--stack orderstream-dev --from-table --copies",
        "--stack orderstream-dev --from-table --reactions --to-all",
    ]


def test_a_restored_table_is_deleted_at_the_end_although_its_deploy_failed(
    target: DeployedTarget, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_shop(target, monkeypatch, dynamodb=DynamoDb())
    monkeypatch.setattr(shop_steps, "customers", no_customers)
    monkeypatch.setattr(deployed, "_ids_to_allow", lambda target, stream: [])
    commands.codes["stream_arn"] = 1
    with pytest.raises(StepFailed, match="the deploy with stream_arn failed"):
        deployed.restore(target)
    assert len(target.restored_tables) == 1


# the upgrade ----------------------------------------------------------------------------------------------------------
def test_an_upgrade_follows_the_commands_of_the_page_in_their_order(target: DeployedTarget, commands: Commands) -> None:
    for line in read_commands("upgrade"):
        follow_command(target, line)
    deployed_first, migrated = commands.ran
    assert deployed_first == "make deploy STAGE=dev ARGS=--require-approval never"
    assert shlex.split(migrated)[2:] == ["ops", "migrate", "up", "--stack", "orderstream-dev"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("make deploy STAGE=$STAGE", "the upgrade failed"),
        ("python -m ops migrate up --stack $STACK", "python -m ops migrate up --stack orderstream-dev failed"),
        ("rm -rf /", "does not know this command"),
    ],
)
def test_a_command_of_the_upgrade_that_fails_fails_the_step(
    target: DeployedTarget, commands: Commands, line: str, said: str
) -> None:
    commands.codes |= {"make deploy": 1, " -m ops ": 1}
    with pytest.raises(StepFailed, match=said):
        follow_command(target, line)


def test_without_a_release_before_an_upgrade_is_not_possible_and_nothing_is_destroyed(
    target: DeployedTarget, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployed, "_git", lambda *words: "")
    with pytest.raises(NotPossible, match="no release before was found"):
        deployed.upgrade(target)
    assert commands.ran == []


def test_a_release_that_does_not_know_the_stage_leaves_the_stage_alone(
    target: DeployedTarget, commands: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(deployed, "check_out_release", lambda target: tmp_path / "0123456789ab")
    commands.codes["make synth"] = 1
    with pytest.raises(NotPossible, match=r"release before \(0123456789ab\) cannot be synthesized for the stage dev"):
        deployed.upgrade(target)
    assert commands.ran == ["0123456789ab: make synth STAGE=dev"]


def test_customers_send_a_request_again_while_the_shop_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    answers = iter([503, 502, 201])

    def place_order(product_id: str, quantity: int) -> dict[str, str]:
        if (status := next(answers)) != 201:
            raise UnexpectedResponse(f"POST /orders answered {status}: None")
        return {"order_id": "o1"}

    def pay_order(order: dict[str, str]) -> None:
        coming.stopping.set()

    people: Any = SimpleNamespace(
        create_stocked_product=lambda quantity: "mug", place_order=place_order, pay_order=pay_order
    )
    coming = OrdersComing(people)
    coming.order_until_stopped()
    assert (len(coming.orders), coming.failures) == (1, {"UnexpectedResponse": 2})


def test_an_answer_that_no_repetition_heals_ends_the_orders() -> None:
    def refuse(quantity: int) -> str:
        raise UnexpectedResponse("POST /products answered 400: {}")

    people: Any = SimpleNamespace(create_stocked_product=refuse)
    with pytest.raises(UnexpectedResponse), deployed.orders_coming(people):
        pass
