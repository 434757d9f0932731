"""Builds journal entries from the measured invocations and AWS requests of the functions, which share a file.

A worker process runs one invocation at a time. So all its requests before an invocation's line belong to this.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

MAX_REQUESTS = 40
"""The maximum number of AWS requests in a journal entry."""
WRITES = {"Put", "Update", "Delete"}

Span = dict[str, Any]
"""An invocation: its function, its times, what it received, and its AWS requests."""


class SpanReader:
    """Turns the lines of measured requests and invocations into journal entries."""

    def __init__(self) -> None:
        self._requests: dict[int, list[dict[str, Any]]] = {}

    def entries(self, text: bytes | str) -> Iterator[dict[str, Any]]:
        """Yield the entries for a line: one for each order of an invocation. A GET request to the API has no entry."""
        try:
            line = json.loads(text)
        except ValueError:
            return
        if request := line.get("request"):
            self._requests.setdefault(request.pop("process"), []).append(request)
            return
        requests = self._requests.pop(line.pop("process"), [])
        if line.get("method") != "GET":
            yield from _invocation_entries({**line, "requests": requests, "units": sum_units(requests)})


def _invocation_entries(span: Span) -> Iterator[dict[str, Any]]:
    """Yield an entry for each order in the records or messages; if there are none, for each order that was written."""
    orders: dict[str, dict[str, list[Any]]] = {}
    for what in ("records", "messages"):
        for one in span.get(what, ()):
            if order_id := one.get("order_id"):
                mine = {name: value for name, value in one.items() if name != "order_id"}
                orders.setdefault(order_id, {}).setdefault(what, []).append(mine)
    received = len(span.pop("records", ())) + len(span.pop("messages", ()))
    if not received:
        orders = {order_id: {} for order_id in _written_orders(span["requests"])}
    for order_id, mine in orders.items():
        yield {
            "kind": "invocation",
            "text": f"{span['function']} ran",
            "at": span["began_at"],
            "order_id": order_id,
            "batch": received,
            "orders": len(orders),
            **span,
            "requests": _most_relevant(span["requests"], order_id),
            **mine,
        }


def _most_relevant(requests: list[dict[str, Any]], order_id: str) -> list[dict[str, Any]]:
    """Return at most MAX_REQUESTS of an invocation's requests, preferably requests with the order's id."""
    by_relevance = sorted(requests, key=lambda request: order_id not in json.dumps(request["keys"]))
    return sorted(by_relevance[:MAX_REQUESTS], key=lambda request: float(request["began_at"]))


def _written_orders(requests: list[dict[str, Any]]) -> list[str]:
    keys = (key for request in requests for key in request["keys"] if key["op"] in WRITES)
    return list(dict.fromkeys(key["PK"].removeprefix("ORDER#") for key in keys if key["PK"].startswith("ORDER#")))


def sum_units(requests: list[dict[str, Any]]) -> dict[str, float]:
    """Return the capacity units of requests: {"read": units, "write": units}."""
    total = {"read": 0.0, "write": 0.0}
    for request in requests:
        reads = request["operation"] in ("GetItem", "Query", "BatchGetItem", "TransactGetItems")
        total["read" if reads else "write"] += request.get("units", 0)
    return total
