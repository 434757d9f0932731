"""Derive the SQL columns of the archive's two tables, `orders` and `activity`, from the entity classes.

An archive object contains items in DynamoDB's JSON. So each attribute is a structure with a field for its type tag:
`total` is {"N": "995"}, and SQL reads it as `total.n`. A number is a text there, because DynamoDB's numbers have more
digits than SQL's.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import reduce
from typing import Any, Literal, TypeAlias, get_args, get_type_hints

from functions.dynamodb.codec import SCALAR_TYPES, is_list, is_map, set_element_type, unwrap_newtype, unwrap_optional
from functions.model.table import ACTIVITY, ARCHIVED_ORDER, EXPIRY_MARKER, ORDER, rows_beside

ColumnType: TypeAlias = "str | tuple[Literal['array', 'map'], ColumnType] | Mapping[str, ColumnType]"
"""A type of SQL: "string", "int" or "boolean"; an array; a map with texts as keys; or a structure with its fields."""
Structure: TypeAlias = Mapping[str, ColumnType]

ARCHIVED_ROWS = [row for row in rows_beside(ORDER) if row not in (ARCHIVED_ORDER, EXPIRY_MARKER)]
"""The rows whose items an archive object of an order can contain."""


def archive_columns() -> Mapping[str, Structure]:
    """Return the columns of each table of the archive, with the names that the archive objects use.

    `orders` has a row for each archive object of an order. `activity` has a row for each expired activity entry. The
    column of the day is not included, because the day is only in the key of an object.
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
    """Return the type of a value in DynamoDB's JSON, such as {"N": "string"} for an integer.

    Raises TypeError if an item cannot contain a value of this type.
    """
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
