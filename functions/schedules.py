"""What a schedule looks at, run after run, each by itself: one that fails stops no other, and is looked at again."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from functions import wiring

T = TypeVar("T")


class NotAll(Exception):
    """Some failed; the others were done, and the next run looks at all of them again."""


@dataclass
class Run:
    """One run of a schedule, by its function's name. `failed`: how many did so far."""

    name: str
    failed: int = 0

    def each(self, things: Iterable[T], act: Callable[[T], bool], id: Callable[[T], str] = str) -> int:
        """Do something with each. Returns with how many it was done; a list that breaks off counts as one that failed.

        `id`: what the log calls one of them.
        """
        done = 0
        try:
            for thing in things:
                done += self._done(thing, act, id)
        except Exception as error:  # noqa: BLE001  whatever it is, other lists must not wait for it
            self._note(error, "the list of them")
        return done

    def end(self) -> None:
        """Raises NotAll where some failed, so that it is seen."""
        if self.failed:
            raise NotAll(f"{self.failed} failed")

    def _done(self, thing: T, act: Callable[[T], bool], id: Callable[[T], str]) -> bool:
        try:
            return act(thing)
        except Exception as error:  # noqa: BLE001  whatever it is, the others must not wait for it
            self._note(error, id(thing))
            return False

    def _note(self, error: Exception, id: str) -> None:
        wiring.failing(self.name)(error, {"messageId": id})
        self.failed += 1
