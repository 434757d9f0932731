"""Items as typed classes, read and written by straight-line code that is compiled from their declared fields.

An *image* is an item as the client and the stream hand it over: every value tagged with its type,
`{"order_id": {"S": "o1"}, "total": {"N": "995"}}`. A class's reader and writer are made when first needed, once.
Against boto3's TypeDeserializer this saves the dispatch on every tag and the Decimal of every number.
"""

import base64
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Literal, TypeVar, cast, dataclass_transform

T = TypeVar("T")
Image = Mapping[str, Any]


class Unreadable(ValueError):
    """An image that its class cannot hold: an attribute missing, of another type, or malformed."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def entity(cls: type[T]) -> type[T]:
    """Declare an item (or a part of one). Frozen to mypy; at run time a slotted dataclass whose slots a reader fills,
    because really frozen dataclasses read three times slower."""
    return dataclass(slots=True, kw_only=True)(cls)


def binary(value: str | bytes) -> bytes:
    """The bytes of a B value: the client hands over bytes, a Lambda event carries base64 text."""
    return base64.b64decode(value, validate=True) if isinstance(value, str) else bytes(value)


SCALARS: dict[Any, tuple[str, str, str]] = {  # type: (tag, expression that reads, expression that writes)
    str: ("S", "{}", "{}"),
    int: ("N", "int({})", "str({})"),
    Decimal: ("N", "Decimal({})", "str({})"),
    bytes: ("B", "binary({})", "{}"),
    bool: ("BOOL", "{}", "{}"),
}


def plain(hint: Any) -> Any:
    """The type behind a NewType, or behind a Literal of strings."""
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    return str if typing.get_origin(hint) is Literal else hint


def optional(hint: Any) -> Any:
    """X of an `X | None`, else None."""
    inner = [arg for arg in typing.get_args(hint) if arg is not types.NoneType]
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return inner[0] if union and len(inner) == 1 and len(typing.get_args(hint)) == 2 else None


def reading(hint: Any, value: str, scope: dict[str, Any]) -> str:
    """The expression that reads a value of this type out of the tagged `value`."""
    hint = plain(hint)
    arguments = typing.get_args(hint)
    if hint in SCALARS:
        tag, read, _ = SCALARS[hint]
        return read.format(f"{value}[{tag!r}]")
    if inner := optional(hint):
        return f"(None if 'NULL' in {value} else {reading(inner, value, scope)})"
    if hint is types.NoneType:
        return f"(None if {value}['NULL'] else None)"
    match typing.get_origin(hint):
        case origin if origin is tuple:
            return f"tuple([{reading(arguments[0], 'x', scope)} for x in {value}['L']])"
        case origin if origin is frozenset:
            tag, read, _ = SCALARS[plain(arguments[0])]
            return f"frozenset([{read.format('x')} for x in {value}['{tag}S']])"
        case origin if origin is not None and issubclass(origin, Mapping):
            return f"{{k: {reading(arguments[1], 'x', scope)} for k, x in {value}['M'].items()}}"
    if isinstance(hint, type) and is_dataclass(hint):
        scope[f"read_{hint.__name__}"] = reader(hint)
        return f"read_{hint.__name__}({value}['M'])"
    raise TypeError(f"an item cannot hold {hint}")


def writing(hint: Any, value: str, scope: dict[str, Any]) -> str:
    """The expression that tags a `value` of this type."""
    hint = plain(hint)
    arguments = typing.get_args(hint)
    if hint in SCALARS:
        tag, _, write = SCALARS[hint]
        return f"{{{tag!r}: {write.format(value)}}}"
    if inner := optional(hint):
        return f"({{'NULL': True}} if {value} is None else {writing(inner, value, scope)})"
    if hint is types.NoneType:
        return "{'NULL': True}"
    match typing.get_origin(hint):
        case origin if origin is tuple:
            return f"{{'L': [{writing(arguments[0], 'x', scope)} for x in {value}]}}"
        case origin if origin is frozenset:
            tag, _, write = SCALARS[plain(arguments[0])]
            return f"{{'{tag}S': sorted([{write.format('x')} for x in {value}])}}"
        case origin if origin is not None and issubclass(origin, Mapping):
            return f"{{'M': {{k: {writing(arguments[1], 'x', scope)} for k, x in {value}.items()}}}}"
    if isinstance(hint, type) and is_dataclass(hint):
        scope[f"write_{hint.__name__}"] = writer(hint)
        return f"{{'M': write_{hint.__name__}({value})}}"
    raise TypeError(f"an item cannot hold {hint}")


def is_set(hint: Any) -> bool:
    """A set: DynamoDB stores no empty one, so none is written and a missing one reads as empty."""
    return typing.get_origin(hint) is frozenset


def reader(cls: type[T]) -> Callable[[Image], T]:
    """A function from an image to an instance of `cls`: no __init__, no loop over attributes, no branch per tag.

    A missing attribute takes the field's default, `None` or the empty set; where there is none of these, and where a
    value has another type than declared, the function raises Unreadable. Attributes not declared are passed over.
    """
    return cast(Callable[[Image], T], _reader(cast(Any, cls)))


@cache
def _reader(cls: type[Any]) -> Any:
    scope: dict[str, Any] = {"new": object.__new__, "C": cls, "Decimal": Decimal, "binary": binary}
    body = [" item = new(C)", " get = image.get"]
    hints = typing.get_type_hints(cls)
    for field in fields(cls):
        hint = hints[field.name]
        absent = "None" if optional(hint) else "frozenset()" if is_set(hint) else ""
        if field.default is not MISSING:
            scope[f"default_{field.name}"] = field.default
            absent = f"default_{field.name}"
        read = reading(hint, "v", scope)
        if absent:
            body.append(f" v = get({field.name!r}); item.{field.name} = {absent} if v is None else {read}")
        else:
            body.append(f" v = image[{field.name!r}]; item.{field.name} = {read}")
    lines = ["def read(image):", " try:", *[f" {line}" for line in body], "  return item"]
    lines += [" except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:"]
    lines += ["  raise Unreadable(f'{C.__name__}: {error!r}') from error"]
    scope["Unreadable"] = Unreadable
    exec("\n".join(lines), scope)
    return scope["read"]


def writer(cls: type[T]) -> Callable[[T], dict[str, Any]]:
    """A function from an instance of `cls` to its image; what is None, and an empty set, is left out."""
    return cast(Callable[[T], dict[str, Any]], _writer(cast(Any, cls)))


@cache
def _writer(cls: type[Any]) -> Any:
    scope: dict[str, Any] = {}
    body = ["def write(item):", " image = {}"]
    hints = typing.get_type_hints(cls)
    for field in fields(cls):
        hint = hints[field.name]
        body.append(f" v = item.{field.name}")
        condition = " if v is not None:" if optional(hint) else " if v:" if is_set(hint) else ""
        body.append(f"{condition} image[{field.name!r}] = {writing(optional(hint) or hint, 'v', scope)}")
    exec("\n".join([*body, " return image"]), scope)
    return scope["write"]
