"""The one loop under every operators' tool: the whole table, page after page, and something done at each item.

Only here is the table scanned. A sweep goes no faster than it is told to, is never stopped by an item that nobody can
read, decides again where another writer was quicker, and goes on after a kill where the table remembers it to be. What
is done must be safe to repeat: the page at which a sweep was killed is gone through again.
"""

import getpass
import random
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self, TextIO

from botocore.exceptions import ClientError

from functions.dynamodb.images import Image, Unreadable
from functions.dynamodb.keys import BadKey, instant
from functions.dynamodb.patience import HEALS, NEVER, Impossible, asked
from functions.dynamodb.store import Table
from functions.dynamodb.streams import Permanent
from functions.dynamodb.writes import Changed, Write, put, turn, unchanged
from functions.model.entities import Stretch, Sweep
from functions.model.table import SWEEP

PAGE = 500
"""Items a page: what is done again after a kill, and a short burst on the table however slowly it may be read."""
HELD_SECONDS = 60
"""How long a sweep is its runner's after a sign of life. Who takes it over from one that lives on does no harm."""
STALE = timedelta(days=1)
"""What was stopped longer ago is begun anew where it is about what the table says today."""
REMEMBERED = 20
"""How many of the items that were passed over the table remembers; all are counted."""
TOLD_EVERY_SECONDS = 10

Act = Callable[[Image], bool | None]
"""What is done at an item. True: it was changed, or would be; False: it was right; None: it is none of those meant.

Raises Changed or Lost where it is not as it was read any more: then it is read, and this asked, again. Raises
Unreadable, BadKey or Permanent where nobody can read or write it: it is passed over and listed."""


class Lost(Exception):
    """Another writer was quicker."""


class InHand(Exception):
    """Somebody else runs this sweep."""


TAKEN_OVER = "somebody else has just taken it over"


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
    after_page: Sequence[AfterPage] = (),
    units_per_second: float | None = None,
    kept: "Kept | None" = None,
    most: int | None = None,
) -> Found:
    """Do something at each item of the table, or at those that `scan` chooses (more arguments of the Scan's).

    `segments`: where each of them begins; several go on at once, each in a thread of its own. `found`: what was found
    before. `kept`: the table remembers both, it goes on from there and says so after each page. `most`: it ends when
    this many items were read. Raises Busy where the table is throttled, or an item disputed, for longer than it is
    waited for; InHand where another has taken it over.
    """
    if kept is not None:
        found, segments, act = kept.found, kept.segments, kept.living(act)
        after_page = (kept.after_page, *after_page)
    found = found or Found()
    end = None if most is None else found.read + most
    walk = _Walk(table, act, scan or {}, found, list(segments), after_page, end)
    with Pace(table, units_per_second) if units_per_second else nullcontext():
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
    after_page: Sequence[AfterPage]
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
            found = Found(read=page["ScannedCount"])
            for image in page["Items"]:
                if self._stopped:
                    return
                self._item(image, found)
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


# how fast -------------------------------------------------------------------------------------------------------------
class Pace:
    """Holds back what a table's client asks, so that it consumes no more than so many units a second, read and written:
    each request waits until those before it are paid for, as DynamoDB told their price.

    The price of a refused write it does not tell. Several threads' requests may be under way at once.
    """

    def __init__(self, table: Table, units_per_second: float) -> None:
        self._table, self._rate = table, units_per_second
        self._lock = threading.Lock()
        self._free_at = self._now()

    def __enter__(self) -> None:
        self._events.register("provide-client-params.dynamodb", self._wait)
        self._events.register("after-call.dynamodb", self._pay)

    def __exit__(self, *_: object) -> None:
        self._events.unregister("provide-client-params.dynamodb", self._wait)
        self._events.unregister("after-call.dynamodb", self._pay)

    @property
    def _events(self) -> Any:
        return self._table.client.meta.events

    def _now(self) -> float:
        return self._table.clock().timestamp()

    def _wait(self, params: dict[str, Any], model: Any, **_: Any) -> dict[str, Any] | None:
        if "ReturnConsumedCapacity" not in model.input_shape.members:
            return None
        with self._lock:
            seconds = self._free_at - self._now()
        if seconds > 0:
            self._table.sleep(seconds)
        return {**params, "ReturnConsumedCapacity": "TOTAL"}

    def _pay(self, parsed: Mapping[str, Any], **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity") or []
        units = sum(one["CapacityUnits"] for one in (consumed if isinstance(consumed, list) else [consumed]))
        with self._lock:
            self._free_at = max(self._free_at, self._now()) + units / self._rate


# what the table remembers ---------------------------------------------------------------------------------------------
def who() -> str:
    """Who runs this, as others know them."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


class Kept:
    """A sweep that the table remembers: one runner's at a time, and done once. `with` it: what is left by an exception
    is somebody's to go on with at once; what is killed, after HELD_SECONDS. Raises InHand where it is another's.

    `stale`: what was stopped longer ago than that is begun anew. `since`: when what this one goes on with was stopped;
    None: it begins at the beginning. Thread-safe.
    """

    def __init__(
        self,
        table: Table,
        tool: str,
        name: str,
        task: str,
        *,
        by: str,
        segments: int = 1,
        stale: timedelta | None = None,
    ) -> None:
        self._table = table
        self._lock = threading.RLock()
        now = instant(table.clock())
        before = remembered(table, tool, [name]).get(name)
        if before is not None and before.status == "RUNNING" and before.held_until > now:
            raise InHand(f"{before.by} runs it until {before.held_until} at least ({before.task})")
        fresh = stale is None or (before is not None and before.updated_at > instant(table.clock() - stale))
        if before is not None and before.status == "RUNNING" and before.task == task and fresh:
            self.sweep = replace(before, by=by)
            self.since: str | None = before.updated_at
        else:
            self.since = None
            self.sweep = Sweep(
                tool=tool,
                name=name,
                task=task,
                status="RUNNING",
                by=by,
                held_until=now,
                started_at=now,
                updated_at=now,
                segments=(Stretch(),) * segments,
                unreadable={},
                version=before.version if before else 0,
            )
        self._write(held_seconds=HELD_SECONDS)

    @property
    def found(self) -> Found:
        """What it has found so far."""
        one = self.sweep
        return Found(one.read, one.changed, one.right, one.lost, one.passed_over, dict(one.unreadable))

    @property
    def segments(self) -> tuple[Stretch, ...]:
        return self.sweep.segments

    @property
    def told(self) -> str:
        """Where it goes on, in a sentence."""
        return f"Goes on where it was stopped at {self.since}: {self.found.read:,} items were read by then."

    def after_page(self, found: Found, segments: tuple[Stretch, ...], waiting: Collection[str] = ()) -> None:
        """Remember how far it has come, and what is `waiting` behind that. Raises InHand where another has it."""
        named = dict(list(found.unreadable.items())[:REMEMBERED])
        counts: dict[str, Any] = {
            name: getattr(found, name) for name in ("read", "changed", "right", "lost", "passed_over")
        }
        where = {"segments": segments, "unreadable": named, "waiting": tuple(waiting)}
        self._write(held_seconds=HELD_SECONDS, **counts, **where)

    def living(self, act: Act) -> Act:
        """The same, and a sign of life now and then: a page may take longer than it is held."""

        def acting(image: Image) -> bool | None:
            self.hold()
            return act(image)

        return acting

    def hold(self, seconds: float = 0) -> None:
        """It is held for so long, and HELD_SECONDS after that. Raises InHand where another has taken it over."""
        with self._lock:
            enough = instant(self._table.clock() + timedelta(seconds=seconds + HELD_SECONDS / 2))
            if self.sweep.held_until < enough:
                self._write(held_seconds=seconds + HELD_SECONDS)

    def guard(self) -> Write[Any]:
        """Lets a transaction hold only while it is still this runner's; else that raises InHand."""
        return unchanged(SWEEP, self.sweep, refused=lambda _: InHand(TAKEN_OVER))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._write(status="DONE", segments=(), waiting=())
        elif not issubclass(kind, InHand):
            with suppress(Exception):  # what went wrong first is told
                self._write()

    def _write(self, *, held_seconds: float = 0, **changed: Any) -> None:
        """Write the next version, whole: what another runner wrote is never taken for one's own."""
        with self._lock:
            now = self._table.clock()
            until = instant(now + timedelta(seconds=held_seconds))
            after = replace(
                self.sweep, updated_at=instant(now), held_until=until, version=self.sweep.version + 1, **changed
            )
            write = turn(SWEEP, self.sweep, SWEEP, after) if self.sweep.version else put(SWEEP, after)
            try:
                self._table.write(write)
            except Changed:
                raise InHand(TAKEN_OVER) from None
            self.sweep = after


def remembered(table: Table, tool: str, names: Sequence[str]) -> dict[str, Sweep]:
    """What the table remembers of a tool's sweeps, by their names."""
    found = table.batch_get([SWEEP.key(tool=tool, name=name) for name in names], consistent=True)
    return {one.name: one for one in found}


# how far --------------------------------------------------------------------------------------------------------------
class Bar:
    """Tells how far something has come: on a terminal in one line, elsewhere in a line every TOLD_EVERY_SECONDS."""

    WIDTH = 24

    def __init__(self, what: str, out: TextIO | None = None, clock: Callable[[], datetime] | None = None) -> None:
        self._what, self._out, self._clock = what, out or sys.stderr, clock or (lambda: datetime.now(UTC))
        self._told = self._clock()
        self._shown = 0

    def tell(self, part: float, says: str, *, done: bool = False) -> None:
        """`part`: from 0 to 1. `done`: that was the last of it."""
        bar = ("#" * int(part * self.WIDTH)).ljust(self.WIDTH, ".")
        line, now = f"{self._what} [{bar}] {part:4.0%}  {says}", self._clock()
        if self._out.isatty():
            line = line[: shutil.get_terminal_size().columns - 1]
            self._out.write("\r" + line.ljust(self._shown) + ("\n" if done else ""))
            self._shown = 0 if done else len(line)
        elif done or (now - self._told).total_seconds() >= TOLD_EVERY_SECONDS:
            self._out.write(line + "\n")
            self._told = now
        self._out.flush()

    def end(self) -> None:
        """There was less than was expected: what is printed next begins a line."""
        if self._shown:
            self._out.write("\n")
            self._shown = 0

    def aside(self, text: str) -> None:
        """Print something that stays, on stdout."""
        if self._shown:
            self._out.write("\r" + " " * self._shown + "\r")
            self._out.flush()
            self._shown = 0
        print(text, flush=True)


class Progress(Bar):
    """How far a sweep has come, or of so many items (`of`) a sample.

    The table's size is what DescribeTable says, which may be six hours old: so is what is said to be left.
    """

    def __init__(
        self, table: Table, what: str, out: TextIO | None = None, *, dry: bool = False, of: int | None = None
    ) -> None:
        super().__init__(what, out, table.clock)
        self._dry, self._is_sample = dry, of is not None
        self._size = of or size_of(table)

    def after_page(self, found: Found, segments: tuple[Stretch, ...]) -> None:
        done = found.read >= self._size if self._is_sample else all(segment.done for segment in segments)
        part = 1.0 if done else min(found.read / self._size, 0.99) if self._size else 0.0
        self.tell(part, found.told(dry=self._dry), done=done)


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
