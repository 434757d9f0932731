"""Measures the AWS requests of Lambda functions on the laptop: their times, keys and results.

This code runs in the worker processes of the functions (local/laptop/forked_workers.py), as handlers of botocore. Each
request becomes one line of a file, which only local/laptop/invocation_spans.py reads. The lines are not in the
functions' log, because keys may be personal data.

https://docs.aws.amazon.com/boto3/latest/guide/events.html
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from botocore import handlers

from local.laptop.log_files import append_to_log

MAX_KEYS = 25
"""The maximum number of keys in a line. A transaction of a large order writes up to a hundred items."""


def measure_requests(file: Path) -> None:
    """Append a line to `file` for each AWS request of this process. Call this before clients are created."""
    handlers.BUILTIN_HANDLERS.extend(request_handlers(file))


def request_handlers(file: Path) -> list[tuple[str, Callable[..., None]]]:
    """Return the event handlers for botocore that append a line to `file` for each request."""
    process = os.getpid()

    def begin(params: Mapping[str, Any], context: dict[str, Any], model: Any, **_: Any) -> None:
        service = model.service_model.service_name
        keys = list(_keys(model.name, params)) if service == "dynamodb" else []
        about = {"service": service, "operation": model.name, "keys": keys[:MAX_KEYS], "items": len(keys)}
        context["measured"] = {"began_at": time.time(), **about}
        if model.name == "PutEvents":
            context["measured"]["events"] = [_event(entry) for entry in params["Entries"]]
        if model.name == "SendEmail":
            tags = {tag["Name"]: tag["Value"] for tag in params.get("EmailTags", ())}
            context["measured"] |= _without_none(effect=tags.get("effect"))

    def end(context: dict[str, Any], parsed: Mapping[str, Any] | None = None, **more: Any) -> None:
        begun = context.pop("measured", None)
        if begun is None:
            return
        request = {
            "process": process,
            **begun,
            "ms": round((time.time() - begun["began_at"]) * 1000, 1),
            **_result(begun["keys"], parsed or {}, more.get("exception")),
        }
        if "events" in begun:
            results = (parsed or {}).get("Entries", ())
            sent = zip(begun["events"], results, strict=False)
            request["events"] = [event for event, result in sent if "ErrorCode" not in result]
        with suppress(OSError):  # if the disk is full, the function must not fail
            append_to_log(file, f"{json.dumps({'request': request})}\n")

    return [("before-parameter-build", begin), ("after-call", end), ("after-call-error", end)]


def _keys(operation: str, params: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a dict for each item or query that a DynamoDB request reads or writes."""
    match operation:
        case "Query":
            values = params.get("ExpressionAttributeValues", {})
            yield _without_none(op="Query", PK=values.get(":pk", {}).get("S"), index=params.get("IndexName"))
        case "BatchGetItem":
            yield from (
                _describe_item("Get", {"Key": key})
                for table in params["RequestItems"].values()
                for key in table["Keys"]
            )
        case "BatchWriteItem":
            requests = (request for table in params["RequestItems"].values() for request in table)
            yield from (
                _describe_item(name.removesuffix("Request"), about) for one in requests for name, about in one.items()
            )
        case "TransactWriteItems" | "TransactGetItems":
            yield from (_describe_item(name, about) for one in params["TransactItems"] for name, about in one.items())
        case _ if "Key" in params or "Item" in params:
            yield _describe_item(operation.removesuffix("Item"), params)


def _describe_item(op: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """Describe one item of a request. `version`: the item's version after the write, if the request shows it."""
    item: Mapping[str, Any] = about.get("Item") or about.get("Key") or {}
    version = item.get("version", {}).get("N")
    read = about.get("ExpressionAttributeValues", {}).get(":read", {}).get("N")
    if op == "Update" and read is not None:
        version = str(int(read) + 1)
    return _without_none(
        op=op,
        PK=item.get("PK", {}).get("S"),
        SK=item.get("SK", {}).get("S"),
        type=item.get("type", {}).get("S"),
        version=version,
        condition=about.get("ConditionExpression"),
    )


def _event(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Describe an event that a function publishes."""
    detail = json.loads(entry["Detail"])
    about = {"event_id": detail.get("id"), "order_id": (detail.get("data") or {}).get("order_id")}
    return {"event": entry["DetailType"], **about}


def _result(keys: list[dict[str, Any]], parsed: Mapping[str, Any], exception: object) -> dict[str, Any]:
    """Return the outcome of a request, its consumed capacity units, and the id of a sent message or mail."""
    consumed = parsed.get("ConsumedCapacity") or []
    units = sum(one.get("CapacityUnits", 0) for one in (consumed if isinstance(consumed, list) else [consumed]))
    for key, reason in zip(keys, parsed.get("CancellationReasons") or (), strict=False):
        if reason.get("Code", "None") != "None":
            key["outcome"] = reason["Code"]
    error = (parsed.get("Error") or {}).get("Code") or (type(exception).__name__ if exception else None)
    return _without_none(units=units or None, error=error, message_id=parsed.get("MessageId"))


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
