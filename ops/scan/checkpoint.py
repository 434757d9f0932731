"""Store the progress of an operator tool in the table, with a lock so that only one run at a time makes progress."""

import getpass
import socket
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from functions.dynamodb.codec import Image
from functions.dynamodb.keys import to_instant
from functions.dynamodb.table import Table
from functions.dynamodb.writes import Write, WriteConflict, check_unchanged, put_if_absent, replace_with
from functions.model.entities import Sweep, SweepSegment
from functions.model.table import SWEEP
from ops.scan.sweep_result import ItemAction, SweepResult

LOCK_SECONDS = 60
"""How long a run holds the lock after each write. Then another can take over, and the first stops with Locked."""
MAX_RESUME_AGE = timedelta(days=1)
"""A run that stopped longer ago is not resumed, because the table may have changed. `migrate` has no such limit."""
MAX_REMEMBERED_ITEMS = 20
"""The checkpoint stores the keys of at most this number of skipped items. It still counts all skipped items."""


class Locked(Exception):
    """Another run holds the lock of this tool's checkpoint, or has taken over the lock from this run."""


TAKEN_OVER_MESSAGE = "another run has taken over"


def current_operator() -> str:
    """Return the user who runs this tool, as user@host."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


class Checkpoint:
    """The stored progress of a table sweep. Use it as a context manager. Thread-safe.

    Raises Locked if another run holds the lock. After an exception, the next run can resume at once; after a kill,
    after LOCK_SECONDS. Only a run with the same `task` is resumed, if it stopped within `max_age`, from `stopped_at`
    (None: from the beginning). `by`: the user. `segments`: how many to scan in parallel.
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
            raise Locked(f"{existing.by} is running it ({existing.task}), at least until {existing.held_until}")
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
                segments=(SweepSegment(),) * segments,
                unreadable={},
                version=existing.version if existing else 0,
            )
        self._save(held_seconds=LOCK_SECONDS)

    @property
    def result(self) -> SweepResult:
        """The counts of the items processed so far."""
        one = self.sweep
        return SweepResult(one.read, one.changed, one.right, one.lost, one.passed_over, dict(one.unreadable))

    @property
    def segments(self) -> tuple[SweepSegment, ...]:
        return self.sweep.segments

    @property
    def resume_message(self) -> str:
        """A sentence for the operator: when the sweep was stopped and how many items had been read."""
        return f"Resumes the run that stopped at {self.stopped_at}: {self.result.read:,} items were already read."

    def save_progress(
        self, found: SweepResult, segments: tuple[SweepSegment, ...], waiting: Collection[str] = ()
    ) -> None:
        """Store the counts and the scan position of each segment, and extend the lock. Raises Locked.

        `waiting`: the keys ("PK / SK") of scanned items that a resumed run must check again.
        """
        named = dict(list(found.unreadable.items())[:MAX_REMEMBERED_ITEMS])
        counts: dict[str, Any] = {
            name: getattr(found, name) for name in ("read", "changed", "right", "lost", "passed_over")
        }
        where = {"segments": segments, "unreadable": named, "waiting": tuple(waiting)}
        self._save(held_seconds=LOCK_SECONDS, **counts, **where)

    def with_heartbeat(self, act: ItemAction) -> ItemAction:
        """Wrap an action: first extend the lock if it ends soon, because a page can take longer than LOCK_SECONDS."""

        def act_with_heartbeat(image: Image) -> bool | None:
            self.extend_lock()
            return act(image)

        return act_with_heartbeat

    def extend_lock(self, seconds: float = 0) -> None:
        """Extend the lock, if needed, to at least `seconds` plus half of LOCK_SECONDS. Raises Locked if it is lost."""
        with self._lock:
            enough = to_instant(self._table.clock() + timedelta(seconds=seconds + LOCK_SECONDS / 2))
            if self.sweep.held_until < enough:
                self._save(held_seconds=seconds + LOCK_SECONDS)

    def check_lock(self) -> Write[Any]:
        """Return a condition check that makes a transaction fail with Locked if another run has taken over the lock."""
        return check_unchanged(SWEEP, self.sweep, condition_error=lambda _: Locked(TAKEN_OVER_MESSAGE))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._save(status="DONE", segments=(), waiting=())
        elif not issubclass(kind, Locked):
            with suppress(Exception):  # the original exception is reported, so an error of this write is suppressed
                self._save()

    def _save(self, *, held_seconds: float = 0, **changed: Any) -> None:
        """Write the next version of the checkpoint, and hold the lock for `held_seconds` (0 releases it). Raises
        Locked.
        """
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
    """Return the stored checkpoints of a tool, by name."""
    found = table.batch_get([SWEEP.key(tool=tool, name=name) for name in names], consistent=True)
    return {one.name: one for one in found}
