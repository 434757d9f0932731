"""The lower bound of a cold start: functions that only read one item, without an SDK or with boto3.

The floor is frozen: it does not change with our code (proof/bench/test_bench.py compares its digest).
"""

import hashlib
import hmac
import http.client
import json
import os
import time
from functools import reduce
from typing import Any
from urllib.parse import urlsplit

KEY = {"PK": {"S": "PRODUCT#mug"}, "SK": {"S": "PRODUCT"}}
SERVICE, REGION, TERMINATOR = "dynamodb", "eu-central-1", "aws4_request"
SIGNED = "host;x-amz-date;x-amz-target"


def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: read the item with http.client, and return DynamoDB's answer."""
    host = urlsplit(os.environ["AWS_ENDPOINT_URL"]).netloc
    target, at = "DynamoDB_20120810.GetItem", time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    body = json.dumps({"TableName": os.environ["TABLE_NAME"], "Key": KEY})
    headers = {
        "X-Amz-Target": target,
        "X-Amz-Date": at,
        "Content-Type": "application/x-amz-json-1.0",
        "Authorization": _signed(f"host:{host}\nx-amz-date:{at}\nx-amz-target:{target}\n", body, at),
    }
    connection = http.client.HTTPConnection(host)
    connection.request("POST", "/", body, headers)
    found: dict[str, Any] = json.loads(connection.getresponse().read())
    return found


def _signed(headers: str, body: str, at: str) -> str:
    """Return the Authorization header: signature version 4 (IAM user guide, "Create a signed AWS API request")."""
    scope = (at[:8], REGION, SERVICE, TERMINATOR)
    request = "\n".join(["POST", "/", "", headers, SIGNED, hashlib.sha256(body.encode()).hexdigest()])
    hashed = hashlib.sha256(request.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", at, "/".join(scope), hashed])
    key = reduce(_hmac, scope, f"AWS4{os.environ['AWS_SECRET_ACCESS_KEY']}".encode())
    credential = "/".join((os.environ["AWS_ACCESS_KEY_ID"], *scope))
    return f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={SIGNED}, Signature={_hmac(key, text).hex()}"


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


def with_boto3(_event: dict[str, Any], _context: Any) -> Any:
    """Lambda entry point: read the item with boto3's client."""
    import boto3  # noqa: PLC0415  `handler` must start without it

    return boto3.client("dynamodb").get_item(TableName=os.environ["TABLE_NAME"], Key=KEY).get("Item")
