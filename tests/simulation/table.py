"""The table: the local engine behind one socket, everything that was ever written, and how a late replica would answer.

Every write goes through `send`, which reads the engine's stream at once: so each record has the virtual moment of its
write, and `history` is what a reader of the past would find.
"""

import json
import socket
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from functions.dynamodb.keys import ATTRIBUTES
from functions.model.table import PROJECTED, create_table_request
from local.engine import REGION, Engine
from local.mappings.records import TIME_TO_LIVE

Image = Mapping[str, Any]
Key = tuple[str, str]
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem"}
SIGNED = (
    b"AWS4-HMAC-SHA256 Credential=local/20261121/eu-central-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0"
)
STREAM = "arn:aws:dynamodb:eu-central-1:000000000000:table/orders/stream/2026-11-02T08:00:00.000"
FIRST_SEQUENCE_NUMBER = 10**20


class Line:
    """One connection to the engine that stays open: requests as bytes, answers as bytes, nothing in between."""

    def __init__(self, engine: Engine) -> None:
        self._socket = socket.create_connection(("127.0.0.1", engine.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, target: str, body: bytes) -> tuple[int, bytes]:
        """Send a request of `Service_Version.Operation`; the HTTP status and the answer's body."""
        head = (
            f"POST / HTTP/1.1\r\nHost: engine\r\nX-Amz-Target: {target}\r\nX-Amz-Date: 20261121T000000Z\r\n"
            f"Content-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}\r\n"
        )
        self._socket.sendall(head.encode() + b"Authorization: " + SIGNED + b"\r\n\r\n" + body)
        answer = bytearray()
        while (end := answer.find(b"\r\n\r\n")) < 0:
            answer += self._received()
        fields = bytes(answer[:end]).lower().split(b"\r\n")
        length = next(int(field[15:]) for field in fields if field.startswith(b"content-length:"))
        while len(answer) < end + 4 + length:
            answer += self._received()
        return int(fields[0][9:12]), bytes(answer[end + 4 :])

    def _received(self) -> bytes:
        if not (received := self._socket.recv(1 << 16)):
            raise ConnectionError("the engine hung up")
        return received

    def close(self) -> None:
        self._socket.close()


class SimulatedTable:
    """`listeners` are told of each stream record, in Lambda's shape, at the moment of its write."""

    def __init__(self, engine: Engine, line: Line, name: str, now: Callable[[], float]) -> None:
        engine.create_table(name, create_table_request(name))
        self.name = name
        self.listeners: list[Callable[[dict[str, Any]], None]] = []
        self.history: dict[Key, list[tuple[float, Image | None]]] = defaultdict(list)
        self._line, self._now = line, now
        self._count = 0
        arn = self._streams("ListStreams", TableName=name)["Streams"][0]["StreamArn"]
        (shard,) = self._streams("DescribeStream", StreamArn=arn)["StreamDescription"]["Shards"]
        start = {"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
        self._iterator = self._streams("GetShardIterator", **start)["ShardIterator"]

    # asking the engine ------------------------------------------------------------------------------------------------
    def send(self, operation: str, body: bytes) -> tuple[int, bytes]:
        """What the engine answers; what it wrote is known when this returns."""
        status, answer = self._line.ask(f"DynamoDB_20120810.{operation}", body)
        if operation in WRITES and status == 200:
            self._observe(expired=False)
        return status, json.dumps(_read(answer)).encode()

    def do(self, operation: str, **request: Any) -> dict[str, Any]:
        """A request of the simulation's own, on which nothing ever goes wrong."""
        status, body = self.send(operation, json.dumps({"TableName": self.name, **request}).encode())
        assert status == 200, body
        answer: dict[str, Any] = json.loads(body)
        return answer

    def expire(self, key: Key) -> None:
        """Delete an item as DynamoDB does after its ttl."""
        body = json.dumps({"TableName": self.name, "Key": {"PK": {"S": key[0]}, "SK": {"S": key[1]}}})
        status, answer = self._line.ask("DynamoDB_20120810.DeleteItem", body.encode())
        assert status == 200, answer
        self._observe(expired=True)

    def _streams(self, operation: str, **request: Any) -> dict[str, Any]:
        status, body = self._line.ask(f"DynamoDBStreams_20120810.{operation}", json.dumps(request).encode())
        assert status == 200, body
        return _read(body)

    def _observe(self, *, expired: bool) -> None:
        """Take note of what was just written, under virtual time and a count of our own instead of the engine's."""
        page = self._streams("GetRecords", ShardIterator=self._iterator)
        self._iterator = page["NextShardIterator"]
        for found in page["Records"]:
            self._count += 1
            identity = {"userIdentity": TIME_TO_LIVE} if expired else {}
            record = {
                "eventID": f"{self._count:032x}",
                "eventName": found["eventName"],
                "eventVersion": "1.1",
                "eventSource": "aws:dynamodb",
                "awsRegion": REGION,
                "dynamodb": {
                    **found["dynamodb"],
                    "ApproximateCreationDateTime": float(int(self._now())),
                    "SequenceNumber": str(FIRST_SEQUENCE_NUMBER + self._count),
                },
                "eventSourceARN": STREAM,
                **identity,
            }
            self.history[_key(found["dynamodb"]["Keys"])].append((self._now(), found["dynamodb"].get("NewImage")))
            for listener in self.listeners:
                listener(record)

    # looking around ---------------------------------------------------------------------------------------------------
    def items(self) -> Iterator[Image]:
        """Every image that lies in the table now."""
        for versions in self.history.values():
            if (image := versions[-1][1]) is not None:
                yield image

    def image(self, key: Key) -> Image | None:
        return self.history[key][-1][1] if key in self.history else None

    def of_type(self, *types: str) -> list[Image]:
        return [image for image in self.items() if image["type"]["S"] in types]

    # a replica that is late -------------------------------------------------------------------------------------------
    def late_answer(self, operation: str, request: Mapping[str, Any], lag_seconds: float) -> bytes:
        """How a replica, or an index, that is this far behind answers a read."""
        moment = self._now() - lag_seconds
        answer: dict[str, Any]
        match operation:
            case "Query":
                answer = self._late_page(request, moment)
            case "GetItem":
                image = self._as_of(_key(request["Key"]), moment)
                answer = {"Item": _projected(image, request)} if image else {}
            case _:
                keys = [_key(key) for one in request["RequestItems"].values() for key in one["Keys"]]
                found = [image for key in keys if (image := self._as_of(key, moment))]
                answer = {"Responses": {self.name: found}, "UnprocessedKeys": {}}
        return json.dumps(answer).encode()

    def _as_of(self, key: Key, moment: float) -> Image | None:
        past = [image for written, image in self.history.get(key, ()) if written <= moment]
        return past[-1] if past else None

    def _late_page(self, request: Mapping[str, Any], moment: float) -> dict[str, Any]:
        """A Query as `dynamodb.store` spells it, answered from the past."""
        index = request.get("IndexName", "main")
        partition, sort = ATTRIBUTES[index.lower()]
        values = {name: one.get("S", one.get("N", "")) for name, one in request["ExpressionAttributeValues"].items()}
        low, high = values.get(":low", ""), values.get(":high", "\U0010ffff")
        if ":after" in values:
            below = "#sk < :after" in request["KeyConditionExpression"]
            low, high = ("", _just_below(values[":after"])) if below else (values[":after"] + "\0", high)
        images = [image for key in list(self.history) if (image := self._as_of(key, moment))]
        found = [
            image
            for image in images
            if image.get(partition, {}).get("S") == values[":pk"] and low <= image[sort]["S"] <= high
        ]
        found.sort(key=lambda image: image[sort]["S"], reverse=not request.get("ScanIndexForward", True))
        limit = request.get("Limit", len(found))
        page, more = found[:limit], len(found) > limit
        last = {"LastEvaluatedKey": {name: page[-1][name] for name in {partition, sort, "PK", "SK"}}} if more else {}
        if ":now" in values:
            page = [image for image in page if "ttl" not in image or int(image["ttl"]["N"]) > int(values[":now"])]
        names = PROJECTED.get(index)
        keys = {name for pair in (ATTRIBUTES["main"], (partition, sort)) for name in pair}
        shown = [{n: v for n, v in image.items() if names is None or n in names or n in keys} for image in page]
        return {"Items": shown, "Count": len(shown), "ScannedCount": min(limit, len(found)), **last}


def _read(answer: bytes) -> dict[str, Any]:
    """An answer of the engine, which has its maps in another order each time."""
    read: dict[str, Any] = json.loads(answer, object_pairs_hook=lambda pairs: dict(sorted(pairs)))
    return read


def _key(keys: Mapping[str, Any]) -> Key:
    return keys["PK"]["S"], keys["SK"]["S"]


def _just_below(text: str) -> str:
    return text[:-1] + chr(ord(text[-1]) - 1) + "\U0010ffff"


def _projected(image: Image, request: Mapping[str, Any]) -> Image:
    names = request.get("ExpressionAttributeNames") if "ProjectionExpression" in request else None
    return {name: value for name, value in image.items() if name in names.values()} if names else image
