"""Run cdk-nag on the app. The synth fails if cdk-nag has a finding and the code gives no reason to accept it."""

from collections.abc import Mapping

from aws_cdk import Acknowledgment, Stack, Validations
from cdk_nag import AwsSolutionsChecks, ServerlessChecks
from constructs import IConstruct


def add_nag_checks(app: IConstruct) -> None:
    """Check every resource of the app with the cdk-nag rule packs AwsSolutions and Serverless."""
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))


def acknowledge(construct: IConstruct, reasons: Mapping[str, str]) -> None:
    """Accept cdk-nag findings on one construct, with a reason by the full id of a rule, such as AwsSolutions-S1."""
    for rule, reason in reasons.items():
        Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))


def acknowledge_wildcard(construct: IConstruct, resource: str, reason: str) -> None:
    """Accept the cdk-nag finding about a wildcard resource in an IAM policy of this construct."""
    named = _as_nag_text(Stack.of(construct).resolve(resource))
    acknowledge(construct, {f"AwsSolutions-IAM5[Resource::{named}]": reason})


def _as_nag_text(value: object) -> str:
    """Return a resource in the notation of cdk-nag's findings: a reference is in angle brackets, such as <Key.Arn>."""
    match value:
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(map(_as_nag_text, parts))
        case {"Fn::GetAtt": [resource, attribute]}:
            return f"<{resource}.{attribute}>"
        case {"Ref": name}:
            return f"<{name}>"
        case _:
            return str(value)
