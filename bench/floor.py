"""A function without any SDK: one item of the table, asked for over http. Nothing that asks at all starts sooner."""

import http.client
import json
import os
from typing import Any
from urllib.parse import urlsplit


def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: the item, as DynamoDB has it."""
    connection = http.client.HTTPConnection(urlsplit(os.environ["AWS_ENDPOINT_URL"]).netloc)
    key = {"PK": {"S": "PRODUCT#mug"}, "SK": {"S": "PRODUCT"}}
    headers = {
        "X-Amz-Target": "DynamoDB_20120810.GetItem",
        "Content-Type": "application/x-amz-json-1.0",
        "Authorization": "AWS4-HMAC-SHA256 Credential=testing/20261121/eu-central-1/dynamodb/aws4_request",
    }
    connection.request("POST", "/", json.dumps({"TableName": os.environ["TABLE_NAME"], "Key": key}), headers)
    found: dict[str, Any] = json.loads(connection.getresponse().read())
    return found
