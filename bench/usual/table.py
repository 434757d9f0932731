"""The usual way's table, the table of its idempotency, and its clients: made at import, as AWS's samples make them.

The environment names both tables (TABLE_NAME, IDEMPOTENCY_TABLE) and, with AWS_ENDPOINT_URL_DYNAMODB, where they are.
"""

import os
import zlib
from datetime import UTC, datetime
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer

logger = Logger(service="usual")
metrics = Metrics(namespace="Usual", service="usual")
dynamodb: Any = boto3.resource("dynamodb")
table = dynamodb.Table(os.environ["TABLE_NAME"])
client = table.meta.client
"""The resource's own: it takes and gives Python's types."""
idempotency = boto3.client("dynamodb")
"""Of idempotency, which speaks DynamoDB's types."""

SHARDS = 10
INDEXES = {"GSI1": ("GSI1PK", "GSI1SK"), "GSI2": ("GSI2PK", "GSI2SK"), "GSI3": ("season", "units")}
NUMBERS = {"units"}
RESERVED = ("status", "ttl", "last", "total")


def persistence() -> DynamoDBPersistenceLayer:
    """Where idempotency keeps what was done; one for each configuration, which it takes for its own at first use."""
    return DynamoDBPersistenceLayer(table_name=os.environ["IDEMPOTENCY_TABLE"], boto3_client=idempotency)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def queue(status: str, order_id: str) -> str:
    """The partition of the queue in which orders of a status stand."""
    return f"s#{status}#{zlib.crc32(order_id.encode()) % SHARDS}"


def key(partition: str, sort: str | None = None) -> dict[str, str]:
    """The key of an item; an entity's own has the same twice."""
    return {"PK": partition, "SK": sort or partition}


def put(item: dict[str, Any]) -> dict[str, Any]:
    """Of a transaction: an item that must not be there."""
    return {"Put": {"TableName": table.name, "Item": item, "ConditionExpression": "attribute_not_exists(PK)"}}


def update(where: dict[str, str], expression: str, condition: str | None, **values: Any) -> dict[str, Any]:
    """Of a transaction: attributes are called #name where their name is a reserved word, values :name."""
    named = {f"#{name}": name for name in RESERVED if f"#{name}" in f"{expression} {condition}"}
    request: dict[str, Any] = {
        "TableName": table.name,
        "Key": where,
        "UpdateExpression": expression,
        "ExpressionAttributeValues": {f":{name}": value for name, value in values.items()},
    }
    request |= {"ExpressionAttributeNames": named} if named else {}
    return {"Update": request | ({"ConditionExpression": condition} if condition else {})}


def create_table_request(name: str) -> dict[str, Any]:
    """Its CreateTable request."""
    keys = [("PK", "SK"), *INDEXES.values()]
    return {
        "TableName": name,
        "AttributeDefinitions": [
            {"AttributeName": one, "AttributeType": "N" if one in NUMBERS else "S"} for pair in keys for one in pair
        ],
        "KeySchema": _schema(("PK", "SK")),
        "GlobalSecondaryIndexes": [
            {"IndexName": index, "KeySchema": _schema(pair), "Projection": {"ProjectionType": "ALL"}}
            for index, pair in INDEXES.items()
        ],
    }


def idempotency_table_request(name: str) -> dict[str, Any]:
    """As Powertools' documentation has it: one key, `id`."""
    return {
        "TableName": name,
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "TimeToLiveSpecification": {"AttributeName": "expiration"},
    }


def _schema(names: tuple[str, ...]) -> list[dict[str, str]]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=True)]
