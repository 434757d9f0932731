"""Facts about the records of a DynamoDB stream. `stream` reads them in the shape in which Lambda gets them."""

from collections.abc import Mapping
from typing import Any

from proof.conformance.probes import sources
from proof.conformance.probes.kinds import Request, ServiceProbe

KEY = {"PK": {"S": "a"}, "SK": {"S": "b"}}


def put(*, key: Mapping[str, Any] = KEY, **attributes: Any) -> Request:
    """Return a request that puts an item."""
    item = {**key, **attributes}
    return Request(service="dynamodb", operation="put_item", parameters={"TableName": "$table", "Item": item})


def delete(key: Mapping[str, Any] = KEY) -> Request:
    """Return a request that deletes an item."""
    return Request(service="dynamodb", operation="delete_item", parameters={"TableName": "$table", "Key": dict(key)})


def _read(returns: Mapping[str, Any]) -> Request:
    """Return a request that reads all records of the table. `returns`: the expected values by path."""
    return Request(service="stream", operation="read", parameters={"TableName": "$table"}, returns=returns)


ONE, TWO = {"N": "1"}, {"N": "2"}

PROBES = (
    ServiceProbe(
        name="an_insertion_has_a_new_image_only",
        says="The record of a new item has the event name INSERT, a new image and no old image.",
        source=sources.STREAM_RECORD,
        requests=(
            put(n=ONE),
            _read(
                {
                    "length(Records)": 1,
                    "Records[0].eventName": "INSERT",
                    "Records[0].dynamodb.NewImage.n.N": "1",
                    "Records[0].dynamodb.OldImage": None,
                    "Records[0].dynamodb.Keys": KEY,
                }
            ),
        ),
    ),
    ServiceProbe(
        name="a_change_has_both_images",
        says="The record of a changed item has the event name MODIFY and both images.",
        source=sources.STREAM_RECORD,
        requests=(
            put(n=ONE),
            put(n=TWO),
            _read(
                {
                    "length(Records)": 2,
                    "Records[1].eventName": "MODIFY",
                    "Records[1].dynamodb.NewImage.n.N": "2",
                    "Records[1].dynamodb.OldImage.n.N": "1",
                }
            ),
        ),
    ),
    ServiceProbe(
        name="a_deletion_has_an_old_image_only",
        says="The record of a deleted item has the event name REMOVE, an old image and no new image.",
        source=sources.STREAM_RECORD,
        requests=(
            put(n=ONE),
            delete(),
            _read(
                {
                    "length(Records)": 2,
                    "Records[1].eventName": "REMOVE",
                    "Records[1].dynamodb.NewImage": None,
                    "Records[1].dynamodb.OldImage.n.N": "1",
                }
            ),
        ),
    ),
    ServiceProbe(
        name="a_put_without_change_has_no_record",
        says="A PutItem that changes nothing writes no record to the stream.",
        source=sources.STREAMS,
        requests=(put(n=ONE), put(n=ONE), _read({"length(Records)": 1})),
    ),
    ServiceProbe(
        name="an_update_without_change_has_no_record",
        says="An UpdateItem that changes nothing writes no record to the stream.",
        source=sources.STREAMS,
        requests=(
            put(n=ONE),
            Request(
                service="dynamodb",
                operation="update_item",
                parameters={
                    "TableName": "$table",
                    "Key": KEY,
                    "UpdateExpression": "SET n = :one",
                    "ExpressionAttributeValues": {":one": ONE},
                },
            ),
            _read({"length(Records)": 1}),
        ),
    ),
    ServiceProbe(
        name="a_deletion_of_nothing_has_no_record",
        says="A DeleteItem of an item that does not exist writes no record to the stream.",
        source=sources.STREAMS,
        requests=(put(n=ONE), delete({"PK": {"S": "a"}, "SK": {"S": "none"}}), _read({"length(Records)": 1})),
    ),
    ServiceProbe(
        name="records_of_an_item_are_in_order",
        says="The records of an item have ascending sequence numbers in the order of its changes.",
        source=sources.STREAMS,
        requests=(
            put(n=ONE),
            put(n=TWO),
            put(n={"N": "3"}),
            _read(
                {
                    "Records[].dynamodb.NewImage.n.N": ["1", "2", "3"],
                    "sort(Records[].dynamodb.SequenceNumber) == Records[].dynamodb.SequenceNumber": True,
                }
            ),
        ),
    ),
    ServiceProbe(
        name="a_sequence_number_has_21_to_40_digits",
        says="A sequence number is a text of 21 to 40 digits.",
        source=sources.STREAM_RECORD,
        requests=(
            put(n=ONE),
            _read(
                {
                    "length(Records[0].dynamodb.SequenceNumber) >= `21`": True,
                    "length(Records[0].dynamodb.SequenceNumber) <= `40`": True,
                }
            ),
        ),
    ),
    ServiceProbe(
        name="a_record_has_its_size",
        says="SizeBytes is the size of the keys and of each image. A small number has 2 bytes.",
        source=sources.STREAM_RECORD,
        open_question="AWS's page has no rule for SizeBytes. Is SizeBytes 15 here (6 for the keys, 9 for the image)?",
        requests=(put(n=ONE), _read({"Records[0].dynamodb.SizeBytes": 15})),
    ),
    ServiceProbe(
        name="a_record_has_its_metadata",
        says="A record has an event id, the source aws:dynamodb, its view type and its approximate time.",
        source=sources.STREAM_RECORD,
        requests=(
            put(n=ONE),
            _read(
                {
                    "Records[0].eventID": "$any",
                    "Records[0].eventSource": "aws:dynamodb",
                    "Records[0].dynamodb.StreamViewType": "NEW_AND_OLD_IMAGES",
                    "type(Records[0].dynamodb.ApproximateCreationDateTime)": "number",
                }
            ),
        ),
    ),
    ServiceProbe(
        name="a_binary_value_is_base64",
        says="A binary value is base64 text in the event of Lambda.",
        source=sources.DYNAMODB_MAPPING,
        open_question="AWS's page shows no binary value. LocalStack's tests recorded base64 on AWS.",
        requests=(put(data={"B": b"\x00\x01"}), _read({"Records[0].dynamodb.NewImage.data.B": "AAE="})),
    ),
    ServiceProbe(
        name="a_deletion_by_a_client_has_no_identity",
        says="The record of a deletion by a client has no userIdentity.",
        source=sources.TTL_STREAMS,
        requests=(put(n=ONE), delete(), _read({"Records[1].userIdentity": None})),
    ),
    ServiceProbe(
        name="an_expiry_has_the_identity_of_dynamodb",
        says="The record of a deletion by TTL has the userIdentity of DynamoDB's service.",
        source=sources.TTL_STREAMS,
        requests=(
            put(n=ONE, ttl={"N": "1700000000"}),
            Request(service="ttl", operation="delete_expired", parameters={"TableName": "$table"}),
            _read(
                {
                    "Records[1].eventName": "REMOVE",
                    "Records[1].userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"},
                }
            ),
        ),
    ),
    ServiceProbe(
        name="an_expired_item_is_readable_until_it_is_deleted",
        says="An item whose TTL has passed can be read until DynamoDB deletes it.",
        source=sources.EXPIRED_ITEMS,
        requests=(
            put(n=ONE, ttl={"N": "1700000000"}),
            Request(
                service="dynamodb",
                operation="get_item",
                parameters={"TableName": "$table", "Key": KEY, "ConsistentRead": True},
                returns={"Item.n.N": "1"},
            ),
        ),
    ),
    ServiceProbe(
        name="a_ttl_of_another_type_is_ignored",
        says="A TTL attribute that is not a number does not expire the item.",
        source=sources.TTL,
        requests=(
            put(n=ONE, ttl={"S": "1700000000"}),
            Request(service="ttl", operation="delete_expired", parameters={"TableName": "$table"}),
            _read({"length(Records)": 1}),
        ),
    ),
    ServiceProbe(
        name="a_transaction_has_a_record_for_each_item",
        says="A transaction writes one record for each changed item.",
        source=sources.TRANSACTIONS,
        requests=(
            Request(
                service="dynamodb",
                operation="transact_write_items",
                parameters={
                    "TransactItems": [
                        {"Put": {"TableName": "$table", "Item": {"PK": {"S": name}, "SK": {"S": "b"}, "n": ONE}}}
                        for name in ("a", "c")
                    ]
                },
            ),
            _read({"length(Records)": 2, "Records[].eventName": ["INSERT", "INSERT"]}),
        ),
    ),
)
