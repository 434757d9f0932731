"""Scheduled jobs: process lists of items in lanes, until all items are processed or the time is over.

A lane is a thread that processes one item after the other. The next run finds what failed or had no time.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Generic, TypeVar

from functions.dynamodb.table import run_parallel
from functions.runtime import observability
from functions.runtime.time_limit import TimeLimit

T = TypeVar("T")
END = object()
"""The value that is returned instead of an item at the end of a list."""


class RunIncomplete(Exception):
    """Some items of a scheduled run failed. The next run retries them, and the items for which there was no time."""


@dataclass(eq=False)
class WorkList(Generic[T]):
    """A list of items, and the function that processes an item. `handle` returns whether it changed something.

    `items`: yields the items; it may read them page by page. `id_of`: returns the id of an item for the log.
    `done`: how often `handle` returned True. `is_complete`: False if the end of the list was not reached, or could not
    be read.
    """

    items: Iterator[T]
    handle: Callable[[T], bool]
    id_of: Callable[[T], str] = str
    done: int = 0
    is_complete: bool = True
    lock: Lock = field(default_factory=Lock)


@dataclass
class ScheduledRun:
    """One run of a scheduled job.

    `name`: the name of the Lambda for the log. `lanes`: how many items are processed at the same time. `failed_count`:
    how many items have failed so far. `run_concurrently`: runs the lanes; the simulation replaces it.
    """

    name: str
    time_limit: TimeLimit
    lanes: int = 1
    run_concurrently: Callable[[Sequence[Callable[[], Any]]], list[Any]] = run_parallel
    failed_count: int = 0
    _lock: Lock = field(default_factory=Lock)

    def process(self, *lists: WorkList[Any], time_limit: TimeLimit | None = None) -> None:
        """Process the items of these lists, in turn. Stop when the time limit is reached; then the lists are not
        complete.

        Each item is taken once. If an item or the reading of a list fails, the error is logged and counted, and the
        rest follows. `time_limit`: replaces the limit of the run for these lists.
        """
        limit, waiting = time_limit or self.time_limit, deque(lists)

        def work() -> None:
            while (found := self._take_item(waiting, limit)) is not None:
                each, item = found
                changed = self._handle(each, item)
                with self._lock:
                    each.done += changed

        self.run_concurrently([work] * self.lanes)

    def raise_if_failed(self) -> None:
        """Raise RunIncomplete if an item failed, so that the invocation counts as failed."""
        if self.failed_count:
            raise RunIncomplete(f"{self.failed_count} failed")

    def _take_item(self, waiting: deque[WorkList[Any]], limit: TimeLimit) -> tuple[WorkList[Any], Any] | None:
        """Return the next item and its list. Return None if no item is left, or if no time is left."""
        while True:
            with self._lock:
                if not waiting:
                    return None
                each = waiting[0]
                waiting.rotate(-1)
            with each.lock:  # while this lane reads a page of the list, the other lanes take items of other lists
                item = self._read(each)
            with self._lock:
                if item is END:
                    if each in waiting:
                        waiting.remove(each)
                elif limit.is_reached():
                    for cut in (each, *waiting):
                        cut.is_complete = False
                    waiting.clear()
                else:
                    return each, item

    def _read(self, each: WorkList[Any]) -> Any:
        """Return the next item of a list. Return END if the list has no further item or cannot be read."""
        try:
            return next(each.items, END)
        except Exception as error:  # noqa: BLE001  continue with the other lists after any error
            self._record_failure(error, "list of items")
            each.is_complete = False
            return END

    def _handle(self, each: WorkList[Any], item: Any) -> bool:
        try:
            return bool(each.handle(item))
        except Exception as error:  # noqa: BLE001  continue with the next item after any error
            self._record_failure(error, each.id_of(item))
            return False

    def _record_failure(self, error: Exception, id: str) -> None:
        with self._lock:  # the metrics of an invocation are not thread-safe
            observability.failure_logger(self.name)(error, {"messageId": id})
            self.failed_count += 1
