"""The table of the usual way's idempotency, which the environment names (IDEMPOTENCY_TABLE), and its client."""

import os
from typing import Any

import boto3
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig

from bench.usual.promises import REMEMBERED

client = boto3.client("dynamodb")


def persistence() -> DynamoDBPersistenceLayer:
    """Where the idempotency stores results: one for each configuration, because Powertools binds it at first use."""
    return DynamoDBPersistenceLayer(table_name=os.environ["IDEMPOTENCY_TABLE"], boto3_client=client)


def config(**settings: Any) -> IdempotencyConfig:
    """The configuration of an idempotent function."""
    return IdempotencyConfig(expires_after_seconds=int(REMEMBERED.total_seconds()), **settings)


def create_table_request(name: str) -> dict[str, Any]:
    """As Powertools' documentation has it: one key, `id`."""
    return {
        "TableName": name,
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "TimeToLiveSpecification": {"AttributeName": "expiration"},
    }
