"""Faults planted in the product: each must be seen by the invariants within its number of seeds.

A mutant is the smallest change that a tired person could make; `plant` makes it, and undoes it when it is left.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from functions import archive, copies, fulfilment, relay, wiring
from functions.dynamodb import writes
from functions.dynamodb.streams import Batch
from functions.model import changes, entities
from functions.model import table as t
from functions.model.patterns import A12
from functions.model.states import moved
from functions.notifications import handler as mailing
from functions.queues import Messages
from functions.shop import invoices, orders, stock

Plant = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Mutant:
    """`does`: what is wrong with it. `seeds`: within how many it must be caught."""

    name: str
    does: str
    plant: Plant
    seeds: int = 40


def _instead(target: Any, name: str, new: Any) -> Plant:
    """Put something else in the place of an attribute."""
    return lambda: mock.patch.object(target, name, new)


def _unguarded(make: Callable[..., writes.Write[Any]]) -> Callable[..., writes.Write[Any]]:
    """The same write without its condition."""

    def made(*args: Any, **kwargs: Any) -> writes.Write[Any]:
        write = make(*args, **kwargs)
        left_out = ("ConditionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues")
        if write.kind == "Update":
            request = {name: value for name, value in write.request.items() if name != "ConditionExpression"}
            if ":read" in request["ExpressionAttributeValues"]:
                request["ExpressionAttributeValues"] = {
                    name: value for name, value in request["ExpressionAttributeValues"].items() if name != ":read"
                }
            names = request["ExpressionAttributeNames"]
            used = request["UpdateExpression"]
            request["ExpressionAttributeNames"] = {
                token: name for token, name in names.items() if f"{token} " in f"{used} ".replace(",", " ")
            }
            values = request["ExpressionAttributeValues"]
            request["ExpressionAttributeValues"] = {
                token: value for token, value in values.items() if f"{token} " in f"{used} ".replace(",", " ")
            }
        else:
            request = {name: value for name, value in write.request.items() if name not in left_out}
        return replace(write, request=request)

    return made


# What each does instead -----------------------------------------------------------------------------------------------
def _other_effect(row: Any, item: Any, **refused: Any) -> writes.Write[Any]:
    if row is t.EFFECT:
        item = replace(item, effect_id=f"{item.effect_id}{next(_NUMBERS)}")
    return writes.put(row, item, **refused)


_NUMBERS = itertools.count()


def _publish_unseen(batch: Batch, entries: list[Any]) -> list[str]:
    if entries:
        wiring.client("events").put_events(Entries=[entry for _, entry in entries])
    return []


def _only_the_order(order: entities.Order, images: Sequence[Any]) -> bytes:
    return _OBJECT(order, [image for image in images if image["type"]["S"] == "Order"])


_OBJECT = archive.order_object


def _ship_then_tell(shop: Any, order_id: str) -> entities.Shipment | None:
    order = shop.table.get(A12, order_id=order_id)
    if not isinstance(order, entities.Order) or order.status != "PAID":
        return None
    now = shop.instant()
    shipment = entities.Shipment(
        order_id=order_id,
        shipment_id=f"{order_id}-{shop.new_id()}",
        customer_id=order.customer_id,
        status="REQUESTED",
        quantities={id: line.quantity for id, line in order.lines.items()},
        created_at=now,
        updated_at=now,
    )
    shop.table.write(writes.put(t.SHIPMENT, shipment))
    shop.table.write(writes.change(t.ORDER, order, moved(order, "fulfil", now)))
    return shipment


def _claim_nothing(shop: Any, event: str, effect_id: str, at: Any, order: entities.Order) -> entities.Notification:
    return entities.Notification(
        customer_id=order.customer_id,
        order_id=order.order_id,
        effect_id=effect_id,
        at=at,
        event=event,
        status="SENDING",
        claim=shop.new_id(),
        claimed_until=0,
        ttl=int(shop.now().timestamp()) + 10**6,
    )


def _end_without_goods(shop: Any, after: entities.Order, before: entities.Order) -> entities.Order:
    shop.table.write(writes.change(t.ORDER, before, after), orders.expiry(shop, after, shop.retention_days))
    return after


def _no_expiry(shop: Any, after: entities.Order, before: entities.Order) -> entities.Order:
    shop.table.write(writes.change(t.ORDER, before, after), *stock.release(before))
    return after


def _id_of_delivery(*_: Any) -> str:
    return f"{next(_NUMBERS):032}"


def _swallow(self: Batch, record: Any, act: Callable[[Any], None]) -> None:
    try:
        act(record)
    except Exception as error:  # noqa: BLE001  that is the mutant
        self.failed(error, record)


def _taken_without_look(order: entities.Order) -> Iterator[writes.Write[entities.Stock]]:
    for write in _TAKE(order):
        yield _unguarded(lambda write=write: write)()


_TAKE = stock.take


def _nothing_failed(self: Messages) -> dict[str, Any]:
    return {"batchItemFailures": []}


MUTANTS = (
    Mutant(
        "no version guard",
        "an older copy overwrites a newer one",
        _instead(copies, "put_newer", _unguarded(writes.put_newer)),
    ),
    Mutant("swallows failures", "a record that failed counts as done", _instead(Batch, "apply", _swallow)),
    Mutant(
        "ids of deliveries", "a change's id is another each time it comes", _instead(changes, "_id", _id_of_delivery)
    ),
    Mutant(
        "ignores refused events", "PutEvents answered 200, so all is well", _instead(relay, "_publish", _publish_unseen)
    ),
    Mutant(
        "forgets the Effect",
        "the invoice's Effect is under another id each time",
        _instead(invoices, "put", _other_effect),
    ),
    Mutant("short Effects", "an Effect lives shorter than the queues", _instead(invoices, "EFFECT_DAYS", 0)),
    Mutant(
        "numbers unguarded",
        "the series' next number is taken without a look",
        _instead(invoices, "change", _unguarded(writes.change)),
    ),
    Mutant(
        "ships, then tells",
        "shipment and order's state in two writes",
        _instead(fulfilment, "request_shipment", _ship_then_tell),
    ),
    Mutant("claims nothing", "a mail is sent by whoever comes", _instead(mailing, "claim", _claim_nothing)),
    Mutant(
        "messages never fail", "a message that failed counts as done", _instead(Messages, "response", _nothing_failed)
    ),
    Mutant("goods are gone", "an order that ends unpaid keeps its goods", _instead(orders, "_end", _end_without_goods)),
    Mutant("never expires", "an order that ends unpaid has no end", _instead(orders, "_end", _no_expiry)),
    Mutant("sells what is not there", "stock is taken without a look", _instead(stock, "take", _taken_without_look)),
    Mutant(
        "a key is a new order",
        "the order's id is not made of the key",
        _instead(orders, "order_id_of", lambda shop, customer_id, key: shop.new_id()),
    ),
    Mutant(
        "archives no children",
        "an order's object holds the order alone",
        _instead(archive, "order_object", _only_the_order),
    ),
)
