"""Runs the handlers of Lambda functions."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any


def failed_ids(function: ModuleType, *batch: Mapping[str, Any]) -> list[str]:
    """Run a function with these records or messages. Return the ids of those that are delivered again."""
    answer = function.handler({"Records": list(batch)}, None)
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]
