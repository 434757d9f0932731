"""Event publisher Lambda: read the stream, turn each record into a typed change, and publish it as an event on the bus.

The events of one item are published in order. In one PutEvents call, the bus could reject an earlier event and accept a
later event. So a call never contains two events of the same item. If the bus rejects an event, the following events of
the item wait until a retry succeeds. The Lambda checks the result of each entry, because PutEvents returns status 200
even if it rejected some entries.

If a webhook has an event, the Lambda first puts the event in the outbox of webhooks. Then the event wakes their worker.

Expired activity entries of one day are joined into one event, because each event and each message costs money. Such an
entry has no other event, so the events of each item stay in order.
"""

import json
from collections.abc import Mapping
from typing import Any

from functions.adapters.event_bus import MAX_ENTRIES_PER_CALL, to_put_events_entry
from functions.dynamodb.errors import Permanent
from functions.dynamodb.record_batch import Record
from functions.dynamodb.stream_batch import StreamBatch, item_key_of
from functions.model import changes, events, metrics
from functions.runtime import clients, dead_letters, observability, subscriptions
from functions.runtime.environment import EventPublisherEnvironment, load_environment
from functions.runtime.log import log
from functions.runtime.time_limit import TimeLimit
from functions.shop.webhook_deliveries import build_wanted_event

MAX_JOINED_EVENTS = 20
"""How many events can be joined. If an item has at most 1 KB, ten joined events stay below the 256 KB of a call."""
PERMANENT_ERROR_CODES = {"MalformedDetail", "InvalidArgument", "NotAuthorizedForDetailTypeException"}
"""If PutEvents rejects an entry with one of these codes, a retry fails too (EventBridge API, PutEventsResultEntry)."""


_Prepared = tuple[Record, dict[str, Any], dict[str, Any]]
"""A stream record, its event, and the PutEvents entry for this event alone."""


class EntryFailed(Exception):
    """The event bus rejected an entry of a PutEvents call. A retry may succeed."""


@observability.instrument_handler
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Lambda entry point: process a batch of stream records and return the failed records for retry."""
    environment = load_environment(EventPublisherEnvironment)
    batch = StreamBatch(
        event["Records"],
        dead_letters.dead_letter_writer(environment.failures_bucket, "event_publisher"),
        observability.failure_logger("event_publisher"),
        TimeLimit(context).is_reached,
    )
    shop = clients.create_shop(environment.table_name)
    published: list[dict[str, Any]] = []
    pending: dict[tuple[str, ...], list[_Prepared]] = {}

    def flush() -> None:
        published.extend(_publish_entries(batch, [_join(environment.bus_name, found) for found in pending.values()]))
        pending.clear()

    def prepare(record: Record) -> None:
        change = changes.parse_change(record)
        detail = build_wanted_event(shop, change, subscriptions.get_webhooks(shop)) if change else None
        if detail:
            key = events.join_key(detail) or item_key_of(record)
            if len(pending.get(key, ())) == MAX_JOINED_EVENTS:
                flush()
            entry = to_put_events_entry(
                environment.bus_name, detail
            )  # build the entry here, so that an error concerns only this record
            pending.setdefault(key, []).append((record, detail, entry))

    for record in batch.ready_records():
        if item_key_of(record) in pending or len(pending) == MAX_ENTRIES_PER_CALL:
            flush()
        # If flush() could not publish an earlier event of this item, this record must wait for the retry too.
        if not batch.retry_if_blocked(record):
            batch.apply(record, prepare)
    flush()
    log.info("events_published", extra={"records": len(event["Records"]), "events": published})
    return batch.response()


def _join(bus_name: str, prepared: list[_Prepared]) -> tuple[list[Record], dict[str, Any]]:
    """Return the records and the entry of one event, or of several events that are joined into one event."""
    records = [record for record, _, _ in prepared]
    if len(prepared) == 1:
        return records, prepared[0][2]
    return records, to_put_events_entry(bus_name, events.join_events([detail for _, detail, _ in prepared]))


def _publish_entries(batch: StreamBatch, entries: list[tuple[list[Record], dict[str, Any]]]) -> list[dict[str, Any]]:
    """Publish entries with one PutEvents call, and return their summaries for the log.

    The records of an entry are parked if the bus rejects it for ever, and retried after any other error.
    """
    if not entries:
        return []
    try:
        results = clients.client("events").put_events(Entries=[entry for _, entry in entries])["Entries"]
    except Exception as error:  # noqa: BLE001  after any error the records must be retried, not lost
        for records, _ in entries:
            for record in records:
                batch.retry_record(record, error)
        return []
    taken = []
    for (records, entry), result in zip(entries, results, strict=True):
        if code := result.get("ErrorCode"):
            for record in records:
                if code in PERMANENT_ERROR_CODES:
                    batch.park_record(record, Permanent(code))
                else:
                    batch.retry_record(record, EntryFailed(code))
        else:
            detail = json.loads(entry["Detail"])
            about = {"event": detail["type"], "event_id": detail["id"], "order_id": detail["data"].get("order_id")}
            taken.append(about)
            _count_event(detail["type"], detail["data"])
    return taken


def _count_event(event: str, data: Mapping[str, Any]) -> None:
    if event == "OrderPaid":
        observability.add_metric(metrics.ORDERS_PAID)
        observability.add_metric(metrics.REVENUE, data["total"], currency=data["currency"])
    elif event == "OrderOverRefunded":
        observability.add_metric(metrics.OVER_REFUNDED)
