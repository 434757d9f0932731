"""The size of an item, by DynamoDB's published rules.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
"""

from collections.abc import Mapping
from math import ceil
from typing import Any


def item_bytes(item: Mapping[str, Any]) -> int:
    """Return the size of an item: its attribute names and values. `item`: in DynamoDB JSON."""
    return sum(len(name.encode()) + _value_bytes(value) for name, value in item.items())


def _value_bytes(value: Mapping[str, Any]) -> int:
    ((tag, found),) = value.items()
    if tag == "S":
        return len(found.encode())
    if tag == "N":
        return _number_bytes(found)
    if tag == "M":
        return 3 + sum(1 + len(name.encode()) + _value_bytes(one) for name, one in found.items())
    if tag == "L":
        return 3 + sum(1 + _value_bytes(one) for one in found)
    if tag == "SS":
        return sum(len(one.encode()) for one in found)
    if tag == "NS":
        return sum(map(_number_bytes, found))
    if tag == "BS":
        return sum(map(len, found))
    return len(found) if tag == "B" else 1  # NULL, BOOL


def _number_bytes(text: str) -> int:
    digits = text.lstrip("-").replace(".", "").strip("0")
    return ceil(len(digits) / 2) + 1 + int(text.startswith("-"))
