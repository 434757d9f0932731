"""Key templates: how an item's keys are spelled from its fields, checked when the declaring module is imported.

A template is "partition / sort"; `{name}` is a field or a property of the entity. Where a property is None the item is
not in that index. What makes a key wrong in ways nobody sees until later is refused at import: an unpadded number, a
time with no id behind it, a name that does not exist; and when a key is made: a value that holds the separator.
"""

import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import Any, Generic, Literal, NewType, TypeVar, cast

from functions.dynamodb.images import Image, glance, optional, plain, reader, writer

T = TypeVar("T")
Instant = NewType("Instant", str)
"""A moment as text that sorts: UTC, fixed width, milliseconds: 2026-11-21T09:30:00.000Z."""


def instant(moment: datetime) -> Instant:
    """A moment as the table keeps it; finer than a millisecond is cut off. Raises ValueError without a time zone."""
    if moment.tzinfo is None:
        raise ValueError("a moment without a time zone would be another one on another machine")
    return Instant(moment.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z")


def instant_of(epoch_seconds: int) -> Instant:
    """The moment of an epoch second, such as a ttl."""
    return instant(datetime.fromtimestamp(epoch_seconds, UTC))


Index = Literal["main", "gsi1", "gsi2", "gsi3"]
INDEXES: tuple[Index, ...] = ("main", "gsi1", "gsi2", "gsi3")
ATTRIBUTES: Mapping[Index, tuple[str, str]] = {
    "main": ("PK", "SK"),
    "gsi1": ("GSI1PK", "GSI1SK"),
    "gsi2": ("GSI2PK", "GSI2SK"),
    "gsi3": ("GSI3PK", "GSI3SK"),
}
RESERVED = {"type", "schema", *(name for pair in ATTRIBUTES.values() for name in pair)}
SEPARATOR = "#"


class BadKey(ValueError):
    """A value that cannot stand in a key: it is empty, or it holds the separator and would forge another item's key,
    or a character that cannot be printed, or it is a number that its padding does not hold and so would not sort."""

    def __init__(self, name: str, value: object) -> None:
        super().__init__(f"{name} cannot stand in a key: it is empty, does not fit, or holds '{SEPARATOR}' or the like")
        self.name, self.value = name, value


@dataclass(frozen=True)
class Template:
    """Half a key: fixed text and the fields between, `ORDER#{placed_at}#{order_id}`."""

    text: str

    def __post_init__(self) -> None:
        if not self.text or not all(re.fullmatch(r"[^{}]*({\w+(:\w+)?}[^{}]*)?", part) for part in self.parts):
            raise TypeError(f"'{self.text}': a part of a key is fixed text around one field at most")

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(re.findall(r"{(\w+)", self.text))

    @cached_property
    def prefix(self) -> str:
        """The fixed text before the first field."""
        return self.text.partition("{")[0]

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """What stands between the separators. With one field in each at most, no two items spell the same key."""
        return tuple(self.text.split(SEPARATOR))

    @cached_property
    def specs(self) -> dict[str, str]:
        """How each field is formatted; "": as it is."""
        return {name: spec for _, name, spec in self._pieces if name}

    @cached_property
    def _pieces(self) -> list[tuple[str, str, str]]:  # (fixed text, field, format) in turn
        found = re.findall(r"([^{]*)(?:{(\w+)(?::(\w+))?})?", self.text)
        return [(text, name, spec) for text, name, spec in found if text or name]

    def spell(self, known: Mapping[str, Any]) -> str:
        """The key text; raises BadKey."""
        text, missing = self.begin(known)
        if missing:
            raise TypeError(f"{self.text} needs {missing}")
        return text

    def begin(self, known: Mapping[str, Any]) -> tuple[str, str]:
        """As much of the key as the known values spell, and the name of the first field that is not known, or ""."""
        spelled: list[str] = []
        for fixed, name, spec in self._pieces:
            spelled.append(fixed)
            if not name:
                continue
            if name not in known:
                return "".join(spelled), name
            value = format(known[name], spec)
            if not value or SEPARATOR in value or not value.isprintable() or (spec and not _fits(value, spec)):
                raise BadKey(name, known[name])
            spelled.append(value)
        return "".join(spelled), ""


def _fits(number: str, spec: str) -> bool:
    """Whether a padded number is as wide as all others, and not negative: only so does it sort."""
    return len(number) == int(spec.rstrip("d")) and number.isdecimal()


@dataclass(frozen=True, eq=False)
class Row(Generic[T]):
    """One kind of item of the table: its entity, its keys, and who writes it.

    `kind`: a primary is written by commands; a snapshot, log or counter is derived from primaries and repairable.
    `unique`: the fields that alone tell two items of this row apart, where that is less than the whole key.
    `replaces`: the row whose place in the table this one takes (the stub an archived order leaves).
    `since`: the field that tells one life of a key from the next.
    """

    entity: type[T]
    main: str
    gsi1: str = ""
    gsi2: str = ""
    gsi3: str = ""
    by: str = "api"
    kind: Literal["primary", "snapshot", "log", "counter", "marker"] = "primary"
    replaces: "Row[Any] | None" = None
    since: str = "created_at"
    unique: tuple[str, ...] = ()
    schema: int = 1

    def __post_init__(self) -> None:
        if not self.main:
            raise TypeError(f"{self.type} has no key")
        if clash := RESERVED & self.fields.keys():
            raise TypeError(f"{self.type} declares {sorted(clash)}, which the table keeps for itself")
        if self.kind == "primary" and not {"version", self.since} <= self.fields.keys():
            raise TypeError(f"{self.type} is a primary: it needs version and {self.since}")
        for index in self.indexes:
            self._check(index)

    def _check(self, index: Index) -> None:
        if getattr(self, index).count(" / ") != 1:
            raise TypeError(f"{self.type}.{index} is not 'partition / sort'")
        for half in self.templates(index):
            for name, spec in half.specs.items():
                self._check_field(index, name, spec)
        for last in self.templates(index)[1].names[-1:]:
            if Instant in (self._hint(last), optional(self._hint(last))):
                raise TypeError(f"{self.type}.{index}: two items at one {last} would be one; put an id behind it")

    def _check_field(self, index: Index, name: str, spec: str) -> None:
        hint = self._hint(name)
        if index == "main" and optional(hint):
            raise TypeError(f"{self.type}.main: {name} may be None, but every item has a key")
        kept_as = plain(optional(hint) or hint)
        if kept_as not in (str, int):
            raise TypeError(f"{self.type}.{index}: {name} is neither text nor a whole number")
        if kept_as is int and not re.fullmatch(r"0\d+d?", spec):
            raise TypeError(f"{self.type}.{index}: the number {name} is not padded, so it would not sort")
        if kept_as is str and spec:
            raise TypeError(f"{self.type}.{index}: {name} is text, which takes no format")

    def _hint(self, name: str) -> Any:
        """The declared type of a field or property."""
        attribute = getattr(self.entity, name, None)
        if name in self.fields:
            return self.fields[name]
        if isinstance(attribute, property):
            return typing.get_type_hints(attribute.fget).get("return")
        raise TypeError(f"{self.type} has no {name}")

    @property
    def type(self) -> str:
        return self.entity.__name__

    @cached_property
    def fields(self) -> dict[str, Any]:
        hints = typing.get_type_hints(self.entity)
        return {field.name: hints[field.name] for field in fields(cast(Any, self.entity))}

    @cached_property
    def indexes(self) -> tuple[Index, ...]:
        """Where an item of this row can be found."""
        return tuple(index for index in INDEXES if getattr(self, index))

    @cached_property
    def identity(self) -> tuple[str, ...]:
        """The fields that tell two items of this row apart."""
        return self.unique or tuple(name for half in self.templates("main") for name in half.names)

    @property
    def expires(self) -> bool:
        """Whether items of this row end by themselves, at their `ttl` (epoch seconds)."""
        return "ttl" in self.fields

    def templates(self, index: Index) -> tuple[Template, Template]:
        """The partition's and the sort key's template in this index."""
        partition, sort = getattr(self, index).split(" / ")
        return template(partition), template(sort)

    @cached_property
    def read(self) -> Callable[[Image], T]:
        """Image → item; raises images.Unreadable."""
        return reader(self.entity)

    @cached_property
    def glance(self) -> Callable[[Image, T | None], T]:
        """The same for a moment's look: see images.glance."""
        return glance(self.entity)

    @cached_property
    def _keys(self) -> list[tuple[str, str, Template, Template, set[str]]]:
        parts = [(ATTRIBUTES[index], self.templates(index)) for index in self.indexes]
        return [(pk, sk, one, two, {*one.names, *two.names}) for (pk, sk), (one, two) in parts]

    def write(self, item: T) -> dict[str, Any]:
        """Item → image with all its keys, its type and its schema version; raises BadKey."""
        image = writer(self.entity)(item)
        for pk, sk, partition, sort, names in self._keys:
            known = {name: getattr(item, name) for name in names}
            if None not in known.values():
                image[pk] = {"S": partition.spell(known)}
                image[sk] = {"S": sort.spell(known)}
        image["type"] = {"S": self.type}
        image["schema"] = {"N": str(self.schema)}
        return image

    def key(self, **known: Any) -> dict[str, Any]:
        """The primary key of the item with these field values, tagged; raises BadKey."""
        partition, sort = self.templates("main")
        return {"PK": {"S": partition.spell(known)}, "SK": {"S": sort.spell(known)}}

    def key_of(self, item: T) -> dict[str, Any]:
        """The primary key of an item, tagged."""
        names = {name for half in self.templates("main") for name in half.names}
        return self.key(**{name: getattr(item, name) for name in names})


@cache
def template(text: str) -> Template:
    """The template of this text, parsed once."""
    return Template(text)


def crowded(rows: tuple[Row[Any], ...]) -> list[str]:
    """What is wrong between rows: the types that two rows share, and the keys that two rows could both spell."""
    wrong = []
    seen: dict[str, Row[Any]] = {}
    for row in rows:
        if row.type in seen:
            wrong.append(f"two rows for {row.type}")
        seen[row.type] = row
    for index in INDEXES:
        used = [row for row in rows if index in row.indexes]
        for number, row in enumerate(used):
            for other in used[:number]:
                same_place = row.replaces is other or other.replaces is row
                if not same_place and all(map(alike, row.templates(index), other.templates(index))):
                    wrong.append(f"{row.type} and {other.type} could spell the same key of {index}")
    return wrong


def alike(one: Template, two: Template) -> bool:
    """Whether two templates could spell the same text: no value holds the separator, so they must meet part by part."""
    return len(one.parts) == len(two.parts) and all(map(_meet, one.parts, two.parts))


def _meet(one: str, two: str) -> bool:
    if "{" not in one and "{" not in two:
        return one == two
    (front, back), (other_front, other_back) = _ends(one), _ends(two)
    fronts = front.startswith(other_front) or other_front.startswith(front)
    return fronts and (back.endswith(other_back) or other_back.endswith(back))


def _ends(part: str) -> tuple[str, str]:
    """The fixed text before and behind a part's field; of fixed text, all of it."""
    return part.partition("{")[0], part.rpartition("}")[2]
