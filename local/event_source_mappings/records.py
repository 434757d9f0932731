"""Converts records of a DynamoDB stream to the shape in which Lambda passes them to a function.

Sources: Lambda developer guide, "Using AWS Lambda with Amazon DynamoDB" (example event); DynamoDB Streams API
reference, Record, StreamRecord and Identity; DynamoDB developer guide, "DynamoDB Streams and Time to Live".
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final, TypeAlias

import orjson

LambdaRecord: TypeAlias = Mapping[str, Any]
TTL_IDENTITY: Final = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}


@dataclass(frozen=True)
class StreamRecord:
    """A stream record that an event source mapping delivers to a function (`event`).

    `sequence_number`: a decimal number as text; compare two as int. `created_at`: the epoch seconds of the change,
    which DynamoDB rounds to whole seconds. `polled_at`: the epoch seconds at which the record was read. `item_key`: as
    JSON. `size_bytes`: of `event` as JSON.
    """

    event: LambdaRecord
    sequence_number: str
    created_at: float
    polled_at: float

    # The next two properties serialize JSON, which is slow. Records that a filter rejects do not need them. So they are
    # computed on first use.
    @cached_property
    def item_key(self) -> str:
        return orjson.dumps(self.event["dynamodb"]["Keys"], option=orjson.OPT_SORT_KEYS).decode()

    @cached_property
    def size_bytes(self) -> int:
        return len(to_json_bytes(self.event))

    @classmethod
    def from_event(cls, event: LambdaRecord, polled_at: float) -> "StreamRecord":
        change = event["dynamodb"]
        return cls(
            event=event,
            sequence_number=change["SequenceNumber"],
            created_at=change.get("ApproximateCreationDateTime", polled_at),
            polled_at=polled_at,
        )


Records: TypeAlias = tuple[StreamRecord, ...]


def to_lambda_record(record: Mapping[str, Any], *, region: str, stream_arn: str) -> dict[str, Any]:
    """Convert a record of GetRecords, as boto3 returns it, to a Lambda event record. The input is not changed.

    Binary values become base64 text, ApproximateCreationDateTime (a datetime or epoch seconds) a float of whole epoch
    seconds. Only DynamoDB's TTL process sets `userIdentity`: an empty object of an emulator becomes its identity.
    """
    change = dict(_json_values(record["dynamodb"]))
    created_at = change.get("ApproximateCreationDateTime")
    if created_at is not None:
        seconds = created_at.timestamp() if isinstance(created_at, datetime) else created_at
        change["ApproximateCreationDateTime"] = float(int(seconds))
    event = {
        "eventID": record["eventID"],
        "eventName": record["eventName"],
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": region,
        "dynamodb": change,
        "eventSourceARN": stream_arn,
    }
    identity = record.get("userIdentity")
    if identity is not None:
        event["userIdentity"] = {
            "type": identity.get("Type", TTL_IDENTITY["type"]),
            "principalId": identity.get("PrincipalId", TTL_IDENTITY["principalId"]),
        }
    return event


def to_lambda_event(records: Records) -> dict[str, Any]:
    return {"Records": [record.event for record in records]}


def is_unchanged(event: LambdaRecord) -> bool:
    """Return whether the images exist and are equal. DynamoDB adds no record of such a write; an emulator may."""
    change = event["dynamodb"]
    return "OldImage" in change and "NewImage" in change and _images_equal(change["OldImage"], change["NewImage"])


def to_json_bytes(value: object) -> bytes:
    """Serialize a value to compact JSON in UTF-8. The size of a record is the length of this JSON in bytes."""
    return orjson.dumps(value)


def _json_values(value: Any) -> Any:
    match value:
        case bytes() | bytearray():
            return base64.b64encode(value).decode("ascii")
        case list() | tuple() | set() | frozenset():
            return [_json_values(element) for element in value]
        case Mapping():
            return {name: _json_values(element) for name, element in value.items()}
        case _:
            return value


def _images_equal(old: Any, new: Any) -> bool:
    """Return whether two images, or values in them, are equal. The order in a set (SS, NS or BS) does not matter."""
    if old == new:
        return True
    match old, new:
        case (
            ({"SS": list(a)}, {"SS": list(b)}) | ({"NS": list(a)}, {"NS": list(b)}) | ({"BS": list(a)}, {"BS": list(b)})
        ):
            return sorted(a) == sorted(b)
        case dict(), dict():
            return old.keys() == new.keys() and all(_images_equal(old[name], new[name]) for name in old)
        case list(), list():
            return len(old) == len(new) and all(_images_equal(one, other) for one, other in zip(old, new, strict=True))
        case _:
            return False
