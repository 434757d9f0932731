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
from functions.dynamodb.keys import to_instant
from functions.dynamodb.store import Table
from functions.dynamodb.writes import Write, WriteConflict, check_unchanged, put_if_absent, replace_with
from functions.model.entities import Stretch, Sweep
from functions.model.table import SWEEP
from ops.sweep import ItemAction, SweepResult

LOCK_SECONDS = 60
"""How long a sweep is its runner's after a sign of life. Who takes it over from one that lives on does no harm."""
MAX_RESUME_AGE = timedelta(days=1)
"""What was stopped longer ago is begun anew where it is about what the table says today."""
MAX_REMEMBERED_ITEMS = 20
"""How many of the items that were passed over the table remembers; all are counted."""


class Locked(Exception):
    """Somebody else runs this sweep."""


TAKEN_OVER_MESSAGE = "somebody else has just taken it over"


def current_operator() -> str:
    """Who runs this, as others know them."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


class Checkpoint:
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
        max_age: timedelta | None = None,
    ) -> None:
        self._table = table
        self._lock = threading.RLock()
        now = to_instant(table.clock())
        existing = load_sweeps(table, tool, [name]).get(name)
        if existing is not None and existing.status == "RUNNING" and existing.held_until > now:
            raise Locked(f"{existing.by} runs it until {existing.held_until} at least ({existing.task})")
        is_recent = max_age is None or (
            existing is not None and existing.updated_at > to_instant(table.clock() - max_age)
        )
        if existing is not None and existing.status == "RUNNING" and existing.task == task and is_recent:
            self.sweep = replace(existing, by=by)
            self.stopped_at: str | None = existing.updated_at
        else:
            self.stopped_at = None
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
                version=existing.version if existing else 0,
            )
        self._save(held_seconds=LOCK_SECONDS)

    @property
    def result(self) -> SweepResult:
        """What it has found so far."""
        one = self.sweep
        return SweepResult(one.read, one.changed, one.right, one.lost, one.passed_over, dict(one.unreadable))

    @property
    def segments(self) -> tuple[Stretch, ...]:
        return self.sweep.segments

    @property
    def resume_message(self) -> str:
        """Where it goes on, in a sentence."""
        return f"Goes on where it was stopped at {self.stopped_at}: {self.result.read:,} items were read by then."

    def save_progress(self, found: SweepResult, segments: tuple[Stretch, ...], waiting: Collection[str] = ()) -> None:
        """Remember how far it has come, and what is `waiting` behind that. Raises InHand where another has it."""
        named = dict(list(found.unreadable.items())[:MAX_REMEMBERED_ITEMS])
        counts: dict[str, Any] = {
            name: getattr(found, name) for name in ("read", "changed", "right", "lost", "passed_over")
        }
        where = {"segments": segments, "unreadable": named, "waiting": tuple(waiting)}
        self._save(held_seconds=LOCK_SECONDS, **counts, **where)

    def with_heartbeat(self, act: ItemAction) -> ItemAction:
        """The same, and a sign of life now and then: a page may take longer than it is held."""

        def act_with_heartbeat(image: Image) -> bool | None:
            self.extend_lock()
            return act(image)

        return act_with_heartbeat

    def extend_lock(self, seconds: float = 0) -> None:
        """It is held for so long, and HELD_SECONDS after that. Raises InHand where another has taken it over."""
        with self._lock:
            enough = to_instant(self._table.clock() + timedelta(seconds=seconds + LOCK_SECONDS / 2))
            if self.sweep.held_until < enough:
                self._save(held_seconds=seconds + LOCK_SECONDS)

    def check_lock(self) -> Write[Any]:
        """Lets a transaction hold only while it is still this runner's; else that raises InHand."""
        return check_unchanged(SWEEP, self.sweep, condition_error=lambda _: Locked(TAKEN_OVER_MESSAGE))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._save(status="DONE", segments=(), waiting=())
        elif not issubclass(kind, Locked):
            with suppress(Exception):  # what went wrong first is told
                self._save()

    def _save(self, *, held_seconds: float = 0, **changed: Any) -> None:
        """Write the next version, whole: what another runner wrote is never taken for one's own."""
        with self._lock:
            now = self._table.clock()
            until = to_instant(now + timedelta(seconds=held_seconds))
            after = replace(
                self.sweep, updated_at=to_instant(now), held_until=until, version=self.sweep.version + 1, **changed
            )
            write = replace_with(SWEEP, self.sweep, SWEEP, after) if self.sweep.version else put_if_absent(SWEEP, after)
            try:
                self._table.write(write)
            except WriteConflict:
                raise Locked(TAKEN_OVER_MESSAGE) from None
            self.sweep = after


def load_sweeps(table: Table, tool: str, names: Sequence[str]) -> dict[str, Sweep]:
    """What the table remembers of a tool's sweeps, by their names."""
    found = table.batch_get([SWEEP.key(tool=tool, name=name) for name in names], consistent=True)
    return {one.name: one for one in found}
