"""Runs the handlers of Lambda functions."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from local.world.harness import READERS, ShopHarness


def failed_ids(function: ModuleType, *batch: Mapping[str, Any]) -> list[str]:
    """Run a function with these records or messages. Return the ids of those that are delivered again."""
    answer = function.handler({"Records": list(batch)}, None)
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def published(harness: ShopHarness, queue: str) -> list[dict[str, Any]]:
    """Let only the event publisher process the new records. Return the messages in this queue."""
    READERS["event_publisher"].handler({"Records": harness.new_records()}, None)
    return harness.take_messages(queue)
