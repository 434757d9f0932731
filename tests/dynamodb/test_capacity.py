"""Tests the counting of consumed units, with the figures of DynamoDB's answers."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import pytest
from botocore import xform_name
from botocore.exceptions import ClientError, ConnectionClosedError

from functions.dynamodb.capacity import ConsumedCapacityCounter, ThrottlingReason
from local.world.dynamodb_engine import Engine
from proof.support.client_faults import Reply, WireTap, error_reply, reply_with, transaction_cancelled_reply


def key_of(id: str) -> dict[str, Any]:
    return {"PK": {"S": id}, "SK": {"S": "ITEM"}}


def test_reads_and_writes_are_counted_apart_with_their_indexes_until_they_are_taken(
    engine: Engine, new_table: Callable[[], str]
) -> None:
    client, name = engine.dynamodb(), new_table()
    units = ConsumedCapacityCounter()
    units.instrument(client)
    key = key_of("a")
    indexed: dict[str, Any] = {**key_of("b"), "GSI1PK": {"S": "ann"}, "GSI1SK": {"S": "b"}}
    client.put_item(TableName=name, Item=key)
    assert units.consumed_since_last_call() == {"read": 0, "write": 1}
    client.put_item(TableName=name, Item=indexed)
    assert units.consumed_since_last_call() == {"read": 0, "write": 2}
    client.get_item(TableName=name, Key=key)
    client.get_item(TableName=name, Key=key, ConsistentRead=True)
    assert units.consumed_since_last_call() == {"read": 1.5, "write": 0}
    client.batch_get_item(RequestItems={name: {"Keys": [key, key_of("b")]}})
    assert units.consumed_since_last_call() == {"read": 1, "write": 0}
    client.transact_write_items(TransactItems=[{"Put": {"TableName": name, "Item": key_of(id)}} for id in ("c", "d")])
    client.delete_item(TableName=name, Key=key)
    assert units.consumed_since_last_call() == {"read": 0, "write": 5}
    assert units.consumed_since_last_call() == {"read": 0, "write": 0}
    assert units.requests == 7


def test_a_refused_request_counts_for_nothing(engine: Engine, new_table: Callable[[], str]) -> None:
    client, name = engine.dynamodb(), new_table()
    units = ConsumedCapacityCounter()
    units.instrument(client)
    with pytest.raises(client.exceptions.ConditionalCheckFailedException):
        client.put_item(TableName=name, Item=key_of("f"), ConditionExpression="attribute_exists(PK)")
    assert units.consumed_since_last_call() == {"read": 0, "write": 0}


# throttling -----------------------------------------------------------------------------------------------------------
TABLE_ARN = "arn:aws:dynamodb:eu-central-1:111122223333:table/orders"
HOT_KEY = {"reason": "TableWriteKeyRangeThroughputExceeded", "resource": TABLE_ARN}
SMALL_INDEX = {"reason": "IndexWriteProvisionedThroughputExceeded", "resource": f"{TABLE_ARN}/index/GSI2"}


def lose_connection(_: object) -> NoReturn:
    raise ConnectionClosedError(endpoint_url="https://aws")


def throttled(wire: WireTap, operation: str, *replies: Reply, **request: Any) -> dict[tuple[str, str], int]:
    """Send a request that gets these replies, and return the counted reasons."""
    units = ConsumedCapacityCounter()
    units.instrument(wire.client)
    wire.reply_next(operation, *replies)
    with suppress(ClientError):
        getattr(wire.client, xform_name(operation))(**request)
    assert units.totals[2] == len([reply for reply in replies if reply is not lose_connection])
    return {(why.reason, why.resource): number for why, number in units.throttling_reasons.items()}


@pytest.mark.parametrize(
    ("code", "field"),
    [
        ("ProvisionedThroughputExceededException", "ThrottlingReasons"),
        ("RequestLimitExceeded", "ThrottlingReasons"),
        ("ThrottlingException", "throttlingReasons"),
    ],
)
def test_a_throttled_request_is_counted_by_its_reason_and_its_table_or_index(
    wire: WireTap, code: str, field: str
) -> None:
    found = throttled(
        wire,
        "PutItem",
        error_reply(code, **{field: [HOT_KEY, SMALL_INDEX]}),
        TableName="orders",
        Item={"PK": {"S": "a"}},
    )
    assert found == {tuple(HOT_KEY.values()): 1, tuple(SMALL_INDEX.values()): 1}
    assert {ThrottlingReason(*why).target for why in found} == {"table", "GSI2"}


def test_each_attempt_of_the_client_is_counted_by_its_own_reason(patient_wire: WireTap) -> None:
    hot, small = (error_reply("ThrottlingException", throttlingReasons=[why]) for why in (HOT_KEY, SMALL_INDEX))
    for replies, hot_keys in (((hot, hot, small), 2), ((hot, lose_connection, small), 1)):
        found = throttled(patient_wire, "PutItem", *replies, TableName="orders", Item={"PK": {"S": "a"}})
        assert found == {tuple(HOT_KEY.values()): hot_keys, tuple(SMALL_INDEX.values()): 1}


@pytest.mark.parametrize("given", [{}, {"throttlingReasons": []}, {"throttlingReasons": [{}]}], ids=str)
def test_without_a_reason_the_code_of_the_error_is_counted(wire: WireTap, given: dict[str, Any]) -> None:
    reply = error_reply("ThrottlingException", **given)
    found = throttled(wire, "GetItem", reply, TableName="orders", Key={"PK": {"S": "a"}})
    assert found == {("ThrottlingException", ""): 1}
    assert ThrottlingReason("ThrottlingException", "").target == "unknown"


def test_a_cancelled_transaction_and_unprocessed_keys_are_counted_by_what_dynamodb_says(wire: WireTap) -> None:
    put = {"Put": {"TableName": "orders", "Item": {"PK": {"S": "a"}}}}
    reply = transaction_cancelled_reply("TransactionConflict", "ThrottlingError", "ConditionalCheckFailed")
    assert throttled(wire, "TransactWriteItems", reply, TransactItems=[put]) == {("ThrottlingError", ""): 1}
    left = {"orders": {"Keys": [{"PK": {"S": "a"}}]}}
    reply = reply_with({"Responses": {}, "UnprocessedKeys": left})
    assert throttled(wire, "BatchGetItem", reply, RequestItems=left) == {("UnprocessedKeys", ""): 1}
    write = {"orders": [{"DeleteRequest": {"Key": {"PK": {"S": "a"}}}}]}
    reply = reply_with({"UnprocessedItems": write})
    assert throttled(wire, "BatchWriteItem", reply, RequestItems=write) == {("UnprocessedItems", ""): 1}


REASON = error_reply("ThrottlingException", throttlingReasons=[HOT_KEY])
QUERY = {
    "KeyConditionExpression": "#pk = :pk",
    "ExpressionAttributeNames": {"#pk": "GSI2PK"},
    "ExclusiveStartKey": {"PK": {"S": "last"}, "GSI2PK": {"S": "busy"}},
    "ExpressionAttributeValues": {":pk": {"S": "busy"}},
}


@pytest.mark.parametrize(
    ("operation", "reply", "request_"),
    [
        ("PutItem", REASON, {"TableName": "orders", "Item": {"note": {"S": "calm"}, "PK": {"S": "busy"}}}),
        ("GetItem", REASON, {"TableName": "orders", "Key": {"PK": {"S": "busy"}}}),
        ("Query", REASON, {"TableName": "orders", "IndexName": "GSI2", **QUERY}),
        (
            "TransactWriteItems",
            transaction_cancelled_reply("None", "ThrottlingError"),
            {
                "TransactItems": [
                    {"Put": {"TableName": "orders", "Item": {"PK": {"S": "calm"}}}},
                    {"Delete": {"TableName": "orders", "Key": {"PK": {"S": "busy"}}}},
                ]
            },
        ),
        (
            "BatchGetItem",
            reply_with({"Responses": {}, "UnprocessedKeys": {"orders": {"Keys": [{"PK": {"S": "busy"}}]}}}),
            {"RequestItems": {"orders": {"Keys": [{"PK": {"S": "calm"}}, {"PK": {"S": "busy"}}]}}},
        ),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_the_partition_key_of_a_throttled_request_is_known(
    wire: WireTap, operation: str, reply: Reply, request_: dict[str, Any]
) -> None:
    units = ConsumedCapacityCounter()
    units.instrument(wire.client)
    wire.reply_next(operation, reply)
    with suppress(ClientError):
        getattr(wire.client, xform_name(operation))(**request_)
    (why,) = units.throttling_reasons
    assert units.last_throttled_key(why) == "busy"
    assert units.last_throttled_key(ThrottlingReason("another", "")) == ""
