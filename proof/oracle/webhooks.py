"""The oracle's rules for webhooks: who subscribes to an event gets it, in order for each object, signed, in time."""

import base64
import hashlib
import hmac
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from math import inf
from typing import Any

from proof.oracle.arithmetic import MAX_CLOCK_ERROR_SECONDS
from proof.oracle.books import Books
from proof.oracle.observations import ObservedRequest, WebhookAttempt

DAY = 24 * 3600
CHANGE_SECONDS = 30 + MAX_CLOCK_ERROR_SECONDS
"""After this time, a change of a webhook reaches all new events."""
SENDING_SECONDS = 120 + MAX_CLOCK_ERROR_SECONDS
"""How long an invocation may send with the webhook that it read at its start."""
PROMPT_SECONDS = 300
"""How long an endpoint that never fails may wait for an event, whatever other endpoints do."""
KEPT_SECONDS = 14 * DAY
RECENT_SECONDS = 28 * DAY
"""A tool sends no message again whose event is much older."""
MESSAGES_TO_ITSELF = ("ImportPartQueued", "ExportPartRequested", "ActivityExpired")


@dataclass
class _Event:
    """An event of the bus. `forms`: all forms in which it was published, at the times `publications`.

    A tool may publish an event again. `position`: its place in the order of its object's events; "" if no webhook had
    it.
    """

    id: str
    at: float
    object_id: str = ""
    position: str = ""
    publications: list[float] = field(default_factory=list)
    forms: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def published_at(self) -> float:
        return self.publications[0]

    @property
    def has_one_form(self) -> bool:
        return all(form == self.forms[0] for form in self.forms)


@dataclass(frozen=True)
class _Change:
    """A request that changed a webhook, or that may have done so. Then `done_at` is infinite."""

    asked_at: float
    done_at: float
    body: Mapping[str, Any]
    answer: Mapping[str, Any]

    @classmethod
    def of(cls, one: ObservedRequest) -> "_Change":
        return cls(one.asked_at, one.answered_at if one.succeeded else inf, one.body or {}, one.answer or {})


@dataclass
class _Subscription:
    """A webhook with its changes, oldest first. `filters`: the changes of its events; the first one created it."""

    id: str
    url: str
    active_from: float
    where: Mapping[str, str]
    filters: Sequence[_Change]
    states: Sequence[_Change]
    secrets: Sequence[_Change]
    replays: Sequence[_Change]
    deletions: Sequence[_Change]
    attempts: Sequence[WebhookAttempt]

    @property
    def received(self) -> Mapping[str, list[float]]:
        """When the endpoint received each event."""
        found: dict[str, list[float]] = defaultdict(list)
        for one in self.attempts:
            if one.is_received:
                found[one.event_id].append(one.at)
        return found

    def must_get(self, event: _Event) -> bool:
        """Return whether the event must arrive, because all filters since it happened have it, and it is no old one."""
        filters = _in_force(self.filters, event.at - CHANGE_SECONDS, inf)
        wanted = all(self._has(one, form) for one in filters for form in event.forms)
        is_recent = event.published_at < event.at + RECENT_SECONDS
        return event.at >= self.active_from and is_recent and not self.deletions and wanted

    def may_get(self, event: _Event, at: float) -> bool:
        """Return whether the event may be sent at this time: also an older event, if a tool published it again."""
        filters = _in_force(self.filters, at - SENDING_SECONDS - CHANGE_SECONDS, at)
        wanted = any(self._has(one, form) for one in filters for form in event.forms)
        return event.publications[-1] >= self.active_from and wanted and not self.is_off(at)

    def _has(self, change: _Change, form: Mapping[str, Any]) -> bool:
        names = change.body.get("events") or [form["type"]]
        is_offered = form["type"] in names and form["type"] not in MESSAGES_TO_ITSELF
        return is_offered and all(form["data"].get(name) == value for name, value in self.where.items())

    def is_off(self, at: float) -> bool:
        """Return whether the webhook was surely deleted or paused by staff at this time."""
        begins = [one.done_at for one in self.deletions]
        for number, state in enumerate(self.states):
            later = [one.asked_at for one in self.states[number:] if one.body["status"] == "ACTIVE"]
            if state.body["status"] == "PAUSED" and at < min(later, default=inf):
                begins.append(state.done_at)
        return at > min(begins, default=inf) + SENDING_SECONDS

    def may_be_paused(self, since: float, until: float) -> bool:
        return any(one.body["status"] == "PAUSED" for one in _in_force(self.states, since, until))


def _in_force(changes: Sequence[_Change], since: float, until: float) -> list[_Change]:
    """Return the changes that may have been in force in this time: those that no later change surely replaced."""
    return [
        one
        for one in changes
        if one.asked_at <= until
        and not any(later.asked_at >= one.done_at and later.done_at <= since for later in changes if later is not one)
    ]


def _subscriptions(books: Books) -> Iterator[_Subscription]:
    """Yield the webhooks whose id and first secret staff know."""

    def asked(method: str, path: str, id: str) -> list[_Change]:
        found = [one for (of,), one in books.asked(method, path) if of == id and (one.succeeded or one.is_uncertain)]
        return sorted(map(_Change.of, found), key=lambda one: one.asked_at)

    for _, made in books.asked("POST", "/webhooks"):
        if made.succeeded:
            id, first = made.answer["webhook_id"], _Change.of(made)
            changes = asked("PATCH", "/webhooks/([^/]+)", id)
            yield _Subscription(
                id=id,
                url=made.body["url"],
                active_from=datetime.fromisoformat(made.answer["active_from"]).timestamp(),
                where=made.body.get("where", {}),
                filters=[first, *(one for one in changes if "events" in one.body)],
                states=[one for one in changes if "status" in one.body],
                secrets=[first, *asked("POST", "/webhooks/([^/]+)/secret", id)],
                replays=asked("POST", "/webhooks/([^/]+)/replay", id),
                deletions=asked("DELETE", "/webhooks/([^/]+)", id),
                attempts=[one for one in books.seen.webhook_attempts if one.url == made.body["url"]],
            )


@lru_cache(maxsize=1)  # for the rules of one run
def _events(books: Books) -> Mapping[str, _Event]:
    """Return the events of the bus by id, without the damaged ones that the simulation published."""
    found: dict[str, _Event] = {}
    for at, detail in zip(books.seen.published_at, books.seen.events, strict=True):
        if "time" in detail:
            happened = datetime.fromisoformat(detail["time"]).timestamp()
            event = found.setdefault(detail["id"], _Event(detail["id"], happened))
            event.publications.append(at)
            event.forms.append({name: value for name, value in detail.items() if name != "outbox"})
            if "outbox" in detail:
                event.object_id, event.position = detail["outbox"]["object_id"], detail["outbox"]["position"]
    return found


def webhooks_get_every_event(books: Books) -> Iterator[str]:
    """Check that an endpoint received each event that it must get, and once more if staff replayed it."""
    events = _events(books)
    for one in _subscriptions(books):
        received = one.received
        for event in events.values():
            if not one.must_get(event):
                continue
            books.count_premise("a webhook had to get an event")
            if event.id not in received:
                yield f"{one.url} did not get {event.forms[0]['type']} {event.id} of {event.object_id}"
            for replay in one.replays[-1:]:
                since = datetime.fromisoformat(replay.body["from"]).timestamp()
                is_chosen = event.forms[0]["type"] in replay.body.get("events", [event.forms[0]["type"]])
                before = min(received.get(event.id, [inf])) < replay.asked_at
                if replay.done_at < inf and event.at >= since and is_chosen and before:
                    books.count_premise("an event had to be replayed")
                    if max(received[event.id]) < replay.asked_at:
                        yield f"{one.url} did not get {event.id} of {event.object_id} again at its replay"


def webhooks_get_nothing_else(books: Books) -> Iterator[str]:
    """Check that an endpoint got only events that its webhook has, and nothing while it was paused or deleted."""
    events = _events(books)
    for one in _subscriptions(books):
        for attempt in one.attempts:
            event = events.get(attempt.event_id)
            books.count_premise("a webhook could get an event")
            if event is None:
                books.found_exception("the event was sent, and its record was lost before it was published")
            elif not one.may_get(event, attempt.at):
                yield f"{one.url} got {event.forms[0]['type']} {event.id} at {attempt.at:.0f}"


def webhooks_get_an_event_again_for_a_reason(books: Books) -> Iterator[str]:
    """Check that an endpoint got an accepted event again only if its sender had a fault, or if a person asked for it.

    An operator's tool that publishes an event again also has the later events of its object sent again. When a restored
    order expires again, its event has the id of the first time.
    """
    events = _events(books)
    republished = {event.object_id for id, event in events.items() if id in books.seen.republished_events}
    for one in _subscriptions(books):
        last: dict[str, WebhookAttempt] = {}
        for attempt in one.attempts:
            before, event = last.get(attempt.event_id), events.get(attempt.event_id)
            last[attempt.event_id] = attempt
            is_replayed = any(replay.asked_at <= attempt.at for replay in one.replays)
            books.count_premise("an event had to be sent once", int(before is None))
            books.count_premise("an event was sent again", int(before is not None))
            if before and before.is_answered:
                yield from books.violation_unless(
                    f"{one.url} got {attempt.event_id} again at {attempt.at:.0f}, without a reason",
                    {
                        "the event was sent, and its record was lost before it was published": event is None,
                        "a tool published an event of its object": event is not None
                        and (event.object_id in republished or not event.has_one_form),
                        "staff replayed the events": is_replayed,
                        "the sender had a fault": before.had_fault,
                    },
                )


def webhooks_get_the_events_of_an_object_in_order(books: Books) -> Iterator[str]:
    """Check that an endpoint got the events of an object in the order of its changes.

    An event comes late if an operator's tool published it, or if a later one arrived before it was published. Then the
    later one must follow again.
    """
    by_object: dict[str, list[_Event]] = defaultdict(list)
    for event in _events(books).values():
        if event.position:
            by_object[event.object_id].append(event)
    for one in _subscriptions(books):
        received = one.received
        for object_id, of_object in by_object.items():
            got = [event for event in of_object if event.id in received and one.must_get(event)]
            got.sort(key=lambda event: event.position)
            for number, event in enumerate(got):
                for later in got[number + 1 :]:
                    books.count_premise("two events of an object had an order")
                    first, then = received[event.id][0], received[later.id]
                    if event.at > later.at + 2 * MAX_CLOCK_ERROR_SECONDS:
                        yield f"the position of {event.id} of {object_id} is before that of the earlier {later.id}"
                    is_late = event.published_at > then[0] or event.id in books.seen.republished_events
                    if first > then[0]:
                        yield from books.violation_unless(
                            f"{one.url} got {later.id} of {object_id} before {event.id}",
                            {"the event was published late, and the later one again": is_late and then[-1] > first},
                        )


def webhooks_get_the_same_bytes(books: Books) -> Iterator[str]:
    """Check that all endpoints got the same bytes of an event in all attempts, and that they are the event.

    After the time for which the shop keeps an event, a tool may publish it in another form.
    """
    events, bodies = _events(books), dict[str, tuple[float, str]]()
    for attempt in books.seen.webhook_attempts:
        at, body = bodies.setdefault(attempt.event_id, (attempt.at, attempt.body))
        if attempt.at > at + KEPT_SECONDS:
            bodies[attempt.event_id] = attempt.at, attempt.body
            books.found_exception("a tool published the event in another form", int(attempt.body != body))
            continue
        books.count_premise("an event was sent again", int(attempt.at > at))
        if attempt.body != body:
            yield f"{attempt.url} got other bytes of {attempt.event_id} than before: {attempt.body} and {body}"
        if (event := events.get(attempt.event_id)) and json.loads(attempt.body) not in event.forms:
            yield f"{attempt.url} got {attempt.body}, which was not published"


def webhooks_are_signed(books: Books) -> Iterator[str]:
    """Check that each attempt is signed with each secret that is valid then: the newest, and for a day the one before.

    https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
    """
    for one in _subscriptions(books):
        for secret in one.secrets:
            later = sorted(two.asked_at for two in one.secrets if two is not secret and two.done_at > secret.asked_at)
            ends = min([*(at + DAY - MAX_CLOCK_ERROR_SECONDS for at in later[:1]), *later[1:2], inf])
            for attempt in one.attempts:
                if not secret.done_at + SENDING_SECONDS < attempt.at < ends:
                    continue
                books.count_premise("a signature was valid with an old secret", int(bool(later)))
                books.count_premise("a signature was valid with the newest secret", int(not later))
                if _sign(secret.answer["secret"], attempt) not in attempt.signatures:
                    yield f"{one.url} got {attempt.event_id} at {attempt.at:.0f} without a signature of a valid secret"
        for attempt in one.attempts:
            if abs(attempt.signed_at - attempt.at) > MAX_CLOCK_ERROR_SECONDS + 1:
                yield f"{one.url} got {attempt.event_id} at {attempt.at:.0f}, but it was signed at {attempt.signed_at}"


def _sign(secret: str, attempt: WebhookAttempt) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{attempt.event_id}.{attempt.signed_at}.{attempt.body}".encode()
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def webhooks_wait_for_no_other(books: Books) -> Iterator[str]:
    """Check that an endpoint that never fails got its events at once, if no fault disturbed their way."""
    events = _events(books)
    for one in _subscriptions(books):
        received = one.received
        if not all(attempt.is_answered for attempt in one.attempts):
            continue
        for event in events.values():
            since, until = event.published_at, event.published_at + PROMPT_SECONDS
            if not one.must_get(event) or one.may_be_paused(since - SENDING_SECONDS, until):
                continue
            is_disturbed = any(begins <= until and since <= ends for begins, ends in books.seen.webhook_disturbances)
            books.count_premise(f"an event was {'' if is_disturbed else 'not '}disturbed")
            if not any(at <= until for at in received.get(event.id, ())):
                yield from books.violation_unless(
                    f"{one.url} waited for {event.id} of {event.object_id} since {since:.0f}",
                    {"a fault disturbed its way": is_disturbed},
                )
