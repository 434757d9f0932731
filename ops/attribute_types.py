"""The DynamoDB types of the table's attributes, from the declarations in model/table.py."""

from dataclasses import is_dataclass
from typing import Any

from functions.dynamodb.codec import is_list, is_map, unwrap_newtype, unwrap_optional
from functions.model import table as t


def attribute_types() -> dict[str, str]:
    """Return the DynamoDB type of every attribute except the keys. Raises TypeError if two item types differ."""
    found = {"type": "S", "schema": "N"}
    for row in t.ROWS:
        for name, hint in row.fields.items():
            if found.setdefault(name, attribute_type(hint)) != attribute_type(hint):
                raise TypeError(f"{row.type}.{name} is {attribute_type(hint)}, but {found[name]} in another item type")
    return found


def attribute_type(hint: Any) -> str:
    """Return the DynamoDB type, such as "S", for a declared Python type. A class with `to_text` is stored as a text."""
    hint = unwrap_newtype(unwrap_optional(hint) or hint)
    if is_list(hint):
        return "L"
    if hasattr(hint, "to_text"):
        return "S"
    if is_map(hint) or is_dataclass(hint):
        return "M"
    return {str: "S", int: "N", bool: "BOOL", bytes: "B"}[hint]
