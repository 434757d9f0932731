"""Publish events to the event bus again. Events of new changes are published by the Lambda event_publisher."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from functions.dynamodb.retry import Backoff
from functions.model.events import EVENT_SOURCE

MAX_ENTRIES_PER_CALL = 10
PublishEvents = Callable[[Sequence[Mapping[str, Any]]], None]
"""Function that publishes a list of events. Each event is a mapping as returned by `events.build_event_detail`.

Raises TableBusy if the event bus still rejects some events after all retries.
"""


def to_put_events_entry(bus_name: str, detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return the PutEvents entry of an event. `detail`: the event from events.build_event_detail."""
    text = json.dumps(detail, separators=(",", ":"))
    return {"EventBusName": bus_name, "Source": EVENT_SOURCE, "DetailType": detail["type"], "Detail": text}


def make_publisher(new_backoff: Callable[[], Backoff], client: Any, bus_name: str) -> PublishEvents:
    """Return a function that publishes events to this event bus, and retries the events that the bus rejects."""

    def publish(details: Sequence[Mapping[str, Any]]) -> None:
        for start in range(0, len(details), MAX_ENTRIES_PER_CALL):
            entries = [
                to_put_events_entry(bus_name, detail) for detail in details[start : start + MAX_ENTRIES_PER_CALL]
            ]
            backoff = new_backoff()
            while entries:
                results = client.put_events(Entries=entries)["Entries"]
                entries = [one for one, result in zip(entries, results, strict=True) if result.get("ErrorCode")]
                if entries:
                    backoff.wait()

    return publish
