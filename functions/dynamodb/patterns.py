"""Access patterns as data: a question, the rows that answer it, and what the asker knows. No key is spelled here."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, get_type_hints

from functions.dynamodb.keys import KEY_ATTRIBUTES, IndexName, KeyTemplate, Row, may_collide

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)
class Get(Generic[T]):
    """A question about one item, answered by one consistent GetItem.

    `rows`: the kinds of item that may lie at that key. `view`: a class of fewer fields, when only these are asked for.
    """

    id: str
    description: str
    rows: tuple[Row[Any], ...]
    view: type[T] | None = None

    @property
    def required_fields(self) -> tuple[str, ...]:
        """What the asker must give."""
        return tuple(name for half in self.rows[0].templates("main") for name in half.field_names)

    @cached_property
    def view_attributes(self) -> tuple[str, ...]:
        """The attributes asked for; empty: all."""
        return tuple(get_type_hints(self.view)) if self.view else ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Query(Generic[T]):
    """A question that one Query of one partition answers, or one Query per shard, merged in key order.

    The partition and the sort key's prefix are the rows' own; what the asker knows of the sort key's first fields
    narrows it, and a range asks for [since, until) of the first field that is not known. `whole`: all of the partition.
    `shards`: how many partitions the rows' `shard` field spreads over; all are always read.
    `below`: the sort key's only field where that is a path: the asker knows its beginning, and wants all that goes on
    from there. `view`: a class of fewer fields, for an index that does not hold all.
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
            )  # the cursor tells items apart by what all shards share
            if missing := set(row.identity_fields) - distinguishing_fields:
                raise TypeError(f"{self.id}: two {row.type} could share a key of {self.index}: add {sorted(missing)}")

    @property
    def key_attributes(self) -> tuple[str, str]:
        """The index's partition and sort attribute."""
        return KEY_ATTRIBUTES[self.index]

    @property
    def required_fields(self) -> tuple[str, ...]:
        """What the asker must give; the shard is nobody's to know."""
        partition = tuple(name for name in self.rows[0].templates(self.index)[0].field_names if name != "shard")
        return (*partition, self.path_prefix) if self.path_prefix else partition

    @cached_property
    def view_attributes(self) -> tuple[str, ...]:
        """The attributes of the view; empty: all."""
        return tuple(get_type_hints(self.view)) if self.view else ()

    def sort_key_range(self, values: Mapping[str, Any], since: str = "", until: str = "") -> tuple[str, str]:
        """The lowest sort key asked for and the first beyond it: [low, high), both "" for the whole partition.

        Raises BadKey. A key below `until` is `…{time}#{id}`, so text that ends in the time itself is the first beyond.
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
    " "  # sorts before every key, since keys hold what can be printed; DynamoDB compares a key with no empty text
)
HIGHEST_CHARACTER = "\U0010ffff"  # sorts behind every text that goes on from a prefix


def overlapping_rows(query: Query[Any], rows: tuple[Row[Any], ...]) -> list[str]:
    """The rows of the same partition that a query would read too, though it does not name them."""
    if query.whole_partition:
        return []
    low, high = query.sort_key_range({})
    partition = query.rows[0].templates(query.index)[0]
    others = [row for row in rows if query.index in row.indexes and row not in query.rows]
    neighbours = [row for row in others if may_collide(row.templates(query.index)[0], partition)]
    return [row.type for row in neighbours if _may_lie_between(row.templates(query.index)[1], low, high)]


def _may_lie_between(sort: KeyTemplate, low: str, high: str) -> bool:
    """Whether a key of this template could lie in [low, high)."""
    last = sort.prefix + HIGHEST_CHARACTER if sort.field_names else sort.prefix
    return sort.prefix < high and low <= last


def missing_attributes(pattern: Get[Any] | Query[Any], projected: Mapping[str, tuple[str, ...] | None]) -> list[str]:
    """The attributes a pattern would show that one of its rows, or its index, does not hold.

    `projected`: the attributes each index holds, by its name in the table; None: all.
    """
    index = projected[pattern.index.upper()] if isinstance(pattern, Query) and pattern.index != "main" else None
    missing: set[str] = set()
    for row in pattern.rows:
        wanted = set(pattern.view_attributes or row.fields)
        missing |= wanted - row.fields.keys()
        if index is not None:
            missing |= (wanted | {"type"} | ({"ttl"} if row.has_ttl else set())) - set(index)
    return sorted(missing)
