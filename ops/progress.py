"""Report how far an operators' tool has come, on a terminal and elsewhere."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TextIO

from functions.dynamodb.store import Table
from functions.model.entities import Stretch
from ops.sweep import Found, size_of

TOLD_EVERY_SECONDS = 10


class Bar:
    """Reports how far something has come: on a terminal in one line, elsewhere in a line every TOLD_EVERY_SECONDS."""

    WIDTH = 24

    def __init__(self, what: str, out: TextIO | None = None, clock: Callable[[], datetime] | None = None) -> None:
        self._what, self._out, self._clock = what, out or sys.stderr, clock or (lambda: datetime.now(UTC))
        self._told = self._clock()
        self._shown = 0

    def tell(self, part: float, says: str, *, done: bool = False) -> None:
        """`part`: from 0 to 1. `done`: that was the last of it."""
        bar = ("#" * int(part * self.WIDTH)).ljust(self.WIDTH, ".")
        line = f"{self._what} [{bar}] {part:4.0%}  {says}"
        if self._out.isatty():
            line = line[: shutil.get_terminal_size().columns - 1]
            self._out.write("\r" + line.ljust(self._shown) + ("\n" if done else ""))
            self._shown = 0 if done else len(line)
        elif done or self._line_is_due():
            self._write_line(line)
        self._out.flush()

    def note(self, text: str, *, only_when_due: bool = False) -> None:
        """Write a line of its own, unless the output is a terminal. `only_when_due`: not within TOLD_EVERY_SECONDS of
        the last one."""
        if not self._out.isatty() and (self._line_is_due() or not only_when_due):
            self._write_line(f"{self._what}: {text}")
            self._out.flush()

    def _line_is_due(self) -> bool:
        return (self._clock() - self._told).total_seconds() >= TOLD_EVERY_SECONDS

    def _write_line(self, line: str) -> None:
        self._out.write(line + "\n")
        self._told = self._clock()

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
    """Reports how far a sweep has come, or a sample of so many items (`of`).

    The table's size is what DescribeTable answers. It may be six hours old, and so may be what is left.
    """

    def __init__(
        self, table: Table, what: str, out: TextIO | None = None, *, dry: bool = False, of: int | None = None
    ) -> None:
        super().__init__(what, out, table.clock)
        self._dry, self._is_sample = dry, of is not None
        self._size = of or size_of(table)

    def after_page(self, found: Found, segments: tuple[Stretch, ...]) -> None:
        """Report the items read so far. `segments`: where each part of the table goes on."""
        done = found.read >= self._size if self._is_sample else all(segment.done for segment in segments)
        self._tell(found, done=done)

    def within_page(self, before: Found, page: Found) -> None:
        """Report the same within a page, unless the output is a terminal or the last line is too recent. `before`: what
        was found on the pages before this one, `page`: what was found on this one so far."""
        if not self._out.isatty() and self._line_is_due():
            so_far = replace(before)
            so_far.add(page)
            self._tell(so_far)

    def _tell(self, found: Found, *, done: bool = False) -> None:
        part = 1.0 if done else min(found.read / self._size, 0.99) if self._size else 0.0
        says = found.told(dry=self._dry)
        if self._size and not self._out.isatty():
            says += f"; {self._size:,} are to be read" if self._is_sample else f"; about {self._size:,} in the table"
        self.tell(part, says, done=done)
