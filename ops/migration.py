"""Define the class Migration: it says which types of stored items a migration changes, and how."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from functions.dynamodb.keys import INDEXES, KEY_ATTRIBUTES, Row
from functions.model.copies import SOURCE_ROWS
from ops.item_codec import decode_item, decode_value, encode_item

Item = dict[str, Any]
TransformItem = Callable[[Item], Item | None]
"""Function that transforms a stored item, as plain values with its keys and type. It must have no side effects.

It returns None to leave the item unchanged. If it raises an error such as KeyError, the item is listed as unreadable.
"""


def leave_unchanged(_: Item) -> None:
    """Return None, so that the migration changes no item. This is the default transformation."""


@dataclass(frozen=True, kw_only=True)
class Migration:
    """A transformation of all items of some types, before and after it. `down` undoes `up`, for older code.

    `deletes_items`: whether `up` deletes them, because nothing uses them. `rederives_copies`: whether to write copies
    again.
    """

    description: str
    item_types: tuple[str, ...]
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
    """Return a migration that writes the index keys of a type as model/table.py declares them, to backfill an index."""
    return Migration(description=description, item_types=(row.type,), up=partial(with_index_keys, row))


def rederive_copies(row: Row[Any], description: str) -> Migration:
    """Return a migration that writes all copies of one type's items again. Raises TypeError if it has none."""
    if row not in SOURCE_ROWS:
        raise TypeError(f"{row.type} has no copies")
    return Migration(description=description, item_types=(row.type,), rederives_copies=True)


def delete_items(row: Row[Any], description: str) -> Migration:
    """Return a migration that deletes all items of one of RETIRED_ROWS: copies that the code does not write any more.

    `down` does not bring them back: after a rollback, run that version's `ops replay --from-table --copies`.
    """
    return Migration(description=description, item_types=(row.type,), deletes_items=True)


def rename_stored_names(*rows: Row[Any], description: str) -> Migration:
    """Return a migration that replaces former names in items by current names. `down` writes the former names again.

    `rows`: rows with `former_types`, `former_names` or `former_values`, at most one former for each current one.
    """
    by_type = {name: row for row in rows for name in row.types}
    return Migration(
        description=description,
        item_types=tuple(by_type),
        up=lambda item: decode_item(by_type[item["type"]].current_form(encode_item(item))),
        down=lambda item: _with_former_names(by_type[item["type"]], item),
    )


def _with_former_names(row: Row[Any], item: Item) -> Item:
    texts = {"type": dict.fromkeys(row.former_types, row.type), **row.former_values}
    values: Mapping[str, Mapping[Any, str]] = {
        name: {now: was for was, now in current.items()} for name, current in texts.items()
    }
    former = {name: values[name].get(value, value) if name in values else value for name, value in item.items()}
    kept = {name: value for name, value in former.items() if name not in row.former_names}
    return kept | {was: former[name] for name, was in row.former_names.items() if name in former}


def with_index_keys(row: Row[Any], item: Item) -> Item:
    """Return the item with its index keys as its row declares them now. Raises Unreadable, InvalidKeyValue."""
    keys = {name for index in INDEXES if index != "main" for name in KEY_ATTRIBUTES[index]}
    written = row.encode(row.decode(encode_item(item)))
    rest = {name: value for name, value in item.items() if name not in keys}
    return rest | {name: decode_value(written[name]) for name in sorted(keys & written.keys())}
