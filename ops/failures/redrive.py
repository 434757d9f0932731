"""Redrive failed stream records and messages: process them again, the records of each item in their original order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from functions.adapters.event_bus import PublishEvents
from functions.dynamodb.errors import Permanent
from functions.dynamodb.record_batch import Record
from functions.dynamodb.stream_batch import item_key_of
from functions.model import changes
from functions.model.retention import MAX_REPLAY_AGE_DAYS
from functions.runtime.queue_batch import parse_event
from functions.shop.shop import ShopContext
from ops.cli_errors import RecordNotFound
from ops.failures.failure_store import (
    DeadLetter,
    FailureEntry,
    FailureRepository,
    JsonObject,
    event_detail_in,
    sort_newest_first,
)
from ops.repair import rebuild


class TooOld(Permanent):
    """The items that remember handled events have expired, so the record could repeat a mail or refund."""


@dataclass
class RedriveStep:
    """A stream record or a message to process again. `sort_key`: records come before messages.

    `item_key`: of the record's item; () for a message. `happened_at`: Unix timestamp, or None. `check`, `act`: check
    whether this code can process it, and process it. Both raise Permanent if it cannot. `keys`: where it is stored.
    """

    sort_key: tuple[int, int]
    item_key: tuple[str, ...]
    happened_at: float | None
    check: Callable[[], object]
    act: Callable[[], None]
    keys: list[str] = field(default_factory=list)


@dataclass
class RedriveResult:
    """The result of a redrive: keys of documents and dead letters, with reasons.

    `rejected`: this code cannot process them. `retryable`: they may succeed in the next run. `has_more`: whether a
    queue may have more. `in_flight`: the number of dead letters that another run had received.
    """

    done: list[str] = field(default_factory=list)
    rejected: dict[str, str] = field(default_factory=dict)
    retryable: dict[str, str] = field(default_factory=dict)
    has_more: bool = False
    in_flight: int = 0

    def summary(self, *, dry: bool = False) -> str:
        parts = [f"{len(self.done):,} {'would be redriven' if dry else 'redriven'}"]
        parts += [f"{len(self.rejected):,} cannot be redriven"] if self.rejected else []
        parts += [f"{len(self.retryable):,} to be retried"] if self.retryable else []
        return ", ".join(parts)


def match_failures(reader: str | None, reason: str | None) -> Callable[[JsonObject], bool] | None:
    """Return whether a failure is of this reader and has this part of a reason; None if both are None."""
    if not reader and not reason:
        return None
    part = (reason or "").casefold()
    return lambda found: found["reader"] == (reader or found["reader"]) and part in str(found["reason"]).casefold()


def redrive_entries(
    failures: FailureRepository,
    shop: ShopContext,
    publish: PublishEvents,
    is_selected: Callable[[FailureEntry], bool],
    *,
    matches: Callable[[JsonObject], bool] | None = None,
    dry: bool = False,
    per_second: float | None = None,
    report_progress: Callable[[int, int], None] = lambda done, of: None,
) -> RedriveResult:
    """Process the selected documents and dead letters again. Safe to repeat, also after a kill.

    Documents come first, their records in the order of the stream. After a record that can never be processed, later
    records of its item go on. After an error that may be temporary, they wait for the next run. `is_selected`,
    `matches`: whether to redrive an entry, and a failure with this `kind`, `reader` and `reason`, for which each
    document is read. `dry`: only check. `per_second`: the limit of records and messages. `report_progress` gets how
    many are done, of all.
    """
    result = RedriveResult(in_flight=failures.count_in_flight())

    def redrive_batch(entries: Sequence[FailureEntry], letters: Sequence[DeadLetter] = ()) -> None:
        one = _RedriveRun(failures, shop, publish, {letter.key: letter for letter in letters}, result)
        for entry in reversed(entries):
            if is_selected(entry) and (matches is None or matches(one.summarize(entry.key))):
                one.add_document(entry.key)
        one.run(dry=dry, per_second=per_second, report_progress=report_progress)

    redrive_batch(failures.list_entries())
    for queue in failures.dead_letter_queues:
        with failures.receive_dead_letters(
            [queue], failures.max_dead_letters / per_second if per_second else 0
        ) as letters:
            redrive_batch(sort_newest_first(letter.entry for letter in letters), letters)
            result.has_more |= len(letters) >= failures.max_dead_letters
    return result


@dataclass
class _RedriveRun:
    failures: FailureRepository
    shop: ShopContext
    publish: PublishEvents
    letters: Mapping[str, DeadLetter]
    result: RedriveResult
    steps: dict[object, RedriveStep] = field(default_factory=dict)
    remaining: dict[str, int] = field(default_factory=dict)

    def summarize(self, key: str) -> JsonObject:
        """Return the `kind`, `reader` and `reason` of a failure."""
        letter = self.letters.get(key)
        return letter.summary() if letter else self.failures.summarize(key)

    def add_document(self, key: str) -> None:
        """Add the records of a document, or a dead letter, to this run. A record in several documents is added once."""
        try:
            steps = self._read_steps(key)
        except (Permanent, RecordNotFound, LookupError, TypeError, ValueError, AttributeError) as error:
            self.result.rejected[key] = str(error) or type(error).__name__
            return
        self.remaining[key] = len(steps)
        for id, step in steps.items():
            self.steps.setdefault(id, step).keys.append(key)

    def _read_steps(self, key: str) -> dict[object, RedriveStep]:
        if letter := self.letters.get(key):
            return {key: self._dead_letter_step(letter)}
        document = self.failures.read_document(key)
        records = document["payload"]["Records"] if "payload" in document else [document["record"]]
        if "body" in records[0]:
            return {key: self._message_step(records[0])}
        return {_record_id(record): self._record_step(record) for record in records}

    def _record_step(self, record: Record) -> RedriveStep:
        told = record.get("dynamodb") or {}
        return RedriveStep(
            sort_key=(0, int(told.get("SequenceNumber", 0))),
            item_key=item_key_of(record),
            happened_at=told.get("ApproximateCreationDateTime"),
            check=lambda: changes.parse_change(record),
            act=lambda: rebuild.redrive_record(self.shop, self.publish, record),
        )

    def _message_step(self, message: Mapping[str, Any]) -> RedriveStep:
        """Return the step that sends a parked message to the queue from which its worker received it."""
        url = self.failures.source_queue_urls.get(message.get("eventSourceARN", ""))
        if url is None:
            raise Permanent("its source queue is not a queue of this shop")
        return self._requeue_step(url, message, message["body"], check=lambda: parse_event(message), done=lambda: None)

    def _dead_letter_step(self, letter: DeadLetter) -> RedriveStep:
        url = letter.queue.source
        if url is None:
            raise Permanent("it has no source queue: the next scheduled run does the same work")
        return self._requeue_step(
            url,
            letter.message,
            letter.message["Body"],
            check=lambda: None,  # not needed: if the message is unreadable, its worker stores it in the failure store
            done=lambda: self.failures.delete_dead_letter(letter),
        )

    def _requeue_step(
        self,
        url: str,
        message: Mapping[str, Any],
        body: str,
        *,
        check: Callable[[], object],
        done: Callable[[], None],
    ) -> RedriveStep:
        def act() -> None:
            self.failures.send_to_queue(url, body, message.get("MessageAttributes") or {})
            done()

        detail = event_detail_in(body)
        version = detail.get("version")
        return RedriveStep(
            sort_key=(1, version if isinstance(version, int) else 0),
            item_key=(),
            happened_at=_event_timestamp(detail.get("time")),
            check=check,
            act=act,
        )

    # run the steps ----------------------------------------------------------------------------------------------------
    def run(self, *, dry: bool, per_second: float | None, report_progress: Callable[[int, int], None]) -> None:
        blocked: set[tuple[str, ...]] = set()
        for number, step in enumerate(sorted(self.steps.values(), key=lambda step: step.sort_key), 1):
            if step.item_key and step.item_key in blocked:
                self._note_failure(self.result.retryable, step, "an earlier record of its item could not be redriven")
            else:
                self._run_step(step, blocked, dry=dry)
                if per_second and not dry:
                    self.shop.table.sleep(1 / per_second)
            report_progress(number, len(self.steps))

    def _run_step(self, step: RedriveStep, blocked: set[tuple[str, ...]], *, dry: bool) -> None:
        try:
            self._check_age(step)
            step.check()
            if not dry:
                step.act()
            self._finish(step, dry=dry)
        except Permanent as error:
            self._note_failure(self.result.rejected, step, str(error) or type(error).__name__)
        except Exception as error:  # noqa: BLE001  report any error, continue with other items
            blocked.add(step.item_key)
            self._note_failure(self.result.retryable, step, f"{type(error).__name__}: {error}")

    def _check_age(self, step: RedriveStep) -> None:
        if step.happened_at is None:
            return
        days = (self.shop.now().timestamp() - step.happened_at) / timedelta(days=1).total_seconds()
        if days > MAX_REPLAY_AGE_DAYS:
            raise TooOld(f"it is {days:.0f} days old: after {MAX_REPLAY_AGE_DAYS} days its effect could be repeated")

    def _finish(self, step: RedriveStep, *, dry: bool) -> None:
        for key in step.keys:
            self.remaining[key] -= 1
            if not self.remaining[key]:
                if not dry and key not in self.letters:
                    self.failures.mark_redriven(key, self.shop.now_instant())
                self.result.done.append(key)

    @staticmethod
    def _note_failure(where: dict[str, str], step: RedriveStep, why: str) -> None:
        for key in step.keys:
            where.setdefault(key, why)


def _record_id(record: Record) -> object:
    """Return what identifies a stream record in all documents: its item and its sequence number, or its content."""
    told = record.get("dynamodb") or {}
    return (*item_key_of(record), told.get("SequenceNumber")) if "SequenceNumber" in told else json.dumps(record)


def _event_timestamp(time: object) -> float | None:
    """Return the time of an event as a Unix timestamp; None if the event has no valid time."""
    try:
        return datetime.fromisoformat(str(time)).timestamp()
    except ValueError:
        return None
