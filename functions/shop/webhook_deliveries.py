"""Send events to webhooks: at least once, in order for each object, with the same id and bytes in each attempt.

Before the event publisher publishes an event that a webhook has, it puts the event in the outbox, one item for all
webhooks. The event on the bus then wakes a worker. For each webhook, the worker sends what follows the webhook's cursor
of this object. A lease in the cursor lets one worker send at a time. If a worker finds the lease taken, it raises
`wakes` of the cursor. So the holder of the lease cannot release it without looking for the new event.

The cursor records for which versions of the object the outbox had no event. If one is stored later, for example because
a tool published a later event first, this event and the later ones are sent.

An event that fails waits for its retry, and the later events of its object wait behind it. Other objects and other
webhooks go on. After several failures without a success, the webhook gets only one attempt at a time, after growing
waits. If an event fails for days, the webhook is paused.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from functions.dynamodb.keys import Instant, to_instant
from functions.dynamodb.table import QueryPage
from functions.dynamodb.writes import ConditionFailed, WriteConflict, put_if_absent, update
from functions.model.changes import Change
from functions.model.entities import Delivery, OutboxEvent, Replay, Webhook, WebhookCursor
from functions.model.events import WEBHOOK_EVENTS, OutboxPlace, ReceivedEvent, build_event_detail
from functions.model.patterns import (
    CURSORS_OF_WEBHOOK,
    OUTBOX_OF_OBJECT,
    WAITING_CURSORS,
    WEBHOOK_BY_ID,
    WEBHOOK_CURSOR_BY_OBJECT,
    WEBHOOKS,
)
from functions.model.retention import OUTBOX_DAYS, WEBHOOK_FAILING_DAYS
from functions.model.table import DELIVERY, OUTBOX_EVENT, WEBHOOK, WEBHOOK_CURSOR
from functions.shop.shop import ShopContext, retries_on_conflict, retry_on_conflict
from functions.shop.webhooks import valid_secrets

LEASE_SECONDS = 60
"""How long a lease lasts after the last event. webhook_sender limits an attempt to 15 seconds."""
PAGE = 10
MAX_MISSING = 100
"""How many missing versions a cursor has at most: the newest ones."""
FAILURES_BEFORE_WAITING = 5
"""After how many failures without a success a webhook gets only one attempt at a time."""
RETRY_MINUTES = (1, 5, 30, 120, 300, 600, 840, 1200)
"""The waits after the first failures of an event, as https://www.standardwebhooks.com recommends; then the last one."""


@dataclass(frozen=True)
class Answer:
    """The answer of a webhook. `status`: its HTTP status; None if there was no answer, then `error` says why."""

    status: int | None
    error: str | None
    ms: int

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


@dataclass(frozen=True)
class Message:
    """A signed event. `secrets`: the webhook's secrets, with which the event is signed."""

    url: str
    event_id: str
    body: str
    secrets: Sequence[str]


Send = Callable[[Message], Answer]
"""Sends an event to a webhook, and returns the answer. It raises no error."""


@dataclass
class Result:
    """What happened: how many events were sent, how many attempts failed, and how many webhooks were paused."""

    sent: int = 0
    failed: int = 0
    paused: int = 0


class OutOfTime(Exception):
    """There is no time to send the next event. The caller must call again later."""


# the outbox -----------------------------------------------------------------------------------------------------------
def list_subscribed(shop: ShopContext) -> Sequence[Webhook]:
    """Return all webhooks (access pattern W1)."""
    return tuple(shop.table.query_all(WEBHOOKS))


def build_wanted_event(
    shop: ShopContext, change: Change, webhooks: Sequence[Webhook], *, late: bool = False
) -> dict[str, Any] | None:
    """Return the event of a change as `events.build_event_detail` does. If a webhook has it, put it in the outbox.

    Then the event also has "outbox", which wakes the worker. `late`: whether the event is published again. Then it and
    the later events of its object are sent once more, because webhooks may lack it. Safe to repeat.
    """
    detail = build_event_detail(change)
    if detail is None or not any(_has(webhook, detail["type"], detail["data"]) for webhook in webhooks):
        return detail
    object_id = f"{change.image['PK']['S']}/{change.image['SK']['S']}".replace("#", ":")
    created = change.image.get(change.row.created_field, {"S": ""})["S"]
    place: dict[str, Any] = {"object_id": object_id, "position": f"{created}/{change.version:010}"}
    stored = OutboxEvent(
        **place,
        event_id=change.id,
        event_name=detail["type"],
        at=shop.now_instant(),
        body=json.dumps(detail, separators=(",", ":")),
        ttl=int((shop.now() + timedelta(days=OUTBOX_DAYS)).timestamp()),
    )
    with suppress(WriteConflict):  # it is there from an earlier time: its bytes stay
        shop.table.write(put_if_absent(OUTBOX_EVENT, stored))
    return {**detail, "outbox": {**place, "late": late}}


def is_subscribed(webhook: Webhook, event: ReceivedEvent) -> bool:
    """Return whether a webhook has an event, by its name and attributes."""
    return _has(webhook, event.name, {name: getattr(event.data, name, None) for name in webhook.where})


def _has(webhook: Webhook, event_name: str, data: Mapping[str, Any]) -> bool:
    return event_name in (webhook.event_names or WEBHOOK_EVENTS) and all(
        name in data and _as_text(data[name]) == value for name, value in webhook.where.items()
    )


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# sending --------------------------------------------------------------------------------------------------------------
def merge_places(places: Iterable[OutboxPlace]) -> list[OutboxPlace]:
    """Return one place for each object, with which `deliver` sends all its events that have come."""
    found: dict[str, OutboxPlace] = {}
    for place in places:
        other = found.get(place.object_id, place)
        first = min(other.position, place.position)
        found[place.object_id] = OutboxPlace(place.object_id, first, other.late or place.late)
    return list(found.values())


def deliver(
    shop: ShopContext,
    webhook_id: str,
    place: OutboxPlace,
    send: Send,
    result: Result,
    is_out_of_time: Callable[[], bool] = lambda: False,
) -> None:
    """Send the events of an object that follow a webhook's cursor. Safe to repeat. Adds to `result` what happened.

    Sends nothing if another invocation holds the lease, if an event of the object waits for its retry, or if the
    webhook is paused or waits; then the retries send them. Raises OutOfTime, TableBusy and WriteConflict; then call
    again.
    """
    webhook = shop.table.get(WEBHOOK_BY_ID, webhook_id=webhook_id)
    if webhook is None:
        return
    if cursor := retry_on_conflict(shop, lambda: _take_lease(shop, webhook, place)):
        _Sending(shop, webhook, send, result, is_out_of_time).run(cursor)


def _take_lease(shop: ShopContext, webhook: Webhook, place: OutboxPlace) -> WebhookCursor | None:
    """Return the cursor with a new lease, or None if nothing is to be sent now."""
    now = shop.now_instant()
    found = shop.table.get(WEBHOOK_CURSOR_BY_OBJECT, webhook_id=webhook.webhook_id, object_id=place.object_id)
    cursor = found or WebhookCursor(
        webhook_id=webhook.webhook_id,
        object_id=place.object_id,
        position="",
        since=webhook.active_from,
        ttl=_expiry(shop),
    )
    if cursor.position >= place.position and (place.late or _version(place.position) in cursor.missing):
        cursor = replace(cursor, position=_position_before(shop, cursor, place))
    if cursor.lease and cursor.leased_until and cursor.leased_until > now:
        # The holder looks for new events before it releases the lease. If it was killed, a retry looks for them.
        _write(shop, found, replace(cursor, wakes=cursor.wakes + 1, retry_at=cursor.retry_at or cursor.leased_until))
        return None
    if webhook.status == "ACTIVE" and _is_waiting(webhook, cursor, now):
        if found and cursor.position != found.position:
            _write(shop, found, cursor)
        return None
    if (waits_until := _waits_until(shop, webhook)) is not None:
        if cursor.retry_at is None or cursor.position != (found or cursor).position:
            _write(shop, found, replace(cursor, retry_at=waits_until))
        return None
    return _write(shop, found, replace(cursor, lease=shop.new_id(), leased_until=_lease_end(shop)))


def _position_before(shop: ShopContext, cursor: WebhookCursor, place: OutboxPlace) -> str:
    """Return the position from which a late event is sent: before it, and before any other event that came late.

    The worker may hear of a later one of these events first, if its message about an earlier one must be repeated.
    """
    created, _, version = place.position.rpartition("/")
    first = min((int(version), *cursor.missing))
    if first < int(version):
        found = shop.table.query(
            OUTBOX_OF_OBJECT, limit=MAX_MISSING, after=f"{created}/{first - 1:010}", object_id=place.object_id
        )
        versions = [_version(event.position) for event in found.items]
        first = next((one for one in versions if one in cursor.missing), int(version))
    return f"{created}/{min(first, int(version)) - 1:010}"


def _version(position: str) -> int:
    """Return the version of the object at a position; 0 for the first position, ""."""
    return int(position.rpartition("/")[2] or 0)


def _missing_versions(after: str, events: Sequence[OutboxEvent]) -> list[int]:
    """Return the versions between a position and the last event that have no event, at most MAX_MISSING."""
    versions = [_version(event.position) for event in events]
    last = max(versions, default=0)
    return [one for one in range(max(_version(after), last - MAX_MISSING) + 1, last) if one not in versions]


def _is_waiting(webhook: Webhook, cursor: WebhookCursor, now: Instant) -> bool:
    """Return whether an event of the object waits for its retry. When staff resume a webhook, no wait goes on."""
    if cursor.retry_at is None or cursor.retry_at <= now:
        return False
    waits = timedelta(minutes=RETRY_MINUTES[min(cursor.attempts, len(RETRY_MINUTES)) - 1])
    return webhook.resumed_at < to_instant(datetime.fromisoformat(cursor.retry_at) - waits)


def _waits_until(shop: ShopContext, webhook: Webhook) -> Instant | None:
    """Return the time of the retry that a new event must wait for; None if it can be sent now."""
    now = shop.now_instant()
    if webhook.status == "PAUSED":
        return now  # its retries start when it is resumed
    return webhook.retry_at if webhook.retry_at and webhook.retry_at > now else None


def _write(shop: ShopContext, before: WebhookCursor | None, after: WebhookCursor) -> WebhookCursor:
    """Store a cursor, and return it. Raises WriteConflict if it changed since it was read."""
    if before is None:
        try:
            shop.table.write(put_if_absent(WEBHOOK_CURSOR, after, condition_error=ConditionFailed))
        except ConditionFailed as failed:
            if failed.item is None or failed.item.ttl > shop.now().timestamp():
                raise WriteConflict(WEBHOOK_CURSOR.type) from None
            before = failed.item  # it has expired, but DynamoDB has not deleted it yet
        else:
            return after
    after = replace(after, version=before.version + 1)
    shop.table.write(update(WEBHOOK_CURSOR, before, after))
    return after


def _lease_end(shop: ShopContext) -> Instant:
    return to_instant(shop.now() + timedelta(seconds=LEASE_SECONDS))


def _expiry(shop: ShopContext) -> int:
    """Return the `ttl` of a cursor, which outlives all events that it has passed."""
    return int((shop.now() + timedelta(days=OUTBOX_DAYS + 1)).timestamp())


@dataclass
class _Sending:
    """Sends events to one webhook."""

    shop: ShopContext
    webhook: Webhook
    send: Send
    result: Result
    is_out_of_time: Callable[[], bool]

    def run(self, cursor: WebhookCursor) -> None:
        lease = cursor.lease
        while cursor.lease == lease:
            cursor = self._send_page(cursor)

    def _send_page(self, cursor: WebhookCursor) -> WebhookCursor:
        """Send the next events after a cursor, and return the cursor then.

        At the end its lease is released, except if another invocation woke this one after it had read the events.
        """
        woken = cursor.wakes
        found = self._read_outbox(cursor)
        missing = _missing_versions(cursor.position, found.items)
        due = [event for event in found.items if self._is_due(cursor, event)]
        last = found.items[-1].position if found.items else cursor.position
        if not due:
            return self._move(cursor, last, missing, release=found.after is None)
        for event in due:
            if self.is_out_of_time():
                self._move(cursor, cursor.position, missing, release=True, retry_at=self.shop.now_instant())
                raise OutOfTime
            answer = self._attempt(cursor, event)
            if not answer.is_success:
                return self._fail(cursor)
            self.result.sent += 1
            is_last = event is due[-1]
            position = last if is_last else event.position
            moved = self._move(
                cursor,
                position,
                missing,
                release=is_last and found.after is None and cursor.wakes == woken,
                failing_since=None,
                attempts=0,
                sent_at=event.at,
                ttl=_expiry(self.shop),
            )
            if moved.lease != cursor.lease or moved.position != position:
                return moved
            cursor = moved
        return cursor

    def _read_outbox(self, cursor: WebhookCursor) -> QueryPage[OutboxEvent]:
        """Return the next events after a cursor.

        A Query may return an event without an earlier one that was stored while it ran. So if a version is missing,
        read again until two answers are the same.
        """
        query = partial(
            self.shop.table.query,
            OUTBOX_OF_OBJECT,
            limit=PAGE,
            after=cursor.position or None,
            object_id=cursor.object_id,
        )
        found = query()
        while _missing_versions(cursor.position, found.items) and (again := query()).items != found.items:
            found = again
        return found

    def _is_due(self, cursor: WebhookCursor, event: OutboxEvent) -> bool:
        """Return whether an event must be sent: the webhook has it, and a replay does not leave it out."""
        if event.at < max(cursor.since, self.webhook.active_from):
            return False
        is_replayed = cursor.replay_until is not None and event.position <= cursor.replay_until
        if is_replayed and cursor.replay_events and event.event_name not in cursor.replay_events:
            return False
        return _has(self.webhook, event.event_name, json.loads(event.body)["data"])

    def _attempt(self, cursor: WebhookCursor, event: OutboxEvent) -> Answer:
        """Send an event once, and store the attempt."""
        secrets = valid_secrets(self.shop, self.webhook)
        answer = self.send(Message(self.webhook.url, event.event_id, event.body, secrets))
        attempt = Delivery(
            webhook_id=self.webhook.webhook_id,
            at=self.shop.now_instant(),
            event_id=event.event_id,
            event_name=event.event_name,
            object_id=event.object_id,
            attempt=cursor.attempts + 1,
            http_status=answer.status,
            error=answer.error,
            ms=answer.ms,
            ttl=int((self.shop.now() + timedelta(days=OUTBOX_DAYS)).timestamp()),
        )
        with suppress(WriteConflict):  # two attempts within a millisecond, after a lease had ended: one is enough
            self.shop.table.write(put_if_absent(DELIVERY, attempt))
        if answer.is_success and self.webhook.failures:
            self.webhook = _change_webhook(self.shop, self.webhook, _count_success)
        return answer

    def _move(
        self, cursor: WebhookCursor, position: str, missing: Sequence[int], *, release: bool, **fields: Any
    ) -> WebhookCursor:
        """Store that a webhook has the events up to a position, and return the stored cursor.

        `missing`: the versions without event after the cursor.
        If another invocation woke this one meanwhile, the lease is kept, because there may be a new event. If a replay
        moved the cursor, it stays there. If another invocation took the lease, nothing is stored. `retry_at` stays
        until the lease is released. So if this invocation is killed before, a retry sends the rest.
        """
        kept: dict[str, Any] = {"leased_until": _lease_end(self.shop)}
        released: dict[str, Any] = {"lease": None, "leased_until": None, "retry_at": None}
        passed = {
            *(one for one in cursor.missing if one <= _version(cursor.position)),
            *(one for one in missing if one < _version(position)),
        }
        fields = {"position": position, "missing": tuple(sorted(passed)[-MAX_MISSING:]), **fields}

        def attempt() -> WebhookCursor:
            try:
                return _write(self.shop, cursor, replace(cursor, **{**(released if release else kept), **fields}))
            except WriteConflict:
                stored = self._read(cursor)
                if stored is None or stored.lease != cursor.lease:
                    return replace(cursor, lease=None)
                if stored.position != cursor.position:
                    return stored
                return _write(self.shop, stored, replace(stored, **kept, **fields))

        return retry_on_conflict(self.shop, attempt)

    def _fail(self, cursor: WebhookCursor) -> WebhookCursor:
        """Store that the next event failed and waits for its retry. Release the lease."""
        now = self.shop.now()
        wait = RETRY_MINUTES[min(cursor.attempts, len(RETRY_MINUTES) - 1)]
        failed: dict[str, Any] = {
            "attempts": cursor.attempts + 1,
            "failing_since": cursor.failing_since or to_instant(now),
            "retry_at": to_instant(now + timedelta(minutes=wait)),
            "ttl": _expiry(self.shop),
            "lease": None,
            "leased_until": None,
        }

        def attempt() -> WebhookCursor:
            stored = self._read(cursor)
            if stored is None or stored.lease != cursor.lease:
                return replace(cursor, lease=None)
            return _write(self.shop, stored, replace(stored, **failed))

        retry_on_conflict(self.shop, attempt)
        since = max(failed["failing_since"], self.webhook.resumed_at)
        gives_up = since < to_instant(now - timedelta(days=WEBHOOK_FAILING_DAYS))
        self.webhook = _change_webhook(
            self.shop, self.webhook, lambda before: _count_failure(self.shop, before, gives_up=gives_up)
        )
        self.result.failed += 1
        self.result.paused += gives_up
        return replace(cursor, lease=None)

    def _read(self, cursor: WebhookCursor) -> WebhookCursor | None:
        return self.shop.table.get(WEBHOOK_CURSOR_BY_OBJECT, webhook_id=cursor.webhook_id, object_id=cursor.object_id)


def _count_success(webhook: Webhook) -> Webhook:
    return replace(webhook, failures=0, retry_at=None)


def _count_failure(shop: ShopContext, webhook: Webhook, *, gives_up: bool) -> Webhook:
    failures = webhook.failures + 1
    if webhook.status == "PAUSED":
        return webhook
    if gives_up:
        return replace(webhook, status="PAUSED", paused_by="failures", failures=failures)
    if failures < FAILURES_BEFORE_WAITING:
        return replace(webhook, failures=failures)
    wait = RETRY_MINUTES[min((failures - FAILURES_BEFORE_WAITING) // 5, 2)]
    return replace(webhook, failures=failures, retry_at=to_instant(shop.now() + timedelta(minutes=wait)))


@retries_on_conflict
def _change_webhook(shop: ShopContext, webhook: Webhook, decide: Callable[[Webhook], Webhook]) -> Webhook:
    """Change the counters of a webhook, and return it."""
    before = shop.table.get(WEBHOOK_BY_ID, webhook_id=webhook.webhook_id)
    if before is None:
        return webhook
    after = decide(before)
    if after != before:
        after = replace(after, version=before.version + 1)
        shop.table.write(update(WEBHOOK, before, after))
    return after


# retries and replays --------------------------------------------------------------------------------------------------
def retry_waiting(
    shop: ShopContext,
    webhook: Webhook,
    send: Send,
    result: Result,
    is_out_of_time: Callable[[], bool] = lambda: False,
) -> None:
    """Start the replay of a webhook, and send its events whose wait is over. Adds to `result` what happened.

    Stops when the time is over, or when the webhook must wait again. Safe to repeat. Raises as `deliver`.
    """
    if webhook.replay and not _move_cursors_back(shop, webhook, is_out_of_time):
        return
    if _waits_until(shop, webhook) is not None:
        return
    now = shop.now_instant()
    for cursor in shop.table.query_all(WAITING_CURSORS, webhook_id=webhook.webhook_id):
        if is_out_of_time():
            return
        if _is_waiting(webhook, cursor, now):
            if webhook.resumed_at < to_instant(shop.now() - timedelta(minutes=RETRY_MINUTES[-1])):
                return  # the later ones wait, too
            continue
        place = OutboxPlace(cursor.object_id, cursor.position)
        deliver(shop, webhook.webhook_id, place, send, result, is_out_of_time)
        current = shop.table.get(WEBHOOK_BY_ID, webhook_id=webhook.webhook_id)
        if current is None or _waits_until(shop, current) is not None:
            return


def _move_cursors_back(shop: ShopContext, webhook: Webhook, is_out_of_time: Callable[[], bool]) -> bool:
    """Move the cursors of a replay back, object by object. Return whether all are moved."""
    replay = webhook.replay
    assert replay is not None
    after: str | None = replay.after
    while True:
        chosen = {"object_id": replay.object_id} if replay.object_id else {}
        page = shop.table.query(
            CURSORS_OF_WEBHOOK,
            limit=100,
            after=f"CURSOR#{after}" if after else None,
            webhook_id=webhook.webhook_id,
            **chosen,
        )
        for cursor in page.items:
            retry_on_conflict(shop, partial(_move_back, shop, cursor, replay))
        is_done = page.after is None or bool(replay.object_id)
        after = page.items[-1].object_id if page.items else after
        if is_done or is_out_of_time():
            left = None if is_done else replace(replay, after=after)
            _change_webhook(shop, webhook, partial(_with_replay, left))
            return is_done


def _with_replay(left: Replay | None, webhook: Webhook) -> Webhook:
    return replace(webhook, replay=left)


def _move_back(shop: ShopContext, found: WebhookCursor, replay: Replay) -> None:
    """Move a cursor back for a replay. Does nothing if an invocation that was killed has moved it already."""
    if _as_moved_back(shop, found, replay) == found:
        return
    cursor = shop.table.get(WEBHOOK_CURSOR_BY_OBJECT, webhook_id=found.webhook_id, object_id=found.object_id)
    if cursor is not None and (moved := _as_moved_back(shop, cursor, replay)) != cursor:
        _write(shop, cursor, moved)


def _as_moved_back(shop: ShopContext, cursor: WebhookCursor, replay: Replay) -> WebhookCursor:
    if (cursor.sent_at or "") < replay.since:
        return cursor  # nothing was sent since then
    return replace(
        cursor,
        position="",
        since=replay.since,
        retry_at=cursor.retry_at or shop.now_instant(),
        replay_until=max(cursor.position, cursor.replay_until or ""),
        replay_events=replay.event_names,
    )
