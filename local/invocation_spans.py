"""Measures the invocations of Lambda functions in the local AWS, for the traces of the shop's web page.

`measure_invocations` runs in the process of the local AWS, in ministack (the emulator of AWS). It appends a line to a
file for each invocation. The worker processes append their AWS requests to the same file
(local/measured_requests.py). A worker runs one invocation at a time, so the lines of a process before the line of an
invocation are the requests of this invocation.

`SpanReader` reads the file, and builds the activity log entries.
"""

from __future__ import annotations

import json
import os
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from functions.model.lambdas import lambda_name_of_handler

MAX_REQUESTS = 40
"""How many AWS requests of one invocation an entry keeps."""
MAX_OPEN_INVOCATIONS = 1000
"""How many invocations of the API wait for their log line, which has the order's id."""
WRITES = {"Put", "Update", "Delete"}

Span = dict[str, Any]
"""An invocation: its function, its times, what it received, and its AWS requests."""


def measure_invocations(file: Path) -> None:
    """From now on, append a line to `file` for each invocation of a Lambda function. Runs in ministack's process."""
    from ministack.core.lambda_runtime import Worker  # type: ignore[import-untyped]

    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    invoke, drain = Worker.invoke, Worker._drain_stderr_bounded

    def note_end_and_drain(worker: Any, *arguments: Any) -> Any:
        worker.answered_at = time.time()  # the rest of `invoke` only collects the log
        return drain(worker, *arguments)

    def measure(worker: Any, event: Any, request_id: str, **more: Any) -> Any:
        began_at, worker.answered_at = time.time(), None
        result = invoke(worker, event, request_id, **more)
        ended_at = worker.answered_at or time.time()
        line = {
            "invocation": request_id,
            "process": getattr(worker._proc, "pid", None),
            "function": lambda_name_of_handler(worker.config["Handler"]),
            "began_at": began_at,
            "ms": round((ended_at - began_at) * 1000, 1),
            "cold_start": bool(result.get("cold_start")),
            **_describe_event(event, result),
        }
        os.write(descriptor, f"{json.dumps(line)}\n".encode())
        return result

    Worker.invoke, Worker._drain_stderr_bounded = measure, note_end_and_drain


def _describe_event(event: Any, result: Mapping[str, Any]) -> dict[str, Any]:
    """Describe what an invocation received: stream records or messages, each with its outcome."""
    crashed = result.get("status") != "ok"
    answer = result.get("result")
    failures = answer.get("batchItemFailures") if isinstance(answer, Mapping) else None
    failed = {one.get("itemIdentifier") for one in failures or ()}
    records = event.get("Records") if isinstance(event, Mapping) else None
    found: dict[str, Any] = {"error": str(result.get("error"))[:200]} if crashed else {}
    if isinstance(event, Mapping) and "requestContext" in event:
        found["is_api"] = True
    for record in records or ():
        if "dynamodb" in record:
            change = record["dynamodb"]
            image = change.get("NewImage") or change.get("OldImage") or {}
            order_id = image.get("order_id", {}).get("S")
            found.setdefault("records", []).append({"sequence": change["SequenceNumber"], "order_id": order_id})
        elif "messageId" in record:
            message = _describe_message(record, failed=crashed or record["messageId"] in failed)
            found.setdefault("messages", []).append(message)
    return found


def _describe_message(record: Mapping[str, Any], *, failed: bool) -> dict[str, Any]:
    try:
        detail = json.loads(record["body"])["detail"]
        about = {"event_id": detail["id"], "event": detail["type"], "order_id": detail["data"].get("order_id")}
    except (ValueError, LookupError, TypeError, AttributeError):  # not an event, such as a part of an import
        about = {}
    attributes = record["attributes"]
    return {
        "message": record["messageId"],
        "sent_at": int(attributes["SentTimestamp"]) / 1000,
        "attempt": int(attributes["ApproximateReceiveCount"]),
        "failed": failed,
        **about,
    }


class SpanReader:
    """Turns the lines of the file of `measure_invocations` into activity log entries."""

    def __init__(self) -> None:
        self._requests: dict[int, list[dict[str, Any]]] = {}
        self._of_api: OrderedDict[str, Span] = OrderedDict()

    def entries(self, text: bytes | str) -> Iterator[dict[str, Any]]:
        """Yield the entries for a line: one for each order that an invocation worked for.

        An invocation of the API yields none: `take_api_span` returns it.
        """
        try:
            line = json.loads(text)
        except ValueError:
            return
        if request := line.get("request"):
            self._requests.setdefault(request.pop("process"), []).append(request)
            return
        requests = self._requests.pop(line.pop("process"), [])
        span = {**line, "requests": requests[:MAX_REQUESTS], "units": sum_units(requests)}
        if span.pop("is_api", False):
            self._of_api[span["invocation"]] = span
            if len(self._of_api) > MAX_OPEN_INVOCATIONS:
                self._of_api.popitem(last=False)
        else:
            yield from _invocation_entries(span)

    def take_api_span(self, invocation: str) -> Span:
        """Return the span of an invocation of the API, and forget it. Returns {} if it is not known."""
        span = self._of_api.pop(invocation, None)
        if span is None:
            return {}
        return {**{name: span[name] for name in ("began_at", "cold_start", "requests")}, "took_ms": span["ms"]}


def _invocation_entries(span: Span) -> Iterator[dict[str, Any]]:
    """Yield an entry for each order of an invocation: of its records, its messages, or else of the keys it wrote."""
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
            **mine,
        }


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
