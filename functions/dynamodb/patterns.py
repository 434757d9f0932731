"""Access patterns as data: each has a description, the item types it reads, and the fields that the caller must give.

This module builds no key text; the rows of the key table do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, get_type_hints

from functions.dynamodb.keys import KEY_ATTRIBUTES, IndexName, KeyTemplate, Row, may_collide

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)
class Get(Generic[T]):
    """An access pattern that reads one item with one strongly consistent GetItem.

    `rows`: the rows of the key table whose items may be stored under that key. `view`: a class with fewer fields; if
    given, only its attributes are read.
    """

    id: str
    description: str
    rows: tuple[Row[Any], ...]
    view: type[T] | None = None

    @property
    def required_fields(self) -> tuple[str, ...]:
        """The names of the fields whose values the caller must give."""
        return tuple(name for half in self.rows[0].templates("main") for name in half.field_names)

    @cached_property
    def view_attributes(self) -> tuple[str, ...]:
        """The names of the attributes to read. Empty if all attributes are read."""
        return tuple(get_type_hints(self.view)) if self.view else ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Query(Generic[T]):
    """An access pattern that reads one partition with one Query request, or one request per shard, merged in key order.

    `rows`: rows of the key table; they define the partition and the prefix of the sort key. If the caller gives values
    for the sort key's first fields, only items with these values are read. `since` and `until` limit the first sort key
    field that is not given.

    `whole_partition`: read all items of the partition. `shards`: the number of partitions that the `shard` field
    distributes items over; all shards are always read. `path_prefix`: the sort key's only field, if that field is a
    path. The caller gives the start of the path, and the query returns all items below that path. `view`: a class with
    fewer fields, for an index that does not contain all attributes.
    """

    id: str
    description: str
    rows: tuple[Row[Any], ...]
    index: IndexName = "main"
    newest_first: bool = True
    consistent: bool = False
    shards: int = 0
    whole_partition: bool = False
    path_prefix: str = ""
    view: type[T] | None = None

    def check(self) -> None:
        """Raise TypeError if the declaration is wrong."""
        partitions = {row.templates(self.index)[0].text for row in self.rows if self.index in row.indexes}
        if len(partitions) != 1 or not all(self.index in row.indexes for row in self.rows):
            raise TypeError(f"{self.id}: its rows must have the same partition key in {self.index}")
        if self.consistent and self.index != "main":
            raise TypeError(f"{self.id}: a query of an index cannot be consistent")
        if self.path_prefix and any(
            row.templates(self.index)[1].field_names != (self.path_prefix,) for row in self.rows
        ):
            raise TypeError(f"{self.id}: the sort key must contain only the field {self.path_prefix}")
        for row in self.rows:
            partition, sort = row.templates(self.index)
            shared = set(partition.field_names) - ({"shard"} if self.shards else set())
            distinguishing_fields = shared | set(
                sort.field_names
            )  # `shard` does not count: a cursor holds only the sort key, for all shards
            if missing := set(row.identity_fields) - distinguishing_fields:
                raise TypeError(
                    f"{self.id}: two {row.type} items could have the same key in {self.index}: add {sorted(missing)}"
                )

    @property
    def key_attributes(self) -> tuple[str, str]:
        """The names of the partition key and sort key attributes of the query's index."""
        return KEY_ATTRIBUTES[self.index]

    @property
    def required_fields(self) -> tuple[str, ...]:
        """The fields that the caller must give. `shard` is not one of them, because all shards are read."""
        partition = tuple(name for name in self.rows[0].templates(self.index)[0].field_names if name != "shard")
        return (*partition, self.path_prefix) if self.path_prefix else partition

    @cached_property
    def view_attributes(self) -> tuple[str, ...]:
        """The names of the attributes of `view`. Empty if the query returns whole items."""
        return tuple(get_type_hints(self.view)) if self.view else ()

    def sort_key_range(self, values: Mapping[str, Any], since: str = "", until: str = "") -> tuple[str, str]:
        """Return the range of sort keys to read: from low (inclusive) to high (exclusive). Both are "" for the whole
        partition.

        Keys look like `…{time}#{id}`. So a bound that is only a time sorts before every key with that time. Raises
        InvalidKeyValue, and TypeError if the access pattern takes no range.
        """
        if self.whole_partition:
            return "", ""
        starts = sorted(row.templates(self.index)[1].render_prefix(values)[0] for row in self.rows)
        if (len(starts) > 1 or self.path_prefix) and (since or until):
            raise TypeError(f"{self.id} supports no time range, because it reads several types or a whole path")
        low, high = starts[0], starts[-1]
        if self.path_prefix:
            return low + LOWEST_SORT_KEY, high + HIGHEST_CHARACTER
        return (low + since) or LOWEST_SORT_KEY, (high + until) if until else high + HIGHEST_CHARACTER


LOWEST_SORT_KEY = (
    " "  # a space sorts before every key, because keys are printable; DynamoDB rejects empty text in a key condition
)
HIGHEST_CHARACTER = "\U0010ffff"  # a prefix followed by this character sorts after every key with that prefix


def overlapping_rows(query: Query[Any], rows: tuple[Row[Any], ...]) -> list[str]:
    """List the item types that a query would also read although the query does not declare them.

    `rows`: all rows of the key table. Such items are in the same partition, and their sort keys are in the query's
    range.
    """
    if query.whole_partition:
        return []
    low, high = query.sort_key_range({})
    partition = query.rows[0].templates(query.index)[0]
    others = [row for row in rows if query.index in row.indexes and row not in query.rows]
    neighbours = [row for row in others if may_collide(row.templates(query.index)[0], partition)]
    return [row.type for row in neighbours if _may_lie_between(row.templates(query.index)[1], low, high)]


def _may_lie_between(sort: KeyTemplate, low: str, high: str) -> bool:
    """Return whether this template could build a sort key from low (inclusive) to high (exclusive)."""
    last = sort.prefix + HIGHEST_CHARACTER if sort.field_names else sort.prefix
    return sort.prefix < high and low <= last


def missing_attributes(pattern: Get[Any] | Query[Any], projected: Mapping[str, tuple[str, ...] | None]) -> list[str]:
    """List the attributes that an access pattern returns although one of its item types, or its index, does not contain
    them.

    `projected`: the names of the attributes in each index, by the index's name; None means all attributes.
    """
    index = projected[pattern.index.upper()] if isinstance(pattern, Query) and pattern.index != "main" else None
    missing: set[str] = set()
    for row in pattern.rows:
        wanted = set(pattern.view_attributes or row.fields)
        missing |= wanted - row.fields.keys()
        if index is not None:
            missing |= (wanted | {"type"} | ({"ttl"} if row.has_ttl else set())) - set(index)
    return sorted(missing)
