"""The page The model of the site: the entities with their fields and relations, as Mermaid diagrams.

All relations are derived from the key table by these rules:

- **has**: the owner of a partition has the other items in it. The owner is the first primary row whose partition key
  has one field and whose sort key has none, such as the Order with `ORDER#{order_id} / ORDER`.
- **is replaced by**: the row of the second item declares `replaces`.
- **is copied to**: functions/model/copies.py derives a snapshot or a log from the item.
- **a field name on a solid line**: the field contains instances of a class. An Order contains `Line`.
- **a field name on a dotted line**: the field has the name of another item's type (`category`) or of its id. The id of
  an owner is the field of its partition key (`customer_id`). The id of another primary is the last field of its sort
  key, if the field ends with `_id` (`payment_id`). If one of the first three rules relates two items, they have no
  dotted line.

A field that contains an id under another name (`Entry.other`, the keys of `Order.lines`) shows no relation.
"""

import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any

from docs import markdown
from docs.pages.table import describe_type
from functions.dynamodb.codec import is_map, unwrap_newtype, unwrap_optional
from functions.dynamodb.keys import Row
from functions.model import table as t
from functions.model.copies import LOGS, SNAPSHOTS

IDENTIFYING, REFERRING = "--", ".."
COPIES: tuple[tuple[Row[Any], Row[Any]], ...] = (
    *((snapshot.source_row, snapshot.target_row) for snapshot in SNAPSHOTS),
    *((log.source_row, log.target_row) for log in LOGS),
)


@dataclass(frozen=True)
class Relation:
    """A relation from `source` to `target`, with both cardinalities in Mermaid's notation.

    The line is solid if the key of the target contains the key of the source.
    """

    source: str
    target: str
    target_count: str
    label: str
    line: str = REFERRING
    source_count: str = "||"

    def __str__(self) -> str:
        return f'{self.source} {self.source_count}{self.line}{self.target_count} {self.target} : "{self.label}"'


# the rules ------------------------------------------------------------------------------------------------------------
@cache
def partition_owners() -> dict[str, Row[Any]]:
    """Return the owner of each partition, by the partition's template."""
    found: dict[str, Row[Any]] = {}
    for row in t.ROWS:
        partition, sort = row.templates("main")
        if row.kind == "primary" and len(partition.field_names) == 1 and not sort.field_names:
            found.setdefault(partition.text, row)
    return found


@cache
def id_owners() -> dict[str, Row[Any]]:
    """Return the row that each id field identifies, by the field's name."""
    found = {row.templates("main")[0].field_names[0]: row for row in partition_owners().values()}
    for row in t.ROWS:
        last = row.templates("main")[1].field_names[-1:]
        if row.kind == "primary" and last and last[0].endswith("_id"):
            found.setdefault(last[0], row)
    return found


def embedded_parts(cls: type[Any]) -> Iterator[tuple[str, type[Any], str]]:
    """Yield the classes inside an item: the field, the class, and the cardinality in Mermaid's notation."""
    for name, hint in typing.get_type_hints(cls).items():
        for inner in (hint, *typing.get_args(hint)):
            if isinstance(inner, type) and is_dataclass(inner):
                yield name, inner, "||" if inner is hint else "o|" if unwrap_optional(hint) else "o{"


def find_relations() -> list[Relation]:
    """Return all relations between the entities, and to the parts inside them."""
    return list(dict.fromkeys(relation for row in t.ROWS for relation in _row_relations(row)))


def _row_relations(row: Row[Any]) -> Iterator[Relation]:
    partition, sort = row.templates("main")
    owner = partition_owners().get(partition.text)
    related = {row.type}
    if owner is not None and owner is not row and row.replaces is None:
        related.add(owner.type)
        yield Relation(owner.type, row.type, "o{" if sort.field_names else "o|", "has", IDENTIFYING)
    if row.replaces is not None:
        related.add(row.replaces.type)
        yield Relation(row.replaces.type, row.type, "o|", "is replaced by", IDENTIFYING)
    for source, into in COPIES:
        if into is row:
            related.add(source.type)
            yield Relation(source.type, row.type, "o{", "is copied to")
    for name, part, many in embedded_parts(row.entity):
        yield Relation(row.type, part.__name__, many, name, IDENTIFYING)
        yield from _references(part, {row.type})
    yield from _references(row.entity, related)


def _references(cls: type[Any], related: set[str]) -> Iterator[Relation]:
    """Yield the relations of the fields that refer to other items, except items that are already related."""
    for name, hint in typing.get_type_hints(cls).items():
        target = _referenced_row(name, hint)
        if target is not None and target.type not in related:
            yield Relation(target.type, cls.__name__, "o{", name, source_count="|o" if unwrap_optional(hint) else "||")


def _referenced_row(name: str, hint: Any) -> Row[Any] | None:
    """Return the row that a field with this name refers to."""
    if name in id_owners():
        return id_owners()[name]
    return t.ROWS_BY_TYPE.get(name.title()) if unwrap_newtype(unwrap_optional(hint) or hint) is str else None


# the diagrams ---------------------------------------------------------------------------------------------------------
def render_diagram() -> str:
    """Return a Mermaid erDiagram of all entities with their fields, and of all relations."""
    return "\n".join(_diagram_lines([row.entity for row in t.ROWS], find_relations()))


def render_page() -> str:
    return markdown.join_page("The model", _sections())


def _sections() -> Iterator[str]:
    yield """
This page has all item types with their fields and relations. `python -m ops model --diagram` prints them as one
diagram, and `--workbench FILE` exports them for NoSQL Workbench ([how](modelling.md#an-entity-diagram)).
[table.md](table.md) has the keys of each type.
"""
    yield "## How to read it"
    yield """
The kind of each type is in parentheses ([meaning](table.md)). A **part** is stored inside an item. `PK` marks a field
of the item's key, `FK` marks the id of another item, and `?` marks a field that may be missing.
"""
    yield (__doc__ or "").partition("\n\n")[2]
    yield "## Ownership"
    yield _mermaid_block(
        _diagram_lines([], [r for r in find_relations() if r.line == IDENTIFYING and r.target in t.ROWS_BY_TYPE])
    )
    for partition in dict.fromkeys(row.templates("main")[0].text for row in t.ROWS):
        here = [row.entity for row in t.ROWS if row.templates("main")[0].text == partition]
        names = {cls.__name__ for cls in here}
        yield f"## `{partition}`"
        yield _mermaid_block(_diagram_lines(here, [r for r in find_relations() if names & {r.source, r.target}]))


def _mermaid_block(lines: Iterable[str]) -> str:
    return "\n".join(["```mermaid", *lines, "```"])


def _diagram_lines(entities: Sequence[type[Any]], related: Sequence[Relation]) -> Iterator[str]:
    """Yield the lines of a diagram: these entities with their fields, the parts inside them, and these relations."""
    yield "erDiagram"
    inside = {part.__name__: part for cls in entities for _, part, _ in embedded_parts(cls)}
    inside |= {part.__name__: part for cls in list(inside.values()) for _, part, _ in embedded_parts(cls)}
    drawn = {**{cls.__name__: cls for cls in entities}, **inside}
    for name in dict.fromkeys([*drawn, *(end for r in related for end in (r.source, r.target))]):
        kind = t.ROWS_BY_TYPE[name].kind if name in t.ROWS_BY_TYPE else "part"
        yield f'    {name}["{name} ({kind})"]' + (" {" if name in drawn else "")
        if name in drawn:
            yield from (f"        {line}" for line in _field_lines(drawn[name], t.ROWS_BY_TYPE.get(name)))
            yield "    }"
    yield from (f"    {relation}" for relation in related)


def _field_lines(cls: type[Any], row: Row[Any] | None) -> Iterator[str]:
    hints: Mapping[str, Any] = typing.get_type_hints(cls)
    key = {name for half in row.templates("main") for name in half.field_names} if row else set()
    for field in fields(cls):
        hint = unwrap_optional(hints[field.name]) or hints[field.name]
        target = _referenced_row(field.name, hint)
        refers = target is not None and target is not row
        marks = ", ".join(mark for mark, has in (("PK", field.name in key), ("FK", refers)) if has)
        missing = ' "?"' if unwrap_optional(hints[field.name]) else ""
        yield f"{_mermaid_type(hint)} {field.name}" + (f" {marks}" if marks else "") + missing


def _mermaid_type(hint: Any) -> str:
    """Return a type as one word, as Mermaid requires. Parentheses are allowed."""
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return f"list({_mermaid_type(arguments[0])})"
    if is_map(hint):
        return f"map({_mermaid_type(arguments[1])})"
    if typing.get_origin(hint) is typing.Literal:
        return "text"
    return describe_type(hint).replace(" ", "_")
