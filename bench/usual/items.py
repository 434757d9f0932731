"""What items are in the usual way, whoever reads or writes them: their keys, their ends, and how an image is read."""

import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

from boto3.dynamodb.types import TypeDeserializer

SHARDS = 10
RETENTION = timedelta(days=395)
"""How long an order stays after it has ended."""
OWNED = RETENTION + timedelta(days=30)
"""How long what an order owns stays after it was written: its `ttl` is given with it, for one of its own write later
would cost as much as its deletion. So much longer may an order be on its way: else some of it ends before the order."""
NAMES = {"PENDING": "OrderPlaced", "ARCHIVED": "OrderArchived"}

_deserializer = TypeDeserializer()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ttl_after(after: timedelta) -> int:
    return int((datetime.now(UTC) + after).timestamp())


def key(partition: str, sort: str | None = None) -> dict[str, str]:
    """The key of an item; an entity's own has the same twice."""
    return {"PK": partition, "SK": sort or partition}


def queue(status: str, order_id: str) -> str:
    """The partition of the queue in which orders of a status stand."""
    return f"s#{status}#{zlib.crc32(order_id.encode()) % SHARDS}"


def event_name_of(order: dict[str, Any]) -> str:
    """What happened to an order that is as this now."""
    return NAMES.get(order["status"], f"Order{order['status'].capitalize()}")


def deserialize(image: dict[str, Any]) -> dict[str, Any]:
    """An image's attributes as Python's types."""
    return {name: _deserializer.deserialize(value) for name, value in image.items()}
