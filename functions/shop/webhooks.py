"""Webhooks: staff subscribe an address to events of the shop. functions/shop/webhook_deliveries.py sends the events.

A secret is derived from the shop's key, the webhook's id and the number of the secret. So the table has no secret, and
only staff see it, in the answer to the request that made it. https://www.standardwebhooks.com
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from functions.dynamodb.keys import Instant, to_instant
from functions.dynamodb.writes import Write, delete, put_if_absent, update
from functions.model.entities import Delivery, Replay, Webhook, WebhookStatus
from functions.model.errors import InvalidInput, WrongState
from functions.model.events import EVENTS_BY_NAME, WEBHOOK_EVENTS
from functions.model.patterns import DELIVERIES_OF_WEBHOOK, WEBHOOK_BY_ID, WEBHOOKS
from functions.model.table import WEBHOOK
from functions.shop.audit import deletion_entry
from functions.shop.idempotency import IdempotentResult, run_idempotently
from functions.shop.lists import ListPage, ListRequest, read_page
from functions.shop.shop import Caller, ShopContext, require_found, retries_on_conflict, save_change

MAX_WEBHOOKS_READ_AGE_SECONDS = 5
"""How old the list of webhooks may be with which the event publisher decides what to put in the outbox."""
ACTIVE_AFTER = timedelta(seconds=3 * MAX_WEBHOOKS_READ_AGE_SECONDS)
"""How long after its creation a webhook gets events. Each publisher has read the list again by then."""
SECRET_OVERLAP = timedelta(hours=24)
"""For how long after a rotation each event is also signed with the secret before."""


def create_webhook(
    shop: ShopContext, caller: Caller, key: str, url: str, event_names: Sequence[str], where: Mapping[str, str]
) -> IdempotentResult:
    """Subscribe an address to events. Only staff may call it. The result is {"webhook_id", "active_from"}.

    `key`: the idempotency key. `url`: the address, which the caller has checked. `event_names`: () for all events.
    `where`: the values that attributes of the event must have, as text. Raises InvalidInput for an unknown event or
    attribute, IdempotencyKeyReused and NotAllowed.
    """
    caller.require_group("staff")
    _check_filter(event_names, where)

    def decide(shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        now = shop.now_instant()
        made = Webhook(
            webhook_id=shop.new_id(),
            url=url,
            event_names=tuple(event_names),
            where=where,
            status="ACTIVE",
            active_from=to_instant(shop.now() + ACTIVE_AFTER),
            created_at=now,
            updated_at=now,
            resumed_at=now,
        )
        return [put_if_absent(WEBHOOK, made)], {"webhook_id": made.webhook_id, "active_from": made.active_from}

    body = {"url": url, "events": [*event_names], "where": {**where}}
    return run_idempotently(shop, caller.id, key, "create_webhook", body, decide)


def _check_filter(event_names: Sequence[str], where: Mapping[str, str]) -> None:
    if unknown := sorted({*event_names} - {*WEBHOOK_EVENTS}):
        raise InvalidInput("events", f"no such event: {', '.join(unknown)}; docs/events.md lists them")
    fields = {name for event in event_names or WEBHOOK_EVENTS for name in EVENTS_BY_NAME[event].fields}
    if unknown := sorted({*where} - fields):
        raise InvalidInput("where", f"none of these events has the attribute {', '.join(unknown)}")


def list_webhooks(shop: ShopContext, caller: Caller) -> Sequence[Webhook]:
    """Return all webhooks, sorted by id (access pattern W1). Only staff may call it."""
    caller.require_group("staff")
    return tuple(shop.table.query_all(WEBHOOKS))


def get_webhook(shop: ShopContext, caller: Caller, webhook_id: str) -> Webhook:
    """Return a webhook (access pattern W1b). Only staff may call it. Raises NotFound and NotAllowed."""
    caller.require_group("staff")
    return require_found(shop.table.get(WEBHOOK_BY_ID, webhook_id=webhook_id), "webhook")


def list_deliveries(shop: ShopContext, request: ListRequest, webhook_id: str) -> ListPage[Delivery]:
    """Return the attempts to send events to a webhook, newest first (access pattern W4). Only staff may call it."""
    get_webhook(shop, request.caller, webhook_id)
    return read_page(shop, request, DELIVERIES_OF_WEBHOOK, webhook_id=webhook_id)


def change_webhook(
    shop: ShopContext,
    caller: Caller,
    webhook_id: str,
    *,
    url: str | None = None,
    event_names: Sequence[str] | None = None,
    where: Mapping[str, str] | None = None,
    status: WebhookStatus | None = None,
) -> Webhook:
    """Change a webhook, pause it or resume it, and return it. None keeps a value. Only staff may call it.

    While a webhook is paused, its events wait for OUTBOX_DAYS. Safe to repeat. Raises InvalidInput, NotFound and
    NotAllowed.
    """

    def decide(before: Webhook) -> Webhook:
        after = replace(
            before,
            url=url or before.url,
            event_names=before.event_names if event_names is None else tuple(event_names),
            where=before.where if where is None else where,
        )
        _check_filter(after.event_names, after.where)
        if status == "PAUSED" and before.status == "ACTIVE":
            return replace(after, status="PAUSED", paused_by="staff")
        if status == "ACTIVE" or url:  # staff repaired it, so no wait goes on
            after = replace(after, failures=0, retry_at=None, resumed_at=shop.now_instant())
        return replace(after, status="ACTIVE", paused_by=None) if status == "ACTIVE" else after

    return _change(shop, caller, webhook_id, decide)


@retries_on_conflict
def _change(shop: ShopContext, caller: Caller, webhook_id: str, decide: Callable[[Webhook], Webhook]) -> Webhook:
    before = get_webhook(shop, caller, webhook_id)
    return save_change(shop, WEBHOOK, before, decide(before))


@retries_on_conflict
def delete_webhook(shop: ShopContext, caller: Caller, webhook_id: str) -> None:
    """Delete a webhook. What is left of it in the table expires. Raises NotAllowed, NotFound after an earlier call."""
    found = get_webhook(shop, caller, webhook_id)
    shop.table.write(delete(WEBHOOK, found), *deletion_entry(shop, WEBHOOK, found))


def replay(
    shop: ShopContext,
    caller: Caller,
    webhook_id: str,
    since: Instant,
    event_names: Sequence[str] = (),
    object_id: str | None = None,
) -> Webhook:
    """Send events from `since` on again, with their first ids and bytes. Only staff may call it.

    `event_names`: only these events; () for all. `object_id`: only the events of this object. Objects of which the
    webhook never had an event are left out. Raises WrongState while a replay has not reached all objects, InvalidInput,
    NotFound and NotAllowed.
    """

    def decide(before: Webhook) -> Webhook:
        _check_filter(event_names, {})
        if before.replay:
            raise WrongState("webhook", "REPLAYING", "replay")
        return replace(before, replay=Replay(since=since, event_names=tuple(event_names), object_id=object_id))

    return _change(shop, caller, webhook_id, decide)


# secrets --------------------------------------------------------------------------------------------------------------
def rotate_secret(shop: ShopContext, caller: Caller, key: str, webhook_id: str) -> IdempotentResult:
    """Give a webhook a new secret. For SECRET_OVERLAP, events are signed with both. Only staff may call it.

    `key`: the idempotency key. The result is {"number", "old_secret_until"}. Raises NotFound, NotAllowed and
    IdempotencyKeyReused.
    """

    def decide(shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        before = get_webhook(shop, caller, webhook_id)
        after = replace(
            before,
            secret_number=before.secret_number + 1,
            old_secret_until=to_instant(shop.now() + SECRET_OVERLAP),
            updated_at=shop.now_instant(),
            version=before.version + 1,
        )
        made = {"number": after.secret_number, "old_secret_until": after.old_secret_until}
        return [update(WEBHOOK, before, after)], made

    caller.require_group("staff")
    return run_idempotently(shop, caller.id, key, "rotate_webhook_secret", {"webhook_id": webhook_id}, decide)


def derive_secret(shop: ShopContext, webhook_id: str, number: int) -> str:
    """Return the secret of a webhook with this number, in the form of Standard Webhooks."""
    return "whsec_" + base64.b64encode(shop.digest("webhook", webhook_id, str(number))).decode()


def valid_secrets(shop: ShopContext, webhook: Webhook) -> Sequence[str]:
    """Return the secrets with which an event is signed now: the newest, and the one before for SECRET_OVERLAP."""
    numbers = [webhook.secret_number]
    if webhook.old_secret_until and webhook.old_secret_until > shop.now_instant():
        numbers.append(webhook.secret_number - 1)
    return [derive_secret(shop, webhook.webhook_id, number) for number in numbers]
