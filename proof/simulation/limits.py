"""Defines the limits of AWS for requests. The simulated services refuse a request that exceeds one of them.

Sources: DynamoDB developer guide ("Quotas in Amazon DynamoDB"), EventBridge user guide ("Amazon EventBridge quotas"),
SQS developer guide ("Amazon SQS message quotas"), Lambda developer guide ("Lambda quotas").
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from proof.simulation.botocore_clients import UnsignedRequest

KB, MB = 1024, 1024 * 1024
MAX_PAYLOAD_BYTES = 6 * MB
"""The maximum size of the event and of the answer of a Lambda invocation."""
Attribute = Mapping[str, Any]


@dataclass(frozen=True)
class ServiceLimit:
    """A limit for requests of one operation. `measure`: returns the value of a request that must not exceed `maximum`.

    `code`: the code of the error with which the service refuses a request above the limit.
    """

    service: str
    operation: str
    name: str
    measure: Callable[[Any], int]
    maximum: int
    code: str


def attribute_bytes(attribute: Attribute) -> int:
    """Return the size of an attribute's value in bytes, rounded up. `attribute`: the value with its type tag."""
    ((kind, held),) = attribute.items()
    match kind:
        case "S":
            return len(held.encode())
        case "N":
            return (len(held.strip("-.")) + 1) // 2 + 1
        case "B":
            return len(held) * 3 // 4
        case "M":
            return 3 + sum(1 + len(name.encode()) + attribute_bytes(one) for name, one in held.items())
        case "L":
            return 3 + sum(1 + attribute_bytes(one) for one in held)
        case "SS" | "NS" | "BS":
            return sum(attribute_bytes({kind[0]: one}) for one in held)
    return 1


def item_bytes(item: Mapping[str, Attribute]) -> int:
    return sum(len(name.encode()) + attribute_bytes(one) for name, one in item.items())


def _transaction_items(asked: Any) -> Iterator[Mapping[str, Attribute]]:
    for request in asked["TransactItems"]:
        (write,) = request.values()
        yield write.get("Item") or write["Key"] | write.get("ExpressionAttributeValues", {})


def _batch(asked: Any, name: str = "") -> list[Any]:
    return [one for table in asked["RequestItems"].values() for one in (table[name] if name else table)]


def _entry_bytes(entry: Mapping[str, str]) -> int:
    return sum(len(entry.get(name, "").encode()) for name in ("Source", "DetailType", "Detail"))


INVALID, TOO_MANY_MESSAGES = "ValidationException", "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"
LIMITS = (
    ServiceLimit(
        "dynamodb", "PutItem", "bytes of the item", lambda asked: item_bytes(asked["Item"]), 400 * KB, INVALID
    ),
    ServiceLimit("dynamodb", "TransactWriteItems", "items", lambda asked: len(asked["TransactItems"]), 100, INVALID),
    ServiceLimit(
        "dynamodb", "TransactWriteItems", "bytes of an item",
        lambda asked: max(map(item_bytes, _transaction_items(asked))), 400 * KB, INVALID,
    ),
    ServiceLimit(
        "dynamodb", "TransactWriteItems", "bytes",
        lambda asked: sum(map(item_bytes, _transaction_items(asked))), 4 * MB, INVALID,
    ),
    ServiceLimit("dynamodb", "BatchWriteItem", "requests", lambda asked: len(_batch(asked)), 25, INVALID),
    ServiceLimit("dynamodb", "BatchGetItem", "keys", lambda asked: len(_batch(asked, "Keys")), 100, INVALID),
    ServiceLimit("events", "PutEvents", "entries", lambda asked: len(asked["Entries"]), 10, INVALID),
    ServiceLimit("events", "PutEvents", "bytes", lambda asked: sum(map(_entry_bytes, asked["Entries"])), MB, INVALID),
    ServiceLimit(
        "sqs", "SendMessage", "bytes", lambda asked: len(asked["MessageBody"].encode()), MB, "InvalidParameterValue"
    ),
    ServiceLimit(
        "sqs", "ReceiveMessage", "messages",
        lambda asked: int(asked.get("MaxNumberOfMessages", 1)), 10, "InvalidParameterValue",
    ),
    ServiceLimit(
        "sqs", "ChangeMessageVisibilityBatch", "entries", lambda asked: len(asked["Entries"]), 10, TOO_MANY_MESSAGES
    ),
)  # fmt: skip

LIMITS_BY_OPERATION = {
    (service, operation): tuple(one for one in LIMITS if (one.service, one.operation) == (service, operation))
    for service, operation in {(one.service, one.operation) for one in LIMITS}
}


def exceeded_limit(service: str, operation: str, request: UnsignedRequest) -> ServiceLimit | None:
    """Return the limit that a request exceeds, or None."""
    limits = LIMITS_BY_OPERATION.get((service, operation), ())
    return next((limit for limit in limits if limit.measure(request.parsed_body) > limit.maximum), None)
