"""The `first-deploy` command: say whether a stack was ever deployed successfully.

If the first deploy of a stack fails, CloudFormation deletes the created resources, unless they are protected. So `make
deploy` switches on the protections only after all resources exist.

https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-deletionpolicy.html
"""

from __future__ import annotations

import argparse

import boto3

from ops import targets

NEVER_CREATED = {"REVIEW_IN_PROGRESS", "CREATE_FAILED", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "DELETE_COMPLETE"}
"""The states of a stack whose creation did not succeed.

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/view-stack-events.html
"""


def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "first-deploy",
        help="say whether a stack was never deployed successfully",
        description="Prints yes if the stack does not exist, or if its first deploy failed. Otherwise prints nothing.",
    )
    parser.add_argument("--stack", required=True, help="the name of the stack, such as orderstream-prod")
    parser.add_argument("--region", help="the AWS region (default: as configured)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print yes if the stack was never deployed successfully."""
    if is_first_deploy(args.stack, args.region):
        print("yes")


def is_first_deploy(stack: str, region: str | None) -> bool:
    """Return whether the stack does not exist, or was never created completely."""
    client = boto3.client("cloudformation", region_name=region)
    found = targets.describe_stack(client.describe_stacks, stack)
    return found is None or found["StackStatus"] in NEVER_CREATED
