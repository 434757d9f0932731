"""Import worker Lambda: write the lines of a product import one after the other, within a rate limit.

It is an equal share of what a setting allows all workers together, whose number the mapping limits.
"""

from functions.model.events import ReceivedEvent
from functions.model.reactions import IMPORT_WORKER_CONCURRENCY
from functions.runtime import observability
from functions.runtime.environment import ImportWorkerEnvironment
from functions.runtime.queue_batch import MessageBatch, queue_handler
from functions.runtime.rate_limiter import RateLimiter
from functions.shop.imports import write_part
from functions.shop.shop import ShopContext


@queue_handler(ImportWorkerEnvironment)
def handler(batch: MessageBatch, shop: ShopContext, environment: ImportWorkerEnvironment) -> None:
    """Lambda entry point: write the lines of each queued import part (a group of lines of an import)."""
    per_second = environment.lines_per_second / IMPORT_WORKER_CONCURRENCY
    rate_limiter = RateLimiter(shop.table.clock, shop.table.sleep, per_second)
    batch.apply_each(lambda queued: import_lines(shop, queued, rate_limiter))


def import_lines(shop: ShopContext, event: ReceivedEvent, rate_limiter: RateLimiter) -> None:
    """Write the remaining lines of an import part (a group of lines), and log how many were written or rejected."""
    ids = {"import_id": event.data.import_id, "part": event.data.part}
    part = write_part(
        shop, event.data.import_id, event.data.part, is_retry=event.attempt > 1, wait=rate_limiter.acquire
    )
    counts = {"written": part.written, "unchanged": part.unchanged, "rejected": len(part.rejected)} if part else {}
    effect = f"{event.data.import_id}/{event.data.part}" if part else None
    observability.log_effect("import_part_processed", shop, event, effect=effect, **ids, **counts)
