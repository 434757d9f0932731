"""docs/permissions.md: all permissions on AWS, read from the synthesized template."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from docs import markdown

Resource = Mapping[str, Any]


def render_page(template: Mapping[str, Any]) -> str:
    return markdown.render_page(
        "Permissions", "the synthesized template of stage dev", _sections(template["Resources"])
    )


def _sections(resources: Mapping[str, Resource]) -> Iterator[str]:
    yield """
[A test](../tests/stacks/test_permissions.py) compares this page with the template. A change of this page is
a change of permissions: review it.
"""
    yield "## Permissions of the functions and of operators"
    yield markdown.render_table(("role of", "actions", "resource"), _role_rows(resources))
    yield "## Who may assume a role or invoke a function"
    yield markdown.render_table(
        ("of", "principal", "condition"), _join_equal([*_trust_rows(resources), *_caller_rows(resources)])
    )
    yield "## Resource policies of queues, topics, buckets, secrets and the key"
    yield "An Allow also permits principals that have no permission above. A Deny also stops principals that have one."
    yield markdown.render_table(
        ("resource", "effect", "principal", "actions", "condition"), _join_equal(_policy_rows(resources))
    )


def _join_equal(rows: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    """Yield one row for all rows that differ only in their first cell."""
    found: dict[tuple[str, ...], list[str]] = {}
    for first, *others in rows:
        found.setdefault(tuple(others), []).append(first)
    yield from ((", ".join(firsts), *others) for others, firsts in found.items())


def _role_rows(resources: Mapping[str, Resource]) -> Iterator[tuple[str, ...]]:
    """Yield the actions that each role may use. Resources with the same actions of a role are in one row."""
    may: set[tuple[str, str, str, str]] = set()
    for policy in (
        *_properties_of_type(resources, "AWS::IAM::Policy"),
        *_properties_of_type(resources, "AWS::IAM::ManagedPolicy"),
    ):
        for statement in policy["PolicyDocument"]["Statement"]:
            if statement["Effect"] != "Allow":
                raise ValueError(f"a role policy has a statement that is not an Allow: {statement}")
            for role in policy["Roles"]:
                who = _owner_name(resource_name(role))
                may |= {
                    (who, resource_name(on), _format_conditions(statement), action)
                    for on in _as_list(statement["Resource"])
                    for action in _as_list(statement["Action"])
                }
    rows = []
    for (who, on, where), found in groupby(sorted(may), lambda it: it[:3]):
        actions = "<br>".join(f"`{action}`" for *_, action in found)
        rows.append((f"{on}{where and ', ' + where}", f"**{who}**", actions))
    yield from ((who, actions, on) for on, who, actions in _join_equal(rows))


def _trust_rows(resources: Mapping[str, Resource]) -> Iterator[tuple[str, ...]]:
    for id, role in sorted(resources.items()):
        if role["Type"] == "AWS::IAM::Role":
            for statement in role["Properties"]["AssumeRolePolicyDocument"]["Statement"]:
                yield (
                    f"role of **{_owner_name(_strip_hash(id))}**",
                    _principal_name(statement["Principal"]),
                    _format_conditions(statement),
                )


def _caller_rows(resources: Mapping[str, Resource]) -> Iterator[tuple[str, ...]]:
    found = {
        (
            f"**{_owner_name(resource_name(it['FunctionName']))}**",
            it["Principal"],
            f"for {resource_name(it['SourceArn'])}",
        )
        for it in _properties_of_type(resources, "AWS::Lambda::Permission")
    }
    yield from sorted(found)


def _policy_rows(resources: Mapping[str, Resource]) -> Iterator[tuple[str, ...]]:
    policies = [
        *((resource_name(queue), it["PolicyDocument"])
          for it in _properties_of_type(resources, "AWS::SQS::QueuePolicy") for queue in it["Queues"]),
        *((resource_name(topic), it["PolicyDocument"])
          for it in _properties_of_type(resources, "AWS::SNS::TopicPolicy") for topic in it["Topics"]),
        *((resource_name(it["Bucket"]), it["PolicyDocument"])
          for it in _properties_of_type(resources, "AWS::S3::BucketPolicy")),
        *((_strip_hash(id), it["Properties"]["KeyPolicy"])
          for id, it in resources.items() if it["Type"] == "AWS::KMS::Key"),
        *((resource_name(it["SecretId"]), it["ResourcePolicy"])
          for it in _properties_of_type(resources, "AWS::SecretsManager::ResourcePolicy")),
    ]  # fmt: skip
    for of, document in sorted(policies, key=lambda it: it[0]):
        for statement in document["Statement"]:
            actions = "<br>".join(f"`{action}`" for action in _as_list(statement["Action"]))
            yield (
                f"**{of}**",
                statement["Effect"],
                _principal_name(statement["Principal"]),
                actions,
                _format_conditions(statement),
            )


def _properties_of_type(resources: Mapping[str, Resource], resource_type: str) -> Iterator[Any]:
    yield from (found["Properties"] for found in resources.values() if found["Type"] == resource_type)


def _principal_name(principal: Any) -> str:
    if isinstance(principal, str):
        return "everybody" if principal == "*" else principal
    ((_, who),) = principal.items()
    return ", ".join("everybody" if one == "*" else resource_name(one) for one in _as_list(who))


def _format_conditions(statement: Mapping[str, Any]) -> str:
    """Return the conditions of a statement in one line."""
    return "; ".join(
        f"{operator} {key} {', '.join(map(resource_name, _as_list(value)))}"
        for operator, keys in statement.get("Condition", {}).items()
        for key, value in keys.items()
    )


def resource_name(value: Any) -> str:
    """Return a resource by its name in the stack, such as Table/index/GSI1. "…" is a part that only AWS knows."""
    match value:
        case {"Ref": "AWS::StackId"}:
            return "this stack"
        case {"Ref": str(id)} if id.startswith("AWS::"):
            return "…"
        case {"Ref": str(id)} | {"Fn::GetAtt": [str(id), "Arn"]}:
            return _strip_hash(id)
        case {"Fn::GetAtt": [str(id), str(attribute)]}:
            return f"{_strip_hash(id)}.{attribute}"
        case {"Fn::Join": [str(between), list(parts)]}:
            return between.join(map(resource_name, parts))
        case "*":
            return "everything"
    return str(value)


def _strip_hash(id: str) -> str:
    """Return a logical id without the hash that the CDK appends."""
    return re.sub(r"[0-9A-F]{8}$", "", id)


def _owner_name(id: str) -> str:
    """Return the name of the construct that a role or function belongs to: CopiesRole belongs to Copies."""
    return re.sub(r"(Role|Function)$", "", id)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
