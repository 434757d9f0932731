"""The Lambdas that get the table's stream records and the events, as modules of this process."""

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from functions.model import reactions, stream_readers


def load_readers() -> dict[str, ModuleType]:
    """Return the Lambda of each reader of the table's stream, by the reader's name."""
    return {reader.name: import_module(f"functions.handlers.{reader.name}") for reader in stream_readers.READERS}


def load_workers() -> dict[str, ModuleType]:
    """Return the Lambda of each reaction, by the reaction's name. The queue of the warehouse has no Lambda."""
    return {
        reaction.name: import_module(f"functions.handlers.{reaction.function}")
        for reaction in reactions.REACTIONS
        if reaction.function
    }


def to_sqs_record(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a queue's message as a record of the event that Lambda passes to a function."""
    return {"receiptHandle": "r", "attributes": {}, "messageAttributes": {}, "eventSource": "aws:sqs", **message}
