"""Helpers for archive tests: expire orders, run the Lambda that archives them, and assert the result."""

import hashlib
from collections.abc import Callable
from typing import Any

from functions.handlers import archive_worker, copies_reader, event_publisher
from functions.handlers.archive_worker import parse_archive
from functions.model.entities import ArchivedOrder, Order
from functions.shop import orders
from local.world.harness import ANN, ShopHarness

Image = dict[str, Any]
Message = dict[str, Any]


def create_delivered_order(harness: ShopHarness) -> str:
    """Create a delivered order. Return its id."""
    harness.open_shop(available=10)
    order_id = harness.place_order(mug=2, pot=1)
    harness.pay_order(order_id)
    harness.process_all()
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    harness.process_all()
    return order_id


def order_partition(harness: ShopHarness, order_id: str) -> list[Image]:
    return harness.partition(f"ORDER#{order_id}")


def expire_everything(
    harness: ShopHarness,
    readers: tuple[Callable[..., Any], ...] = (copies_reader.handler, event_publisher.handler),
    days: int = 396,
) -> list[Message]:
    """Advance the clock until all orders have expired. Return the queue messages for the archive Lambda."""
    harness.advance_days(days)
    records = harness.new_records()
    for reader in readers:
        assert reader({"Records": records}, None) == {"batchItemFailures": []}
    return harness.take_messages("archive")


def order_messages(messages: list[Message]) -> list[Message]:
    return [message for message in messages if '"OrderExpired"' in message["body"]]


def run_archive(*messages: Message) -> list[str]:
    """Run the Lambda that archives orders with these messages. Return the ids of the messages that failed."""
    answer = archive_worker.handler({"Records": list(messages)}, None)
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def archive_key(order: Order) -> str:
    """Return the key of the archive object of an order that is not locked for archiving yet."""
    return f"orders/day={order.placed_at[:10]}/{order.order_id}/{order.version + 1}.json"


def archived_objects(harness: ShopHarness, prefix: str) -> dict[str, bytes]:
    return {name: body for name, body in harness.objects("archive").items() if name.startswith(prefix)}


def images_to_archive(images: list[Image]) -> list[Image]:
    """Return the items that the archive object of an order must have: all except the ExpiryMarker, which is gone."""
    return [image for image in images if image["type"]["S"] != "ExpiryMarker"]


def assert_not_archived(harness: ShopHarness, order_id: str, before: list[Image]) -> None:
    """Assert that no item of the order is archived or deleted. `before`: the items before the archiving."""
    assert (images_to_archive(order_partition(harness, order_id)), archived_objects(harness, "orders/")) == (
        images_to_archive(before),
        {},
    )


def assert_archived(harness: ShopHarness, order_id: str, before: list[Image], status: str = "DELIVERED") -> None:
    """Assert that the archive has all items of an order in one object, and the table its documents and stub."""
    ((name, body),) = archived_objects(harness, "orders/").items()
    assert parse_archive(body) == images_to_archive(before)
    stub = orders.get_order(harness.shop, ANN, order_id)
    assert isinstance(stub, ArchivedOrder)
    assert (stub.object_key, stub.sha256, stub.status) == (name, hashlib.sha256(body).hexdigest(), status)
    documents = [image for image in before if image["type"]["S"] == "Invoice"]
    *kept, archived = order_partition(harness, order_id)
    assert (kept, archived["type"]["S"]) == (documents, "ArchivedOrder")
