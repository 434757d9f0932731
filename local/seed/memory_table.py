"""A DynamoDB table in the memory of this process, for `make fill`: about thirty times as fast as a real table.

The table answers only the operations and expressions that functions/dynamodb/table.py sends. Any other expression
raises ValueError. A test runs the same commands here and on the local DynamoDB, and compares all items.

Differences from DynamoDB: there is one caller at a time, so there are no throttles and no conflicts. All reads are
strongly consistent, also reads of an index. An answer may be larger than 1 MB.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from botocore.exceptions import ClientError

from functions.dynamodb.keys import KEY_ATTRIBUTES
from functions.model.table import INDEX_PROJECTIONS
from local.event_source_mappings.records import TTL_IDENTITY

Image = Mapping[str, Any]
"""An item in DynamoDB's JSON."""
Key = tuple[str, str]
Request = Mapping[str, Any]
Test = Callable[[Image, Request], bool]
Operand = Callable[[Image, Request], Any]

KEY_NAMES = {name if name == "main" else name.upper(): pair for name, pair in KEY_ATTRIBUTES.items()}
"""The key attributes of the table ("main") and of each index ("GSI1" and so on), as they are in a request."""
PROJECTED = {
    name: frozenset({*attributes, *KEY_NAMES["main"], *KEY_NAMES[name]}) if attributes is not None else None
    for name, attributes in INDEX_PROJECTIONS.items()
}


class MemoryTable:
    """A client of DynamoDB with one table in memory. Its methods have the arguments and answers of a boto3 client.

    `clock`: the time of a stream record. `items`: the items by partition key and sort key.
    """

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
            passes = _condition(request["FilterExpression"])
            items = [one for one in read if passes(one, request)]
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
        return _condition(request["ConditionExpression"])(self.items.get(key, {}), request)

    def _apply(self, kind: str, key: Key, request: Request) -> None:
        if kind == "Put":
            self._store(key, dict(request["Item"]))
        elif kind == "Delete":
            self._store(key, None)
        elif kind == "Update":
            sets, removes = _update(request["UpdateExpression"])
            before = self.items.get(key) or request["Key"]
            names = request["ExpressionAttributeNames"]
            changed = {names[name]: value(before, request) for name, value in sets}
            dropped = {names[name] for name in removes}
            self._store(key, {**{name: before[name] for name in before if name not in dropped}, **changed})

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


# expressions ----------------------------------------------------------------------------------------------------------
TOKEN = re.compile(r"\s*([#:]?\w+|<=|>=|<>|[()=<>,+-])")
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda one, other: one == other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


@cache
def _condition(text: str) -> Test:
    return _Parser(text).condition()


@cache
def _update(text: str) -> tuple[list[tuple[str, Operand]], list[str]]:
    return _Parser(text).update()


class _Parser:
    """Turns an expression into functions of an item and of the request that has the names and values."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._at = 0

    def condition(self) -> Test:
        found = self._any_of()
        if self._peek():
            raise self._unknown()
        return found

    def update(self) -> tuple[list[tuple[str, Operand]], list[str]]:
        """Return the attributes to set, each with its value, and the attributes to remove."""
        sets: list[tuple[str, Operand]] = []
        removes: list[str] = []
        self._expect("SET")
        while True:
            name = self._next()
            self._expect("=")
            sets.append((name, self._sum()))
            if not self._accept(","):
                break
        if self._accept("REMOVE"):
            removes.append(self._next())
            while self._accept(","):
                removes.append(self._next())
        if self._peek():
            raise self._unknown()
        return sets, removes

    def _any_of(self) -> Test:
        parts = [self._all_of()]
        while self._accept("OR"):
            parts.append(self._all_of())
        return parts[0] if len(parts) == 1 else lambda item, request: any(part(item, request) for part in parts)

    def _all_of(self) -> Test:
        parts = [self._not()]
        while self._accept("AND"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else lambda item, request: all(part(item, request) for part in parts)

    def _not(self) -> Test:
        if self._accept("NOT"):
            inner = self._not()
            return lambda item, request: not inner(item, request)
        if self._accept("("):
            inner = self._any_of()
            self._expect(")")
            return inner
        if self._peek() in {"attribute_exists", "attribute_not_exists"}:
            return self._existence(self._next() == "attribute_exists")
        return self._comparison()

    def _existence(self, wanted: bool) -> Test:
        self._expect("(")
        name = self._next()
        self._expect(")")
        return lambda item, request: (_name(name, request) in item) is wanted

    def _comparison(self) -> Test:
        left = self._operand()
        kind = self._next()
        if kind == "BETWEEN":
            low = self._operand()
            self._expect("AND")
            high = self._operand()
            return lambda item, request: _is_between(left(item, request), low(item, request), high(item, request))
        if kind == "IN":
            self._expect("(")
            choices = [self._operand()]
            while self._accept(","):
                choices.append(self._operand())
            self._expect(")")
            return lambda item, request: left(item, request) in [one(item, request) for one in choices]
        if kind not in COMPARISONS:
            raise self._unknown()
        compare, right = COMPARISONS[kind], self._operand()
        return lambda item, request: _compare(compare, left(item, request), right(item, request))

    def _sum(self) -> Operand:
        left = self._operand()
        if not self._accept("+"):
            return left
        right = self._operand()
        return lambda item, request: {"N": str(_number(left(item, request)) + _number(right(item, request)))}

    def _operand(self) -> Operand:
        token = self._next()
        if token == "if_not_exists":
            self._expect("(")
            name = self._next()
            self._expect(",")
            default = self._operand()
            self._expect(")")
            return lambda item, request: item.get(_name(name, request)) or default(item, request)
        if token.startswith(":"):
            return lambda item, request: request["ExpressionAttributeValues"][token]
        if token.startswith("#"):
            return lambda item, request: item.get(request["ExpressionAttributeNames"][token])
        raise self._unknown()

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _accept(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise self._unknown()

    def _unknown(self) -> ValueError:
        return ValueError(f"the table in memory does not know this expression: {self._text}")


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"the table in memory does not know this expression: {text}")
        yield found[1]
        at = found.end()


def _name(token: str, request: Request) -> str:
    return str(request["ExpressionAttributeNames"][token]) if token.startswith("#") else token


def _compare(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    """Compare two attribute values. A comparison with a missing attribute is false, as in DynamoDB."""
    if left is None or right is None or left.keys() != right.keys():
        return False
    return compare(_comparable(left), _comparable(right))


def _is_between(value: Any, low: Any, high: Any) -> bool:
    return _compare(COMPARISONS["<="], low, value) and _compare(COMPARISONS["<="], value, high)


def _comparable(value: Image) -> Any:
    ((kind, content),) = value.items()
    return int(content) if kind == "N" else content


def _number(value: Image) -> int:
    return int(value["N"])
