"""Count the consumed capacity units and the throttled attempts, from DynamoDB's responses.

The units include the writes to indexes. If the client retries a throttled request automatically, each throttled attempt
is counted. A response that leaves items of a batch unprocessed also counts as a throttled attempt. Lost connections and
internal errors of DynamoDB are not counted.
"""

from threading import Lock, local
from typing import Any

READ_OPERATIONS = {"GetItem", "Query", "BatchGetItem"}
THROTTLING_ERROR_CODES = {
    "ThrottlingError",
    "ThrottlingException",
    "ProvisionedThroughputExceeded",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
}
"""The error codes of a throttled request, and the cancellation codes of a throttled transaction."""


class ConsumedCapacityCounter:
    """Counts the capacity units and throttled attempts of DynamoDB clients. Call `instrument` once for each client.

    The class is thread-safe, because a Lambda may send several requests in parallel.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._read = self._write = 0.0
        self._throttled = 0
        # Each thread has its own attribute `counted`. It is True if `_count_throttled_attempt` counted the last attempt
        # of the thread's current request. Then `_count_capacity` does not count this attempt again.
        self._thread_state = local()
        self._last_reported = (0.0, 0.0)

    @property
    def totals(self) -> tuple[float, float, int]:
        """The read units, the write units, and the number of throttled attempts, since the counter was created."""
        return self._read, self._write, self._throttled

    def instrument(self, client: Any) -> None:
        """Register botocore hooks on a DynamoDB client, so that this counter counts the client's requests.

        The hooks add ReturnConsumedCapacity to each request.
        """
        client.meta.events.register("provide-client-params.dynamodb", self._request_consumed_capacity)
        client.meta.events.register("needs-retry.dynamodb", self._count_throttled_attempt)
        client.meta.events.register("after-call.dynamodb", self._count_capacity)

    def consumed_since_last_call(self) -> dict[str, float]:
        """Return the units consumed since the last call of this method: {"read": units, "write": units}."""
        read, write = self._last_reported
        self._last_reported = (self._read, self._write)
        return {"read": self._read - read, "write": self._write - write}

    def _count_capacity(self, parsed: dict[str, Any], model: Any, **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity") or []
        units = sum(one["CapacityUnits"] for one in (consumed if isinstance(consumed, list) else [consumed]))
        left = parsed.get("UnprocessedItems") or parsed.get("UnprocessedKeys")
        throttled = bool(left) or (_is_throttled(parsed) and not self._thread_state.counted)
        with self._lock:
            if model.name in READ_OPERATIONS:
                self._read += units
            else:
                self._write += units
            self._throttled += throttled

    def _count_throttled_attempt(self, response: tuple[Any, dict[str, Any]] | None, **_: Any) -> None:
        """Count an attempt if DynamoDB throttled the request.

        botocore calls this hook after each attempt, before the client decides whether to retry. `response` is
        (HTTP response, parsed response), or None if there was no response.
        """
        self._thread_state.counted = response is not None and _is_throttled(response[1])
        with self._lock:
            self._throttled += self._thread_state.counted

    def _request_consumed_capacity(self, params: dict[str, Any], **_: Any) -> dict[str, Any]:
        self._thread_state.counted = False
        return {"ReturnConsumedCapacity": "TOTAL"} | params


def _is_throttled(parsed: dict[str, Any]) -> bool:
    codes = {(parsed.get("Error") or {}).get("Code")}
    codes.update(reason.get("Code") for reason in parsed.get("CancellationReasons") or ())
    return bool(codes & THROTTLING_ERROR_CODES)
