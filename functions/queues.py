"""A batch of queue messages, each an event from the bus: handled, parked, or sent again.

A queue promises no order, so each message stands for itself.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from functions.dynamodb.streams import Permanent
from functions.model.events import ReceivedEvent, delivery_attempt, parse_event_detail

Message = Mapping[str, Any]


class MessageBatch:
    """What became of a batch's messages."""

    def __init__(
        self,
        batch: Mapping[str, Any],
        park: Callable[[Message, str], None],
        log_failure: Callable[[Exception, Message], None],
    ) -> None:
        self.messages: list[Message] = batch["Records"]
        self._park, self._log_failure = park, log_failure
        self._retry_ids: list[str] = []

    def apply_each(self, handle: Callable[[ReceivedEvent], None]) -> "MessageBatch":
        """Do something with each event; one that fails does not stop the others."""
        for message in self.messages:
            self.apply([message], lambda events: handle(events[0]))
        return self

    def apply(self, messages: list[Message], handle: Callable[[list[ReceivedEvent]], None]) -> None:
        """Do something with some events together. What can never succeed is parked, what may heal comes again."""
        try:
            handle([parse_event(message) for message in messages])
        except Permanent as error:
            for message in messages:
                self._park_or_retry(message, error)
        except Exception as error:  # noqa: BLE001  whatever it is, the message must not be lost
            for message in messages:
                self._retry(message, error)

    def _park_or_retry(self, message: Message, error: Exception) -> None:
        try:
            self._park(message, f"{type(error).__name__}: {error}")
        except Exception as parking:  # noqa: BLE001  the same
            self._retry(message, parking)

    def _retry(self, message: Message, error: Exception) -> None:
        self._log_failure(error, message)
        self._retry_ids.append(message["messageId"])

    def response(self) -> dict[str, Any]:
        """The answer to Lambda (ReportBatchItemFailures)."""
        return {"batchItemFailures": [{"itemIdentifier": id} for id in self._retry_ids]}


def parse_event(message: Message) -> ReceivedEvent:
    """The event of a message; raises Permanent where it is none that this code knows."""
    try:
        detail = json.loads(message["body"])["detail"]
    except (LookupError, TypeError, ValueError) as error:
        raise Permanent(f"not an event: {type(error).__name__}") from error
    if not isinstance(detail, Mapping):
        raise Permanent("not an event: its detail is no object")
    return replace(parse_event_detail(detail), attempt=delivery_attempt(message))
