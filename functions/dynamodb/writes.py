"""Build conditional writes, which `Table.write` sends: the request, and the error to raise if its condition fails."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

from functions.dynamodb.actors import AUDIT, Actor
from functions.dynamodb.codec import Image, build_encoder
from functions.dynamodb.keys import Row

T = TypeVar("T")
WriteKind = Literal["Put", "Update", "Delete", "ConditionCheck"]


class WriteConflict(Exception):
    """The condition of a write failed, usually because the item changed after the read. Read it again and repeat."""

    def __init__(self, item_type: str) -> None:
        super().__init__(f"{item_type} changed meanwhile")
        self.item_type = item_type


class ConditionFailed(Exception):
    """The condition of a write failed, and the caller decides from the stored `item` (None if no item is stored)."""

    def __init__(self, item: Any) -> None:
        super().__init__("condition failed")
        self.item = item


class ItemExists(ConditionFailed):
    """The condition of a write failed because the `item` exists, so this is never None."""

    def __init__(self, item: Any) -> None:
        assert item is not None, "a failed condition returns the existing item"
        super().__init__(item)


ConditionErrorFactory = Callable[[T | None], Exception]
"""A function that creates the error for a failed condition from the stored item (None if there is no item)."""


@dataclass(frozen=True, eq=False)
class Write(Generic[T]):
    """A conditional write of one item, which `Table.write` sends alone or in a transaction. `request`: without
    TableName.

    `condition_error`: creates the error to raise if the condition fails.
    """

    kind: WriteKind
    row: Row[T]
    request: dict[str, Any]
    condition_error: ConditionErrorFactory[T]
    resulting_attributes: Image | None = None
    """The attributes that the write sets, with their new values; None for a removed attribute.

    It is None for a deletion, a check, and an addition (`add_with_minimum`), whose result is not known before.
    """
    may_repeat: bool = False
    """Whether the write is harmless if a retry of the AWS client applies it a second time."""
    busy_error: Callable[[], Exception] | None = None
    """Creates the error to raise if another transaction changes the item, or if DynamoDB throttles the write.

    None means that the transaction is sent again. A single write (no transaction) is always sent again.
    """

    @property
    def primary_key(self) -> tuple[str, str]:
        """The values of PK and SK."""
        key = self.request.get("Key") or self.request["Item"]
        return key["PK"]["S"], key["SK"]["S"]


IS_ABSENT, EXISTS, IS_UNCHANGED = "attribute_not_exists(PK)", "attribute_exists(PK)", "#version = :read"
"""Conditions. `:read` is the version of the item as it was read."""


def _build(
    kind: WriteKind,
    row: Row[T],
    place: Mapping[str, Any],
    condition: str,
    values: Mapping[str, Any] = MappingProxyType({}),
    *,
    update_expression: str = "",
    condition_error: ConditionErrorFactory[T] | None = None,
    **attributes: Any,
) -> Write[T]:
    """Build a write with its request. `place`: the item of a Put; otherwise the item or its key.

    In the condition and in `update_expression`, `#name` is an attribute, and `:name` one of `values`. `attributes`:
    other attributes of the Write. The default error of the condition is WriteConflict.
    """
    request: dict[str, Any] = {"Item": place} if kind == "Put" else {"Key": {"PK": place["PK"], "SK": place["SK"]}}
    request["ConditionExpression"] = condition
    if update_expression:
        request["UpdateExpression"] = update_expression
    if names := re.findall(r"#(\w+)", f"{condition} {update_expression}"):
        request["ExpressionAttributeNames"] = {f"#{name}": name for name in names}
    if values:
        request["ExpressionAttributeValues"] = {f":{name}": value for name, value in values.items()}
    return Write(kind, row, request, condition_error or (lambda found: WriteConflict(row.type)), **attributes)


def _set_and_remove(names: Iterable[str], removed_names: Iterable[str]) -> str:
    """Return the update expression that sets the attributes `names` to `:name`, and removes `removed_names`."""
    sets = "SET " + ", ".join(f"#{name} = :{name}" for name in names)
    removes = ", ".join(f"#{name}" for name in removed_names)
    return f"{sets} REMOVE {removes}" if removes else sets


def stamp_first(writes: Sequence[Write[Any]], actor: Actor) -> Sequence[Write[Any]]:
    """Return the writes of a command, with the actor stamped on the first primary item that they put or update.

    One stamp is enough for a command, because its first item is the one that it is about: the order, and not the goods
    that go back into stock. Writes of copies, checks and deletions get no stamp.
    """
    for number, write in enumerate(writes):
        if write.row.kind == "primary" and (
            write.kind == "Put" or f"#{AUDIT}" in write.request.get("UpdateExpression", "")
        ):
            return [*writes[:number], _stamp(write, {"M": build_encoder(Actor)(actor)}), *writes[number + 1 :]]
    return writes


def _stamp(write: Write[T], stamp: dict[str, Any]) -> Write[T]:
    request = dict(write.request)
    if write.kind == "Put":
        request["Item"] = {**request["Item"], AUDIT: stamp}
    else:
        kept = request["UpdateExpression"].removesuffix(f" REMOVE #{AUDIT}").removesuffix(f", #{AUDIT}")
        request["UpdateExpression"] = kept.replace("SET ", f"SET #{AUDIT} = :{AUDIT}, ", 1)
        request["ExpressionAttributeValues"] = {**request["ExpressionAttributeValues"], f":{AUDIT}": stamp}
    written = write.resulting_attributes
    return replace(write, request=request, resulting_attributes=None if written is None else {**written, AUDIT: stamp})


def put_if_absent(row: Row[T], item: T, *, condition_error: ConditionErrorFactory[T] | None = None) -> Write[T]:
    """Return a write that puts an item. The write fails if an item with the same key exists."""
    image = row.encode(item)
    return _build("Put", row, image, IS_ABSENT, condition_error=condition_error, resulting_attributes=image)


def conflict_if_busy(write: Write[T]) -> Write[T]:
    """Return the write with WriteConflict as its `busy_error`, which is raised if another transaction changes the item.

    Use it for an item that many transactions change: it is cheaper to read it again than to send the write again.
    """
    return replace(write, busy_error=partial(WriteConflict, write.row.type))


def put_if_newer(row: Row[T], item: T) -> Write[T]:
    """Return a write that puts a copy, whose `version` is that of its source, unless the stored copy is as new."""
    image = row.encode(item)
    values = {"version": image["version"]}
    return _build("Put", row, image, f"{IS_ABSENT} OR #version < :version", values, resulting_attributes=image)


def put_if_next(row: Row[T], item: T, previous: int, *, condition_error: ConditionErrorFactory[T]) -> Write[T]:
    """Return a write that puts a copy, if the stored copy has the version `previous` of the source."""
    image, values = row.encode(item), {"read": {"N": str(previous)}}
    return _build("Put", row, image, IS_UNCHANGED, values, condition_error=condition_error, resulting_attributes=image)


def put_if_held_by(row: Row[T], item: T, holder_field: str, holder_value: str) -> Write[T]:
    """Return a write that overwrites the stored item, if its field `holder_field` has the value `holder_value`."""
    image, values = row.encode(item), {"holder": {"S": holder_value}}
    return _build("Put", row, image, f"#{holder_field} = :holder", values, resulting_attributes=image)


def update(
    row: Row[T],
    before: T,
    after: T,
    *,
    keep_version: bool = False,
    condition_error: ConditionErrorFactory[T] | None = None,
) -> Write[T]:
    """Return a write of the difference between an item as it was read (`before`) and its new state (`after`).

    The write fails if the item changed since it was read. It sends only the changed attributes, with index keys, so
    those that only newer code knows stay. If the row's schema number was raised, the item gets it, because older code
    must not read the new form. Raises ValueError if `after.version` is not `before.version` + 1. `keep_version`: the
    version stays. Then the write is no change of the item, and no event is published.
    """
    old, new = row.encode(before), row.encode(after)
    if int(new["version"]["N"]) != int(old["version"]["N"]) + (not keep_version):
        raise ValueError(f"{row.type}: after.version must be before.version + 1, or the same with keep_version")
    changed_names = [name for name in new if new[name] != old.get(name) or (name == "schema" and row.schema > 1)]
    removed_names = [name for name in old if name not in new]
    # The stored item may still have a changed attribute under its former name.
    removed_names += [row.former_names[name] for name in (*changed_names, *removed_names) if name in row.former_names]
    removed_names.append(AUDIT)  # the stamp of the version before; `stamp_first` expects it at the end
    changed = {name: new[name] for name in changed_names}
    return _build(
        "Update",
        row,
        old,
        IS_UNCHANGED,
        {**changed, "read": old["version"]},
        update_expression=_set_and_remove(changed_names, removed_names),
        condition_error=condition_error,
        resulting_attributes=changed,
    )


def replace_with(before_row: Row[Any], before: Any, row: Row[T], item: T) -> Write[T]:
    """Return a write that overwrites an item, unless it changed since it was read, with one of another type."""
    old, image = before_row.encode(before), row.encode(item)
    return _build("Put", row, image, IS_UNCHANGED, {"read": old["version"]}, resulting_attributes=image)


def add_with_minimum(
    row: Row[T],
    key: Mapping[str, Any],
    *,
    add: Mapping[str, int],
    at_least: Mapping[str, int],
    condition_error: ConditionErrorFactory[T],
    from_zero: Sequence[str] = (),
    texts: Mapping[str, str] = MappingProxyType({}),
    former: Mapping[str, str] = MappingProxyType({}),
) -> Write[T]:
    """Return a write that adds amounts to numeric fields of an existing item, and 1 to its version.

    `add`: the amount by field name; it may be negative. `at_least`: the minimum that a field must have before the
    addition. `from_zero`: the fields that count as 0 if the stored item does not have them. `texts`: other fields to
    set, with their text. `former`: {name: other}: sets the field `name` to the value that the field `other` has before
    the addition.

    The condition does not compare the version, so other processes may change the item meanwhile. If the response is
    lost, the item does not show whether the addition was applied. So `Table.write` sends even a single addition with
    TransactWriteItems, whose ClientRequestToken makes a retry safe.
    """
    sets = ["#version = #version + :one"]
    sets += [
        f"#{name} = {f'if_not_exists(#{name}, :zero)' if name in from_zero else f'#{name}'} + :{name}" for name in add
    ]
    sets += [f"#{name} = :{name}" for name in texts]
    sets += [f"#{name} = #{source}" for name, source in former.items()]
    values = {"one": {"N": "1"}} | ({"zero": {"N": "0"}} if from_zero else {})
    values |= {name: {"N": str(amount)} for name, amount in add.items()}
    values |= {name: {"S": text} for name, text in texts.items()}
    values |= {f"least_{name}": {"N": str(least)} for name, least in at_least.items()}
    condition = " AND ".join([EXISTS, *(f"#{name} >= :least_{name}" for name in at_least)])
    expression = f"SET {', '.join(sets)} REMOVE #{AUDIT}"
    return _build("Update", row, key, condition, values, update_expression=expression, condition_error=condition_error)


def put_unless_between(row: Row[T], item: T, name: str, low: int, high: int) -> Write[T]:
    """Return a write that puts an item, unless the numeric field `name` of the stored item is from `low` to `high`.

    If the condition fails, an equal stored item does not count as applied: another process may have put it.
    """
    values = {"low": {"N": str(low)}, "high": {"N": str(high)}}
    condition = f"{IS_ABSENT} OR NOT #{name} BETWEEN :low AND :high"
    return _build("Put", row, row.encode(item), condition, values, condition_error=ConditionFailed, may_repeat=True)


def add_if_between(row: Row[T], item: T, name: str, amount: int, low: int, high: int) -> Write[T]:
    """Return a write that adds an amount to the field `name` of the stored item, if its value is from `low` to `high`.

    `item`: has the key and the new `ttl`. A retry of the AWS client may add the amount a second time. So use this write
    only for a field that may be too high.
    """
    image = row.encode(item)
    numbers = {"amount": amount, "low": low, "high": high}
    return _build(
        "Update",
        row,
        image,
        f"#{name} BETWEEN :low AND :high",
        {"ttl": image["ttl"]} | {name: {"N": str(number)} for name, number in numbers.items()},
        update_expression=f"SET #{name} = #{name} + :amount, #ttl = :ttl",
        condition_error=ConditionFailed,
        may_repeat=True,
    )


def copy_attributes(
    row: Row[T],
    key: Mapping[str, Any],
    attributes: Mapping[str, str | None],
    source: tuple[str, int],
    only_where: Mapping[str, Sequence[str]],
) -> Write[T]:
    """Return a write that copies text attributes of a source item into an existing target item.

    The write fails if the target already has the attributes from the same or a later version of the source. The
    target's own version stays, so that concurrent updates of it do not fail. `attributes`: the text by name; None
    removes the attribute. `source`: the target's attribute for the version of the source, and this version.
    `only_where`: the allowed values of fields of the target, by name.
    """
    image = {name: {"S": text} for name, text in attributes.items() if text is not None}
    image[source[0]] = {"N": str(source[1])}
    removed_names = [name for name in attributes if name not in image]
    values, conditions = dict(image), []
    for field, allowed in only_where.items():
        names = [f"{field}_{number}" for number in range(len(allowed))]
        values |= {name: {"S": value} for name, value in zip(names, allowed, strict=True)}
        conditions.append(f"#{field} IN ({', '.join(f':{name}' for name in names)})")
    older = f"(attribute_not_exists(#{source[0]}) OR #{source[0]} < :{source[0]})"
    return _build(
        "Update",
        row,
        key,
        " AND ".join([*conditions, older]),
        values,
        update_expression=_set_and_remove(image, removed_names),
        resulting_attributes={**image, **dict.fromkeys(removed_names)},
    )


def check_unchanged(row: Row[T], item: T, *, condition_error: ConditionErrorFactory[T] | None = None) -> Write[T]:
    """Return a check that fails the transaction if this item changed since it was read. Writes nothing."""
    image = row.encode(item)
    values = {"read": image["version"]}
    return _build("ConditionCheck", row, image, IS_UNCHANGED, values, condition_error=condition_error)


def check_absent(
    row: Row[T], key: Mapping[str, Any], *, condition_error: ConditionErrorFactory[T] | None = None
) -> Write[T]:
    """Return a check that fails the transaction if an item exists under this key. Writes nothing."""
    return _build("ConditionCheck", row, key, IS_ABSENT, condition_error=condition_error)


def check_exists(row: Row[T], key: Mapping[str, Any], *, condition_error: ConditionErrorFactory[T]) -> Write[T]:
    """Return a check that fails the transaction if no item exists under this key. Writes nothing."""
    return _build("ConditionCheck", row, key, EXISTS, condition_error=condition_error)


def delete(row: Row[T], item: T) -> Write[T]:
    """Return a write that deletes an item. The write fails if the item changed since it was read."""
    image = row.encode(item)
    return _build("Delete", row, image, IS_UNCHANGED, {"read": image["version"]})


def delete_if_held_by(row: Row[T], key: Mapping[str, Any], holder_field: str, holder_value: str) -> Write[T]:
    """Return a write that deletes the item with this key, if its field `holder_field` has the value `holder_value`."""
    return _build("Delete", row, key, f"#{holder_field} = :holder", {"holder": {"S": holder_value}})


def delete_if_older(row: Row[T], item: T) -> Write[T]:
    """Return a write that deletes the stored copy, if there is one and it is older than `item`.

    The version of `item` is that of the source after the change that made the copy unnecessary, or the last version
    plus 1 if the source was deleted.
    """
    image = row.encode(item)
    return _build("Delete", row, image, f"{IS_ABSENT} OR #version < :version", {"version": image["version"]})
