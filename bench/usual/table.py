"""The usual way's table, and its client: made at import, as AWS's samples make them.

The environment names it (TABLE_NAME) and, with AWS_ENDPOINT_URL_DYNAMODB, where it is.
"""

import os
from typing import Any

import boto3

dynamodb: Any = boto3.resource("dynamodb")
table = dynamodb.Table(os.environ["TABLE_NAME"])
client = table.meta.client
"""The resource's own: it takes and gives Python's types."""

INDEXES = {"GSI1": ("GSI1PK", "GSI1SK"), "GSI2": ("GSI2PK", "GSI2SK"), "GSI3": ("season", "units")}
NUMBERS = {"units"}
RESERVED = ("status", "ttl", "last", "total")


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


def _schema(names: tuple[str, ...]) -> list[dict[str, str]]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=True)]
