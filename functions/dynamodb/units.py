"""Consumed capacity units and throttling, counted from DynamoDB's responses (index writes included).

Throttling counts each throttled attempt, also if the client retries it by itself, and each response that left part of a
batch unprocessed. Lost connections and internal errors of DynamoDB do not count.
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
"""Error codes of a throttled request, or cancellation codes of a throttled transaction."""


class ConsumedCapacityCounter:
    """Counts the capacity that the instrumented clients' requests consume.

    Thread-safe, because a Lambda does one piece of work at a time but may send several requests in parallel.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._read = self._write = 0.0
        self._throttled = 0
        self._thread_state = local()  # whether the current thread's last attempt was counted
        self._last_reported = (0.0, 0.0)

    @property
    def totals(self) -> tuple[float, float, int]:
        """Units read, units written, and the number of throttles, since the counter was created."""
        return self._read, self._write, self._throttled

    def instrument(self, client: Any) -> None:
        """Make a DynamoDB client request ConsumedCapacity with each request, and count it."""
        client.meta.events.register("provide-client-params.dynamodb", self._request_consumed_capacity)
        client.meta.events.register("needs-retry.dynamodb", self._count_throttled_attempt)
        client.meta.events.register("after-call.dynamodb", self._count_capacity)

    def consumed_since_last_call(self) -> dict[str, float]:
        """Return {"read": units, "write": units} since the last call."""
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
        """Called for each attempt, before the client decides whether to retry. `response` is None if there was no
        response."""
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
