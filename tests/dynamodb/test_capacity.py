"""The consumed units of a piece of work, as DynamoDB itself counts them."""

from typing import Any

import pytest

from functions.dynamodb.capacity import ConsumedCapacityCounter
from local.dynamodb_engine import Engine


@pytest.fixture
def name(engine: Engine) -> str:
    """A table with an index on the items that have a `by`."""
    definition: dict[str, Any] = {
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"} for key in ("PK", "by")],
        "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": "by-whom",
                "KeySchema": [{"AttributeName": "by", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
    }
    engine.create_table("units-counted", definition)
    return "units-counted"


def test_reads_and_writes_are_counted_apart_with_their_indexes_until_they_are_taken(engine: Engine, name: str) -> None:
    client = engine.dynamodb()
    units = ConsumedCapacityCounter()
    units.instrument(client)
    key: dict[str, Any] = {"PK": {"S": "a"}}
    indexed: dict[str, Any] = {"PK": {"S": "b"}, "by": {"S": "ann"}}
    client.put_item(TableName=name, Item=key)
    assert units.consumed_since_last_call() == {"read": 0, "write": 1}
    client.put_item(TableName=name, Item=indexed)
    assert units.consumed_since_last_call() == {"read": 0, "write": 2}
    client.get_item(TableName=name, Key=key)
    client.get_item(TableName=name, Key=key, ConsistentRead=True)
    assert units.consumed_since_last_call() == {"read": 1.5, "write": 0}
    client.batch_get_item(RequestItems={name: {"Keys": [key, {"PK": {"S": "b"}}]}})
    assert units.consumed_since_last_call() == {"read": 1, "write": 0}
    client.transact_write_items(
        TransactItems=[{"Put": {"TableName": name, "Item": {"PK": {"S": id}}}} for id in ("c", "d")]
    )
    client.delete_item(TableName=name, Key=key)
    assert units.consumed_since_last_call() == {"read": 0, "write": 5}
    assert units.consumed_since_last_call() == {"read": 0, "write": 0}


def test_a_client_that_requests_index_capacity_gets_it(engine: Engine, name: str) -> None:
    client = engine.dynamodb()
    units = ConsumedCapacityCounter()
    units.instrument(client)
    answer = client.put_item(
        TableName=name, Item={"PK": {"S": "e"}, "by": {"S": "ann"}}, ReturnConsumedCapacity="INDEXES"
    )
    assert answer["ConsumedCapacity"]["GlobalSecondaryIndexes"]["by-whom"]["CapacityUnits"] == 1
    assert units.consumed_since_last_call()["write"] == 2


def test_a_refused_request_counts_for_nothing(engine: Engine, name: str) -> None:
    client = engine.dynamodb()
    units = ConsumedCapacityCounter()
    units.instrument(client)
    with pytest.raises(client.exceptions.ConditionalCheckFailedException):
        client.put_item(TableName=name, Item={"PK": {"S": "f"}}, ConditionExpression="attribute_exists(PK)")
    assert units.consumed_since_last_call() == {"read": 0, "write": 0}
