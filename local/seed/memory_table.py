"""A DynamoDB table in the memory of this process, for `make fill`: about thirty times as fast as a real table.

The table answers only the operations and key conditions that functions/dynamodb/table.py sends. The emulator ministack
evaluates the other expressions. A test runs the same commands here and on the local DynamoDB, and compares all items.

Differences from DynamoDB: there is one caller at a time, so there are no throttles and no conflicts. All reads are
strongly consistent, also reads of an index. An answer may be larger than 1 MB.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError
from ministack.services import dynamodb  # type: ignore[import-untyped]

from functions.dynamodb.keys import KEY_ATTRIBUTES
from functions.model.table import INDEX_PROJECTIONS
from local.event_source_mappings.records import TTL_IDENTITY

Image = Mapping[str, Any]
"""An item in DynamoDB's JSON."""
Key = tuple[str, str]
Request = Mapping[str, Any]

KEY_NAMES = {name if name == "main" else name.upper(): pair for name, pair in KEY_ATTRIBUTES.items()}
"""The key attributes of the table ("main") and of each index ("GSI1" and so on), as they are in a request."""
PROJECTED = {
    name: frozenset({*attributes, *KEY_NAMES["main"], *KEY_NAMES[name]}) if attributes is not None else None
    for name, attributes in INDEX_PROJECTIONS.items()
}


class MemoryTable:
    """A client of DynamoDB with one table in memory, like that of boto3. `items`: by partition key and sort key."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self.items: dict[Key, Image] = {}
        self._clock = clock
        self._records: list[dict[str, Any]] = []
        self._sequence = 0
        self._sorted: dict[tuple[str, str], list[tuple[str, Key]]] = defaultdict(list)
        """By index and partition key: the sort key and the primary key of each item, sorted."""
        self._ends: list[tuple[int, Key]] = []
        """A heap of all expiry times (epoch seconds) that an item has or had."""

    # reading ----------------------------------------------------------------------------------------------------------
    def get_item(self, **request: Any) -> dict[str, Any]:
        found = self.items.get(_key(request["Key"]))
        if found is None:
            return {}
        if "ProjectionExpression" in request:
            found = {name: found[name] for name in request["ExpressionAttributeNames"].values() if name in found}
        return {"Item": found}

    def batch_get_item(self, **request: Any) -> dict[str, Any]:
        answers = {
            table: [self.items[key] for one in asked["Keys"] if (key := _key(one)) in self.items]
            for table, asked in request["RequestItems"].items()
        }
        return {"Responses": answers}

    def query(self, **request: Any) -> dict[str, Any]:
        index = request.get("IndexName", "main")
        names, values = request["ExpressionAttributeNames"], request["ExpressionAttributeValues"]
        entries = self._sorted.get((index, values[":pk"]["S"]), [])
        low, high = _range_of(request["KeyConditionExpression"], values, entries)
        if start := request.get("ExclusiveStartKey"):
            low = max(low, bisect_right(entries, (start[names.get("#sk", "SK")]["S"], _key(start))))
        chosen: Sequence[tuple[str, Key]] = entries[low:high]
        if not request.get("ScanIndexForward", True):
            chosen = chosen[::-1]
        limit = request.get("Limit", len(chosen))
        read = [self.items[key] for _, key in chosen[:limit]]
        if "FilterExpression" in request:
            items = [one for one in read if _is_met(one, request["FilterExpression"], request)]
        else:
            items = read
        projected = PROJECTED.get(index)
        if projected is not None:
            items = [{name: one[name] for name in one if name in projected} for one in items]
        answer: dict[str, Any] = {"Items": items}
        if limit < len(chosen):
            answer["LastEvaluatedKey"] = {name: read[-1][name] for name in {*KEY_NAMES["main"], *KEY_NAMES[index]}}
        return answer

    # writing ----------------------------------------------------------------------------------------------------------
    def put_item(self, **request: Any) -> dict[str, Any]:
        return self._write_one("Put", request)

    def update_item(self, **request: Any) -> dict[str, Any]:
        return self._write_one("Update", request)

    def delete_item(self, **request: Any) -> dict[str, Any]:
        return self._write_one("Delete", request)

    def transact_write_items(self, **request: Any) -> dict[str, Any]:
        """Apply all writes or none. Raises the ClientError of a cancelled transaction, with a reason for each write."""
        writes = [next(iter(one.items())) for one in request["TransactItems"]]
        keys = [_key_of_write(kind, write) for kind, write in writes]
        if len(set(keys)) < len(keys):
            raise ValueError("a transaction has two writes of one item")
        met = [self._is_met(key, write) for key, (_, write) in zip(keys, writes, strict=True)]
        if not all(met):
            reasons = [
                {"Code": "None"} if fine else {"Code": "ConditionalCheckFailed", "Item": self.items.get(key)}
                for key, fine in zip(keys, met, strict=True)
            ]
            raise _error("TransactionCanceledException", "TransactWriteItems", CancellationReasons=reasons)
        for key, (kind, write) in zip(keys, writes, strict=True):
            self._apply(kind, key, write)
        return {}

    def batch_write_item(self, **request: Any) -> dict[str, Any]:
        for asked in request["RequestItems"].values():
            for one in asked:
                self._store(_key(one["DeleteRequest"]["Key"]), None)
        return {}

    def expire(self, until: int) -> None:
        """Delete the items whose `ttl` (epoch seconds) is `until` or earlier, as DynamoDB does."""
        while self._ends and self._ends[0][0] <= until:
            _, key = heapq.heappop(self._ends)
            if int(self.items.get(key, {}).get("ttl", {"N": until + 1})["N"]) <= until:
                self._store(key, None)
                self._records[-1]["userIdentity"] = TTL_IDENTITY

    def read_records(self) -> list[dict[str, Any]]:
        """Return the stream records since the last call, as Lambda gets them."""
        found, self._records = self._records, []
        return found

    def _write_one(self, kind: str, request: Request) -> dict[str, Any]:
        key = _key_of_write(kind, request)
        if not self._is_met(key, request):
            raise _error("ConditionalCheckFailedException", kind, Item=self.items.get(key))
        self._apply(kind, key, request)
        return {}

    def _is_met(self, key: Key, request: Request) -> bool:
        if "ConditionExpression" not in request:
            return True
        return _is_met(self.items.get(key, {}), request["ConditionExpression"], request)

    def _apply(self, kind: str, key: Key, request: Request) -> None:
        if kind == "Put":
            self._store(key, dict(request["Item"]))
        elif kind == "Delete":
            self._store(key, None)
        elif kind == "Update":
            before = self.items.get(key) or request["Key"]
            values, names = request["ExpressionAttributeValues"], request["ExpressionAttributeNames"]
            after, _ = dynamodb._apply_update_expression(before, request["UpdateExpression"], values, names)
            self._store(key, after)

    def _store(self, key: Key, new: Image | None) -> None:
        """Replace an item in the table and in all indexes, and add a stream record if the item changed."""
        old = self.items.pop(key, None)
        for index, names in KEY_NAMES.items():
            before, after = _index_entry(names, key, old), _index_entry(names, key, new)
            if before == after:
                continue
            if before:
                entries = self._sorted[index, before[0]]
                del entries[bisect_left(entries, before[1])]
            if after:
                insort(self._sorted[index, after[0]], after[1])
        if new is not None:
            self.items[key] = new
            if "ttl" in new:
                heapq.heappush(self._ends, (int(new["ttl"]["N"]), key))
        if old != new:
            self._sequence += 1
            self._records.append(self._record(key, old, new))

    def _record(self, key: Key, old: Image | None, new: Image | None) -> dict[str, Any]:
        images = {"OldImage": old, "NewImage": new}
        return {
            "eventID": f"{self._sequence:032x}",
            "eventName": "INSERT" if old is None else "REMOVE" if new is None else "MODIFY",
            "eventSource": "aws:dynamodb",
            "dynamodb": {
                "ApproximateCreationDateTime": self._clock().timestamp(),
                "Keys": {"PK": {"S": key[0]}, "SK": {"S": key[1]}},
                "SequenceNumber": str(self._sequence),
                **{name: image for name, image in images.items() if image is not None},
            },
        }


def _key(image: Image) -> Key:
    return image["PK"]["S"], image["SK"]["S"]


def _key_of_write(kind: str, request: Request) -> Key:
    return _key(request["Item"] if kind == "Put" else request["Key"])


def _index_entry(names: tuple[str, str], key: Key, image: Image | None) -> tuple[str, tuple[str, Key]] | None:
    """Return the partition key and the entry of an item in an index, or None if the index does not contain the item."""
    if image is None or names[0] not in image or names[1] not in image:
        return None
    return image[names[0]]["S"], (image[names[1]]["S"], key)


def _error(code: str, operation: str, **more: Any) -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": code}, **more}
    return ClientError(response, operation)


def _range_of(condition: str, values: Mapping[str, Any], entries: Sequence[tuple[str, Key]]) -> tuple[int, int]:
    """Return the range (first position, last position + 1) of the sorted entries that match a key condition."""
    highest: Key = ("\U0010ffff", "")
    match condition.removeprefix("#pk = :pk"):
        case "":
            return 0, len(entries)
        case " AND #sk BETWEEN :low AND :high":
            low, high = values[":low"]["S"], values[":high"]["S"]
            return bisect_left(entries, (low, ("", ""))), bisect_right(entries, (high, highest))
        case " AND #sk < :after":
            return 0, bisect_left(entries, (values[":after"]["S"], ("", "")))
        case " AND #sk > :after":
            return bisect_right(entries, (values[":after"]["S"], highest)), len(entries)
        case other:
            raise ValueError(f"unknown key condition: {other}")


def _is_met(item: Image, expression: str, request: Request) -> bool:
    values, names = request.get("ExpressionAttributeValues", {}), request.get("ExpressionAttributeNames", {})
    return bool(dynamodb._evaluate_condition(expression, item, values, names))
