"""The end of orders' time, as far as the archive, and how it is when all is done."""

import hashlib
from collections.abc import Callable
from typing import Any

from functions import archive, copies, relay
from functions.archive import restored
from functions.model.entities import ArchivedOrder
from functions.shop import orders
from tests.shopfloor import ANN, Shopfloor

Image = dict[str, Any]
Message = dict[str, Any]


def deliver(floor: Shopfloor) -> str:
    """An order that was delivered."""
    floor.open_shop(available=10)
    order_id = floor.place(mug=2, pot=1)
    floor.pay(order_id)
    floor.settle()
    floor.ship(order_id)
    floor.deliver(order_id)
    floor.settle()
    return order_id


def partition(floor: Shopfloor, order_id: str) -> list[Image]:
    return floor.partition(f"ORDER#{order_id}")


def end(floor: Shopfloor, readers: tuple[Callable[..., Any], ...] = (copies.handler, relay.handler)) -> list[Message]:
    """The time of everything is over; what waits for the archive."""
    floor.wait(days=396)
    records = floor.records()
    for reader in readers:
        assert reader({"Records": records}, None) == {"batchItemFailures": []}
    return floor.waiting("archive")


def of_order(messages: list[Message]) -> list[Message]:
    return [message for message in messages if '"OrderExpired"' in message["body"]]


def handle(*messages: Message) -> list[str]:
    """The messages to be sent again."""
    answer = archive.handler({"Records": list(messages)}, None)
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def objects(floor: Shopfloor, prefix: str) -> dict[str, bytes]:
    return {name: body for name, body in floor.objects("archive").items() if name.startswith(prefix)}


def owned(images: list[Image]) -> list[Image]:
    """What an archived order's object holds of its partition: all but the marker whose end started the archive."""
    return [image for image in images if image["type"]["S"] != "Expiry"]


def is_left(floor: Shopfloor, order_id: str, before: list[Image]) -> None:
    """Nothing of the order is archived, or gone."""
    assert (owned(partition(floor, order_id)), objects(floor, "orders/")) == (owned(before), {})


def is_archived(floor: Shopfloor, order_id: str, before: list[Image], status: str = "DELIVERED") -> None:
    """One object with all that was there, the stub that names it, and of the rest only the invoice."""
    ((name, body),) = objects(floor, "orders/").items()
    assert restored(body) == owned(before)
    stub = orders.order_by_id(floor.shop, ANN, order_id)
    assert isinstance(stub, ArchivedOrder)
    assert (stub.object_key, stub.sha256, stub.status) == (name, hashlib.sha256(body).hexdigest(), status)
    assert [image["type"]["S"] for image in partition(floor, order_id)] == ["Invoice", "ArchivedOrder"]
