"""Faults planted in the product: each must be seen by the invariants within its number of seeds.

A mutant is the smallest change that a tired person could make; `plant` makes it, and undoes it when it is left.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from functions import archive, copies, erasure, fulfilment, relay, wiring
from functions.dynamodb import writes
from functions.dynamodb.streams import Batch
from functions.model import changes, entities
from functions.model import table as t
from functions.model.patterns import A12
from functions.model.states import moved
from functions.notifications import handler as mailing
from functions.queues import Messages
from functions.shop import (
    accounts,
    discounts,
    ending,
    invoices,
    payments,
    placing,
    refunds,
    settling,
    shipments,
    stock,
)

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


def _release_nothing(_: Any) -> Iterator[Any]:
    return iter(())


def _no_expiry(
    shop: Any, before: entities.Order, after: entities.Order, why: Any, also: Sequence[writes.Write[Any]] = ()
) -> entities.Order:
    back = refunds.given_back(shop, before, before.paid - before.refunded, why)
    ended = replace(after, refunded=before.refunded + back.amount)
    released = (*stock.release(before), *discounts.released(before))
    shop.table.write(writes.change(t.ORDER, before, ended), *released, *back.writes, *also)
    return ended


def _asked_anew(shop: Any, provider: Any, refund: entities.Refund) -> settling.AtProvider:
    names = {"order_id": refund.order_id, "refund_id": refund.refund_id, "attempt": str(refund.attempt)}
    key = f"{refund.refund_id}-{next(_NUMBERS)}"
    made: settling.AtProvider = provider.refund(
        key=key, payment_id=refund.payment_id, amount=refund.amount, metadata=names
    )
    return made


def _credited_before(shop: Any, *args: Any, **kwargs: Any) -> list[writes.Write[Any]]:
    shop.table.write(*_CREDITED(shop, *args, **kwargs))
    return []


_CREDITED = accounts.credited


def _counted_alone(shop: Any, order: entities.Order, came: entities.Payment) -> list[writes.Write[Any]]:
    return [write for write in _COUNTED(shop, order, came) if write.row is not t.REFUND]


_COUNTED = payments._counted


def _all_is_left(there: Any, taken: Any) -> dict[str, int]:
    return dict(there) if _LEFT(there, taken) else {}


_LEFT = shipments._left


def _nothing_back(*_: Any) -> refunds.GivenBack:
    return refunds.GivenBack()


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
    Mutant("goods are gone", "an order that ends unpaid keeps its goods", _instead(stock, "release", _release_nothing)),
    Mutant("never expires", "an order that ends unpaid has no end", _instead(ending, "_end", _no_expiry)),
    Mutant("sells what is not there", "stock is taken without a look", _instead(stock, "take", _taken_without_look)),
    Mutant(
        "a key is a new order",
        "the order's id is not made of the key",
        _instead(placing, "order_id_of", lambda shop, customer_id, key: shop.new_id()),
    ),
    Mutant(
        "archives no children",
        "an order's object holds the order alone",
        _instead(archive, "order_object", _only_the_order),
    ),
    Mutant("asks anew", "a refund has another key each time", _instead(settling, "_asked", _asked_anew)),
    Mutant(
        "credits, then tells",
        "an account has the money in a write of its own",
        _instead(settling, "credited", _credited_before),
    ),
    Mutant(
        "keeps what is too much",
        "money that is not for the order is not given back",
        _instead(payments, "_counted", _counted_alone),
    ),
    Mutant("keeps what was paid", "an order that ends early keeps it", _instead(ending, "given_back", _nothing_back)),
    Mutant("keeps what it drops", "an order cut short gives nothing back", _instead(ending, "freed", lambda *_: 0)),
    Mutant(
        "codes are gone",
        "an order that ends early keeps its redemption",
        _instead(discounts, "released", _release_nothing),
    ),
    Mutant("sends it twice", "what is left of a shipment is all of it", _instead(shipments, "_left", _all_is_left)),
    Mutant(
        "forgets not all",
        "an erasure leaves what is in the archive",
        _instead(erasure, "_rewrite", lambda *_: None),
    ),
    Mutant(
        "forgets not what failed",
        "an erasure leaves what is in the failure store",
        _instead(erasure, "clean_failures", lambda *_: None),
    ),
)
