"""Scan the whole table page by page and run an action on each item: the loop under every operator tool.

Only this module scans the table. A sweep is throttled to the given rate and skips items that cannot be read. It runs
the action again after a write conflict, and resumes from its checkpoint after a kill. Actions must be safe to repeat,
because the page at which a sweep was killed is processed again.
"""

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from functions.dynamodb.images import Image, Unreadable
from functions.dynamodb.keys import InvalidKeyValue
from functions.dynamodb.patience import PERMANENT_ERROR_CODES, RETRYABLE_ERROR_CODES, Impossible, call_dynamodb
from functions.dynamodb.store import Table
from functions.dynamodb.streams import Permanent
from functions.dynamodb.writes import WriteConflict
from functions.model.entities import Stretch
from ops.pace import limit_capacity

if TYPE_CHECKING:
    from ops.kept import Checkpoint
    from ops.progress import SweepProgress

PAGE_SIZE = 500
"""Items of a page. It limits the work that is repeated after a kill, and the burst on the table at any rate."""

ItemAction = Callable[[Image], bool | None]
"""The action on an item. Returns True if the item was changed (or would be), False if it was right, None if it does not
apply.

Raises WriteConflict or LostRace if the item has changed since it was read; it is then read and passed in again. Raises
Unreadable, InvalidKeyValue or Permanent if the item cannot be read or written; it is then skipped and listed.
"""


class LostRace(Exception):
    """Another writer has changed the item first."""


@dataclass
class SweepResult:
    """The counts of a sweep.

    `read`: items read. `lost`: write conflicts, each of them retried. `passed_over`: items that cannot be read or
    written.
    `unreadable`: the reasons for these, by "PK / SK".
    """

    read: int = 0
    changed: int = 0
    right: int = 0
    lost: int = 0
    passed_over: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)

    @property
    def matched(self) -> int:
        """The number of items to which the action applies."""
        return self.changed + self.right + self.passed_over

    def add(self, other: "SweepResult") -> None:
        for name in ("read", "changed", "right", "lost", "passed_over"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.unreadable |= other.unreadable

    def summary(self, *, dry: bool = False) -> str:
        """Return a summary in one line."""
        if not self.matched:
            return f"{self.read:,} read"
        parts = [f"{self.matched:,} looked at (of {self.read:,} read)"]
        parts += [f"{self.changed:,} {'would be changed' if dry else 'changed'}", f"{self.right:,} right already"]
        parts += [f"{self.lost:,} decided again"] if self.lost else []
        parts += [f"{self.passed_over:,} passed over"] if self.passed_over else []
        return ", ".join(parts)


AfterPage = Callable[[SweepResult, tuple[Stretch, ...]], None]
"""Called after each page with the result so far and the position of each segment."""


def sweep(
    table: Table,
    act: ItemAction,
    *,
    scan: Mapping[str, Any] | None = None,
    result: SweepResult | None = None,
    segments: Sequence[Stretch] = (Stretch(),),
    before_page: Callable[[Sequence[Image]], None] = lambda images: None,
    after_page: Sequence[AfterPage] = (),
    progress: "SweepProgress | None" = None,
    units_per_second: float | None = None,
    checkpoint: "Checkpoint | None" = None,
    max_items: int | None = None,
) -> SweepResult:
    """Run an action on each item of the table, or on those that the Scan arguments `scan` select.

    `segments`: where each segment starts; several run in parallel, each in its own thread.
    `result`: the counts so far.
    `before_page`: called with the items of each page before the action.
    `progress`: reports the progress.
    `checkpoint`: stores result and segments after each page; the sweep resumes from there.
    `max_items`: stop after this many items were read.

    Raises TableBusy if throttling or conflicts outlast the retry budget, and Locked if another run has taken over the
    checkpoint.
    """
    if checkpoint is not None:
        result, segments, act = checkpoint.result, checkpoint.segments, checkpoint.with_heartbeat(act)
        after_page = (checkpoint.save_progress, *after_page)
    if progress is not None:
        after_page = (*after_page, progress.after_page)
    result = result or SweepResult()
    end = None if max_items is None else result.read + max_items
    sweep_run = _SweepRun(table, act, scan or {}, result, list(segments), before_page, after_page, progress, end)
    with limit_capacity(table, units_per_second):
        sweep_run.run()
    return sweep_run.result


def filter_by_type(type_name: str) -> dict[str, Any]:
    """Return Scan arguments that select the items of one type. DynamoDB still reads and bills all items, but sends
    fewer."""
    return {
        "FilterExpression": "#type = :type",
        "ExpressionAttributeNames": {"#type": "type"},
        "ExpressionAttributeValues": {":type": {"S": type_name}},
    }


@dataclass
class _SweepRun:
    table: Table
    act: ItemAction
    scan: Mapping[str, Any]
    result: SweepResult
    segments: list[Stretch]
    before_page: Callable[[Sequence[Image]], None]
    after_page: Sequence[AfterPage]
    progress: "SweepProgress | None"
    max_read: int | None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: bool = False

    def run(self) -> None:
        todo = [number for number, segment in enumerate(self.segments) if not segment.done]
        if len(todo) <= 1:
            for number in todo:
                self._sweep_segment(number)
            return
        with ThreadPoolExecutor(len(todo)) as threads:
            try:
                for ended in as_completed([threads.submit(self._sweep_segment, number) for number in todo]):
                    ended.result()
            finally:
                self._stopped = True

    def _sweep_segment(self, number: int) -> None:
        while not self.segments[number].done and (self.max_read is None or self.result.read < self.max_read):
            page = self._scan_page(number)
            self.before_page(page["Items"])
            found = SweepResult(read=page["ScannedCount"])
            for image in page["Items"]:
                if self._stopped:
                    return
                self._process_item(image, found)
                if self.progress is not None:
                    with self._lock:
                        self.progress.within_page(self.result, found)
            with self._lock:
                last = page.get("LastEvaluatedKey")
                self.segments[number] = Stretch(pk=last["PK"]["S"], sk=last["SK"]["S"]) if last else Stretch(done=True)
                self.result.add(found)
                for tell in self.after_page:
                    tell(self.result, tuple(self.segments))

    def _scan_page(self, number: int) -> Mapping[str, Any]:
        limit = PAGE_SIZE if self.max_read is None else min(PAGE_SIZE, self.max_read - self.result.read)
        request: dict[str, Any] = {"TableName": self.table.name, "Limit": limit, "ConsistentRead": True, **self.scan}
        if len(self.segments) > 1:
            request |= {"Segment": number, "TotalSegments": len(self.segments)}
        start = self.segments[number]
        if start.pk is not None:
            request["ExclusiveStartKey"] = {"PK": {"S": start.pk}, "SK": {"S": start.sk}}
        return call_dynamodb(self.table.client.scan, **request)

    def _process_item(self, image: Image, found: SweepResult) -> None:
        backoff = self.table.new_backoff()
        key = {"PK": image["PK"], "SK": image["SK"]}
        while True:
            try:
                did = self.act(image)
            except (WriteConflict, LostRace):
                found.lost += 1
                backoff.wait()
                again = self.table.batch_get_raw([key], consistent=True)
                if not again:
                    return  # the item was deleted
                (image,) = again
                continue
            except (Unreadable, InvalidKeyValue, Permanent) as error:
                found.passed_over += 1
                found.unreadable[f"{key['PK']['S']} / {key['SK']['S']}"] = str(error)
            else:
                found.changed += did is True
                found.right += did is False
            return


def rewrite_item(table: Table, before: Image, after: Image) -> None:
    """Update an item from one image to another if its version and the changed attributes are as they were read.

    Raises LostRace if they are not; Impossible, TableBusy. Safe to repeat, also if a response was lost.
    """
    request = _update_request(table, before, after)
    backoff = table.new_backoff()
    while True:
        try:
            table.client.update_item(**request)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in PERMANENT_ERROR_CODES:
                raise Impossible(error.response["Error"]["Message"]) from error
            if code in RETRYABLE_ERROR_CODES:
                backoff.wait()
                continue
            if code != "ConditionalCheckFailedException":
                raise
            if error.response.get("Item") != after:  # else the write succeeded and only its response was lost
                raise LostRace from None
        return


def _update_request(table: Table, before: Image, after: Image) -> dict[str, Any]:
    touched = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    aliases = {name: f"#{number}" for number, name in enumerate(dict.fromkeys(["version", *touched]))}
    before_tokens = {name: f":was{alias[1:]}" for name, alias in aliases.items() if name in before}
    after_tokens = {name: f":shall{aliases[name][1:]}" for name in touched if name in after}
    sets = [f"{aliases[name]} = {token}" for name, token in after_tokens.items()]
    removes = [aliases[name] for name in touched if name not in after]
    as_read = [
        f"{alias} = {before_tokens[name]}" if name in before_tokens else f"attribute_not_exists({alias})"
        for name, alias in aliases.items()
    ]
    return {
        "TableName": table.name,
        "Key": {"PK": before["PK"], "SK": before["SK"]},
        "UpdateExpression": " ".join(
            f"{verb} {', '.join(parts)}" for verb, parts in (("SET", sets), ("REMOVE", removes)) if parts
        ),
        "ConditionExpression": " AND ".join(["attribute_exists(PK)", *as_read]),
        "ExpressionAttributeNames": {alias: name for name, alias in aliases.items()},
        "ExpressionAttributeValues": {token: before[name] for name, token in before_tokens.items()}
        | {token: after[name] for name, token in after_tokens.items()},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def approximate_item_count(table: Table) -> int:
    """Return the table's item count from DescribeTable, up to some hours old; 0 if the table is new."""
    return int(table.client.describe_table(TableName=table.name)["Table"].get("ItemCount", 0))


MIN_SAMPLE_SEGMENTS = 10
"""From how many places of the table a sample is taken, at least."""


def sample_segments(table: Table, number: int) -> Iterator[tuple[list[Stretch], int]]:
    """Yield random start positions for a sample of `number` items, each with the most items to read from there."""
    parts = max(MIN_SAMPLE_SEGMENTS, min(MIN_SAMPLE_SEGMENTS * approximate_item_count(table) // number, 1_000_000))
    for part in random.sample(range(parts), min(parts, 4 * MIN_SAMPLE_SEGMENTS)):
        segments = [Stretch(done=True)] * parts
        segments[part] = Stretch()
        yield segments, -(-number // MIN_SAMPLE_SEGMENTS)
