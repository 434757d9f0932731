"""Plays service probes: sends their requests with boto3 and compares the answers."""

import io
import json
import secrets
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import jmespath  # type: ignore[import-untyped]
from botocore.exceptions import ClientError

from proof.conformance.probes.kinds import Request, ServiceProbe
from proof.conformance.runners.deployment import TRUST, retry_until_role_is_known

ECHO = "def handler(event, context):\n    return event['requestContext']['authorizer']['jwt']['claims']\n"
INDEX_KEYS = [{"AttributeName": "GPK", "KeyType": "HASH"}, {"AttributeName": "GSK", "KeyType": "RANGE"}]
TABLE: Mapping[str, Any] = {
    "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("PK", "SK", "GPK", "GSK")],
    "GlobalSecondaryIndexes": [
        {"IndexName": "all", "KeySchema": INDEX_KEYS, "Projection": {"ProjectionType": "ALL"}},
        {"IndexName": "keys", "KeySchema": INDEX_KEYS, "Projection": {"ProjectionType": "KEYS_ONLY"}},
    ],
    "BillingMode": "PAY_PER_REQUEST",
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
}
NOT_READY = {404, 500, 503}
"""The statuses of an API whose deployment has not finished."""
UNDO: Mapping[str, tuple[str, str, str]] = {
    "create_user_pool": ("delete_user_pool", "UserPoolId", "UserPool.Id"),
    "create_api": ("delete_api", "ApiId", "ApiId"),
}
"""How to delete the resource that a request of a probe creates: the operation, its parameter, and the path of the id.
"""


@dataclass(frozen=True, kw_only=True)
class System:
    """The system for a service probe: an AWS account, or local services that stand in for AWS.

    `client`: returns the boto3 client of a service. `read_stream`: returns all records of a table in the shape in which
    Lambda gets them. `delete_expired`: deletes the expired items of all tables. `api_url`: returns the base URL of an
    HTTP API, from its id and its `ApiEndpoint`. `sender`: a mail address that SES has verified.
    """

    client: Callable[[str], Any]
    read_stream: Callable[[str], list[dict[str, Any]]]
    region: str
    delete_expired: Callable[[], Any] = lambda: None
    api_url: Callable[[str, str], str] = lambda _, endpoint: endpoint
    sender: str = ""


def check(probe: ServiceProbe, system: System) -> str:
    """Play a probe, and return how the answers differ from it, or "" if they do not differ."""
    with ExitStack() as undo:
        names = _Names(system, undo)
        for number, request in enumerate(probe.requests, 1):
            time.sleep(request.wait)
            if difference := "; ".join(_send(request, system, names)):
                return f"request {number} ({request.operation}): {difference}"
    return ""


def _send(request: Request, system: System, names: "_Names") -> Iterator[str]:
    error, answer = None, {}
    try:
        answer = _answer(request, system, names)
    except ClientError as raised:
        error, answer = raised.response["Error"]["Code"], dict(raised.response)
    if error != request.error:
        yield f"{error or 'success'} instead of {request.error or 'success'}"
        return
    for name, path in request.saves.items():
        names.values[name] = jmespath.search(path, answer)
    for path, expected in request.returns.items():
        found, wanted = jmespath.search(path, answer), names.fill(expected)
        if wanted in ("$any", None):
            if (found is None) != (wanted is None):
                yield f"{path} is {'absent' if found is None else 'present'}"
        elif found != wanted:
            yield f"{path} is {found!r} instead of {wanted!r}"


def _answer(request: Request, system: System, names: "_Names") -> dict[str, Any]:
    parameters = names.fill(request.parameters)
    match request.service:
        case "stream":
            return {"Records": system.read_stream(parameters["TableName"])}
        case "ttl":
            enabled = {"Enabled": True, "AttributeName": "ttl"}
            system.client("dynamodb").update_time_to_live(TimeToLiveSpecification=enabled, **parameters)
            system.delete_expired()
            return {}
        case "http":
            url = system.api_url(parameters["ApiId"], parameters["ApiEndpoint"])
            return _get(f"{url}{parameters['Path']}", parameters["Token"])
    client = system.client(request.service)
    answer: dict[str, Any] = getattr(client, request.operation)(**parameters)
    if request.operation in UNDO:
        operation, parameter, path = UNDO[request.operation]
        names.undo.callback(getattr(client, operation), **{parameter: jmespath.search(path, answer)})
    return answer


def _get(url: str, token: str) -> dict[str, Any]:
    """Send a GET request to a new API, and repeat it while the API is not ready."""
    for _ in range(20):
        answer = _get_once(url, token)
        if answer["Status"] not in NOT_READY:
            break
        time.sleep(1)
    return answer


def _get_once(url: str, token: str) -> dict[str, Any]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  the URL of an API that we created
            return {"Status": answer.status, "Body": json.loads(answer.read())}
    except urllib.error.HTTPError as error:
        with error:
            return {"Status": error.code}


@dataclass
class _Names:
    """The values of the names ("$table") in a probe. A resource is created when its name is used for the first time."""

    system: System
    undo: ExitStack
    values: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.prefix = f"probe-{secrets.token_hex(4)}"
        self.values |= {"prefix": self.prefix, "region": self.system.region, "sender": self.system.sender}
        self._makers: dict[str, Callable[[], dict[str, str]]] = {
            "versioned": self._create_versioned,
            "redriven": self._create_redriven,
            "dead": self._create_redriven,
            "bucket": self._create_bucket,
            "target": self._create_bus,
            "table": self._create_table,
            "queue": self._create_queue,
            "echo": self._create_echo,
            "bus": self._create_bus,
        }

    def fill(self, value: Any) -> Any:
        """Return a value in which each "$name" is replaced, and each "=N*c" by the character c, N times."""
        match value:
            case str():
                return self._fill_text(value)
            case Mapping():
                return {self.fill(key): self.fill(element) for key, element in value.items()}
            case list() | tuple():
                return [self.fill(element) for element in value]
        return value

    def _fill_text(self, text: str) -> str:
        head, is_long, rest = text.partition("=")
        count, _, character = rest.partition("*")
        if is_long and count.isdigit():
            return head + character[0] * int(count) + character[1:]
        for name in (*self._makers, *self.values):
            if f"${name}" in text and not text.startswith("$request"):
                text = text.replace(f"${name}", str(self._value(name)))
        return text

    def _value(self, name: str) -> Any:
        if name not in self.values:
            self.values |= self._makers[name]()
        return self.values[name]

    def _create_table(self) -> dict[str, str]:
        client = self.system.client("dynamodb")
        client.create_table(TableName=self.prefix, **TABLE)
        client.get_waiter("table_exists").wait(TableName=self.prefix, WaiterConfig={"Delay": 1, "MaxAttempts": 120})
        self.undo.callback(client.delete_table, TableName=self.prefix)
        return {"table": self.prefix}

    def _queue(self, name: str, **attributes: str) -> tuple[str, str]:
        client = self.system.client("sqs")
        url: str = client.create_queue(QueueName=f"{self.prefix}-{name}", Attributes=attributes)["QueueUrl"]
        self.undo.callback(client.delete_queue, QueueUrl=url)
        answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return url, answer["Attributes"]["QueueArn"]

    def _create_queue(self) -> dict[str, str]:
        return {"queue": self._queue("queue")[0]}

    def _create_redriven(self) -> dict[str, str]:
        dead, arn = self._queue("dead")
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
        return {"redriven": self._queue("redriven", RedrivePolicy=policy)[0], "dead": dead}

    def _create_bus(self) -> dict[str, str]:
        client = self.system.client("events")
        client.create_event_bus(Name=self.prefix)
        self.undo.callback(client.delete_event_bus, Name=self.prefix)
        rule = {"Name": self.prefix, "EventBusName": self.prefix}
        rule_arn = client.put_rule(**rule, EventPattern=json.dumps({"source": ["probe"]}))["RuleArn"]
        self.undo.callback(client.delete_rule, **rule)
        statement = {"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage"}
        allow = {**statement, "Resource": "*", "Condition": {"ArnEquals": {"aws:SourceArn": rule_arn}}}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
        target, arn = self._queue("target", Policy=policy)
        on_bus = {"Rule": self.prefix, "EventBusName": self.prefix}
        client.put_targets(**on_bus, Targets=[{"Id": "queue", "Arn": arn}])
        self.undo.callback(client.remove_targets, **on_bus, Ids=["queue"])
        return {"bus": self.prefix, "target": target}

    def _bucket(self, name: str) -> str:
        client, bucket = self.system.client("s3"), f"{self.prefix}-{name}"
        where = {} if self.system.region == "us-east-1" else {"LocationConstraint": self.system.region}
        client.create_bucket(Bucket=bucket, **({"CreateBucketConfiguration": where} if where else {}))
        self.undo.callback(self._delete_bucket, bucket)
        return bucket

    def _create_bucket(self) -> dict[str, str]:
        return {"bucket": self._bucket("bucket")}

    def _create_versioned(self) -> dict[str, str]:
        bucket = self._bucket("versioned")
        status = {"Status": "Enabled"}
        self.system.client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration=status)
        return {"versioned": bucket}

    def _delete_bucket(self, bucket: str) -> None:
        client = self.system.client("s3")
        found = client.list_object_versions(Bucket=bucket)
        for one in [*found.get("Versions", []), *found.get("DeleteMarkers", [])]:
            client.delete_object(Bucket=bucket, Key=one["Key"], VersionId=one["VersionId"])
        client.delete_bucket(Bucket=bucket)

    def _create_echo(self) -> dict[str, str]:
        """Create a function that returns the claims that it gets, and let API Gateway invoke it."""
        iam, client = self.system.client("iam"), self.system.client("lambda")
        trust = json.dumps({"Version": "2012-10-17", "Statement": [TRUST]})
        role = iam.create_role(RoleName=self.prefix, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
        self.undo.callback(iam.delete_role, RoleName=self.prefix)
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr("echo.py", ECHO)
        request = {"FunctionName": self.prefix, "Runtime": "python3.13", "Handler": "echo.handler", "Role": role}
        zipped = {"ZipFile": code.getvalue()}
        made = retry_until_role_is_known(lambda: client.create_function(**request, Code=zipped))
        self.undo.callback(client.delete_function, FunctionName=self.prefix)
        client.get_waiter("function_active_v2").wait(FunctionName=self.prefix)
        allowed = {"StatementId": "api", "Action": "lambda:InvokeFunction", "Principal": "apigateway.amazonaws.com"}
        client.add_permission(FunctionName=self.prefix, **allowed)
        return {"echo": made["FunctionArn"]}
