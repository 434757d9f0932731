"""Capacity units, as DynamoDB itself counts them in each answer (index writes included): what a piece of work cost.

And how often it would not: each time that it throttled a request, also where the client sends that again by itself, and
each answer that left some of a batch. A lost connection, or a fault of DynamoDB's, is none.
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
"""Codes of a refused request, or of what made a transaction be refused."""


class ConsumedCapacityCounter:
    """Counts what the requests of the clients it watches consumed. A Lambda does one piece of work at a time, though it
    may ask several questions at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._read = self._write = 0.0
        self._throttled = 0
        self._thread_state = local()  # each thread is at a request of its own
        self._last_reported = (0.0, 0.0)

    @property
    def totals(self) -> tuple[float, float, int]:
        """Units read, units written, and how often it throttled, all since the beginning."""
        return self._read, self._write, self._throttled

    def instrument(self, client: Any) -> None:
        """Have a DynamoDB client ask for what each of its requests consumes, and count it."""
        client.meta.events.register("provide-client-params.dynamodb", self._request_consumed_capacity)
        client.meta.events.register("needs-retry.dynamodb", self._count_throttled_attempt)
        client.meta.events.register("after-call.dynamodb", self._count_capacity)

    def consumed_since_last_call(self) -> dict[str, float]:
        """{"read": units, "write": units} since this was asked last."""
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
        """Each answer on the wire, before the client decides whether to ask again; None: there was none."""
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
