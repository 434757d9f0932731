"""What could not be worked is set going again, in the order of its items."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from functions.dynamodb.streams import Permanent, Record, item_of
from functions.model import changes
from functions.model.lives import REPLAYED_DAYS
from functions.queues import event_in
from functions.shop.shop import Shop
from ops import recover
from ops.ends import Missing
from ops.put_aside import (
    Entry,
    Failures,
    Letter,
    detail_in,
    newest_first,
)
from ops.recover import Publish


class TooOld(Permanent):
    """What it would bring about may have been forgotten to be done."""


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
        with failures.letters([queue], failures.most_letters / per_second if per_second else 0) as letters:
            work(newest_first(letter.entry for letter in letters), letters)
            found.more |= len(letters) >= failures.most_letters
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


def _seconds(time: object) -> float | None:
    """When an event happened, where it says so."""
    try:
        return datetime.fromisoformat(str(time)).timestamp()
    except ValueError:
        return None
