"""Access patterns as data: a question, the rows that answer it, and what the asker knows. No key is spelled here."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, get_type_hints

from functions.dynamodb.keys import ATTRIBUTES, Index, Row, Template, alike

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)
class Get(Generic[T]):
    """A question about one item, answered by one consistent GetItem.

    `rows`: the kinds of item that may lie at that key. `view`: a class of fewer fields, when only these are asked for.
    """

    id: str
    question: str
    rows: tuple[Row[Any], ...]
    view: type[T] | None = None

    @property
    def known(self) -> tuple[str, ...]:
        """What the asker must give."""
        return tuple(name for half in self.rows[0].templates("main") for name in half.names)

    @cached_property
    def viewed(self) -> tuple[str, ...]:
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
    question: str
    rows: tuple[Row[Any], ...]
    index: Index = "main"
    newest_first: bool = True
    consistent: bool = False
    shards: int = 0
    whole: bool = False
    below: str = ""
    view: type[T] | None = None

    def __post_init__(self) -> None:
        partitions = {row.templates(self.index)[0].text for row in self.rows if self.index in row.indexes}
        if len(partitions) != 1 or not all(self.index in row.indexes for row in self.rows):
            raise TypeError(f"{self.id}: its rows are not of one partition of {self.index}")
        if self.consistent and self.index != "main":
            raise TypeError(f"{self.id}: an index is never read consistently")
        if self.below and any(row.templates(self.index)[1].names != (self.below,) for row in self.rows):
            raise TypeError(f"{self.id}: the sort key does not end with {self.below} alone")
        for row in self.rows:
            partition, sort = row.templates(self.index)
            shared = set(partition.names) - ({"shard"} if self.shards else set())
            spelled = shared | set(sort.names)  # the cursor tells items apart by what all shards share
            if missing := set(row.identity) - spelled:
                raise TypeError(f"{self.id}: two {row.type} could share a key of {self.index}: add {sorted(missing)}")

    @property
    def names(self) -> tuple[str, str]:
        """The index's partition and sort attribute."""
        return ATTRIBUTES[self.index]

    @property
    def known(self) -> tuple[str, ...]:
        """What the asker must give; the shard is nobody's to know."""
        partition = tuple(name for name in self.rows[0].templates(self.index)[0].names if name != "shard")
        return (*partition, self.below) if self.below else partition

    @cached_property
    def viewed(self) -> tuple[str, ...]:
        """The attributes of the view; empty: all."""
        return tuple(get_type_hints(self.view)) if self.view else ()

    def bounds(self, known: Mapping[str, Any], since: str = "", until: str = "") -> tuple[str, str]:
        """The lowest sort key asked for and the first beyond it: [low, high), both "" for the whole partition.

        Raises BadKey. A key below `until` is `…{time}#{id}`, so text that ends in the time itself is the first beyond.
        """
        if self.whole:
            return "", ""
        starts = sorted(row.templates(self.index)[1].begin(known)[0] for row in self.rows)
        if (len(starts) > 1 or self.below) and (since or until):
            raise TypeError(f"{self.id} reads several types, or all below a path: it takes no range")
        low, high = starts[0], starts[-1]
        if self.below:
            return low + FIRST, high + LAST
        return (low + since) or FIRST, (high + until) if until else high + LAST


FIRST = " "  # sorts before every key, since keys hold what can be printed; DynamoDB compares a key with no empty text
LAST = "\U0010ffff"  # sorts behind every text that goes on from a prefix


def crossed(query: Query[Any], rows: tuple[Row[Any], ...]) -> list[str]:
    """The rows of the same partition that a query would read too, though it does not name them."""
    if query.whole:
        return []
    low, high = query.bounds({})
    partition = query.rows[0].templates(query.index)[0]
    others = [row for row in rows if query.index in row.indexes and row not in query.rows]
    neighbours = [row for row in others if alike(row.templates(query.index)[0], partition)]
    return [row.type for row in neighbours if _reaches(row.templates(query.index)[1], low, high)]


def _reaches(sort: Template, low: str, high: str) -> bool:
    """Whether a key of this template could lie in [low, high)."""
    last = sort.prefix + LAST if sort.names else sort.prefix
    return sort.prefix < high and low <= last


def hidden(pattern: Get[Any] | Query[Any], projected: Mapping[str, tuple[str, ...] | None]) -> list[str]:
    """The attributes a pattern would show that one of its rows, or its index, does not hold.

    `projected`: the attributes each index holds, by its name in the table; None: all.
    """
    index = projected[pattern.index.upper()] if isinstance(pattern, Query) and pattern.index != "main" else None
    missing: set[str] = set()
    for row in pattern.rows:
        shown = set(pattern.viewed or row.fields)
        missing |= shown - row.fields.keys()
        if index is not None:
            missing |= (shown | {"type"} | ({"ttl"} if row.expires else set())) - set(index)
    return sorted(missing)
