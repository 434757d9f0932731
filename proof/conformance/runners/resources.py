"""The resources of service probes, and how their streams and APIs are read.

Each function gets `client`, which returns the client of a service, `undo`, which deletes the resource at the end, and a
prefix for its name. A creating function returns the values of the names in a probe ("$queue") that stand for its
resource. A reproduction (proof/conformance/reproduction.py) has the source of the functions that its probe uses, so
they use only boto3 and the standard library.
"""

import io
import json
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from botocore.exceptions import ClientError

Client = Callable[[str], Any]


def new_queue(client: Client, undo: ExitStack, name: str, **attributes: str) -> tuple[str, str]:
    """Create a queue, and return its URL and its ARN."""
    url: str = client("sqs").create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    undo.callback(client("sqs").delete_queue, QueueUrl=url)
    answer = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return url, answer["Attributes"]["QueueArn"]


def create_queue(client: Client, undo: ExitStack, prefix: str) -> dict[str, str]:
    """Create a queue."""
    return {"queue": new_queue(client, undo, f"{prefix}-queue")[0]}


def create_redriven(client: Client, undo: ExitStack, prefix: str) -> dict[str, str]:
    """Create a queue whose messages become dead letters after two receives."""
    dead, arn = new_queue(client, undo, f"{prefix}-dead")
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
    return {"redriven": new_queue(client, undo, f"{prefix}-redriven", RedrivePolicy=policy)[0], "dead": dead}


def create_bus(client: Client, undo: ExitStack, prefix: str) -> dict[str, str]:
    """Create an event bus that sends the events of the source `probe` to a queue."""
    events, on_bus = client("events"), {"Rule": prefix, "EventBusName": prefix}
    events.create_event_bus(Name=prefix)
    undo.callback(events.delete_event_bus, Name=prefix)
    rule = {"Name": prefix, "EventBusName": prefix}
    rule_arn = events.put_rule(**rule, EventPattern=json.dumps({"source": ["probe"]}))["RuleArn"]
    undo.callback(events.delete_rule, **rule)
    statement = {"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage"}
    allow = {**statement, "Resource": "*", "Condition": {"ArnEquals": {"aws:SourceArn": rule_arn}}}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
    target, arn = new_queue(client, undo, f"{prefix}-target", Policy=policy)
    events.put_targets(**on_bus, Targets=[{"Id": "queue", "Arn": arn}])
    undo.callback(events.remove_targets, **on_bus, Ids=["queue"])
    return {"bus": prefix, "target": target}


def new_bucket(client: Client, undo: ExitStack, name: str) -> str:
    """Create a bucket in the client's region, and return its name. At the end, it is emptied and deleted."""
    s3 = client("s3")
    region = s3.meta.region_name
    where = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    s3.create_bucket(Bucket=name, **where)

    def delete() -> None:
        found = s3.list_object_versions(Bucket=name)
        for one in [*found.get("Versions", []), *found.get("DeleteMarkers", [])]:
            s3.delete_object(Bucket=name, Key=one["Key"], VersionId=one["VersionId"])
        s3.delete_bucket(Bucket=name)

    undo.callback(delete)
    return name


def create_bucket(client: Client, undo: ExitStack, prefix: str) -> dict[str, str]:
    """Create a bucket."""
    return {"bucket": new_bucket(client, undo, f"{prefix}-bucket")}


def create_versioned(client: Client, undo: ExitStack, prefix: str) -> dict[str, str]:
    """Create a bucket that keeps versions."""
    bucket = new_bucket(client, undo, f"{prefix}-versioned")
    client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return {"versioned": bucket}


def new_function(
    client: Client, undo: ExitStack, name: str, source: str, allowed: tuple[Any, ...] = (), **settings: Any
) -> str:
    """Create a function with this source, wait until Lambda can invoke it, and return its ARN.

    `allowed`: the statements of its policy. `settings`: further parameters of CreateFunction."""
    iam, functions, code = client("iam"), client("lambda"), io.BytesIO()
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    policies = [json.dumps({"Version": "2012-10-17", "Statement": rules}) for rules in ([trust], allowed)]
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=policies[0])["Role"]["Arn"]
    undo.callback(iam.delete_role, RoleName=name)
    if allowed:
        iam.put_role_policy(RoleName=name, PolicyName="probes", PolicyDocument=policies[1])
        undo.callback(iam.delete_role_policy, RoleName=name, PolicyName="probes")
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("function.py", source)
    request = {"FunctionName": name, "Runtime": "python3.13", "Handler": "function.handler", "Role": role, **settings}
    made = retry_until_role_is_known(lambda: functions.create_function(**request, Code={"ZipFile": code.getvalue()}))
    undo.callback(functions.delete_function, FunctionName=name)
    functions.get_waiter("function_active_v2").wait(FunctionName=name, WaiterConfig={"MaxAttempts": 60})
    return str(made["FunctionArn"])


def create_echo(client: Client, undo: ExitStack, prefix: str) -> dict[str, str]:
    """Create a function that returns the claims that it gets, and let API Gateway invoke it."""
    echo = "def handler(event, context):\n    return event['requestContext']['authorizer']['jwt']['claims']\n"
    arn = new_function(client, undo, prefix, echo)
    allowed = {"StatementId": "api", "Action": "lambda:InvokeFunction", "Principal": "apigateway.amazonaws.com"}
    client("lambda").add_permission(FunctionName=prefix, **allowed)
    return {"echo": arn}


def retry_until_role_is_known(request: Callable[[], Any]) -> Any:
    """Send a request that names a new role, and send it again while IAM has not spread the role, for a minute."""
    give_up = time.monotonic() + 60
    while True:
        try:
            return request()
        except ClientError as error:
            if not is_role_error(error) or time.monotonic() > give_up:
                raise
        time.sleep(2)


def is_role_error(error: ClientError) -> bool:
    """Return whether a request failed because the role is not known or not allowed yet."""
    message = error.response["Error"].get("Message", "")
    return "role" in message.lower() and ("assume" in message or "permission" in message)


def read_stream(client: Client, table: str) -> list[dict[str, Any]]:
    """Return the records of a table, in order. A record may be late, so read until none came for five seconds."""
    streams = client("dynamodbstreams")
    arn = client("dynamodb").describe_table(TableName=table)["Table"]["LatestStreamArn"]
    found: list[dict[str, Any]] = []
    waiting = [
        streams.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON")
        for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    ]
    iterators = [answer["ShardIterator"] for answer in waiting]
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < 5:
        pages = [streams.get_records(ShardIterator=iterator) for iterator in iterators if iterator]
        iterators = [page.get("NextShardIterator") for page in pages]
        if new := [record for page in pages for record in page["Records"]]:
            quiet_since = time.monotonic()
            found += new
        time.sleep(0.5)
    return sorted(found, key=lambda record: int(record["dynamodb"]["SequenceNumber"]))


def ask_api(url: str, token: str, host: str = "") -> dict[str, Any]:
    """Send a GET request to a new HTTP API, and repeat it for 20 s while the API is not ready. `host`: its header."""
    headers = {"Authorization": f"Bearer {token}"} | ({"Host": host} if host else {})
    for _ in range(20):
        request = urllib.request.Request(url, headers=headers)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  an API that we created
                return {"Status": answer.status, "Body": json.loads(answer.read())}
        except urllib.error.HTTPError as error:
            with error:
                status = error.code
        if status not in (404, 500, 503):
            break
        time.sleep(1)
    return {"Status": status}
