"""Reads the stored items of a shop as DynamoDB returns them, without the code of the product that decodes items."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from functions.runtime import clients
from local.world.harness import ShopHarness

Image = dict[str, Any]


def stored_items(harness: ShopHarness, item_type: str) -> list[Image]:
    """Return all items of a type in the table, as DynamoDB JSON."""
    pages = harness.shop.table.client.get_paginator("scan").paginate(
        TableName=harness.shop.table.name, ConsistentRead=True
    )
    return [image for page in pages for image in page["Items"] if image["type"]["S"] == item_type]


def stored_order(harness: ShopHarness, order_id: str) -> Image:
    """Return the item of an order, or the item that replaced the order when it was archived."""
    (order,) = [image for image in harness.partition(f"ORDER#{order_id}") if image["SK"]["S"] == "ORDER"]
    return order


def number(image: Image, name: str) -> int:
    """Return a numeric attribute of an item, or 0 if the item does not have it."""
    return int(image.get(name, {"N": "0"})["N"])


def text(image: Image, name: str) -> str:
    """Return a text attribute of an item, or "" if the item does not have it."""
    return str(image.get(name, {"S": ""})["S"])


@contextmanager
def before_put_of(item_type: str, act: Callable[[], object]) -> Iterator[None]:
    """Call `act` just before the first PutItem of an item of this type in the `with` block."""
    waiting = [act]

    def look(params: dict[str, Any], **_: Any) -> None:
        if waiting and params["Item"]["type"]["S"] == item_type:
            waiting.pop()()

    events = clients.client("dynamodb").meta.events
    events.register_first("provide-client-params.dynamodb.PutItem", look)
    try:
        yield
    finally:
        events.unregister("provide-client-params.dynamodb.PutItem", look)
        assert not waiting, f"no {item_type} was put"
