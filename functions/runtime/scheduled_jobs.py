"""Scheduled jobs: process a list of items, and continue with the next item if one fails.

The next scheduled run retries the failed items.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from functions.runtime import observability

T = TypeVar("T")


class RunIncomplete(Exception):
    """Some items of a scheduled run failed. All other items are done, and the next run retries the failed items."""


@dataclass
class ScheduledRun:
    """One run of a scheduled job.

    `name`: the name of the Lambda for the log. `failed_count`: how many items have failed so far.
    """

    name: str
    failed_count: int = 0

    def apply_each(self, items: Iterable[T], handle: Callable[[T], bool], id_of: Callable[[T], str] = str) -> int:
        """Call `handle` with each item, and return how often `handle` returned True.

        If an item fails, the error is logged and counted, and the next item follows. If reading the list of items
        fails, this counts as one failure. `id_of`: returns the id of an item for the log.
        """
        done = 0
        try:
            for thing in items:
                done += self._apply_one(thing, handle, id_of)
        except Exception as error:  # noqa: BLE001  a job may process several lists: continue with the next list
            self._record_failure(error, "list of items")
        return done

    def raise_if_failed(self) -> None:
        """Raise RunIncomplete if an item failed, so that the invocation counts as failed."""
        if self.failed_count:
            raise RunIncomplete(f"{self.failed_count} failed")

    def _apply_one(self, item: T, handle: Callable[[T], bool], id_of: Callable[[T], str]) -> bool:
        try:
            return handle(item)
        except Exception as error:  # noqa: BLE001  continue with the next item after any error
            self._record_failure(error, id_of(item))
            return False

    def _record_failure(self, error: Exception, id: str) -> None:
        observability.failure_logger(self.name)(error, {"messageId": id})
        self.failed_count += 1
