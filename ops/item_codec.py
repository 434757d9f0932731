"""Convert items between DynamoDB JSON and plain Python values, also those that no entity class can read."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from functions.dynamodb.codec import Image, decode_binary


def decode_item(image: Image) -> dict[str, Any]:
    """Convert DynamoDB JSON to plain values: {"price": {"N": "995"}} becomes {"price": 995}, else a Decimal."""
    return {name: decode_value(value) for name, value in image.items()}


def encode_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """Convert plain values to DynamoDB JSON. Raises TypeError for a value that DynamoDB cannot store."""
    return {name: encode_value(value) for name, value in item.items()}


class _Deserializer(TypeDeserializer):
    def deserialize(self, value: Any) -> Any:
        match value:
            case {"N": number}:
                return _parse_number(number)
            case {"B": content}:
                return decode_binary(content)
            case {"NS": numbers}:
                return set(map(_parse_number, numbers))
            case {"BS": contents}:
                return set(map(decode_binary, contents))
        return super().deserialize(value)


class _Serializer(TypeSerializer):
    def serialize(self, value: Any) -> Any:
        encoded = super().serialize(value)
        match encoded:
            case {"SS": elements} | {"NS": elements} | {"BS": elements}:
                if not elements:
                    raise TypeError("DynamoDB cannot store an empty set")
                ((tag, _),) = encoded.items()
                return {tag: sorted(elements)}  # equal sets must give equal JSON, because migrations compare it
        return encoded


def _parse_number(text: str) -> int | Decimal:
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else number


decode_value = _Deserializer().deserialize
encode_value = _Serializer().serialize
