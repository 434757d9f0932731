"""Limit the DynamoDB capacity units per second that an operator tool consumes."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from functions.dynamodb.table import Table
from functions.runtime.rate_limiter import RateLimiter


def limit_capacity(table: Table, units_per_second: float | None) -> AbstractContextManager[None]:
    """Return a context manager that limits the capacity units per second of a table's client; None for no limit."""
    return nullcontext() if units_per_second is None else CapacityThrottle(table, units_per_second)


class CapacityThrottle:
    """Delays each request until the units of all previous ones are paid, without rejected writes. Thread-safe."""

    def __init__(self, table: Table, units_per_second: float) -> None:
        self._table = table
        self._limiter = RateLimiter(table.clock, table.sleep, units_per_second)

    def __enter__(self) -> None:
        self._events.register("provide-client-params.dynamodb", self._wait_for_capacity)
        self._events.register("after-call.dynamodb", self._record_consumption)

    def __exit__(self, *_: object) -> None:
        self._events.unregister("provide-client-params.dynamodb", self._wait_for_capacity)
        self._events.unregister("after-call.dynamodb", self._record_consumption)

    @property
    def _events(self) -> Any:
        return self._table.client.meta.events

    def _wait_for_capacity(self, params: dict[str, Any], model: Any, **_: Any) -> dict[str, Any] | None:
        if "ReturnConsumedCapacity" not in model.input_shape.members:
            return None
        self._limiter.wait()
        return {**params, "ReturnConsumedCapacity": "TOTAL"}

    def _record_consumption(self, parsed: Mapping[str, Any], **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity") or []
        units = sum(one["CapacityUnits"] for one in (consumed if isinstance(consumed, list) else [consumed]))
        self._limiter.record(units)
