"""Simulates the AWS services that the Lambdas call over HTTP: DynamoDB with the local engine, all others in memory."""

import base64
import hashlib
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import orjson

from functions.dynamodb.keys import to_instant
from proof.simulation.botocore_clients import UnsignedRequest
from proof.simulation.faults import DAY, MAX_REPLICA_LAG_SECONDS, MAX_TORN_SECONDS, MINUTE, FaultInjector, Strike
from proof.simulation.queues import Message, SimulatedQueue, arn_of
from proof.simulation.rng import SeededRandom
from proof.simulation.scheduler import SimulatedProcess, VirtualScheduler
from proof.simulation.table import STREAM, Key, SimulatedTable
from proof.simulation.traffic import personal_words
from proof.simulation.wire import ErrorCodes, Service, WireResponse

MAX_REFUSAL_SECONDS = 10.0
TOKEN_SECONDS = 10 * MINUTE
"""How long DynamoDB remembers the ClientRequestToken of a transaction."""
TRANSACTIONS = {"TransactWriteItems"}
CONDITIONAL_CONFLICT, CONDITIONAL_WRITE_SECONDS = "ConditionalRequestConflict", 0.02
CANCELLED_BY_THROTTLING = ("ThrottlingError", "ProvisionedThroughputExceeded")
"""The reasons with which DynamoDB cancels a transaction if an item's partition has too many requests."""
ERROR_NAMESPACE = "com.amazonaws.dynamodb.v20120810"
"""DynamoDB writes this text and "#" before the code of an error."""


def _json(value: Any) -> WireResponse:
    return WireResponse(200, orjson.dumps(value))


class SimulatedDynamoDB(Service):
    """Sends DynamoDB requests to the local engine, and adds the faults that it never has."""

    THROTTLING: ErrorCodes = (
        (400, "ProvisionedThroughputExceededException"),
        (400, "ThrottlingException"),
        (400, "RequestLimitExceeded"),
    )

    def __init__(
        self, table: SimulatedTable, now: Callable[[], float], pause: Callable[[float], None] = lambda seconds: None
    ) -> None:
        self._table, self._now, self._pause = table, now, pause
        self._tokens: dict[str, tuple[float, bytes]] = {}
        self._tokens_in_progress: set[str] = set()

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
        if token := request.parsed_body.get("ClientRequestToken"):
            return self._execute_once(token, orjson.dumps({"TransactItems": request.parsed_body["TransactItems"]}))
        return WireResponse(*self._table.send(operation, cast(bytes, request.body)))

    def expect_late(self, operation: str, request: UnsignedRequest) -> Callable[[], None]:
        """Note the token of a transaction that is executed later. Until then, DynamoDB refuses this token."""
        token = request.parsed_body.get("ClientRequestToken", "")
        self._tokens_in_progress.add(token)
        return lambda: self._tokens_in_progress.discard(token)

    def _execute_once(self, token: str, transaction: bytes) -> WireResponse:
        """Execute a transaction, unless one with the same ClientRequestToken succeeded in the last ten minutes.

        The engine would measure these minutes in real time. So it gets `transaction`, the request without the token.
        https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
        """
        if token in self._tokens_in_progress:
            return self.refusal("TransactionInProgressException", 400)
        at, known = self._tokens.get(token, (float("-inf"), b""))
        if self._now() - at < TOKEN_SECONDS:
            return _json({}) if known == transaction else self.refusal("IdempotentParameterMismatchException", 400)
        answer = WireResponse(*self._table.send("TransactWriteItems", transaction))
        if answer.status == 200:
            self._tokens[token] = self._now(), transaction
        return answer

    def answer_fault(self, strike: Strike, operation: str, request: UnsignedRequest) -> WireResponse | None:
        match strike.kind:
            case "conflict" if operation not in TRANSACTIONS:
                return self.refusal("TransactionConflictException", 400)
            case "conflict":
                return self._cancel(strike, request, "TransactionConflict")
            case "throttled" if operation in TRANSACTIONS and strike.share < 0.5:
                return self._cancel(strike, request, CANCELLED_BY_THROTTLING[int(4 * strike.share)])
            case "late replica":
                lag_seconds = MAX_REPLICA_LAG_SECONDS * strike.share**2
                return self._stale_answer(operation, request, lambda key: lag_seconds)
            case "late index":
                lags = SeededRandom(int(strike.share * 2**53))
                return self._stale_answer(
                    operation, request, lambda key: MAX_REPLICA_LAG_SECONDS * max(0.0, 2 * lags.random(*key) - 1) ** 2
                )
            case "torn read":
                lags, began = SeededRandom(int(strike.share * 2**53)), self._now()
                self._pause(MAX_TORN_SECONDS * strike.share)
                return self._stale_answer(
                    operation, request, lambda key: (self._now() - began) * (lags.random(*key) < 0.5)
                )
            case "unprocessed" | "dies half-way":
                return self._half_done(strike, operation, request.parsed_body)
        return None

    def _stale_answer(
        self, operation: str, request: UnsignedRequest, lag_seconds: Callable[[Key], float]
    ) -> WireResponse:
        return WireResponse(200, self._table.stale_answer(operation, request.parsed_body, lag_seconds))

    def _cancel(self, strike: Strike, request: UnsignedRequest, code: str) -> WireResponse:
        """Answer that the transaction is cancelled because of one of its items. `code`: the reason of this item."""
        reasons: list[dict[str, str]] = [{"Code": "None"} for _ in request.parsed_body["TransactItems"]]
        reasons[int(strike.share * len(reasons))] = {"Code": code, "Message": "put there by the simulation"}
        body = {"__type": "TransactionCanceledException", "Message": "cancelled", "CancellationReasons": reasons}
        return WireResponse(400, orjson.dumps(body))

    def refusal(self, code: str, status: int) -> WireResponse:
        """Return an error response with this code. A throttling error also gets a reason, as DynamoDB sends it."""
        reason = {"reason": "TableWriteKeyRangeThroughputExceeded", "resource": STREAM.partition("/stream/")[0]}
        name = "throttlingReasons" if code == "ThrottlingException" else "ThrottlingReasons"
        reasons = {name: [reason]} if (status, code) in self.THROTTLING else {}
        body = {"__type": f"{ERROR_NAMESPACE}#{code}", "message": "put there by the simulation", **reasons}
        return WireResponse(status, orjson.dumps(body))

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
class SimulatedS3(Service):
    """Simulates S3 buckets, which keep only the latest version of each object.

    While a conditional write of an object is under way, S3 refuses another conditional write of it with status 409
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html).

    `overwritten`: the objects that were replaced with other bytes although `allows_overwrite(bucket)` was false. Such a
    write violates an invariant. `written_at`: by bucket and key, when the object was last written. `contents`: by the
    same, all contents that were written, without repeated writes of the same content.
    `on_put(bucket, key)` is called after each write of an object.
    """

    now: Callable[[], float]
    pause: Callable[[float], None] = lambda seconds: None
    allows_overwrite: Callable[[str], bool] = lambda bucket: False
    on_put: Callable[[str, str], None] = lambda bucket, key: None
    THROTTLING: ErrorCodes = ((503, "SlowDown"), (503, "ServiceUnavailable"))
    buckets: dict[str, dict[str, bytes]] = field(default_factory=dict)
    overwritten: list[str] = field(default_factory=list)
    written_at: dict[tuple[str, str], float] = field(default_factory=dict)
    contents: dict[tuple[str, str], list[bytes]] = field(default_factory=dict)
    _under_way: set[tuple[str, str]] = field(default_factory=set)

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
        if _is_conditional(request):
            if (bucket, key) in self._under_way:
                return self.refusal(CONDITIONAL_CONFLICT, 409)
            self._under_way.add((bucket, key))
            try:
                self.pause(CONDITIONAL_WRITE_SECONDS)
            finally:
                self._under_way.discard((bucket, key))
            if key in objects:
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
        if (written := self.contents.setdefault((bucket, key), []))[-1:] != [body]:
            written.append(body)
        self.on_put(bucket, key)

    def refusal(self, code: str, status: int) -> WireResponse:
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>simulated</Message></Error>"
        return WireResponse(status, body.encode(), {"Content-Type": "application/xml"})

    def answer_fault(self, strike: Strike, operation: str, request: UnsignedRequest) -> WireResponse | None:
        if strike.kind == "write under way" and _is_conditional(request):
            return self.refusal(CONDITIONAL_CONFLICT, 409)
        return None


def _is_conditional(request: UnsignedRequest) -> bool:
    return _text(request.headers.get("If-None-Match") or "") == "*"


class SimulatedEventBridge(Service):
    """Simulates `PutEvents`: calls `publish` with the event of each accepted entry, and sometimes refuses entries."""

    def __init__(self, rng: SeededRandom, now: Callable[[], float], publish: Callable[[dict[str, Any]], None]) -> None:
        self._chance, self._now, self._publish = rng, now, publish
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
    """A mail that SES accepted. `suppressed`: it was not sent. `effect`: its first tag, the id of its cause."""

    at: float
    sender: SimulatedProcess
    to: str
    subject: str
    text: str
    effect: str
    suppressed: bool = False


MAILS_PER_SECOND, DAILY_QUOTA = 14, 50_000
LOW_QUOTA = 8
"""How many mails a day SES accepts while the injected fault "mail quota" lasts."""
MAX_REFUSED_SECONDS = 2 * DAY
RATE_MESSAGE, QUOTA_MESSAGE = "Maximum sending rate exceeded.", "Daily message quota exceeded."
QUOTA_CODES = ("LimitExceededException", "TooManyRequestsException", "ThrottlingException")
NOT_VERIFIED_MESSAGE = (
    "Email address is not verified. The following identities failed the check in region EU-CENTRAL-1: someone"
)
REFUSALS_OF_ALL_MAILS = (
    ("AccountSuspendedException", "The account's ability to send email has been permanently restricted."),
    ("SendingPausedException", "The account's ability to send email is currently paused."),
    ("MailFromDomainNotVerifiedException", "The sending domain isn't verified."),
    ("MessageRejected", "Sending paused for this account."),
    ("MessageRejected", NOT_VERIFIED_MESSAGE),  # the account is in the sandbox
    ("AccessDeniedException", "The role is not authorized to perform: ses:SendEmail"),
    ("NotFoundException", "Configuration set <shop> does not exist."),
)
"""Code and message of each error with which SES refuses all mails for hours. The shop does not know all of them.

https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html#API_SendEmail_Errors
"""
REFUSALS_OF_AN_ADDRESS = (
    ("MessageRejected", "The message can't be sent because it contains invalid content."),
    ("BadRequestException", "Missing final '@domain'"),
)


class SimulatedSes(Service):
    """Simulates SES: accepts and records every mail. It does not detect that a mail was sent twice.

    It refuses mails above its rate and above its daily quota, all mails while the account is paused, and for up to two
    days all mails to some addresses. It accepts a mail to an address on its suppression list, but does not send it.
    `refused`: the effects of the mails to refused addresses. `paused_with`: the error code and message while the
    account is paused, or None. `daily_quota`: the mails in 24 hours.

    https://docs.aws.amazon.com/ses/latest/dg/manage-sending-quotas-errors.html
    https://docs.aws.amazon.com/ses/latest/dg/sending-email-suppression-list.html
    """

    THROTTLING: ErrorCodes = ((429, "TooManyRequestsException"),)

    def __init__(self, tasks: VirtualScheduler, faults: FaultInjector) -> None:
        self._tasks, self._faults = tasks, faults
        self._refused_until: dict[str, float] = {}
        self._suppressed: dict[str, bool] = {}
        self.mails: list[SentMail] = []
        self.refused: set[str] = set()
        self.paused_with: tuple[str, str] | None = None
        self.daily_quota = DAILY_QUOTA

    def target_of(self, operation: str, request: UnsignedRequest) -> str:
        return str(request.parsed_body["EmailTags"][0]["Value"])

    def answer(self, operation: str, request: UnsignedRequest) -> WireResponse:
        asked = request.parsed_body
        assert self._tasks.process
        mail = SentMail(
            self._tasks.now,
            self._tasks.process,
            asked["Destination"]["ToAddresses"][0],
            asked["Content"]["Simple"]["Subject"]["Data"],
            asked["Content"]["Simple"]["Body"]["Text"]["Data"],
            asked["EmailTags"][0]["Value"],
            suppressed=self._is_suppressed(asked["Destination"]["ToAddresses"][0]),
        )
        if self.paused_with:
            return self.error(self.paused_with[0], 400, self.paused_with[1])
        if self._count_since(DAY) >= self.daily_quota:
            return self.error(QUOTA_CODES[int(self._tasks.now) % len(QUOTA_CODES)], 400, QUOTA_MESSAGE)
        if self._count_since(1.0) >= MAILS_PER_SECOND:
            return self.refusal("TooManyRequestsException", 429)
        if self._is_refused(mail.to):
            self.refused.add(mail.effect)
            code, message = REFUSALS_OF_AN_ADDRESS[len(mail.to) % len(REFUSALS_OF_AN_ADDRESS)]
            return self.error(code, 400, message)
        self.mails.append(mail)
        return _json({"MessageId": f"mail-{len(self.mails)}"})

    def refusal(self, code: str, status: int) -> WireResponse:
        return self.error(code, status, RATE_MESSAGE)

    def _count_since(self, seconds: float) -> int:
        """Return how many mails SES accepted in the last `seconds` seconds."""
        return len(self.mails) - bisect_right(self.mails, self._tasks.now - seconds, key=lambda mail: mail.at)

    def _is_suppressed(self, address: str) -> bool:
        """Return whether an address is on the suppression list. This is decided at the first mail to the address."""
        if address not in self._suppressed:
            self._suppressed[address] = self._faults.draw("address suppressed", address) is not None
        return self._suppressed[address]

    def _is_refused(self, address: str) -> bool:
        """Return whether SES refuses an address now. The first mail to the address decides the period."""
        if address not in self._refused_until:
            strike = self._faults.draw("address refused", address)
            self._refused_until[address] = self._tasks.now + MAX_REFUSED_SECONDS * strike.share if strike else 0.0
        return self._tasks.now < self._refused_until[address]


class SimulatedSqs(Service):
    """Simulates the SQS API for the simulated queues. The URL of a queue is the queue's name, or ends with it."""

    THROTTLING: ErrorCodes = ((400, "ThrottlingException"), (400, "RequestThrottled"), (400, "OverLimit"))

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
        queue = self._queues[asked["QueueUrl"].rpartition("/")[2]]
        match operation:
            case "SendMessage":
                queue.send(asked["MessageBody"], asked.get("DelaySeconds", 0))
                return _json({"MessageId": f"{queue.settings.name}-{queue.sent}"})
            case "ReceiveMessage":
                taken = queue.receive(asked["MaxNumberOfMessages"], asked["VisibilityTimeout"])
                return _json({"Messages": [_message(one) for one in taken]})
            case "DeleteMessage":
                if message := queue.messages.get(_message_id_of(asked["ReceiptHandle"])):
                    queue.delete(message)
                return _json({})
            case "ChangeMessageVisibilityBatch":
                wrong = {
                    entry["Id"]: queue.change_visibility(entry["ReceiptHandle"], entry["VisibilityTimeout"])
                    for entry in asked["Entries"]
                }
                failed = [{"Id": id, "Code": code, "SenderFault": True} for id, code in wrong.items() if code]
                return _json({"Successful": [{"Id": id} for id, code in wrong.items() if not code], "Failed": failed})
        assert operation == "GetQueueAttributes", operation
        letters = arn_of(str(queue.settings.dead_letters))
        policy = {"deadLetterTargetArn": letters, "maxReceiveCount": queue.settings.max_receives}
        told = {"RedrivePolicy": orjson.dumps(policy).decode()} if queue.settings.dead_letters else {}
        return _json({"Attributes": {"QueueArn": arn_of(asked["QueueUrl"]), **told}})


def _message(message: Message) -> dict[str, Any]:
    attributes = {"SentTimestamp": str(int(message.sent_at * 1000)), "ApproximateReceiveCount": str(message.receives)}
    return {
        "MessageId": message.id,
        "ReceiptHandle": message.receipt_handle,
        "Body": message.body,
        "Attributes": attributes,
    }


def _message_id_of(receipt_handle: str) -> str:
    return receipt_handle.rpartition("/")[0]


class SimulatedSecrets(Service):
    """Simulates Secrets Manager. `write` stores a new value of a secret, which each later read returns."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def write(self, name: str, value: str) -> None:
        self._values[name] = value

    def target_of(self, operation: str, request: UnsignedRequest) -> str:
        return str(request.parsed_body["SecretId"])

    def answer(self, operation: str, request: UnsignedRequest) -> WireResponse:
        return _json({"SecretString": self._values[request.parsed_body["SecretId"]]})


def email_of(name: str) -> str:
    return f"{personal_words(name)[1]}example.com"


class SimulatedCognito(Service):
    """Simulates Cognito. `addresses`: the changed email addresses, by user name, which is also the token."""

    THROTTLING: ErrorCodes = ((400, "TooManyRequestsException"),)

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
