"""What the table remembers of an operators' tool: whose it is, and how far it has come."""

import getpass
import socket
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from functions.dynamodb.images import Image
from functions.dynamodb.keys import instant
from functions.dynamodb.store import Table
from functions.dynamodb.writes import Changed, Write, put, turn, unchanged
from functions.model.entities import Stretch, Sweep
from functions.model.table import SWEEP
from ops.sweep import Act, Found

HELD_SECONDS = 60
"""How long a sweep is its runner's after a sign of life. Who takes it over from one that lives on does no harm."""
STALE = timedelta(days=1)
"""What was stopped longer ago is begun anew where it is about what the table says today."""
REMEMBERED = 20
"""How many of the items that were passed over the table remembers; all are counted."""


class InHand(Exception):
    """Somebody else runs this sweep."""


TAKEN_OVER = "somebody else has just taken it over"


def who() -> str:
    """Who runs this, as others know them."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


class Kept:
    """A sweep that the table remembers: one runner's at a time, and done once. `with` it: what is left by an exception
    is somebody's to go on with at once; what is killed, after HELD_SECONDS. Raises InHand where it is another's.

    `stale`: what was stopped longer ago than that is begun anew. `since`: when what this one goes on with was stopped;
    None: it begins at the beginning. Thread-safe.
    """

    def __init__(
        self,
        table: Table,
        tool: str,
        name: str,
        task: str,
        *,
        by: str,
        segments: int = 1,
        stale: timedelta | None = None,
    ) -> None:
        self._table = table
        self._lock = threading.RLock()
        now = instant(table.clock())
        before = remembered(table, tool, [name]).get(name)
        if before is not None and before.status == "RUNNING" and before.held_until > now:
            raise InHand(f"{before.by} runs it until {before.held_until} at least ({before.task})")
        fresh = stale is None or (before is not None and before.updated_at > instant(table.clock() - stale))
        if before is not None and before.status == "RUNNING" and before.task == task and fresh:
            self.sweep = replace(before, by=by)
            self.since: str | None = before.updated_at
        else:
            self.since = None
            self.sweep = Sweep(
                tool=tool,
                name=name,
                task=task,
                status="RUNNING",
                by=by,
                held_until=now,
                started_at=now,
                updated_at=now,
                segments=(Stretch(),) * segments,
                unreadable={},
                version=before.version if before else 0,
            )
        self._write(held_seconds=HELD_SECONDS)

    @property
    def found(self) -> Found:
        """What it has found so far."""
        one = self.sweep
        return Found(one.read, one.changed, one.right, one.lost, one.passed_over, dict(one.unreadable))

    @property
    def segments(self) -> tuple[Stretch, ...]:
        return self.sweep.segments

    @property
    def told(self) -> str:
        """Where it goes on, in a sentence."""
        return f"Goes on where it was stopped at {self.since}: {self.found.read:,} items were read by then."

    def after_page(self, found: Found, segments: tuple[Stretch, ...], waiting: Collection[str] = ()) -> None:
        """Remember how far it has come, and what is `waiting` behind that. Raises InHand where another has it."""
        named = dict(list(found.unreadable.items())[:REMEMBERED])
        counts: dict[str, Any] = {
            name: getattr(found, name) for name in ("read", "changed", "right", "lost", "passed_over")
        }
        where = {"segments": segments, "unreadable": named, "waiting": tuple(waiting)}
        self._write(held_seconds=HELD_SECONDS, **counts, **where)

    def living(self, act: Act) -> Act:
        """The same, and a sign of life now and then: a page may take longer than it is held."""

        def acting(image: Image) -> bool | None:
            self.hold()
            return act(image)

        return acting

    def hold(self, seconds: float = 0) -> None:
        """It is held for so long, and HELD_SECONDS after that. Raises InHand where another has taken it over."""
        with self._lock:
            enough = instant(self._table.clock() + timedelta(seconds=seconds + HELD_SECONDS / 2))
            if self.sweep.held_until < enough:
                self._write(held_seconds=seconds + HELD_SECONDS)

    def guard(self) -> Write[Any]:
        """Lets a transaction hold only while it is still this runner's; else that raises InHand."""
        return unchanged(SWEEP, self.sweep, refused=lambda _: InHand(TAKEN_OVER))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._write(status="DONE", segments=(), waiting=())
        elif not issubclass(kind, InHand):
            with suppress(Exception):  # what went wrong first is told
                self._write()

    def _write(self, *, held_seconds: float = 0, **changed: Any) -> None:
        """Write the next version, whole: what another runner wrote is never taken for one's own."""
        with self._lock:
            now = self._table.clock()
            until = instant(now + timedelta(seconds=held_seconds))
            after = replace(
                self.sweep, updated_at=instant(now), held_until=until, version=self.sweep.version + 1, **changed
            )
            write = turn(SWEEP, self.sweep, SWEEP, after) if self.sweep.version else put(SWEEP, after)
            try:
                self._table.write(write)
            except Changed:
                raise InHand(TAKEN_OVER) from None
            self.sweep = after


def remembered(table: Table, tool: str, names: Sequence[str]) -> dict[str, Sweep]:
    """What the table remembers of a tool's sweeps, by their names."""
    found = table.batch_get([SWEEP.key(tool=tool, name=name) for name in names], consistent=True)
    return {one.name: one for one in found}
