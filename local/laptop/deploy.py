"""Deploys a synthesized stack to the local AWS: an adapted template (`ADAPTATIONS`), and the functions' source code.

The CDK's bundle has packages for the processors of AWS Lambda, so it is not used: the functions import packages from
the virtual environment of the local AWS process.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from botocore.exceptions import ClientError

from local.laptop.aws_process import ACCOUNT, LocalAws
from local.world.dynamodb_engine import REGION

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient

Resource = dict[str, Any]

BOOTSTRAP_PARAMETER, BOOTSTRAP_VERSION = "/cdk-bootstrap/hnb659fds/version", "30"
ASSETS_BUCKET = f"orderstream-local-assets-{ACCOUNT}"
API_ID = "orderstream"


def resources_of_type(template: Mapping[str, Any], resource_type: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the logical id and the Properties of each resource of a type, in template order."""
    for id, resource in template["Resources"].items():
        if resource["Type"] == resource_type:
            yield id, resource.get("Properties", {})


class DeployFailed(RuntimeError):
    """The stack could not be created or updated. The message contains CloudFormation's reasons."""


@dataclass(frozen=True)
class TemplateAdaptation:
    """A change of the template for a resource type, or "Output". `change`: returns the resource, or None to omit it."""

    resource_type: str
    reason: str
    change: Callable[[Resource], Resource | None]


def _omit(_: Resource) -> None:
    return None


def _omit_metric_math(alarm: Resource) -> Resource | None:
    return None if "Metrics" in alarm["Properties"] else alarm


def _omit_provider_url(output: Resource) -> Resource | None:
    return None if '"ProviderURL"' in json.dumps(output) else output


def _adapt_api(api: Resource) -> Resource:
    properties = api["Properties"]
    properties["Tags"] = properties.get("Tags", {}) | {"ms-custom-id": API_ID}
    if cors := properties.get("CorsConfiguration"):
        properties["CorsConfiguration"] = {name[0].lower() + name[1:]: value for name, value in cors.items()}
    return api


def _allow_password_sign_in(app_client: Resource) -> Resource:
    app_client["Properties"].setdefault("ExplicitAuthFlows", []).append("ALLOW_ADMIN_USER_PASSWORD_AUTH")
    return app_client


OUTPUT = "Output"
ADAPTATIONS = (
    TemplateAdaptation(
        "AWS::Events::Archive", "not supported as a resource: created through the API after the deploy", _omit
    ),
    TemplateAdaptation("AWS::Backup::BackupSelection", "not supported; the local shop needs no backups", _omit),
    *(
        TemplateAdaptation(f"AWS::Logs::{kind}", "not supported; the local bus has no log", _omit)
        for kind in ("Delivery", "DeliveryDestination", "DeliverySource")
    ),
    TemplateAdaptation("AWS::Logs::QueryDefinition", "not supported; the local log is a file", _omit),
    TemplateAdaptation(
        "AWS::CloudWatch::Alarm", "metric math is not supported (alarms on one metric are created)", _omit_metric_math
    ),
    TemplateAdaptation(
        "AWS::ApiGatewayV2::Api", "CORS keys must be in lower camel case; a tag fixes the API id", _adapt_api
    ),
    TemplateAdaptation(
        "AWS::Cognito::UserPoolClient", "the local shop signs users in with a password", _allow_password_sign_in
    ),
    TemplateAdaptation(
        OUTPUT, "UserPool.ProviderURL is not supported and would roll back the stack", _omit_provider_url
    ),
)


@dataclass(frozen=True)
class DeployedStack:
    """A stack in the local AWS. `resources`: physical names by logical id. `changed`, `created`: by this `deploy`."""

    template: Mapping[str, Any]
    outputs: Mapping[str, str]
    resources: Mapping[str, str]
    changed: bool = False
    created: bool = False

    def resource_names(self, resource_type: str) -> list[str]:
        """Return the physical names of all resources of a type, in template order. The name of a queue is its URL."""
        found = resources_of_type(self.template, resource_type)
        return [self.resources[id] for id, _ in found if id in self.resources]

    def resource_name(self, resource_type: str) -> str:
        """Return the physical name of the resource of this type. Raises ValueError unless the stack has exactly one."""
        [name] = self.resource_names(resource_type)
        return name

    def find_resource_name(self, resource_type: str, part: str) -> str:
        """Return the physical name of the only resource of a type whose logical id contains `part`."""
        [id] = [id for id, _ in resources_of_type(self.template, resource_type) if part in id]
        return self.resources[id]

    def resource_properties(self, resource_type: str) -> Mapping[str, Any]:
        """Return the Properties of the only resource of a type in the template."""
        [(_, properties)] = resources_of_type(self.template, resource_type)
        return properties

    def function_name(self, handler: str) -> str:
        """Return the name of the Lambda function with this handler, such as "functions.handlers.api.handler"."""
        found = resources_of_type(self.template, "AWS::Lambda::Function")
        [id] = [id for id, properties in found if properties["Handler"] == handler]
        return self.resources[id]


def deploy(
    aws: LocalAws, name: str, template: Mapping[str, Any], source: Path, variables: Mapping[str, str] | None = None
) -> DeployedStack:
    """Create or update the stack `name`, wait until it is complete (about 1 s), and return it. Safe to repeat.

    `source`: the folder functions/. `variables`: new values of environment variables, for the functions whose template
    defines them. Raises DeployFailed if CloudFormation rejects the template or rolls back.
    """
    client = boto3.client("cloudformation", **aws.client_options)
    adapted = json.dumps(_adapt_template(template, upload_code(aws, source), variables or {}), sort_keys=True)
    boto3.client("ssm", **aws.client_options).put_parameter(
        Name=BOOTSTRAP_PARAMETER, Value=BOOTSTRAP_VERSION, Type="String", Overwrite=True
    )
    before = _stack_status(client, name)
    if before in ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED"):
        client.delete_stack(StackName=name)
        before = _wait_for_stack(client, name)
    changed = before is None or _deployed_template_json(client, name) != adapted
    if changed:
        boto3.client("s3", **aws.client_options).put_object(
            Bucket=ASSETS_BUCKET, Key=f"{name}.template.json", Body=adapted.encode()
        )
        act = client.update_stack if before else client.create_stack
        try:
            act(
                StackName=name,
                TemplateURL=f"https://s3.{REGION}.amazonaws.com/{ASSETS_BUCKET}/{name}.template.json",
                Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
            )
        except ClientError as error:
            raise DeployFailed(f"{name} cannot be deployed locally: {error.response['Error']['Message']}") from None
        after = _wait_for_stack(client, name)
        if after != ("UPDATE_COMPLETE" if before else "CREATE_COMPLETE"):
            raise DeployFailed(f"{name} is {after}: {'; '.join(_failure_reasons(client, name))}")
    stack = replace(_describe_stack(client, name, template), changed=changed, created=before is None)
    _create_event_archives(aws, stack)
    _verify_sender_addresses(aws, stack)
    _set_loop_detection(aws, stack)
    return stack


def describe_deployed_stack(aws: LocalAws, name: str) -> DeployedStack:
    """Return the deployed stack, without the resources that ministack lacks. Raises ClientError if there is none."""
    client = boto3.client("cloudformation", **aws.client_options)
    return _describe_stack(client, name, json.loads(_deployed_template_json(client, name)))


def allowed_origins(template: Mapping[str, Any]) -> list[str]:
    """Return the origins of web pages that may call the API, from the template's CORS configuration."""
    [(_, api)] = resources_of_type(template, "AWS::ApiGatewayV2::Api")
    return list(api.get("CorsConfiguration", {}).get("AllowOrigins", ()))


def _adapt_template(template: Mapping[str, Any], code_key: str, variable_overrides: Mapping[str, str]) -> Resource:
    adapted: Resource = copy.deepcopy(dict(template))
    resources: dict[str, Resource] = adapted["Resources"]
    outputs: dict[str, Resource] = adapted.setdefault("Outputs", {})
    for difference in ADAPTATIONS:
        section = outputs if difference.resource_type == OUTPUT else resources
        for id in [id for id, found in section.items() if found.get("Type", OUTPUT) == difference.resource_type]:
            if (changed := difference.change(section.pop(id))) is not None:
                section[id] = changed
    for resource in resources.values():
        if "S3Key" in resource.get("Properties", {}).get("Code", {}):
            resource["Properties"]["Code"] = {"S3Bucket": ASSETS_BUCKET, "S3Key": code_key}
            variables = resource["Properties"].get("Environment", {}).get("Variables", {})
            variables.update(
                {variable: value for variable, value in variable_overrides.items() if variable in variables}
            )
        if needed := resource.get("DependsOn"):
            resource["DependsOn"] = [id for id in ([needed] if isinstance(needed, str) else needed) if id in resources]
    return adapted


def upload_code(aws: LocalAws, source: Path) -> str:
    """Upload the source folder (functions/) as a zip file to ASSETS_BUCKET. Return its key: a hash of the zip file."""
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(source.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.writestr(zipfile.ZipInfo(str(file.relative_to(source.parent))), file.read_bytes())
    key = f"{hashlib.sha256(zipped.getvalue()).hexdigest()}.zip"
    client = boto3.client("s3", **aws.client_options)
    with contextlib.suppress(client.exceptions.BucketAlreadyOwnedByYou):
        client.create_bucket(Bucket=ASSETS_BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    client.put_object(Bucket=ASSETS_BUCKET, Key=key, Body=zipped.getvalue())
    return key


def _stack_status(client: CloudFormationClient, name: str) -> str | None:
    try:
        return client.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise


def _wait_for_stack(client: CloudFormationClient, name: str) -> str | None:
    while (status := _stack_status(client, name)) and status.endswith("_IN_PROGRESS"):
        time.sleep(0.05)
    return None if status == "DELETE_COMPLETE" else status


def _deployed_template_json(client: CloudFormationClient, name: str) -> str:
    return json.dumps(client.get_template(StackName=name)["TemplateBody"], sort_keys=True)


def _failure_reasons(client: CloudFormationClient, name: str) -> list[str]:
    events = client.describe_stack_events(StackName=name)["StackEvents"]
    return [
        f"{event['LogicalResourceId']}: {event['ResourceStatusReason']}"
        for event in events
        if event["ResourceStatus"].endswith("_FAILED") and event.get("ResourceStatusReason")
    ]


def _describe_stack(client: CloudFormationClient, name: str, template: Mapping[str, Any]) -> DeployedStack:
    outputs = client.describe_stacks(StackName=name)["Stacks"][0].get("Outputs", [])
    resources = client.describe_stack_resources(StackName=name)["StackResources"]
    return DeployedStack(
        template=template,
        outputs={output["OutputKey"]: output["OutputValue"] for output in outputs},
        resources={resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in resources},
    )


def _create_event_archives(aws: LocalAws, stack: DeployedStack) -> None:
    """Create the EventBridge archives, which ministack's CloudFormation does not support. Safe to repeat."""
    client = boto3.client("events", **aws.client_options)
    for id, properties in resources_of_type(stack.template, "AWS::Events::Archive"):
        bus = stack.resources[properties["SourceArn"]["Fn::GetAtt"][0]]
        pattern = json.dumps(properties.get("EventPattern", {})).replace('{"Ref": "AWS::AccountId"}', f'"{ACCOUNT}"')
        with contextlib.suppress(client.exceptions.ResourceAlreadyExistsException):
            client.create_archive(
                ArchiveName=properties.get("ArchiveName", id),
                EventSourceArn=client.describe_event_bus(Name=bus)["Arn"],
                EventPattern=pattern,
                RetentionDays=properties.get("RetentionDays", 0),
            )


def _set_loop_detection(aws: LocalAws, stack: DeployedStack) -> None:
    """Set RecursiveLoop of functions, which ministack's CloudFormation ignores. Safe to repeat."""
    client = boto3.client("lambda", **aws.client_options)
    for id, properties in resources_of_type(stack.template, "AWS::Lambda::Function"):
        loop = properties.get("RecursiveLoop", "Terminate")
        client.put_function_recursion_config(FunctionName=stack.resources[id], RecursiveLoop=loop)


def _verify_sender_addresses(aws: LocalAws, stack: DeployedStack) -> None:
    """Verify the functions' sender addresses in SES, as their owner does on AWS. Safe to repeat."""
    client = boto3.client("sesv2", **aws.client_options)
    for _, properties in resources_of_type(stack.template, "AWS::Lambda::Function"):
        sender = properties.get("Environment", {}).get("Variables", {}).get("SENDER")
        if isinstance(sender, str):
            with contextlib.suppress(client.exceptions.AlreadyExistsException):
                client.create_email_identity(EmailIdentity=sender)
