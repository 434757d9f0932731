"""What could not be worked, wherever it ended: listed, shown, and set going again in the order of its items.

Stream records end in the failure store: parked by a reader that can never handle them, or given up by its mapping after
all attempts. Messages end there, parked by their worker, or in their queue's dead-letter queue. A record is redriven by
`ops.recover`, which reads its item anew; a message goes back to its queue, where it counts as new. All of it is safe to
repeat, whole or from wherever it was killed: what has been done is known by its id to everybody who did it.

A document that is redriven stays as it is, for an erasure to find; a mark beside it says so. One of which something
cannot be read yet gets no mark: a newer version of this code may.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from functions.dynamodb.keys import instant
from functions.dynamodb.streams import Permanent, Record, item_of
from functions.model import changes
from functions.model.lives import REPLAYED_DAYS
from functions.objects import REDRIVEN
from functions.queues import event_in
from functions.shop.shop import Shop
from ops import place, recover
from ops.ends import Missing, Misused
from ops.place import Place
from ops.recover import Publish, publisher
from ops.sweep import Bar, who

PARKED, DEAD = "parked/", "dead/"
HELD_SECONDS = 120
"""How long a queue's dead letters are in hand, beside the time to work them. Who is killed leaves them to the next one
after that."""
LONGEST_HELD_SECONDS = 12 * 3600
MOST_LETTERS = 2000
"""How many dead letters of a queue are taken in hand at a time: as many as are sent back while they are."""
A_BATCH = 10
COUNTS = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
OURS = re.compile(r"([A-Z][a-z]+)ReactionQueue")
WITHIN = re.compile(r"(\d+)([dhm])")
UNITS = {"d": "days", "h": "hours", "m": "minutes"}

Shown = dict[str, Any]


class TooOld(Permanent):
    """What it would bring about may have been forgotten to be done."""


# where it lies --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Entry:
    """`at`: when it was put there. `redriven`: whether it was, since."""

    at: str
    key: str
    bytes: int
    redriven: bool = False


@dataclass(frozen=True)
class DeadLetters:
    """A dead-letter queue. `name`: whose messages end there; `source`: their queue, None where none is; `deliveries`:
    after how many a message is a dead letter."""

    name: str
    url: str
    source: str | None
    deliveries: int


@dataclass(frozen=True)
class Letter:
    """A message of a dead-letter queue."""

    queue: DeadLetters
    message: Mapping[str, Any]

    @property
    def key(self) -> str:
        return f"{DEAD}{self.queue.name}/{self.message['MessageId']}"

    @property
    def entry(self) -> Entry:
        sent_at = int(self.message["Attributes"]["SentTimestamp"]) / 1000
        return Entry(instant(datetime.fromtimestamp(sent_at, UTC)), self.key, len(self.message["Body"].encode()))

    def told(self) -> Shown:
        """Its own count of deliveries goes on with each look at it, so it is none of what happened."""
        reason = f"failed at all {self.queue.deliveries} deliveries" if self.queue.source else "a call that never was"
        return {"kind": "dead letter", "reader": self.queue.name, "reason": reason}

    def document(self) -> Shown:
        return {"queue": self.queue.name, "message": self.message, "event": detail_in(self.message["Body"])}


def newest_first(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (entry.at, entry.key), reverse=True)


class Failures:
    """The failure store and the dead-letter queues of a shop. `wait_seconds`: how long to wait for messages of which a
    queue does not say at once that it has them, as SQS may. Thread-safe, as clients of boto3 are."""

    def __init__(self, s3: Any, sqs: Any, bucket: str, queue_urls: Sequence[str], *, wait_seconds: int = 0) -> None:
        self.s3, self.sqs, self.bucket = s3, sqs, bucket
        self._urls, self._wait_seconds = queue_urls, wait_seconds

    @classmethod
    def of(cls, shop: Place, *, wait_seconds: int = 0) -> Failures:
        bucket, queues = shop.outputs["FailuresBucket"], shop.resources("AWS::SQS::Queue")
        return cls(shop.client("s3"), shop.client("sqs"), bucket, queues, wait_seconds=wait_seconds)

    # the queues -------------------------------------------------------------------------------------------------------
    @cached_property
    def queues(self) -> Mapping[str, str]:
        """The URL of each queue that is no dead-letter queue, by its ARN."""
        dead = {queue.url for queue in self.dead}
        return {arn: url for url, (arn, _) in self._attributes.items() if url not in dead}

    @cached_property
    def dead(self) -> Sequence[DeadLetters]:
        arns = {arn: url for url, (arn, _) in self._attributes.items()}
        leads = {
            arns[policy["deadLetterTargetArn"]]: (url, int(policy["maxReceiveCount"]))
            for url, (_, policy) in self._attributes.items()
            if policy
        }
        alone = {url: (None, 0) for url, (_, policy) in self._attributes.items() if not policy and url not in leads}
        return [
            DeadLetters(_name(source or url), url, source, most) for url, (source, most) in {**leads, **alone}.items()
        ]

    @cached_property
    def _attributes(self) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
        """Of each queue its ARN, and where its dead letters go, if anywhere."""

        def asked(url: str) -> tuple[str, Mapping[str, Any]]:
            found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
            return found["QueueArn"], json.loads(found.get("RedrivePolicy") or "{}")

        return {url: asked(url) for url in self._urls}

    @contextmanager
    def letters(
        self, queues: Sequence[DeadLetters] | None = None, working_seconds: float = 0
    ) -> Iterator[list[Letter]]:
        """The dead letters there are (of these queues), in hand for as long as it takes to work them; those that are
        not deleted meanwhile are there again afterwards."""
        queues = self.dead if queues is None else queues
        taken = [letter for queue in queues for letter in self._taken(queue, int(HELD_SECONDS + working_seconds))]
        try:
            yield taken
        finally:
            for queue in queues:
                self._give_back(queue, [letter for letter in taken if letter.queue is queue])

    def elsewhere(self) -> int:
        """How many dead letters are in somebody else's hands, about: another redrive's, or one's that was killed."""
        return sum(self.counted(queue.url)[1] for queue in self.dead)

    def counted(self, url: str) -> tuple[int, int]:
        """How many messages wait in a queue, and how many somebody has in hand, about."""
        found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[*COUNTS]).get("Attributes", {})
        waiting, in_hand = (int(found.get(name, 0)) for name in COUNTS)
        return waiting, in_hand

    def _taken(self, queue: DeadLetters, held_seconds: int) -> Iterable[Letter]:
        taken: dict[str, Letter] = {}
        while len(taken) < MOST_LETTERS:
            found = self.sqs.receive_message(
                QueueUrl=queue.url,
                MaxNumberOfMessages=A_BATCH,
                VisibilityTimeout=min(held_seconds, LONGEST_HELD_SECONDS),
                WaitTimeSeconds=self._wait_seconds,
                MessageSystemAttributeNames=["SentTimestamp", "ApproximateReceiveCount"],
                MessageAttributeNames=["All"],
            ).get("Messages", [])
            if {message["MessageId"] for message in found} <= taken.keys():
                break
            taken |= {message["MessageId"]: Letter(queue, message) for message in found}
        return taken.values()

    def _give_back(self, queue: DeadLetters, letters: Sequence[Letter]) -> None:
        entries = [
            {"Id": str(number), "ReceiptHandle": letter.message["ReceiptHandle"], "VisibilityTimeout": 0}
            for number, letter in enumerate(letters)
        ]
        with suppress(ClientError, BotoCoreError):  # then they are there again when they are held no more
            for start in range(0, len(entries), A_BATCH):  # it does not matter which of them are gone
                self.sqs.change_message_visibility_batch(QueueUrl=queue.url, Entries=entries[start : start + A_BATCH])

    # looking ----------------------------------------------------------------------------------------------------------
    def entries(self, letters: Iterable[Letter] = ()) -> list[Entry]:
        """Everything there is, with these letters, newest first."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        objects = [found for page in pages for found in page.get("Contents", ())]
        marked = {found["Key"].removeprefix(REDRIVEN) for found in objects if found["Key"].startswith(REDRIVEN)}
        found = [
            Entry(_utc(one["LastModified"]), one["Key"], one["Size"], one["Key"] in marked)
            for one in objects
            if not one["Key"].startswith(REDRIVEN)
        ]
        return newest_first([*found, *(letter.entry for letter in letters)])

    def told(self, key: str) -> Shown:
        """What a list says of a document: its kind, whose it was, and why; whatever somebody has put there."""
        try:
            document = self.document(key)
            if key.startswith(PARKED):
                return {"kind": "parked", "reader": document["reader"], "reason": document["reason"]}
            context = document["requestContext"]
            whose = context["functionArn"].rpartition(":")[2]
            return {"kind": "given up", "reader": whose, "reason": context["condition"]}
        except (Missing, LookupError, TypeError, ValueError, AttributeError) as error:
            return {"kind": "parked", "reader": "nobody", "reason": f"no document of ours: {type(error).__name__}"}

    def document(self, key: str) -> Any:
        """What lies in the store under that key, what is JSON in it as such. Raises Missing, or ValueError."""
        try:
            body = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] not in ("NoSuchKey", "404"):
                raise
            raise Missing("no such document") from None
        document: Any = json.loads(body)
        if isinstance(document, dict) and isinstance(document.get("payload"), str):
            document["payload"] = json.loads(document["payload"])
        return document

    def show(self, key: str) -> Any:
        """The whole of what lies under a key of the list. Raises Missing, or ValueError."""
        if not key.startswith(DEAD):
            return self.document(key)
        with self.letters() as letters:
            for letter in letters:
                if letter.key == key:
                    return letter.document()
        raise Missing("it is not in the dead-letter queue any more")

    def listed(self, limit: int, *, before: str | None = None, redriven: bool = True) -> tuple[list[Shown], str | None]:
        """A page, newest first, and where the next one begins, if there is one: `before` that."""
        with self.letters() as letters:
            by_key = {letter.key: letter for letter in letters}
            found = [entry for entry in self.entries(letters) if redriven or not entry.redriven]
        if before is not None:
            found = [entry for entry in found if f"{entry.at} {entry.key}" < before]
        shown = [
            {"key": entry.key, "at": entry.at, "bytes": entry.bytes, "redriven": entry.redriven}
            | (by_key[entry.key].told() if entry.key in by_key else self.told(entry.key))
            for entry in found[:limit]
        ]
        return shown, f"{shown[-1]['at']} {shown[-1]['key']}" if len(found) > limit else None

    # redriven ---------------------------------------------------------------------------------------------------------
    def mark(self, key: str, at: str) -> None:
        """Remember that a document was redriven. Nobody's data is in a mark, and the first one stays."""
        body = json.dumps({"redriven_at": at, "by": who()}).encode()
        try:
            self.s3.put_object(Bucket=self.bucket, Key=f"{REDRIVEN}{key}", Body=body, IfNoneMatch="*")
        except ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise

    def send_back(self, url: str, body: str, attributes: Mapping[str, Mapping[str, Any]]) -> None:
        """Put a message into a queue, where it counts as new."""
        told = {
            name: {part: value[part] for part in ("DataType", "StringValue", "BinaryValue") if part in value}
            for name, value in attributes.items()
        }
        self.sqs.send_message(QueueUrl=url, MessageBody=body, **({"MessageAttributes": told} if told else {}))

    def remove(self, letter: Letter) -> None:
        self.sqs.delete_message(QueueUrl=letter.queue.url, ReceiptHandle=letter.message["ReceiptHandle"])


# doing it again -------------------------------------------------------------------------------------------------------
@dataclass
class Step:
    """A record or message to work again. `order`: of one item, the earlier first; `item`: () where it is not said.
    `check` raises Permanent where this code cannot read it, `act` may too. `keys`: of the documents it is in."""

    order: tuple[int, int]
    item: tuple[str, ...]
    happened_at: float | None
    check: Callable[[], object]
    act: Callable[[], None]
    keys: list[str] = field(default_factory=list)


@dataclass
class Redriven:
    """`done`: the keys of what is redriven; `refused`: by key, why this code cannot do it; `stumbled`: why it could not
    be done just now. `more`: there may be more dead letters than were taken in hand; `elsewhere`: how many somebody
    else had in theirs."""

    done: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    stumbled: dict[str, str] = field(default_factory=dict)
    more: bool = False
    elsewhere: int = 0

    def told(self, *, dry: bool = False) -> str:
        parts = [f"{len(self.done):,} {'would be redriven' if dry else 'redriven'}"]
        parts += [f"{len(self.refused):,} stay as they are"] if self.refused else []
        parts += [f"{len(self.stumbled):,} to be tried again"] if self.stumbled else []
        return ", ".join(parts)


def redrive(
    failures: Failures,
    shop: Shop,
    publish: Publish,
    chosen: Callable[[Entry], bool],
    *,
    dry: bool = False,
    per_second: float | None = None,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> Redriven:
    """Work again what is chosen: of each item the earlier record first, over all documents together; then the dead
    letters, queue by queue.

    What cannot be read stays, and the later records of its item go on, as at the readers; where something fails that
    may heal, they wait. `tell` hears how many records of how many are worked. Safe to repeat, wherever it was killed.
    """
    found = Redriven(elsewhere=failures.elsewhere())

    def work(entries: Sequence[Entry], letters: Sequence[Letter] = ()) -> None:
        one = _Work(failures, shop, publish, {letter.key: letter for letter in letters}, found)
        for entry in reversed(entries):
            if chosen(entry):
                one.add(entry.key)
        one.run(dry=dry, per_second=per_second, tell=tell)

    work(failures.entries())
    for queue in failures.dead:
        with failures.letters([queue], MOST_LETTERS / per_second if per_second else 0) as letters:
            work(newest_first(letter.entry for letter in letters), letters)
            found.more |= len(letters) >= MOST_LETTERS
    return found


@dataclass
class _Work:
    failures: Failures
    shop: Shop
    publish: Publish
    letters: Mapping[str, Letter]
    found: Redriven
    steps: dict[object, Step] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)

    def add(self, key: str) -> None:
        """Everything in a document, but for what is in another one, too."""
        try:
            steps = self._steps(key)
        except (Permanent, Missing, LookupError, TypeError, ValueError, AttributeError) as error:
            self.found.refused[key] = str(error) or type(error).__name__
            return
        self.left[key] = len(steps)
        for id, step in steps.items():
            self.steps.setdefault(id, step).keys.append(key)

    def _steps(self, key: str) -> dict[object, Step]:
        if letter := self.letters.get(key):
            return {key: self._letter(letter)}
        document = self.failures.document(key)
        records = document["payload"]["Records"] if "payload" in document else [document["record"]]
        if "body" in records[0]:
            return {key: self._message(records[0])}
        return {_id(record): self._record(record) for record in records}

    def _record(self, record: Record) -> Step:
        told = record.get("dynamodb") or {}
        return Step(
            order=(0, int(told.get("SequenceNumber", 0))),
            item=item_of(record),
            happened_at=told.get("ApproximateCreationDateTime"),
            check=lambda: changes.read(record),
            act=lambda: recover.redrive(self.shop, self.publish, record),
        )

    def _message(self, message: Mapping[str, Any]) -> Step:
        """What a worker has put aside says itself from which queue it had it."""
        url = self.failures.queues.get(message.get("eventSourceARN", ""))
        if url is None:
            raise Permanent("it is of no queue that is here")
        return self._back(url, message, message["body"], check=lambda: event_in(message), done=lambda: None)

    def _letter(self, letter: Letter) -> Step:
        url = letter.queue.source
        if url is None:
            raise Permanent("it is of no queue: the next run of what was called does all there is to do")
        return self._back(
            url,
            letter.message,
            letter.message["Body"],
            check=lambda: None,  # whoever works the queue puts aside what nobody can read
            done=lambda: self.failures.remove(letter),
        )

    def _back(
        self,
        url: str,
        message: Mapping[str, Any],
        body: str,
        *,
        check: Callable[[], object],
        done: Callable[[], None],
    ) -> Step:
        def act() -> None:
            self.failures.send_back(url, body, message.get("MessageAttributes") or {})
            done()

        detail = detail_in(body)
        version = detail.get("version")
        return Step(
            order=(1, version if isinstance(version, int) else 0),
            item=(),
            happened_at=_seconds(detail.get("time")),
            check=check,
            act=act,
        )

    # ------------------------------------------------------------------------------------------------------------------
    def run(self, *, dry: bool, per_second: float | None, tell: Callable[[int, int], None]) -> None:
        held: set[tuple[str, ...]] = set()
        for number, step in enumerate(sorted(self.steps.values(), key=lambda step: step.order), 1):
            if step.item and step.item in held:
                self._note(self.found.stumbled, step, "an earlier record of its item could not be redriven")
            else:
                self._one(step, held, dry=dry)
                if per_second and not dry:
                    self.shop.table.sleep(1 / per_second)
            tell(number, len(self.steps))

    def _one(self, step: Step, held: set[tuple[str, ...]], *, dry: bool) -> None:
        try:
            self._age(step)
            step.check()
            if not dry:
                step.act()
            self._done(step, dry=dry)
        except Permanent as error:
            self._note(self.found.refused, step, str(error) or type(error).__name__)
        except Exception as error:  # noqa: BLE001  whatever it is, what is in there is not lost
            held.add(step.item)
            self._note(self.found.stumbled, step, f"{type(error).__name__}: {error}")

    def _age(self, step: Step) -> None:
        if step.happened_at is None:
            return
        days = (self.shop.now().timestamp() - step.happened_at) / timedelta(days=1).total_seconds()
        if days > REPLAYED_DAYS:
            raise TooOld(
                f"it is {days:.0f} days old, and what is older than {REPLAYED_DAYS} could have its effect twice"
            )

    def _done(self, step: Step, *, dry: bool) -> None:
        for key in step.keys:
            self.left[key] -= 1
            if not self.left[key]:
                if not dry and key not in self.letters:
                    self.failures.mark(key, self.shop.instant())
                self.found.done.append(key)

    @staticmethod
    def _note(where: dict[str, str], step: Step, why: str) -> None:
        for key in step.keys:
            where.setdefault(key, why)


def _id(record: Record) -> object:
    """The same for the same record, whoever has put it aside."""
    told = record.get("dynamodb") or {}
    return (*item_of(record), told.get("SequenceNumber")) if "SequenceNumber" in told else json.dumps(record)


def detail_in(body: str) -> Mapping[str, Any]:
    """The event that a message's body holds; {} where it holds none."""
    try:
        detail = json.loads(body)["detail"]
    except (LookupError, TypeError, ValueError):
        return {}
    return detail if isinstance(detail, dict) else {}


def _seconds(time: object) -> float | None:
    """When an event happened, where it says so."""
    try:
        return datetime.fromisoformat(str(time)).timestamp()
    except ValueError:
        return None


def _name(url: str) -> str:
    """Whose a queue is, where its name says so."""
    name = url.rpartition("/")[2]
    ours = OURS.search(name)
    return ours[1].lower() if ours else name


def _utc(at: datetime) -> str:
    return instant(at.astimezone(UTC))


# the command ----------------------------------------------------------------------------------------------------------
ELSEWHERE = (
    "{:,} dead letters are in somebody else's hands, or in those of a run that was killed: look again in a few minutes."
)


def command(commands: place.Commands) -> None:
    told = commands.add_parser(
        "failures", help="what could not be worked: what there is of it, and have it worked again"
    )
    actions = told.add_subparsers(dest="action", required=True)
    at = place.where(whole=True)

    listing = actions.add_parser(
        "list", parents=[at], help="what was put aside, given up or left for dead, newest first"
    )
    listing.add_argument("--limit", type=place.count, default=20, help="how many (default: %(default)s)")
    listing.add_argument("--redriven", action="store_true", help="what was redriven since, too")
    listing.set_defaults(run=list_failures)

    showing = actions.add_parser("show", parents=[at], help="one of them whole, as JSON")
    showing.add_argument("key", help="as `list` names it")
    showing.set_defaults(run=show_failure)

    redriving = actions.add_parser(
        "redrive",
        parents=[at],
        help="have it worked again, each item's earlier records first",
        description="Safe to run twice, and again after a kill. What cannot be read yet stays; ends with 1 then.",
    )
    which = redriving.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "keys", nargs="*", default=[], metavar="KEY", help="as `list` names it; again, if it was already"
    )
    which.add_argument("--all", action="store_true", help="all that was not redriven yet")
    which.add_argument(
        "--since", metavar="WHEN", help="of that, what was put there since: 3d, 12h, or 2026-11-21T09:30Z"
    )
    redriving.add_argument("--dry-run", action="store_true", help="only say what would be done")
    redriving.add_argument(
        "--per-second", type=place.positive, default=50, help="records and messages (default: %(default)s)"
    )
    redriving.set_defaults(run=redrive_failures)


def list_failures(given: argparse.Namespace) -> None:
    """A line for each: when, which kind, whose, why; and its key."""
    failures = _failures(given)
    elsewhere = failures.elsewhere()
    shown, more = failures.listed(given.limit, redriven=given.redriven)
    for one in shown:
        kind = f"{one['kind']}, redriven" if one["redriven"] else one["kind"]
        print(f"{one['at']}  {kind}  {one['reader']}: {one['reason']}\n  {one['key']}")
    if more:
        print(f"There are older ones: --limit {2 * given.limit}")
    elif not shown and not elsewhere:
        print("Nothing was put aside.")
    if elsewhere:
        sys.exit(ELSEWHERE.format(elsewhere))


def show_failure(given: argparse.Namespace) -> None:
    failures = _failures(given)
    try:
        print(json.dumps(failures.show(given.key), indent=2, ensure_ascii=False))
    except Missing as error:
        sys.exit(f"{given.key}: {error}")
    except json.JSONDecodeError as error:
        sys.exit(f"{given.key} is no JSON: {error}")


def redrive_failures(given: argparse.Namespace) -> None:
    """Say what came of it. Exits with 1 where anything is left, and says why."""
    there = place.place_of(given)
    shop, failures = there.shop, _failures(given, there)
    chosen = choice(given, shop.now())
    publish = publisher(shop, there.client("events"), there.bus)
    bar = Bar("redrive")

    def tell(done: int, of: int) -> None:
        bar.tell(done / of, f"{done:,} of {of:,}", done=done == of)

    found = redrive(failures, shop, publish, chosen, dry=given.dry_run, per_second=given.per_second, tell=tell)
    for key in given.keys:
        if key not in {*found.done, *found.refused, *found.stumbled}:
            found.refused[key] = "nothing lies there"
    for key, why in {**found.refused, **found.stumbled}.items():
        print(f"{key}: {why}")
    print(f"{found.told(dry=given.dry_run)}.")
    if found.stumbled:
        print("Run it again for those that may heal: what is done is not done again.")
    if found.more:
        print(f"There may be more than {MOST_LETTERS:,} dead letters in a queue: run it again for the rest.")
    if found.elsewhere:
        print(ELSEWHERE.format(found.elsewhere))
    if found.refused or found.stumbled or found.more or found.elsewhere:
        sys.exit(1)


def choice(given: argparse.Namespace, now: datetime) -> Callable[[Entry], bool]:
    """Which are meant. Raises Misused where --since is no time."""
    if given.keys:
        return lambda entry: entry.key in given.keys
    since = "" if given.all else instant(since_when(given.since, now))
    return lambda entry: not entry.redriven and entry.at >= since


def since_when(text: str, now: datetime) -> datetime:
    """A moment, or how long ago it was. Raises Misused where it is neither."""
    if ago := WITHIN.fullmatch(text):
        return now - timedelta(**{UNITS[ago[2]]: int(ago[1])})
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Misused(f"{text!r} is no time: say 3d, 12h, 30m, or 2026-11-21T09:30Z") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _failures(given: argparse.Namespace, there: Place | None = None) -> Failures:
    return Failures.of(there or place.place_of(given), wait_seconds=1 if given.stack else 0)
