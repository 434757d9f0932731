"""Capacity units, as DynamoDB itself counts them in each answer (index writes included): what a piece of work cost."""

from typing import Any

READS = {"GetItem", "Query", "BatchGetItem"}


class Units:
    """Counts what the requests of the clients it watches consumed. A Lambda does one piece of work at a time."""

    def __init__(self) -> None:
        self._read = self._write = 0.0

    def watch(self, client: Any) -> None:
        """Have a DynamoDB client ask for what each of its requests consumes, and count it."""
        client.meta.events.register("provide-client-params.dynamodb", _ask)
        client.meta.events.register("after-call.dynamodb", self._count)

    def taken(self) -> dict[str, float]:
        """{"read": units, "write": units} since this was asked last."""
        found = {"read": self._read, "write": self._write}
        self._read = self._write = 0.0
        return found

    def _count(self, parsed: dict[str, Any], model: Any, **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity") or []
        units = sum(one["CapacityUnits"] for one in (consumed if isinstance(consumed, list) else [consumed]))
        if model.name in READS:
            self._read += units
        else:
            self._write += units


def _ask(params: dict[str, Any], **_: Any) -> dict[str, Any]:
    return {"ReturnConsumedCapacity": "TOTAL"} | params
