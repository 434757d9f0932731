"""The items of the conventional shop: their keys, their `ttl`, and the decoding of an image."""

import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

from boto3.dynamodb.types import TypeDeserializer

from bench.usual.promises import SAME

SHARDS = 10
RETENTION = timedelta(days=395)
"""How long an order stays after it has ended."""
OWNED = RETENTION + timedelta(days=30)
"""How long an order's items stay after they were written. The `ttl` is set at the first write, because a later write
would cost as much as a deletion. An order may take this time to be delivered; if it takes longer, some items expire
before the order."""
NAMES = {"PENDING": "OrderPlaced", "ARCHIVED": "OrderArchived"}

_deserializer = TypeDeserializer()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ttl_after(after: timedelta) -> int:
    return int((datetime.now(UTC) + after).timestamp())


def owned() -> dict[str, int]:
    """Return the attributes with which an order's items expire: none, if the archive deletes them."""
    return {} if SAME else {"ttl": ttl_after(OWNED)}


def key(partition: str, sort: str | None = None) -> dict[str, str]:
    """The key of an item; an entity's own has the same twice."""
    return {"PK": partition, "SK": sort or partition}


def queue(status: str, order_id: str) -> str:
    """The partition of the queue in which orders of a status stand."""
    return f"s#{status}#{zlib.crc32(order_id.encode()) % SHARDS}"


def event_name_of(order: dict[str, Any]) -> str:
    """Return the event of an order that now has this state."""
    return NAMES.get(order["status"], f"Order{order['status'].capitalize()}")


def deserialize(image: dict[str, Any]) -> dict[str, Any]:
    """An image's attributes as Python's types."""
    return {name: _deserializer.deserialize(value) for name, value in image.items()}
