"""Table sweep: scan the whole table page by page and run an action on each item.

No other module scans the table. A sweep can limit the capacity that it consumes. It skips items that cannot be read.
After a write conflict, the sweep reads the item again and repeats the action.

If a sweep with a checkpoint is killed, the next run resumes after the last complete page. The unfinished page is
processed again, so actions must be safe to repeat.
"""

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from functions.dynamodb.codec import Image
from functions.dynamodb.errors import Permanent, Unreadable, WriteImpossible
from functions.dynamodb.keys import InvalidKeyValue
from functions.dynamodb.retry import PERMANENT_ERROR_CODES, RETRYABLE_ERROR_CODES, call_dynamodb
from functions.dynamodb.table import Table
from functions.dynamodb.writes import WriteConflict
from functions.model.entities import SweepSegment
from ops.scan.checkpoint import Checkpoint
from ops.scan.progress import SweepProgress, approximate_item_count
from ops.scan.sweep_result import AfterPage, ItemAction, SweepResult
from ops.scan.throttle import limit_capacity

PAGE_SIZE = 500
"""The most items of one Scan request (a page). It limits the units, and the work repeated after a kill."""


def sweep(
    table: Table,
    act: ItemAction,
    *,
    scan: Mapping[str, Any] | None = None,
    result: SweepResult | None = None,
    segments: Sequence[SweepSegment] = (SweepSegment(),),
    before_page: Callable[[Sequence[Image]], None] = lambda images: None,
    after_page: Sequence[AfterPage] = (),
    progress: SweepProgress | None = None,
    units_per_second: float | None = None,
    checkpoint: Checkpoint | None = None,
    max_items: int | None = None,
) -> SweepResult:
    """Run the action `act` on each item of the table and return the counts.

    `scan`: additional arguments of the Scan requests. `result`: the counts to continue from. `segments`: the start
    position of each segment of a parallel scan, in a thread of its own. `before_page`, `after_page`: called with each
    page. `units_per_second`: the limit of capacity units; None for no limit. `checkpoint`: stores the counts and
    positions after each page, and replaces `result` and `segments`. `max_items`: stop after this many.

    Raises TableBusy if throttling or conflicts last longer than the retry budget, and Locked.
    """
    if checkpoint is not None:
        result, segments, act = checkpoint.result, checkpoint.segments, checkpoint.with_heartbeat(act)
        after_page = (checkpoint.save_progress, *after_page)
    if progress is not None:
        after_page = (*after_page, progress.after_page)
    result = result or SweepResult()
    end = None if max_items is None else result.read + max_items
    sweep_run = _SweepRun(table, act, scan or {}, result, list(segments), before_page, after_page, end)
    with limit_capacity(table, units_per_second):
        sweep_run.run()
    return sweep_run.result


def filter_by_type(*types: str) -> dict[str, Any]:
    """Return Scan arguments that select the items of these types. DynamoDB still reads and bills all items."""
    values = {f":type{number}": {"S": name} for number, name in enumerate(types)}
    return {
        "FilterExpression": f"#type IN ({', '.join(values)})",
        "ExpressionAttributeNames": {"#type": "type"},
        "ExpressionAttributeValues": values,
    }


@dataclass
class _SweepRun:
    table: Table
    act: ItemAction
    scan: Mapping[str, Any]
    result: SweepResult
    segments: list[SweepSegment]
    before_page: Callable[[Sequence[Image]], None]
    after_page: Sequence[AfterPage]
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
            with self._lock:
                last = page.get("LastEvaluatedKey")
                self.segments[number] = (
                    SweepSegment(pk=last["PK"]["S"], sk=last["SK"]["S"]) if last else SweepSegment(done=True)
                )
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
            except WriteConflict:
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
    """Update an item from the state `before` to the state `after`, both in DynamoDB JSON, if it is unchanged.

    Raises WriteConflict if its version or an attribute to change is another, WriteImpossible if a retry cannot help,
    and TableBusy. Safe to repeat, also if a response was lost.
    """
    request = _update_request(table, before, after)
    backoff = table.new_backoff()
    while True:
        try:
            table.client.update_item(**request)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in PERMANENT_ERROR_CODES:
                raise WriteImpossible(error.response["Error"]["Message"]) from error
            if code in RETRYABLE_ERROR_CODES:
                backoff.wait()
                continue
            if code != "ConditionalCheckFailedException":
                raise
            if error.response.get("Item") != after:  # if equal, an earlier attempt has written `after`
                raise WriteConflict(before["type"]["S"]) from None
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


MIN_SAMPLE_SEGMENTS = 10
"""A sample comes from at least this number of scan segments, so from different places of the table."""


def sample_segments(table: Table, number: int) -> Iterator[tuple[list[SweepSegment], int]]:
    """Yield random positions for a sample of about `number` items: (segments, of which one is open, items there)."""
    parts = max(MIN_SAMPLE_SEGMENTS, min(MIN_SAMPLE_SEGMENTS * approximate_item_count(table) // number, 1_000_000))
    for part in random.sample(range(parts), min(parts, 4 * MIN_SAMPLE_SEGMENTS)):
        segments = [SweepSegment(done=True)] * parts
        segments[part] = SweepSegment()
        yield segments, -(-number // MIN_SAMPLE_SEGMENTS)
