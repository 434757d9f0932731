"""Puts a synthesized stack into the local AWS: its template, but for the few things below, and the functions' source.

The bundle for AWS holds packages built for its processors, so it is not used here: the functions run from the source
folder, on the packages of the virtual environment this process runs in.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from botocore.exceptions import ClientError

from local.aws import ACCOUNT, API_PATH, LocalAws
from local.engine import REGION

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient

Resource = dict[str, Any]

BOOTSTRAP_PARAMETER, BOOTSTRAP_VERSION = "/cdk-bootstrap/hnb659fds/version", "30"
BUCKET = f"orderstream-local-assets-{ACCOUNT}"


class DeployFailed(RuntimeError):
    """The stack could not be made or changed. The message has the reasons, one for each resource that failed."""


def _absent(resource: Resource) -> None:
    return None


def _metric_alarms_only(resource: Resource) -> Resource | None:
    return None if "Metrics" in resource["Properties"] else resource


def _api(resource: Resource) -> Resource:
    properties = resource["Properties"]
    properties["Tags"] = properties.get("Tags", {}) | {"ms-custom-id": "orderstream"}
    if cors := properties.get("CorsConfiguration"):
        properties["CorsConfiguration"] = {name[0].lower() + name[1:]: value for name, value in cors.items()}
    return resource


def _password_sign_in(resource: Resource) -> Resource:
    flows = resource["Properties"].setdefault("ExplicitAuthFlows", ["ALLOW_REFRESH_TOKEN_AUTH"])
    flows.append("ALLOW_ADMIN_USER_PASSWORD_AUTH")
    return resource


# What ministack 1.5 does not take as it stands: the type of resource, the reason, and what is done to it.
DIFFERENCES: tuple[tuple[str, str, Callable[[Resource], Resource | None]], ...] = (
    ("AWS::Events::Archive", "it has no such resource: made by CreateArchive after the deploy", _absent),
    ("AWS::Backup::BackupSelection", "it has no such resource, and there is nothing to back up on a laptop", _absent),
    ("AWS::CloudWatch::Alarm", "it refuses metric math; alarms on one metric are made", _metric_alarms_only),
    ("AWS::ApiGatewayV2::Api", "it reads CORS settings in the API's spelling only; and a lasting address", _api),
    ("AWS::Cognito::UserPoolClient", "not its fault: local/users.py gets tokens by password", _password_sign_in),
)
OUTPUT_ATTRIBUTES_IT_LACKS = ("ProviderURL",)


@dataclass(frozen=True)
class Stack:
    """A deployed stack. `resources`: the names that were given to its resources, by their ids in the template."""

    template: Mapping[str, Any]
    outputs: Mapping[str, str]
    resources: Mapping[str, str]
    changed: bool

    def names(self, resource_type: str) -> list[str]:
        """The names of all resources of a type, in the order of the template."""
        found = (id for id, resource in self.template["Resources"].items() if resource["Type"] == resource_type)
        return [self.resources[id] for id in found if id in self.resources]

    def name(self, resource_type: str) -> str:
        """The name of the only resource of a type."""
        [name] = self.names(resource_type)
        return name

    def api_url(self, aws: LocalAws) -> str:
        """Where the HTTP API answers, without a slash at the end."""
        return f"{aws.endpoint}{API_PATH}/{self.name('AWS::ApiGatewayV2::Api')}"


def deploy(aws: LocalAws, name: str, template: Mapping[str, Any], source: Path) -> Stack:
    """Make or update the stack and wait for it (about 1 s); nothing happens when neither template nor source changed.

    `source` is the folder of the package that the functions are (functions/). Safe to repeat. Raises DeployFailed.
    """
    client = boto3.client("cloudformation", **aws.access)
    adapted = json.dumps(_adapted(template, _upload(aws, source)), sort_keys=True)
    boto3.client("ssm", **aws.access).put_parameter(
        Name=BOOTSTRAP_PARAMETER, Value=BOOTSTRAP_VERSION, Type="String", Overwrite=True
    )
    before = _status(client, name)
    if before in ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED"):
        client.delete_stack(StackName=name)
        before = _settled(client, name)
    changed = before is None or _body(client, name) != adapted
    if changed:
        boto3.client("s3", **aws.access).put_object(Bucket=BUCKET, Key=f"{name}.template.json", Body=adapted.encode())
        act = client.update_stack if before else client.create_stack
        try:
            act(
                StackName=name,
                TemplateURL=f"{aws.endpoint}/{BUCKET}/{name}.template.json",
                Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
            )
        except ClientError as error:
            raise DeployFailed(f"{name} cannot be deployed locally: {error.response['Error']['Message']}") from None
        after = _settled(client, name)
        if after != ("UPDATE_COMPLETE" if before else "CREATE_COMPLETE"):
            raise DeployFailed(f"{name} is {after}: {'; '.join(_failures(client, name))}")
    stack = _describe(client, name, template, changed)
    _make_archives(aws, stack)
    return stack


def _adapted(template: Mapping[str, Any], code_key: str) -> Resource:
    adapted: Resource = copy.deepcopy(dict(template))
    resources: dict[str, Resource] = adapted["Resources"]
    for resource_type, _, change in DIFFERENCES:
        for id in [id for id, resource in resources.items() if resource["Type"] == resource_type]:
            if (new := change(resources[id])) is None:
                del resources[id]
            else:
                resources[id] = new
    for resource in resources.values():
        if "S3Key" in resource.get("Properties", {}).get("Code", {}):
            resource["Properties"]["Code"] = {"S3Bucket": BUCKET, "S3Key": code_key}
        if needed := resource.get("DependsOn"):
            resource["DependsOn"] = [id for id in ([needed] if isinstance(needed, str) else needed) if id in resources]
    outputs = adapted.get("Outputs", {})
    adapted["Outputs"] = {
        id: output
        for id, output in outputs.items()
        if not any(f'"{attribute}"' in json.dumps(output) for attribute in OUTPUT_ATTRIBUTES_IT_LACKS)
    }
    return adapted


def _upload(aws: LocalAws, source: Path) -> str:
    """Put the source folder, zipped, into the bucket for assets. Its key changes when, and only when, its bytes do."""
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(source.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.writestr(zipfile.ZipInfo(str(file.relative_to(source.parent))), file.read_bytes())
    key = f"{hashlib.sha256(zipped.getvalue()).hexdigest()}.zip"
    client = boto3.client("s3", **aws.access)
    with contextlib.suppress(client.exceptions.BucketAlreadyOwnedByYou):
        client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    client.put_object(Bucket=BUCKET, Key=key, Body=zipped.getvalue())
    return key


def _status(client: CloudFormationClient, name: str) -> str | None:
    try:
        return client.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise


def _settled(client: CloudFormationClient, name: str) -> str | None:
    while (status := _status(client, name)) and status.endswith("_IN_PROGRESS"):
        time.sleep(0.05)
    return None if status == "DELETE_COMPLETE" else status


def _body(client: CloudFormationClient, name: str) -> str:
    return json.dumps(client.get_template(StackName=name)["TemplateBody"], sort_keys=True)


def _failures(client: CloudFormationClient, name: str) -> list[str]:
    events = client.describe_stack_events(StackName=name)["StackEvents"]
    return [
        f"{event['LogicalResourceId']}: {event['ResourceStatusReason']}"
        for event in events
        if event["ResourceStatus"].endswith("_FAILED") and event.get("ResourceStatusReason")
    ]


def _describe(client: CloudFormationClient, name: str, template: Mapping[str, Any], changed: bool) -> Stack:
    outputs = client.describe_stacks(StackName=name)["Stacks"][0].get("Outputs", [])
    resources = client.describe_stack_resources(StackName=name)["StackResources"]
    return Stack(
        template=template,
        outputs={output["OutputKey"]: output["OutputValue"] for output in outputs},
        resources={resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in resources},
        changed=changed,
    )


def _make_archives(aws: LocalAws, stack: Stack) -> None:
    """Make the archives of buses that the template has and CloudFormation could not make. Safe to repeat."""
    client = boto3.client("events", **aws.access)
    for id, resource in stack.template["Resources"].items():
        if resource["Type"] != "AWS::Events::Archive":
            continue
        properties = resource["Properties"]
        bus = stack.resources[properties["SourceArn"]["Fn::GetAtt"][0]]
        pattern = json.dumps(properties.get("EventPattern", {})).replace('{"Ref": "AWS::AccountId"}', f'"{ACCOUNT}"')
        with contextlib.suppress(client.exceptions.ResourceAlreadyExistsException):
            client.create_archive(
                ArchiveName=properties.get("ArchiveName", id),
                EventSourceArn=client.describe_event_bus(Name=bus)["Arn"],
                EventPattern=pattern,
                RetentionDays=properties.get("RetentionDays", 0),
            )
