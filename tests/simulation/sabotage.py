"""What planted faults do instead of what the product does: each the smallest change that a tired person could make."""

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any
from unittest import mock

from functions import archive, objects, relay, wiring
from functions import mails as posting
from functions.dynamodb import writes
from functions.dynamodb.store import Table
from functions.dynamodb.streams import Batch
from functions.dynamodb.writes import Changed, Write
from functions.model import changes, counters, derived, entities
from functions.model import table as t
from functions.model.changes import Change
from functions.model.states import moved_shipment
from functions.queues import Messages
from functions.shop import archive as closing
from functions.shop import disputes, ending, notices, notifications, payments, refunds, settling, shipments, stock
from functions.shop.shop import Caller
from ops import recover
from ops.recover import redrive
from tests.simulation import template

Plant = Callable[[], AbstractContextManager[Any]]
_NUMBERS = itertools.count()
_COUNTED_ONCE = counters.counted


# How to plant ---------------------------------------------------------------------------------------------------------
def instead(target: Any, name: str, new: Any) -> Plant:
    """Put something else in the place of an attribute."""
    return lambda: mock.patch.object(target, name, new)


def together(*plants: Plant) -> Plant:
    """Several of them as one."""

    @contextmanager
    def planted() -> Iterator[None]:
        with ExitStack() as stack:
            for plant in plants:
                stack.enter_context(plant())
            yield

    return planted


def in_two(row: Any) -> Plant:
    """What a transaction writes of this row is written by itself, when the rest is done."""

    def write(self: Table, *all_of_it: Write[Any]) -> None:
        for part in ([one for one in all_of_it if one.row is not row], [one for one in all_of_it if one.row is row]):
            if part:
                _WRITE(self, *part)

    return instead(Table, "write", write)


def never(row: Any) -> Plant:
    """What a transaction writes of this row is left out."""

    def write(self: Table, *all_of_it: Write[Any]) -> None:
        _WRITE(self, *(one for one in all_of_it if one.row is not row))

    return instead(Table, "write", write)


def unchecked(row: Any) -> Plant:
    """A transaction does not look whether what it needs of this row is there."""

    def write(self: Table, *all_of_it: Write[Any]) -> None:
        _WRITE(self, *(one for one in all_of_it if one.row is not row or one.kind != "ConditionCheck"))

    return instead(Table, "write", write)


_WRITE = Table.write


def mappings_begin(position: str) -> Plant:
    """The stream's mappings are deployed with another starting position."""

    @contextmanager
    def planted() -> Iterator[None]:
        real = template.template()
        streams = {name: {**mapping, "StartingPosition": position} for name, mapping in real.streams.items()}
        with mock.patch.object(template, "template", return_value=replace(real, streams=streams)):
            yield

    return planted


# Writes ---------------------------------------------------------------------------------------------------------------
def unguarded(make: Callable[..., Write[Any]]) -> Callable[..., Write[Any]]:
    """The same write without its condition."""

    def made(*args: Any, **kwargs: Any) -> Write[Any]:
        write = make(*args, **kwargs)
        left = {name: value for name, value in write.request.items() if name != "ConditionExpression"}
        used = f"{left.get('UpdateExpression', '')} ".replace(",", " ")
        for names in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
            left[names] = {token: value for token, value in left.get(names, {}).items() if f"{token} " in used}
        return replace(write, request={name: value for name, value in left.items() if value})

    return made


def other_effect(row: Any, item: Any, **refused: Any) -> Write[Any]:
    if row is t.EFFECT:
        item = replace(item, effect_id=f"{item.effect_id}{next(_NUMBERS)}")
    return writes.put(row, item, **refused)


def fresh_activity(row: Any, item: Any) -> Write[Any]:
    return writes.put(row, replace(item, change_id=id_of_delivery()) if row is t.ACTIVITY else item)


def put_once(row: Any, copy: Any) -> Write[Any]:
    return writes.put(row, copy)


# Streams and queues ---------------------------------------------------------------------------------------------------
def id_of_delivery(*_: Any) -> str:
    return f"{next(_NUMBERS):032}"


def swallow(self: Batch, record: Any, act: Callable[[Any], None]) -> None:
    try:
        act(record)
    except Exception as error:  # noqa: BLE001  that is the mutant
        self.failed(error, record)


def publish_unseen(batch: Batch, entries: list[Any]) -> list[dict[str, Any]]:
    if entries:
        wiring.client("events").put_events(Entries=[entry for _, entry in entries])
    return []


def publish_but(name: str) -> Callable[[Batch, list[Any]], list[dict[str, Any]]]:
    """Publish all events but those of this type."""
    return lambda batch, entries: _PUBLISH(batch, [one for one in entries if one[1]["DetailType"] != name])


_PUBLISH = relay._publish


def nothing_failed(self: Messages) -> dict[str, Any]:
    return {"batchItemFailures": []}


def park_ids(bucket: str, reader: str) -> Callable[[Any, str], None]:
    real = _PARKING(bucket, reader)
    return lambda record, reason: real(
        {name: record[name] for name in record.keys() & {"eventID", "messageId"}}, reason
    )


_PARKING = wiring.parking


# Copies ---------------------------------------------------------------------------------------------------------------
def without(row: Any, name: str) -> Callable[[Change], derived.Following]:
    """What a change means for the copies, without this log's entry for this kind of change."""

    def following(change: Change) -> derived.Following:
        todo = _FOLLOWING(change)
        left = tuple((into, one) for into, one in todo.append if into is not row or change.name != name)
        return replace(todo, append=left)

    return following


_FOLLOWING = derived.following


def counted_anew(
    todo: counters.Counting, so_far: entities.Counted | None, totals: Mapping[str, Any], now: datetime
) -> Iterator[counters.Step]:
    """What counts already counts for nothing."""
    return _COUNTED_ONCE(todo, so_far and replace(so_far, as_of="", amounts={}), totals, now)


def counted_when_back(change: Change) -> counters.Counting | None:
    """What comes back is counted as if it were new."""
    if change.name == "OrderRestored":
        return counters.standing(change.row, change.after, change.after.updated_at)
    return _COUNTING(change)


_COUNTING = counters.counting


def put_as_it_was(shop: Any, publish: Any, record: Any) -> None:
    """Redrive by what the record says of its item, not by what the table does."""
    change = changes.read(record)
    for row, copy in derived.following(change).put if change else ():
        shop.table.write(unguarded(writes.put)(row, copy))
    _REDRIVE(shop, publish, record)


_REDRIVE = redrive


def reached_anew(shop: Any, order: entities.Order) -> Iterator[Change]:
    """The change by which an order came to its state, as if it were another."""
    return (replace(change, id=id_of_delivery()) for change in _REACHED(shop, order))


_REACHED = recover._reached


# Mails ----------------------------------------------------------------------------------------------------------------
def claim_nothing(shop: Any, event: str, effect_id: str, at: Any, order: entities.Order) -> entities.Notification:
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


def send_to_another(sender: str, to: str, mail: Any, effect: str) -> Any:
    return _SEND(sender, f"other-{to}", mail, effect)


_SEND = posting.send


def send_to_the_address_before(shop: Any, customer_id: str, order_id: str) -> Any:
    about = _LETTER(shop, customer_id, order_id)
    if about:
        first = _FIRST.setdefault((shop.table.name, customer_id), about.customer.email)
        about = replace(about, customer=replace(about.customer, email=first))
    return about


_LETTER, _FIRST = notifications.letter, dict[tuple[str, str], str]()


def first_page(campaign: entities.Campaign, product: Any, followers: Any, after: Any) -> notices.Page:
    return _PAGE(campaign, product, followers, None)


_PAGE = notices.Page


# Customers ------------------------------------------------------------------------------------------------------------
def leaving_index_keys(before_row: Any, before: Any, row: Any, item: Any) -> Write[Any]:
    write = _TURN(before_row, before, row, item)
    old = before_row.write(before)
    kept = {name: old[name] for name in ("GSI1PK", "GSI1SK", "company_id") if name in old}
    return replace(write, request={**write.request, "Item": {**write.request["Item"], **kept}})


_TURN = writes.turn


def keep_what_they_hold(row: Any, key: Any, holder: str, held_by: str) -> Write[Any]:
    return writes.present(row, key, refused=lambda found: Changed(row, key))


# The archive ----------------------------------------------------------------------------------------------------------
def without_children(shop: Any, order_id: str) -> closing.Estate | None:
    """What the archive is told of an order: itself."""
    estate = closing.close(shop, order_id)
    if estate is None or estate.images is None:
        return estate
    return replace(estate, images=[image for image in estate.images if image["type"]["S"] == "Order"])


def delete_first(shop: Any, bucket: str, order_id: str) -> None:
    estate = closing.close(shop, order_id)
    if estate is None:
        return
    key = f"orders/{order_id}/{estate.order.version}.json"
    if estate.images is None:
        body = objects.get(bucket, key)
    else:
        gone = [image for image in estate.images if image["type"]["S"] not in closing.STAYS]
        shop.table.delete([{"PK": image["PK"], "SK": image["SK"]} for image in gone])
        made = archive.order_object(estate.order, estate.images)
        body = objects.put_once(bucket, key, made, "application/json")
    try:
        closing.leave_stub(shop, estate.order, archive.restored(body), key, hashlib.sha256(body).hexdigest())
    except Changed:
        return


def put_over(bucket: str, key: str, body: bytes, content_type: str) -> bytes:
    objects.put(bucket, key, body, content_type)
    return body


def archive_one_line(bucket: str, events: Sequence[Any]) -> None:
    _ACTIVITY(bucket, events[:1])


_ACTIVITY = archive.archive_activity


# Orders and money -----------------------------------------------------------------------------------------------------
def taken_without_look(order: entities.Order) -> Iterator[Write[entities.Stock]]:
    for write in _TAKE(order):
        yield unguarded(lambda write=write: write)()


_TAKE = stock.take


def release_nothing(_: Any) -> Iterator[Any]:
    return iter(())


def nothing_back(*_: Any) -> refunds.GivenBack:
    return refunds.GivenBack()


def asked_anew(shop: Any, provider: Any, refund: entities.Refund, *_: Any) -> settling.AtProvider:
    names = {"order_id": refund.order_id, "refund_id": refund.refund_id, "attempt": str(refund.attempt)}
    key = f"{refund.refund_id}-{next(_NUMBERS)}"
    made: settling.AtProvider = provider.refund(
        key=key, payment_id=refund.payment_id, amount=refund.amount, metadata=names
    )
    return made


def forget_what_is_back(item: Any, **new: Any) -> Any:
    return replace(item, **{name: value for name, value in new.items() if name != "refunded"})


def counted_alone(shop: Any, order: entities.Order, came: entities.Payment) -> list[Write[Any]]:
    return [write for write in _COUNTED(shop, order, came) if write.row is not t.REFUND]


_COUNTED = payments._counted


def less_by_nothing(shop: Any, order: entities.Order, taken: int) -> entities.Order:
    return _LESS(shop, order, 0 * taken)


_LESS = disputes._less


def owing_nothing(*args: Any, **kwargs: Any) -> refunds.GivenBack:
    return replace(_GIVEN_BACK(*args, **kwargs), owed=0)


_GIVEN_BACK = refunds.given_back


def payment_of_the_event(shop: Any, told: payments.Told, body: Mapping[str, Any]) -> Any:
    return _RECORD_PAYMENT(shop, replace(told, payment_id=f"{told.payment_id}-{told.event_id}"), body)


_RECORD_PAYMENT = payments.record_payment


def all_is_left(there: Any, taken: Any) -> dict[str, int]:
    return dict(there) if _LEFT(there, taken) else {}


_LEFT = shipments._left


def one_of_each(order: entities.Order, quantities: Mapping[str, int]) -> entities.Shipment:
    return _REQUESTED(order, dict.fromkeys(quantities, 1))


_REQUESTED = shipments._requested


def sent_is_delivered(shipment: entities.Shipment, command: Any, at: Any) -> entities.Shipment:
    after = moved_shipment(shipment, command, at)
    return replace(after, status="DELIVERED") if command == "dispatch" else after


def counted_as_delivered(item: Any, **new: Any) -> Any:
    return replace(item, **(new | ({"delivered": new["shipped"]} if "shipped" in new else {})))


def stop_unasked(shop: Any, caller: Any, order_id: str) -> entities.Order:
    order = _CANCEL(shop, caller, order_id)
    if order.status == "CANCEL_REQUESTED":
        return ending.agree_cancel(shop, Caller("nobody", frozenset({"staff"})), order_id)
    return order


_CANCEL = ending.cancel_order
