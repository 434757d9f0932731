"""The one loop under every operators' tool: the whole table, page after page, and something done at each item.

Only here is the table scanned. A sweep goes no faster than it is told to, is never stopped by an item that nobody can
read, decides again where another writer was quicker, and goes on after a kill where the table remembers it to be. What
is done must be safe to repeat: the page at which a sweep was killed is gone through again.
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
"""Items a page: what is done again after a kill, and a short burst on the table however slowly it may be read."""

ItemAction = Callable[[Image], bool | None]
"""What is done at an item. True: it was changed, or would be; False: it was right; None: it is none of those meant.

Raises Changed or Lost where it is not as it was read any more: then it is read, and this asked, again. Raises
Unreadable, BadKey or Permanent where nobody can read or write it: it is passed over and listed."""


class LostRace(Exception):
    """Another writer was quicker."""


@dataclass
class SweepResult:
    """What a sweep has come upon. `read`: items read; `lost`: races lost, all of them decided again; `passed_over`: how
    many nobody can read, `unreadable`: these, by "PK / SK", and why."""

    read: int = 0
    changed: int = 0
    right: int = 0
    lost: int = 0
    passed_over: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)

    @property
    def matched(self) -> int:
        """How many of the items read were such as were meant."""
        return self.changed + self.right + self.passed_over

    def add(self, other: "SweepResult") -> None:
        for name in ("read", "changed", "right", "lost", "passed_over"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.unreadable |= other.unreadable

    def summary(self, *, dry: bool = False) -> str:
        """A summary in one line."""
        if not self.matched:
            return f"{self.read:,} read"
        parts = [f"{self.matched:,} looked at (of {self.read:,} read)"]
        parts += [f"{self.changed:,} {'would be changed' if dry else 'changed'}", f"{self.right:,} right already"]
        parts += [f"{self.lost:,} decided again"] if self.lost else []
        parts += [f"{self.passed_over:,} passed over"] if self.passed_over else []
        return ", ".join(parts)


AfterPage = Callable[[SweepResult, tuple[Stretch, ...]], None]
"""Told after each page of all that was found so far, and where each segment goes on."""


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
    """Do something at each item of the table, or at those that `scan` chooses (more arguments of the Scan's).

    `segments`: where each of them begins; several go on at once, each in a thread of its own. `found`: what was found
    before. `before_page` is given the items of each page before anything is done at them. `progress` reports how far it
    is. `kept`: the table remembers both, it goes on from there and says so after each page. `most`: it ends when this
    many items were read. Raises Busy where the table is throttled, or an item disputed, for longer than it is waited
    for; InHand where another has taken it over.
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
    """A `scan` of the items of this type alone. All are read, and paid for; fewer come over the wire."""
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
                    return  # it is gone
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
    """Make an item what it shall be, attribute by attribute, if its version, and whatever is written of it, are as they
    were read. Raises Lost where they are not, Impossible, Busy. Safe to repeat, and where an answer is lost."""
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
            if error.response.get("Item") != after:  # else it was done, and the answer lost
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
    """How many items a table has, as of a few hours ago; 0 where it is young."""
    return int(table.client.describe_table(TableName=table.name)["Table"].get("ItemCount", 0))


MIN_SAMPLE_SEGMENTS = 10
"""From how many places of a table a sample is taken, at least."""


def sample_segments(table: Table, number: int) -> Iterator[tuple[list[Stretch], int]]:
    """Where to begin, and how many items to read from there at most, for a sample of so many."""
    parts = max(MIN_SAMPLE_SEGMENTS, min(MIN_SAMPLE_SEGMENTS * approximate_item_count(table) // number, 1_000_000))
    for part in random.sample(range(parts), min(parts, 4 * MIN_SAMPLE_SEGMENTS)):
        segments = [Stretch(done=True)] * parts
        segments[part] = Stretch()
        yield segments, -(-number // MIN_SAMPLE_SEGMENTS)
