"""Access patterns as data: a description, the rows that are read, and the fields the caller must give. Builds no key
text."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, get_type_hints

from functions.dynamodb.keys import KEY_ATTRIBUTES, IndexName, KeyTemplate, Row, may_collide

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)
class Get(Generic[T]):
    """A pattern that reads one item with one consistent GetItem.

    `rows`: the kinds of item that may be stored under that key. `view`: a class with fewer fields, to read only these.
    """

    id: str
    description: str
    rows: tuple[Row[Any], ...]
    view: type[T] | None = None

    @property
    def required_fields(self) -> tuple[str, ...]:
        """The fields the caller must give."""
        return tuple(name for half in self.rows[0].templates("main") for name in half.field_names)

    @cached_property
    def view_attributes(self) -> tuple[str, ...]:
        """The attributes to read; empty for all."""
        return tuple(get_type_hints(self.view)) if self.view else ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Query(Generic[T]):
    """A pattern that reads one partition with one Query, or one Query per shard, merged in key order.

    The rows define the partition and the prefix of the sort key. Values for the sort key's first fields narrow the
    query; `since` and `until` bound the first field that is not given. `whole_partition`: read all of the partition.
    `shards`: the number of partitions that the rows' `shard` field spreads over; all are always read. `path_prefix`:
    the sort key's only field if it holds a path; the caller gives the beginning of the path and gets everything below
    it. `view`: a class with fewer fields, for an index that does not hold all attributes.
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

    def __post_init__(self) -> None:
        partitions = {row.templates(self.index)[0].text for row in self.rows if self.index in row.indexes}
        if len(partitions) != 1 or not all(self.index in row.indexes for row in self.rows):
            raise TypeError(f"{self.id}: its rows are not of one partition of {self.index}")
        if self.consistent and self.index != "main":
            raise TypeError(f"{self.id}: an index is never read consistently")
        if self.path_prefix and any(
            row.templates(self.index)[1].field_names != (self.path_prefix,) for row in self.rows
        ):
            raise TypeError(f"{self.id}: the sort key does not end with {self.path_prefix} alone")
        for row in self.rows:
            partition, sort = row.templates(self.index)
            shared = set(partition.field_names) - ({"shard"} if self.shards else set())
            distinguishing_fields = shared | set(
                sort.field_names
            )  # cursors identify items by the key parts that all shards share
            if missing := set(row.identity_fields) - distinguishing_fields:
                raise TypeError(f"{self.id}: two {row.type} could share a key of {self.index}: add {sorted(missing)}")

    @property
    def key_attributes(self) -> tuple[str, str]:
        """The names of the index's partition key and sort key attributes."""
        return KEY_ATTRIBUTES[self.index]

    @property
    def required_fields(self) -> tuple[str, ...]:
        """The fields the caller must give. The shard is not one: all shards are read."""
        partition = tuple(name for name in self.rows[0].templates(self.index)[0].field_names if name != "shard")
        return (*partition, self.path_prefix) if self.path_prefix else partition

    @cached_property
    def view_attributes(self) -> tuple[str, ...]:
        """The attributes of the view; empty for all."""
        return tuple(get_type_hints(self.view)) if self.view else ()

    def sort_key_range(self, values: Mapping[str, Any], since: str = "", until: str = "") -> tuple[str, str]:
        """Return the sort keys to read as [low, high); both are "" for the whole partition.

        Keys look like `…{time}#{id}`, so a bound that ends with the time alone sorts before every key at that time.
        Raises InvalidKeyValue, and TypeError if the pattern takes no range.
        """
        if self.whole_partition:
            return "", ""
        starts = sorted(row.templates(self.index)[1].render_prefix(values)[0] for row in self.rows)
        if (len(starts) > 1 or self.path_prefix) and (since or until):
            raise TypeError(f"{self.id} reads several types, or all below a path: it takes no range")
        low, high = starts[0], starts[-1]
        if self.path_prefix:
            return low + LOWEST_SORT_KEY, high + HIGHEST_CHARACTER
        return (low + since) or LOWEST_SORT_KEY, (high + until) if until else high + HIGHEST_CHARACTER


LOWEST_SORT_KEY = (
    " "  # sorts before every key, since keys are printable; DynamoDB does not accept empty text in a key condition
)
HIGHEST_CHARACTER = "\U0010ffff"  # appended to a prefix, it sorts after every text with that prefix


def overlapping_rows(query: Query[Any], rows: tuple[Row[Any], ...]) -> list[str]:
    """List the types of other rows in the same partition that a query would read too."""
    if query.whole_partition:
        return []
    low, high = query.sort_key_range({})
    partition = query.rows[0].templates(query.index)[0]
    others = [row for row in rows if query.index in row.indexes and row not in query.rows]
    neighbours = [row for row in others if may_collide(row.templates(query.index)[0], partition)]
    return [row.type for row in neighbours if _may_lie_between(row.templates(query.index)[1], low, high)]


def _may_lie_between(sort: KeyTemplate, low: str, high: str) -> bool:
    """Return whether a key of this template could sort in [low, high)."""
    last = sort.prefix + HIGHEST_CHARACTER if sort.field_names else sort.prefix
    return sort.prefix < high and low <= last


def missing_attributes(pattern: Get[Any] | Query[Any], projected: Mapping[str, tuple[str, ...] | None]) -> list[str]:
    """List the attributes a pattern returns that one of its rows, or its index, does not hold.

    `projected`: the attributes each index holds, by its name in the table; None for all.
    """
    index = projected[pattern.index.upper()] if isinstance(pattern, Query) and pattern.index != "main" else None
    missing: set[str] = set()
    for row in pattern.rows:
        wanted = set(pattern.view_attributes or row.fields)
        missing |= wanted - row.fields.keys()
        if index is not None:
            missing |= (wanted | {"type"} | ({"ttl"} if row.has_ttl else set())) - set(index)
    return sorted(missing)
