"""Publish the events of changes again, derived from the items in the table.

Each event has its original id, so a consumer that has handled the event ignores it. So all is safe to repeat. An event
is published again only for MAX_REPLAY_AGE_DAYS, because later a consumer may have forgotten that it handled it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from operator import itemgetter
from typing import Any

from functions.dynamodb.actors import acting
from functions.dynamodb.codec import Image
from functions.dynamodb.errors import Permanent, Unreadable
from functions.dynamodb.keys import Instant, to_instant
from functions.model import changes
from functions.model.changes import Change, past_change
from functions.model.entities import ExpiryMarker, Order
from functions.model.errors import NotFound
from functions.model.patterns import ORDER_ITEM_COLLECTION
from functions.model.reactions import REACTIONS
from functions.model.retention import MAX_REPLAY_AGE_DAYS
from functions.model.states import CLOSED_STATUSES
from functions.model.table import EARLIER_TIMELINE, EXPIRY_MARKER, ORDER, ROWS_BY_TYPE
from functions.model.timelines import OrderEvent, merge_timeline
from functions.shop.audit import record_action
from functions.shop.credit_notes import lacks_credit_note
from functions.shop.shop import Caller, ShopContext
from functions.shop.webhook_deliveries import build_wanted_event, list_subscribed

ENDED_STATES = {*CLOSED_STATUSES, "ARCHIVING"}
FULFILMENT_EVENTS = next(one.event_names for one in REACTIONS if one.name == "fulfilment")
TTL_IDENTITY = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
TIMELINE_ROWS = {row.type: row for row in (ORDER, EARLIER_TIMELINE)}
"""The rows of the items that contain the timeline of an order, by item type."""


def read_timeline(partition: Sequence[Image]) -> list[OrderEvent]:
    """Return the timeline of an order, oldest first. `partition`: all items of the order's partition."""
    beside = [image for image in partition if image["type"]["S"] in TIMELINE_ROWS]
    return merge_timeline(TIMELINE_ROWS[image["type"]["S"]].decode(image) for image in beside)


def list_changes(order: Order, partition: Sequence[Image]) -> list[Change]:
    """Return the changes in the timeline of an order, the oldest first. `partition`: all items of its partition."""
    return [past_change(order, event) for event in read_timeline(partition)]


def list_status_changes(order: Order, partition: Sequence[Image]) -> list[Change]:
    """Return the changes of an order that changed its status, oldest first. The first change places the order."""
    before, found = "", []
    for change in list_changes(order, partition):
        if change.item.status != before:
            found.append(change)
        before = change.item.status
    return found


def republish_order(
    shop: ShopContext, caller: Caller, order_id: str, publish: Callable[[Sequence[Mapping[str, Any]]], None]
) -> int:
    """Publish the events of all changes of an order again, and the latest events of its other items.

    Safe to repeat: only what has not been done yet is done, for example a missing mail is sent. Returns the number of
    events. Raises NotAllowed if the caller is not staff, and NotFound. `publish`: publishes events by their details.
    """
    caller.require_group("staff")
    partition = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order_id)
    if not partition:
        raise NotFound("order")
    if actor := acting.get():
        record_action(shop, actor, f"ORDER:{order_id}")
    found: list[Change] = []
    for image in partition:
        try:
            change = latest_change(image)
        except Permanent as error:
            shop.table.on_decode_error(image, Unreadable(str(error)))
            continue
        if change is not None and isinstance(change.after, Order):
            found += [*list_changes(change.after, partition), *_expiry_change(shop, change.after)]
        elif change is not None:
            found.append(change)
    details = build_recent_events(shop, found)
    publish(details)
    return len(details)


def build_recent_events(shop: ShopContext, found: Iterable[Change]) -> list[Mapping[str, Any]]:
    """Return the events of these changes that are not older than MAX_REPLAY_AGE_DAYS. Most changes have an event."""
    oldest = oldest_republished(shop)
    webhooks = list_subscribed(shop)
    recent = (build_wanted_event(shop, one, webhooks, late=True) for one in found if one.at >= oldest)
    return _wake_once([detail for detail in recent if detail])


def oldest_republished(shop: ShopContext) -> Instant:
    """Return the time of the oldest change whose event is published again."""
    return to_instant(shop.now() - timedelta(days=MAX_REPLAY_AGE_DAYS))


def _wake_once(details: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Let only the first event of each object wake the worker of webhooks, which then sends the later ones, too."""
    places = [detail["outbox"] for detail in details if "outbox" in detail]
    first = {place["object_id"]: place for place in sorted(places, key=itemgetter("position"), reverse=True)}
    others = [place for place in places if place != first[place["object_id"]]]
    return [
        {name: value for name, value in detail.items() if name != "outbox" or value not in others} for detail in details
    ]


def changes_to_current_state(shop: ShopContext, change: Change) -> list[Change]:
    """Return the changes for which an item's events are published again, after its latest change.

    For an order, this is the change to its current status, not the earlier ones. If the order lacks a credit note, its
    last change that needed one is added. So is the expiry of a closed order without expiry marker.
    """
    order = change.after
    if not isinstance(order, Order):
        return [change]
    partition = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order.order_id)
    return [
        *_change_to_current_status(order, partition),
        *_credit_change(order, partition),
        *_expiry_change(shop, order),
    ]


def _change_to_current_status(order: Order, partition: Sequence[Image]) -> Iterator[Change]:
    """Yield the change that brought an order to its current status, even if later changes kept this status."""
    if order.status != "ARCHIVING":  # the change to ARCHIVING has no event
        yield from list_status_changes(order, partition)[-1:]


def _credit_change(order: Order, partition: Sequence[Image]) -> Iterator[Change]:
    """If an invoiced order lacks a credit note, yield its last change to which the fulfilment Lambda reacts."""
    if order.status != "ARCHIVING" and lacks_credit_note(order, partition):
        yield from [one for one in list_changes(order, partition) if one.name in FULFILMENT_EVENTS][-1:]


def _expiry_change(shop: ShopContext, order: Order) -> Iterator[Change]:
    """If a closed order, also one being archived, has no expiry marker, yield the change "the marker has expired"."""
    if order.status not in ENDED_STATES or shop.table.batch_get(
        [EXPIRY_MARKER.key(order_id=order.order_id)], consistent=True
    ):
        return
    marker = ExpiryMarker(
        order_id=order.order_id,
        customer_id=order.customer_id,
        created_at=order.updated_at,
        ttl=int(shop.now().timestamp()),
        version=order.version,  # as of the lost marker, so that the event has its id and its place in the outbox
    )
    removal = {
        "eventName": "REMOVE",
        "userIdentity": TTL_IDENTITY,
        "dynamodb": {"OldImage": EXPIRY_MARKER.encode(marker)},
    }
    if change := changes.parse_change(removal):
        yield change


def latest_change(image: Image) -> Change | None:
    """Return the latest change of a primary item as its stream record would describe it; None for all other items.

    None also for an item that a restore has inserted. Raises Permanent if this code cannot read the item.
    """
    row = ROWS_BY_TYPE.get(image.get("type", {}).get("S", ""))
    return changes.parse_change(changes.make_stream_record(image)) if row is None or row.kind == "primary" else None
