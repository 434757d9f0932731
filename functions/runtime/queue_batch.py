"""Process a batch of SQS messages that hold events: each message is handled, parked or retried.

To park a message means to store it in the failure store. A standard queue does not keep the order of messages, so each
message is processed independently.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from functions.dynamodb.stream_batch import Permanent
from functions.model.events import ReceivedEvent, delivery_attempt, parse_event_detail

Message = Mapping[str, Any]


class MessageBatch:
    """A batch of SQS messages, which collects the ids of the messages that SQS must deliver again.

    `park`: stores a message and the reason in the failure store. `log_failure`: logs the error of a message.
    """

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
        """Call `handle` with the event of each message. If one event fails, the others are still processed."""
        for message in self.messages:
            self.apply([message], lambda events: handle(events[0]))
        return self

    def apply(self, messages: list[Message], handle: Callable[[list[ReceivedEvent]], None]) -> None:
        """Call `handle` with the events of several messages together.

        If `handle` raises Permanent, park all these messages. If it raises another error, retry all of them.
        """
        try:
            handle([parse_event(message) for message in messages])
        except Permanent as error:
            for message in messages:
                self._park_or_retry(message, error)
        except Exception as error:  # noqa: BLE001  after any error the message must be retried, not lost
            for message in messages:
                self._retry(message, error)

    def _park_or_retry(self, message: Message, error: Exception) -> None:
        try:
            self._park(message, f"{type(error).__name__}: {error}")
        except Exception as parking:  # noqa: BLE001  after any error the message must be retried, not lost
            self._retry(message, parking)

    def _retry(self, message: Message, error: Exception) -> None:
        self._log_failure(error, message)
        self._retry_ids.append(message["messageId"])

    def response(self) -> dict[str, Any]:
        """Return the partial batch response for Lambda (ReportBatchItemFailures)."""
        return {"batchItemFailures": [{"itemIdentifier": id} for id in self._retry_ids]}


def parse_event(message: Message) -> ReceivedEvent:
    """Parse the event in an SQS message. Raises Permanent if the message does not hold a known event."""
    try:
        detail = json.loads(message["body"])["detail"]
    except (LookupError, TypeError, ValueError) as error:
        raise Permanent(f"not an event: {type(error).__name__}") from error
    if not isinstance(detail, Mapping):
        raise Permanent("not an event: its detail is no object")
    return replace(parse_event_detail(detail), attempt=delivery_attempt(message))
