"""Simulates the AWS services that the Lambdas call over HTTP.

DynamoDB requests go to the local DynamoDB engine. All other services are simulated in memory.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import orjson

from functions.dynamodb.keys import to_instant
from tests.simulation.botocore_clients import UnsignedRequest
from tests.simulation.faults import Strike
from tests.simulation.queues import Message, SimulatedQueue, arn_of
from tests.simulation.rng import SeededRandom
from tests.simulation.scheduler import SimulatedProcess, VirtualScheduler
from tests.simulation.table import SimulatedTable
from tests.simulation.wire import JsonService, WireResponse

MAX_REPLICA_LAG_SECONDS = 90.0
MAX_REFUSAL_SECONDS = 10.0
TRANSACTIONS = {"TransactWriteItems"}


def _json(value: Any) -> WireResponse:
    return WireResponse(200, orjson.dumps(value))


class SimulatedDynamoDB(JsonService):
    """Sends DynamoDB requests to the local DynamoDB engine, and adds faults that this engine never has.

    These faults are transaction conflicts, stale reads and batches of which only a part is processed.
    """

    def __init__(self, table: SimulatedTable, chance: SeededRandom) -> None:
        self._table, self._chance = table, chance

    def target_of(self, operation: str, request: UnsignedRequest) -> str:
        asked = request.parsed_body
        match operation:
            case "PutItem":
                key = asked["Item"]
            case "TransactWriteItems":
                (write,) = asked["TransactItems"][0].values()
                key = write.get("Key") or write["Item"]
            case "BatchGetItem":
                (wanted,) = asked["RequestItems"].values()
                key = wanted["Keys"][0]
            case "BatchWriteItem":
                ((first, *_),) = asked["RequestItems"].values()
                key = first["DeleteRequest"]["Key"]
            case "Query":
                key = {"PK": asked["ExpressionAttributeValues"][":pk"], "SK": {"S": asked.get("IndexName", "*")}}
            case "Scan":
                return "*"
            case _:
                key = asked["Key"]
        return f"{key['PK']['S']}/{key['SK']['S']}"

    def allows_stale_read(self, operation: str, request: UnsignedRequest) -> bool:
        if operation not in ("GetItem", "BatchGetItem", "Query"):
            return False
        asked = request.parsed_body
        return not any(one.get("ConsistentRead") for one in (asked, *asked.get("RequestItems", {}).values()))

    def answer(self, operation: str, request: UnsignedRequest) -> WireResponse:
        if operation == "Query" and {"S": ""} in request.parsed_body["ExpressionAttributeValues"].values():
            return self.refusal("ValidationException", 400)  # DynamoDB rejects an empty key, but the engine accepts it
        return WireResponse(*self._table.send(operation, cast(bytes, request.body)))

    def answer_fault(self, strike: Strike, operation: str, request: UnsignedRequest) -> WireResponse | None:
        match strike.kind:
            case "conflict":
                return self._conflict(strike, operation, request)
            case "late replica":
                lag = MAX_REPLICA_LAG_SECONDS * strike.share**2
                return WireResponse(200, self._table.stale_answer(operation, request.parsed_body, lag))
            case "unprocessed" | "dies half-way":
                return self._half_done(strike, operation, request.parsed_body)
        return None

    def _conflict(self, strike: Strike, operation: str, request: UnsignedRequest) -> WireResponse:
        """Answer with a transaction conflict on one item, as DynamoDB does.

        A single write gets a TransactionConflictException. A transaction is cancelled, with a reason for this item.
        """
        if operation not in TRANSACTIONS:
            return self.refusal("TransactionConflictException", 400)
        reasons = [{"Code": "None"} for _ in request.parsed_body["TransactItems"]]
        code = "ThrottlingError" if strike.share < 0.2 else "TransactionConflict"
        reasons[int(strike.share * len(reasons))] = {"Code": code, "Message": "put there by the simulation"}
        body = {"__type": "TransactionCanceledException", "Message": "cancelled", "CancellationReasons": reasons}
        return WireResponse(400, orjson.dumps(body))

    def _half_done(self, strike: Strike, operation: str, asked: Mapping[str, Any]) -> WireResponse:
        """Execute only the first requests of a batch. Return the others as UnprocessedKeys or UnprocessedItems."""
        ((table, wanted),) = asked["RequestItems"].items()
        requests = wanted["Keys"] if operation == "BatchGetItem" else wanted
        done = int(strike.share * len(requests))
        rest = {table: {**wanted, "Keys": requests[done:]} if operation == "BatchGetItem" else requests[done:]}
        answer: dict[str, Any] = {"Responses": {table: []}} if operation == "BatchGetItem" else {}
        if done:
            part = {table: {**wanted, "Keys": requests[:done]} if operation == "BatchGetItem" else requests[:done]}
            status, body = self._table.send(operation, orjson.dumps({**asked, "RequestItems": part}))
            assert status == 200, body
            answer = orjson.loads(body)
        return _json({**answer, "UnprocessedKeys" if operation == "BatchGetItem" else "UnprocessedItems": rest})


@dataclass
class SimulatedS3:
    """Simulates S3 buckets, which keep only the latest version of each object.

    `overwritten`: the objects that were replaced with other bytes although `allows_overwrite(bucket)` was false. Such a
    write violates an invariant. `written_at`: by bucket and key, when the object was last written.
    """

    now: Callable[[], float]
    allows_overwrite: Callable[[str], bool] = lambda bucket: False
    THROTTLED = "SlowDown"
    buckets: dict[str, dict[str, bytes]] = field(default_factory=dict)
    overwritten: list[str] = field(default_factory=list)
    written_at: dict[tuple[str, str], float] = field(default_factory=dict)

    def allows_stale_read(self, operation: str, request: UnsignedRequest) -> bool:
        return False

    def target_of(self, operation: str, request: UnsignedRequest) -> str:
        return unquote(urlsplit(request.url).path).lstrip("/")

    def answer(self, operation: str, request: UnsignedRequest) -> WireResponse:
        bucket, _, key = self.target_of(operation, request).partition("/")
        objects = self.buckets.setdefault(bucket, {})
        if operation == "GetObject":
            return WireResponse(200, objects[key]) if key in objects else self.refusal("NoSuchKey", 404)
        if operation == "DeleteObject":
            objects.pop(key, None)
            return WireResponse(204, b"")
        if operation in ("ListObjectsV2", "ListObjectVersions"):
            return self._list_objects(operation, bucket, request)
        assert operation == "PutObject", operation
        sent = cast(Any, request.body)
        body = bytes(sent.read() if hasattr(sent, "read") else sent)
        told = request.headers.get("x-amz-checksum-sha256")
        if told and _text(told) != base64.b64encode(hashlib.sha256(body).digest()).decode():
            return self.refusal("BadDigest", 400)
        if _text(request.headers.get("If-None-Match") or "") == "*" and key in objects:
            return self.refusal("PreconditionFailed", 412)
        self.put(bucket, key, body)
        return WireResponse(200, b"", {"ETag": '"0"'})

    def _list_objects(self, operation: str, bucket: str, request: UnsignedRequest) -> WireResponse:
        asked, objects = parse_qs(urlsplit(request.url).query), self.buckets[bucket]
        one = "Contents" if operation == "ListObjectsV2" else "Version"

        def told(key: str) -> str:
            at = to_instant(datetime.fromtimestamp(self.written_at[bucket, key], UTC))
            size = len(objects[key])
            return (
                f"<Key>{escape(key)}</Key><VersionId>1</VersionId><LastModified>{at}</LastModified><Size>{size}</Size>"
            )

        keys = sorted(key for key in objects if key.startswith(asked.get("prefix", [""])[0]))
        listed = "".join(f"<{one}>{told(key)}</{one}>" for key in keys)
        root = "ListBucketResult" if operation == "ListObjectsV2" else "ListVersionsResult"
        body = f"<?xml version='1.0'?><{root}><IsTruncated>false</IsTruncated>{listed}</{root}>"
        return WireResponse(200, body.encode(), {"Content-Type": "application/xml"})

    def put(self, bucket: str, key: str, body: bytes) -> None:
        objects = self.buckets.setdefault(bucket, {})
        if objects.get(key, body) != body and not self.allows_overwrite(bucket):
            self.overwritten.append(f"{bucket}/{key}")
        objects[key] = body
        self.written_at[bucket, key] = self.now()

    def refusal(self, code: str, status: int) -> WireResponse:
        status = 503 if code == "SlowDown" else status
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>simulated</Message></Error>"
        return WireResponse(status, body.encode(), {"Content-Type": "application/xml"})

    def answer_fault(self, strike: Strike, operation: str, request: UnsignedRequest) -> WireResponse | None:
        return None


class SimulatedEventBridge(JsonService):
    """Simulates `PutEvents`: calls `publish` with the event of each accepted entry, and sometimes refuses entries."""

    THROTTLED = "ThrottlingException"

    def __init__(
        self, chance: SeededRandom, now: Callable[[], float], publish: Callable[[dict[str, Any]], None]
    ) -> None:
        self._chance, self._now, self._publish = chance, now, publish
        self._count = 0
        self._refuses_until = 0.0

    def target_of(self, operation: str, request: UnsignedRequest) -> str:
        first = orjson.loads(request.parsed_body["Entries"][0]["Detail"])
        return f"{first['type']}/{first['id']}"

    def answer(self, operation: str, request: UnsignedRequest) -> WireResponse:
        entries = request.parsed_body["Entries"]
        some = range(len(entries)) if self._now() < self._refuses_until else ()
        refused = [number for number in some if self._chance.happens(0.5, "refused", self._count, number)]
        return _json(self._put(entries, refused))

    def answer_fault(self, strike: Strike, operation: str, request: UnsignedRequest) -> WireResponse | None:
        if strike.kind != "entries refused":
            return None
        self._refuses_until = self._now() + MAX_REFUSAL_SECONDS * strike.share
        entries = request.parsed_body["Entries"]
        chosen = [number for number in range(len(entries)) if self._chance.happens(0.5, strike.name, number)]
        return _json(self._put(entries, refused=chosen or [0]))

    def _put(self, entries: list[dict[str, str]], refused: Any) -> dict[str, Any]:
        results = []
        for number, entry in enumerate(entries):
            if number in refused:
                code = "ThrottlingException" if number % 2 else "InternalFailure"
                results.append({"ErrorCode": code, "ErrorMessage": "put there by the simulation"})
                continue
            self._count += 1
            event = {
                "version": "0",
                "id": f"event-{self._count}",
                "source": entry["Source"],
                "detail-type": entry["DetailType"],
                "time": self._now(),
                "detail": orjson.loads(entry["Detail"]),
            }
            results.append({"EventId": event["id"]})
            self._publish(event)
        return {"FailedEntryCount": sum("ErrorCode" in result for result in results), "Entries": results}


@dataclass(frozen=True)
class SentMail:
    """A mail that the simulated SES accepted.

    `sender`: the simulated process that sent it. `text`: the body as plain text. `effect`: the value of the mail's
    first tag, which is the id of the order change or product alert that the mail is about.
    """

    at: float
    sender: SimulatedProcess | None
    to: str
    subject: str
    text: str
    effect: str


class SimulatedSes(JsonService):
    """Simulates SES: accepts and records every mail. It does not detect that a mail was sent twice."""

    THROTTLED = "TooManyRequestsException"

    def __init__(self, tasks: VirtualScheduler) -> None:
        self._tasks = tasks
        self.mails: list[SentMail] = []

    def target_of(self, operation: str, request: UnsignedRequest) -> str:
        return str(request.parsed_body["EmailTags"][0]["Value"])

    def answer(self, operation: str, request: UnsignedRequest) -> WireResponse:
        asked = request.parsed_body
        mail = SentMail(
            self._tasks.now,
            self._tasks.process,
            asked["Destination"]["ToAddresses"][0],
            asked["Content"]["Simple"]["Subject"]["Data"],
            asked["Content"]["Simple"]["Body"]["Text"]["Data"],
            asked["EmailTags"][0]["Value"],
        )
        self.mails.append(mail)
        return _json({"MessageId": f"mail-{len(self.mails)}"})


class SimulatedSqs(JsonService):
    """Simulates the SQS API for the simulated queues. The URL of a queue is the queue's name."""

    def __init__(self, queues: Mapping[str, SimulatedQueue]) -> None:
        self._queues = queues

    def target_of(self, operation: str, request: UnsignedRequest) -> str:
        asked = request.parsed_body
        if operation != "SendMessage":
            return str(asked.get("ReceiptHandle") or asked["QueueUrl"])
        try:
            body = orjson.loads(asked["MessageBody"])
            return f"{body['detail']['id']} {body.get('after')}"
        except (LookupError, TypeError, ValueError):  # the test injected a message that no Lambda can read
            return f"{asked['QueueUrl']} {asked['MessageBody']}"

    def answer(self, operation: str, request: UnsignedRequest) -> WireResponse:
        asked = request.parsed_body
        queue = self._queues[asked["QueueUrl"]]
        match operation:
            case "SendMessage":
                queue.send(asked["MessageBody"])
                return _json({"MessageId": f"{queue.settings.name}-{queue.sent}"})
            case "ReceiveMessage":
                taken = queue.receive(asked["MaxNumberOfMessages"], asked["VisibilityTimeout"])
                return _json({"Messages": [_message(one) for one in taken]})
            case "DeleteMessage":
                if message := queue.messages.get(_message_id_of(asked["ReceiptHandle"])):
                    queue.delete(message)
                return _json({})
            case "ChangeMessageVisibilityBatch":
                for entry in asked["Entries"]:
                    if message := queue.messages.get(_message_id_of(entry["ReceiptHandle"])):
                        queue.change_visibility(message, entry["VisibilityTimeout"])
                return _json({"Successful": [{"Id": entry["Id"]} for entry in asked["Entries"]], "Failed": []})
        assert operation == "GetQueueAttributes", operation
        policy = {"deadLetterTargetArn": arn_of(str(queue.settings.dead_letters)), "maxReceiveCount": 5}
        told = {"RedrivePolicy": orjson.dumps(policy).decode()} if queue.settings.dead_letters else {}
        return _json({"Attributes": {"QueueArn": arn_of(asked["QueueUrl"]), **told}})


def _message(message: Message) -> dict[str, Any]:
    attributes = {"SentTimestamp": str(int(message.sent_at * 1000)), "ApproximateReceiveCount": str(message.receives)}
    handle = f"{message.id}/{message.receives}"
    return {"MessageId": message.id, "ReceiptHandle": handle, "Body": message.body, "Attributes": attributes}


def _message_id_of(receipt_handle: str) -> str:
    return receipt_handle.rpartition("/")[0]


class SimulatedSecrets(JsonService):
    THROTTLED = "ThrottlingException"

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def target_of(self, operation: str, request: UnsignedRequest) -> str:
        return str(request.parsed_body["SecretId"])

    def answer(self, operation: str, request: UnsignedRequest) -> WireResponse:
        return _json({"SecretString": self._values[request.parsed_body["SecretId"]]})


def email_of(name: str) -> str:
    return f"mail-{name}@example.com"


class SimulatedCognito(JsonService):
    """Simulates Cognito: returns the verified email address of a user. The access token is the user's name.

    `addresses`: the changed email addresses, by user name. A user who changed nothing has a default address.
    """

    THROTTLED = "TooManyRequestsException"

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._addresses = addresses

    def target_of(self, operation: str, request: UnsignedRequest) -> str:
        return str(request.parsed_body["AccessToken"])

    def answer(self, operation: str, request: UnsignedRequest) -> WireResponse:
        name = request.parsed_body["AccessToken"]
        email = self._addresses.get(name) or email_of(name)
        attributes = {"sub": name, "email": email, "email_verified": "true"}
        listed = [{"Name": key, "Value": value} for key, value in attributes.items()]
        return _json({"Username": name, "UserAttributes": listed})


def _text(header: str | bytes) -> str:
    return header.decode() if isinstance(header, bytes) else header
