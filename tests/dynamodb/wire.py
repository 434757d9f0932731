"""What goes over a client's wire: each request counted and its units measured; answers made up where a test says so.

The local engine never shows a conflict, a throttled or an unprocessed request, a lost answer: they are put in here,
through botocore's events, below everything that the product code does.
"""

import io
import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn, cast

from botocore.awsrequest import AWSPreparedRequest, AWSResponse, HTTPHeaders
from botocore.exceptions import ReadTimeoutError
from botocore.httpsession import URLLib3Session

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MEASURED = {
    "BatchGetItem",
    "BatchWriteItem",
    "DeleteItem",
    "GetItem",
    "PutItem",
    "Query",
    "Scan",
    "TransactWriteItems",
    "UpdateItem",
}
Reply = Callable[[AWSPreparedRequest], AWSResponse | None]
"""What happens instead of sending a request; None: it is sent."""


@dataclass
class InterceptedRequest:
    """One request as it went out."""

    operation: str
    body: dict[str, Any]


@dataclass
class WireTap:
    """A tap on one client.

    `requests`: all that went out, the client's own retries too. `units_of`: what each operation consumed.
    """

    client: "DynamoDBClient"
    requests: list[InterceptedRequest] = field(default_factory=list)
    units_of: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _replies: dict[str, deque[Reply]] = field(default_factory=lambda: defaultdict(deque))
    _noting: Any = field(default_factory=Lock)

    def __post_init__(self) -> None:
        events: Any = self.client.meta.events
        events.register("provide-client-params.dynamodb", self._measure)
        events.register("before-send.dynamodb", self._send)
        events.register("after-call.dynamodb", self._note)

    def reply_next(self, operation: str, *replies: Reply) -> None:
        """What the next requests of an operation meet, one after the other."""
        self._replies[operation].extend(replies)

    def clear(self) -> None:
        """Forget what went out so far."""
        self.requests.clear()
        self.units_of.clear()

    def pop_unused_replies(self) -> list[str]:
        """The operations that replies still wait for; they are forgotten."""
        waiting = [operation for operation, replies in self._replies.items() if replies]
        self._replies.clear()
        return waiting

    @property
    def units(self) -> float:
        """The units of all operations together."""
        return sum(self.units_of.values())

    @property
    def operations(self) -> list[str]:
        return [request.operation for request in self.requests]

    def _measure(self, params: dict[str, Any], event_name: str, **_: Any) -> None:
        if event_name.rpartition(".")[2] in MEASURED:
            params["ReturnConsumedCapacity"] = "TOTAL"

    def _send(self, request: AWSPreparedRequest, event_name: str, **_: Any) -> AWSResponse | None:
        operation = event_name.rpartition(".")[2]
        self.requests.append(InterceptedRequest(operation, json.loads(cast(bytes, request.body))))
        waiting = self._replies[operation]
        return waiting.popleft()(request) if waiting else None

    def _note(self, parsed: Mapping[str, Any], event_name: str, **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity", [])
        with self._noting:
            for each in consumed if isinstance(consumed, list) else [consumed]:
                self.units_of[event_name.rpartition(".")[2]] += each["CapacityUnits"]


class _Raw(io.BytesIO):
    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


def reply_with(body: Mapping[str, Any], status: int = 200) -> Reply:
    """The request is not sent; this comes back."""

    def reply(request: AWSPreparedRequest) -> AWSResponse:
        return AWSResponse(request.url, status, HTTPHeaders(), _Raw(json.dumps(body).encode()))

    return reply


def error_reply(code: str, **more: Any) -> Reply:
    """The request is not sent; this error comes back."""
    body = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "made up by a test", **more}
    return reply_with(body, status=400)


def transaction_cancelled_reply(*codes: str) -> Reply:
    """The transaction is not sent; it comes back cancelled for these reasons, one for each of its writes."""
    return error_reply("TransactionCanceledException", CancellationReasons=[{"Code": code} for code in codes])


def lose_response(request: AWSPreparedRequest) -> NoReturn:
    """The request is sent and applied, but its answer never arrives."""
    URLLib3Session().send(request)
    raise ReadTimeoutError(endpoint_url=request.url)


def run_before_sending(action: Callable[[], object]) -> Reply:
    """Something else happens just before the request is sent."""

    def reply(request: AWSPreparedRequest) -> None:
        action()

    return reply
