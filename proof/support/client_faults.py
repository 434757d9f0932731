"""Records the calls of AWS clients, measures their capacity units, and injects faults, with hooks of botocore.

The local engine and moto never return conflicts, throttling or unprocessed requests, and never lose a response. The
functions below affect the calls of one operation in a `with` block, of any service. A `WireTap` affects the next
requests of one DynamoDB client, including the client's own retries. Both use the same names for the same faults.
"""

import io
import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast

import pytest
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
"""Called with a request before it is sent. None: send it. A response: the client gets this response instead."""


class ProcessKilled(BaseException):
    """The simulated death of the process, a BaseException, so that `except Exception` does not catch it."""


def _die(**_: Any) -> NoReturn:
    raise ProcessKilled


# the calls of an operation in a `with` block --------------------------------------------------------------------------
@contextmanager
def crash_at(service: str, operation: str, when: Literal["before", "after"] = "after", call: int = 1) -> Iterator[None]:
    """Raise `ProcessKilled` before or after this call, counted from 1, and catch it after the block. It must happen."""
    with _hook(service, f"{when}-call", operation, _die, range(call, call + 1)), pytest.raises(ProcessKilled):
        yield


@contextmanager
def lose_response(service: str, operation: str) -> Iterator[None]:
    """Execute the next call of the operation, but raise a read timeout instead of returning its response."""

    def lose(**_: Any) -> NoReturn:
        raise ReadTimeoutError(endpoint_url="https://aws")

    with _hook(service, "after-call", operation, lose, range(1, 2)):
        yield


@contextmanager
def fail_calls(
    service: str, operation: str, code: str, message: str = "no", times: int = 1000, status: int = 400
) -> Iterator[None]:
    """Answer the next `times` calls of the operation with an error, without executing them."""

    def answer(**_: Any) -> tuple[AWSResponse, dict[str, Any]]:
        error = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
        return AWSResponse("https://aws", status, HTTPHeaders(), None), error

    with _hook(service, "before-call", operation, answer, range(1, times + 1)):
        yield


@contextmanager
def run_before_call(service: str, operation: str, act: Callable[[], object], call: int = 1) -> Iterator[None]:
    """Call `act` just before a call of the operation. `call`: the number of that call, from 1."""

    def before(**_: Any) -> None:
        act()

    with _hook(service, "before-call", operation, before, range(call, call + 1)):
        yield


@contextmanager
def record_calls(service: str, operation: str) -> Iterator[list[dict[str, Any]]]:
    """Yield a list, and append the parameters of each call of the operation to the list."""
    calls: list[dict[str, Any]] = []
    with _hook(service, "provide-client-params", operation, lambda **given: calls.append(given["params"])):
        yield calls


@contextmanager
def _hook(service: str, event: str, operation: str, act: Callable[..., Any], at: range | None = None) -> Iterator[None]:
    """Call `act` at this event of the calls with the numbers `at`, from 1, by default of all calls."""
    numbers = count(1)

    def hook(**given: Any) -> Any:
        return act(**given) if at is None or next(numbers) in at else None

    from functions.runtime import clients  # noqa: PLC0415  it imports the model, which is checked before any test

    client = clients.client(service)
    name = f"{event}.{client.meta.service_model.service_id.hyphenize()}.{operation}"
    client.meta.events.register_first(name, hook)
    try:
        yield
    finally:
        client.meta.events.unregister(name, hook)


# the next requests of a DynamoDB client -------------------------------------------------------------------------------
@dataclass
class InterceptedRequest:
    """A request that the client sent or tried to send. `body`: the parsed JSON body."""

    operation: str
    body: dict[str, Any]


@dataclass
class WireTap:
    """Records and intercepts the requests of one client, including retries. `units_of`: units by operation."""

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

    def run_before_call(self, operation: str, *acts: Callable[[], object], call: int = 1) -> None:
        """Call each of `acts` just before a request of the operation. `call`: the number of the first one, from 1."""
        self.reply_next(operation, *[_send] * (call - 1), *map(_act_and_send, acts))

    def crash_at(self, operation: str, call: int = 1) -> None:
        """Raise `ProcessKilled` just before a request of the operation. `call`: the number of that request, from 1."""
        self.run_before_call(operation, _die, call=call)

    def lose_response(self, operation: str) -> None:
        """Send the next request of the operation, but raise a read timeout instead of returning its response."""
        self.reply_next(operation, send_and_lose_response)

    def fail_calls(self, operation: str, code: str, **more: Any) -> None:
        """Answer the next request of the operation with a DynamoDB error, and do not send it."""
        self.reply_next(operation, error_reply(code, **more))

    def cancel_transactions(self, *codes: str, times: int = 1) -> None:
        """Answer the next `times` write transactions that they were cancelled, with a code for each write."""
        self.reply_next("TransactWriteItems", *[transaction_cancelled_reply(*codes)] * times)

    def reply_next(self, operation: str, *replies: Reply) -> None:
        """Set the replies to the next requests of an operation, such as "PutItem". Each request uses one reply."""
        self._replies[operation].extend(replies)

    def clear(self) -> None:
        """Delete the recorded requests and their capacity units."""
        self.requests.clear()
        self.units_of.clear()

    def pop_unused_replies(self) -> list[str]:
        """Remove the replies of `reply_next` that no request has used yet. Return the names of their operations."""
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
    """Return a `Reply` that sends no transaction, and answers that it was cancelled, with a code for each write."""
    return error_reply("TransactionCanceledException", CancellationReasons=[{"Code": code} for code in codes])


def send_and_lose_response(request: AWSPreparedRequest) -> NoReturn:
    """Send the request, but raise a read timeout instead of returning its response."""
    URLLib3Session().send(request)
    raise ReadTimeoutError(endpoint_url=request.url)


def _send(request: AWSPreparedRequest) -> None:
    """Let the client send the request."""


def _act_and_send(action: Callable[[], object]) -> Reply:
    def reply(request: AWSPreparedRequest) -> None:
        action()

    return reply
