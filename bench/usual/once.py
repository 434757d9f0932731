"""Powertools' idempotency as the usual shop configures it. Its table is IDEMPOTENCY_TABLE in the environment."""

import os
from typing import Any

import boto3
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig

from bench.usual.promises import IDEMPOTENCY_RETENTION

client = boto3.client("dynamodb")


def persistence() -> DynamoDBPersistenceLayer:
    """Return a new store of results. Each configuration needs one, because Powertools binds it at first use."""
    return DynamoDBPersistenceLayer(table_name=os.environ["IDEMPOTENCY_TABLE"], boto3_client=client)


def config(**settings: Any) -> IdempotencyConfig:
    """Return the configuration of an idempotent function."""
    return IdempotencyConfig(expires_after_seconds=int(IDEMPOTENCY_RETENTION.total_seconds()), **settings)


def create_table_request(name: str) -> dict[str, Any]:
    """Return the CreateTable request, as in Powertools' documentation: the only key is `id`."""
    return {
        "TableName": name,
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "TimeToLiveSpecification": {"AttributeName": "expiration"},
    }
