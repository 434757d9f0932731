"""Simulates the DynamoDB table with the local DynamoDB engine, and records all versions of all items.

After every write, `send` reads the engine's new stream records at once. So each record has the virtual time of its
write, and `history` has every version of every item. From the history, the module can also answer stale reads.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from functions.dynamodb.keys import KEY_ATTRIBUTES
from functions.dynamodb.table import BATCH_WRITE_LIMIT
from functions.model.table import INDEX_PROJECTIONS, create_table_request
from local.event_source_mappings.records import TTL_IDENTITY
from local.world.dynamodb_engine import REGION, Engine
from proof.support.engine_connection import EngineConnection

Image = Mapping[str, Any]
Key = tuple[str, str]
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem"}
STREAM = "arn:aws:dynamodb:eu-central-1:000000000000:table/orders/stream/2026-11-02T08:00:00.000"
NEW_RECORDS = """
    SELECT id, event_name, keys_json, new_image, old_image FROM _stream_records
    WHERE id > ? AND +table_name = ? ORDER BY id
"""
NESTED_KINDS = {"M", "L"}
"""The DynamoDB attribute types that contain other attribute values: map and list."""
FIRST_SEQUENCE_NUMBER = 10**20


class TracedEngineConnection(EngineConnection):
    """Connects to the local engine and its database file, from which it reads records faster than with GetRecords."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.port)
        self._file = sqlite3.connect(f"file:{engine.database}?mode=ro", uri=True, isolation_level=None)
        self._file.text_factory = bytes
        self._table = ""
        self._seen = 0

    def new_table(self, name: str) -> None:
        """Create the table of a run, and delete that of the previous run, because each more makes the engine slower."""
        if self._table:
            self._do("DeleteTable", {"TableName": self._table})
        self._do("CreateTable", create_table_request(name))
        self._table = name
        (self._seen,) = self._file.execute("SELECT COALESCE(MAX(id), 0) FROM _stream_records").fetchone()

    def _do(self, operation: str, request: Mapping[str, Any]) -> None:
        status, answer = self.request(f"DynamoDB_20120810.{operation}", orjson.dumps(request))
        assert status == 200, answer

    def read_new_records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the stream records that were written since the last call, each as (event name, `dynamodb` object)."""
        for id, name, keys, new, old in self._file.execute(NEW_RECORDS, (self._seen, self._table)).fetchall():
            self._seen = id
            texts = {"Keys": keys, "NewImage": new, "OldImage": old}
            images = {one: _sort_attributes(orjson.loads(text)) for one, text in texts.items() if text is not None}
            size = sum(len(text) for text in texts.values() if text is not None)
            yield name.decode(), {**images, "SizeBytes": size, "StreamViewType": "NEW_AND_OLD_IMAGES"}

    def close(self) -> None:
        super().close()
        self._file.close()


class SimulatedTable:
    """The table of one run. All `listeners` get each stream record.

    `history`: by key, all versions of each item, each with the virtual time of the write; None for a deletion.
    """

    def __init__(self, line: TracedEngineConnection, name: str, now: Callable[[], float]) -> None:
        line.new_table(name)
        self.name = name
        self.listeners: list[Callable[[dict[str, Any]], None]] = []
        self.history: dict[Key, list[tuple[float, Image | None]]] = defaultdict(list)
        self._line, self._now = line, now
        self._count = 0

    # requests to the engine -------------------------------------------------------------------------------------------
    def send(self, operation: str, body: bytes) -> tuple[int, bytes]:
        """Send a request to the DynamoDB engine, and record its writes. Return the HTTP status and the body."""
        status, answer = self._line.request(f"DynamoDB_20120810.{operation}", body)
        if operation in WRITES and status == 200:
            self._record_writes(expired=False)
        return status, answer

    def call(self, operation: str, **request: Any) -> dict[str, Any]:
        """Send a request of the simulation itself, without injected faults. The test fails if the request fails."""
        status, body = self.send(operation, orjson.dumps({"TableName": self.name, **request}))
        assert status == 200, body
        answer: dict[str, Any] = orjson.loads(body)
        return answer

    def expire(self, keys: Sequence[Key]) -> None:
        """Delete items as DynamoDB does after their TTL: their stream records have the TTL service's `userIdentity`."""
        for start in range(0, len(keys), BATCH_WRITE_LIMIT):
            some = keys[start : start + BATCH_WRITE_LIMIT]
            deletions = [{"DeleteRequest": {"Key": {"PK": {"S": pk}, "SK": {"S": sk}}}} for pk, sk in some]
            body = orjson.dumps({"RequestItems": {self.name: deletions}})
            status, answer = self._line.request("DynamoDB_20120810.BatchWriteItem", body)
            assert status == 200, answer
            self._record_writes(expired=True)

    def _record_writes(self, *, expired: bool) -> None:
        """Put new stream records, with virtual times and repeatable numbers, into the history, and tell listeners."""
        for name, change in self._line.read_new_records():
            self._count += 1
            record = {
                "eventID": f"{self._count:032x}",
                "eventName": name,
                "eventVersion": "1.1",
                "eventSource": "aws:dynamodb",
                "awsRegion": REGION,
                "dynamodb": {
                    **change,
                    "ApproximateCreationDateTime": float(int(self._now())),
                    "SequenceNumber": str(FIRST_SEQUENCE_NUMBER + self._count),
                },
                "eventSourceARN": STREAM,
                **({"userIdentity": TTL_IDENTITY} if expired else {}),
            }
            self.history[_key(change["Keys"])].append((self._now(), change.get("NewImage")))
            for listener in self.listeners:
                listener(record)

    # current state ----------------------------------------------------------------------------------------------------
    def items(self) -> Iterator[Image]:
        """Yield every item that is in the table now, with DynamoDB type tags such as {"S": ...}."""
        for versions in self.history.values():
            if (image := versions[-1][1]) is not None:
                yield image

    def image(self, key: Key) -> Image | None:
        return self.history[key][-1][1] if key in self.history else None

    def of_type(self, *types: str) -> list[Image]:
        return [image for image in self.items() if image["type"]["S"] in types]

    # stale reads ------------------------------------------------------------------------------------------------------
    def stale_answer(self, operation: str, request: Mapping[str, Any], lag_seconds: Callable[[Key], float]) -> bytes:
        """Answer a read with old data. `lag_seconds`: how old an item is, by its key (equal for a late replica)."""
        answer: dict[str, Any]
        match operation:
            case "Query":
                answer = self._stale_page(request, lag_seconds)
            case "GetItem":
                image = self._as_of(_key(request["Key"]), lag_seconds)
                answer = {"Item": _projected(image, request)} if image else {}
            case _:
                keys = [_key(key) for one in request["RequestItems"].values() for key in one["Keys"]]
                found = [image for key in keys if (image := self._as_of(key, lag_seconds))]
                answer = {"Responses": {self.name: found}, "UnprocessedKeys": {}}
        return orjson.dumps(answer)

    def _as_of(self, key: Key, lag_seconds: Callable[[Key], float]) -> Image | None:
        moment = self._now() - lag_seconds(key)
        return next((image for at, image in reversed(self.history.get(key, ())) if at <= moment), None)

    def _stale_page(self, request: Mapping[str, Any], lag_seconds: Callable[[Key], float]) -> dict[str, Any]:
        """Answer a Query with old versions of the items, for the kinds of key conditions that the shop's code uses."""
        index = request.get("IndexName", "main")
        partition, sort = KEY_ATTRIBUTES[index.lower()]
        values = {name: one.get("S", one.get("N", "")) for name, one in request["ExpressionAttributeValues"].items()}
        low, high = values.get(":low", ""), values.get(":high", "\U0010ffff")
        if ":after" in values:
            below = "#sk < :after" in request["KeyConditionExpression"]
            low, high = ("", _just_below(values[":after"])) if below else (values[":after"] + "\0", high)
        images = [image for key in list(self.history) if (image := self._as_of(key, lag_seconds))]
        found = [
            image
            for image in images
            if image.get(partition, {}).get("S") == values[":pk"] and low <= image[sort]["S"] <= high
        ]
        found.sort(key=lambda image: image[sort]["S"], reverse=not request.get("ScanIndexForward", True))
        limit = request.get("Limit", len(found) + 1)
        page, more = found[:limit], len(found) >= limit  # as in DynamoDB, a full last page has a LastEvaluatedKey too
        last = {"LastEvaluatedKey": {name: page[-1][name] for name in {partition, sort, "PK", "SK"}}} if more else {}
        if ":now" in values:
            page = [image for image in page if "ttl" not in image or int(image["ttl"]["N"]) > int(values[":now"])]
        names = INDEX_PROJECTIONS.get(index)
        keys = {name for pair in (KEY_ATTRIBUTES["main"], (partition, sort)) for name in pair}
        shown = [{n: v for n, v in image.items() if names is None or n in names or n in keys} for image in page]
        return {"Items": shown, "Count": len(shown), "ScannedCount": min(limit, len(found)), **last}


def _sort_attributes(image: Mapping[str, Any]) -> Image:
    """Sort the attributes of an item by name, because the local DynamoDB engine returns them in no stable order."""
    return {
        name: one if next(iter(one)) not in NESTED_KINDS else _sort_attribute(one)
        for name, one in sorted(image.items())
    }


def _sort_attribute(attribute: Mapping[str, Any]) -> Mapping[str, Any]:
    match attribute:
        case {"M": image}:
            return {"M": _sort_attributes(image)}
        case {"L": attributes}:
            return {"L": [_sort_attribute(one) for one in attributes]}
    return attribute


def _key(keys: Mapping[str, Any]) -> Key:
    return keys["PK"]["S"], keys["SK"]["S"]


def _just_below(text: str) -> str:
    return text[:-1] + chr(ord(text[-1]) - 1) + "\U0010ffff"


def _projected(image: Image, request: Mapping[str, Any]) -> Image:
    names = request.get("ExpressionAttributeNames") if "ProjectionExpression" in request else None
    return {name: value for name, value in image.items() if name in names.values()} if names else image
