"""docs/table.md: every item type with its keys, its partition, its expiry and its attributes."""

import re
import typing
from collections.abc import Iterator
from typing import Any, Literal

from docs import markdown
from functions.dynamodb.codec import unwrap_optional
from functions.dynamodb.keys import INDEXES, IndexName, Instant, Row
from functions.model import retention
from functions.model import table as t

ROW_KINDS = {
    "primary": "written by commands; copies and totals are derived from it",
    "marker": "records that something was done; nothing is derived from it",
    "snapshot": "a copy of one primary under another key; written only if the primary's version is newer",
    "log": "one entry for each change of its source; written only if it does not exist",
    "counter": "a sum over several primaries (a total)",
}


def render_page() -> str:
    return markdown.render_page("The key table", "functions/model/table.py", _sections())


def _sections() -> Iterator[str]:
    yield """
One table contains all items. Each item type has templates for its `PK` and `SK`, and for the keys of the indexes that
contain it. `{name}` is a field of the item, or is calculated from its fields. If a field has no value, the item is not
in that index. Numbers are padded so that they sort correctly. A time is UTC text with milliseconds, and the id of the
item follows it. No value may contain `#`. Importing the table's module checks the templates.
"""
    rows = [
        (
            f"**{row.type}**",
            *_key_templates(row, "main"),
            *(_index_key(row, index) for index in INDEXES[1:]),
            row.kind,
            row.written_by,
        )
        for row in t.ROWS
    ]
    yield markdown.render_table(("type", "PK", "SK", "GSI1", "GSI2", "GSI3", "kind", "written by"), rows)
    yield markdown.bullet_list(f"**{kind}**: {ROW_KINDS[kind]}." for kind in dict.fromkeys(row.kind for row in t.ROWS))
    yield "## Partitions"
    yield """
The table lists the partitions with items of several types, by sort key. One query can read any range of a partition.
The projection of an index cannot be changed later.
"""
    yield markdown.render_table(
        ("in", "partition", "sort keys, in order"), [row for index in INDEXES for row in _partitions(index)]
    )
    yield markdown.bullet_list(f"**{index.upper()}** {_projection(index.upper())}." for index in INDEXES[1:])
    yield "## Item types"
    yield """
DynamoDB deletes an item some time after its `ttl`. As soon as its `ttl` has passed, reads do not return it.
[The entities](../functions/model/entities) have the attributes of each type. Every item also has its keys, its `type`
and its `schema`.
"""
    yield markdown.render_table(
        ("type", "description", "expires"),
        [(row.type, _doc(row.entity), describe_expiry(row) if row.has_ttl else "") for row in t.ROWS],
    )


def _key_templates(row: Row[Any], index: IndexName) -> tuple[str, str]:
    partition, sort = row.templates(index)
    return f"`{partition.text}`", f"`{sort.text}`"


def _index_key(row: Row[Any], index: IndexName) -> str:
    return " / ".join(_key_templates(row, index)) if index in row.indexes else ""


def _projection(index: str) -> str:
    names = t.INDEX_PROJECTIONS[index]
    held = "all attributes" if names is None else ", ".join(f"`{name}`" for name in names)
    return f"projects {held}"


def _partitions(index: IndexName) -> Iterator[tuple[str, str, str]]:
    used = [row for row in t.ROWS if index in row.indexes]
    for partition in dict.fromkeys(row.templates(index)[0].text for row in used):
        here = [row for row in used if row.templates(index)[0].text == partition]
        sorts = sorted((row.templates(index)[1].text, row.type) for row in here)
        if len(sorts) > 1:
            where = "the table" if index == "main" else index.upper()
            yield where, f"`{partition}`", "<br>".join(f"`{sort}` {name}" for sort, name in sorts)


def describe_expiry(row: Row[Any]) -> str:
    """Return when items of a row expire, in words."""
    days = getattr(retention, f"{row.type.upper()}_DAYS", None)
    rule = f"after {days} days" if days else "at a time set in each item"
    return rule if row.fields["ttl"] is int else f"{rule}, or never"


def _doc(cls: type[Any]) -> str:
    return re.sub(r"\s+", " ", cls.__doc__ or "").strip()


def describe_type(hint: Any) -> str:
    """Describe a type in words."""
    arguments = typing.get_args(hint)
    if inner := unwrap_optional(hint):
        return f"{describe_type(inner)}?"
    if typing.get_origin(hint) is Literal:
        return " / ".join(arguments if len(arguments) < 4 else (*arguments[:2], "…"))
    if typing.get_origin(hint) is tuple:
        return f"list of {describe_type(arguments[0])}"
    if arguments:
        return f"map of {describe_type(arguments[1])}"
    return {str: "text", int: "number", bool: "yes or no", Instant: "time"}.get(hint) or str(hint.__name__)
