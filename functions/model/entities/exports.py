"""List exports: the files of a list of orders, invoices, payments or refunds in a time range."""

from typing import Literal

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant

ListName = Literal["orders", "invoices", "payments", "refunds"]
ListExportStatus = Literal["REQUESTED", "RUNNING", "DONE", "FAILED"]


@entity
class ListExport:
    """An export of a list from `since` (included) to `until` (excluded), and its progress.

    `rows`: how many rows are written. `part_hashes`: for each part, the start of the hash of its rows, which is in the
    keys of its two S3 objects. `position`: the sort key of the last row that was read; None at the start, and at the
    end. FAILED: the list has more rows than an export may have. The parts that exist are complete.
    """

    export_id: str
    list: ListName
    since: Instant
    until: Instant
    status: ListExportStatus
    created_at: Instant
    updated_at: Instant
    ttl: int
    rows: int = 0
    part_hashes: tuple[str, ...] = ()
    position: str | None = None
    version: int = 1

    @property
    def object_names(self) -> tuple[str, ...]:
        """The keys of the S3 objects of each part, without the ending .csv or .ndjson."""
        return tuple(f"exports/{self.export_id}/{number:05}-{part}" for number, part in enumerate(self.part_hashes))

    @property
    def reached(self) -> Instant | None:
        """The time of the last row that was read; None at the start, and when there is nothing more to read."""
        return Instant(self.position.partition("#")[0]) if self.position else None
