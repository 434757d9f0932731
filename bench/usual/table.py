"""The table of the usual shop and its client, created at import as in AWS's samples.

The table is TABLE_NAME in the environment. AWS_ENDPOINT_URL_DYNAMODB is the address of the local engine.
"""

import os
from typing import Any

import boto3

dynamodb: Any = boto3.resource("dynamodb")
table = dynamodb.Table(os.environ["TABLE_NAME"])
client = table.meta.client
"""The client of the resource. Unlike boto3.client it converts Python types."""

INDEXES = {"GSI1": ("GSI1PK", "GSI1SK"), "GSI2": ("GSI2PK", "GSI2SK"), "GSI3": ("season", "units")}
NUMBERS = {"units"}
RESERVED = ("status", "ttl", "last", "total")


def put(item: dict[str, Any]) -> dict[str, Any]:
    """Return the transaction's write of a new item. It fails if the item exists."""
    return {"Put": {"TableName": table.name, "Item": item, "ConditionExpression": "attribute_not_exists(PK)"}}


def update(where: dict[str, str], expression: str, condition: str | None, **values: Any) -> dict[str, Any]:
    """Return the transaction's update of an item. `expression` writes values as :name, and reserved words as #name."""
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
    """Return the CreateTable request of the table."""
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
