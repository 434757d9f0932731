"""Tests that the simulation's faster code gives the same results as the code that it replaces."""

import json
from base64 import b64encode
from types import SimpleNamespace
from typing import Any

import boto3
import botocore.endpoint
import pytest
from botocore.exceptions import ClientError
from botocore.parsers import JSONParser
from botocore.serialize import JSONSerializer

from functions.runtime import clients
from local.world.dynamodb_engine import Engine
from proof.simulation import botocore_clients
from proof.simulation.botocore_clients import Response, UnsignedRequest
from proof.simulation.table import SimulatedTable, TracedEngineConnection

TEXT = b64encode(b"\x00\xff").decode()
EVERY_TYPE: dict[str, Any] = {
    "text": {"S": "Grüße"},
    "number": {"N": "-1.5"},
    "data": {"B": TEXT},
    "truth": {"BOOL": False},
    "nothing": {"NULL": True},
    "texts": {"SS": ["b", "a"]},
    "numbers": {"NS": ["2", "1"]},
    "datas": {"BS": [TEXT]},
    "map": {"M": {"z": {"L": [{"S": "x"}, {"M": {"b": {"B": TEXT}, "a": {"N": "1"}}}, {"L": []}]}, "e": {"M": {}}}},
    "list": {"L": [{"BS": [TEXT]}, {"S": ""}]},
}


def test_the_records_read_from_the_engines_file_are_those_its_stream_gives(engine: Engine) -> None:
    line = TracedEngineConnection(engine)
    table = SimulatedTable(line, "read-twice", lambda: 0.0)
    seen: list[Any] = []
    table.listeners.append(seen.append)
    keys = [{"PK": {"S": "ä"}, "SK": {"S": str(number)}} for number in range(3)]
    puts = [{"Put": {"TableName": table.name, "Item": {**EVERY_TYPE, **key}}} for key in keys]
    table.call("PutItem", Item=keys[0])
    assert table.send("TransactWriteItems", json.dumps({"TransactItems": puts}).encode())[0] == 200
    table.call("DeleteItem", Key=keys[1])
    table.expire([("ä", "2")])

    stream = engine.streams()
    (arn,) = [one["StreamArn"] for one in stream.list_streams(TableName=table.name)["Streams"]]
    (shard,) = stream.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    start = {"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}

    def asked(operation: str, **request: Any) -> Any:
        status, body = line.request(f"DynamoDBStreams_20120810.{operation}", json.dumps(request).encode())
        assert status == 200, body
        return json.loads(body)

    given = asked("GetRecords", ShardIterator=asked("GetShardIterator", **start)["ShardIterator"])["Records"]
    ours = {"SequenceNumber", "ApproximateCreationDateTime"}
    assert [_change(one, ours) for one in seen] == [_change(one, ours) for one in given]
    assert [one["eventName"] for one in seen] == ["INSERT", "MODIFY", "INSERT", "INSERT", "REMOVE", "REMOVE"]
    assert ["userIdentity" in one for one in seen] == [False] * 5 + [True]


def _change(record: Any, without: set[str]) -> Any:
    return record["eventName"], {name: value for name, value in record["dynamodb"].items() if name not in without}


def test_an_item_is_written_and_read_as_botocore_writes_and_reads_it() -> None:
    model = botocore_clients.client("dynamodb").meta.service_model
    answer = {"headers": {}, "status_code": 200, "context": {}, "body": json.dumps({"Item": EVERY_TYPE}).encode()}
    read, botocores = (one.parse(answer, model.operation_model("GetItem").output_shape) for one in _PARSERS)
    assert read == botocores
    assert list(read["Item"]) == sorted(EVERY_TYPE)

    put = model.operation_model("PutItem")
    request = {"TableName": "some", "Item": read["Item"], "ExpressionAttributeValues": {":a": EVERY_TYPE["text"]}}
    own, botocores = (one.serialize_to_request(request, put) for one in _SERIALIZERS)
    assert own.pop("asked") == json.loads(own.pop("body")) == json.loads(botocores.pop("body"))
    assert own == botocores


_PARSERS: Any = (botocore_clients.PARSER, JSONParser())
_SERIALIZERS: Any = (botocore_clients.SERIALIZER, JSONSerializer())


def test_botocore_tries_again_until_its_quota_is_spent_and_each_seed_has_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(botocore.endpoint, "time", SimpleNamespace(sleep=lambda seconds: None))

    def refuse(service: str, operation: str, request: UnsignedRequest) -> Response:
        calls.append(f"{service}.{operation} {request.parsed_body['SecretId']}")
        return Response(request.url, 500, {"x-amzn-errortype": "InternalServerError"}, b"{}")

    def attempts() -> int:
        calls.clear()
        with pytest.raises(ClientError):
            botocore_clients.client("secretsmanager").get_secret_value(SecretId="s")
        assert set(calls) == {"secretsmanager.GetSecretValue s"}
        return len(calls)

    for _ in range(2):
        botocore_clients.set_transport(refuse)
        made = [attempts() for _ in range(100)]
        assert made[0] == 4
        assert made[-1] == 1


@pytest.mark.parametrize("service", ["dynamodb", "s3", "events", "sesv2"])
def test_a_client_tries_as_often_as_the_functions_own(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    own = boto3.client(service, config=clients.client_config(service))  # type: ignore[call-overload]
    assert botocore_clients.client(service).meta.config.retries == own.meta.config.retries
