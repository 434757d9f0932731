"""Tests `python -m ops review`: a deploy replaces or removes a retained resource only if the operator names it."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from ops.__main__ import main
from ops.commands import review

STACK = "orderstream-test"
KEPT = {"DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Retain"}
DEPLOYED: dict[str, Any] = {
    "Files": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "files-of-the-test"}, **KEPT},
    "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "queue", "DelaySeconds": 5}, **KEPT},
    "Log": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "log"}, **KEPT},
    "Page": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "page-of-the-test"}},
}


class CloudFormation:
    """A CloudFormation client with the deployed stack. The CDK deploys templates as JSON, which boto3 parses."""

    def get_template(self, StackName: str) -> dict[str, Any]:  # noqa: N803  boto3's name
        if StackName != STACK:
            said = f"Stack with id {StackName} does not exist"
            raise ClientError({"Error": {"Code": "ValidationError", "Message": said}}, "GetTemplate")
        return {"TemplateBody": {"Resources": DEPLOYED}}


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> CloudFormation:
    made = CloudFormation()
    monkeypatch.setattr(boto3, "client", lambda *_, **__: made)
    return made


@pytest.fixture
def wanted(tmp_path: Path) -> Path:
    return tmp_path / "template.json"


def deploy(file: Path, resources: dict[str, Any], *options: str) -> None:
    file.write_text(json.dumps({"Resources": resources}))
    main(["review", "--stack", STACK, "--template", str(file), *options])


def changed(id: str, **properties: Any) -> dict[str, Any]:
    resources = copy.deepcopy(DEPLOYED)
    resources[id]["Properties"] |= properties
    return resources


def without(*ids: str) -> dict[str, Any]:
    return {id: it for id, it in DEPLOYED.items() if id not in ids}


@pytest.mark.parametrize(
    "resources",
    [
        DEPLOYED,
        changed("Queue", DelaySeconds=9),
        DEPLOYED | {"More": {"Type": "AWS::SQS::Queue"}},
        changed("Page", BucketName="another"),
        without("Page", "Log"),
    ],
    ids=["nothing", "in place", "a new one", "replaced without data", "removed without data"],
)
def test_a_deploy_that_keeps_all_data_is_accepted(
    stack: CloudFormation, wanted: Path, resources: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    deploy(wanted, resources)
    assert capsys.readouterr().out == "Nothing that is retained is replaced or removed.\n"


@pytest.mark.parametrize(
    ("resources", "sentence"),
    [
        (without("Files"), "Files .* would be removed"),
        (changed("Files", BucketName="another"), "Files .* would be replaced by an empty one, .* BucketName"),
        (DEPLOYED | {"Queue": {"Type": "AWS::SNS::Topic"}}, "Queue .* would be replaced .* AWS::SNS::Topic"),
    ],
    ids=["removed", "replaced", "of another type"],
)
def test_a_deploy_that_loses_data_is_refused_unless_it_is_allowed(
    stack: CloudFormation, wanted: Path, resources: dict[str, Any], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    id = sentence.split(maxsplit=1)[0]
    with pytest.raises(SystemExit, match=f'ALLOW="{id}"'):
        deploy(wanted, resources)
    deploy(wanted, resources, "--allow", id)
    refused, allowed = capsys.readouterr().out.splitlines()
    assert refused == allowed
    assert re.match(sentence, refused)


def test_a_template_in_a_file_is_reviewed_without_aws(tmp_path: Path, wanted: Path) -> None:
    before = tmp_path / "deployed.json"
    before.write_text(json.dumps({"Resources": DEPLOYED}))
    with pytest.raises(SystemExit, match='ALLOW="Files"'):
        deploy(wanted, without("Files"), "--against", str(before))
    before.write_text("{}")
    with pytest.raises(SystemExit, match=r"Cannot review the deploy of .*Resources"):
        deploy(wanted, without("Files"), "--against", str(before))


def test_a_mapping_keeps_its_position_also_if_it_is_not_retained() -> None:
    deployed = {"Mapping": {"Type": "AWS::Lambda::EventSourceMapping", "Properties": {"EventSourceArn": "one"}}}
    moved = copy.deepcopy(deployed)
    moved["Mapping"]["Properties"]["EventSourceArn"] = "two"  # type: ignore[index]
    assert not dict(review.review_templates(deployed, deployed))
    assert [*dict(review.review_templates(deployed, moved))] == ["Mapping"]


def test_the_first_deploy_has_nothing_to_lose(
    stack: CloudFormation, wanted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted.write_text(json.dumps({"Resources": DEPLOYED}))
    main(["review", "--stack", "orderstream-new", "--template", str(wanted)])
    assert "Nothing that is retained" in capsys.readouterr().out


def test_without_permission_the_deploy_stops_with_a_sentence(wanted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Denied:
        def get_template(self, **_: str) -> None:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "You may not"}}, "GetTemplate")

    monkeypatch.setattr(boto3, "client", lambda *_, **__: Denied())
    with pytest.raises(SystemExit, match=r"Cannot review the deploy of .*You may not"):
        deploy(wanted, DEPLOYED)
