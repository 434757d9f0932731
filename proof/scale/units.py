"""Compute the capacity units of a request in the table and in each index, by DynamoDB's published rules.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
"""

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

from functions.model.table import INDEX_PROJECTIONS, key_schema, projection
from ops.item_size import item_bytes

Item = Mapping[str, Any]
"""An item in DynamoDB JSON."""
WRITE_UNIT_BYTES, READ_UNIT_BYTES = 1024, 4096


def read_units(size: int, *, consistent: bool) -> float:
    """Return the units to read `size` bytes: one for each started 4 KB. An eventually consistent read takes half."""
    return max(1, ceil(size / READ_UNIT_BYTES)) * (1 if consistent else 0.5)


def written_units(before: Item | None, after: Item | None, *, transaction: bool) -> float:
    """Return the units of a write: one for each started KB of the larger image. A transaction doubles the units."""
    size = max(item_bytes(image) for image in (before or {}, after or {}))
    return max(1, ceil(size / WRITE_UNIT_BYTES)) * (2 if transaction else 1)


def index_writes(before: Item | None, after: Item | None) -> Iterator[tuple[str, Item, float]]:
    """Yield each index write that a write of an item causes: index, item with the index key, and units.

    To add, delete or change an index entry costs one write. A change of the index key costs a delete and a put.
    """
    for index in INDEX_PROJECTIONS:
        was, now = (_projected(index, image) for image in (before, after))
        if was == now:
            continue
        keys = [name["AttributeName"] for name in key_schema(index.lower())]
        if was and now and all(was[key] == now[key] for key in keys):
            yield index, now, max(map(_index_units, (was, now)))
        else:
            yield from ((index, image, _index_units(image)) for image in (was, now) if image)


def _projected(index: str, image: Item | None) -> Item | None:
    keys = [name["AttributeName"] for name in key_schema(index.lower())]
    if image is None or not all(key in image for key in keys):
        return None
    kept = projection(index).get("NonKeyAttributes")
    return image if kept is None else {name: image[name] for name in ("PK", "SK", *keys, *kept) if name in image}


def _index_units(image: Item) -> float:
    return float(max(1, ceil(item_bytes(image) / WRITE_UNIT_BYTES)))
