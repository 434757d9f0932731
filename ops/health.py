"""How the shop is, on one screen: each line is well, or says what to do. Reads only, and of the table a sample."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from botocore.exceptions import BotoCoreError, ClientError

from functions import objects
from functions.dynamodb.images import Image
from functions.dynamodb.patience import Busy
from functions.dynamodb.store import Table
from functions.model.table import PROJECTED
from ops import place
from ops.drift import Drift
from ops.pace import limit
from ops.put_aside import PARKED, Failures
from ops.sweep import sweep

LAG_SECONDS = 60
"""A reader that is further behind is not just busy: each batch takes a second at most."""
LATELY, KNOWN = timedelta(minutes=15), timedelta(days=14)
"""When a reader was called that is at work, and one that there is."""
BUSY_MINUTES = 5
"""In so many minutes of those there is something to read for every reader. In fewer it may be of no concern to one."""
OFF = "though the table was written all the time"
SWITCH = "is its mapping off? aws lambda list-event-source-mappings"
WAITING = 1000
"""More than so many messages are not worked off within minutes."""
SAMPLE_ITEMS = 2000
DRIFT_ITEMS, DRIFT_PAUSE_SECONDS = 200, 30.0
NEAR_LIMIT_BYTES = 300_000
"""An item may have 400 KB; nobody's is near that who does not grow for ever."""
SOON = timedelta(days=1)
LATE = timedelta(days=3)
"""DynamoDB deletes within a few days of an item's ttl (developer guide, "Using time to live")."""
NO_EPOCH_SECOND = datetime(2200, 1, 1, tzinfo=UTC).timestamp()
"""No ttl of ours is later; in milliseconds all are."""
UNUSED_DAYS = 14
NAMED = 3


@dataclass(frozen=True)
class Line:
    """What was looked at, how it is, and what to do where it is not well."""

    what: str
    says: str
    todo: str = ""

    def __str__(self) -> str:
        mark, then = ("!!", f" -> {self.todo}") if self.todo else ("ok", "")
        return f"{mark}  {self.what:14} {self.says}{then}"


Check = Callable[[place.Place, datetime], Iterator[Line]]


# the stream -----------------------------------------------------------------------------------------------------------
def lag(where: place.Place, now: datetime) -> Iterator[Line]:
    """How far behind the stream's readers are, and whether each is called at all: the functions of which CloudWatch has
    had an IteratorAge lately."""
    latest, minutes = {}, []
    for name in where.resources("AWS::Lambda::Function"):
        of = [{"Name": "FunctionName", "Value": name}]
        if _figures(where, "AWS/Lambda", "IteratorAge", of, "Maximum", now, KNOWN, 24 * 3600):
            ages = _figures(where, "AWS/Lambda", "IteratorAge", of, "Maximum", now, LATELY, 60)
            latest[name] = ages[-1] / 1000 if ages else None
            minutes.append(len(ages))
    writes = [{"Name": "TableName", "Value": where.outputs["TableName"]}]
    written = _figures(where, "AWS/DynamoDB", "ConsumedWriteCapacityUnits", writes, "Sum", now, LATELY, 60)
    is_busy = max([sum(units > 0 for units in written), *minutes]) >= BUSY_MINUTES
    for name, seconds in latest.items():
        if seconds is not None:
            behind = f"{name} is {seconds:,.0f} s behind the stream"
            yield Line("stream", behind, "its log says why; failures list" if seconds > LAG_SECONDS else "")
        else:
            said = f"{name} was not called in {LATELY.seconds // 60} minutes"
            yield Line("stream", f"{said}, {OFF if is_busy else 'in which little happened'}", SWITCH if is_busy else "")
    if not latest:
        said = f"no reader was called in {KNOWN.days} days"
        yield Line("stream", f"{said}, {OFF if is_busy else 'and nothing written lately'}", SWITCH if is_busy else "")


def lanes(where: place.Place, _: datetime) -> Iterator[Line]:
    """Which readers and queues of the shop on this machine are behind, and how far."""
    behind = [lane for lane in where.lanes() if lane.is_behind]
    for lane in behind:
        yield Line("lane", str(lane), "it catches up by itself; else .local/aws/functions.log says why")
    if not behind:
        yield Line("lanes", "no reader and no queue is behind")


def _figures(
    where: place.Place,
    namespace: str,
    metric: str,
    of: Sequence[Mapping[str, str]],
    statistic: str,
    now: datetime,
    since: timedelta,
    period_seconds: int,
) -> list[float]:
    """What CloudWatch knows of a metric, oldest first."""
    found = where.client("cloudwatch").get_metric_statistics(
        Namespace=namespace,
        MetricName=metric,
        Dimensions=[*of],
        StartTime=now - since,
        EndTime=now,
        Period=period_seconds,
        Statistics=[statistic],
    )
    return [point[statistic] for point in sorted(found["Datapoints"], key=lambda point: point["Timestamp"])]


# what was put aside, what waits ---------------------------------------------------------------------------------------
def put_aside(where: place.Place, _: datetime) -> Iterator[Line]:
    """What the readers parked or their mappings gave up, and nobody has redriven."""
    kept = Failures(where.client("s3"), None, where.outputs["FailuresBucket"], ())
    keys = [entry.key for entry in kept.entries() if not entry.redriven]
    parked = sum(key.startswith(PARKED) for key in keys)
    says = f"{parked} parked, {len(keys) - parked} given up by a mapping"
    yield Line("failure store", says, "failures list says why; mended: failures redrive" if keys else "")


def queues(where: place.Place, _: datetime) -> Iterator[Line]:
    """How many messages each queue holds, dead-letter queues by whose they are."""
    failures = Failures.of(where)
    waiting = {url: failures.counted(url) for url in failures.queues.values()}
    for url, (wait, in_hand) in waiting.items():
        if wait > WAITING:
            yield Line("queue", f"{_name(url)}: {wait} wait, {in_hand} in hand", "its worker's log says why")
    total = sum(wait for wait, _ in waiting.values())
    yield Line("queues", f"{total} messages wait in {len(waiting)} queues")
    dead = {queue.url: sum(failures.counted(queue.url)) for queue in failures.dead}
    for url, count in dead.items():
        if count:
            says = f"{count} in {_name(url)}"
            yield Line("dead letters", says, "failures list says whose; mended: failures redrive")
    if not any(dead.values()):
        yield Line("dead letters", f"none in {len(dead)} queues")


def _name(url: str) -> str:
    return url.rpartition("/")[2]


# the table ------------------------------------------------------------------------------------------------------------
def sample(where: place.Place, now: datetime) -> Iterator[Line]:
    """What some items of the table say of all: who is large, who ends, who should have ended."""
    items = sampled(where.table)
    ends = [(image, int(image["ttl"]["N"])) for image in items if "ttl" in image]
    large = [image for image in items if len(objects.as_json(image)) > NEAR_LIMIT_BYTES]
    says = f"{len(large)} of {len(items)} are larger than {NEAR_LIMIT_BYTES // 1000} KB{_named(large)}"
    yield Line("items", says, "400 KB is the most: find out what grows in them" if large else "")
    wrong = [image for image, ttl in ends if ttl > NO_EPOCH_SECOND]
    says = f"{len(wrong)} of {len(ends)} that end do so after the year 2200{_named(wrong)}"
    yield Line("ttl", says, "a ttl is in seconds: who wrote milliseconds? mend it by a migration" if wrong else "")
    late = [image for image, ttl in ends if ttl < (now - LATE).timestamp()]
    says = f"{len(late)} should have gone {LATE.days} days ago{_named(late)}"
    yield Line(
        "ttl lag", says, "is time to live on for the attribute ttl? aws dynamodb describe-time-to-live" if late else ""
    )
    soon = sum(now.timestamp() <= ttl < (now + SOON).timestamp() for _, ttl in ends)
    yield Line("expiring", f"{soon} of {len(items)} end within {SOON.days} day")


def sampled(table: Table) -> list[Image]:
    """So many items, from wherever the table begins: keys are hashed, so any are as good as others."""
    items: list[Image] = []
    sweep(table, items.append, most=SAMPLE_ITEMS)
    return items


def _named(images: Sequence[Image]) -> str:
    names = [f"{image['PK']['S']} / {image['SK']['S']}" for image in images[:NAMED]]
    return f" ({', '.join(names)}{', …' if len(images) > NAMED else ''})" if names else ""


def drifted(where: place.Place, _: datetime) -> Iterator[Line]:
    """Whether copies and logs of a sample are as their primaries say, and stay so: that takes a while if not."""
    drift = Drift(where.shop, pause_seconds=DRIFT_PAUSE_SECONDS)
    drift.some(DRIFT_ITEMS)
    counts = Counter(fault.kind for fault in drift.told.values())
    counts |= {"unreadable": drift.found.passed_over, "changed whenever looked at": drift.moving}
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    says = f"{kinds or 'nothing'} in {drift.found.read} items, and what belongs to them"
    yield Line("drift", says, "drift --all, then --repair" if kinds else "")


def indexes(where: place.Place, now: datetime) -> Iterator[Line]:
    """Which indexes nobody has read: each costs a write more for each of its items."""
    unused = []
    for index in PROJECTED:
        of = [
            {"Name": "TableName", "Value": where.outputs["TableName"]},
            {"Name": "GlobalSecondaryIndexName", "Value": index},
        ]
        days = timedelta(days=UNUSED_DAYS)
        units = _figures(where, "AWS/DynamoDB", "ConsumedReadCapacityUnits", of, "Sum", now, days, 24 * 3600)
        if not sum(units):
            unused.append(index)
    says = f"{', '.join(unused) or 'none'} not read in {UNUSED_DAYS} days"
    yield Line("indexes", says, "young tables aside: who should ask it? else drop it, make predeploy" if unused else "")


HERE: tuple[Check, ...] = (lanes, put_aside, queues, sample, drifted)
ON_AWS: tuple[Check, ...] = (lag, put_aside, queues, sample, drifted, indexes)


def look(where: place.Place, checks: Sequence[Check], now: datetime) -> Iterator[Line]:
    """The lines of all checks; what one could not look at is a line, too."""
    for check in checks:
        try:
            yield from check(where, now)
        except (BotoCoreError, Busy, ClientError) as error:
            yield Line(check.__name__, f"cannot be looked at: {error}", "may you? is the service away?")


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: place.Commands) -> None:
    asking = commands.add_parser(
        "health", parents=[place.where(whole=True), place.pace()], help="how the shop is, on one screen"
    )
    asking.set_defaults(run=tell)


def tell(given: argparse.Namespace) -> None:
    """Say how the shop is. Exits with 1 where something is to be done."""
    where = place.place_of(given)
    todo = 0
    with limit(where.table, place.units_per_second(given)):
        for line in look(where, ON_AWS if given.stack else HERE, datetime.now(UTC)):
            print(line, flush=True)
            todo += bool(line.todo)
    if not given.stack:
        print("    the stream's readers and the indexes' use: on the page, at Stream and Insight")
    if todo:
        sys.exit(f"{todo} to look at.")
    print("All is well.")
