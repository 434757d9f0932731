"""Define the class Migration: it says which type of stored items a migration changes, and how."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from functions.dynamodb.keys import INDEXES, KEY_ATTRIBUTES, Row
from functions.model.copies import SOURCE_ROWS
from ops.item_codec import decode_value, encode_item

Item = dict[str, Any]
TransformItem = Callable[[Item], Item | None]
"""Function that transforms a stored item. The item is a dict of plain Python values, including its keys and type.

The function returns the new item, or None to leave the item unchanged. The function must have no side effects. If it
raises an error such as KeyError or ValueError, the migration skips the item and lists the item as unreadable.
"""


def leave_unchanged(_: Item) -> None:
    """Return None, so that the migration changes no item. This is the default transformation."""


@dataclass(frozen=True, kw_only=True)
class Migration:
    """A transformation of all items of one type.

    `up`: transforms an item to the new format.
    `down`: undoes `up`, so that the previous version of the code can read the item.
    `deletes_items`: whether `up` deletes the items. Nothing must read or write items of this type any more.
    `rederives_copies`: whether the migration also writes the copies of each item again, after it has applied `up`. A
    copy is an item that is derived from another item.
    """

    description: str
    item_type: str
    up: TransformItem = leave_unchanged
    down: TransformItem = leave_unchanged
    deletes_items: bool = False
    rederives_copies: bool = False

    def transform_for(self, task: str) -> TransformItem:
        return self.up if task == "up" else self.down

    def has_nothing_to_do(self, task: str) -> bool:
        """Return whether this task ("up" or "down") changes no item."""
        acts = task == "up" and (self.rederives_copies or self.deletes_items)
        return self.transform_for(task) is leave_unchanged and not acts


def rekey_items(row: Row[Any], description: str) -> Migration:
    """Return a migration that writes the index keys of all items of one type, as model/table.py declares them now.

    Use it to backfill a new index. `row`: the row of model/table.py that declares the item type.
    """
    return Migration(description=description, item_type=row.type, up=partial(with_index_keys, row))


def rederive_copies(row: Row[Any], description: str) -> Migration:
    """Return a migration that writes all copies of the items of one type again.

    A copy is an item that is derived from another item. Use the migration when the code has a new kind of copy.

    `row`: the row of model/table.py that declares the item type. Raises TypeError if this item type has no copies.
    """
    if row not in SOURCE_ROWS:
        raise TypeError(f"{row.type} has no copies")
    return Migration(description=description, item_type=row.type, rederives_copies=True)


def delete_items(row: Row[Any], description: str) -> Migration:
    """Return a migration that deletes all items of one type. Use it for copies that the code does not write any more.

    `row`: one of RETIRED_ROWS in model/table.py. The previous version of the code writes its copies again with
    `ops replay --from-table --copies`.
    """
    return Migration(description=description, item_type=row.type, deletes_items=True)


def with_index_keys(row: Row[Any], item: Item) -> Item:
    """Return the item with its index keys as model/table.py declares them now.

    `row`: the row of model/table.py that declares the item type. Raises Unreadable, InvalidKeyValue.
    """
    keys = {name for index in INDEXES if index != "main" for name in KEY_ATTRIBUTES[index]}
    written = row.encode(row.decode(encode_item(item)))
    rest = {name: value for name, value in item.items() if name not in keys}
    return rest | {name: decode_value(written[name]) for name in sorted(keys & written.keys())}
