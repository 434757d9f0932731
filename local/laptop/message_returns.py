"""Makes the messages of a killed function visible again after seconds, before the queue's visibility timeout ends.

A function that fails sets a short timeout for each message (functions/runtime/queue_batch.py). A killed one cannot, so
its messages are invisible for minutes. This code runs in ministack, which knows when an invocation has ended, and then
does the same. When ministack starts, all messages of the saved queues are visible at once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ministack.services import lambda_svc, sqs  # type: ignore[import-untyped]

from functions.model.retries import retry_delay_seconds
from local.laptop.queues import OLDEST_SECONDS, RETURNING, RETURNS_AT

HELD_UNTIL = "held_until"
"""Until when a message is hidden since a mapping received it. If `visible_at` differs, the function has set it."""
Message = dict[str, Any]


def return_messages() -> None:
    """Start to make messages of ended invocations visible again. Call this in ministack before it loads its state."""
    receive, run = sqs._receive_messages_for_esm, lambda_svc._run_sqs_batch
    load, count = sqs.load_persisted_state, sqs._refresh_counts

    def receive_and_hold(*arguments: Any) -> list[Message]:
        batch: list[Message] = receive(*arguments)
        for message in batch:
            message[HELD_UNTIL] = message["visible_at"]
        return batch

    def run_and_return(
        mapping: Any, function: Any, event: Mapping[str, Any], batch: Sequence[Message], *queue: Any
    ) -> None:
        receipts = {record["receiptHandle"] for record in event["Records"]}
        try:
            run(mapping, function, event, batch, *queue)
        finally:
            with sqs._queues_lock:
                for message in batch:
                    if message["receipt_handle"] in receipts:  # no other invocation has received it meanwhile
                        _return(message, time.time() + retry_delay_seconds(message["receive_count"]))

    def load_and_return(data: Any) -> None:
        load(data)
        for queue in sqs._queues._data.values():
            for message in queue["messages"]:
                _return(message, time.time())

    def count_and_measure(queue: Any) -> None:
        count(queue)
        at = [message["visible_at"] for message in queue["messages"] if _is_returning(message)]
        ages = [time.time() - message["sent_at"] for message in queue["messages"] if _is_waiting(message)]
        found = {RETURNING: len(at), RETURNS_AT: min(at, default=0), OLDEST_SECONDS: max(ages, default=0)}
        queue["attributes"] |= {name: str(value) for name, value in found.items()}

    sqs._receive_messages_for_esm, lambda_svc._run_sqs_batch = receive_and_hold, run_and_return
    sqs.load_persisted_state, sqs._refresh_counts = load_and_return, count_and_measure


def _return(message: Message, at: float) -> None:
    """Make a message visible at this time, unless the function has set another visibility timeout."""
    held_until = message.pop(HELD_UNTIL, None)
    if held_until is not None and held_until == message["visible_at"]:
        message["visible_at"] = min(held_until, at)


def _is_returning(message: Message) -> bool:
    """Return whether a message was received, is not being processed, and is not visible yet."""
    is_invisible = message["visible_at"] > time.time()
    return bool(is_invisible and message["receive_count"] and message.get(HELD_UNTIL) != message["visible_at"])


def _is_waiting(message: Message) -> bool:
    """Return whether a message is visible and was not received yet."""
    return bool(message["visible_at"] <= time.time() and not message.get("receive_count"))
