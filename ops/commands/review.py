"""The `review` command: refuse a deploy that would replace or remove a resource that is retained.

CloudFormation replaces a resource by an empty one, and the shop would continue without its data. A new event source
mapping would read from another position, so mappings are reviewed, too.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from ops import targets

ALSO_CREATE_ONLY = {
    "AWS::Cognito::UserPool": ("AliasAttributes", "UsernameAttributes", "UsernameConfiguration"),
    "AWS::DynamoDB::GlobalTable": ("KeySchema", "LocalSecondaryIndexes"),
}
"""Properties that can be set only at creation, although CloudFormation's schemas do not say so, by resource type."""
MAPPING = "AWS::Lambda::EventSourceMapping"
LOG_GROUP = "AWS::Logs::LogGroup"
"""A log group is retained so that its old lines can be read. A new log group in its place does no harm."""

Resources = Mapping[str, Mapping[str, Any]]


def create_only_properties(resource_type: str) -> set[str]:
    """Return the properties whose change replaces a resource, from CloudFormation's schema of its type."""
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER  # type: ignore[import-untyped]  # noqa: PLC0415  slow

    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("eu-central-1", resource_type).schema
    declared = (path.split("/")[2] for path in schema.get("createOnlyProperties") or ())
    return {*declared, *ALSO_CREATE_ONLY.get(resource_type, ())}


def retained_resources(resources: Resources) -> dict[str, Mapping[str, Any]]:
    """Return the resources of a template that no deploy may replace or remove, by logical id."""
    return {
        id: resource
        for id, resource in resources.items()
        if resource["Type"] == MAPPING
        or (resource.get("DeletionPolicy", "Delete") != "Delete" and resource["Type"] != LOG_GROUP)
    }


def review_templates(deployed: Resources, wanted: Resources) -> Iterator[tuple[str, str]]:
    """Yield the logical id of each retained resource that a deploy would replace or remove, and a sentence about it."""
    for id, before in retained_resources(deployed).items():
        after = wanted.get(id)
        if after is None:
            yield id, f"{id} ({before['Type']}) would be removed from the stack."
        elif reason := _replacement_reason(before, after):
            yield id, f"{id} ({before['Type']}) would be replaced by an empty one, because of {reason}."


def _replacement_reason(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return why CloudFormation would replace a resource, or "" if it would not replace the resource."""
    if before["Type"] != after["Type"]:
        return f"its new type {after['Type']}"
    old, new = before.get("Properties", {}), after.get("Properties", {})
    changed = [name for name in sorted(create_only_properties(before["Type"])) if old.get(name) != new.get(name)]
    return f"the new value of {', '.join(changed)}" if changed else ""


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "review",
        help="check before a deploy that it replaces and removes nothing that is retained",
        description="Compares a template with the deployed stack. Exits with 1 if the deploy would "
        "replace or remove a resource that holds data, or an event source mapping.",
    )
    parser.add_argument("--stack", required=True, help="the name of the stack, such as orderstream-prod")
    parser.add_argument("--region", help="the AWS region (default: as configured)")
    parser.add_argument(
        "--against", type=Path, metavar="FILE", help="use the deployed template in this file instead of asking AWS"
    )
    parser.add_argument("--template", type=Path, metavar="FILE", required=True, help="the template to deploy")
    parser.add_argument(
        "--allow", action="append", default=[], metavar="ID", help="a logical id that may be replaced or removed"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print what the deploy would replace or remove. Exits with 1 if a resource is not in `--allow`, or AWS fails."""
    try:
        deployed = _resources_of_file(args.against) if args.against else _deployed_resources(args.stack, args.region)
        found = dict(review_templates(deployed, _resources_of_file(args.template)))
    except (BotoCoreError, ClientError, OSError, ValueError) as error:
        sys.exit(f"Cannot review the deploy of {args.stack}: {error}")
    print("\n".join(found.values()) or "Nothing that is retained is replaced or removed.")
    if refused := sorted(found.keys() - {*args.allow}):
        ids = " ".join(refused)
        sys.exit(f'Refused: see docs/upgrades.md#the-stack. To do it nevertheless: make deploy ... ALLOW="{ids}"')


def _resources_of_file(template: Path) -> Resources:
    """Return the resources of a template. Raises ValueError if the file is not a template."""
    document = json.loads(template.read_text(encoding="utf-8"))
    if not isinstance(document, dict) or "Resources" not in document:
        raise ValueError(f"{template} has no Resources: name a CloudFormation template")
    found: Resources = document["Resources"]
    return found


def _deployed_resources(stack: str, region: str | None) -> Resources:
    """Return the resources of the deployed template. They are empty if the stack does not exist or has no template."""
    client = boto3.client("cloudformation", region_name=region)
    try:
        body: Any = client.get_template(StackName=stack)["TemplateBody"]
    except ClientError as error:
        if "does not exist" in str(error):
            return {}
        raise
    template = json.loads(body or "{}") if isinstance(body, str) else body
    found: Resources = template.get("Resources", {})
    return found
