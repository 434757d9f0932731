"""How far an operators' tool has come, for who looks on."""

import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO

from functions.dynamodb.store import Table
from functions.model.entities import Stretch
from ops.sweep import Found, size_of

TOLD_EVERY_SECONDS = 10


class Bar:
    """Tells how far something has come: on a terminal in one line, elsewhere in a line every TOLD_EVERY_SECONDS."""

    WIDTH = 24

    def __init__(self, what: str, out: TextIO | None = None, clock: Callable[[], datetime] | None = None) -> None:
        self._what, self._out, self._clock = what, out or sys.stderr, clock or (lambda: datetime.now(UTC))
        self._told = self._clock()
        self._shown = 0

    def tell(self, part: float, says: str, *, done: bool = False) -> None:
        """`part`: from 0 to 1. `done`: that was the last of it."""
        bar = ("#" * int(part * self.WIDTH)).ljust(self.WIDTH, ".")
        line, now = f"{self._what} [{bar}] {part:4.0%}  {says}", self._clock()
        if self._out.isatty():
            line = line[: shutil.get_terminal_size().columns - 1]
            self._out.write("\r" + line.ljust(self._shown) + ("\n" if done else ""))
            self._shown = 0 if done else len(line)
        elif done or (now - self._told).total_seconds() >= TOLD_EVERY_SECONDS:
            self._out.write(line + "\n")
            self._told = now
        self._out.flush()

    def end(self) -> None:
        """There was less than was expected: what is printed next begins a line."""
        if self._shown:
            self._out.write("\n")
            self._shown = 0

    def aside(self, text: str) -> None:
        """Print something that stays, on stdout."""
        if self._shown:
            self._out.write("\r" + " " * self._shown + "\r")
            self._out.flush()
            self._shown = 0
        print(text, flush=True)


class Progress(Bar):
    """How far a sweep has come, or of so many items (`of`) a sample.

    The table's size is what DescribeTable says, which may be six hours old: so is what is said to be left.
    """

    def __init__(
        self, table: Table, what: str, out: TextIO | None = None, *, dry: bool = False, of: int | None = None
    ) -> None:
        super().__init__(what, out, table.clock)
        self._dry, self._is_sample = dry, of is not None
        self._size = of or size_of(table)

    def after_page(self, found: Found, segments: tuple[Stretch, ...]) -> None:
        done = found.read >= self._size if self._is_sample else all(segment.done for segment in segments)
        part = 1.0 if done else min(found.read / self._size, 0.99) if self._size else 0.0
        self.tell(part, found.told(dry=self._dry), done=done)
