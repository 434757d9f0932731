"""Checks in LocalEmu what the role of each function may do: all that its policy names, and nothing else."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from proof.second_engine import stack
from proof.second_engine.emulator import Emulator
from proof.support.synthesized import as_list

Request = tuple[str, str, dict[str, Any]]
"""The service, the operation in lower case, and the parameters of a request."""
KEY = {"PK": {"S": "probe"}, "SK": {"S": "probe"}}
FOREIGN = "foreign"
FAIL_AFTER_IAM = {"dynamodb:GetRecords", "dynamodb:GetShardIterator"}
"""LocalEmu allows these requests, then answers 500 to an unknown shard. Other answers 500 may come from its IAM."""
MAIL = {"Simple": {"Subject": {"Data": "probe"}, "Body": {"Text": {"Data": "probe"}}}}


@dataclass(frozen=True)
class Role:
    """The role of a function. `allowed`: the ARNs of its policy, by action. `session`: temporary credentials."""

    name: str
    allowed: Mapping[str, list[str]]
    session: dict[str, str]


def check_roles(emulator: Emulator, name: str) -> None:
    """Try each action of any role with each role, on its own and on a foreign resource. Raises StackFailed.

    An action that the role has must not be denied on its own resource, so that a denial elsewhere means something.
    """
    roles = list(find_roles(emulator, name))
    places = {action: arns for role in roles for action, arns in role.allowed.items()}
    wrong, tried = [], 0
    for role in roles:
        for action, elsewhere in places.items():
            own = role.allowed.get(action)
            place = (own or elsewhere)[-1]
            for arn in [place] if place == "*" else [place, _foreign(place)]:
                tried += 1
                expected = bool(own) and FOREIGN not in arn
                if is_allowed(emulator, role, action, arn) != expected:
                    wrong.append(f"{role.name} is {'denied' if expected else 'allowed'} {action} on {arn}")
    if wrong:
        raise stack.StackFailed("\n".join(wrong))
    print(
        f"{name}: {tried} requests with {len(roles)} roles and {len(places)} actions are allowed or denied as written"
    )


def find_roles(emulator: Emulator, name: str) -> Iterator[Role]:
    """Yield the roles that Lambda assumes for the functions of a stack."""
    iam = emulator.client("iam")
    functions = emulator.client("lambda").get_paginator("list_functions").paginate()
    for arn in sorted({one["Role"] for page in functions for one in page["Functions"]}):
        role = arn.rpartition("/")[2]
        allowed: dict[str, list[str]] = {}
        for policy in iam.list_role_policies(RoleName=role)["PolicyNames"]:
            document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
            for statement in document["Statement"]:
                for action in as_list(statement["Action"]):
                    allowed.setdefault(action, []).extend(as_list(statement["Resource"]))
        if role.startswith(name):
            yield Role(role, allowed, assume(emulator, arn))


def assume(emulator: Emulator, role: str) -> dict[str, str]:
    """Return temporary credentials of a role.

    The role trusts Lambda alone, and only LocalEmu itself can act as Lambda. So its trust policy is replaced first.
    """
    root = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [root]})
    emulator.client("iam").update_assume_role_policy(RoleName=role.rpartition("/")[2], PolicyDocument=trust)
    found = emulator.client("sts").assume_role(RoleArn=role, RoleSessionName="function")["Credentials"]
    return {
        "aws_access_key_id": found["AccessKeyId"],
        "aws_secret_access_key": found["SecretAccessKey"],
        "aws_session_token": found["SessionToken"],
    }


def remove_action(emulator: Emulator, role: str, action: str) -> None:
    """Remove an action from all policies of a role."""
    iam, name = emulator.client("iam"), role.rpartition("/")[2]
    for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        document = iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
        for statement in document["Statement"]:
            statement["Action"] = [one for one in as_list(statement["Action"]) if one != action] or ["sts:TagSession"]
        iam.put_role_policy(RoleName=name, PolicyName=policy, PolicyDocument=json.dumps(document))


def is_allowed(emulator: Emulator, role: Role, action: str, arn: str) -> bool:
    """Send the request of an action, and return whether IAM allows it. Other errors do not matter."""
    service, operation, params = request_of(action, arn)
    try:
        getattr(emulator.client(service, role.session), operation)(**params)
    except ClientError as error:
        if error.response["ResponseMetadata"].get("HTTPStatusCode") == 500 and action not in FAIL_AFTER_IAM:
            raise stack.StackFailed(f"{action} on {arn} cannot be tried: {error}") from error
        return "not authorized to perform" not in str(error) and "AccessDenied" not in str(error)
    except BotoCoreError as error:
        raise stack.StackFailed(f"{action} on {arn} cannot be tried: {error}") from error
    return True


def _foreign(arn: str) -> str:
    """Return the ARN of a resource of the same type that is not the shop's."""
    head, _, name = arn.rpartition(":")
    if head.endswith(":secret"):
        return f"{head}:{FOREIGN}"
    if ":log-group:" in arn:
        return f"{arn.partition(':log-group:')[0]}:log-group:{FOREIGN}:*"
    if "/" not in name or head.startswith("arn:aws:s3"):
        return f"{head}:{FOREIGN}" + (f"/{name.partition('/')[2]}" if "/" in name else "")
    kind, _, rest = name.partition("/")
    return f"{head}:{kind}/{FOREIGN}" + (f"/{rest.partition('/')[2]}" if "/" in rest else "")


def request_of(action: str, arn: str) -> Request:
    """Return the request that needs exactly this action on this resource."""
    service, _, operation = action.partition(":")
    return REQUESTS[service](operation, arn)


def _dynamodb(operation: str, arn: str) -> Request:
    path = arn.rpartition(":table/")[2] if ":table/" in arn else arn
    table, _, end = path.partition("/")
    if operation in ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"):
        shard = {"ShardId": "shardId-00000000000000000000-00000000", "ShardIteratorType": "LATEST"}
        streams: dict[str, tuple[str, dict[str, Any]]] = {
            "DescribeStream": ("describe_stream", {"StreamArn": arn}),
            "GetRecords": ("get_records", {"ShardIterator": f"{arn}|1|probe"}),
            "GetShardIterator": ("get_shard_iterator", {"StreamArn": arn, **shard}),
            "ListStreams": ("list_streams", {"TableName": table}),
        }
        return ("dynamodbstreams", *streams[operation])
    index = {"IndexName": end.removeprefix("index/")} if end.startswith("index/") else {}
    value: dict[str, Any] = {"ExpressionAttributeValues": {":pk": {"S": "probe"}}}
    prefix = f"{index['IndexName']}PK" if index else "PK"
    requests: dict[str, tuple[str, dict[str, Any]]] = {
        "BatchGetItem": ("batch_get_item", {"RequestItems": {table: {"Keys": [KEY]}}}),
        "BatchWriteItem": ("batch_write_item", {"RequestItems": {table: [{"DeleteRequest": {"Key": KEY}}]}}),
        "ConditionCheckItem": (
            "transact_write_items",
            {
                "TransactItems": [
                    {"ConditionCheck": {"TableName": table, "Key": KEY, "ConditionExpression": "attribute_exists(PK)"}}
                ]
            },
        ),
        "DeleteItem": ("delete_item", {"TableName": table, "Key": KEY}),
        "GetItem": ("get_item", {"TableName": table, "Key": KEY}),
        "PutItem": ("put_item", {"TableName": table, "Item": KEY}),
        "Query": ("query", {"TableName": table, "KeyConditionExpression": f"{prefix} = :pk", **value, **index}),
        "UpdateItem": (
            "update_item",
            {
                "TableName": table,
                "Key": KEY,
                "UpdateExpression": "SET probe = :pk",
                "ConditionExpression": "probe = :pk",
                **value,
            },
        ),
    }
    return ("dynamodb", *requests[operation])


def _s3(operation: str, arn: str) -> Request:
    bucket, _, key = arn.rpartition(":::")[2].partition("/")
    named = {"Bucket": bucket, "Key": key.replace("*", "probe") or "probe"}
    requests: dict[str, tuple[str, dict[str, Any]]] = {
        "DeleteObjectVersion": ("delete_object", {**named, "VersionId": "probe"}),
        "GetObject": ("get_object", named),
        "ListBucket": ("list_objects_v2", {"Bucket": bucket}),
        "ListBucketVersions": ("list_object_versions", {"Bucket": bucket}),
        "PutObject": ("put_object", named),
    }
    return ("s3", *requests[operation])


def _sqs(operation: str, arn: str) -> Request:
    _, _, _, region, account, name = arn.split(":")
    queue = {"QueueUrl": f"http://sqs.{region}.localhost.localemu.cloud:4566/{account}/{name}"}
    receipt = {**queue, "ReceiptHandle": "probe"}
    requests: dict[str, tuple[str, dict[str, Any]]] = {
        "ChangeMessageVisibility": ("change_message_visibility", {**receipt, "VisibilityTimeout": 0}),
        "DeleteMessage": ("delete_message", receipt),
        "GetQueueAttributes": ("get_queue_attributes", queue),
        "ReceiveMessage": ("receive_message", queue),
        "SendMessage": ("send_message", {**queue, "MessageBody": "probe"}),
    }
    return ("sqs", *requests[operation])


def _kms(operation: str, arn: str) -> Request:
    requests: dict[str, tuple[str, dict[str, Any]]] = {
        "Decrypt": ("decrypt", {"CiphertextBlob": b"probe", "KeyId": arn}),
        "DescribeKey": ("describe_key", {"KeyId": arn}),
        "Encrypt": ("encrypt", {"Plaintext": b"probe", "KeyId": arn}),
        "GenerateDataKey": ("generate_data_key", {"KeySpec": "AES_256", "KeyId": arn}),
    }
    return ("kms", *requests[operation])


def _logs(operation: str, arn: str) -> Request:
    stream = {"logGroupName": arn.partition(":log-group:")[2].partition(":")[0], "logStreamName": "probe"}
    if operation == "CreateLogStream":
        return "logs", "create_log_stream", stream
    return "logs", "put_log_events", {**stream, "logEvents": [{"timestamp": 0, "message": "probe"}]}


def _ses(operation: str, arn: str) -> Request:
    address = {"EmailAddress": "probe@example.com"}
    requests: dict[str, tuple[str, dict[str, Any]]] = {
        "DeleteSuppressedDestination": ("delete_suppressed_destination", address),
        "GetSuppressedDestination": ("get_suppressed_destination", address),
        "SendEmail": ("send_email", {"FromEmailAddress": arn.rpartition("/")[2], "Destination": {}, "Content": MAIL}),
    }
    return ("sesv2", *requests[operation])


REQUESTS: Mapping[str, Callable[[str, str], Request]] = {
    "dynamodb": _dynamodb,
    "events": lambda _, arn: (
        "events",
        "put_events",
        {"Entries": [{"Source": "p", "DetailType": "p", "Detail": "{}", "EventBusName": arn.rpartition("/")[2]}]},
    ),
    "kms": _kms,
    "logs": _logs,
    "s3": _s3,
    "secretsmanager": lambda _, arn: ("secretsmanager", "get_secret_value", {"SecretId": arn}),
    "ses": _ses,
    "sqs": _sqs,
}
