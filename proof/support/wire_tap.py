"""Records the requests of a DynamoDB client, measures their capacity units, and answers chosen requests itself.

The local engine never returns conflicts, throttling or unprocessed requests, and never loses a response. This module
injects these faults with botocore's event hooks, so that the shop's code runs unchanged.
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
"""A function that is called with a request before the request is sent.

If the function returns None, the request is sent. If it returns a response, the client gets this response, and nothing
is sent.
"""


@dataclass
class InterceptedRequest:
    """A request that the client sent or tried to send. `body`: the parsed JSON body."""

    operation: str
    body: dict[str, Any]


@dataclass
class WireTap:
    """Records and intercepts the requests of one client.

    `requests`: all requests, including the client's own retries. `units_of`: the consumed capacity units
    by operation.
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
        """Set the replies to the next requests of an operation, such as "PutItem". Each request uses one reply."""
        self._replies[operation].extend(replies)

    def clear(self) -> None:
        """Delete the recorded requests and their capacity units."""
        self.requests.clear()
        self.units_of.clear()

    def pop_unused_replies(self) -> list[str]:
        """Remove all replies that were set with `reply_next` and that no request has used yet.

        Return the names of the operations that had such replies.
        """
        waiting = [operation for operation, replies in self._replies.items() if replies]
        self._replies.clear()
        return waiting

    @property
    def units(self) -> float:
        """The sum of the capacity units that all recorded requests consumed."""
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
    """Return a `Reply` function that does not send the request, and answers it with this body and status."""

    def reply(request: AWSPreparedRequest) -> AWSResponse:
        return AWSResponse(request.url, status, HTTPHeaders(), _Raw(json.dumps(body).encode()))

    return reply


def error_reply(code: str, **more: Any) -> Reply:
    """Return a `Reply` function that does not send the request, and answers it with this DynamoDB error."""
    body = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "made up by a test", **more}
    return reply_with(body, status=400)


def transaction_cancelled_reply(*codes: str) -> Reply:
    """Return a `Reply` function that does not send the transaction, and answers that it was cancelled.

    `codes`: the cancellation reason of each write in the transaction, such as "TransactionConflict".
    """
    return error_reply("TransactionCanceledException", CancellationReasons=[{"Code": code} for code in codes])


def lose_response(request: AWSPreparedRequest) -> NoReturn:
    """Send the request, but lose its response: raise `ReadTimeoutError`.

    A test passes this function to `WireTap.reply_next`. The client then calls it for the next request.
    """
    URLLib3Session().send(request)
    raise ReadTimeoutError(endpoint_url=request.url)


def send(request: AWSPreparedRequest) -> None:
    """Send the request. A test passes this function to `WireTap.reply_next` to reply only to a later request."""


def run_before_sending(action: Callable[[], object]) -> Reply:
    """Return a `Reply` function that calls `action`. After that, the request is sent."""

    def reply(request: AWSPreparedRequest) -> None:
        action()

    return reply
