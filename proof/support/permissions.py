"""The permissions that a function's role has, and those that its requests need."""

from collections.abc import Iterator
from typing import Any

from proof.support.synthesized import SynthesizedTemplate, as_list

Asked = tuple[str, str]  # an action, and the end of its resource's name
WITHOUT_RESOURCES = {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}


ACTIONS = {
    "ListObjectsV2": "ListBucket",
    "ListObjectVersions": "ListBucketVersions",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
}


SERVICES = {"email": "ses", "monitoring": "cloudwatch"}


TRANSACTED = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}


def asks(service: str, operation: str, params: dict[str, Any]) -> Iterator[Asked]:
    """Return the permissions that IAM checks for this call of a client."""
    if operation == "TransactWriteItems":
        for item in params["TransactItems"]:
            yield f"dynamodb:{TRANSACTED[next(iter(item))]}", ""
    elif service == "s3":
        action = "DeleteObjectVersion" if "VersionId" in params else ACTIONS.get(operation, operation)
        yield f"s3:{action}", f"/{params['Key']}" if "Key" in params else ""
    elif service == "email" and operation == "SendEmail":
        yield f"ses:{operation}", f":identity/{params['FromEmailAddress']}"
    else:
        on = f"/index/{params['IndexName']}" if "IndexName" in params else ""
        on = "/*" if operation == "ListTargetsByRule" else on  # on the rules of the bus
        yield f"{SERVICES.get(service, service)}:{ACTIONS.get(operation, operation)}", on


def allowed(template: SynthesizedTemplate, module: str) -> dict[str, list[Any]]:
    """Return the permissions of a function: actions and resources."""
    may: dict[str, list[Any]] = {}
    for statement in template.statements(module):
        for action in as_list(statement["Action"]):
            may.setdefault(action, []).extend(as_list(statement["Resource"]))
    return may
