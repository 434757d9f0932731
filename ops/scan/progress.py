"""Report the progress of an operator tool as lines on stderr, at most one every REPORT_EVERY_SECONDS."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO

from functions.dynamodb.table import Table
from functions.model.entities import SweepSegment
from ops.scan.sweep_result import SweepResult

REPORT_EVERY_SECONDS = 10


class ProgressReport:
    """Reports the progress of a tool. Work that ends sooner has no line. `out`: where to write (default: stderr)."""

    def __init__(self, title: str, out: TextIO | None = None, clock: Callable[[], datetime] | None = None) -> None:
        self._title, self._out, self._clock = title, out or sys.stderr, clock or (lambda: datetime.now(UTC))
        self._last_report_at = self._clock()

    def update(self, fraction: float, text: str) -> None:
        """Write a line if one is due. `fraction`: the finished part, from 0 to 1."""
        if (self._clock() - self._last_report_at).total_seconds() >= REPORT_EVERY_SECONDS:
            self.note(f"{fraction:.0%}, {text}")

    def note(self, text: str) -> None:
        """Write a line now."""
        print(f"{self._title}: {text}", file=self._out, flush=True)
        self._last_report_at = self._clock()


class SweepProgress(ProgressReport):
    """Estimates the progress of a sweep, or of a sample: the number of items may be six hours old."""

    def __init__(
        self, table: Table, title: str, out: TextIO | None = None, *, dry: bool = False, sample_size: int | None = None
    ) -> None:
        super().__init__(title, out, table.clock)
        self._dry = dry
        self._size = sample_size or approximate_item_count(table)
        self._to_read = f"{self._size:,} to read" if sample_size else f"about {self._size:,} in the table"

    def after_page(self, found: SweepResult, _: tuple[SweepSegment, ...]) -> None:
        """Report the number of items read so far, if a line is due."""
        part = min(found.read / self._size, 0.99) if self._size else 0.0
        self.update(part, f"{found.summary(dry=self._dry)}; {self._to_read}")


def approximate_item_count(table: Table) -> int:
    """Return the table's item count from DescribeTable: up to six hours old, and 0 for a new table."""
    return int(table.client.describe_table(TableName=table.name)["Table"].get("ItemCount", 0))
