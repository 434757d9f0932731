"""docs/permissions.md: who may do what on AWS, read from the synthesized template, all of it."""

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from docs import markdown

Resource = Mapping[str, Any]


def page(template: Mapping[str, Any]) -> str:
    return markdown.page("Permissions", "the synthesized template of stage dev", _parts(template["Resources"]))


def _parts(resources: Mapping[str, Resource]) -> Iterator[str]:
    yield """
Exactly what each role may do, and what each resource lets others do: [a test](../tests/stacks/test_permissions.py)
compares this page with the template. A change of it is a change of what somebody may do: read it as such.
"""
    yield "## What each function may do, and an operator"
    yield markdown.table(("role of", "may", "on"), _roles(resources))
    yield "## Who may take a role on, and call a function"
    yield markdown.table(("what", "who", "where"), [*_trusted(resources), *_callers(resources)])
    yield "## What queues, topics, buckets and the key say themselves"
    yield "An Allow here lets in who has no permission above; a Deny keeps out who has."
    yield markdown.table(("of", "", "who", "what", "where"), _policies(resources))


def _roles(resources: Mapping[str, Resource]) -> Iterator[tuple[str, ...]]:
    """Of each role, what it may, by what it may do that on."""
    may: set[tuple[str, str, str, str]] = set()
    for policy in (*_of(resources, "AWS::IAM::Policy"), *_of(resources, "AWS::IAM::ManagedPolicy")):
        for statement in policy["PolicyDocument"]["Statement"]:
            if statement["Effect"] != "Allow":
                raise ValueError(f"a role that is denied something: {statement}")
            for role in policy["Roles"]:
                who = _owner(named(role))
                may |= {
                    (who, named(on), _where(statement), action)
                    for on in _listed(statement["Resource"])
                    for action in _listed(statement["Action"])
                }
    for (who, on, where), found in groupby(sorted(may), lambda it: it[:3]):
        actions = "<br>".join(f"`{action}`" for *_, action in found)
        yield f"**{who}**", actions, f"{on}{where and ', ' + where}"


def _trusted(resources: Mapping[str, Resource]) -> Iterator[tuple[str, ...]]:
    for id, role in sorted(resources.items()):
        if role["Type"] == "AWS::IAM::Role":
            for statement in role["Properties"]["AssumeRolePolicyDocument"]["Statement"]:
                yield f"role of **{_owner(_bare(id))}**", _who(statement["Principal"]), _where(statement)


def _callers(resources: Mapping[str, Resource]) -> Iterator[tuple[str, ...]]:
    found = {
        (f"**{_owner(named(it['FunctionName']))}**", it["Principal"], f"for {named(it['SourceArn'])}")
        for it in _of(resources, "AWS::Lambda::Permission")
    }
    yield from sorted(found)


def _policies(resources: Mapping[str, Resource]) -> Iterator[tuple[str, ...]]:
    policies = [
        *((named(queue), it["PolicyDocument"])
          for it in _of(resources, "AWS::SQS::QueuePolicy") for queue in it["Queues"]),
        *((named(topic), it["PolicyDocument"])
          for it in _of(resources, "AWS::SNS::TopicPolicy") for topic in it["Topics"]),
        *((named(it["Bucket"]), it["PolicyDocument"]) for it in _of(resources, "AWS::S3::BucketPolicy")),
        *((_bare(id), it["Properties"]["KeyPolicy"]) for id, it in resources.items() if it["Type"] == "AWS::KMS::Key"),
        *((named(it["SecretId"]), it["ResourcePolicy"])
          for it in _of(resources, "AWS::SecretsManager::ResourcePolicy")),
    ]  # fmt: skip
    for of, document in sorted(policies, key=lambda it: it[0]):
        for statement in document["Statement"]:
            actions = "<br>".join(f"`{action}`" for action in _listed(statement["Action"]))
            yield f"**{of}**", statement["Effect"], _who(statement["Principal"]), actions, _where(statement)


def _of(resources: Mapping[str, Resource], resource_type: str) -> Iterator[Any]:
    yield from (found["Properties"] for found in resources.values() if found["Type"] == resource_type)


def _who(principal: Any) -> str:
    if isinstance(principal, str):
        return "everybody" if principal == "*" else principal
    ((_, who),) = principal.items()
    return ", ".join("everybody" if one == "*" else named(one) for one in _listed(who))


def _where(statement: Mapping[str, Any]) -> str:
    """The conditions of a statement, in a line."""
    return "; ".join(
        f"{operator} {key} {', '.join(map(named, _listed(value)))}"
        for operator, keys in statement.get("Condition", {}).items()
        for key, value in keys.items()
    )


def named(value: Any) -> str:
    """A resource by its name in the stack, such as Table/index/GSI1; what only AWS knows of an ARN is … ."""
    match value:
        case {"Ref": "AWS::StackId"}:
            return "this stack"
        case {"Ref": str(id)} if id.startswith("AWS::"):
            return "…"
        case {"Ref": str(id)} | {"Fn::GetAtt": [str(id), "Arn"]}:
            return _bare(id)
        case {"Fn::GetAtt": [str(id), str(attribute)]}:
            return f"{_bare(id)}.{attribute}"
        case {"Fn::Join": [str(between), list(parts)]}:
            return between.join(map(named, parts))
        case "*":
            return "everything"
    return str(value)


def _bare(id: str) -> str:
    """A logical id without the digest that the CDK puts behind it."""
    return re.sub(r"[0-9A-F]{8}$", "", id)


def _owner(id: str) -> str:
    """What a role, or the resource of a function, belongs to: CopiesRole is that of Copies."""
    return re.sub(r"(Role|Function)$", "", id)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
