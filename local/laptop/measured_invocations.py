"""Measures the Lambda invocations in the local AWS, inside ministack, for the traces of the shop's web page."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ministack.core.lambda_runtime import Worker  # type: ignore[import-untyped]

from functions.model.lambdas import lambda_name_of_handler
from local.laptop.log_files import append_to_log


def measure_invocations(file: Path) -> None:
    """From now on, append a line to `file` for each invocation of a Lambda function. Runs in ministack's process."""
    invoke, drain = Worker.invoke, Worker._drain_stderr_bounded

    def note_end_and_drain(worker: Any, *arguments: Any) -> Any:
        worker.answered_at = time.time()  # the function has answered: the rest of `invoke` only collects its log
        return drain(worker, *arguments)

    def measure(worker: Any, event: Any, request_id: str, **more: Any) -> Any:
        began_at, worker.answered_at = time.time(), None
        result = invoke(worker, event, request_id, **more)
        line = {
            "invocation": request_id,
            "process": getattr(worker._proc, "pid", None),
            "function": lambda_name_of_handler(worker.config["Handler"]),
            "began_at": began_at,
            "ms": round(((worker.answered_at or time.time()) - began_at) * 1000, 1),
            "cold_start": bool(result.get("cold_start")),
            **describe_event(event, result),
        }
        with suppress(OSError):  # if the disk is full, the invocation must not fail
            append_to_log(file, f"{json.dumps(line)}\n")
        return result

    Worker.invoke, Worker._drain_stderr_bounded = measure, note_end_and_drain


def describe_event(event: Any, result: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the stream records or messages of an invocation with their outcomes. `result`: that of ministack."""
    crashed = result.get("status") != "ok"
    answer = result.get("result")
    failures = answer.get("batchItemFailures") if isinstance(answer, Mapping) else None
    failed = {one.get("itemIdentifier") for one in failures or ()}
    records = event.get("Records") if isinstance(event, Mapping) else None
    found: dict[str, Any] = {"error": str(result.get("error"))[:200]} if crashed else {}
    if isinstance(event, Mapping) and "requestContext" in event:
        http = event["requestContext"]["http"]
        found |= {"method": http["method"], "path": http["path"]}
        if isinstance(answer, Mapping):
            found["status"] = answer.get("statusCode")
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
