"""Process a batch of SQS messages that hold events, each independently: a standard queue keeps no order.

A message that can never be processed is parked in the failure store. After any other error, SQS delivers it again after
longer and longer waits (functions/model/retries.py).
"""

import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeVar, cast

from botocore.exceptions import BotoCoreError, ClientError

from functions.dynamodb.errors import Permanent
from functions.dynamodb.record_batch import Record, RecordBatch
from functions.model.events import ReceivedEvent, delivery_attempt, parse_event_detail
from functions.model.lambdas import lambda_name_of_module
from functions.model.reactions import REACTIONS
from functions.model.retries import DEFAULT_WAITS, ClaimHeld, RetryWaits, retry_delay_seconds
from functions.runtime import clients, dead_letters, secrets
from functions.runtime.environment import load_environment
from functions.runtime.log import log
from functions.runtime.observability import failure_logger, instrument_handler
from functions.runtime.time_limit import MARGIN_SECONDS, TimeLimit
from functions.shop.shop import ShopContext

E = TypeVar("E")
MAX_BATCH_ENTRIES = 10
"""The limit of SQS for the messages of one request."""
QueueHandler = Callable[["MessageBatch", ShopContext, E], None]
"""A function that processes a batch of messages. It gets the batch, the Shop object and the Lambda's environment."""


def queue_handler(
    environment_class: type[E],
    margin_seconds: float = MARGIN_SECONDS,
    *,
    parked_form: Callable[[Record], Record] = lambda message: message,
    names_by_error: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[QueueHandler[E]], Callable[[dict[str, Any], Any], dict[str, Any]]]:
    """Return a decorator that makes a function, which processes a MessageBatch, the Lambda handler of an SQS queue.

    The handler returns the ids of the messages that SQS must deliver again. `environment_class`: the Lambda's class in
    functions/runtime/environment.py, a WorkerEnvironment; with `pepper_secret`, the Shop object has the pepper.
    `margin_seconds`: no message is started if less time is left. `parked_form`: returns the form in which a message is
    parked. `names_by_error`: see `dead_letter_writer`.
    """

    def decorate(process: QueueHandler[E]) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
        name = lambda_name_of_module(process.__module__)
        waits = next((reaction.waits for reaction in REACTIONS if reaction.name == name), DEFAULT_WAITS)

        @instrument_handler
        @functools.wraps(process)
        def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
            try:
                environment: Any = load_environment(cast(Any, environment_class))
            except KeyError as missing:
                return retry_all(event["Records"], missing, failure_logger(name))
            write = dead_letters.dead_letter_writer(environment.failures_bucket, name, names_by_error)
            limit = TimeLimit(context, margin_seconds)
            batch = MessageBatch(
                event["Records"],
                lambda message, reason: write(parked_form(message), reason),
                failure_logger(name),
                limit.is_reached,
            )
            secret = getattr(environment, "pepper_secret", "")
            settings: Any = {"pepper": lambda: secrets.get_secret(secret).encode()} if secret else {}
            shop = clients.create_shop(environment.table_name, **settings)
            process(batch, shop, environment)
            batch.change_message_visibility(
                shop.now(), waits
            )  # do this last, because SQS may then deliver a failed message again
            return batch.response()

        return handler

    return decorate


def retry_all(
    records: Sequence[Record], error: Exception, log_failure: Callable[[Exception, Record], None]
) -> dict[str, Any]:
    """Mark all messages for a retry after some seconds, because the Lambda lacks a variable of its environment.

    A deploy replaces the code of a Lambda before its variables. In between, the new code may run without a new
    variable. If the Lambda failed then, its messages would wait for the visibility timeout, which is several minutes.
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-lambda-function.html
    """
    batch = MessageBatch(records, _never_park, log_failure)
    for record in records:
        batch.retry_record(record, error)
    batch.change_message_visibility(datetime.now(UTC))
    return batch.response()


def _never_park(record: Record, reason: str) -> None:
    raise AssertionError(f"{record['messageId']} is parked although nothing was processed: {reason}")


@dataclass(eq=False)
class MessageBatch(RecordBatch):
    """A batch of SQS messages. If a message is marked for retry, SQS delivers it again."""

    _retries: list[tuple[Record, float]] = field(default_factory=list, init=False)

    def id_of(self, record: Record) -> str:
        return str(record["messageId"])

    def retry_record(self, record: Record, error: Exception) -> None:
        """Log the error, and mark the message for retry. After ClaimHeld, the retry waits until the claim has ended."""
        until = error.claimed_until if isinstance(error, ClaimHeld) else 0
        self.log_failure(error.reason if isinstance(error, ClaimHeld) else error, record)
        self.postpone_record(record, until)

    def postpone_record(self, record: Record, until: float = 0) -> None:
        """Mark a message for retry, but not before the time `until` (epoch seconds)."""
        super().postpone_record(record)
        self._retries.append((record, until))

    def change_message_visibility(self, now: datetime, waits: RetryWaits = DEFAULT_WAITS) -> None:
        """Change the visibility timeout of each message that is marked for retry. Call this after all other work.

        A message waits longer after each delivery, and at least until a claim on its effect has ended: each delivery
        counts towards `maxReceiveCount`. If the request fails, or the function is killed, it waits for its queue's
        timeout.

        https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html
        """
        if not self._retries:
            return
        try:
            entries = [
                {
                    "Id": str(number),
                    "ReceiptHandle": message["receiptHandle"],
                    "VisibilityTimeout": max(
                        retry_delay_seconds(delivery_attempt(message), waits), math.ceil(until - now.timestamp()) + 1
                    ),
                }
                for number, (message, until) in enumerate(self._retries)
            ]
            sqs = clients.client("sqs")
            for start in range(0, len(entries), MAX_BATCH_ENTRIES):
                sqs.change_message_visibility_batch(
                    QueueUrl=queue_url(sqs, self.records[0]["eventSourceARN"]),
                    Entries=entries[start : start + MAX_BATCH_ENTRIES],
                )
        except (BotoCoreError, ClientError, LookupError) as error:
            about = {"messages": len(self._retries), "error": type(error).__name__}
            log.warning("message_visibility_not_changed", extra=about)

    def apply_each(self, handle: Callable[[ReceivedEvent], None]) -> None:
        """Call `handle` with the event of each message. If one call fails, the other messages are still processed."""
        for message in self.records:
            self.apply([message], lambda events: handle(events[0]))

    def apply_together(self, handle: Callable[[list[ReceivedEvent]], None]) -> None:
        """Call `handle` with the events of all messages. If this fails, call it with the event of each message alone.

        So no message fails because of another. `handle` must be safe to repeat.
        """
        if len(self.records) > 1 and not self.is_out_of_time():
            try:
                handle([parse_event(message) for message in self.records])
            except Exception as error:  # noqa: BLE001  the calls below find out which message fails, and why
                log.info("batch_split", extra={"messages": len(self.records), "error": type(error).__name__})
            else:
                return
        for message in self.records:
            self.apply([message], handle)

    def apply(self, messages: Sequence[Record], handle: Callable[[list[ReceivedEvent]], None]) -> None:
        """Call `handle` with the events of several messages. Park them all if it raises Permanent, retry them after
        others.

        If too little time is left, mark them for retry without the call.
        """
        if self.is_out_of_time():
            for message in messages:
                self.postpone_record(message)
            return
        try:
            handle([parse_event(message) for message in messages])
        except Permanent as error:
            for message in messages:
                self.park_record(message, error)
        except Exception as error:  # noqa: BLE001  after any error the message must be retried, not lost
            for message in messages:
                self.retry_record(message, error)


def queue_url(sqs: Any, arn: str) -> str:
    """Return the URL of a queue in the account and region of this Lambda. `arn`: the ARN of the queue."""
    account, name = arn.split(":")[-2:]
    return f"{sqs.meta.endpoint_url}/{account}/{name}"


def parse_event(message: Record) -> ReceivedEvent:
    """Return the event in an SQS message. Raises Permanent if the message does not contain a known event."""
    try:
        detail = json.loads(message["body"])["detail"]
    except (LookupError, TypeError, ValueError) as error:
        raise Permanent(f"not an event: {type(error).__name__}") from error
    if not isinstance(detail, Mapping):
        raise Permanent("not an event: its detail must be an object")
    return replace(parse_event_detail(detail), attempt=delivery_attempt(message))
