"""What a schedule looks at, run after run, each by itself: one that fails stops no other, and is looked at again."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from functions import wiring

T = TypeVar("T")


class RunIncomplete(Exception):
    """Some failed; the others were done, and the next run looks at all of them again."""


@dataclass
class ScheduledRun:
    """One run of a schedule, by its function's name. `failed`: how many did so far."""

    name: str
    failed_count: int = 0

    def apply_each(self, items: Iterable[T], handle: Callable[[T], bool], id_of: Callable[[T], str] = str) -> int:
        """Do something with each. Returns with how many it was done; a list that breaks off counts as one that failed.

        `id`: what the log calls one of them.
        """
        done = 0
        try:
            for thing in items:
                done += self._apply_one(thing, handle, id_of)
        except Exception as error:  # noqa: BLE001  whatever it is, other lists must not wait for it
            self._record_failure(error, "the list of them")
        return done

    def raise_if_failed(self) -> None:
        """Raises NotAll where some failed, so that it is seen."""
        if self.failed_count:
            raise RunIncomplete(f"{self.failed_count} failed")

    def _apply_one(self, item: T, handle: Callable[[T], bool], id_of: Callable[[T], str]) -> bool:
        try:
            return handle(item)
        except Exception as error:  # noqa: BLE001  whatever it is, the others must not wait for it
            self._record_failure(error, id_of(item))
            return False

    def _record_failure(self, error: Exception, id: str) -> None:
        wiring.failure_logger(self.name)(error, {"messageId": id})
        self.failed_count += 1
