"""Archive Lambda: store closed orders and activity entries in S3 when their retention time in the table has passed.

All items of an order become one object, `orders/day={day}/{order_id}/{version}.json`, with the day on which it was
placed. They are deleted only after S3 stored the object. Activity entries become gzipped NDJSON under a prefix for each
day, in objects named by the hash of their content.

Both contain items in DynamoDB's JSON, with binary values as base64. So a restore can rebuild every attribute exactly.
"""

import gzip
import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from functions.adapters import object_store
from functions.dynamodb.codec import Image, decode_binary
from functions.dynamodb.errors import Permanent
from functions.dynamodb.keys import Instant
from functions.dynamodb.record_batch import Record
from functions.dynamodb.writes import WriteConflict
from functions.model import metrics
from functions.model.entities import Order
from functions.model.events import ReceivedEvent
from functions.runtime import observability
from functions.runtime.environment import ArchiveEnvironment
from functions.runtime.log import log
from functions.runtime.queue_batch import MessageBatch, parse_event, queue_handler
from functions.shop.archive import replace_order_with_stub, start_archiving
from functions.shop.erasure import erase_guest
from functions.shop.shop import ShopContext

ARCHIVE_FORMAT_VERSION = 1


class Mismatch(Permanent):
    """The archive object of an order lacks items that the table has. So the Lambda deletes nothing from the table."""


# A person must fix the archive object of a message that fails with Mismatch. So these messages have their own prefix in
# the failure store, with its own alarm.
@queue_handler(ArchiveEnvironment, names_by_error={Mismatch.__name__: "mismatch"})
def handler(batch: MessageBatch, shop: ShopContext, environment: ArchiveEnvironment) -> None:
    """Lambda entry point: archive each expired order, and archive expired activity entries together by day."""
    for group in _group_by_day(batch.records).values():
        batch.apply(group, lambda events: archive_events(shop, environment.archive_bucket, events))


def _group_by_day(messages: Sequence[Record]) -> dict[str, list[Record]]:
    """Group the messages of a batch: expired activity entries by day, every other message in its own group."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for message in messages:
        try:
            event = parse_event(message)
        except Permanent:
            # An unreadable message gets its own group: `MessageBatch.apply` puts the whole group of such a message into
            # the failure store.
            groups[message["messageId"]].append(message)
            continue
        groups[event.data.at[:10] if event.name == "ActivityExpired" else message["messageId"]].append(message)
    return groups


def archive_events(shop: ShopContext, bucket: str, events: Sequence[ReceivedEvent]) -> None:
    """Archive the data of one group of events: one expired order, or several activity entries of one day."""
    if events[0].name == "OrderExpired":
        expired = events[0]
        key = archive_order(shop, bucket, expired.data.order_id, expired.at)
        observability.log_effect("order_archived", shop, expired, effect=key)
    else:
        archive_activity(bucket, events)
        observability.add_metric(metrics.EFFECTS_ACCEPTED, len(events))


def archive_order(shop: ShopContext, bucket: str, order_id: str, expired_at: Instant) -> str | None:
    """Archive an order and return the key of its S3 object. Safe to repeat.

    The function locks the order and writes the object to S3. Then it deletes the order's items from the table, except
    invoices, and replaces the order with a stub. If the customer is a guest, the erasure of the guest starts.

    `expired_at`: when the order's expiry marker expired. Returns None if
    - the order does not exist, or is archived already;
    - another delivery of the same event archives the order first;
    - `start_archiving` postpones the archiving, for example because a refund is in progress. A new expiry marker starts
      it.

    Raises Mismatch, and deletes nothing, if an object exists already and lacks items that the table has.
    """
    order_snapshot = start_archiving(shop, order_id, expired_at)
    if order_snapshot is None:
        return None
    key = order_snapshot.object_key
    body = object_store.put_if_absent(
        bucket, key, serialize_archive(order_snapshot.order, order_snapshot.images), "application/json"
    )
    if lacking := _count_missing_images(body, order_snapshot.images):
        raise Mismatch(f"{key} lacks {lacking} items that the table has")
    erase_guest(shop, order_snapshot.order.customer_id)  # before the stub: a repeated call finds the stub, and ends
    try:
        replace_order_with_stub(shop, order_snapshot.order, parse_archive(body), key, hashlib.sha256(body).hexdigest())
    except WriteConflict:  # another delivery of the same event archived the order first
        return None
    return key


def serialize_archive(order: Order, images: Sequence[Image]) -> bytes:
    """Serialize an order as {"format", "order_id", "version", "items": [typed DynamoDB JSON, ...]} with sorted keys."""
    return object_store.to_canonical_json(
        {"format": ARCHIVE_FORMAT_VERSION, "order_id": order.order_id, "version": order.version, "items": list(images)}
    )


def _count_missing_images(body: bytes, images: Sequence[Image]) -> int:
    """Return how many of these images an archive object lacks. It may have more, of items deleted since."""
    held = {object_store.to_canonical_json(image) for image in json.loads(body)["items"]}
    return sum(object_store.to_canonical_json(image) not in held for image in images)


def parse_archive(body: bytes) -> list[Image]:
    """Return the items of an order's archive object in DynamoDB's JSON. Binary values are bytes, as in boto3."""
    return list(json.loads(body, object_hook=_decode_binary_values)["items"])


def _decode_binary_values(value: dict[str, Any]) -> dict[str, Any]:
    """Decode {"B": base64 text} or {"BS": [...]} of DynamoDB's JSON to bytes. Other objects stay unchanged.

    So does a map with an attribute named "B": its value is an object such as {"S": "x"}.
    """
    match value:
        case {"B": str(content)}:
            return {"B": decode_binary(content)}
        case {"BS": list(contents)}:
            return {"BS": [decode_binary(content) for content in contents]}
    return value


def archive_activity(bucket: str, events: Sequence[ReceivedEvent]) -> None:
    """Write expired activity entries of one day to one S3 object. Safe to repeat."""
    key, body = activity_object(events)
    object_store.put_if_absent(bucket, key, body, "application/gzip")
    log.info("activity_archived", extra={"activity": sum(len(event.images) for event in events), "day": key[13:23]})


def activity_object(events: Sequence[ReceivedEvent]) -> tuple[str, bytes]:
    """Return the key and the content of the S3 object of expired activity entries of one day.

    The content has one JSON line for each entry, sorted by id, and is compressed. The key contains its hash.
    """
    images = {image["change_id"]["S"]: image for event in events for image in event.images}
    lines = b"".join(object_store.to_canonical_json(images[id]) + b"\n" for id in sorted(images))
    key = f"activity/day={events[0].data.at[:10]}/{hashlib.sha256(lines).hexdigest()}.ndjson.gz"
    return key, gzip.compress(lines, mtime=0)
