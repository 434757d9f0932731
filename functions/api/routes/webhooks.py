"""Webhooks: staff subscribe addresses to events, and see each attempt to send one."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, cast

from aws_lambda_powertools.event_handler import Response
from pydantic import Field, StringConstraints

from functions.adapters import webhook_sender
from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import (
    Id,
    IdempotencyKey,
    KeySafeText,
    Listed,
    RequestModel,
    ResponseModel,
    command_response,
    examples,
)
from functions.api.http.paging import Cursor, Limit, Since, Timestamp, Until, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.dynamodb.keys import Instant
from functions.model.entities import WebhookStatus
from functions.model.errors import InvalidInput, NotAllowed, WrongState
from functions.runtime import environment
from functions.shop import webhooks
from functions.shop.lists import ListRequest

router = Router()
Address = Annotated[
    str,
    StringConstraints(min_length=1, max_length=500),
    Field(description="It begins with https://, has a public host, and does not lead into a private network."),
]
EventNames = Annotated[
    Sequence[Annotated[str, StringConstraints(max_length=64)]],
    Field(max_length=100, description="The types of events; none means all. docs/events.md lists them."),
]
Attributes = Annotated[
    Mapping[Annotated[str, StringConstraints(max_length=64)], Annotated[str, StringConstraints(max_length=200)]],
    Field(max_length=10, description="Only events whose attributes have these values, such as a currency."),
]


class NewWebhook(RequestModel):
    """An address to which events are sent, as https://www.standardwebhooks.com describes."""

    url: Address
    events: EventNames = ()
    where: Attributes = Field(default_factory=dict)
    model_config = examples(
        {"url": "https://hooks.example.com/orders", "events": ["OrderPaid"], "where": {"currency": "EUR"}}
    )


class WebhookChange(RequestModel):
    """The new values of a webhook. An omitted field keeps its value. PAUSED: its events wait, ACTIVE: they are sent."""

    url: Address | None = None
    events: EventNames | None = None
    where: Attributes | None = None
    status: WebhookStatus | None = None
    model_config = examples({"status": "PAUSED"})


class NewReplay(RequestModel):
    """Which events to send again: from a time (UTC) on, only these types, only of this object."""

    from_: Annotated[Timestamp, Field(alias="from")]
    events: EventNames = ()
    object_id: KeySafeText | None = None
    model_config = examples({"from": "2026-11-01", "events": ["OrderPaid"]})


class WebhookCreated(ResponseModel):
    """The id of a new webhook, and its secret, which is never shown again. Events from `active_from` on are sent."""

    webhook_id: str
    active_from: str
    secret: str


class NewSecret(ResponseModel):
    """The new secret. Until `old_secret_until`, events are signed with the old secret, too."""

    secret: str
    old_secret_until: str


class WebhookAnswer(ResponseModel):
    """A webhook. `failures`: failed attempts since the last success. `retry_at`: until then nothing is sent.

    `paused_by`: who paused it; "failures" if an event could not be sent for three days. `is_replaying`: whether a
    replay has not reached all objects.
    """

    webhook_id: str
    url: str
    events: Sequence[str] = Field(validation_alias="event_names")
    where: Mapping[str, str]
    status: WebhookStatus
    active_from: str
    created_at: str
    updated_at: str
    failures: int
    retry_at: str | None
    paused_by: Literal["staff", "failures"] | None
    is_replaying: bool
    version: int


class DeletedWebhook(ResponseModel):
    """The id of a deleted webhook."""

    webhook_id: str


class DeliveryAnswer(ResponseModel):
    """An attempt to send an event. `status`: of the answer; without an answer it is null, and `error` says why."""

    at: str
    event_id: str
    event_name: str
    object_id: str
    attempt: int
    status: int | None = Field(validation_alias="http_status")
    error: str | None
    ms: int


@router.post("/webhooks", status_code=201, openapi_extensions=problem_responses(NotAllowed))
def create_webhook(caller: SignedIn, key: IdempotencyKey, new: NewWebhook) -> Response[WebhookCreated]:
    """Send events to an address. The answer has the secret with which the receiver checks signatures. For staff.

    Events of an object, such as an order, are sent in order, at least once, with the same id and bytes each time. The
    receiver answers with a status from 200 to 299 within 10 seconds. Anything else is a failure, and the event is sent
    again after growing waits. If an event fails for three days, the webhook is paused.
    """
    _check_address(new.url)
    done = webhooks.create_webhook(shop(), caller, key, new.url, new.events, new.where)
    done.result["secret"] = webhooks.derive_secret(shop(), done.result["webhook_id"], 1)
    return command_response(done, WebhookCreated)


def _check_address(url: str) -> None:
    test_host = environment.load_environment(environment.ApiEnvironment).webhook_test_host
    try:
        webhook_sender.check_address(url, test_host)
    except webhook_sender.AddressRefused as refused:
        raise InvalidInput("url", str(refused)) from None


@router.get("/webhooks", openapi_extensions=problem_responses(NotAllowed))
def list_webhooks(caller: SignedIn) -> Listed[WebhookAnswer]:
    """List all webhooks, sorted by id. For staff."""
    return Listed(items=[WebhookAnswer.of(found) for found in webhooks.list_webhooks(shop(), caller)])


@router.get("/webhooks/<webhook_id>", openapi_extensions=problem_responses(NotAllowed))
def webhook(caller: SignedIn, webhook_id: Id) -> WebhookAnswer:
    """Show a webhook. For staff."""
    return WebhookAnswer.of(webhooks.get_webhook(shop(), caller, webhook_id))


@router.patch("/webhooks/<webhook_id>", openapi_extensions=problem_responses(NotAllowed))
def change_webhook(caller: SignedIn, webhook_id: Id, change: WebhookChange) -> WebhookAnswer:
    """Change, pause or resume a webhook. A change reaches all events after 15 seconds. Safe to repeat. For staff."""
    if change.url is not None:
        _check_address(change.url)
    changed = webhooks.change_webhook(
        shop(),
        caller,
        webhook_id,
        url=change.url,
        event_names=change.events,
        where=change.where,
        status=change.status,
    )
    return WebhookAnswer.of(changed)


@router.delete("/webhooks/<webhook_id>", openapi_extensions=problem_responses(NotAllowed))
def delete_webhook(caller: SignedIn, webhook_id: Id) -> DeletedWebhook:
    """Delete a webhook. Nothing is sent to it any more. For staff."""
    webhooks.delete_webhook(shop(), caller, webhook_id)
    return DeletedWebhook(webhook_id=webhook_id)


@router.post("/webhooks/<webhook_id>/secret", status_code=201, openapi_extensions=problem_responses(NotAllowed))
def rotate_secret(caller: SignedIn, key: IdempotencyKey, webhook_id: Id) -> Response[NewSecret]:
    """Give a webhook a new secret. For 24 hours, events are signed with the old and the new one. For staff."""
    done = webhooks.rotate_secret(shop(), caller, key, webhook_id)
    done.result["secret"] = webhooks.derive_secret(shop(), webhook_id, done.result["number"])
    return command_response(done, NewSecret)


@router.post(
    "/webhooks/<webhook_id>/replay", status_code=202, openapi_extensions=problem_responses(NotAllowed, WrongState)
)
def replay(caller: SignedIn, webhook_id: Id, new: NewReplay) -> Response[WebhookAnswer]:
    """Send events again that the webhook had, with their first ids and bytes. It starts within a minute. For staff.

    Events are kept for 14 days. While a replay has not reached all objects, another one is refused.
    """
    since = cast(Instant, new.from_)
    changed = webhooks.replay(shop(), caller, webhook_id, since, new.events, new.object_id)
    return Response(202, "application/json", WebhookAnswer.of(changed))


@router.get("/webhooks/<webhook_id>/deliveries", openapi_extensions=problem_responses(NotAllowed))
def deliveries(
    caller: SignedIn,
    webhook_id: Id,
    limit: Limit = 20,
    cursor: Cursor = None,
    since: Since = None,
    until: Until = None,
) -> Listed[DeliveryAnswer]:
    """List the attempts of the last 14 days to send events to a webhook, newest first. For staff."""
    request = ListRequest(caller, limit, cursor, since, until)
    return list_answer(webhooks.list_deliveries(shop(), request, webhook_id), DeliveryAnswer.of)
