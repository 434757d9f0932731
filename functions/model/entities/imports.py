"""Product imports: the uploaded file, its import parts (groups of lines) and their lines."""

from typing import Literal

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant

ImportPartStatus = Literal["QUEUED", "DONE"]


@entity
class Import:
    """A file of products and stock that was uploaded for import.

    `count`: the number of lines that are not blank. `parts`: the number of ImportPart items over which the lines are
    split.
    """

    import_id: str
    count: int
    parts: int
    created_at: Instant
    ttl: int
    version: int = 1


@entity
class Rejected:
    """A line of an import that was rejected: the line number in the file, the invalid field and the reason."""

    line: int
    field: str
    why: str


@entity
class ImportPart:
    """An import part: a group of lines of an import, and the progress of writing these lines.

    Each queue message to the worker covers one import part. `count`: the number of lines to write. `done`: how many of
    these lines are processed, from the first one on. `written`: how many processed lines changed an item. `unchanged`:
    how many processed lines changed nothing, because the stored item was already equal. `retried`: how many processed
    lines needed more than one attempt. `rejected`: the lines that were invalid at the upload, and the lines that could
    not be written.
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
    """The lines of an import part (a group of lines of an import) that must be written, as gzipped NDJSON.

    Each line is a JSON object, which includes its line number in the uploaded file.
    """

    import_id: str
    part: int
    ndjson: bytes
    created_at: Instant
    ttl: int
    version: int = 1
