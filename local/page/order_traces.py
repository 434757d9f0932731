"""Builds the trace of an order from the local shop's journal: all measured steps (spans), each with its cause.

A chapter of a trace begins with a cause from outside, such as a request to the API, and contains all spans that follow
from it. The parent of a span is the span that caused it. This module finds the parent of:

- a stream record: the request that wrote an item with the same key, and with the same version if the item has one.
- a stream reader's invocation: the stream records with the sequence numbers in its batch.
- an event: the record with the same change id (functions/model/changes.py), and the invocation that published it.
- the invocation of a reaction (a worker that processes events): the event whose id its message contains.
- a mail: the reaction to the event whose id is a tag of the mail.

A step that ran several times is one span, with a segment (a period) for each attempt and each wait before it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from functions.model.reactions import REACTIONS
from functions.model.table import EXPIRY_MARKER, ROWS_BY_TYPE
from local.laptop.invocation_spans import WRITES, sum_units
from local.laptop.journal import JournalEntry
from ops.failures.failure_store import DEAD_LETTER_PREFIX

READERS = ("copies_reader", "event_publisher")
ROOT_RECORDS_APART_SECONDS = 2.0
"""Stream records without a known cause are in the same chapter if they follow each other within this time."""
GRACE_SECONDS = 10.0
"""A stream record without a known cause joins the previous chapter if the record is younger than this. Its cause may be
an invocation that still runs: the journal gets an entry for an invocation only when the invocation ends."""
BY_PRODUCTS = {"snapshot": "copy", "log": "copy", "marker": "marker", "counter": "marker"}
"""How the page groups the records that it hides at first, by kind of item: as copies of items, or as markers."""

STATUS_TITLES = {
    "PENDING": "Placed",
    "PAID": "Paid",
    "FULFILLING": "Being packed",
    "CANCEL_REQUESTED": "Cancellation requested",
    "PARTIALLY_SHIPPED": "Partly dispatched",
    "CUT_REQUESTED": "Cancellation of the rest requested",
    "SHIPPED": "Dispatched",
    "DELIVERED": "Delivered",
    "PARTIALLY_RETURNED": "Partly returned",
    "RETURNED": "Returned",
    "CANCELLED": "Cancelled",
    "LAPSED": "Lapsed",
    "ARCHIVING": "Archived",
}
"""The title of a chapter, by the first new status of the order in the chapter."""
EVENT_TITLES = {"OrderExpired": "Archived", "OrderRestored": "Restored", "OrderAddressChanged": "Address changed"}
"""The title of a chapter, by an event in the chapter. It replaces the title from STATUS_TITLES."""


@dataclass
class Span:
    """A step of a trace, with its measured times in epoch seconds.

    `id`: stays the same while the trace grows. `segments`: dicts with `state` ("working", "waiting" or "failed"),
    `began_at` and `ms`. `fold`: "copy" or "marker" if the page may show such spans together, as one line.
    """

    id: str
    kind: str
    name: str
    parent: Span | None = None
    segments: list[dict[str, Any]] = field(default_factory=list)
    units: dict[str, float] | None = None
    detail: str | None = None
    problem: str | None = None
    fold: str | None = None
    entries: list[JournalEntry] = field(default_factory=list)
    request: Mapping[str, Any] | None = None

    @property
    def began_at(self) -> float:
        return min(float(segment["began_at"]) for segment in self.segments)

    @property
    def ended_at(self) -> float:
        return max(float(segment["began_at"]) + float(segment["ms"]) / 1000 for segment in self.segments)

    @property
    def failures(self) -> int:
        return sum(segment["state"] == "failed" for segment in self.segments)

    @property
    def attempts(self) -> list[dict[str, Any]]:
        return [segment for segment in self.segments if segment["state"] != "waiting"]

    def add_attempt(self, began_at: float, ms: float, *, failed: bool, waits_since: float | None) -> None:
        """Add a segment for an attempt, and a segment for the wait before the attempt.

        `waits_since`: when the wait before the first attempt began, or None if this is not known."""
        since = self.ended_at if self.segments else waits_since
        if since is not None and since < began_at:
            self.segments.append(_segment("waiting", since, (began_at - since) * 1000))
        self.segments.append(_segment("failed" if failed else "working", began_at, ms))

    def to_json(self) -> dict[str, Any]:
        found = {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "parent": self.parent.id if self.parent else None,
            "began_at": round(self.began_at * 1000, 1),
            "ms": round((self.ended_at - self.began_at) * 1000, 1),
            "segments": [
                {**segment, "began_at": round(segment["began_at"] * 1000, 1), "ms": round(segment["ms"], 1)}
                for segment in self.segments
            ],
            "units": self.units if self.units and any(self.units.values()) else None,
            "attempts": len(self.attempts),
            "failures": self.failures,
            "detail": self.detail,
            "problem": self.problem,
            "fold": self.fold,
        }
        return {name: value for name, value in found.items() if value is not None}


def _segment(state: str, began_at: float, ms: float) -> dict[str, Any]:
    return {"state": state, "began_at": began_at, "ms": ms}


@dataclass
class _Write:
    """A write of an item by an AWS request. `used`: whether the write's stream record has been found."""

    request: Mapping[str, Any]
    owner: Span
    key: Mapping[str, Any]
    used: bool = False

    @property
    def ended_at(self) -> float:
        return float(self.request["began_at"]) + float(self.request["ms"]) / 1000


def build_trace(entries: Sequence[JournalEntry], now: float | None = None) -> dict[str, Any]:
    """Return the trace of an order, oldest chapter first: {"chapters": [...]}, see `_chapter_to_json`."""
    chapters = _Builder(entries).chapters(time.time() if now is None else now)
    return {"chapters": [_chapter_to_json(number, root, spans) for number, (root, spans) in enumerate(chapters)]}


def describe_span(
    entries: Sequence[JournalEntry], id: str, max_receive_counts: Mapping[str, int] | None = None
) -> dict[str, Any] | None:
    """Return all details of the span with this id, or None if no span has this id.

    `entries`: its journal entries, with images and AWS requests. `reaction`: the declared effect, and the guard against
    its repetition. `failure`: the key of failed work that can be redriven. `max_receive_counts`: by reaction, after how
    many deliveries its message becomes a dead letter.
    """
    span = next((one for one in _Builder(entries).spans if one.id == id), None)
    if span is None:
        return None
    declared = next((reaction for reaction in REACTIONS if reaction.name == span.name), None)
    found: dict[str, Any] = {**span.to_json(), "entries": span.entries}
    if span.request:
        found["entries"] = []
        found["requests"] = [span.request]
    if declared and span.kind == "reaction":
        found["reaction"] = {"effect": declared.effect, "guard": declared.idempotent_by}
    if key := _stored_failure(span, max_receive_counts or {}):
        found["failure"] = key
    return found


def _stored_failure(span: Span, max_receive_counts: Mapping[str, int]) -> str | None:
    """Return the key of a span's failure in the list of failures, or None if no failed work of the span is stored."""
    if not span.attempts or span.attempts[-1]["state"] != "failed":
        return None
    if span.kind == "parked":
        return span.entries[0].get("object")
    if span.kind != "reaction" or span.name not in max_receive_counts:
        return None
    event = span.id.removeprefix(f"{span.name}-")
    deliveries = [one for entry in span.entries for one in entry.get("messages") or [entry] if one.get("message")]
    *_, delivery = [one for one in deliveries if (one.get("event_id") or one["message"]).startswith(event)] or [{}]
    is_dead = delivery.get("attempt", 0) >= max_receive_counts[span.name]
    return f"{DEAD_LETTER_PREFIX}{span.name}/{delivery['message']}" if is_dead else None


class _Builder:
    """Groups journal entries into spans, and finds the parent of each span."""

    def __init__(self, entries: Sequence[JournalEntry]) -> None:
        self.spans: list[Span] = []
        self._writes: dict[tuple[Any, Any], list[_Write]] = {}
        self._by_invocation: dict[str, Span] = {}
        self._by_sequence: dict[str, Span] = {}
        self._by_change: dict[str, Span] = {}
        self._events: dict[str, Span] = {}
        self._reactions: dict[tuple[str, str], Span] = {}
        self._readers: dict[tuple[str, str], Span] = {}
        self._parked: dict[str, Span] = {}
        kinds: dict[str, list[JournalEntry]] = {}
        for entry in entries:
            if not entry.get("route", "").startswith("GET "):  # a failed read, for example by the page that shows this
                kinds.setdefault(entry["kind"], []).append(entry)
        self._errors = {
            entry["invocation"]: entry for entry in kinds.get("failed", []) if entry.get("invocation") is not None
        }
        self._add_causes(kinds)
        self._add_consequences(kinds)

    def _add_causes(self, kinds: Mapping[str, list[JournalEntry]]) -> None:
        """Add the spans of requests and invocations, which cause records and events."""
        invocations = kinds.get("invocation", [])
        self._add_requests(kinds.get("request", []), [one for one in invocations if "method" in one])
        self._add_reactions([one for one in invocations if one.get("messages")], kinds.get("failed", []))
        for entry in invocations:
            if not entry.get("messages") and not entry.get("records") and "method" not in entry:
                self._add_scheduled(entry)
        self._add_readers(kinds.get("delivery", []), [one for one in invocations if one.get("records")])

    def _add_consequences(self, kinds: Mapping[str, list[JournalEntry]]) -> None:
        """Add the spans of records, events and effects, and set the parent of every span."""
        for entry in sorted(kinds.get("record", []), key=lambda one: int(one["sequence"])):
            self._add_record(entry)
        self._link_readers()
        for entry in kinds.get("invocation", []):
            self._add_measured_events(entry)
        for entry in kinds.get("published", []):
            self._add_event(entry, entry, None)
        self._link_reactions()
        for entry in kinds.get("invocation", []):
            self._add_mails(entry)
        for entry in [*kinds.get("effect", []), *kinds.get("copied", [])]:
            self._add_outcome(entry)
        for kind in ("parked", "chaos"):
            for entry in kinds.get(kind, []):
                self._add_note(entry)
        for entry in kinds.get("redriven", []):
            if entry.get("object") in self._parked:
                self._parked[entry["object"]].add_attempt(_epoch(entry), 0, failed=False, waits_since=None)

    # Causes from outside, and the invocations of functions ----------------------------------------------------------
    def _add_requests(self, requests: list[JournalEntry], invocations: list[JournalEntry]) -> None:
        """Add a span for each request to the API, from its measured invocation, its log line, or both."""
        logged = {entry.get("invocation", str(entry["id"])): entry for entry in requests}
        measured = {entry["invocation"]: entry for entry in invocations}
        for invocation in dict.fromkeys([*measured, *logged]):
            line, run = logged.get(invocation), measured.get(invocation)
            entries = [one for one in (run, line) if one]
            name = line["text"] if line else f"{entries[0]['method']} {entries[0]['path']} → {entries[0].get('status')}"
            units = next((one["units"] for one in (line, run) if one and one.get("units")), None)
            span = Span(f"request-{invocation[:8]}", "request", name, units=units, entries=entries)
            ms: float = entries[0].get("ms", 0)
            began_at = run["began_at"] if run else _epoch(entries[0]) - ms / 1000
            failed = (entries[0].get("status") or 500) >= 500
            span.add_attempt(began_at, ms, failed=failed, waits_since=None)
            span.problem = line.get("problem") if line else None
            for entry in entries:
                self._add_owner(span, entry)

    def _add_scheduled(self, entry: JournalEntry) -> None:
        span = Span(f"run-{entry['id']}", "schedule", entry["function"], units=entry.get("units"), entries=[entry])
        span.add_attempt(entry["began_at"], entry["ms"], failed="error" in entry, waits_since=None)
        self._add_owner(span, entry)

    def _add_owner(self, span: Span, entry: JournalEntry) -> None:
        """Add the span of an invocation or API request. `entry`: the journal entry that has its AWS requests."""
        if not any(one is span for one in self.spans):
            self.spans.append(span)
        invocation = entry.get("invocation")
        if invocation in self._by_invocation:  # a second message of the batch, or the log line of a request
            return
        if invocation is not None and entry["kind"] == "invocation":
            self._by_invocation[invocation] = span
        for request in entry.get("requests", ()):
            for key in request["keys"] if "error" not in request else ():
                if key["op"] in WRITES:
                    write = _Write(request, span, key)
                    self._writes.setdefault((key.get("PK"), key.get("SK")), []).append(write)

    def _add_reactions(self, invocations: list[JournalEntry], failures: list[JournalEntry]) -> None:
        """Add a span for each reaction to each event. Each invocation or forced failure is an attempt of the span."""
        attempts: list[tuple[float, JournalEntry, Mapping[str, Any]]] = []
        for entry in invocations:
            attempts += [(entry["began_at"], entry, message) for message in entry["messages"]]
        for entry in failures:
            if "event_id" in entry and "invocation" not in entry:
                attempts.append((_epoch(entry), entry, entry))
        for began_at, entry, message in sorted(attempts, key=lambda one: one[0]):
            name = entry.get("function") or entry["reaction"]
            event = message.get("event_id") or message["message"]
            span = self._reactions.setdefault((name, event), Span(f"{name}-{event[:12]}", "reaction", name))
            error = self._errors.get(entry.get("invocation"), {}).get("error") or entry.get("error")
            failed = bool(message.get("failed") or error)
            span.add_attempt(began_at, entry.get("ms", 0), failed=failed, waits_since=message.get("sent_at"))
            span.problem = error if failed else None
            span.units = _add_units(span.units, entry.get("units"))
            span.detail = _describe_batch(entry)
            span.entries.append(entry)
            self._add_owner(span, entry)

    def _add_readers(self, deliveries: list[JournalEntry], invocations: list[JournalEntry]) -> None:
        """Add a span for each batch that a reader got. Repeated deliveries of a batch are attempts of its span."""
        used: set[int] = set()
        attempts: list[tuple[float, float, str, list[str], bool, list[JournalEntry]]] = []
        for entry in deliveries:
            if "sequences" not in entry:
                continue
            began_at, ms = entry["began_at"], float(entry["ms"])
            ran = [
                one
                for one in invocations
                if one["function"] == entry["reader"]
                and began_at <= one["began_at"] <= began_at + ms / 1000 + 0.001
                and one["records"][0]["sequence"] in entry["sequences"]
            ]
            used |= {one["id"] for one in ran}
            began_at, ms = (ran[0]["began_at"], ran[0]["ms"]) if ran else (began_at, ms)
            bad = entry["outcome"] != "done"
            attempts.append((began_at, ms, entry["reader"], entry["sequences"], bad, [entry, *ran]))
        for entry in invocations:  # the poller logs their delivery later, or never if the shop is killed
            if entry["id"] not in used:
                sequences, bad = [one["sequence"] for one in entry["records"]], "error" in entry
                attempts.append((entry["began_at"], entry["ms"], entry["function"], sequences, bad, [entry]))
        for began_at, ms, reader, sequences, bad, entries in sorted(attempts, key=lambda one: one[0]):
            known = next((self._readers[reader, one] for one in sequences if (reader, one) in self._readers), None)
            if known is None or not known.failures:
                known = Span(f"{reader}-{sequences[0]}", "reader", reader)
                for sequence in sequences:
                    self._readers[reader, sequence] = known
            known.add_attempt(began_at, ms, failed=bad, waits_since=None)
            errors = (self._errors.get(one.get("invocation"), {}).get("error") for one in entries)
            reasons = filter(None, [*errors, *(one.get("reason") for one in entries)])
            known.problem = next(reasons, None) if bad else None
            known.entries += entries
            for entry in entries:
                known.units = _add_units(known.units, entry.get("units"))
                known.detail = _describe_batch(entry)
                self._add_owner(known, entry)

    # Records, events and effects ------------------------------------------------------------------------------------
    def _add_record(self, entry: JournalEntry) -> None:
        row = ROWS_BY_TYPE.get(entry["type"])
        name = f"{entry['event']} {entry['type']}"
        span = Span(f"record-{entry['sequence']}", "record", name, entries=[entry])
        if row is not None and entry["type"] != EXPIRY_MARKER.type:  # an expiry begins a chapter, so show it
            span.fold = BY_PRODUCTS.get(row.kind)
        span.detail = _describe_changes(entry)
        write = self._find_write(entry)
        at = min(write.ended_at, _epoch(entry)) if write else _epoch(entry)
        span.segments.append(_segment("working", at, 0))
        if write:
            span.parent = write.owner if span.fold else self._write_request(write)
        self.spans.append(span)
        self._by_sequence[entry["sequence"]] = span
        if "event_id" in entry:
            self._by_change[entry["event_id"]] = span

    def _find_write(self, entry: JournalEntry) -> _Write | None:
        """Return the write that caused a stream record: the item's first fitting write that has no record yet."""
        if entry.get("by") == "expiry":
            return None
        removes = entry["event"] == "REMOVE"
        writes = self._writes.get((entry.get("PK"), entry.get("SK")), ())
        for write in sorted(writes, key=lambda one: one.ended_at):
            version = write.key.get("version")
            fits = (write.key["op"] == "Delete") == removes and write.request["began_at"] <= _epoch(entry)
            if fits and not write.used and (removes or version is None or version == entry.get("version")):
                write.used = True
                return write
        return None

    def _write_request(self, write: _Write) -> Span:
        """Return the span of the AWS request that made a write. All writes of a request share this span."""
        id = f"{write.owner.id}.{round(write.request['began_at'] * 1000)}"
        known = next((span for span in self.spans if span.id == id), None)
        if known is None:
            known = Span(id, "write", str(write.request["operation"]), write.owner, request=write.request)
            known.units = sum_units([dict(write.request)])
            known.add_attempt(write.request["began_at"], write.request["ms"], failed=False, waits_since=None)
            items = write.request.get("items", 1)
            known.detail = f"{items} items" if items != 1 else None
            self.spans.append(known)
        return known

    def _link_readers(self) -> None:
        """Link each reader to its records. A batch with records of several causes becomes a span for each cause."""
        for reader in {id(span): span for span in self._readers.values()}.values():
            causes: dict[str, list[Span]] = {}
            for (_, sequence), span in self._readers.items():
                record = self._by_sequence.get(sequence)
                if span is reader and record is not None:
                    causes.setdefault(record.parent.id if record.parent else "", []).append(record)
            attempts = list(reader.segments)
            for number, records in enumerate(causes.values()):
                span = reader if number == 0 else self._split_reader(reader, records, attempts)
                span.parent = min(records, key=lambda one: (not one.name.endswith(" Order"), one.fold is not None))
                if (since := span.parent.began_at) < span.began_at:
                    span.segments.insert(0, _segment("waiting", since, (span.began_at - since) * 1000))

    def _split_reader(self, reader: Span, records: list[Span], attempts: list[dict[str, Any]]) -> Span:
        """Return a span for some records of a reader's batch. Only the first span has the batch's units."""
        sequences = [record.entries[0]["sequence"] for record in records]
        span = Span(f"{reader.name}-{sequences[0]}", reader.kind, reader.name, entries=reader.entries)
        span.segments, span.detail, span.problem = list(attempts), "same batch", reader.problem
        self._readers |= {(reader.name, sequence): span for sequence in sequences}
        versions = {record.entries[0].get("version") for record in records}
        for effect in self.spans:
            if effect.parent is reader and effect.kind == "record" and effect.entries[0].get("version") in versions:
                effect.parent = span
        self.spans.append(span)
        return span

    def _add_measured_events(self, entry: JournalEntry) -> None:
        """Add the events of this order that an invocation published."""
        for request in entry.get("requests", ()):
            for event in request.get("events", ()):
                if event["order_id"] == entry["order_id"]:
                    self._add_event(event, entry, request)

    def _add_event(self, event: Mapping[str, Any], entry: JournalEntry, request: Mapping[str, Any] | None) -> None:
        """Add a span for a published event. `request`: the measured request, or None if only a log line is known."""
        if event["event_id"] in self._events:  # its request was measured, or it was published again after a crash
            return
        publisher = self._by_invocation.get(entry.get("invocation", ""))
        span = Span(f"event-{event['event_id'][:12]}", "event", event["event"], entries=[entry], request=request)
        record = self._by_change.get(event["event_id"])
        reader = self._readers.get((publisher.name, record.entries[0]["sequence"])) if publisher and record else None
        span.parent = reader or publisher or record
        began_at, ms = (request["began_at"], request["ms"]) if request else (_epoch(entry), 0)
        span.add_attempt(began_at, ms, failed=False, waits_since=None)
        self._events[event["event_id"]] = span
        self.spans.append(span)

    def _link_reactions(self) -> None:
        for (_, event), span in self._reactions.items():
            span.parent = self._events.get(event) or self._by_change.get(event)

    def _add_mails(self, entry: JournalEntry) -> None:
        """Add the mails that an invocation sent for events of this order. A mail's request has the id of its event."""
        names = {message.get("event_id"): message.get("event") for message in entry.get("messages", ())}
        for request in entry.get("requests", ()):
            reaction = self._reactions.get((entry["function"], request.get("effect", "")))
            if reaction is None or "message_id" not in request:
                continue
            id = f"mail-{request['message_id'][:12]}"
            mail = Span(id, "mail", f"mail {names.get(request['effect'])}", reaction, request=request)
            mail.add_attempt(request["began_at"], request["ms"], failed=False, waits_since=None)
            self.spans.append(mail)

    def _add_outcome(self, entry: JournalEntry) -> None:
        """Add the effect of a reaction or of copies to the invocation's span, except a mail that has its own span."""
        span = self._by_invocation.get(entry.get("invocation", ""))
        if entry["kind"] == "effect":
            span = self._reactions.get((entry["reaction"], entry.get("event", "")), span)
        if span is None:
            return
        span.entries.append(entry)
        if entry["kind"] == "copied":
            return
        is_measured = any(one.kind == "mail" and one.parent is span for one in self.spans)
        if "message_id" not in entry or not is_measured:
            span.detail = f"{entry['text']} ({span.detail})" if span.detail else entry["text"]

    def _add_note(self, entry: JournalEntry) -> None:
        span = Span(f"{entry['kind']}-{entry['id']}", entry["kind"], entry["text"], entries=[entry])
        span.segments.append(_segment("failed" if entry["kind"] == "parked" else "working", _epoch(entry), 0))
        span.parent = self._by_invocation.get(entry.get("invocation", ""))
        span.problem = entry.get("reason")
        self.spans.append(span)
        if "object" in entry:
            self._parked[entry["object"]] = span

    # Chapters -------------------------------------------------------------------------------------------------------
    def chapters(self, now: float) -> Iterator[tuple[Span, list[Span]]]:
        """Yield each chapter: its first span, and all its spans, each after the span that caused it."""
        children: dict[str, list[Span]] = {}
        for span in self.spans:
            if span.parent is not None:
                children.setdefault(span.parent.id, []).append(span)
        chapters: list[list[Span]] = []
        for root in sorted((span for span in self.spans if span.parent is None), key=lambda span: span.began_at):
            if chapters and _continues(chapters[-1], root, now):
                chapters[-1].append(root)
            else:
                chapters.append([root])
        for roots in chapters:
            ordered = sorted(roots, key=lambda span: (span.fold is not None, span.began_at))
            yield roots[0], [span for root in ordered for span in _with_descendants(root, children)]


def _continues(chapter: list[Span], root: Span, now: float) -> bool:
    """Return whether a span without a known cause belongs to the previous chapter, which is `chapter`.

    A request, a scheduled run and a chaos switch begin a new chapter. A stream record also begins a chapter, unless it
    soon follows the first record of `chapter`, or its cause may still run. All other spans belong to `chapter`."""
    if root.kind in ("request", "schedule", "chaos"):
        return False
    if root.kind == "record":
        first, cause = chapter[0], _cause_from_outside(root)
        if cause == "restore" and _cause_from_outside(first) != "restore":
            return False
        if first.kind in ("record", "chaos") and root.began_at - first.began_at < ROOT_RECORDS_APART_SECONDS:
            return True
        return cause is None and now - root.began_at < GRACE_SECONDS
    return True


def _cause_from_outside(span: Span) -> str | None:
    """Return "expiry" if a record's item had expired, "restore" if a tool wrote archived items, else None."""
    if span.kind != "record":
        return None
    entry = span.entries[0]
    if entry.get("by") == "expiry":
        return "expiry"
    restored = (entry.get("new") or {}).get("restored_at")
    return "restore" if restored != (entry.get("old") or {}).get("restored_at") else None


def _with_descendants(span: Span, children: Mapping[str, list[Span]]) -> Iterator[Span]:
    yield span
    for child in sorted(children.get(span.id, ()), key=lambda one: (one.fold is not None, one.began_at)):
        yield from _with_descendants(child, children)


def _chapter_to_json(number: int, root: Span, spans: list[Span]) -> dict[str, Any]:
    """Return a chapter as JSON, with sums over its spans.

    `units`: the capacity units of all requests and invocations. `failures`: the number of failed attempts. `failing`:
    the names of the spans whose last attempt failed. `recovered`: None, or if a span succeeded after failures, the
    number of the successful attempt and the time since the first failure."""
    began_at = min(span.began_at for span in spans)
    units: dict[str, float] | None = None
    for span in spans:
        if span.kind != "write":  # the units of an invocation already include the units of its requests
            units = _add_units(units, span.units)
    failing = [span.name for span in spans if span.attempts and span.attempts[-1]["state"] == "failed"]
    return {
        "id": f"chapter-{number}",
        "title": _title(root, spans),
        "began_at": round(began_at * 1000, 1),
        "ms": round((max(span.ended_at for span in spans) - began_at) * 1000, 1),
        "units": units or {"read": 0.0, "write": 0.0},
        "failures": sum(span.failures for span in spans),
        "failing": failing,
        "recovered": _recovery(spans),
        "spans": [span.to_json() for span in spans],
    }


def _recovery(spans: list[Span]) -> dict[str, Any] | None:
    recovered = [span for span in spans if span.failures and span.attempts[-1]["state"] == "working"]
    if not recovered:
        return None
    span = max(recovered, key=lambda one: one.ended_at)
    failed = next(one for one in span.attempts if one["state"] == "failed")
    return {
        "name": span.name,
        "attempt": len(span.attempts),
        "after_ms": round((span.ended_at - failed["began_at"]) * 1000, 1),
    }


def _title(root: Span, spans: list[Span]) -> str:
    for span in spans:
        if span.kind == "event" and span.name in EVENT_TITLES:
            return EVENT_TITLES[span.name]
    for span in spans:
        if span.kind == "record" and span.name.endswith(" Order"):
            [entry] = span.entries
            old, new = (entry.get("old") or {}).get("status"), (entry.get("new") or {}).get("status")
            if new != old and new in STATUS_TITLES:
                return STATUS_TITLES[new]
    first = next((span.name for span in spans if span.kind == "event"), None)
    if first is None:
        return root.name
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", first).capitalize()


def _describe_changes(entry: JournalEntry) -> str | None:
    """Describe in a few words what a stream record changed: the status, or the number of attributes."""
    old, new = entry.get("old") or {}, entry.get("new") or {}
    if entry["event"] == "INSERT":
        return str(new["status"]) if "status" in new else None
    if "status" in new and new["status"] != old.get("status"):
        return f"{old.get('status', 'none')} → {new['status']}"
    if entry["event"] == "REMOVE":
        return "by TTL" if entry.get("by") == "expiry" else None
    changed = sum(old.get(name) != new.get(name) for name in {*old, *new})
    return f"{changed} {'attribute' if changed == 1 else 'attributes'} changed"


def _describe_batch(entry: JournalEntry) -> str | None:
    """Return a note if an invocation processed several orders: its times and units then include all of them."""
    orders = entry.get("orders", 1)
    return f"batch of {orders} orders" if orders > 1 else None


def _add_units(one: Mapping[str, float] | None, other: Mapping[str, float] | None) -> dict[str, float] | None:
    if not one or not other:
        found = one or other
        return dict(found) if found else None
    return {name: one.get(name, 0) + other.get(name, 0) for name in ("read", "write")}


def _epoch(entry: JournalEntry) -> float:
    return datetime.fromisoformat(entry["at"]).timestamp()
