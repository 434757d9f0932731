"""Report the progress of an operator tool, on a terminal or in a log."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TextIO

from functions.dynamodb.table import Table
from functions.model.entities import SweepSegment
from ops.scan.sweep_result import SweepResult

REPORT_EVERY_SECONDS = 10
QUICK_SECONDS = 2
"""update_on_terminal() shows no bar for work that takes less than this number of seconds."""


class ProgressBar:
    """Reports the progress of a tool as a bar with a percentage. `out`: where to write (default: stderr).

    On a terminal, it updates one line. Elsewhere, it writes a new line at most every REPORT_EVERY_SECONDS.
    """

    WIDTH = 24

    def __init__(self, title: str, out: TextIO | None = None, clock: Callable[[], datetime] | None = None) -> None:
        self._title, self._out, self._clock = title, out or sys.stderr, clock or (lambda: datetime.now(UTC))
        self._last_report_at = self._began_at = self._clock()
        self._first_report: tuple[datetime, float] | None = None
        self._line_length = 0

    @property
    def is_on_terminal(self) -> bool:
        return self._out.isatty()

    def update_on_terminal(self, fraction: float, text: str, *, done: bool = False) -> None:
        """Show the progress on a terminal, if the work takes longer than QUICK_SECONDS. Do nothing elsewhere."""
        is_slow = (self._clock() - self._began_at).total_seconds() > QUICK_SECONDS
        if is_slow and self._out.isatty():
            self.update(fraction, text, done=done)

    def update(self, fraction: float, text: str, *, done: bool = False) -> None:
        """Report the progress. `fraction`: the finished part, from 0 to 1. `done`: whether this is the last report."""
        bar = ("#" * int(fraction * self.WIDTH)).ljust(self.WIDTH, ".")
        line = f"{self._title} [{bar}] {fraction:4.0%}  {text}"
        if self._out.isatty():
            line += "" if done else self._estimate(fraction)
            line = line[: shutil.get_terminal_size().columns - 1]
            self._out.write("\r" + line.ljust(self._line_length) + ("\n" if done else ""))
            self._line_length = 0 if done else len(line)
        elif done or self._line_is_due():
            self._write_line(line)
        self._out.flush()

    def _estimate(self, fraction: float) -> str:
        """Return how long the rest takes at the speed since the first report, or "" if it is too early to say."""
        now = self._clock()
        began_at, first = self._first_report = self._first_report or (now, fraction)
        seconds = (now - began_at).total_seconds()
        if seconds < QUICK_SECONDS or fraction <= first:
            return ""
        left = round(seconds * (1 - fraction) / (fraction - first))
        return f", about {left} s left" if left < 100 else f", about {round(left / 60)} min left"

    def note(self, text: str, *, only_when_due: bool = False) -> None:
        """Write a line of text, if the output is no terminal. `only_when_due`: unless one was written just before."""
        if not self._out.isatty() and (self._line_is_due() or not only_when_due):
            self._write_line(f"{self._title}: {text}")
            self._out.flush()

    def _line_is_due(self) -> bool:
        return (self._clock() - self._last_report_at).total_seconds() >= REPORT_EVERY_SECONDS

    def _write_line(self, line: str) -> None:
        self._out.write(line + "\n")
        self._last_report_at = self._clock()

    def finish(self) -> None:
        """End the line of the progress bar on a terminal. Does nothing if the last report has ended the line."""
        if self._line_length:
            self._out.write("\n")
            self._line_length = 0

    def print_line(self, text: str) -> None:
        """Remove the progress bar from the terminal, then print a line to stdout."""
        if self._line_length:
            self._out.write("\r" + " " * self._line_length + "\r")
            self._out.flush()
            self._line_length = 0
        print(text, flush=True)


@contextmanager
def show_waiting(what: str, out: TextIO | None = None) -> Iterator[None]:
    """Show on a terminal what the `with` block does and for how long, if it takes longer than QUICK_SECONDS.

    The line is removed at the end. Nothing is written to a file or pipe. `out`: where to write (default: stderr).
    """
    out = out or sys.stderr
    if not out.isatty():
        yield
        return
    began, done = time.monotonic(), threading.Event()

    def show() -> None:
        while not done.wait(0.5):
            seconds = time.monotonic() - began
            if seconds > QUICK_SECONDS:
                out.write(f"\r{what} {seconds:.0f} s\x1b[K")
                out.flush()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        out.write("\r\x1b[K")
        out.flush()


class SweepProgress(ProgressBar):
    """Reports the progress of a table sweep, or of a sample of `sample_size` items.

    It is an estimate, because the number of items may be six hours old. `dry`: the tool writes nothing.
    """

    def __init__(
        self, table: Table, title: str, out: TextIO | None = None, *, dry: bool = False, sample_size: int | None = None
    ) -> None:
        super().__init__(title, out, table.clock)
        self._dry, self._is_sample = dry, sample_size is not None
        self._size = sample_size or approximate_item_count(table)

    def after_page(self, found: SweepResult, segments: tuple[SweepSegment, ...]) -> None:
        """Report the number of items read so far. `segments`: the scan position of each segment."""
        done = found.read >= self._size if self._is_sample else all(segment.done for segment in segments)
        self._update(found, done=done)

    def within_page(self, before: SweepResult, page: SweepResult) -> None:
        """Report progress within a page if a new line is due, but not on a terminal.

        `before`: the counts of all pages before this page. `page`: the counts of this page so far.
        """
        if not self._out.isatty() and self._line_is_due():
            so_far = replace(before)
            so_far.add(page)
            self._update(so_far)

    def _update(self, found: SweepResult, *, done: bool = False) -> None:
        part = 1.0 if done else min(found.read / self._size, 0.99) if self._size else 0.0
        says = found.summary(dry=self._dry)
        if self._size and not self._out.isatty():
            says += f"; {self._size:,} to read" if self._is_sample else f"; about {self._size:,} in the table"
        self.update(part, says, done=done)


def approximate_item_count(table: Table) -> int:
    """Return the table's item count from DescribeTable: up to six hours old, and 0 for a new table."""
    return int(table.client.describe_table(TableName=table.name)["Table"].get("ItemCount", 0))
