"""A batch of queue messages, each an event from the bus: handled, parked, or sent again.

A queue promises no order, so each message stands for itself.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from functions.dynamodb.streams import Permanent
from functions.model.events import Received, attempt_of, received

Message = Mapping[str, Any]


class Messages:
    """What became of a batch's messages."""

    def __init__(
        self,
        batch: Mapping[str, Any],
        park: Callable[[Message, str], None],
        failed: Callable[[Exception, Message], None],
    ) -> None:
        self.messages: list[Message] = batch["Records"]
        self._park, self._failed = park, failed
        self._again: list[str] = []

    def each(self, act: Callable[[Received], None]) -> "Messages":
        """Do something with each event; one that fails does not stop the others."""
        for message in self.messages:
            self.apply([message], lambda events: act(events[0]))
        return self

    def apply(self, messages: list[Message], act: Callable[[list[Received]], None]) -> None:
        """Do something with some events together. What can never succeed is parked, what may heal comes again."""
        try:
            act([event_in(message) for message in messages])
        except Permanent as error:
            for message in messages:
                self._refuse(message, error)
        except Exception as error:  # noqa: BLE001  whatever it is, the message must not be lost
            for message in messages:
                self._retry(message, error)

    def _refuse(self, message: Message, error: Exception) -> None:
        try:
            self._park(message, f"{type(error).__name__}: {error}")
        except Exception as parking:  # noqa: BLE001  the same
            self._retry(message, parking)

    def _retry(self, message: Message, error: Exception) -> None:
        self._failed(error, message)
        self._again.append(message["messageId"])

    def response(self) -> dict[str, Any]:
        """The answer to Lambda (ReportBatchItemFailures)."""
        return {"batchItemFailures": [{"itemIdentifier": id} for id in self._again]}


def event_in(message: Message) -> Received:
    """The event of a message; raises Permanent where it is none that this code knows."""
    try:
        detail = json.loads(message["body"])["detail"]
    except (LookupError, TypeError, ValueError) as error:
        raise Permanent(f"not an event: {type(error).__name__}") from error
    if not isinstance(detail, Mapping):
        raise Permanent("not an event: its detail is no object")
    return replace(received(detail), attempt=attempt_of(message))
