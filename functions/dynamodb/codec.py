"""Decode items into typed classes and encode them, with code generated from the classes' declared fields.

An *image* is an item in DynamoDB's JSON, as the client and the stream deliver it. Every value is tagged with its type:
`{"order_id": {"S": "o1"}, "total": {"N": "995"}}`. The decoder and the encoder of a class are compiled once, on first
use. They are faster than boto3's TypeDeserializer because they do not inspect each tag and do not create a Decimal for
each number.
"""

import base64
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Literal, TypeVar, cast, dataclass_transform

from functions.dynamodb.errors import Unreadable, UnreadableWithin

T = TypeVar("T")
Image = Mapping[str, Any]


class LazyMap(Mapping[str, Any]):
    """A map attribute of an item whose values are decoded on first access.

    `counterpart`: the same attribute in the item's other image (before or after the change). If both attributes are
    equal, they are decoded once and share the result.
    """

    __slots__ = ("_image", "_made", "_read", "_twin")

    def __init__(self, image: Mapping[str, Any], decode: Callable[[Image], Any], counterpart: "LazyMap | None") -> None:
        self._image, self._read, self._twin = image, decode, counterpart
        self._made: Mapping[str, Any] | None = None

    def _load(self) -> Mapping[str, Any]:
        if self._made is None:
            twin = self._twin
            if twin is not None and twin._image == self._image:
                self._made = twin._load()
            else:
                try:
                    self._made = {name: self._read(part["M"]) for name, part in self._image.items()}
                except (LookupError, TypeError, AttributeError, Unreadable) as error:
                    raise UnreadableWithin(str(error)) from error
        return self._made

    def __getitem__(self, name: str) -> Any:
        return self._load()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._load())

    def __len__(self) -> int:
        return len(self._load())

    def values(self) -> Any:
        return self._load().values()

    def items(self) -> Any:
        return self._load().items()


@dataclass_transform(frozen_default=True, kw_only_default=True)
def entity(cls: type[T]) -> type[T]:
    """Class decorator: declare a class whose instances are items of the table, or values nested in an item.

    mypy treats the class as frozen. At run time the class is a slotted dataclass whose slots the decoder fills, because
    decoding into a truly frozen dataclass is three times slower.
    """
    cls.__doc__ = cls.__doc__ or cls.__name__  # dataclass() would set a generated signature as docstring
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


SCALAR_TYPES: dict[Any, tuple[str, str, str]] = {  # type: (tag, expression that decodes, expression that encodes)
    str: ("S", "{}", "{}"),
    int: ("N", "int({})", "str({})"),
    Decimal: ("N", "Decimal({})", "str({})"),
    bytes: ("B", "binary({})", "{}"),
    bool: ("BOOL", "{}", "{}"),
}


def unwrap_newtype(hint: Any) -> Any:
    """Return the type behind a NewType. Returns `str` for a Literal of strings, and any other type unchanged."""
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    texts = typing.get_origin(hint) is Literal and all(isinstance(value, str) for value in typing.get_args(hint))
    return str if texts else hint


def unwrap_optional(hint: Any) -> Any:
    """Return X if the type is `X | None`. Return None for any other type."""
    inner = [arg for arg in typing.get_args(hint) if arg is not types.NoneType]
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return inner[0] if union and len(inner) == 1 and len(typing.get_args(hint)) == 2 else None


def decode_expression(hint: Any, value: str, scope: dict[str, Any]) -> str:
    """Return the source of a Python expression that decodes a value of the type `hint`.

    `value`: the source of the expression for the tagged value. Functions that the result calls are added to `scope`.
    """
    hint = unwrap_newtype(hint)
    arguments = typing.get_args(hint)
    if hint in SCALAR_TYPES:
        tag, read, _ = SCALAR_TYPES[hint]
        return read.format(f"{value}[{tag!r}]")
    if inner := unwrap_optional(hint):
        return f"(None if 'NULL' in {value} else {decode_expression(inner, value, scope)})"
    if hint is types.NoneType:
        return f"(None if {value}['NULL'] else None)"
    if is_list(hint):
        return f"tuple([{decode_expression(arguments[0], 'x', scope)} for x in {value}['L']])"
    if is_map(hint):
        return f"{{k: {decode_expression(arguments[1], 'x', scope)} for k, x in {value}['M'].items()}}"
    if isinstance(hint, type) and is_dataclass(hint):
        name = f"read_{len(scope)}"
        scope[name] = compile_decoder(hint)
        return f"{name}({value}['M'])"
    raise TypeError(f"an item cannot contain {hint}")


def encode_expression(hint: Any, value: str, scope: dict[str, Any]) -> str:
    """Return the source of a Python expression that encodes a value of the type `hint` with its tag.

    `value`: the source of the expression for the value. Functions that the result calls are added to `scope`.
    """
    hint = unwrap_newtype(hint)
    arguments = typing.get_args(hint)
    if hint in SCALAR_TYPES:
        tag, _, write = SCALAR_TYPES[hint]
        return f"{{{tag!r}: {write.format(value)}}}"
    if inner := unwrap_optional(hint):
        return f"({{'NULL': True}} if {value} is None else {encode_expression(inner, value, scope)})"
    if hint is types.NoneType:
        return "{'NULL': True}"
    if is_list(hint):
        return f"{{'L': [{encode_expression(arguments[0], 'x', scope)} for x in {value}]}}"
    if is_map(hint):
        return f"{{'M': {{k: {encode_expression(arguments[1], 'x', scope)} for k, x in {value}.items()}}}}"
    if isinstance(hint, type) and is_dataclass(hint):
        name = f"write_{len(scope)}"
        scope[name] = compile_encoder(hint)
        return f"{{'M': {name}({value})}}"
    raise TypeError(f"an item cannot contain {hint}")


def is_list(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple and typing.get_args(hint)[1:] == (...,)


def is_map(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Mapping) and unwrap_newtype(typing.get_args(hint)[0]) is str


def set_element_codec(hint: Any) -> tuple[str, str, str] | None:
    """Return a set's element tag and the expressions that decode and encode an element.

    Returns None if the type is not a set, or is a set that items cannot hold. DynamoDB stores no empty set, so the
    encoder leaves out an empty set and the decoder reads a missing set as empty. This works only for a top-level
    attribute without another default.
    """
    inner = unwrap_newtype(typing.get_args(hint)[0]) if typing.get_origin(hint) is frozenset else None
    return SCALAR_TYPES[inner] if inner in SCALAR_TYPES and inner is not bool else None


def compile_decoder(cls: type[T]) -> Callable[[Image], T]:
    """Compile a function that decodes an image into an instance of `cls`, without __init__ and without loops over
    attributes.

    If an attribute is missing, the field gets its default, None (if optional) or the empty set. The function raises
    Unreadable if an attribute without such a default is missing, or if a value is not of the declared type. Undeclared
    attributes are ignored.
    """
    return cast(Callable[[Image], T], _compile_decoder(cast(Any, cls)))


def compile_lazy_decoder(cls: type[T]) -> Callable[[Image, T | None], T]:
    """Compile a decoder that decodes maps of nested objects on first access. That access may raise UnreadableWithin.

    The second argument of the compiled function is the item's other image (before or after the change), already
    decoded, or None. Maps that are equal in both images are decoded once.
    """
    return cast(Callable[[Image, T | None], T], _compile_decoder(cast(Any, cls), late=True))


@cache
def _compile_decoder(cls: type[Any], late: bool = False) -> Any:
    scope: dict[str, Any] = {
        "new": object.__new__,
        "C": cls,
        "Decimal": Decimal,
        "binary": decode_binary,
        "Late": LazyMap,
    }
    body = [" item = new(C)"]
    hints = typing.get_type_hints(cls)
    for field in fields(cls):
        hint = hints[field.name]
        if elements := set_element_codec(hint) if field.default in (MISSING, frozenset()) else None:
            tag, read_one, _ = elements
            absent, read = "frozenset()", f"frozenset([{read_one.format('x')} for x in v['{tag}S']])"
        else:
            absent, read = "None" if unwrap_optional(hint) else "", decode_expression(hint, "v", scope)
            if late and is_map(hint) and is_dataclass(part := typing.get_args(hint)[1]):
                scope[f"part_{field.name}"] = compile_decoder(cast(Any, part))
                read = f"Late(v['M'], part_{field.name}, twin and twin.{field.name})"
            if field.default is not MISSING:
                absent = f"default_{field.name}"
                scope[absent] = field.default
        if absent:
            body.append(f" if {field.name!r} in image: v = image[{field.name!r}]; item.{field.name} = {read}")
            body.append(f" else: item.{field.name} = {absent}")
        else:
            body.append(f" v = image[{field.name!r}]; item.{field.name} = {read}")
    lines = [f"def read(image{', twin' if late else ''}):", " try:", *[f" {line}" for line in body], "  return item"]
    lines += [" except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:"]
    lines += ["  raise Unreadable(f'{C.__name__}: {error!r}') from error"]
    scope["Unreadable"] = Unreadable
    exec("\n".join(lines), scope)
    return scope["read"]


def compile_encoder(cls: type[T]) -> Callable[[T], dict[str, Any]]:
    """Compile a function that encodes an instance of `cls` as an image.

    The function leaves out each value that the decoder restores if it is missing: an empty set, None, and a zero or
    False that is the field's default.
    """
    return cast(Callable[[T], dict[str, Any]], _compile_encoder(cast(Any, cls)))


@cache
def _compile_encoder(cls: type[Any]) -> Any:
    scope: dict[str, Any] = {}
    body = ["def write(item):", " image = {}"]
    hints = typing.get_type_hints(cls)
    for field in fields(cls):
        hint = hints[field.name]
        body.append(f" v = item.{field.name}")
        if elements := set_element_codec(hint) if field.default in (MISSING, frozenset()) else None:
            tag, _, write_one = elements
            condition, written = " if v:", f"{{'{tag}S': sorted([{write_one.format('x')} for x in v])}}"
        elif unwrap_optional(hint) and field.default in (MISSING, None):
            condition, written = " if v is not None:", encode_expression(unwrap_optional(hint), "v", scope)
        elif hint in (int, bool) and field.default in (0, False):
            condition, written = " if v:", encode_expression(hint, "v", scope)
        else:
            condition, written = "", encode_expression(hint, "v", scope)
        body.append(f"{condition} image[{field.name!r}] = {written}")
    exec("\n".join([*body, " return image"]), scope)
    return scope["write"]
