"""Resources in an AWS account, or in an emulator of AWS, for the probes. Everything is deleted at the end."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError, WaiterError

from proof.conformance.runners import function
from proof.conformance.runners.resources import new_bucket, new_function, new_queue

TWO_KEYS = {
    "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("PK", "SK")],
}
STREAM = {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}}
ON_DEMAND = {"BillingMode": "PAY_PER_REQUEST"}
# A table with one partition has a stream with one shard. A new table on demand has several partitions.
ONE_PARTITION = {
    "BillingMode": "PROVISIONED",
    "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 20},
}


class NoFunctions(Exception):
    """The system accepts functions, but does not run them."""


@dataclass
class Deployment:
    """A function with its state table, a bucket, and further resources of a probe. All names start with `prefix`."""

    client: Callable[[str], Any]
    prefix: str
    undo: ExitStack
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.state_table = f"{self.prefix}-state"
        self.create_table(self.state_table, TWO_KEYS | ON_DEMAND)
        self.bucket = new_bucket(self.client, self.undo, f"{self.prefix}-failures")
        self.wait_for_table(self.state_table)
        self._create_function()

    def create_table(self, name: str, request: Mapping[str, Any]) -> None:
        """Start to create a table. Before the first use, call `wait_for_table`."""
        self.client("dynamodb").create_table(TableName=name, **request)
        self.undo.callback(self._delete_table, name)

    def wait_for_table(self, name: str) -> str:
        """Wait until a table can be used, and return the ARN of its stream, or "" if it has none."""
        waiter = self.client("dynamodb").get_waiter("table_exists")
        waiter.wait(TableName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 120})
        table = self.client("dynamodb").describe_table(TableName=name)["Table"]
        return str(table.get("LatestStreamArn", ""))

    def create_queue(self, name: str, attributes: Mapping[str, str]) -> tuple[str, str]:
        """Create a queue and return its URL and its ARN."""
        return new_queue(self.client, self.undo, name, **attributes)

    def create_mapping(self, source_arn: str, settings: Mapping[str, Any]) -> str:
        """Create a mapping from a stream or a queue to the function, and return its id."""
        client = self.client("lambda")
        request = {"FunctionName": self.prefix, "EventSourceArn": source_arn, **settings}
        mapping_id: str = client.create_event_source_mapping(**request)["UUID"]
        self.undo.callback(self._delete_mapping, mapping_id)
        return mapping_id

    def wait_for_mapping(self, mapping_id: str, seconds: float) -> None:
        """Wait until a mapping is enabled. Raises TimeoutError after `seconds`."""
        give_up = time.monotonic() + seconds
        while self.client("lambda").get_event_source_mapping(UUID=mapping_id)["State"] != "Enabled":
            if time.monotonic() > give_up:
                raise TimeoutError(f"the mapping {mapping_id} was not enabled after {seconds:.0f} s")
            time.sleep(1)

    def store_script(self, owner: str, script: Mapping[str, Any]) -> None:
        """Store the script that the function follows for the batches of this table or queue."""
        item = {"PK": {"S": owner}, "SK": {"S": "script"}, "script": {"S": json.dumps(script)}}
        self.client("dynamodb").put_item(TableName=self.state_table, Item=item)

    def logged_calls(self, owner: str) -> list[dict[str, Any]]:
        """Return the function's log of its invocations for this table or queue, oldest first."""
        pages = (
            self.client("dynamodb")
            .get_paginator("query")
            .paginate(
                TableName=self.state_table,
                KeyConditionExpression="PK = :owner AND begins_with(SK, :calls)",
                ExpressionAttributeValues={":owner": {"S": owner}, ":calls": {"S": "call "}},
                ConsistentRead=True,
            )
        )
        return [json.loads(item["call"]["S"]) for page in pages for item in page["Items"]]

    def stored_documents(self, mapping_id: str) -> list[dict[str, Any]]:
        """Return the documents of failed batches of a mapping in the bucket."""
        s3 = self.client("s3")
        found = s3.list_objects_v2(Bucket=self.bucket, Prefix=f"aws/lambda/{mapping_id}/").get("Contents", [])
        return [json.loads(s3.get_object(Bucket=self.bucket, Key=one["Key"])["Body"].read()) for one in found]

    def take_messages(self, queue_url: str) -> list[str]:
        """Receive and delete the messages of a queue, and return their bodies."""
        sqs, bodies = self.client("sqs"), []
        while found := sqs.receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10, WaitTimeSeconds=1).get(
            "Messages"
        ):
            for message in found:
                bodies.append(message["Body"])
                sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
        return bodies

    def _create_function(self) -> None:
        client = self.client("lambda")
        try:
            new_function(
                self.client,
                self.undo,
                self.prefix,
                Path(function.__file__).read_text(encoding="utf-8"),
                tuple(_permissions(self.prefix)),
                Timeout=function.TIMEOUT_SECONDS,
                MemorySize=1024,
                Environment={"Variables": {"STATE_TABLE": self.state_table, **self.environment}},
            )
        except WaiterError as error:
            raise NoFunctions(f"the system does not start a function: {error}") from error
        # Without this check, every fact would differ on an emulator that cannot run functions.
        answer = client.invoke(FunctionName=self.prefix, Payload=json.dumps({"Records": []}))["Payload"].read()
        if answer != b"null":
            raise NoFunctions(f"the system cannot run a function: it answers {answer.decode(errors='replace')[:200]!r}")

    def _delete_table(self, name: str) -> None:
        self.client("dynamodb").get_waiter("table_exists").wait(TableName=name)
        self.client("dynamodb").delete_table(TableName=name)

    def _delete_mapping(self, mapping_id: str) -> None:
        """Delete a mapping. AWS refuses this while it is being changed, so retry."""
        for _ in range(60):
            try:
                self.client("lambda").delete_event_source_mapping(UUID=mapping_id)
            except ClientError as error:
                if error.response["Error"]["Code"] != "ResourceInUseException":
                    raise
                time.sleep(2)
            else:
                return
        raise TimeoutError(f"the mapping {mapping_id} could not be deleted")


@contextmanager
def deploy(client: Callable[[str], Any], prefix: str, environment: Mapping[str, str]) -> Iterator[Deployment]:
    """Create a deployment during a `with` block, and delete all its resources at the end, also after an error."""
    undo = ExitStack()
    try:
        yield Deployment(client, prefix, undo, environment)
    except BaseException:
        with suppress(ClientError):  # the first error says more
            undo.close()
        raise
    undo.close()


def _permissions(prefix: str) -> Iterator[dict[str, Any]]:
    """Yield the statements of the function's policy. It may not write logs, because its log group would remain."""
    table = f"arn:aws:dynamodb:*:*:table/{prefix}-*"
    stream = ["DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"]
    for service, actions, resource in (
        ("dynamodb", ["GetItem", "PutItem", "UpdateItem"], table),
        ("dynamodb", stream, f"{table}/stream/*"),
        (
            "sqs",
            ["SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes"],
            f"arn:aws:sqs:*:*:{prefix}-*",
        ),
        ("s3", ["PutObject"], f"arn:aws:s3:::{prefix}-*/*"),
        ("s3", ["ListBucket"], f"arn:aws:s3:::{prefix}-*"),
    ):
        yield {"Effect": "Allow", "Action": [f"{service}:{action}" for action in actions], "Resource": resource}
