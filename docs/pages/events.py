"""docs/events.md, docs/events.json and docs/events/: the contracts of all events, and the reactions to them."""

import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter

from docs import markdown
from docs.pages.states import initial_states
from docs.pages.table import describe_type
from functions.dynamodb.keys import Instant
from functions.model.changes import CHANGE_TYPES
from functions.model.events import EVENT_SOURCE, EVENTS, EVENTS_BY_NAME, EventContract
from functions.model.reactions import REACTIONS

EXAMPLE: Mapping[str, Any] = {  # a value for every field of an event
    "amount": 3750,
    "available": 12,
    "available_before": 0,
    "added_at": "2026-11-21T09:30:00.123Z",
    "at": "2026-11-21T09:30:00.123Z",
    "carrier": "dhl",
    "change_id": "0b7c2d5e9f1a4c3b8e6d7f0a1b2c3d4e",
    "currency": "EUR",
    "customer_id": "c0ffee00-1234-4abc-9def-0123456789ab",
    "event": "OrderPaid",
    "import_id": "9b2f6c1de0a84f0c8f5d1a7e3b6c2d10",
    "export_id": "3d1c7b40f2a94f6e8c5e9a1d7b6f2c04",
    "invoice_id": "2026-00000042",
    "issued_at": "2026-11-21T09:30:00.123Z",
    "method": "CARD",
    "order_id": "ebz4oersmwzvd6p6iumrcaxfbq",
    "part": 0,
    "payment_id": "pi_3MtwBwLkdIwHu7ix28a3tqPa",
    "price": 995,
    "product_id": "mug",
    "placed_at": "2026-11-21T09:30:00.123Z",
    "quantities": {"mug": 2, "pot": 1},
    "backordered": {"mug": 1},
    "object_id": "du_1MtJUT2eZvKYlo2CNaw2HvEv",
    "kind": "DISPUTE",
    "refund_id": "pi_3MtwBwLkdIwHu7ix28a3tqPa-1",
    "return_id": "3f9c1c8e5b7d4a60b1f2d3c4e5a69788",
    "shipment_id": "ebz4oersmwzvd6p6iumrcaxfbq-1",
    "total": 3750,
    "tracking_number": "00340434161094000000",
    "shipping_method": "standard",
    "pickup": False,
    "ttl": 1803029400,
    "version": 2,
    "why": "RETURNED",
}
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
CARRIER_STATES = {"DISPATCHED", "DELIVERED"}
"""The states of a shipment that has a carrier."""


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
    for data in dict.fromkeys(event.data for event in EVENTS):
        told = [event for event in EVENTS if event.data is data]
        yield f"## {', '.join(event.name for event in told)}"
        hints = typing.get_type_hints(data)
        yield markdown.render_table(
            ("`data`", "type"), [(f"`{name}`", describe_type(hint)) for name, hint in hints.items()]
        )
        yield markdown.json_block(example_event(told[0]))
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


def example_event(event: EventContract) -> dict[str, Any]:
    """Return an example of an event's detail."""
    kind = next(kind for kind in CHANGE_TYPES if kind.name == event.name and kind.row is event.row)
    reached = kind.transition.status_after(kind.transition.before[0]) if kind.transition else kind.new_status
    initial = {name: state for state, name in initial_states(event.row)}
    status = reached or initial.get(event.name) or next(iter(initial.values()), "DELIVERED")
    allowed = typing.get_args(typing.get_type_hints(event.data).get("status"))
    if allowed and status not in allowed:  # a dispute is opened first, and won or lost last
        status = allowed[0 if kind.event_name == "INSERT" else -1]
    known = {**EXAMPLE, "status": status}
    if status not in CARRIER_STATES:
        known |= {"carrier": None, "tracking_number": None}
    else:
        known |= {"backordered": None}
    body = {
        "id": EXAMPLE["change_id"],
        "type": event.name,
        "schema": event.schema,
        "time": EXAMPLE["at"],
        "version": 1 if kind.event_name == "INSERT" else 2,
        "data": {name: known[name] for name in typing.get_type_hints(event.data)},
    }
    if event.is_joined:
        body["images"] = [event.row.encode(event.row.entity(**{name: known[name] for name in event.row.fields}))]
    return body
