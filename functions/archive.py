"""The reaction to what has expired: its bytes go to S3, whole, before anything of it leaves the table.

An order is one object with everything it owned, `orders/{order_id}/{version}.json`; activity is gzipped NDJSON by day,
named by its content. Both are typed DynamoDB JSON (binary as base64), so that all ten types come back as they were.
"""

import base64
import gzip
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from functions import objects, wiring
from functions.dynamodb.images import Image
from functions.dynamodb.streams import Permanent
from functions.dynamodb.writes import Changed
from functions.environment import Archive, current
from functions.model import metrics
from functions.model.entities import Order
from functions.model.events import Received
from functions.queues import Message, Messages, event_in
from functions.shop.archive import close, leave_stub
from functions.shop.shop import Shop

FORMAT = 1


class Mismatch(Permanent):
    """An object was written before, and lacks what lies in the table now: deleting that would lose it."""


@wiring.observed("archive")
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: a batch of queue messages in, the messages to send again out."""
    environment = current(Archive)
    shop = wiring.shop(environment.table_name)
    messages = Messages(event, _parking(environment.failures_bucket), wiring.failing("archive"))
    for days in _grouped(messages.messages).values():
        messages.apply(days, lambda events: archive(shop, environment.archive_bucket, events))
    return messages.response()


def _parking(bucket: str) -> Callable[[Message, str], None]:
    """What does not match lies apart from what nobody can read: somebody has to decide which is right."""
    unreadable, mismatched = (wiring.parking(bucket, reader) for reader in ("archive", "mismatch"))

    def park(message: Message, reason: str) -> None:
        (mismatched if reason.startswith(Mismatch.__name__) else unreadable)(message, reason)

    return park


def _grouped(messages: Sequence[Message]) -> dict[str, list[Message]]:
    """Activity of one day together, everything else by itself."""
    groups: dict[str, list[Message]] = defaultdict(list)
    for message in messages:
        try:
            event = event_in(message)
        except Permanent:
            groups[message["messageId"]].append(message)  # refused where it is handled
            continue
        groups[event.data.at[:10] if event.name == "ActivityExpired" else message["messageId"]].append(message)
    return groups


def archive(shop: Shop, bucket: str, events: Sequence[Received]) -> None:
    """Archive one expired order, or some activity of one day."""
    if events[0].name == "OrderExpired":
        expired = events[0]
        key = archive_order(shop, bucket, expired.data.order_id)
        wiring.worked("archived", shop, expired, effect=key)
    else:
        archive_activity(bucket, events)
        wiring.count(metrics.ACCEPTED, len(events))


def archive_order(shop: Shop, bucket: str, order_id: str) -> str | None:
    """Close, write, delete, leave a stub; whatever was done before is found done. The object's key, if it is ours.

    Raises Mismatch, and leaves all as it is, where the object that is there lacks something that lies in the table.
    """
    estate = close(shop, order_id)
    if estate is None:
        return None
    key = f"orders/{order_id}/{estate.order.version}.json"
    if estate.images is None:
        body = objects.get(bucket, key)
    else:
        body = objects.put_once(bucket, key, order_object(estate.order, estate.images), "application/json")
        if lacking := _lacking(body, estate.images):
            raise Mismatch(f"{key} lacks {lacking} items as they are in the table")
    try:
        leave_stub(shop, estate.order, restored(body), key, hashlib.sha256(body).hexdigest())
    except Changed:  # another delivery was faster
        return None
    return key


def order_object(order: Order, images: Sequence[Image]) -> bytes:
    """The object of an order: {"format", "order_id", "version", "items": [typed DynamoDB JSON, ...]}, sorted keys."""
    return objects.as_json(
        {"format": FORMAT, "order_id": order.order_id, "version": order.version, "items": list(images)}
    )


def _lacking(body: bytes, images: Sequence[Image]) -> int:
    """How many of these images an object does not hold. It may well hold more: some may have been deleted since."""
    held = {objects.as_json(image) for image in json.loads(body)["items"]}
    return sum(objects.as_json(image) not in held for image in images)


def restored(body: bytes) -> list[Image]:
    """The images in an order's object, as they lay in the table."""
    return [{name: _untag(value) for name, value in image.items()} for image in json.loads(body)["items"]]


def archive_activity(bucket: str, events: Sequence[Received]) -> None:
    """Activity entries that ended, one line each, in the order of their ids."""
    images = {event.id: event.image for event in events}
    lines = b"".join(objects.as_json(images[id]) + b"\n" for id in sorted(images))
    digest = hashlib.sha256(lines).hexdigest()
    day = events[0].data.at[:10]
    objects.put_once(
        bucket, f"activity/day={day}/{digest}.ndjson.gz", gzip.compress(lines, mtime=0), "application/gzip"
    )
    wiring.log.info("archived", extra={"activity": len(images), "day": day})


def _untag(value: Any) -> Any:
    ((tag, content),) = value.items()
    match tag:
        case "B":
            return {tag: base64.b64decode(content)}
        case "BS":
            return {tag: [base64.b64decode(one) for one in content]}
        case "L":
            return {tag: [_untag(one) for one in content]}
        case "M":
            return {tag: {name: _untag(one) for name, one in content.items()}}
    return value
