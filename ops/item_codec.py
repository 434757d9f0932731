"""Convert items between DynamoDB JSON and plain Python values, without the entity classes.

Operator tools use this module for items in an old format that the entity classes can no longer read.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from functions.dynamodb.codec import Image, decode_binary


def decode_item(image: Image) -> dict[str, Any]:
    """Convert DynamoDB JSON to plain values: {"price": {"N": "995"}} becomes {"price": 995}.

    A whole number becomes an int, any other number a Decimal.
    """
    return {name: decode_value(value) for name, value in image.items()}


def encode_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """Convert plain values to DynamoDB JSON. Raises TypeError for a value that DynamoDB cannot store."""
    return {name: encode_value(value) for name, value in item.items()}


def decode_value(value: Mapping[str, Any]) -> Any:
    ((tag, held),) = value.items()
    match tag:
        case "N":
            return _parse_number(held)
        case "B":
            return decode_binary(held)
        case "NULL":
            return None
        case "L":
            return [decode_value(one) for one in held]
        case "M":
            return decode_item(held)
        case "SS" | "NS" | "BS":
            return {decode_value({tag[0]: one}) for one in held}
        case _:
            return held


def encode_value(value: Any) -> dict[str, Any]:
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": value}
        case int() | Decimal():
            return {"N": str(value)}
        case bytes():
            return {"B": value}
        case list() | tuple():
            return {"L": [encode_value(one) for one in value]}
        case Mapping():
            return {"M": encode_item(value)}
        case set() | frozenset() if value:
            return _encode_set([encode_value(one) for one in value])
        case _:
            raise TypeError(f"DynamoDB cannot store {value!r}")


def _encode_set(elements: list[dict[str, Any]]) -> dict[str, Any]:
    tags = {tag for element in elements for tag in element}
    if len(tags) > 1 or not tags <= {"S", "N", "B"}:
        raise TypeError(f"a set must contain only text, only numbers or only bytes, not {sorted(tags)}")
    (tag,) = tags
    return {f"{tag}S": sorted(element[tag] for element in elements)}


def _parse_number(text: str) -> int | Decimal:
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else number
