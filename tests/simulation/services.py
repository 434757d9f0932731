"""The services of AWS that the functions talk to, as they speak on the wire, in memory but for the table."""

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import orjson

from functions.dynamodb.keys import instant
from tests.simulation.chance import Chance
from tests.simulation.clients import Request
from tests.simulation.faults import Strike
from tests.simulation.queues import Message, Queue, arn_of
from tests.simulation.table import SimulatedTable
from tests.simulation.tasks import Process, Tasks
from tests.simulation.wire import Answer, JsonService

LONGEST_LAG_SECONDS = 90.0
REFUSES_SECONDS = 10.0
TRANSACTIONS = {"TransactWriteItems"}


def _json(value: Any) -> Answer:
    return Answer(200, orjson.dumps(value))


class DynamoDB(JsonService):
    """The local engine, and what it never does by itself: conflicts, late replicas, half-done batches."""

    def __init__(self, table: SimulatedTable, chance: Chance) -> None:
        self._table, self._chance = table, chance

    def about(self, operation: str, request: Request) -> str:
        asked = request.asked
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

    def may_be_late(self, operation: str, request: Request) -> bool:
        if operation not in ("GetItem", "BatchGetItem", "Query"):
            return False
        asked = request.asked
        return not any(one.get("ConsistentRead") for one in (asked, *asked.get("RequestItems", {}).values()))

    def answer(self, operation: str, request: Request) -> Answer:
        if operation == "Query" and {"S": ""} in request.asked["ExpressionAttributeValues"].values():
            return self.refusal("ValidationException", 400)  # the engine lets an empty key pass, AWS does not
        return Answer(*self._table.send(operation, cast(bytes, request.body)))

    def struck(self, strike: Strike, operation: str, request: Request) -> Answer | None:
        match strike.kind:
            case "conflict":
                return self._conflict(strike, operation, request)
            case "late replica":
                lag = LONGEST_LAG_SECONDS * strike.share**2
                return Answer(200, self._table.late_answer(operation, request.asked, lag))
            case "unprocessed" | "dies half-way":
                return self._half_done(strike, operation, request.asked)
        return None

    def _conflict(self, strike: Strike, operation: str, request: Request) -> Answer:
        """Somebody else's transaction is at one of the items: of a transaction, the reasons say at which."""
        if operation not in TRANSACTIONS:
            return self.refusal("TransactionConflictException", 400)
        reasons = [{"Code": "None"} for _ in request.asked["TransactItems"]]
        code = "ThrottlingError" if strike.share < 0.2 else "TransactionConflict"
        reasons[int(strike.share * len(reasons))] = {"Code": code, "Message": "put there by the simulation"}
        body = {"__type": "TransactionCanceledException", "Message": "cancelled", "CancellationReasons": reasons}
        return Answer(400, orjson.dumps(body))

    def _half_done(self, strike: Strike, operation: str, asked: Mapping[str, Any]) -> Answer:
        """Of a batch the first part is done, the rest is handed back."""
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
class S3:
    """Buckets of objects, of each the one version there is. `overwritten`: the objects of which other bytes took the
    place, but for those that `may_change` (a bucket, who writes). `written`: when each was, by bucket and key."""

    now: Callable[[], float]
    may_change: Callable[[str], bool] = lambda bucket: False
    THROTTLED = "SlowDown"
    buckets: dict[str, dict[str, bytes]] = field(default_factory=dict)
    overwritten: list[str] = field(default_factory=list)
    written: dict[tuple[str, str], float] = field(default_factory=dict)

    def may_be_late(self, operation: str, request: Request) -> bool:
        return False

    def about(self, operation: str, request: Request) -> str:
        return unquote(urlsplit(request.url).path).lstrip("/")

    def answer(self, operation: str, request: Request) -> Answer:
        bucket, _, key = self.about(operation, request).partition("/")
        objects = self.buckets.setdefault(bucket, {})
        if operation == "GetObject":
            return Answer(200, objects[key]) if key in objects else self.refusal("NoSuchKey", 404)
        if operation == "DeleteObject":
            objects.pop(key, None)
            return Answer(204, b"")
        if operation in ("ListObjectsV2", "ListObjectVersions"):
            return self._listed(operation, bucket, request)
        assert operation == "PutObject", operation
        sent = cast(Any, request.body)
        body = bytes(sent.read() if hasattr(sent, "read") else sent)
        told = request.headers.get("x-amz-checksum-sha256")
        if told and _text(told) != base64.b64encode(hashlib.sha256(body).digest()).decode():
            return self.refusal("BadDigest", 400)
        if _text(request.headers.get("If-None-Match") or "") == "*" and key in objects:
            return self.refusal("PreconditionFailed", 412)
        self.keep(bucket, key, body)
        return Answer(200, b"", {"ETag": '"0"'})

    def _listed(self, operation: str, bucket: str, request: Request) -> Answer:
        asked, objects = parse_qs(urlsplit(request.url).query), self.buckets[bucket]
        one = "Contents" if operation == "ListObjectsV2" else "Version"

        def told(key: str) -> str:
            at = instant(datetime.fromtimestamp(self.written[bucket, key], UTC))
            size = len(objects[key])
            return (
                f"<Key>{escape(key)}</Key><VersionId>1</VersionId><LastModified>{at}</LastModified><Size>{size}</Size>"
            )

        keys = sorted(key for key in objects if key.startswith(asked.get("prefix", [""])[0]))
        listed = "".join(f"<{one}>{told(key)}</{one}>" for key in keys)
        root = "ListBucketResult" if operation == "ListObjectsV2" else "ListVersionsResult"
        body = f"<?xml version='1.0'?><{root}><IsTruncated>false</IsTruncated>{listed}</{root}>"
        return Answer(200, body.encode(), {"Content-Type": "application/xml"})

    def keep(self, bucket: str, key: str, body: bytes) -> None:
        objects = self.buckets.setdefault(bucket, {})
        if objects.get(key, body) != body and not self.may_change(bucket):
            self.overwritten.append(f"{bucket}/{key}")
        objects[key] = body
        self.written[bucket, key] = self.now()

    def refusal(self, code: str, status: int) -> Answer:
        status = 503 if code == "SlowDown" else status
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>simulated</Message></Error>"
        return Answer(status, body.encode(), {"Content-Type": "application/xml"})

    def struck(self, strike: Strike, operation: str, request: Request) -> Answer | None:
        return None


class EventBridge(JsonService):
    """Takes entries, and hands each that it took to `publish` as the event that its rules see."""

    THROTTLED = "ThrottlingException"

    def __init__(self, chance: Chance, now: Callable[[], float], publish: Callable[[dict[str, Any]], None]) -> None:
        self._chance, self._now, self._publish = chance, now, publish
        self._count = 0
        self._refuses_until = 0.0

    def about(self, operation: str, request: Request) -> str:
        first = orjson.loads(request.asked["Entries"][0]["Detail"])
        return f"{first['type']}/{first['id']}"

    def answer(self, operation: str, request: Request) -> Answer:
        entries = request.asked["Entries"]
        some = range(len(entries)) if self._now() < self._refuses_until else ()
        refused = [number for number in some if self._chance.happens(0.5, "refused", self._count, number)]
        return _json(self._put(entries, refused))

    def struck(self, strike: Strike, operation: str, request: Request) -> Answer | None:
        if strike.kind != "entries refused":
            return None
        self._refuses_until = self._now() + REFUSES_SECONDS * strike.share
        entries = request.asked["Entries"]
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
    """A mail that the provider took, and from whom. `effect`: its tag."""

    at: float
    sender: Process | None
    to: str
    subject: str
    effect: str


class Ses(JsonService):
    """Takes every mail, as often as it is sent."""

    THROTTLED = "TooManyRequestsException"

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self.mails: list[SentMail] = []

    def about(self, operation: str, request: Request) -> str:
        return str(request.asked["EmailTags"][0]["Value"])

    def answer(self, operation: str, request: Request) -> Answer:
        asked = request.asked
        mail = SentMail(
            self._tasks.now,
            self._tasks.process,
            asked["Destination"]["ToAddresses"][0],
            asked["Content"]["Simple"]["Subject"]["Data"],
            asked["EmailTags"][0]["Value"],
        )
        self.mails.append(mail)
        return _json({"MessageId": f"mail-{len(self.mails)}"})


class Sqs(JsonService):
    """Takes messages for its queues, and hands out those of any to whoever asks. A queue's URL is its name."""

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self._queues = queues

    def about(self, operation: str, request: Request) -> str:
        asked = request.asked
        if operation != "SendMessage":
            return str(asked.get("ReceiptHandle") or asked["QueueUrl"])
        try:
            body = orjson.loads(asked["MessageBody"])
            return f"{body['detail']['id']} {body.get('after')}"
        except (LookupError, TypeError, ValueError):  # it is poison
            return f"{asked['QueueUrl']} {asked['MessageBody']}"

    def answer(self, operation: str, request: Request) -> Answer:
        asked = request.asked
        queue = self._queues[asked["QueueUrl"]]
        match operation:
            case "SendMessage":
                queue.send(asked["MessageBody"])
                return _json({"MessageId": f"{queue.settings.name}-{queue.sent}"})
            case "ReceiveMessage":
                taken = queue.receive(asked["MaxNumberOfMessages"], asked["VisibilityTimeout"])
                return _json({"Messages": [_message(one) for one in taken]})
            case "DeleteMessage":
                if message := queue.messages.get(_id_in(asked["ReceiptHandle"])):
                    queue.delete(message)
                return _json({})
            case "ChangeMessageVisibilityBatch":
                for entry in asked["Entries"]:
                    if message := queue.messages.get(_id_in(entry["ReceiptHandle"])):
                        queue.hide(message, entry["VisibilityTimeout"])
                return _json({"Successful": [{"Id": entry["Id"]} for entry in asked["Entries"]], "Failed": []})
        assert operation == "GetQueueAttributes", operation
        policy = {"deadLetterTargetArn": arn_of(str(queue.settings.dead_letters)), "maxReceiveCount": 5}
        told = {"RedrivePolicy": orjson.dumps(policy).decode()} if queue.settings.dead_letters else {}
        return _json({"Attributes": {"QueueArn": arn_of(asked["QueueUrl"]), **told}})


def _message(message: Message) -> dict[str, Any]:
    attributes = {"SentTimestamp": str(int(message.sent_at * 1000)), "ApproximateReceiveCount": str(message.receives)}
    handle = f"{message.id}/{message.receives}"
    return {"MessageId": message.id, "ReceiptHandle": handle, "Body": message.body, "Attributes": attributes}


def _id_in(receipt_handle: str) -> str:
    return receipt_handle.rpartition("/")[0]


class Secrets(JsonService):
    THROTTLED = "ThrottlingException"

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def about(self, operation: str, request: Request) -> str:
        return str(request.asked["SecretId"])

    def answer(self, operation: str, request: Request) -> Answer:
        return _json({"SecretString": self._values[request.asked["SecretId"]]})


def email_of(name: str) -> str:
    return f"mail-{name}@example.com"


class Cognito(JsonService):
    """Knows everybody whose token is their name, and has verified their address, which may be another by now:
    `addresses`."""

    THROTTLED = "TooManyRequestsException"

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._addresses = addresses

    def about(self, operation: str, request: Request) -> str:
        return str(request.asked["AccessToken"])

    def answer(self, operation: str, request: Request) -> Answer:
        name = request.asked["AccessToken"]
        email = self._addresses.get(name) or email_of(name)
        attributes = {"sub": name, "email": email, "email_verified": "true"}
        listed = [{"Name": key, "Value": value} for key, value in attributes.items()]
        return _json({"Username": name, "UserAttributes": listed})


def _text(header: str | bytes) -> str:
    return header.decode() if isinstance(header, bytes) else header
