"""Outgoing webhooks: subscriptions, the outbox of their events, what was sent of each object, and each attempt.

An object is an item whose changes are events, such as an order or a payment. `position` is the place of an event in the
order of its object's events: the creation time and the version of the item. So it sorts, also if an item was deleted
and created again, and a tool that publishes an event again finds the same position.
"""

from collections.abc import Mapping
from typing import Literal

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant

WebhookStatus = Literal["ACTIVE", "PAUSED"]


@entity
class Replay:
    """A replay that moves cursors back: all events from `since` on are sent again, to subscribers that had them.

    `event_names`: only these events; () for all. `object_id`: only the events of this object. `after`: the object of
    the last cursor that was moved.
    """

    since: Instant
    event_names: tuple[str, ...] = ()
    object_id: str | None = None
    after: str | None = None


@entity
class Webhook:
    """A subscription: events are sent to `url`.

    `event_names`: only these events; () for all. `where`: only events whose attributes have these values, as text.
    `active_from`: events that were stored earlier are not sent. `secret_number`: the secret is derived from the id and
    this number; until `old_secret_until`, each event is also signed with the secret before. `failures`: failed attempts
    since the last success. `retry_at`: set after several failures; until then nothing is sent. `resumed_at`: when
    staff set it ACTIVE or changed its address last. `paused_by`: who paused it; "failures" if an event could not be
    sent for days.
    """

    webhook_id: str
    url: str
    event_names: tuple[str, ...]
    where: Mapping[str, str]
    status: WebhookStatus
    active_from: Instant
    created_at: Instant
    updated_at: Instant
    resumed_at: Instant
    secret_number: int = 1
    old_secret_until: Instant | None = None
    failures: int = 0
    retry_at: Instant | None = None
    paused_by: Literal["staff", "failures"] | None = None
    replay: Replay | None = None
    version: int = 1

    @property
    def is_replaying(self) -> bool:
        """Whether a replay has not reached all objects."""
        return self.replay is not None


@entity
class OutboxEvent:
    """An event of an object, exactly as it is sent to each subscriber. `body`: the JSON object of the event.

    `at`: when it was stored. The event itself has an older time if it was published late or again.
    """

    object_id: str
    position: str
    event_id: str
    event_name: str
    at: Instant
    body: str
    ttl: int


@entity
class WebhookCursor:
    """What a subscriber has of the events of an object.

    `position`: of the last event that was sent or left out; "" for none. `lease`, `leased_until`: the invocation that
    sends now, so that one event is in flight; None if none sends. `retry_at`: an event waits for this time; None if
    none waits. `failing_since`, `attempts`: since when and how often the next event failed. `wakes`: how often another
    invocation found the lease. `sent_at`: the time of the last event that was sent. `missing`: the versions of the
    object before `position` that had no event then. A replay sets `since`, the earliest event to send, and
    `replay_until`: up to this position only `replay_events` are sent; () for all.
    """

    webhook_id: str
    object_id: str
    position: str
    since: Instant
    ttl: int
    lease: str | None = None
    leased_until: Instant | None = None
    retry_at: Instant | None = None
    failing_since: Instant | None = None
    attempts: int = 0
    wakes: int = 0
    sent_at: Instant | None = None
    missing: tuple[int, ...] = ()
    replay_until: str | None = None
    replay_events: tuple[str, ...] = ()
    version: int = 1


@entity
class Delivery:
    """One attempt to send an event. `http_status`: of the answer; None if there was none, then `error` says why."""

    webhook_id: str
    at: Instant
    event_id: str
    event_name: str
    object_id: str
    attempt: int
    http_status: int | None
    error: str | None
    ms: int
    ttl: int
