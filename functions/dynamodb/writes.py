"""Writes as data: each knows its condition, and what to say when the condition does not hold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from functions.dynamodb.images import Image
from functions.dynamodb.keys import Row

T = TypeVar("T")
WriteKind = Literal["Put", "Update", "Delete", "ConditionCheck"]


class WriteConflict(Exception):
    """An item was not as the writer had read it: read again and decide anew."""

    def __init__(self, row: Row[Any], key: Mapping[str, Any]) -> None:
        super().__init__(f"{row.type} changed meanwhile")
        self.row, self.key = row, key


ConditionErrorFactory = Callable[[T | None], Exception]
"""Makes the error of a refused condition out of the item that was found (None: there was none)."""


@dataclass(frozen=True, eq=False)
class Write(Generic[T]):
    """One guarded write of one item: the part of a TransactWriteItems request that concerns it, and its refusal."""

    kind: WriteKind
    row: Row[T]
    request: dict[str, Any]
    condition_error: ConditionErrorFactory[T]
    resulting_attributes: Image | None = None
    """The attributes the item has once written (None: absent, or not known beforehand)."""


def put_if_absent(row: Row[T], item: T, *, condition_error: ConditionErrorFactory[T] | None = None) -> Write[T]:
    """Write an item that does not exist yet (or is a row's that this one replaces nothing of)."""
    image = row.encode(item)
    request = {"Item": image, "ConditionExpression": "attribute_not_exists(PK)"}
    return Write("Put", row, request, condition_error or _write_conflict(row, image), image)


def put_if_newer(row: Row[T], item: T, *, or_same_version: bool = False) -> Write[T]:
    """Write a copy unless the table already has it from a later version of its source; or from the same one, unless it
    is to be written `again`."""
    image = row.encode(item)
    request = {
        "Item": image,
        "ConditionExpression": f"attribute_not_exists(PK) OR #version {'<=' if or_same_version else '<'} :version",
        "ExpressionAttributeNames": {"#version": "version"},
        "ExpressionAttributeValues": {":version": image["version"]},
    }
    return Write("Put", row, request, _write_conflict(row, image), image)


def put_if_held_by(row: Row[T], item: T, holder_field: str, holder_value: str) -> Write[T]:
    """Write an item over the one that is there, if that one's field `holder` still says who held it."""
    image = row.encode(item)
    request = {
        "Item": image,
        "ConditionExpression": "#holder = :held_by",
        "ExpressionAttributeNames": {"#holder": holder_field},
        "ExpressionAttributeValues": {":held_by": {"S": holder_value}},
    }
    return Write("Put", row, request, _write_conflict(row, image), image)


def update(row: Row[T], before: T, after: T, *, condition_error: ConditionErrorFactory[T] | None = None) -> Write[T]:
    """Write what differs between an item as it was read and as it shall be, if nobody else changed it meanwhile.

    `after` carries the next version. Only the difference is sent, index keys included, so that attributes this writer
    knows nothing of stay as they are.
    """
    old, new = row.encode(before), row.encode(after)
    if int(new["version"]["N"]) != int(old["version"]["N"]) + 1:
        raise ValueError(f"{row.type}: a change raises the version by one")
    changed_names = [name for name in new if new[name] != old.get(name)]
    removed_names = [name for name in old if name not in new]
    names = {f"#{number}": name for number, name in enumerate([*changed_names, *removed_names])}
    alias = {name: token for token, name in names.items()}
    sets = ", ".join(f"{alias[name]} = :{alias[name][1:]}" for name in changed_names)
    removes = ", ".join(alias[name] for name in removed_names)
    request = {
        "Key": {"PK": old["PK"], "SK": old["SK"]},
        "UpdateExpression": f"SET {sets}" + (f" REMOVE {removes}" if removes else ""),
        "ConditionExpression": "#version = :read",
        "ExpressionAttributeNames": {**names, "#version": "version"},
        "ExpressionAttributeValues": {
            **{f":{alias[name][1:]}": new[name] for name in changed_names},
            ":read": old["version"],
        },
    }
    return Write(
        "Update",
        row,
        request,
        condition_error or _write_conflict(row, old),
        {name: new[name] for name in changed_names},
    )


def replace_with(before_row: Row[Any], before: Any, row: Row[T], item: T) -> Write[T]:
    """Put an item in the place of another row's, if that one is still as it was read."""
    old, image = before_row.encode(before), row.encode(item)
    request = {
        "Item": image,
        "ConditionExpression": "#version = :read",
        "ExpressionAttributeNames": {"#version": "version"},
        "ExpressionAttributeValues": {":read": old["version"]},
    }
    return Write("Put", row, request, _write_conflict(row, image), image)


def adjust(
    row: Row[T],
    key: Mapping[str, Any],
    *,
    add: Mapping[str, int],
    at_least: Mapping[str, int],
    condition_error: ConditionErrorFactory[T],
) -> Write[T]:
    """Add to numbers of an existing item whatever its version, as long as each stays at or above what is asked.

    `at_least` compares the value before the addition. Adjustments commute, so concurrent ones do not lose each other.
    """
    names = {"#version": "version"} | {f"#{number}": name for number, name in enumerate(add)}
    values = {":one": {"N": "1"}} | {f":{number}": {"N": str(amount)} for number, amount in enumerate(add.values())}
    sets = ["#version = #version + :one"] + [f"#{number} = #{number} + :{number}" for number in range(len(add))]
    conditions = ["attribute_exists(PK)"]
    for number, (name, least) in enumerate(at_least.items()):
        names[f"#least{number}"] = name
        values[f":least{number}"] = {"N": str(least)}
        conditions.append(f"#least{number} >= :least{number}")
    request = {
        "Key": dict(key),
        "UpdateExpression": "SET " + ", ".join(sets),
        "ConditionExpression": " AND ".join(conditions),
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }
    return Write("Update", row, request, condition_error)


def copy_attributes(
    row: Row[T],
    key: Mapping[str, Any],
    attributes: Mapping[str, str | None],
    source: tuple[str, int],
    only_where: tuple[str, Sequence[str]],
) -> Write[T]:
    """Write texts that an existing item has from another one, unless it has them from a later version of that already.

    `source`: the name of the attribute that holds that version, and the version. `among`: a field of the item, and the
    values one of which it must have. The item's own version stays: whoever has read the item before may still write it.
    """
    image = {name: {"S": text} for name, text in attributes.items() if text is not None}
    image[source[0]] = {"N": str(source[1])}
    removed_names = [name for name in attributes if name not in image]
    token = {name: f"{number}" for number, name in enumerate([*image, *removed_names])}
    values = {f":{token[name]}": value for name, value in image.items()}
    values |= {f":among{number}": {"S": value} for number, value in enumerate(only_where[1])}
    sets = ", ".join(f"#{token[name]} = :{token[name]}" for name in image)
    removes = ", ".join(f"#{token[name]}" for name in removed_names)
    version = token[source[0]]
    older = f"(attribute_not_exists(#{version}) OR #{version} < :{version})"
    one_of = ", ".join(f":among{number}" for number in range(len(only_where[1])))
    request = {
        "Key": dict(key),
        "UpdateExpression": f"SET {sets}" + (f" REMOVE {removes}" if removes else ""),
        "ConditionExpression": f"#among IN ({one_of}) AND {older}",
        "ExpressionAttributeNames": {f"#{number}": name for name, number in token.items()} | {"#among": only_where[0]},
        "ExpressionAttributeValues": values,
    }
    return Write(
        "Update", row, request, lambda found: WriteConflict(row, key), {**image, **dict.fromkeys(removed_names)}
    )


def check_unchanged(row: Row[T], item: T, *, condition_error: ConditionErrorFactory[T] | None = None) -> Write[T]:
    """Write nothing, but let the transaction hold only if this item is still as it was read."""
    image = row.encode(item)
    request = {
        "Key": {"PK": image["PK"], "SK": image["SK"]},
        "ConditionExpression": "#version = :read",
        "ExpressionAttributeNames": {"#version": "version"},
        "ExpressionAttributeValues": {":read": image["version"]},
    }
    return Write("ConditionCheck", row, request, condition_error or _write_conflict(row, image))


def check_absent(row: Row[T], key: Mapping[str, Any], *, condition_error: ConditionErrorFactory[T]) -> Write[T]:
    """Write nothing, but let the transaction hold only if there is no such item."""
    request = {"Key": dict(key), "ConditionExpression": "attribute_not_exists(PK)"}
    return Write("ConditionCheck", row, request, condition_error)


def check_exists(row: Row[T], key: Mapping[str, Any], *, condition_error: ConditionErrorFactory[T]) -> Write[T]:
    """Write nothing, but let the transaction hold only if there is such an item."""
    request = {"Key": dict(key), "ConditionExpression": "attribute_exists(PK)"}
    return Write("ConditionCheck", row, request, condition_error)


def delete(row: Row[T], item: T) -> Write[T]:
    """Delete an item that is still as it was read."""
    image = row.encode(item)
    request = {
        "Key": {"PK": image["PK"], "SK": image["SK"]},
        "ConditionExpression": "#version = :read",
        "ExpressionAttributeNames": {"#version": "version"},
        "ExpressionAttributeValues": {":read": image["version"]},
    }
    return Write("Delete", row, request, _write_conflict(row, image))


def delete_if_held_by(row: Row[T], key: Mapping[str, Any], holder_field: str, holder_value: str) -> Write[T]:
    """Delete an item, unread, if its field `holder` says who holds it."""
    request = {
        "Key": dict(key),
        "ConditionExpression": "#holder = :held_by",
        "ExpressionAttributeNames": {"#holder": holder_field},
        "ExpressionAttributeValues": {":held_by": {"S": holder_value}},
    }
    return Write("Delete", row, request, lambda found: WriteConflict(row, key))


def delete_if_older(row: Row[T], item: T) -> Write[T]:
    """Delete a copy unless the table has it from a later version of its source; fine where there is none."""
    image = row.encode(item)
    request = {
        "Key": {"PK": image["PK"], "SK": image["SK"]},
        "ConditionExpression": "attribute_not_exists(PK) OR #version < :version",
        "ExpressionAttributeNames": {"#version": "version"},
        "ExpressionAttributeValues": {":version": image["version"]},
    }
    return Write("Delete", row, request, _write_conflict(row, image))


def delete_if_older_without(row: Row[T], key: Mapping[str, Any], version: int, attribute: str) -> Write[T]:
    """Delete an item, unread, that is of an earlier version than this one, unless it has an attribute."""
    request = {
        "Key": dict(key),
        "ConditionExpression": "attribute_not_exists(#marked) AND #version < :version",
        "ExpressionAttributeNames": {"#marked": attribute, "#version": "version"},
        "ExpressionAttributeValues": {":version": {"N": str(version)}},
    }
    return Write("Delete", row, request, lambda found: WriteConflict(row, key))


def _write_conflict(row: Row[T], image: Image) -> ConditionErrorFactory[T]:
    return lambda found: WriteConflict(row, {"PK": image["PK"], "SK": image["SK"]})
