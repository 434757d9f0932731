"""The steps of `make prove` in an AWS account, with the commands that a person runs. They deploy a stage and destroy
it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import boto3

from functions.adapters import object_store
from local.laptop.load_test import check_orders
from local.world.dynamodb_engine import TTL_ATTRIBUTE
from ops import targets
from ops.commands.first_deploy import is_first_deploy
from ops.commands.review import MAPPING, review_templates
from ops.scenarios import ScenarioClients, wait_until
from ops.targets import ShopTarget
from proof.account import shop_steps
from proof.account.outcome import OK, NotPossible, Outcome, StepFailed
from proof.account.probes import judge_probes
from proof.conformance.probes import PROBES
from proof.conformance.runners import aws
from proof.shop_probes import access_patterns
from stacks import PROJECT, stage, synth_cache
from stacks.alarm_definitions import TEST_ALARM

RunCommand = Callable[[Sequence[str], Path], int]
"""A function that runs a command in a folder, and returns its exit code."""
OF_MAKE = re.compile(r"(MAKE|MFLAGS|ARGS$|ALLOW$|STAGE$)")
"""The environment variables of `make prove` that an inner make must not inherit."""
CDK = (".venv/bin/node", "node_modules/aws-cdk/bin/cdk")
TABLE = "AWS::DynamoDB::GlobalTable"
WAIT_CONDITION = "AWS::CloudFormation::WaitCondition"
RECOVERY_SECONDS = 1_800
"""How long to wait until a write can be restored: point-in-time recovery usually includes it within five minutes."""
RESTORE_SECONDS = 2 * 3_600
ORDERING_THREADS = 2
PATIENCE_SECONDS = 300


class Refused(RuntimeError):
    """`make prove` must not destroy this stage. The text is the error message for the user."""


def check_throw_away(name: str) -> None:
    """Raise Refused if a stage is protected or has no setting `throw_away`, and InvalidSetting if there is none."""
    context = json.loads((PROJECT / "cdk.json").read_text(encoding="utf-8"))["context"]
    settings = stage.read_settings({**context, "stage": name})
    if settings.protect:
        raise Refused(f"{name} is protected: make prove runs only in a stage that it may destroy.")
    if not settings.throw_away and not is_first_deploy(f"orderstream-{name}", None):
        raise Refused(
            f"orderstream-{name} exists: name a stage that does not exist, or set throw_away = true in "
            f"stages/{name}.toml if all its data may be lost."
        )


def run_command(words: Sequence[str], folder: Path) -> int:
    """Run a command, show its output, and return its exit code. It inherits no variable that matches OF_MAKE."""
    print(f"$ {shlex.join(words)}", flush=True)
    inherited = {name: value for name, value in os.environ.items() if not OF_MAKE.match(name)}
    inherited["PATH"] = f"{PROJECT / '.venv' / 'bin'}{os.pathsep}{inherited.get('PATH', '')}"  # the CDK runs python3
    return subprocess.run(words, cwd=folder, env=inherited, check=False).returncode


class DeployedTarget:
    """A stage in the AWS account of the environment's credentials, as the target of a proof.

    `sender`: a mail address that SES has verified, to check SES. `release`: the commit of the previous release.
    `restored_tables`: the tables that the step `restore` made. They do not belong to the stack.
    """

    name = "aws"
    effect_seconds, expiry_seconds, drift_pause_seconds = 180.0, 3_600.0, 30.0
    poll_seconds = 1

    def __init__(
        self,
        stage_name: str,
        *,
        orders: int = 200,
        sender: str = "",
        release: str = "",
        run: RunCommand | None = None,
    ) -> None:
        self.stage, self.stack = stage_name, f"orderstream-{stage_name}"
        self.orders = orders
        self.sender, self.release, self.run = sender, release, run or run_command
        self.restored_tables: list[str] = []

    @cached_property
    def shop(self) -> ShopTarget:
        return targets.resolve_target(argparse.Namespace(stack=self.stack, region=None))

    @property
    def api_url(self) -> str:
        return self.shop.outputs.get("CloudFrontUrl", self.shop.outputs["ApiUrl"])

    def make(self, *settings: str, allow: Sequence[str] = (), folder: Path = PROJECT) -> int:
        """Run `make deploy` with these settings, and return its exit code."""
        self.__dict__.pop("shop", None)  # a deploy changes the outputs
        args = " ".join(["--require-approval never", *(f"-c {one}" for one in settings)])
        more = [f"ALLOW={' '.join(allow)}"] if allow else []
        return self.run(["make", "deploy", f"STAGE={self.stage}", f"ARGS={args}", *more], folder)

    def ops(self, *words: str) -> None:
        """Run an operator tool. Raises StepFailed if it fails."""
        if self.run([sys.executable, "-m", "ops", *words], PROJECT):
            raise StepFailed(f"python -m ops {shlex.join(words)} failed: see its output")


# deploys --------------------------------------------------------------------------------------------------------------
def fail_deploy(target: DeployedTarget) -> Outcome:
    """Deploy a new stage whose last resource fails on purpose, and check that no other resource failed."""
    if not is_first_deploy(target.stack, None):
        raise NotPossible("the stage exists, so this is not its first deploy")
    if target.make("fail_deploy=true") == 0:
        raise StepFailed("the deploy succeeded, although its last resource must fail")
    events = boto3.client("cloudformation").get_paginator("describe_stack_events").paginate(StackName=target.stack)
    failed = [
        f"{event['LogicalResourceId']} ({event['ResourceType']}): {event.get('ResourceStatusReason', '')}"
        for page in events
        for event in page["StackEvents"]
        if event["ResourceStatus"].endswith("_FAILED")
    ]
    wrong = [one for one in failed if WAIT_CONDITION not in one]
    if wrong or not failed:
        raise StepFailed(f"the deploy did not fail at its last resource: {'; '.join(wrong) or 'no resource failed'}")
    return Outcome(OK, "the deploy failed at its last resource, and CloudFormation rolled it back")


def deploy(target: DeployedTarget) -> Outcome:
    """Deploy the stage with `make deploy`."""
    if target.make():
        raise StepFailed("make deploy failed: see its output, and the events of the stack")
    return Outcome(OK, "the stage is deployed")


def destroy(target: DeployedTarget) -> Outcome:
    """Empty the buckets, destroy the stack, and delete restored tables."""
    client = boto3.client("cloudformation")
    dynamodb = boto3.client("dynamodb")
    if not _exists(client, target.stack):
        return Outcome(OK, "there was no stack to destroy")
    for name in _physical_ids(client, target.stack, "AWS::S3::Bucket"):
        object_store.delete_all_versions(name, "", lambda key: False)
    command = [*CDK, "destroy", "--all", "--force", "--context", f"stage={target.stage}"]
    code = target.run(command, PROJECT)
    target.__dict__.pop("shop", None)
    while target.restored_tables:
        dynamodb.delete_table(TableName=target.restored_tables[-1])
        target.restored_tables.pop()
    if code or _exists(client, target.stack):
        raise StepFailed(f"{target.stack} is not destroyed: delete it in the console of CloudFormation")
    return Outcome(OK, "the stack and its data are deleted; its key is deleted by AWS after its waiting period")


def _exists(client: Any, stack: str) -> bool:
    return targets.describe_stack(client.describe_stacks, stack) is not None


def _physical_ids(client: Any, stack: str, resource_type: str) -> list[str]:
    pages = client.get_paginator("list_stack_resources").paginate(StackName=stack)
    found = (one for page in pages for one in page["StackResourceSummaries"])
    return [
        one["PhysicalResourceId"]
        for one in found
        if one["ResourceType"] == resource_type and one["ResourceStatus"] != "DELETE_COMPLETE"
    ]


# alarms ---------------------------------------------------------------------------------------------------------------
def raise_alarm(target: DeployedTarget) -> Outcome:
    """Raise an alarm by hand, and check in its history that CloudWatch published to the encrypted topic."""
    cloudwatch, name, began = target.shop.client("cloudwatch"), f"{target.stack}-{TEST_ALARM}", datetime.now(UTC)
    cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="a test of the notifications")

    def actions() -> list[str]:
        found = cloudwatch.describe_alarm_history(AlarmName=name, HistoryItemType="Action", StartDate=began)
        return [one["HistorySummary"] for one in found["AlarmHistoryItems"]]

    found = wait_until("the action of the alarm", actions, target.effect_seconds, 5)
    if failed := [one for one in found if not one.startswith("Successfully executed action")]:
        raise StepFailed("; ".join(failed))
    return Outcome(OK, "CloudWatch published the alarm to the encrypted topic")


# backups --------------------------------------------------------------------------------------------------------------
def restore_backup(target: DeployedTarget) -> Outcome:
    """Back up the table with AWS Backup, restore the backup into a new table, and check the key of this table."""
    outputs, client = target.shop.outputs, target.shop.client("backup")
    if "BackupVault" not in outputs:
        raise NotPossible("the stage has no backups: set monthly_backup_days in its file")
    dynamodb, role, key = target.shop.client("dynamodb"), outputs["BackupRole"], outputs["KeyArn"]
    table = dynamodb.describe_table(TableName=outputs["TableName"])["Table"]["TableArn"]
    job = client.start_backup_job(BackupVaultName=outputs["BackupVault"], ResourceArn=table, IamRoleArn=role)

    def is_completed(found: Mapping[str, Any], state: str) -> bool:
        if state in ("ABORTED", "EXPIRED", "FAILED", "PARTIAL"):
            raise StepFailed(f"the job of AWS Backup is {state}: {found.get('StatusMessage')}")
        return state == "COMPLETED"

    def backed_up() -> str:
        found = client.describe_backup_job(BackupJobId=job["BackupJobId"])
        return str(found["RecoveryPointArn"]) if is_completed(found, found["State"]) else ""

    point = wait_until("the backup", backed_up, RESTORE_SECONDS, 15)
    try:
        name = f"{target.stack}-restored-{uuid.uuid4().hex[:8]}"
        metadata = {"targetTableName": name, "encryptionType": "KMS", "kmsMasterKeyArn": key}
        restore = client.start_restore_job(RecoveryPointArn=point, IamRoleArn=role, Metadata=metadata)

        def is_restored() -> bool:
            found = client.describe_restore_job(RestoreJobId=restore["RestoreJobId"])
            return is_completed(found, found["Status"])

        wait_until("the table of the backup", is_restored, RESTORE_SECONDS, 15)
        target.restored_tables.append(name)
    finally:  # a vault with backups cannot be deleted
        client.delete_recovery_point(BackupVaultName=outputs["BackupVault"], RecoveryPointArn=point)
    used = dynamodb.describe_table(TableName=name)["Table"].get("SSEDescription", {}).get("KMSMasterKeyArn")
    if used != key:
        raise StepFailed(f"the restored table has the key {used}, not the key of the shop")
    return Outcome(OK, "the table is restored from a backup, with the key of the shop")


def restore_object(target: DeployedTarget) -> Outcome:
    """Delete the object of an archived order, and restore it from the copy of the archive."""
    outputs, s3 = target.shop.outputs, target.shop.client("s3")
    if "ArchiveCopyBucket" not in outputs:
        raise NotPossible("the stage has no copy of the archive: set monthly_backup_days in its file")
    archive, copy = outputs["ArchiveBucket"], outputs["ArchiveCopyBucket"]
    if not (found := s3.list_objects_v2(Bucket=archive, Prefix="orders/", MaxKeys=1).get("Contents")):
        raise NotPossible("no order is archived: the step archive must run before")
    key = found[0]["Key"]

    def read(bucket: str) -> bytes:
        return bytes(s3.get_object(Bucket=bucket, Key=key)["Body"].read())

    def copied() -> bool:
        return bool(s3.list_objects_v2(Bucket=copy, Prefix=key).get("Contents"))

    content = read(archive)
    wait_until("the copy of the archived order", copied, RECOVERY_SECONDS, 15)
    s3.delete_object(Bucket=archive, Key=key)
    s3.copy_object(Bucket=archive, Key=key, CopySource={"Bucket": copy, "Key": key})
    if read(archive) != content:
        raise StepFailed(f"the copy of {key} has other content than the object")
    return Outcome(OK, "a deleted object of the archive is restored from its copy")


# restore --------------------------------------------------------------------------------------------------------------
def restore(target: DeployedTarget) -> Outcome:
    """Follow docs/runbooks/restore-table.md: restore the table, use its new stream, and repair missing items.

    Customers place no orders meanwhile, so the step stops no functions and loses no invoice numbers.
    """
    dynamodb, name = target.shop.client("dynamodb"), target.shop.outputs["TableName"]
    with shop_steps.customers(target) as people:
        order = shop_steps.place_paid_order(people)
        wait_until("the delivery", lambda: shop_steps.is_delivered(people, order), target.effect_seconds, 1)
        restored = _restore_table(target, dynamodb, name)
        described = dynamodb.describe_table(TableName=restored)["Table"]
        stream = f"stream_arn={described['LatestStreamArn']}"
        if target.make(stream, allow=_ids_to_allow(target, described["LatestStreamArn"])):
            raise StepFailed("the deploy with stream_arn failed: see its output")
        dynamodb.update_time_to_live(
            TableName=restored, TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL_ATTRIBUTE}
        )
        target.ops("replay", "--stack", target.stack, "--from-table", "--copies")
        target.ops("replay", "--stack", target.stack, "--from-table", "--reactions", "--to-all")
        if people.alice.get(shop_steps.path_of(order))["status"] != "DELIVERED":
            raise StepFailed("an order from before the restore point is not delivered any more")
        after = shop_steps.place_paid_order(people)
        wait_until(
            "the delivery of an order after the restore",
            lambda: shop_steps.is_delivered(people, after),
            target.effect_seconds,
            1,
        )
    shop_steps.drift(target)
    return Outcome(OK, "an order from before is there, a new one has every effect, and nothing has drifted")


def _restore_table(target: DeployedTarget, dynamodb: Any, name: str) -> str:
    """Restore the current table into a new table with a stream, and return the name of the new table."""
    written, restored = datetime.now(UTC), f"{target.stack}-restored-{uuid.uuid4().hex[:8]}"

    def recovery_point() -> datetime | None:
        found = dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
        latest: datetime = found["PointInTimeRecoveryDescription"]["LatestRestorableDateTime"]
        return latest if latest > written + timedelta(seconds=1) else None

    point = wait_until("a point of recovery after the order", recovery_point, RECOVERY_SECONDS, 15)
    key = target.shop.outputs["KeyArn"]
    dynamodb.restore_table_to_point_in_time(
        SourceTableName=name,
        TargetTableName=restored,
        RestoreDateTime=point,
        SSESpecificationOverride={"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": key},
    )
    target.restored_tables.append(restored)

    def is_active() -> bool:
        return bool(dynamodb.describe_table(TableName=restored)["Table"]["TableStatus"] == "ACTIVE")

    wait_until("the restored table", is_active, RESTORE_SECONDS, 15)
    dynamodb.update_table(
        TableName=restored, StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    )
    wait_until("the stream of the restored table", is_active, RECOVERY_SECONDS, 5)
    return restored


def _ids_to_allow(target: DeployedTarget, stream: str) -> list[str]:
    """Return the ids of the resources that a deploy with the restored table replaces.

    Raises StepFailed if the deploy would replace any other resource."""
    body = target.shop.client("cloudformation").get_template(StackName=target.stack)["TemplateBody"]
    deployed = json.loads(body) if isinstance(body, str) else body
    context = {"stage": target.stage, "stream_arn": stream}
    wanted = synth_cache.load_template(target.stack, context)
    found = dict(review_templates(deployed["Resources"], wanted["Resources"]))
    if others := [id for id in found if deployed["Resources"][id]["Type"] not in (TABLE, MAPPING)]:
        raise StepFailed(f"the deploy would replace more than the table and its mappings: {', '.join(others)}")
    return sorted(found)


# upgrade --------------------------------------------------------------------------------------------------------------
def upgrade(target: DeployedTarget) -> Outcome:
    """Deploy the previous release, then upgrade to this code as docs/upgrades.md says, while customers place orders."""
    tree = check_out_release(target)
    if target.run(["make", "synth", f"STAGE={target.stage}"], tree):
        raise NotPossible(f"the release before ({tree.name}) cannot be synthesized for the stage {target.stage}")
    destroy(target)
    if target.make(folder=tree):
        raise StepFailed(f"the deploy of the release before ({tree.name}) failed: see its output")
    with shop_steps.customers(target) as people:
        with orders_coming(people) as coming:
            for line in read_commands("upgrade"):
                follow_command(target, line)
        for order in coming.orders:
            people.wait_for_delivery(shop_steps.path_of(order))
        check_orders(people, [order["order_id"] for order in coming.orders], coming.product_ids[-1])
    shop_steps.drift(target)
    return Outcome(
        OK,
        f"{len(coming.orders)} orders during the upgrade from {tree.name} are complete, after "
        f"{sum(coming.failures.values())} requests that were sent again",
    )


def check_out_release(target: DeployedTarget) -> Path:
    """Return a folder with the code of the previous release. Raises NotPossible if there is no previous release."""
    release = target.release or _git("describe", "--tags", "--abbrev=0", "HEAD^")
    commit = _git("rev-parse", "--verify", "--quiet", f"{release}^{{commit}}") if release else ""
    if not commit:
        raise NotPossible("no release before was found: no tag is in the history, so name a commit with --release")
    tree = PROJECT / "build" / "releases" / commit[:12]
    if not tree.exists():
        tree.mkdir(parents=True)
        packed = subprocess.run(["git", "archive", commit], cwd=PROJECT, check=True, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", str(tree)], input=packed.stdout, check=True)
    file = PROJECT / stage.STAGES_FOLDER / f"{target.stage}.toml"
    if (tree / stage.STAGES_FOLDER).exists() and file.exists():
        shutil.copy2(file, tree / stage.STAGES_FOLDER / file.name)
    return tree


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=PROJECT, check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def read_commands(step: str) -> list[str]:
    """Return the commands of a step of docs/upgrades.md."""
    page = (PROJECT / "docs" / "upgrades.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"```{step}\n(.*?)```", page, re.DOTALL)
    return str(block).strip().splitlines()


def follow_command(target: DeployedTarget, line: str) -> None:
    """Run a command of docs/upgrades.md. Raises StepFailed if it fails or is unknown."""
    match shlex.split(line):
        case ["make", "deploy", *_]:
            if target.make():
                raise StepFailed("the upgrade failed: see the output of make deploy")
        case ["python", "-m", "ops", *words]:
            target.ops(*(target.stack if word == "$STACK" else word for word in words))
        case _:
            raise StepFailed(f"make prove does not know this command of docs/upgrades.md: {line}")


class OrdersComing:
    """Customers who order continuously. `failures`: the number of failed and retried requests, by error."""

    def __init__(self, people: ScenarioClients) -> None:
        self.people = people
        self.orders: list[dict[str, Any]] = []
        self.product_ids: list[str] = []
        self.failures: Counter[str] = Counter()
        self.stopping = threading.Event()

    def order_until_stopped(self) -> None:
        while not self.stopping.is_set():
            product_id = self._send(partial(self.people.create_stocked_product, 1))
            order = self._send(partial(self.people.place_order, product_id, quantity=1))
            self._send(partial(self.people.pay_order, order))
            self.product_ids.append(product_id)
            self.orders.append(order)
            self.stopping.wait(1)

    def _send(self, request: Callable[[], Any]) -> Any:
        return shop_steps.retry_request(request, self.failures, PATIENCE_SECONDS, 1)


@contextmanager
def orders_coming(people: ScenarioClients) -> Iterator[OrdersComing]:
    """Let customers place orders during a `with` block. At its end, raise the first error that retries did not fix."""
    coming = OrdersComing(people)
    with ThreadPoolExecutor(ORDERING_THREADS) as pool:
        running: list[Future[None]] = [pool.submit(coming.order_until_stopped) for _ in range(ORDERING_THREADS)]
        try:
            yield coming
        finally:
            coming.stopping.set()
        for one in running:
            one.result()


# probes ---------------------------------------------------------------------------------------------------------------
def play_probes(target: DeployedTarget) -> Outcome:
    """Run every probe (a check of a fact about AWS) in the account. Each probe deletes the resources it creates."""
    facts = aws.play(PROBES, target.sender, endpoint=os.environ.get("AWS_ENDPOINT_URL", ""))
    return judge_probes("aws", chain(facts, access_patterns.play(boto3.client("dynamodb"), indexes_seconds=5)))
