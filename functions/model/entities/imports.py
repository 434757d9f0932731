"""Product imports: the file, its parts and their lines."""

from typing import Literal

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant

ImportPartStatus = Literal["QUEUED", "DONE"]


@entity
class Import:
    """A file of products and stock that was uploaded for import.

    `count`: the number of its lines that are not blank. `parts`: the number of ImportPart items that the lines are
    split over.
    """

    import_id: str
    count: int
    parts: int
    created_at: Instant
    ttl: int
    version: int = 1


@entity
class Rejected:
    """A line of an import that is not written: the line number, the invalid field and the reason."""

    line: int
    field: str
    why: str


@entity
class ImportPart:
    """An import part: a group of lines of an import, and their progress.

    `count`: the number of lines to write, in order. `done`: the number of lines processed. Each processed line is
    `written`, `unchanged` or rejected. `retried`: the number of processed lines that needed more than one attempt.
    `rejected`: the lines that were invalid from the start, and the lines that were rejected when written.
    """

    import_id: str
    part: int
    status: ImportPartStatus
    count: int
    rejected: tuple[Rejected, ...]
    created_at: Instant
    updated_at: Instant
    ttl: int
    done: int = 0
    written: int = 0
    unchanged: int = 0
    retried: int = 0
    version: int = 1


@entity
class ImportLines:
    """The lines to write for an import part: gzipped NDJSON. Each line is one object, which includes its line number in
    the file."""

    import_id: str
    part: int
    ndjson: bytes
    created_at: Instant
    ttl: int
    version: int = 1
