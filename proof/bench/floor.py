"""The lower bound of a cold start: a function that only reads one item, with boto3's client."""

import os
from typing import Any

import boto3

KEY = {"PK": {"S": "PRODUCT#mug"}, "SK": {"S": "PRODUCT"}}


def handler(_event: dict[str, Any], _context: Any) -> Any:
    """Lambda entry point: read the item, and return it."""
    return boto3.client("dynamodb").get_item(TableName=os.environ["TABLE_NAME"], Key=KEY).get("Item")
