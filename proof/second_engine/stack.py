"""Creates, updates and deletes a stack in LocalEmu, as `make deploy` does in an account."""

import io
import json
import time
import zipfile
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from local.laptop.deploy import BOOTSTRAP_PARAMETER, BOOTSTRAP_VERSION
from local.world.dynamodb_engine import REGION
from proof.second_engine.emulator import Emulator

Template = dict[str, Any]


class StackFailed(RuntimeError):
    """CloudFormation did not create, update or delete the stack. The message has its reasons."""


def adapt(template: Mapping[str, Any]) -> tuple[Template, int]:
    """Return the template with an ARN where LocalEmu lacks an event archive's `Arn`, and the number of changes."""
    text, changed = json.dumps(template), 0
    for id, one in template["Resources"].items():
        if one["Type"] == "AWS::Events::Archive":
            unknown, arn = (
                {"Fn::GetAtt": [id, "Arn"]},
                f"arn:aws:events:${{AWS::Region}}:${{AWS::AccountId}}:archive/{id}",
            )
            changed += text.count(json.dumps(unknown))
            text = text.replace(json.dumps(unknown), json.dumps({"Fn::Sub": arn}))
    adapted: Template = json.loads(text)
    return adapted, changed


def deploy(emulator: Emulator, name: str, template: Mapping[str, Any]) -> None:
    """Create the stack, or update it if it exists. Raises StackFailed."""
    cloudformation, s3 = emulator.client("cloudformation"), emulator.client("s3")
    emulator.client("ssm").put_parameter(
        Name=BOOTSTRAP_PARAMETER, Value=BOOTSTRAP_VERSION, Type="String", Overwrite=True
    )
    account = emulator.client("sts").get_caller_identity()["Account"]
    bucket = f"cdk-hnb659fds-assets-{account}-{REGION}"
    if bucket not in [one["Name"] for one in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    keys = {one.get("Properties", {}).get("Code", {}).get("S3Key", "") for one in template["Resources"].values()}
    for key in filter(None, keys):
        s3.put_object(Bucket=bucket, Key=key, Body=_no_code())
    s3.put_object(Bucket=bucket, Key=f"{name}.json", Body=json.dumps(template).encode())
    before = status(emulator, name)
    act = cloudformation.update_stack if before else cloudformation.create_stack
    url = f"{emulator.endpoint.replace('https', 'http')}/{bucket}/{name}.json"
    act(StackName=name, TemplateURL=url, Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"])
    _wait(emulator, name, "UPDATE_COMPLETE" if before else "CREATE_COMPLETE")
    complete = set(physical_names(emulator, name))
    if missing := set(template["Resources"]) - complete:
        raise StackFailed(f"{name} has no {', '.join(sorted(missing))}")


def delete(emulator: Emulator, name: str) -> None:
    """Empty the buckets of the stack and delete it. Raises StackFailed."""
    s3 = emulator.client("s3")
    for bucket in [one["Name"] for one in s3.list_buckets()["Buckets"] if one["Name"].startswith(name)]:
        found = s3.list_object_versions(Bucket=bucket)
        for one in [*found.get("Versions", []), *found.get("DeleteMarkers", [])]:
            s3.delete_object(Bucket=bucket, Key=one["Key"], VersionId=one["VersionId"])
    emulator.client("cloudformation").delete_stack(StackName=name)
    _wait(emulator, name, None)


def status(emulator: Emulator, name: str) -> str | None:
    """Return the status of a stack, or None if it does not exist."""
    try:
        found: str = emulator.client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    return None if found == "DELETE_COMPLETE" else found


def physical_names(emulator: Emulator, name: str) -> dict[str, str]:
    """Return the physical name of each complete resource of a stack, by logical id."""
    pages = emulator.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=name)
    found = [one for page in pages for one in page["StackResourceSummaries"]]
    done = ("CREATE_COMPLETE", "UPDATE_COMPLETE")
    return {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in found if one["ResourceStatus"] in done}


def _no_code() -> bytes:
    """Return a zip file for the code of the functions, which LocalEmu does not run."""
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        archive.writestr("empty.py", "")
    return file.getvalue()


def _wait(emulator: Emulator, name: str, wanted: str | None) -> None:
    while (found := status(emulator, name)) and found.endswith("_IN_PROGRESS"):
        time.sleep(0.3)
    if found != wanted:
        events = emulator.client("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
        reasons = [
            f"{one['LogicalResourceId']}: {one.get('ResourceStatusReason', '')}"
            for one in events
            if "FAILED" in one["ResourceStatus"]
        ]
        raise StackFailed(f"{name} is {found}: {'; '.join(reasons)}")
