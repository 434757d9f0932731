"""Decode items into typed classes and encode them, by the declared fields of the classes.

An *image* is an item in DynamoDB's JSON, as the client and the stream deliver it. Every value is tagged with its type:
`{"order_id": {"S": "o1"}, "total": {"N": "995"}}`. The decoder and the encoder of a class are built once, on first use.
They are faster than boto3's TypeDeserializer because they do not inspect each tag and do not create a Decimal for each
number.
"""

import base64
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from decimal import Decimal
from functools import cache
from operator import itemgetter, not_
from typing import Any, Literal, TypeVar, cast, dataclass_transform

from functions.dynamodb.errors import Unreadable

T = TypeVar("T")
Image = Mapping[str, Any]


@dataclass_transform(frozen_default=True, kw_only_default=True)
def entity(cls: type[T]) -> type[T]:
    """Class decorator: declare a class whose instances are items of the table, or values nested in an item.

    For mypy the class is frozen. At run time it is a dataclass with slots that is not frozen, because decoding into a
    frozen dataclass is three times slower.
    """
    cls.__doc__ = cls.__doc__ or cls.__name__  # otherwise dataclass() sets a generated signature as docstring
    made: Any = dataclass(slots=True, kw_only=True, repr=False, eq=False, match_args=False)(cls)
    # All classes share these functions, because generating methods for each class would slow down a cold start.
    made.__repr__, made.__eq__, made.__hash__ = _item_repr, _items_equal, None
    return cast(type[T], made)


def _item_repr(item: Any) -> str:
    return f"{type(item).__name__}({', '.join(f'{it.name}={getattr(item, it.name)!r}' for it in fields(item))})"


def _items_equal(item: Any, other: Any) -> Any:
    if type(item) is not type(other):
        return NotImplemented
    return all(getattr(item, it.name) == getattr(other, it.name) for it in fields(item))


def decode_binary(value: str | bytes) -> bytes:
    """Return the bytes of a B (binary) value. The boto3 client delivers bytes; a Lambda event carries base64 text."""
    return base64.b64decode(value, validate=True) if isinstance(value, str) else memoryview(value).tobytes()


def _unchanged(value: Any) -> Any:
    return value


SCALAR_TYPES: dict[Any, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    str: ("S", _unchanged, _unchanged),
    int: ("N", int, str),
    Decimal: ("N", Decimal, str),
    bytes: ("B", decode_binary, _unchanged),
    bool: ("BOOL", _unchanged, _unchanged),
}
"""For each scalar type: its DynamoDB type tag, such as "S", and the functions that decode and encode a value."""


def unwrap_newtype(hint: Any) -> Any:
    """Return the type behind a NewType. Return `str` for a Literal of strings, and any other type unchanged."""
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    texts = typing.get_origin(hint) is Literal and all(isinstance(value, str) for value in typing.get_args(hint))
    return str if texts else hint


def unwrap_optional(hint: Any) -> Any:
    """Return X if the type is `X | None`. Return None for any other type."""
    inner = [arg for arg in typing.get_args(hint) if arg is not types.NoneType]
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return inner[0] if union and len(inner) == 1 and len(typing.get_args(hint)) == 2 else None


def value_decoder(hint: Any) -> Callable[[Any], Any]:
    """Return a function that decodes a value, such as {"N": "5"}. Raises TypeError for a type that no item can have."""
    hint = unwrap_newtype(hint)
    if hint in SCALAR_TYPES:
        tag, read, _ = SCALAR_TYPES[hint]
        return itemgetter(tag) if read is _unchanged else lambda value: read(value[tag])
    if inner := unwrap_optional(hint):
        decode_inner = value_decoder(inner)
        return lambda value: None if "NULL" in value else decode_inner(value)
    if hint is types.NoneType:
        return _decode_null
    if is_list(hint):
        decode_element = value_decoder(typing.get_args(hint)[0])
        return lambda value: tuple([decode_element(element) for element in value["L"]])
    if is_map(hint):
        decode_entry = value_decoder(typing.get_args(hint)[1])
        return lambda value: {name: decode_entry(entry) for name, entry in value["M"].items()}
    if isinstance(hint, type) and is_dataclass(hint):
        if from_text := getattr(hint, "from_text", None):
            return lambda value: from_text(value["S"])
        decode_part = build_decoder(hint)
        return lambda value: decode_part(value["M"])
    raise TypeError(f"an item cannot contain {hint}")


def _decode_null(value: Any) -> None:
    value["NULL"]  # if the value is not NULL, this raises KeyError, and the item's decoder converts it to Unreadable


def value_encoder(hint: Any) -> Callable[[Any], dict[str, Any]]:
    """Return a function that encodes a value with its tag, such as {"N": "5"}. Raises TypeError as `value_decoder`.

    A class with the methods `to_text` and `from_text` is stored as a text, which is smaller than a map.
    """
    hint = unwrap_newtype(hint)
    if hint in SCALAR_TYPES:
        tag, _, write = SCALAR_TYPES[hint]
        return lambda value: {tag: write(value)}
    if inner := unwrap_optional(hint):
        encode_inner = value_encoder(inner)
        return lambda value: {"NULL": True} if value is None else encode_inner(value)
    if hint is types.NoneType:
        return lambda _: {"NULL": True}
    if is_list(hint):
        encode_element = value_encoder(typing.get_args(hint)[0])
        return lambda value: {"L": [encode_element(element) for element in value]}
    if is_map(hint):
        encode_entry = value_encoder(typing.get_args(hint)[1])
        return lambda value: {"M": {name: encode_entry(entry) for name, entry in value.items()}}
    if to_text := getattr(hint, "to_text", None):
        return lambda value: {"S": to_text(value)}
    if isinstance(hint, type) and is_dataclass(hint):
        encode_part = build_encoder(hint)
        return lambda value: {"M": encode_part(value)}
    raise TypeError(f"an item cannot contain {hint}")


def is_list(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple and typing.get_args(hint)[1:] == (...,)


def is_map(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Mapping) and unwrap_newtype(typing.get_args(hint)[0]) is str


def set_element_type(hint: Any) -> Any:
    """Return X if the type is `frozenset[X]` and DynamoDB has sets of X. Return None for any other type."""
    inner = unwrap_newtype(typing.get_args(hint)[0]) if typing.get_origin(hint) is frozenset else None
    return inner if inner in SCALAR_TYPES and inner is not bool else None


def _is_set_field(field: Field[Any], hint: Any) -> bool:
    """Return whether a field is stored as a DynamoDB set: a set without default, or with the empty set.

    DynamoDB cannot store an empty set: a missing attribute is one. Sets in another form are not supported.
    """
    return set_element_type(hint) is not None and field.default in (MISSING, frozenset())


def build_decoder(cls: type[T]) -> Callable[[Image], T]:
    """Return a function that decodes an image (an item in DynamoDB's JSON) into an instance of `cls`, without __init__.

    A missing attribute gives the default of its field, None for an optional field, or an empty set. The function raises
    Unreadable if any other is missing, or if a value has another type. It ignores attributes that the class does not
    declare.
    """
    return cast(Callable[[Image], T], _build_decoder(cast(Any, cls)))


@cache
def _build_decoder(cls: type[Any]) -> Callable[[Image], Any]:
    hints = typing.get_type_hints(cls)
    plan = [(field.name, *_field_decoder(field, hints[field.name])) for field in fields(cls)]

    def decode(image: Image) -> Any:
        item = object.__new__(cls)
        try:
            for name, read, absent in plan:
                is_absent = absent is not MISSING and name not in image
                setattr(item, name, absent if is_absent else read(image[name]))
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise Unreadable(f"{cls.__name__}: {error!r}") from error
        return item

    return decode


def _field_decoder(field: Field[Any], hint: Any) -> tuple[Callable[[Any], Any], Any]:
    """Return a field's decoder, and its value if the item lacks the attribute; MISSING if the item must have it."""
    if _is_set_field(field, hint):
        tag, read, _ = SCALAR_TYPES[set_element_type(hint)]
        return (lambda value: frozenset(map(read, value[f"{tag}S"]))), frozenset()
    absent = None if field.default is MISSING and unwrap_optional(hint) else field.default
    return value_decoder(hint), absent


def build_encoder(cls: type[T]) -> Callable[[T], dict[str, Any]]:
    """Return a function that encodes an instance of `cls` as an image (an item in DynamoDB's JSON).

    It leaves out an empty set, None, zero or False if the decoder sets the same value for a missing attribute.
    """
    return cast(Callable[[T], dict[str, Any]], _build_encoder(cast(Any, cls)))


@cache
def _build_encoder(cls: type[Any]) -> Callable[[Any], dict[str, Any]]:
    hints = typing.get_type_hints(cls)
    plan = [(field.name, *_field_encoder(field, hints[field.name])) for field in fields(cls)]

    def encode(item: Any) -> dict[str, Any]:
        image = {}
        for name, write, is_left_out in plan:
            value = getattr(item, name)
            if not is_left_out(value):
                image[name] = write(value)
        return image

    return encode


def _field_encoder(field: Field[Any], hint: Any) -> tuple[Callable[[Any], dict[str, Any]], Callable[[Any], bool]]:
    """Return a function that encodes the values of a field, and one that says whether a value is left out."""
    if _is_set_field(field, hint):
        tag, _, write = SCALAR_TYPES[set_element_type(hint)]
        return (lambda value: {f"{tag}S": sorted(map(write, value))}), not_
    if (inner := unwrap_optional(hint)) and field.default in (MISSING, None):
        return value_encoder(inner), lambda value: value is None
    if hint in (int, bool) and field.default in (0, False):
        return value_encoder(hint), not_
    return value_encoder(hint), lambda _: False
