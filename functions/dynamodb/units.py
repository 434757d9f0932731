"""Capacity units, as DynamoDB itself counts them in each answer (index writes included): what a piece of work cost.

And how often it would not: requests that were throttled, and those the client had to send again.
"""

from threading import Lock
from typing import Any

READS = {"GetItem", "Query", "BatchGetItem"}
THROTTLED = {
    "ThrottlingError",
    "ThrottlingException",
    "ProvisionedThroughputExceeded",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
}
"""Codes of a refused request, or of what made a transaction be refused."""


class Units:
    """Counts what the requests of the clients it watches consumed. A Lambda does one piece of work at a time, though it
    may ask several questions at once."""

    def __init__(self) -> None:
        self._counting = Lock()
        self._read = self._write = 0.0
        self._throttled = 0
        self._taken = (0.0, 0.0)

    @property
    def total(self) -> tuple[float, float, int]:
        """Units read, units written, and requests thrown back, all since the beginning."""
        return self._read, self._write, self._throttled

    def watch(self, client: Any) -> None:
        """Have a DynamoDB client ask for what each of its requests consumes, and count it."""
        client.meta.events.register("provide-client-params.dynamodb", _ask)
        client.meta.events.register("after-call.dynamodb", self._count)

    def taken(self) -> dict[str, float]:
        """{"read": units, "write": units} since this was asked last."""
        read, write = self._taken
        self._taken = (self._read, self._write)
        return {"read": self._read - read, "write": self._write - write}

    def _count(self, parsed: dict[str, Any], model: Any, **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity") or []
        units = sum(one["CapacityUnits"] for one in (consumed if isinstance(consumed, list) else [consumed]))
        codes = {(parsed.get("Error") or {}).get("Code")}
        codes.update(reason.get("Code") for reason in parsed.get("CancellationReasons") or ())
        sent_again = (parsed.get("ResponseMetadata") or {}).get("RetryAttempts", 0)
        with self._counting:
            if model.name in READS:
                self._read += units
            else:
                self._write += units
            self._throttled += sent_again + bool(codes & THROTTLED)


def _ask(params: dict[str, Any], **_: Any) -> dict[str, Any]:
    return {"ReturnConsumedCapacity": "TOTAL"} | params
