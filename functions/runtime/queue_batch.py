"""Process a batch of SQS messages that hold events.

A message that can never be processed is parked: it is stored in the failure store, an S3 bucket. After any other error,
SQS delivers the message again. A standard queue does not keep the order of messages, so each message is processed
independently.
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from functions.dynamodb.errors import Permanent
from functions.dynamodb.record_batch import Record, RecordBatch
from functions.model.events import ReceivedEvent, delivery_attempt, parse_event_detail
from functions.model.lambdas import stored_name_of_module
from functions.runtime import clients, dead_letters
from functions.runtime.environment import load_environment
from functions.runtime.observability import failure_logger, instrument_handler
from functions.shop.shop import Shop

E = TypeVar("E")
QueueHandler = Callable[["MessageBatch", Shop, E], None]
"""A function that processes a batch of messages. It gets the batch, the Shop object and the Lambda's environment."""


def queue_handler(
    environment_class: type[E],
) -> Callable[[QueueHandler[E]], Callable[[dict[str, Any], Any], dict[str, Any]]]:
    """Return a decorator that makes a function the Lambda handler of an SQS queue.

    The decorated function processes a MessageBatch. The handler returns the ids of the messages that SQS must deliver
    again. `environment_class`: the Lambda's class in functions/runtime/environment.py; it needs `table_name` and
    `failures_bucket`.
    """

    def decorate(process: QueueHandler[E]) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
        name = stored_name_of_module(process.__module__)

        @instrument_handler
        @functools.wraps(process)
        def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
            environment: Any = load_environment(cast(Any, environment_class))
            park = dead_letters.dead_letter_writer(environment.failures_bucket, name)
            batch = MessageBatch(event["Records"], park, failure_logger(name))
            process(batch, clients.create_shop(environment.table_name), environment)
            return batch.response()

        return handler

    return decorate


class MessageBatch(RecordBatch):
    """A batch of SQS messages. If a message is marked for retry, SQS delivers it again."""

    def id_of(self, record: Record) -> str:
        return str(record["messageId"])

    def apply_each(self, handle: Callable[[ReceivedEvent], None]) -> None:
        """Call `handle` with the event of each message. If one call fails, the other messages are still processed."""
        for message in self.records:
            self.apply([message], lambda events: handle(events[0]))

    def apply(self, messages: Sequence[Record], handle: Callable[[list[ReceivedEvent]], None]) -> None:
        """Call `handle` with the events of several messages together.

        If `handle` raises Permanent, park all these messages (store them in the failure store). If `handle` raises
        another error, mark all of them for retry.
        """
        try:
            handle([parse_event(message) for message in messages])
        except Permanent as error:
            for message in messages:
                self.park_record(message, error)
        except Exception as error:  # noqa: BLE001  after any error the message must be retried, not lost
            for message in messages:
                self.retry_record(message, error)


def parse_event(message: Record) -> ReceivedEvent:
    """Return the event in an SQS message. Raises Permanent if the message does not contain a known event."""
    try:
        detail = json.loads(message["body"])["detail"]
    except (LookupError, TypeError, ValueError) as error:
        raise Permanent(f"not an event: {type(error).__name__}") from error
    if not isinstance(detail, Mapping):
        raise Permanent("not an event: its detail must be an object")
    return replace(parse_event_detail(detail), attempt=delivery_attempt(message))
