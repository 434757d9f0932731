"""The Lambda function of the mapping probes. It behaves as the probe says and logs each invocation.

The runners of the model and of the pollers import `decide`. For a real mapping, this file alone is the deployed
function, so it imports nothing from this project. Its state is one DynamoDB table with the keys PK and SK:

- PK: the table or queue that the mapping reads. SK "script": what the function must do, as JSON.
- SK "seen ...": how often a rule of the script has applied.
- SK "call ...": a log of one invocation, with its time in the key.
"""

import json
import os
import time
import uuid
from typing import Any

Rule = dict[str, Any]
TIMEOUT_SECONDS = 3


class ProbeError(Exception):
    """The error that a probe asks for."""


def record_number(record: dict[str, Any], deletions: dict[str, int]) -> int:
    """Return the number that a probe gives to a record. `deletions`: the number of each deletion, by partition key."""
    change = record["dynamodb"]
    if "NewImage" in change:
        return int(change["NewImage"]["n"]["N"])
    return deletions[change["Keys"]["PK"]["S"]]


def decide(rules: list[Rule], numbers: dict[int, str], count: Any) -> tuple[str, Any]:
    """Return how the function must answer a batch: the `by` of the first rule that applies, or "ok", and the response.

    `numbers`: the sequence numbers by record number. `count(index)`: counts one more use of a rule, and returns the
    uses.
    """
    applies = [
        rule for index, rule in enumerate(rules) if rule["record"] in numbers and count(str(index)) <= rule["times"]
    ]
    kind = applies[0]["by"] if applies else "ok"
    if kind == "answer":
        return kind, _fill(applies[0]["answer"], numbers)
    reported = [{"itemIdentifier": numbers[rule["record"]]} for rule in applies if rule["by"] == "report"]
    return kind, {"batchItemFailures": reported}


def _fill(value: Any, numbers: dict[int, str]) -> Any:
    if isinstance(value, dict):
        return {key: _fill(element, numbers) for key, element in value.items()}
    if isinstance(value, list):
        return [_fill(element, numbers) for element in value]
    return numbers[int(value[1:])] if isinstance(value, str) and value.startswith("$") else value


class _State:
    """The state of one probe in the table of the function."""

    def __init__(self, owner: str) -> None:
        import boto3  # noqa: PLC0415  the runners that import this module need no client

        self._client = boto3.client("dynamodb")
        self._table, self._owner = os.environ["STATE_TABLE"], owner
        key = {"PK": {"S": owner}, "SK": {"S": "script"}}
        item = self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True)["Item"]
        self.script = json.loads(item["script"]["S"])

    def count(self, rule: str) -> int:
        answer = self._client.update_item(
            TableName=self._table,
            Key={"PK": {"S": self._owner}, "SK": {"S": f"seen {rule}"}},
            UpdateExpression="ADD uses :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
            ReturnValues="UPDATED_NEW",
        )
        return int(answer["Attributes"]["uses"]["N"])

    def log(self, call: dict[str, Any]) -> None:
        key = {"PK": {"S": self._owner}, "SK": {"S": f"call {time.time():017.6f} {uuid.uuid4()}"}}
        self._client.put_item(TableName=self._table, Item={**key, "call": {"S": json.dumps(call)}})


def handler(event: dict[str, Any], context: Any) -> Any:
    """Handle a batch of a stream or of a queue, as the script of the probe says. An empty batch tests the system."""
    if not event["Records"]:
        return None
    first = event["Records"][0]
    owner = first["eventSourceARN"].partition("/stream/")[0].rpartition("/")[2].rpartition(":")[2]
    state = _State(owner)
    handle = _handle_messages if first["eventSource"] == "aws:sqs" else _handle_stream
    return handle(event["Records"], state)


def _handle_stream(records: list[dict[str, Any]], state: _State) -> Any:
    started, script = time.time(), state.script
    numbers = {record_number(one, script["deletions"]): one["dynamodb"]["SequenceNumber"] for one in records}
    state.log({"numbers": [[number, sequence] for number, sequence in numbers.items()], "started": started})
    kind, response = decide(script["rules"], numbers, state.count)
    time.sleep(script["seconds"] + (2 * TIMEOUT_SECONDS if kind == "timeout" else 0))
    if kind == "error":
        raise ProbeError
    return response


def _handle_messages(messages: list[dict[str, Any]], state: _State) -> Any:
    script, failed = state.script, []
    for message in messages:
        body = message["body"]
        state.log({"body": body})
        if state.count(body) <= script["failing"].get(body, 0):
            failed.append(message)
    if failed and script["by"] == "error":
        raise ProbeError
    if failed and script["by"] == "resend":
        import boto3  # noqa: PLC0415

        for message in failed:
            boto3.client("sqs").send_message(QueueUrl=script["queue"], MessageBody=message["body"])
        return {"batchItemFailures": []}
    if failed and script["by"] == "retry_soon":
        import boto3  # noqa: PLC0415

        entries: Any = [
            {"Id": str(number), "ReceiptHandle": message["receiptHandle"], "VisibilityTimeout": 1}
            for number, message in enumerate(failed)
        ]
        boto3.client("sqs").change_message_visibility_batch(QueueUrl=script["queue"], Entries=entries)
    return {"batchItemFailures": [{"itemIdentifier": message["messageId"]} for message in failed]}
