"""Facts about the records of a DynamoDB stream. `stream` reads them in the shape in which Lambda gets them."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from proof.conformance.probes import sources
from proof.conformance.probes.kinds import Request, ServiceProbe

KEY = {"PK": {"S": "a"}, "SK": {"S": "b"}}
ONE, TWO = {"N": "1"}, {"N": "2"}
to_table = partial(Request.of, "dynamodb", TableName="$table")


def put(*, key: Mapping[str, Any] = KEY, **attributes: Any) -> Request:
    """Return a request that puts an item."""
    return to_table("put_item", Item={**key, **attributes})


def _records(name: str, says: str, *requests: Request, returns: Any, source: str, **known: Any) -> ServiceProbe:
    """Return a probe that reads all records of the table after the requests. `returns`: the expected values by path."""
    read = Request.of("stream", "read", TableName="$table", returns=returns)
    return ServiceProbe.of(name, says, *requests, read, source=source, **known)


_EXPIRY = Request.of("ttl", "delete_expired", TableName="$table")

PROBES = (
    _records(
        "an_insertion_has_a_new_image_only",
        "The record of a new item has the event name INSERT, a new image and no old image.",
        put(n=ONE),
        returns={
            "length(Records)": 1,
            "Records[0].eventName": "INSERT",
            "Records[0].dynamodb.NewImage.n.N": "1",
            "Records[0].dynamodb.OldImage": None,
            "Records[0].dynamodb.Keys": KEY,
        },
        source=sources.STREAM_RECORD,
    ),
    _records(
        "a_change_has_both_images",
        "The record of a changed item has the event name MODIFY and both images.",
        put(n=ONE),
        put(n=TWO),
        returns={
            "length(Records)": 2,
            "Records[1].eventName": "MODIFY",
            "Records[1].dynamodb.NewImage.n.N": "2",
            "Records[1].dynamodb.OldImage.n.N": "1",
        },
        source=sources.STREAM_RECORD,
    ),
    _records(
        "a_deletion_has_an_old_image_only",
        "The record of a deleted item has the event name REMOVE, an old image and no new image.",
        put(n=ONE),
        to_table("delete_item", Key=KEY),
        returns={
            "length(Records)": 2,
            "Records[1].eventName": "REMOVE",
            "Records[1].dynamodb.NewImage": None,
            "Records[1].dynamodb.OldImage.n.N": "1",
        },
        source=sources.STREAM_RECORD,
    ),
    _records(
        "a_put_without_change_has_no_record",
        "A PutItem that changes nothing writes no record to the stream.",
        put(n=ONE),
        put(n=ONE),
        returns={"length(Records)": 1},
        source=sources.STREAMS,
    ),
    _records(
        "an_update_without_change_has_no_record",
        "An UpdateItem that changes nothing writes no record to the stream.",
        put(n=ONE),
        to_table(
            "update_item",
            Key=KEY,
            UpdateExpression="SET n = :one",
            ExpressionAttributeValues={":one": ONE},
        ),
        returns={"length(Records)": 1},
        source=sources.STREAMS,
    ),
    _records(
        "a_deletion_of_nothing_has_no_record",
        "A DeleteItem of an item that does not exist writes no record to the stream.",
        put(n=ONE),
        to_table("delete_item", Key={"PK": {"S": "a"}, "SK": {"S": "none"}}),
        returns={"length(Records)": 1},
        source=sources.STREAMS,
    ),
    _records(
        "records_of_an_item_are_in_order",
        "The records of an item have ascending sequence numbers in the order of its changes.",
        put(n=ONE),
        put(n=TWO),
        put(n={"N": "3"}),
        returns={
            "Records[].dynamodb.NewImage.n.N": ["1", "2", "3"],
            "sort(Records[].dynamodb.SequenceNumber) == Records[].dynamodb.SequenceNumber": True,
        },
        source=sources.STREAMS,
    ),
    _records(
        "a_sequence_number_has_21_to_40_digits",
        "A sequence number is a text of 21 to 40 digits.",
        put(n=ONE),
        returns={
            "length(Records[0].dynamodb.SequenceNumber) >= `21`": True,
            "length(Records[0].dynamodb.SequenceNumber) <= `40`": True,
        },
        source=sources.STREAM_RECORD,
    ),
    _records(
        "a_record_has_its_size",
        "SizeBytes is the size of the keys and of each image. A small number has 2 bytes.",
        put(n={"N": "42"}),
        returns={"Records[0].dynamodb.SizeBytes": 15},
        source=sources.STREAM_RECORD,
        observed_by_others=sources.SIZE_OF_RECORD,
    ),
    _records(
        "a_record_has_its_metadata",
        "A record has an event id, the source aws:dynamodb, its view type and its approximate time.",
        put(n=ONE),
        returns={
            "Records[0].eventID": "$any",
            "Records[0].eventSource": "aws:dynamodb",
            "Records[0].dynamodb.StreamViewType": "NEW_AND_OLD_IMAGES",
            "type(Records[0].dynamodb.ApproximateCreationDateTime)": "number",
        },
        source=sources.STREAM_RECORD,
    ),
    _records(
        "a_binary_value_is_base64",
        "A binary value is base64 text in the event of Lambda.",
        put(data={"B": b"\x00\x01"}),
        returns={"Records[0].dynamodb.NewImage.data.B": "AAE="},
        source=sources.DYNAMODB_MAPPING,
        observed_by_others=sources.BINARY_VALUE,
    ),
    _records(
        "a_deletion_by_a_client_has_no_identity",
        "The record of a deletion by a client has no userIdentity.",
        put(n=ONE),
        to_table("delete_item", Key=KEY),
        returns={"Records[1].userIdentity": None},
        source=sources.TTL_STREAMS,
    ),
    _records(
        "an_expiry_has_the_identity_of_dynamodb",
        "The record of a deletion by TTL has the userIdentity of DynamoDB's service.",
        put(n=ONE, ttl={"N": "1700000000"}),
        _EXPIRY,
        returns={
            "Records[1].eventName": "REMOVE",
            "Records[1].userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"},
        },
        source=sources.TTL_STREAMS,
    ),
    ServiceProbe.of(
        "an_expired_item_is_readable_until_it_is_deleted",
        "An item whose TTL has passed can be read until DynamoDB deletes it.",
        put(n=ONE, ttl={"N": "1700000000"}),
        to_table("get_item", Key=KEY, ConsistentRead=True, returns={"Item.n.N": "1"}),
        source=sources.EXPIRED_ITEMS,
    ),
    _records(
        "a_ttl_of_another_type_is_ignored",
        "A TTL attribute that is not a number does not expire the item.",
        put(n=ONE, ttl={"S": "1700000000"}),
        _EXPIRY,
        returns={"length(Records)": 1},
        source=sources.TTL,
    ),
    _records(
        "a_transaction_has_a_record_for_each_item",
        "A transaction writes one record for each changed item.",
        Request.of(
            "dynamodb",
            "transact_write_items",
            TransactItems=[
                {"Put": {"TableName": "$table", "Item": {"PK": {"S": name}, "SK": {"S": "b"}, "n": ONE}}}
                for name in ("a", "c")
            ],
        ),
        returns={"length(Records)": 2, "Records[].eventName": ["INSERT", "INSERT"]},
        source=sources.TRANSACTIONS,
    ),
)
