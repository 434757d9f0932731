"""Tests that no deploy replaces a resource that holds data or a reader's position, because the new one would be empty.

CloudFormation replaces a resource if its logical id changes, or a property that can only be set at creation.
retained_resources.json records the ids and these properties; `make record` adds new resources. A deliberate replacement
needs a runbook: stop the rules, drain the queues, deploy, replay. Then delete the resource's entry and record it again.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ops.commands.review import create_only_properties
from proof.support.recorded import Recorded
from proof.support.synthesized import SynthesizedTemplate

RECORDED = Path(__file__).with_name("retained_resources.json")
AT = "tests/stacks/test_replacement.py"
RETAINED_TYPES = {
    "AWS::Cognito::UserPool",
    "AWS::DynamoDB::GlobalTable",
    "AWS::Lambda::EventSourceMapping",
    "AWS::S3::Bucket",
    "AWS::SQS::Queue",
}


def retained_resources(template: SynthesizedTemplate) -> dict[str, str]:
    """Return the retained resources of a template: each type and its create-only properties, by logical id."""
    found = {}
    for id, resource in template.body["Resources"].items():
        if (kind := resource["Type"]) in RETAINED_TYPES:
            properties = resource.get("Properties", {})
            names = sorted(create_only_properties(kind) & properties.keys())
            found[id] = " ".join([kind, *(f"{name}={json.dumps(properties[name])}" for name in names)])
    return dict(sorted(found.items()))


@pytest.mark.parametrize("stage", ["dev", "prod"])
def test_no_deploy_replaces_a_mapping_queue_table_bucket_or_user_pool(
    stage: str, templates: dict[str, SynthesizedTemplate], recorded: Callable[..., Recorded]
) -> None:
    found = retained_resources(templates[stage])
    assert {text.split()[0] for text in found.values()} == RETAINED_TYPES
    retained = recorded(RECORDED, stage)
    for gone in sorted(retained.entries.keys() - found.keys()):
        pytest.fail(f"{retained.shown_path}: a deploy to {stage} would delete {gone}: see {AT}", pytrace=False)
    for id, resource in found.items():
        retained.check(id, resource, at=f"stacks ({stage})", what=f"create-only properties of {id}")
