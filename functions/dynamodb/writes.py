"""Writes as data: each knows its condition, and what to say when the condition does not hold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from functions.dynamodb.images import Image
from functions.dynamodb.keys import Row

T = TypeVar("T")
Kind = Literal["Put", "Update", "Delete", "ConditionCheck"]


class Changed(Exception):
    """An item was not as the writer had read it: read again and decide anew."""

    def __init__(self, row: Row[Any], key: Mapping[str, Any]) -> None:
        super().__init__(f"{row.type} changed meanwhile")
        self.row, self.key = row, key


Refusal = Callable[[T | None], Exception]
"""Makes the error of a refused condition out of the item that was found (None: there was none)."""


@dataclass(frozen=True, eq=False)
class Write(Generic[T]):
    """One guarded write of one item: the part of a TransactWriteItems request that concerns it, and its refusal."""

    kind: Kind
    row: Row[T]
    request: dict[str, Any]
    refused: Refusal[T]
    wanted: Image | None = None
    """The attributes the item has once written (None: absent, or not known beforehand)."""


def put(row: Row[T], item: T, *, refused: Refusal[T] | None = None) -> Write[T]:
    """Write an item that does not exist yet (or is a row's that this one replaces nothing of)."""
    image = row.write(item)
    request = {"Item": image, "ConditionExpression": "attribute_not_exists(PK)"}
    return Write("Put", row, request, refused or _changed(row, image), image)


def put_newer(row: Row[T], item: T, *, again: bool = False) -> Write[T]:
    """Write a copy unless the table already has it from a later version of its source; or from the same one, unless it
    is to be written `again`."""
    image = row.write(item)
    request = {
        "Item": image,
        "ConditionExpression": f"attribute_not_exists(PK) OR #version {'<=' if again else '<'} :version",
        "ExpressionAttributeNames": {"#version": "version"},
        "ExpressionAttributeValues": {":version": image["version"]},
    }
    return Write("Put", row, request, _changed(row, image), image)


def put_over(row: Row[T], item: T, holder: str, held_by: str) -> Write[T]:
    """Write an item over the one that is there, if that one's field `holder` still says who held it."""
    image = row.write(item)
    request = {
        "Item": image,
        "ConditionExpression": "#holder = :held_by",
        "ExpressionAttributeNames": {"#holder": holder},
        "ExpressionAttributeValues": {":held_by": {"S": held_by}},
    }
    return Write("Put", row, request, _changed(row, image), image)


def change(row: Row[T], before: T, after: T, *, refused: Refusal[T] | None = None) -> Write[T]:
    """Write what differs between an item as it was read and as it shall be, if nobody else changed it meanwhile.

    `after` carries the next version. Only the difference is sent, index keys included, so that attributes this writer
    knows nothing of stay as they are.
    """
    old, new = row.write(before), row.write(after)
    if int(new["version"]["N"]) != int(old["version"]["N"]) + 1:
        raise ValueError(f"{row.type}: a change raises the version by one")
    touched = [name for name in new if new[name] != old.get(name)]
    gone = [name for name in old if name not in new]
    names = {f"#{number}": name for number, name in enumerate([*touched, *gone])}
    alias = {name: token for token, name in names.items()}
    sets = ", ".join(f"{alias[name]} = :{alias[name][1:]}" for name in touched)
    removes = ", ".join(alias[name] for name in gone)
    request = {
        "Key": {"PK": old["PK"], "SK": old["SK"]},
        "UpdateExpression": f"SET {sets}" + (f" REMOVE {removes}" if removes else ""),
        "ConditionExpression": "#version = :read",
        "ExpressionAttributeNames": {**names, "#version": "version"},
        "ExpressionAttributeValues": {
            **{f":{alias[name][1:]}": new[name] for name in touched},
            ":read": old["version"],
        },
    }
    return Write("Update", row, request, refused or _changed(row, old), {name: new[name] for name in touched})


def turn(before_row: Row[Any], before: Any, row: Row[T], item: T) -> Write[T]:
    """Put an item in the place of another row's, if that one is still as it was read."""
    old, image = before_row.write(before), row.write(item)
    request = {
        "Item": image,
        "ConditionExpression": "#version = :read",
        "ExpressionAttributeNames": {"#version": "version"},
        "ExpressionAttributeValues": {":read": old["version"]},
    }
    return Write("Put", row, request, _changed(row, image), image)


def adjust(
    row: Row[T], key: Mapping[str, Any], *, add: Mapping[str, int], at_least: Mapping[str, int], refused: Refusal[T]
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
    return Write("Update", row, request, refused)


def copied(
    row: Row[T],
    key: Mapping[str, Any],
    attributes: Mapping[str, str | None],
    source: tuple[str, int],
    among: tuple[str, Sequence[str]],
) -> Write[T]:
    """Write texts that an existing item has from another one, unless it has them from a later version of that already.

    `source`: the name of the attribute that holds that version, and the version. `among`: a field of the item, and the
    values one of which it must have. The item's own version stays: whoever has read the item before may still write it.
    """
    image = {name: {"S": text} for name, text in attributes.items() if text is not None}
    image[source[0]] = {"N": str(source[1])}
    gone = [name for name in attributes if name not in image]
    token = {name: f"{number}" for number, name in enumerate([*image, *gone])}
    values = {f":{token[name]}": value for name, value in image.items()}
    values |= {f":among{number}": {"S": value} for number, value in enumerate(among[1])}
    sets = ", ".join(f"#{token[name]} = :{token[name]}" for name in image)
    removes = ", ".join(f"#{token[name]}" for name in gone)
    version = token[source[0]]
    older = f"(attribute_not_exists(#{version}) OR #{version} < :{version})"
    one_of = ", ".join(f":among{number}" for number in range(len(among[1])))
    request = {
        "Key": dict(key),
        "UpdateExpression": f"SET {sets}" + (f" REMOVE {removes}" if removes else ""),
        "ConditionExpression": f"#among IN ({one_of}) AND {older}",
        "ExpressionAttributeNames": {f"#{number}": name for name, number in token.items()} | {"#among": among[0]},
        "ExpressionAttributeValues": values,
    }
    return Write("Update", row, request, lambda found: Changed(row, key), {**image, **dict.fromkeys(gone)})


def unchanged(row: Row[T], item: T, *, refused: Refusal[T] | None = None) -> Write[T]:
    """Write nothing, but let the transaction hold only if this item is still as it was read."""
    image = row.write(item)
    request = {
        "Key": {"PK": image["PK"], "SK": image["SK"]},
        "ConditionExpression": "#version = :read",
        "ExpressionAttributeNames": {"#version": "version"},
        "ExpressionAttributeValues": {":read": image["version"]},
    }
    return Write("ConditionCheck", row, request, refused or _changed(row, image))


def absent(row: Row[T], key: Mapping[str, Any], *, refused: Refusal[T]) -> Write[T]:
    """Write nothing, but let the transaction hold only if there is no such item."""
    request = {"Key": dict(key), "ConditionExpression": "attribute_not_exists(PK)"}
    return Write("ConditionCheck", row, request, refused)


def present(row: Row[T], key: Mapping[str, Any], *, refused: Refusal[T]) -> Write[T]:
    """Write nothing, but let the transaction hold only if there is such an item."""
    request = {"Key": dict(key), "ConditionExpression": "attribute_exists(PK)"}
    return Write("ConditionCheck", row, request, refused)


def delete(row: Row[T], item: T) -> Write[T]:
    """Delete an item that is still as it was read."""
    image = row.write(item)
    request = {
        "Key": {"PK": image["PK"], "SK": image["SK"]},
        "ConditionExpression": "#version = :read",
        "ExpressionAttributeNames": {"#version": "version"},
        "ExpressionAttributeValues": {":read": image["version"]},
    }
    return Write("Delete", row, request, _changed(row, image))


def delete_held(row: Row[T], key: Mapping[str, Any], holder: str, held_by: str) -> Write[T]:
    """Delete an item, unread, if its field `holder` says who holds it."""
    request = {
        "Key": dict(key),
        "ConditionExpression": "#holder = :held_by",
        "ExpressionAttributeNames": {"#holder": holder},
        "ExpressionAttributeValues": {":held_by": {"S": held_by}},
    }
    return Write("Delete", row, request, lambda found: Changed(row, key))


def delete_older(row: Row[T], item: T) -> Write[T]:
    """Delete a copy unless the table has it from a later version of its source; fine where there is none."""
    image = row.write(item)
    request = {
        "Key": {"PK": image["PK"], "SK": image["SK"]},
        "ConditionExpression": "attribute_not_exists(PK) OR #version < :version",
        "ExpressionAttributeNames": {"#version": "version"},
        "ExpressionAttributeValues": {":version": image["version"]},
    }
    return Write("Delete", row, request, _changed(row, image))


def delete_older_unless(row: Row[T], key: Mapping[str, Any], version: int, marked: str) -> Write[T]:
    """Delete an item, unread, that is of an earlier version than this one, unless it has an attribute."""
    request = {
        "Key": dict(key),
        "ConditionExpression": "attribute_not_exists(#marked) AND #version < :version",
        "ExpressionAttributeNames": {"#marked": marked, "#version": "version"},
        "ExpressionAttributeValues": {":version": {"N": str(version)}},
    }
    return Write("Delete", row, request, lambda found: Changed(row, key))


def _changed(row: Row[T], image: Image) -> Refusal[T]:
    return lambda found: Changed(row, {"PK": image["PK"], "SK": image["SK"]})
