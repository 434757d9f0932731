"""The reaction to lines of an import: they are written, one after the other, no faster than the stage allows.

The mapping says how many of these run at a time; each has its share of the lines that may be written in a second.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functions import wiring
from functions.environment import Bulk, current
from functions.model.events import Received
from functions.model.reactions import BULK_CONCURRENCY
from functions.queues import Messages
from functions.shop.imports import write_part
from functions.shop.shop import Shop


@dataclass
class Pace:
    """Lets one go each time it is called, and no more of them in a second than it may."""

    clock: Callable[[], datetime]
    sleep: Callable[[float], None]
    per_second: float
    _next: float = 0.0

    def __call__(self) -> None:
        """Wait for the next one's turn."""
        now = self.clock().timestamp()
        if now < self._next:
            self.sleep(self._next - now)
        self._next = max(now, self._next) + 1 / self.per_second


@wiring.observed("bulk")
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: a batch of queue messages in, the messages to send again out."""
    environment = current(Bulk)
    shop = wiring.shop(environment.table_name)
    pace = Pace(shop.table.clock, shop.table.sleep, environment.lines_per_second / BULK_CONCURRENCY)
    messages = Messages(event, wiring.parking(environment.failures_bucket, "bulk"), wiring.failing("bulk"))
    return messages.each(lambda queued: write(shop, queued, pace)).response()


def write(shop: Shop, queued: Received, pace: Pace) -> None:
    """The lines of a part of an import that are still to be written."""
    ids = {"import_id": queued.data.import_id, "part": queued.data.part}
    part = write_part(shop, queued.data.import_id, queued.data.part, again=queued.attempt > 1, wait=pace)
    counts = {"written": part.written, "unchanged": part.unchanged, "rejected": len(part.rejected)} if part else {}
    effect = f"{queued.data.import_id}/{queued.data.part}" if part else None
    wiring.worked("imported", shop, queued, effect=effect, **ids, **counts)
