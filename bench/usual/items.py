"""The keys and `ttl` of the usual shop's items, and the decoding of images."""

import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

from boto3.dynamodb.types import TypeDeserializer

from bench.usual.promises import SAME_PROMISES

SHARDS = 10
ORDER_RETENTION = timedelta(days=395)
"""How long a closed order stays."""
ITEM_RETENTION = ORDER_RETENTION + timedelta(days=30)
"""How long the other items of an order stay. Their `ttl` is set at their first write, because a later write would cost
as much as a deletion. If an order is open for more than 30 days, some items expire before the order."""
EVENT_NAMES = {"PENDING": "OrderPlaced", "ARCHIVED": "OrderArchived"}

_deserializer = TypeDeserializer()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ttl_after(after: timedelta) -> int:
    return int((datetime.now(UTC) + after).timestamp())


def item_ttl() -> dict[str, int]:
    """Return the `ttl` of an order's other items. With SAME_PROMISES it is empty: the archive worker deletes them."""
    return {} if SAME_PROMISES else {"ttl": ttl_after(ITEM_RETENTION)}


def key(partition: str, sort: str | None = None) -> dict[str, str]:
    """Return the key of an item. The main item of an entity has its partition key as sort key."""
    return {"PK": partition, "SK": sort or partition}


def shard_key(name: str, order_id: str) -> str:
    """Return an order's partition key in a sharded list, such as the list of all orders of a status."""
    return f"s#{name}#{zlib.crc32(order_id.encode()) % SHARDS}"


def event_name_of(order: dict[str, Any]) -> str:
    """Return the name of the event that led to the order's status."""
    return EVENT_NAMES.get(order["status"], f"Order{order['status'].capitalize()}")


def deserialize(image: dict[str, Any]) -> dict[str, Any]:
    """Convert an image to Python types."""
    return {name: _deserializer.deserialize(value) for name, value in image.items()}
