"""Import worker Lambda: write the lines of a product import one after the other, within the stage's rate limit.

The event source mapping limits how many workers run at the same time. Each worker may write an equal share of the lines
per second that the stage allows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functions.model.events import ReceivedEvent
from functions.model.reactions import IMPORT_WORKER_CONCURRENCY
from functions.runtime import clients, dead_letters, observability
from functions.runtime.environment import ImportWorkerEnvironment, load_environment
from functions.runtime.queue_batch import MessageBatch
from functions.shop.imports import write_part
from functions.shop.shop import Shop


@dataclass
class WriteRateLimiter:
    """Rate limiter for writes: each call waits until the next write is allowed.

    `per_second`: the maximum number of writes per second.
    """

    clock: Callable[[], datetime]
    sleep: Callable[[float], None]
    per_second: float
    _next_at: float = 0.0

    def __call__(self) -> None:
        """Wait until the next write is allowed."""
        now = self.clock().timestamp()
        if now < self._next_at:
            self.sleep(self._next_at - now)
        self._next_at = max(now, self._next_at) + 1 / self.per_second


@observability.instrument_handler("bulk")
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: process a batch of SQS messages and return the failed ones for retry."""
    environment = load_environment(ImportWorkerEnvironment)
    shop = clients.create_shop(environment.table_name)
    rate_limiter = WriteRateLimiter(
        shop.table.clock, shop.table.sleep, environment.lines_per_second / IMPORT_WORKER_CONCURRENCY
    )
    batch = MessageBatch(
        event,
        dead_letters.dead_letter_writer(environment.failures_bucket, "bulk"),
        observability.failure_logger("bulk"),
    )
    return batch.apply_each(lambda queued: import_lines(shop, queued, rate_limiter)).response()


def import_lines(shop: Shop, event: ReceivedEvent, rate_limiter: WriteRateLimiter) -> None:
    """Write the remaining lines of one import part, and log how many were written, unchanged and rejected."""
    ids = {"import_id": event.data.import_id, "part": event.data.part}
    part = write_part(shop, event.data.import_id, event.data.part, is_retry=event.attempt > 1, wait=rate_limiter)
    counts = {"written": part.written, "unchanged": part.unchanged, "rejected": len(part.rejected)} if part else {}
    effect = f"{event.data.import_id}/{event.data.part}" if part else None
    observability.log_effect("imported", shop, event, effect=effect, **ids, **counts)
