"""The process of LocalEmu: `build/second_engine/bin/python proof/second_engine/server.py`. Imports nothing of ours."""

import json
from contextvars import ContextVar
from typing import Any

from localemu.runtime.main import main
from localemu.services.iam_enforcement import enforcer, service_action_map
from localemu.services.lambda_.invocation.docker_runtime_executor import DockerRuntimeExecutor

# LocalEmu would fetch a Docker image for each function. Our handlers run in processes of their own.
DockerRuntimeExecutor.prepare_version = classmethod(lambda cls, function_version: None)

# LocalEmu derives the permission of a request from the name of its operation. These adapters derive it as AWS does:
# https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
NAMESPACES = {"dynamodbstreams": "dynamodb", "sesv2": "ses"}
TRANSACTED = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}
_request: ContextVar[dict[str, Any]] = ContextVar("request")
_enforce = enforcer.IAMEnforcementHandler.__call__
_map_action, _build_arn = service_action_map.map_action, enforcer.build_resource_arn
_get_resource_policy = enforcer._get_resource_policy


def enforce(handler: Any, chain: Any, context: Any, response: Any) -> None:
    _request.set(context.service_request or {})
    _enforce(handler, chain, context, response)


def map_action(service: str, operation: str) -> list[str]:
    """Return the actions that a request needs: for a transaction, those of its items."""
    params = _request.get()
    if operation == "TransactWriteItems":
        return sorted({f"dynamodb:{TRANSACTED[kind]}" for item in params["TransactItems"] for kind in item})
    if (service, operation) == ("s3", "DeleteObject") and params.get("VersionId"):
        return ["s3:DeleteObjectVersion"]
    if service in NAMESPACES:
        return [f"{NAMESPACES[service]}:{operation}"]
    found: list[str] = _map_action(service, operation)
    return found


def build_resource_arn(
    service: str, operation: str, request_params: dict[str, Any] | None, region: str, account_id: str
) -> str:
    """Return the resource of a request, also if its parameters name the resource in a list or a map."""
    params, prefix = dict(request_params or {}), f"{region}:{account_id}"
    if service == "dynamodbstreams":
        stream = params.get("StreamArn") or params.get("ShardIterator", "").partition("|")[0]
        return str(stream or f"arn:aws:dynamodb:{prefix}:table/{params.get('TableName')}/stream/any")
    if service == "sesv2" and operation == "SendEmail":
        return f"arn:aws:ses:{prefix}:identity/{params['FromEmailAddress']}"
    if operation == "TransactWriteItems":
        params["TableName"] = next(iter(params["TransactItems"][0].values()))["TableName"]
    elif "RequestItems" in params:
        params["TableName"] = next(iter(params["RequestItems"]))
    elif operation == "PutEvents":
        params["EventBusName"] = params["Entries"][0].get("EventBusName", "default").rpartition("/")[2]
    arn = str(_build_arn(service, operation, params, region, account_id))
    if "IndexName" in params:
        return f"{arn}/index/{params['IndexName']}"
    return f"{arn}:log-stream:any" if service == "logs" else arn


def get_resource_policy(*arguments: Any) -> Any:
    """Return the policy of a bucket or queue with its numbers as text: LocalEmu fails at the TLS version 1.2."""
    return json.loads(json.dumps(_get_resource_policy(*arguments)), parse_float=str)


enforcer._get_resource_policy = get_resource_policy
enforcer.IAMEnforcementHandler.__call__ = enforce
service_action_map.map_action = map_action
enforcer.build_resource_arn = build_resource_arn

if __name__ == "__main__":
    main()
