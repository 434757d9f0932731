"""Key templates: declare how the keys of an item are built from its fields.

The template of an index is "partition / sort", for example "CUSTOMER#{customer_id} / ORDER#{placed_at}#{order_id}".
`{name}` stands for a field or a property of the item's class. If its value is None, the item is not in that index.

`Row.check` rejects mistakes in a template: a number without zero padding, a sort key that ends with a time instead of
an id, and a field that does not exist. A value that contains the separator "#" is rejected when the key is built.
"""

import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from typing import Any, Generic, Literal, NewType, TypeVar, cast

from functions.dynamodb.actors import AUDIT
from functions.dynamodb.codec import Image, build_decoder, build_encoder, unwrap_newtype, unwrap_optional

T = TypeVar("T")
Instant = NewType("Instant", str)
"""A UTC time as sortable text of fixed width, with milliseconds: 2026-11-21T09:30:00.000Z."""


def to_instant(moment: datetime) -> Instant:
    """Convert a datetime to an Instant, truncated to milliseconds. Raises ValueError if it has no time zone."""
    if moment.tzinfo is None:
        raise ValueError("the datetime has no time zone")
    return Instant(moment.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z")


MAX_CLOCK_DIFFERENCE = timedelta(minutes=10)
"""How much the clocks of two processes may differ. A change may have an earlier time than the change before it.

AWS rejects the requests of a process whose clock is more than 5 minutes wrong (IAM User Guide, "AWS Signature Version 4
for API requests").
"""


def subtract_clock_difference(at: Instant) -> Instant:
    """Return the earliest time that a change after the time `at` may have, because clocks differ."""
    return to_instant(datetime.fromisoformat(at) - MAX_CLOCK_DIFFERENCE)


def instant_from_epoch(epoch_seconds: int) -> Instant:
    """Convert epoch seconds, such as a ttl, to an Instant."""
    return to_instant(datetime.fromtimestamp(epoch_seconds, UTC))


IndexName = Literal["main", "gsi1", "gsi2", "gsi3"]
INDEXES: tuple[IndexName, ...] = ("main", "gsi1", "gsi2", "gsi3")
KEY_ATTRIBUTES: Mapping[IndexName, tuple[str, str]] = {
    "main": ("PK", "SK"),
    "gsi1": ("GSI1PK", "GSI1SK"),
    "gsi2": ("GSI2PK", "GSI2SK"),
    "gsi3": ("GSI3PK", "GSI3SK"),
}
RESERVED_ATTRIBUTES = {"type", "schema", AUDIT, *(name for pair in KEY_ATTRIBUTES.values() for name in pair)}
SEPARATOR = "#"
NOBODY = "nobody"
"""The `owner` of a row (`Row.owner`) whose items hold no customer's personal data."""
Erasure = Literal["none", "delete", "clear", "keep", "copy"]


class InvalidKeyValue(ValueError):
    """A value cannot be part of a key: it is empty, has an unprintable character or the separator "#", or a wrong
    number.

    A "#" could forge another item's key. A number that is negative or too long for its zero padding would not sort.
    """

    def __init__(self, name: str, value: object) -> None:
        super().__init__(f"{name} must not be empty, too long, or contain '{SEPARATOR}' or unprintable characters")
        self.name, self.value = name, value


@dataclass(frozen=True)
class KeyTemplate:
    """The template of a partition key or a sort key: fixed text and fields, such as `ORDER#{placed_at}#{order_id}`."""

    text: str

    def check(self) -> None:
        """Raise TypeError if the template is empty or malformed, or has two fields without a "#" between them."""
        if not self.text or not all(re.fullmatch(r"[^{}]*({\w+(:\w+)?}[^{}]*)?", part) for part in self.segments):
            raise TypeError(f"'{self.text}': each part of a key template can have at most one field")

    @cached_property
    def field_names(self) -> tuple[str, ...]:
        return tuple(re.findall(r"{(\w+)", self.text))

    @cached_property
    def prefix(self) -> str:
        """The fixed text before the first field of the key template; the whole text if the template has no field."""
        return self.text.partition("{")[0]

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """The pieces of the template between the "#". Each has at most one field, and no value contains "#"."""
        return tuple(self.text.split(SEPARATOR))

    @cached_property
    def format_specs(self) -> dict[str, str]:
        """The format specification of each field by name, for example {"number": "03"}. It is "" for a text field."""
        return {name: spec for _, name, spec in self._tokens if name}

    @cached_property
    def _tokens(self) -> list[tuple[str, str, str]]:
        """The template as a list of (fixed text, name of the field after it or "", format of this field or "")."""
        found = re.findall(r"([^{]*)(?:{(\w+)(?::(\w+))?})?", self.text)
        return [(text, name, spec) for text, name, spec in found if text or name]

    def render(self, values: Mapping[str, Any]) -> str:
        """Return the key text. Raises InvalidKeyValue for a wrong value, and TypeError for a missing one."""
        text, missing = self.render_prefix(values)
        if missing:
            raise TypeError(f"{self.text} needs {missing}")
        return text

    def render_prefix(self, values: Mapping[str, Any]) -> tuple[str, str]:
        """Return the key text up to the first field that `values` lacks, and its name or "". Raises InvalidKeyValue."""
        spelled: list[str] = []
        for fixed, name, spec in self._tokens:
            spelled.append(fixed)
            if not name:
                continue
            if name not in values:
                return "".join(spelled), name
            value = format(values[name], spec)
            if not value or SEPARATOR in value or not value.isprintable() or (spec and not _fits_padding(value, spec)):
                raise InvalidKeyValue(name, values[name])
            spelled.append(value)
        return "".join(spelled), ""


def _fits_padding(number: str, spec: str) -> bool:
    """Return whether a formatted number is not negative and has the padded width, so that it sorts as text."""
    return len(number) == int(spec.rstrip("d")) and number.isdecimal()


@dataclass(frozen=True, eq=False)
class Row(Generic[T]):
    """A row of model/table.py: the declaration of one type of item, with its class, its keys, and who writes it.

    `entity`: the class of the items. `main`, `gsi1`, `gsi2`, `gsi3`: the key templates of the table and of its indexes,
    each "partition / sort"; "" if the items are not in that index. `written_by`: the Lambdas or tools that write the
    items, for the documentation.

    `kind`: commands write a "primary" item. A "snapshot", "log" or "counter" item is derived from primary items, so a
    repair can derive it again. A "marker" item records that an action was done.

    `replaces`: the row of another item type with the same key. Items of this row overwrite items of that row. For
    example, an ArchivedOrder overwrites its Order. `created_field`: the field with the creation time. It distinguishes
    an item from a deleted item that had the same key. `schema`: the schema version that is stored with each item.

    `unique_fields`: fields that are enough to identify an item, although its primary key has more fields. For example,
    an invoice is identified by `invoice_id`, and its primary key also has `order_id`. If empty, an item is identified
    by all fields of its primary key. An index key that a query uses must contain the identifying fields.

    `owner`: the field that leads to the customer whose data the item has, such as `customer_id` or `order_id`; NOBODY
    if the item has no customer's data. `personal`: the attributes that identify the customer, or that the customer
    wrote; () if the item has only ids, amounts and states. `purpose`: why the item is kept; for NOBODY, why an item
    with a customer's id belongs to no customer. `on_erasure`: the effect of the customer's erasure on the item:
    "delete" (the default if there are personal attributes), "clear" these attributes, "keep" the item as the law
    requires, "copy" if the item is a snapshot that loses them with its source, or "none". Erasure, export and
    docs/pages/personal_data.py follow from these fields.

    Items that older code wrote may have earlier names until they are migrated. `former_types`: earlier names of the
    item type. `former_names`: {attribute: earlier name}. `former_values`: {attribute: {earlier text: present text}}.
    `current_form` and every decoder replace the earlier names and texts. But a conditional update by attribute name
    (`add_with_minimum`, `copy_attributes`) does not find an earlier name. So do not rename an attribute that such an
    update uses.
    """

    entity: type[T]
    main: str
    gsi1: str = ""
    gsi2: str = ""
    gsi3: str = ""
    written_by: str = "api"
    kind: Literal["primary", "snapshot", "log", "counter", "marker"] = "primary"
    replaces: "Row[Any] | None" = None
    created_field: str = "created_at"
    unique_fields: tuple[str, ...] = ()
    schema: int = 1
    owner: str = ""
    personal: tuple[str, ...] | None = None
    purpose: str = ""
    on_erasure: Erasure | None = None
    former_types: tuple[str, ...] = ()
    former_names: Mapping[str, str] = field(default_factory=dict)
    former_values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def check(self) -> None:
        """Raise TypeError if the declaration of the item type is wrong, for example if a key names an unknown field."""
        if not self.main:
            raise TypeError(f"{self.type} has no key")
        if clash := RESERVED_ATTRIBUTES & self.fields.keys():
            raise TypeError(f"{self.type} must not declare the reserved attributes {sorted(clash)}")
        if self.kind == "primary" and not {"version", self.created_field} <= self.fields.keys():
            raise TypeError(f"{self.type} is a primary, so it needs the fields version and {self.created_field}")
        for index in self.indexes:
            self._check_index(index)
        self._check_owner()
        self._check_former_names()

    def _check_former_names(self) -> None:
        if unknown := sorted({*self.former_names, *self.former_values} - self.fields.keys()):
            raise TypeError(f"{self.type} has no fields {unknown}, which former_names or former_values names")
        if clash := sorted({*self.former_names.values()} & (self.fields.keys() | RESERVED_ATTRIBUTES)):
            raise TypeError(f"{self.type} has the fields {clash}, so they cannot be former names of other fields")

    def _check_owner(self) -> None:
        """Raise TypeError if the row does not say whose personal data its items hold, or contradicts itself."""
        if not self.owner:
            raise TypeError(
                f"{self.type} does not say whose personal data it holds: add owner='customer_id', personal=(...) and "
                "purpose='...', or owner=NOBODY if it holds none"
            )
        if self.owner == NOBODY:
            if self.on_erasure == "copy" and self.kind == "snapshot":
                self._check_personal(self.personal or ())
            elif self.personal or self.on_erasure:
                raise TypeError(f"{self.type} has owner=NOBODY: name the owner of its personal data, or leave it out")
            if "customer_id" in self.fields and not self.purpose:
                raise TypeError(f"{self.type} has a customer_id but owner=NOBODY: say why in purpose='...', or name it")
            return
        if self.owner not in self.fields:
            raise TypeError(f"{self.type} has no field {self.owner}, which its owner names")
        if self.personal is None:
            raise TypeError(f"{self.type} does not say which of its attributes are personal: add personal=(...)")
        if not self.purpose:
            raise TypeError(f"{self.type} does not say why it is kept: add purpose='...'")
        self._check_personal(self.personal)

    def _check_personal(self, personal: tuple[str, ...]) -> None:
        if unknown := sorted(set(personal) - self.fields.keys()):
            raise TypeError(f"{self.type} has no fields {unknown}, which personal names")
        if personal and "customer_id" not in self.fields and self.erasure != "copy":
            raise TypeError(f"{self.type} has personal attributes, so it needs the field customer_id to be found by")
        if personal and self.erasure == "none":
            raise TypeError(f"{self.type} has personal attributes, so on_erasure cannot be 'none'")
        in_keys = {name for index in self.indexes for half in self.templates(index) for name in half.field_names}
        if shown := [name for name in personal if name in in_keys and not name.endswith("_hash")]:
            raise TypeError(f"{self.type}: {shown} must not be in a key, because keys reach logs: use a hash of it")
        if self.erasure in ("delete", "clear") and "version" not in self.fields:
            raise TypeError(f"{self.type} is erased by a conditional write, so it needs the field version")
        if self.erasure == "clear":
            if self.kind != "primary" or not personal:
                raise TypeError(f"{self.type}: only personal attributes of a primary can be cleared")
            if needed := [name for name in personal if not unwrap_optional(self.fields[name])]:
                raise TypeError(f"{self.type}: {needed} can be cleared only if they may be None")

    @property
    def erasure(self) -> Erasure:
        """The effect that the erasure of the customer has on the item: see `on_erasure`."""
        return self.on_erasure or ("delete" if self.personal else "none")

    def _check_index(self, index: IndexName) -> None:
        if getattr(self, index).count(" / ") != 1:
            raise TypeError(f"{self.type}.{index} must have the form 'partition / sort'")
        for half in self.templates(index):
            half.check()
            for name, spec in half.format_specs.items():
                self._check_field(index, name, spec)
        for last in self.templates(index)[1].field_names[-1:]:
            if Instant in (self._field_type(last), unwrap_optional(self._field_type(last))):
                raise TypeError(
                    f"{self.type}.{index}: two items with the same {last} would have the same key: add an id after it"
                )

    def _check_field(self, index: IndexName, name: str, spec: str) -> None:
        hint = self._field_type(name)
        if index == "main" and unwrap_optional(hint):
            raise TypeError(f"{self.type}.main: {name} may be None, but every item needs a primary key")
        stored_type = unwrap_newtype(unwrap_optional(hint) or hint)
        if stored_type not in (str, int):
            raise TypeError(f"{self.type}.{index}: {name} must be text or a whole number")
        if stored_type is int and not re.fullmatch(r"0\d+d?", spec):
            raise TypeError(
                f"{self.type}.{index}: the number {name} needs a zero-padded format, or its keys would not sort"
            )
        if stored_type is str and spec:
            raise TypeError(f"{self.type}.{index}: {name} is text and must not have a format")

    def _field_type(self, name: str) -> Any:
        """Return the declared type of a field or property of the item's class. Raises TypeError for other names."""
        attribute = getattr(self.entity, name, None)
        if name in self.fields:
            return self.fields[name]
        if isinstance(attribute, property):
            return typing.get_type_hints(attribute.fget).get("return")
        raise TypeError(f"{self.type} has no {name}")

    @property
    def type(self) -> str:
        return self.entity.__name__

    @property
    def types(self) -> tuple[str, ...]:
        """The type that new items have, and the types that stored items may still have."""
        return self.type, *self.former_types

    def current_form(self, image: Image) -> Image:
        """Return an image with its type, attribute names and texts as this code writes them.

        If an image has both names of an attribute, the value under the former name is dropped.
        """
        if renamed := {name: image[former] for name, former in self.former_names.items() if former in image}:
            dropped = {*self.former_names.values()}
            image = renamed | {name: value for name, value in image.items() if name not in dropped}
        texts = {"type": dict.fromkeys(self.former_types, self.type), **self.former_values}
        changed = {
            name: {"S": text}
            for name, current in texts.items()
            for former, text in current.items()
            if image.get(name) == {"S": former}
        }
        return {**image, **changed} if changed else image

    @property
    def _has_former_form(self) -> bool:
        return bool(self.former_types or self.former_names or self.former_values)

    @cached_property
    def fields(self) -> dict[str, Any]:
        hints = typing.get_type_hints(self.entity)
        return {field.name: hints[field.name] for field in fields(cast(Any, self.entity))}

    @cached_property
    def indexes(self) -> tuple[IndexName, ...]:
        """The names of the indexes that can contain items of this type. "main" is the table itself."""
        return tuple(index for index in INDEXES if getattr(self, index))

    @cached_property
    def identity_fields(self) -> tuple[str, ...]:
        """The names of the fields that identify an item: `unique_fields`, or else all fields of the primary key."""
        return self.unique_fields or tuple(name for half in self.templates("main") for name in half.field_names)

    @property
    def has_ttl(self) -> bool:
        """Whether items of this type expire at their `ttl` (epoch seconds)."""
        return "ttl" in self.fields

    def templates(self, index: IndexName) -> tuple[KeyTemplate, KeyTemplate]:
        """Return the templates of the partition key and the sort key that items of this type have in an index."""
        partition, sort = getattr(self, index).split(" / ")
        return parse_key_template(partition), parse_key_template(sort)

    @cached_property
    def decode(self) -> Callable[[Image], T]:
        """A function that decodes an image (an item in DynamoDB's JSON) into an `entity`. It raises Unreadable."""
        decode = build_decoder(self.entity)
        return (lambda image: decode(self.current_form(image))) if self._has_former_form else decode

    @cached_property
    def _index_templates(self) -> list[tuple[str, str, KeyTemplate, KeyTemplate, set[str]]]:
        parts = [(KEY_ATTRIBUTES[index], self.templates(index)) for index in self.indexes]
        return [(pk, sk, one, two, {*one.field_names, *two.field_names}) for (pk, sk), (one, two) in parts]

    def encode(self, item: T) -> dict[str, Any]:
        """Return the image of an item, with all its keys, its type and its schema version. Raises InvalidKeyValue."""
        image = build_encoder(self.entity)(item)
        for pk, sk, partition, sort, names in self._index_templates:
            known = {name: getattr(item, name) for name in names}
            if None not in known.values():
                image[pk] = {"S": partition.render(known)}
                image[sk] = {"S": sort.render(known)}
        image["type"] = {"S": self.type}
        image["schema"] = {"N": str(self.schema)}
        return image

    def key(self, **known: Any) -> dict[str, Any]:
        """Return the primary key of these values, {"PK": {"S": ...}, "SK": {"S": ...}}. Raises InvalidKeyValue."""
        partition, sort = self.templates("main")
        return {"PK": {"S": partition.render(known)}, "SK": {"S": sort.render(known)}}

    def key_of(self, item: T) -> dict[str, Any]:
        """Return the primary key of an item, in DynamoDB's JSON."""
        names = {name for half in self.templates("main") for name in half.field_names}
        return self.key(**{name: getattr(item, name) for name in names})


@cache
def parse_key_template(text: str) -> KeyTemplate:
    """Return the KeyTemplate of a template text. Cached: each text is parsed once."""
    return KeyTemplate(text)


def key_conflicts(rows: tuple[Row[Any], ...]) -> list[str]:
    """Return the conflicts between rows: the same item type, or templates that could build the same key.

    If one row `replaces` the other, as ArchivedOrder replaces Order, they may have the same key.
    """
    conflicts = []
    seen: dict[str, Row[Any]] = {}
    for row in rows:
        conflicts += [f"two rows for {name}" for name in row.types if name in seen]
        seen |= dict.fromkeys(row.types, row)
    for index in INDEXES:
        used = [row for row in rows if index in row.indexes]
        for number, row in enumerate(used):
            for other in used[:number]:
                shares_key = row.replaces is other or other.replaces is row
                if not shares_key and all(map(may_collide, row.templates(index), other.templates(index))):
                    conflicts.append(f"{row.type} and {other.type} could have the same key in {index}")
    return conflicts


def may_collide(one: KeyTemplate, two: KeyTemplate) -> bool:
    """Return whether two key templates could build the same text, piece by piece, because no value contains a "#"."""
    return len(one.segments) == len(two.segments) and all(map(_segments_may_collide, one.segments, two.segments))


def _segments_may_collide(one: str, two: str) -> bool:
    if "{" not in one and "{" not in two:
        return one == two
    (front, back), (other_front, other_back) = _fixed_ends(one), _fixed_ends(two)
    fronts = front.startswith(other_front) or other_front.startswith(front)
    return fronts and (back.endswith(other_back) or other_back.endswith(back))


def _fixed_ends(part: str) -> tuple[str, str]:
    """Return the fixed text before and after the field in a piece of a key template; a piece without field twice."""
    return part.partition("{")[0], part.rpartition("}")[2]
