"""docs/events.md, docs/events.json and docs/events/: the contracts of all events, and the reactions to them."""

import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter

from docs import markdown
from docs.pages.table import describe_type
from functions.dynamodb.keys import Instant
from functions.model.events import EVENT_SOURCE, EVENTS, EVENTS_BY_NAME, EventContract
from functions.model.reactions import REACTIONS

EXAMPLE: Mapping[str, Any] = {
    "id": "0b7c2d5e9f1a4c3b8e6d7f0a1b2c3d4e",
    "type": "OrderPaid",
    "schema": 1,
    "time": "2026-11-21T09:30:00.123Z",
    "version": 2,
    "data": {
        "order_id": "ebz4oersmwzvd6p6iumrcaxfbq",
        "customer_id": "c0ffee00-1234-4abc-9def-0123456789ab",
        "status": "PAID",
        "total": 3750,
        "currency": "EUR",
        "placed_at": "2026-11-21T09:30:00.123Z",
    },
}
"""The detail of an event. A test compares it with its schema."""
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def render_page() -> str:
    return markdown.render_page("Events", "functions/model/events.py and reactions.py", _sections())


def render_schemas() -> dict[str, str]:
    """A JSON Schema for each event, by its name."""
    return {event.name: markdown.as_json(event_schema(event)) + "\n" for event in EVENTS}


def render_union() -> str:
    """Return docs/events.json: the JSON Schema that accepts the detail of any event."""
    union = {
        "$schema": SCHEMA_DIALECT,
        "$id": f"urn:{EVENT_SOURCE}:events",
        "title": "ShopEvent",
        "description": "the detail of any event of the shop",
        "oneOf": [{"$ref": f"events/{event.name}.json"} for event in EVENTS],
    }
    return markdown.as_json(union) + "\n"


def _sections() -> Iterator[str]:
    yield """
The shop publishes events on its own EventBridge bus. Systems outside AWS get them by
[webhook](how-to/receive-webhooks.md), in order for each object. To subscribe in AWS, create a rule on the bus, with
your own queue and dead-letter queue as its target:
"""
    yield markdown.json_block({"source": [EVENT_SOURCE], "detail-type": ["OrderPaid", "OrderShipped"]})
    yield """
- **At least once**: an event may be delivered again. Repeated events have the same `id`.
- **In any order**: compare the `version` of events about the same item as a number, not as a text. Ignore an event
  if you have seen a higher version of its item.
- **No personal data**: events contain ids, states and amounts. Read names and addresses from the API when you need
  them, because queues and archives of events cannot be erased.
- **Fields may be added**, and also values of a field with a fixed list. Under the same `schema` number, no field is
  removed or changes its meaning ([rules](upgrades.md#the-rules)). Ignore fields and values that you do not know, such
  as `outbox`, with which the shop wakes its own worker of webhooks.

[events.json](events.json) is the JSON Schema of all events, from which you can [generate a
client](how-to/generate-a-client.md). [asyncapi.json](asyncapi.json) describes the bus and the webhooks (AsyncAPI 3).
[Another team](how-to/subscribe-another-team.md) gets events in a queue of its own, also in its own account.
"""
    yield markdown.render_table(
        ("event", "meaning", "reactions"),
        [
            (f"[**{event.name}**](events/{event.name}.json)", event.description, _reaction_names(event))
            for event in EVENTS
        ],
    )
    yield "## The envelope"
    yield "The table lists the fields of each event's `detail`. The links above lead to the JSON Schema of each event."
    yield markdown.render_table(
        ("field", "type", "meaning"),
        [
            (f"`{name}`", part.get("type", "constant"), part["description"])
            for name, part in event_schema(EVENTS_BY_NAME["ActivityExpired"])["properties"].items()
        ],
    )
    yield markdown.json_block(EXAMPLE)
    yield "## The data"
    yield "`?` means that the value may be null."
    yield markdown.render_table(
        ("events", "fields of `data`"),
        [
            (", ".join(event.name for event in EVENTS if event.data is data), describe_fields(data))
            for data in dict.fromkeys(event.data for event in EVENTS)
        ],
    )
    yield "## Reactions"
    yield "Each reaction has a queue and a dead-letter queue. `once by` says why its effect happens only once."
    yield markdown.render_table(
        ("reaction", "events", "effect", "once by", "processed by"),
        [
            (
                f"**{reaction.name}**",
                ", ".join(reaction.event_names) or f"each event with `{reaction.only_with}`",
                reaction.effect,
                reaction.idempotent_by,
                f"`functions/handlers/{reaction.function}.py`" if reaction.function else "the shop's own system",
            )
            for reaction in REACTIONS
        ],
    )


def describe_fields(data: type[Any]) -> str:
    """Return the fields of an event's data with their types, in words."""
    return ", ".join(f"`{name}` {describe_type(hint)}" for name, hint in typing.get_type_hints(data).items())


def _reaction_names(event: EventContract) -> str:
    return ", ".join(reaction.name for reaction in REACTIONS if event.name in reaction.event_names)


def event_schema(event: EventContract) -> dict[str, Any]:
    """The JSON Schema of an event's detail (draft 2020-12).

    It accepts unknown fields, because fields may be added. Its `$id` has the number of the event's schema.
    """
    parts: dict[str, Any] = {
        "id": {"type": "string", "description": "the id of the change: the same at each delivery"},
        "type": {"const": event.name, "description": "the event's name, as in `detail-type`"},
        "schema": {"const": event.schema, "description": "raised when a field changes its meaning"},
        "time": {"type": "string", "format": "date-time", "description": "the time of the change, stored in the item"},
        "version": {"type": "integer", "description": "the version of the item, raised by each change"},
        "data": {"title": f"{event.name}Data", "description": "the fields of this event", **_data_schema(event.data)},
    }
    if event.is_joined:
        parts["images"] = {
            "type": "array",
            "items": {"type": "object"},
            "description": "the expired items of a day, as typed DynamoDB JSON; the other fields are of the first item",
        }
    return {
        "$schema": SCHEMA_DIALECT,
        "$id": f"urn:{EVENT_SOURCE}:events:{event.name}:{event.schema}",
        "title": event.name,
        "description": event.description,
        "type": "object",
        "properties": parts,
        "required": list(parts),
    }


def _data_schema(data: type[Any]) -> dict[str, Any]:
    made = TypeAdapter(data).json_schema()
    hints = typing.get_type_hints(data)
    for name, part in made["properties"].items():
        part.pop("title")
        if hints[name] is Instant:
            part["format"] = "date-time"
    return {"type": "object", "properties": made["properties"], "required": made["required"]}
