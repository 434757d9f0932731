"""Derive the SQL columns of the archive's two tables, `orders` and `activity`, from the entity classes.

Flat views over `orders` have a plain column for each attribute that functions/model/flat_columns.py names.

An archive object contains items in DynamoDB's JSON. So each attribute is a structure with a field for its type tag:
`total` is {"N": "995"}, and SQL reads it as `total.n`. A number is a text there, because DynamoDB's numbers have more
digits than SQL's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import reduce
from typing import Any, Literal, TypeAlias, cast, get_args, get_type_hints

from functions.dynamodb.codec import SCALAR_TYPES, is_list, is_map, set_element_type, unwrap_newtype, unwrap_optional
from functions.dynamodb.keys import Row
from functions.model.entities import Line
from functions.model.flat_columns import FLAT_LISTS, LINE_COLUMNS
from functions.model.table import ACTIVITY, ARCHIVED_ORDER, EXPIRY_MARKER, ORDER, rows_beside

ColumnType: TypeAlias = "str | tuple[Literal['array', 'map'], ColumnType] | Mapping[str, ColumnType]"
"""A type of SQL: "string", "int" or "boolean"; an array; a map with texts as keys; or a structure with its fields."""
Structure: TypeAlias = Mapping[str, ColumnType]

ARCHIVED_ROWS = [row for row in rows_beside(ORDER) if row not in (ARCHIVED_ORDER, EXPIRY_MARKER)]
"""The rows whose items an archive object of an order can contain."""


def archive_columns() -> Mapping[str, Structure]:
    """Return the columns of the archive's tables: `orders` has a row for each object, `activity` for each entry.

    The column of the day is only in the key of an object.
    """
    items = reduce(_merge, (attributes(row.entity) for row in ARCHIVED_ROWS), TYPE_ATTRIBUTE)
    return {
        "orders": {"format": "int", "order_id": "string", "version": "int", "items": ("array", items)},
        "activity": {**TYPE_ATTRIBUTE, **attributes(ACTIVITY.entity)},
    }


TYPE_ATTRIBUTE: Structure = {"type": {"S": "string"}}
"""The attribute that each item has: its type, such as Order or Payment."""


def attributes(entity: Any) -> Structure:
    """Return the attributes of an entity, or of a class that is nested in an entity, with their types."""
    hints = get_type_hints(entity)
    return {one.name: value_type(hints[one.name]) for one in fields(entity)}


def value_type(hint: Any) -> Structure:
    """Return the type of a value in DynamoDB's JSON, such as {"N": "string"}. Raises TypeError if it has none."""
    hint = unwrap_newtype(hint)
    if inner := unwrap_optional(hint):
        return value_type(inner)
    if hint in SCALAR_TYPES:
        return {SCALAR_TYPES[hint][0]: "boolean" if hint is bool else "string"}
    if is_list(hint):
        return {"L": ("array", value_type(get_args(hint)[0]))}
    if is_map(hint):
        return {"M": ("map", value_type(get_args(hint)[1]))}
    if element := set_element_type(hint):
        return {f"{SCALAR_TYPES[element][0]}S": ("array", "string")}
    if isinstance(hint, type) and is_dataclass(hint):
        return {"S": "string"} if hasattr(hint, "to_text") else {"M": attributes(hint)}
    raise TypeError(f"an item cannot contain {hint}")


def _merge(one: Any, other: Any) -> Any:
    """Return one column type for an attribute that two item types have. Raises TypeError if no type fits both."""
    match one, other:
        case Mapping(), Mapping():
            return {name: _merge(one.get(name, found), found) for name, found in {**one, **other}.items()}
        case (str(kind), first), (str(same), second) if kind == same:
            return kind, _merge(first, second)
    if one != other:
        raise TypeError(f"an attribute has the types {one} and {other} in two item types")
    return one


# the flat views -------------------------------------------------------------------------------------------------------
SQL_TYPES = {"S": "varchar", "N": "bigint", "BOOL": "boolean"}


@dataclass(frozen=True)
class View:
    """A flat view over the archive. `query`: its SQL for Athena and DuckDB. `columns`: the SQL types of its columns."""

    query: str
    columns: Mapping[str, str]


def archive_views() -> Mapping[str, View]:
    """Return the views by name: `order_facts` and others with a row for each item, and `line_facts` for order lines.

    `day` is the day of the order, as in the table `orders`.
    """
    views = {}
    for name, flat in FLAT_LISTS.items():
        found, types = _select_attributes(flat.row.entity, flat.columns, "items[i]")
        query = _select_items(flat.row, found)
        views[f"{name.removesuffix('s')}_facts"] = View(query, {"day": "varchar", **types})
    found, types = _select_attributes(Line, LINE_COLUMNS, "lines[product_id].m")
    lines = _select_items(ORDER, "order_id, items[i].lines.m AS lines")
    products = f"({lines}) AS ordered CROSS JOIN UNNEST(map_keys(lines)) AS products (product_id)"
    query = f"SELECT day, order_id, product_id, {found} FROM {products}"  # noqa: S608  all names are declared
    views["line_facts"] = View(query, {**dict.fromkeys(("day", "order_id", "product_id"), "varchar"), **types})
    return views


def _select_items(row: Row[Any], columns: str) -> str:
    """Return the SQL that selects columns of each item of a type, from the latest archive object of each order."""
    latest = "(SELECT day, order_id, max_by(items, version) AS items FROM orders GROUP BY day, order_id) AS latest"
    each = f"{latest} CROSS JOIN UNNEST(sequence(1, cardinality(items))) AS numbers (i)"
    return f"SELECT day, {columns} FROM {each} WHERE items[i].type.s = '{row.type}'"  # noqa: S608  as above


def _select_attributes(entity: Any, names: tuple[str, ...], item: str) -> tuple[str, Mapping[str, str]]:
    """Return the SQL that selects attributes of an item as plain columns, and the types of these columns.

    DynamoDB's JSON has numbers as text, and does not store a 0. So a number that is absent is 0.
    """
    selected, types = [], {}
    for name in names:
        (tag,) = cast(Structure, attributes(entity)[name])
        found = f"{item}.{name}.{tag.lower()}"
        selected.append(f"CAST(COALESCE({found}, '0') AS bigint) AS {name}" if tag == "N" else f"{found} AS {name}")
        types[name] = SQL_TYPES[tag]
    return ", ".join(selected), types
