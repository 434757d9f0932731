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
from functions.dynamodb.keys import BadKey
from functions.dynamodb.patience import HEALS, NEVER, Impossible, asked
from functions.dynamodb.store import Table
from functions.dynamodb.streams import Permanent
from functions.dynamodb.writes import Changed
from functions.model.entities import Stretch
from ops.pace import limit

if TYPE_CHECKING:
    from ops.kept import Kept
    from ops.progress import Progress

PAGE = 500
"""Items a page: what is done again after a kill, and a short burst on the table however slowly it may be read."""

Act = Callable[[Image], bool | None]
"""What is done at an item. True: it was changed, or would be; False: it was right; None: it is none of those meant.

Raises Changed or Lost where it is not as it was read any more: then it is read, and this asked, again. Raises
Unreadable, BadKey or Permanent where nobody can read or write it: it is passed over and listed."""


class Lost(Exception):
    """Another writer was quicker."""


@dataclass
class Found:
    """What a sweep has come upon. `read`: items read; `lost`: races lost, all of them decided again; `passed_over`: how
    many nobody can read, `unreadable`: these, by "PK / SK", and why."""

    read: int = 0
    changed: int = 0
    right: int = 0
    lost: int = 0
    passed_over: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)

    @property
    def looked_at(self) -> int:
        """How many of the items read were such as were meant."""
        return self.changed + self.right + self.passed_over

    def add(self, other: "Found") -> None:
        for name in ("read", "changed", "right", "lost", "passed_over"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.unreadable |= other.unreadable

    def told(self, *, dry: bool = False) -> str:
        """A summary in one line."""
        if not self.looked_at:
            return f"{self.read:,} read"
        parts = [f"{self.looked_at:,} looked at (of {self.read:,} read)"]
        parts += [f"{self.changed:,} {'would be changed' if dry else 'changed'}", f"{self.right:,} right already"]
        parts += [f"{self.lost:,} decided again"] if self.lost else []
        parts += [f"{self.passed_over:,} passed over"] if self.passed_over else []
        return ", ".join(parts)


AfterPage = Callable[[Found, tuple[Stretch, ...]], None]
"""Told after each page of all that was found so far, and where each segment goes on."""


def sweep(
    table: Table,
    act: Act,
    *,
    scan: Mapping[str, Any] | None = None,
    found: Found | None = None,
    segments: Sequence[Stretch] = (Stretch(),),
    before_page: Callable[[Sequence[Image]], None] = lambda images: None,
    after_page: Sequence[AfterPage] = (),
    progress: "Progress | None" = None,
    units_per_second: float | None = None,
    kept: "Kept | None" = None,
    most: int | None = None,
) -> Found:
    """Do something at each item of the table, or at those that `scan` chooses (more arguments of the Scan's).

    `segments`: where each of them begins; several go on at once, each in a thread of its own. `found`: what was found
    before. `before_page` is given the items of each page before anything is done at them. `progress` reports how far it
    is. `kept`: the table remembers both, it goes on from there and says so after each page. `most`: it ends when this
    many items were read. Raises Busy where the table is throttled, or an item disputed, for longer than it is waited
    for; InHand where another has taken it over.
    """
    if kept is not None:
        found, segments, act = kept.found, kept.segments, kept.living(act)
        after_page = (kept.after_page, *after_page)
    if progress is not None:
        after_page = (*after_page, progress.after_page)
    found = found or Found()
    end = None if most is None else found.read + most
    walk = _Walk(table, act, scan or {}, found, list(segments), before_page, after_page, progress, end)
    with limit(table, units_per_second):
        walk.run()
    return walk.found


def of_type(type_name: str) -> dict[str, Any]:
    """A `scan` of the items of this type alone. All are read, and paid for; fewer come over the wire."""
    return {
        "FilterExpression": "#type = :type",
        "ExpressionAttributeNames": {"#type": "type"},
        "ExpressionAttributeValues": {":type": {"S": type_name}},
    }


@dataclass
class _Walk:
    table: Table
    act: Act
    scan: Mapping[str, Any]
    found: Found
    segments: list[Stretch]
    before_page: Callable[[Sequence[Image]], None]
    after_page: Sequence[AfterPage]
    progress: "Progress | None"
    end: int | None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: bool = False

    def run(self) -> None:
        todo = [number for number, segment in enumerate(self.segments) if not segment.done]
        if len(todo) <= 1:
            for number in todo:
                self._segment(number)
            return
        with ThreadPoolExecutor(len(todo)) as threads:
            try:
                for ended in as_completed([threads.submit(self._segment, number) for number in todo]):
                    ended.result()
            finally:
                self._stopped = True

    def _segment(self, number: int) -> None:
        while not self.segments[number].done and (self.end is None or self.found.read < self.end):
            page = self._page(number)
            self.before_page(page["Items"])
            found = Found(read=page["ScannedCount"])
            for image in page["Items"]:
                if self._stopped:
                    return
                self._item(image, found)
                if self.progress is not None:
                    with self._lock:
                        self.progress.within_page(self.found, found)
            with self._lock:
                last = page.get("LastEvaluatedKey")
                self.segments[number] = Stretch(pk=last["PK"]["S"], sk=last["SK"]["S"]) if last else Stretch(done=True)
                self.found.add(found)
                for tell in self.after_page:
                    tell(self.found, tuple(self.segments))

    def _page(self, number: int) -> Mapping[str, Any]:
        limit = PAGE if self.end is None else min(PAGE, self.end - self.found.read)
        request: dict[str, Any] = {"TableName": self.table.name, "Limit": limit, "ConsistentRead": True, **self.scan}
        if len(self.segments) > 1:
            request |= {"Segment": number, "TotalSegments": len(self.segments)}
        start = self.segments[number]
        if start.pk is not None:
            request["ExclusiveStartKey"] = {"PK": {"S": start.pk}, "SK": {"S": start.sk}}
        return asked(self.table.client.scan, **request)

    def _item(self, image: Image, found: Found) -> None:
        waiting = self.table.patience()
        key = {"PK": image["PK"], "SK": image["SK"]}
        while True:
            try:
                did = self.act(image)
            except (Changed, Lost):
                found.lost += 1
                waiting.pause()
                again = self.table.images([key], consistent=True)
                if not again:
                    return  # it is gone
                (image,) = again
                continue
            except (Unreadable, BadKey, Permanent) as error:
                found.passed_over += 1
                found.unreadable[f"{key['PK']['S']} / {key['SK']['S']}"] = str(error)
            else:
                found.changed += did is True
                found.right += did is False
            return


def rewrite(table: Table, before: Image, after: Image) -> None:
    """Make an item what it shall be, attribute by attribute, if its version, and whatever is written of it, are as they
    were read. Raises Lost where they are not, Impossible, Busy. Safe to repeat, and where an answer is lost."""
    request = _rewriting(table, before, after)
    waiting = table.patience()
    while True:
        try:
            table.client.update_item(**request)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in NEVER:
                raise Impossible(error.response["Error"]["Message"]) from error
            if code in HEALS:
                waiting.pause()
                continue
            if code != "ConditionalCheckFailedException":
                raise
            if error.response.get("Item") != after:  # else it was done, and the answer lost
                raise Lost from None
        return


def _rewriting(table: Table, before: Image, after: Image) -> dict[str, Any]:
    touched = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    aliases = {name: f"#{number}" for number, name in enumerate(dict.fromkeys(["version", *touched]))}
    was = {name: f":was{alias[1:]}" for name, alias in aliases.items() if name in before}
    shall = {name: f":shall{aliases[name][1:]}" for name in touched if name in after}
    sets = [f"{aliases[name]} = {token}" for name, token in shall.items()]
    removes = [aliases[name] for name in touched if name not in after]
    as_read = [
        f"{alias} = {was[name]}" if name in was else f"attribute_not_exists({alias})" for name, alias in aliases.items()
    ]
    return {
        "TableName": table.name,
        "Key": {"PK": before["PK"], "SK": before["SK"]},
        "UpdateExpression": " ".join(
            f"{verb} {', '.join(parts)}" for verb, parts in (("SET", sets), ("REMOVE", removes)) if parts
        ),
        "ConditionExpression": " AND ".join(["attribute_exists(PK)", *as_read]),
        "ExpressionAttributeNames": {alias: name for name, alias in aliases.items()},
        "ExpressionAttributeValues": {token: before[name] for name, token in was.items()}
        | {token: after[name] for name, token in shall.items()},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def size_of(table: Table) -> int:
    """How many items a table has, as of a few hours ago; 0 where it is young."""
    return int(table.client.describe_table(TableName=table.name)["Table"].get("ItemCount", 0))


PLACES = 10
"""From how many places of a table a sample is taken, at least."""


def anywhere(table: Table, number: int) -> Iterator[tuple[list[Stretch], int]]:
    """Where to begin, and how many items to read from there at most, for a sample of so many."""
    parts = max(PLACES, min(PLACES * size_of(table) // number, 1_000_000))
    for part in random.sample(range(parts), min(parts, 4 * PLACES)):
        segments = [Stretch(done=True)] * parts
        segments[part] = Stretch()
        yield segments, -(-number // PLACES)
