"""Functions that ask for one item of the table, without any SDK and with boto3's: nothing that asks starts sooner."""

import http.client
import json
import os
from typing import Any
from urllib.parse import urlsplit

KEY = {"PK": {"S": "PRODUCT#mug"}, "SK": {"S": "PRODUCT"}}


def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: the item over http, as DynamoDB has it."""
    connection = http.client.HTTPConnection(urlsplit(os.environ["AWS_ENDPOINT_URL"]).netloc)
    headers = {
        "X-Amz-Target": "DynamoDB_20120810.GetItem",
        "Content-Type": "application/x-amz-json-1.0",
        "Authorization": "AWS4-HMAC-SHA256 Credential=testing/20261121/eu-central-1/dynamodb/aws4_request",
    }
    connection.request("POST", "/", json.dumps({"TableName": os.environ["TABLE_NAME"], "Key": KEY}), headers)
    found: dict[str, Any] = json.loads(connection.getresponse().read())
    return found


def with_boto3(_event: dict[str, Any], _context: Any) -> Any:
    """Lambda entry point: the same by boto3's client."""
    import boto3  # noqa: PLC0415  the other does without

    return boto3.client("dynamodb").get_item(TableName=os.environ["TABLE_NAME"], Key=KEY).get("Item")
