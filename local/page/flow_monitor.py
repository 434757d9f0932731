"""Finds out what happens at the nodes of the flow (local/page/flow.py): stored failures and the last calls of
Lambdas."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3

from functions.adapters.object_store import REDRIVEN_PREFIX
from local.laptop.http_server import NoSuchResource
from local.laptop.log_files import read_log
from local.laptop.poller import mapping_id
from local.laptop.queues import StackQueues
from local.laptop.shop_client import RunningShop
from local.page.flow import SCHEDULES, describe_flow, find_stream_mappings
from ops.failures.failure_store import PARKED_PREFIX

JsonObject = dict[str, Any]
LOG_TAIL_BYTES = 1 << 20
MAX_CALLS, MAX_LINES = 10, 20


class FlowMonitor:
    """Counts the failures that are stored at each node, and reads the last calls of a Lambda. Thread-safe."""

    def __init__(self, running: RunningShop, queues: StackQueues) -> None:
        self._running, self._queues = running, queues
        self._s3 = boto3.client("s3", **running.aws.client_options)
        self.flow = describe_flow(running.stack.template)
        self._reader_of_mapping = {mapping_id(id): name for id, name in find_stream_mappings(running.stack.template)}

    def count_failures(self) -> dict[str, int]:
        """Return the number of parked records and messages and of failed batches by node, without redriven failures."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._running.stack.outputs["FailuresBucket"])
        keys = {found["Key"] for page in pages for found in page.get("Contents", ())}
        counts = count_by_node(keys, self._reader_of_mapping)
        dead = self._queues.count_schedule_dead_letters()
        return counts | ({SCHEDULES: dead} if dead else {})

    def last_calls(self, node_id: str) -> list[JsonObject]:
        """Return the last invocations of a node's Lambdas, newest first. Raises NoSuchResource if there is no node."""
        node = next((one for one in self.flow["nodes"] if one["id"] == node_id), None)
        if node is None:
            raise NoSuchResource("This node does not exist.")
        names = {*node.get("functions", ()), node.get("function")}
        return read_last_calls(self._running.aws.function_log, names)


def count_by_node(keys: Collection[str], reader_of_mapping: Mapping[str, str]) -> dict[str, int]:
    """Return the number of failures by node. `reader_of_mapping`: its name by the id of its event source mapping."""

    def node_of(key: str) -> str:
        if key.startswith(PARKED_PREFIX):
            return key.split("/")[1]
        return next((name for id, name in reader_of_mapping.items() if id in key), "unknown")

    left = (key for key in keys if not key.startswith(REDRIVEN_PREFIX) and f"{REDRIVEN_PREFIX}{key}" not in keys)
    return dict(Counter(map(node_of, left)))


def read_last_calls(log: Path, functions: set[str | None]) -> list[JsonObject]:
    """Return at most MAX_CALLS last invocations, newest first, from the last LOG_TAIL_BYTES of the functions' log."""
    calls: dict[str, JsonObject] = {}
    for line in _tail_lines(log):
        if line.get("function") in functions and "message" in line:
            id = str(line.get("invocation"))
            call = calls.pop(id, None) or {"invocation": id, "function": line["function"], "lines": []}
            call["at"] = line.get("timestamp")
            call["lines"] = [*call["lines"], _shown_line(line)][-MAX_LINES:]
            calls[id] = call
    return list(calls.values())[::-1][:MAX_CALLS]


def _shown_line(line: Mapping[str, Any]) -> JsonObject:
    shown_above = ("timestamp", "level", "message", "function", "invocation")
    fields = {name: line[name] for name in line if name not in shown_above}
    return {"level": line.get("level"), "message": line["message"], "fields": fields}


def _tail_lines(log: Path) -> Iterator[JsonObject]:
    try:
        lines = read_log(log, LOG_TAIL_BYTES).split(b"\n")
    except OSError:
        return
    for text in lines:
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            yield line
