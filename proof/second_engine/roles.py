"""Checks in LocalEmu what the role of each function may do: all that its policy names, and nothing else."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore import xform_name
from botocore.exceptions import BotoCoreError, ClientError

from local.world.dynamodb_engine import REGION
from proof.second_engine import stack
from proof.second_engine.emulator import Emulator
from proof.support.synthesized import as_list

Request = tuple[str, str, dict[str, Any]]
"""The service, the operation in lower case, and the parameters of a request."""
SERVICES = {"ses": "sesv2"}
STREAM_OPERATIONS = ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")
OPERATIONS = {
    "ConditionCheckItem": "TransactWriteItems",
    "DeleteObjectVersion": "DeleteObject",
    "ListBucket": "ListObjectsV2",
    "ListBucketVersions": "ListObjectVersions",
}
"""The operation that needs an action, if their names differ."""
KEY = {"PK": {"S": "probe"}, "SK": {"S": "probe"}}
VALUES = {"ExpressionAttributeValues": {":pk": {"S": "probe"}}}
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
    """Try each action of any role with each role, on its own and on a foreign resource. Raises StackFailed."""
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
    """Return temporary credentials of a role. It trusts Lambda alone, so its trust policy is replaced first."""
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
    return re.sub(
        r"^((?:[^:]*:){5}(?:secret:|log-group:|(?:event-bus|identity|key|table)/)?)/?[^:/]+", rf"\1{FOREIGN}", arn
    )


def request_of(action: str, arn: str) -> Request:
    """Return the request that needs exactly this action on this resource."""
    service, _, operation = action.partition(":")
    service = "dynamodbstreams" if operation in STREAM_OPERATIONS else SERVICES.get(service, service)
    name = arn.rpartition("/")[2]
    table, _, part = arn.rpartition(":table/")[2].partition("/")
    index = {"IndexName": part.removeprefix("index/")} if part.startswith("index/") else {}
    condition = {"KeyConditionExpression": f"{index.get('IndexName', '')}PK = :pk", **index}
    check = {"TableName": table, "Key": KEY, "ConditionExpression": "attribute_exists(PK)"}
    change = {"UpdateExpression": "SET probe = :pk", "ConditionExpression": "probe = :pk"}
    shard = {"ShardId": "shardId-00000000000000000000-00000000", "ShardIteratorType": "LATEST"}
    bucket, _, key = arn.rpartition(":::")[2].partition("/")
    stored = {"Bucket": bucket, "Key": key.replace("*", "probe") or "probe"}
    queue = {"QueueUrl": f"http://sqs.{REGION}.localhost.localemu.cloud:4566/000000000000/{arn.rpartition(':')[2]}"}
    log = {"logGroupName": arn.partition(":log-group:")[2].partition(":")[0], "logStreamName": "probe"}
    address = {"EmailAddress": "probe@example.com"}
    parameters: dict[str, dict[str, Any]] = {
        "BatchGetItem": {"RequestItems": {table: {"Keys": [KEY]}}},
        "BatchWriteItem": {"RequestItems": {table: [{"DeleteRequest": {"Key": KEY}}]}},
        "ConditionCheckItem": {"TransactItems": [{"ConditionCheck": check}]},
        "DeleteItem": {"TableName": table, "Key": KEY},
        "GetItem": {"TableName": table, "Key": KEY},
        "PutItem": {"TableName": table, "Item": KEY},
        "Query": {"TableName": table, **VALUES, **condition},
        "UpdateItem": {"TableName": table, "Key": KEY, **VALUES, **change},
        "DescribeStream": {"StreamArn": arn},
        "GetRecords": {"ShardIterator": f"{arn}|1|probe"},
        "GetShardIterator": {"StreamArn": arn, **shard},
        "ListStreams": {"TableName": table},
        "PutEvents": {"Entries": [{"Source": "p", "DetailType": "p", "Detail": "{}", "EventBusName": name}]},
        "Decrypt": {"CiphertextBlob": b"probe", "KeyId": arn},
        "DescribeKey": {"KeyId": arn},
        "Encrypt": {"Plaintext": b"probe", "KeyId": arn},
        "GenerateDataKey": {"KeySpec": "AES_256", "KeyId": arn},
        "CreateLogStream": log,
        "PutLogEvents": {**log, "logEvents": [{"timestamp": 0, "message": "probe"}]},
        "DeleteObjectVersion": {**stored, "VersionId": "probe"},
        "GetObject": stored,
        "ListBucket": {"Bucket": bucket},
        "ListBucketVersions": {"Bucket": bucket},
        "PutObject": stored,
        "GetSecretValue": {"SecretId": arn},
        "DeleteSuppressedDestination": address,
        "GetSuppressedDestination": address,
        "SendEmail": {"FromEmailAddress": name, "Destination": {}, "Content": MAIL},
        "ChangeMessageVisibility": {**queue, "ReceiptHandle": "probe", "VisibilityTimeout": 0},
        "DeleteMessage": {**queue, "ReceiptHandle": "probe"},
        "GetQueueAttributes": queue,
        "ReceiveMessage": queue,
        "SendMessage": {**queue, "MessageBody": "probe"},
    }
    return service, xform_name(OPERATIONS.get(operation, operation)), parameters[operation]
