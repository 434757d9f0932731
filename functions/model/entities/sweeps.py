"""The progress of a table sweep (a scan of all items) by an operator tool."""

from collections.abc import Mapping
from typing import Literal

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant

SweepStatus = Literal["RUNNING", "DONE"]


@entity
class SweepSegment:
    """The progress of one segment of a table sweep (a scan of all items, in parallel segments).

    `done`: whether the whole segment was scanned. If not, the sweep resumes after the item with the primary key `pk`,
    `sk`. If `pk` and `sk` are None, the sweep starts with the first item of the segment.
    """

    pk: str | None = None
    sk: str | None = None
    done: bool = False


@entity
class Sweep:
    """The checkpoint of an operator tool's sweep (a scan of the whole table), and the lock that prevents a second run.

    `by`: the user who holds the lock, until `held_until`. `read`: the number of items read. `changed`: the number of
    changed items. `right`: the number of items that were already correct. `passed_over`: the number of items that were
    skipped, because they cannot be read or written. `lost`: how often the sweep lost a write conflict with another
    writer. It then tried the item again. `unreadable`: some of the skipped items, by key, with the reason.

    `waiting`: the keys of scanned items in which the sweep found errors that are not repaired yet. If the sweep is
    stopped, the next run first checks these items again.
    """

    tool: str
    name: str
    task: str
    status: SweepStatus
    by: str
    held_until: Instant
    started_at: Instant
    updated_at: Instant
    segments: tuple[SweepSegment, ...]
    read: int = 0
    changed: int = 0
    right: int = 0
    lost: int = 0
    passed_over: int = 0
    unreadable: Mapping[str, str]
    waiting: tuple[str, ...] = ()
    version: int = 1
