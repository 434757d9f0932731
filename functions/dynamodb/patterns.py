"""Declare access patterns: reads that the table answers with one request, or with one for each shard (partition).

A declaration names the rows of model/table.py with the item types to read and their keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, get_type_hints

from functions.dynamodb.keys import KEY_ATTRIBUTES, IndexName, Instant, KeyTemplate, Row, may_collide

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)
class Get(Generic[T]):
    """An access pattern that reads one item with one strongly consistent GetItem. `rows`: the types of item to expect.

    `view`: a class with fewer fields. If it is given, only its attributes are read into it.
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
    """An access pattern that reads a list of items, with one Query request or one request for each shard.

    `rows`: the rows of model/table.py (declarations of item types) to read. They define the partition and the prefix of
    the sort key. The caller may give values for the first fields of the sort key. Then only items with these values are
    read. The caller's `since` and `until` limit the next field of the sort key, usually a time.

    `index`: the index to query; "main" is the table. `consistent`: whether the read is strongly consistent.
    `whole_partition`: whether to read all items of the partition, with any sort key. `shards`: the number of partitions
    over which the `shard` field distributes the items; 0 if all are in one partition. All shards are always read, and
    their results are merged in key order.

    `path_prefix`: the name of the field with a path (such as a category), for a query by path; "" for any other query.
    This field must be the only field of the sort key. The caller gives a path, and the query returns all items below
    this path. `filter_by`: the name of a text field whose value the caller must give, too. DynamoDB reads all items of
    the key range, and charges for all of them, but returns only the items with this value. So use it only if
    the key range has few other items. `view`: a class with fewer fields, for an index that does not contain all
    attributes. If it is given, the results are instances of that class.
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
    filter_by: str = ""
    view: type[T] | None = None

    def check(self) -> None:
        """Raise TypeError if the declaration is wrong, for example if two items could have the same key."""
        partitions = {row.templates(self.index)[0].text for row in self.rows if self.index in row.indexes}
        if len(partitions) != 1 or not all(self.index in row.indexes for row in self.rows):
            raise TypeError(f"{self.id}: its rows must have the same partition key in {self.index}")
        if self.filter_by and any(row.fields.get(self.filter_by) not in (str, str | None) for row in self.rows):
            raise TypeError(f"{self.id}: {self.filter_by} is not a text field of each of its rows")
        if self.consistent and self.index != "main":
            raise TypeError(f"{self.id}: a query of an index cannot be consistent")
        if self.path_prefix and any(
            row.templates(self.index)[1].field_names != (self.path_prefix,) for row in self.rows
        ):
            raise TypeError(f"{self.id}: the sort key must contain only the field {self.path_prefix}")
        for row in self.rows:
            partition, sort = row.templates(self.index)
            # Do not count `shard` (the number of a partition) as a field that distinguishes items. A page of results
            # ends at a sort key, and in each shard the next page starts after this key. If items in two shards had the
            # same sort key and the page ended with one of them, the next page would skip the other item.
            shared = set(partition.field_names) - ({"shard"} if self.shards else set())
            distinguishing_fields = shared | set(sort.field_names)
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
        """The fields whose values the caller must give. `shard` is not one: the query reads all shards."""
        partition = tuple(name for name in self.rows[0].templates(self.index)[0].field_names if name != "shard")
        return (*partition, *(name for name in (self.path_prefix, self.filter_by) if name))

    @cached_property
    def view_attributes(self) -> tuple[str, ...]:
        """The names of the attributes of `view`. Empty if the query returns whole items."""
        return tuple(get_type_hints(self.view)) if self.view else ()

    def sort_key_range(self, values: Mapping[str, Any], since: str = "", until: str = "") -> tuple[str, str]:
        """Return the lowest sort key to read and the key at which to stop; "" and "" for the whole partition.

        `since` is inclusive, and `until` is exclusive. Usually they are times. A sort key with a time also has an id
        after it: `{time}#{id}`. So the time alone sorts before every key with this time. Raises InvalidKeyValue. Raises
        TypeError if `since` or `until` is given, but the access pattern has a `path_prefix`, reads several item types
        whose sort keys begin differently, or needs another value before the time.
        """
        if self.whole_partition:
            return "", ""
        starts = sorted(row.templates(self.index)[1].render_prefix(values)[0] for row in self.rows)
        if since or until:
            if starts[0] != starts[-1] or self.path_prefix:
                raise TypeError(f"{self.id} supports no time range, because it reads several types or a whole path")
            if before := self.field_before_time(values):
                name, time = before
                raise TypeError(
                    f"{self.id} needs {name} for a time range: its sort key has {name} before the time {time}"
                )
        low, high = starts[0], starts[-1]
        if self.path_prefix:
            return low + LOWEST_SORT_KEY, high + HIGHEST_CHARACTER
        return (low + since) or LOWEST_SORT_KEY, (high + until) if until else high + HIGHEST_CHARACTER

    def field_before_time(self, values: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return the first sort key field without a value, and the time field after it; None if there is no such pair.

        With such a pair, the query cannot have a time range: it would apply to the field before the time.
        """
        row = self.rows[0]
        left = [name for name in row.templates(self.index)[1].field_names if name not in values]
        times = [name for name in left if row.fields.get(name) is Instant]
        return (left[0], times[0]) if times and left[0] not in times else None


LOWEST_SORT_KEY = " "
"""The lower limit of a query from the first sort key on. DynamoDB rejects an empty text, and a space sorts first."""
HIGHEST_CHARACTER = "\U0010ffff"  # a prefix followed by this character sorts after every key with that prefix


def overlapping_rows(query: Query[Any], rows: tuple[Row[Any], ...]) -> list[str]:
    """Return the item types in the query's key range that it does not declare. `rows`: all of model/table.py."""
    if query.whole_partition:
        return []
    low, high = query.sort_key_range({})
    partition = query.rows[0].templates(query.index)[0]
    others = [row for row in rows if query.index in row.indexes and row not in query.rows]
    neighbours = [row for row in others if may_collide(row.templates(query.index)[0], partition)]
    return [row.type for row in neighbours if _may_lie_between(row.templates(query.index)[1], low, high)]


def _may_lie_between(sort: KeyTemplate, low: str, high: str) -> bool:
    """Return whether this template could build a sort key between `low` (inclusive) and `high` (exclusive)."""
    last = sort.prefix + HIGHEST_CHARACTER if sort.field_names else sort.prefix
    return sort.prefix < high and low <= last


def missing_attributes(pattern: Get[Any] | Query[Any], projected: Mapping[str, tuple[str, ...] | None]) -> list[str]:
    """Return the attributes that an access pattern needs, but that its item types or its index do not have.

    `projected`: the names of the attributes of each index, such as "GSI1". None means all attributes.
    """
    index = projected[pattern.index.upper()] if isinstance(pattern, Query) and pattern.index != "main" else None
    missing: set[str] = set()
    for row in pattern.rows:
        wanted = set(pattern.view_attributes or row.fields)
        missing |= wanted - row.fields.keys()
        if index is not None:
            missing |= (wanted | {"type"} | ({"ttl"} if row.has_ttl else set())) - set(index)
    return sorted(missing)
