"""docs/asyncapi.json: the channels and the messages of the shop's events, as AsyncAPI 3 describes them.

https://www.asyncapi.com/docs/reference/specification/v3.0.0
"""

from collections.abc import Callable, Iterable
from typing import Any

from docs import markdown
from functions.model.events import EVENT_SOURCE, EVENTS, EVENTS_BY_NAME, WEBHOOK_EVENTS, EventContract
from tools.version import read_version

WEBHOOK_HEADERS = {
    "type": "object",
    "properties": {
        "webhook-id": {"type": "string", "description": "the id of the message: the same at each delivery"},
        "webhook-timestamp": {"type": "string", "description": "the time of this attempt, in seconds since 1970"},
        "webhook-signature": {
            "type": "string",
            "description": "`v1,` and the base64 of an HMAC-SHA256 of id, timestamp and body, joined by dots; several "
            "signatures, separated by spaces, while a secret is rotated",
        },
    },
    "required": ["webhook-id", "webhook-timestamp", "webhook-signature"],
}
"""https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md"""


def render_document() -> str:
    """Return the document. Its messages refer to the JSON Schemas in docs/events."""
    document = {
        "asyncapi": "3.0.0",
        "id": f"urn:{EVENT_SOURCE}:events",
        "info": {
            "title": "Orderstream events",
            "version": read_version(),
            "description": "Events come at least once and in any order: skip an `id` that you have processed, and a "
            "`version` below one that you have seen of the same item. Ignore fields and values that you do not know.",
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "servers": {
            "eventBridge": {
                "host": "events.{region}.amazonaws.com",
                "protocol": "eventbridge",
                "description": "Amazon EventBridge in the shop's account",
                "variables": {"region": {"description": "the AWS Region of the shop"}},
            },
            "subscriber": {
                "host": "{host}",
                "protocol": "https",
                "description": "the server of a subscriber",
                "variables": {"host": {"description": "the host of the subscriber's URL"}},
            },
        },
        "channels": {
            "bus": {
                "address": "{bus}",
                "title": "The shop's event bus",
                "description": "The headers are fields of EventBridge's envelope, and the payload is its `detail`.",
                "servers": [{"$ref": "#/servers/eventBridge"}],
                "parameters": {"bus": {"description": "the output BusName of the shop's stack"}},
                "messages": _messages(EVENTS, _envelope_headers),
            },
            "webhooks": {
                "address": None,
                "title": "A subscriber's URL",
                "description": "A POST request in the format of Standard Webhooks. The body is the same JSON as the "
                "`detail` of the event on the bus, without the field `outbox`.",
                "servers": [{"$ref": "#/servers/subscriber"}],
                "messages": _messages(
                    [EVENTS_BY_NAME[name] for name in WEBHOOK_EVENTS],
                    lambda _: {"$ref": "#/components/schemas/webhookHeaders"},
                ),
            },
        },
        "operations": {
            "publishEvent": {
                "action": "send",
                "summary": "The shop publishes an event after each change.",
                "channel": {"$ref": "#/channels/bus"},
            },
            "callWebhook": {
                "action": "send",
                "summary": "The shop sends an event to each webhook that subscribes to it.",
                "channel": {"$ref": "#/channels/webhooks"},
                "bindings": {"http": {"method": "POST", "bindingVersion": "0.3.0"}},
            },
        },
        "components": {"schemas": {"webhookHeaders": WEBHOOK_HEADERS}},
    }
    return markdown.as_json(document) + "\n"


def _messages(contracts: Iterable[EventContract], headers: Callable[[EventContract], dict[str, Any]]) -> dict[str, Any]:
    """Return the messages of a channel by event. `headers`: returns the schema of an event's headers."""
    return {
        event.name: {
            "name": event.name,
            "title": f"{event.name}, schema {event.schema}",
            "summary": event.description,
            "contentType": "application/json",
            "headers": headers(event),
            "payload": {"$ref": f"events/{event.name}.json"},
        }
        for event in contracts
    }


def _envelope_headers(event: EventContract) -> dict[str, Any]:
    constants = {"source": EVENT_SOURCE, "detail-type": event.name}
    return {
        "type": "object",
        "properties": {name: {"type": "string", "const": value} for name, value in constants.items()},
        "required": [*constants],
    }
