"""Make good what the stream's readers could not do: of a record that was kept, by the record; of lost ones, by state.

A record that comes back late tells what happened then, not what is now. So what is copied is read anew, and only what
the record alone knows is taken from it: the entry of the log, and the event, under the change's own id, by which
everybody who has seen it knows it again. All of it is safe to repeat, and safe beside readers and the archive at work.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache, partial
from typing import Any, cast

from functions.copies import count
from functions.dynamodb.images import Image
from functions.dynamodb.keys import Instant, Row, instant
from functions.dynamodb.streams import Permanent, Record
from functions.dynamodb.writes import Write, delete_older, put, put_newer, unchanged
from functions.model import changes, counters, derived, events
from functions.model.changes import Change
from functions.model.entities import ArchivedOrder, Expiry, Order, OrderStatus, TimelineEvent
from functions.model.lives import EFFECT_DAYS, NOTIFICATION_DAYS
from functions.model.patterns import A5, A12b
from functions.model.states import CLOSED, ORDER_TRANSITIONS
from functions.model.table import BY_TYPE, COUNTED, EXPIRY, ORDER, TIMELINE
from functions.relay import ENTRIES_A_CALL, entry
from functions.shop import names
from functions.shop.shop import Shop, decided_again

Publish = Callable[[Sequence[Mapping[str, Any]]], None]
"""Publishes events, given as `events.detail` makes them. Raises Busy where the bus goes on refusing some."""
REMEMBERED_DAYS = min(EFFECT_DAYS, NOTIFICATION_DAYS)
"""What is older is not published again: those who react to it would not know that they have."""
ENDED = {*CLOSED, "ARCHIVING"}
BY_TTL = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}


@dataclass
class Recovered:
    """How many primaries were looked at, and the keys of those that cannot be read: these were passed over."""

    primaries: int = 0
    unreadable: list[tuple[str, str]] = field(default_factory=list)


def publisher(shop: Shop, client: Any, bus_name: str) -> Publish:
    """Publish through this EventBridge client, what is refused again."""

    def publish(details: Sequence[Mapping[str, Any]]) -> None:
        for start in range(0, len(details), ENTRIES_A_CALL):
            entries = [entry(bus_name, detail) for detail in details[start : start + ENTRIES_A_CALL]]
            waiting = shop.table.patience()
            while entries:
                results = client.put_events(Entries=entries)["Entries"]
                entries = [one for one, result in zip(entries, results, strict=True) if result.get("ErrorCode")]
                if entries:
                    waiting.pause()

    return publish


def redrive(shop: Shop, publish: Publish, record: Record) -> None:
    """Do again what both readers would have done at a stream record that was kept, in Lambda's shape.

    Raises Permanent where it cannot be read: a newer version of this code may.
    """
    change = changes.read(record)
    if change is None:
        return
    if change.after is None and (todo := counters.counting(change)):
        decided_again(shop, lambda: count(shop, todo))
    if change.row in derived.SOURCES:
        entries = derived.following(change).append
        _bring_up(shop, record["dynamodb"]["Keys"], lambda _: entries)
    if detail := events.detail(change):
        publish([detail])


def recover_copies(shop: Shop) -> Recovered:
    """Bring every copy of every primary up to it, and fill what is missing in the logs.

    Of a change that neither reader's record nor the log tells of, only the latest possible time is known: that of the
    next one that is known.
    """

    def bring_up(image: Image, change: Change) -> None:
        if change.row in derived.SOURCES:
            _bring_up(shop, {"PK": image["PK"], "SK": image["SK"]}, lambda item: _entries_by_state(shop, item))

    recovered = _each_primary(shop, bring_up)
    _count_what_is_gone(shop)
    return recovered


def recover_reactions(shop: Shop, publish: Publish) -> Recovered:
    """Publish again the event that each primary's present state stands for, under the id it had, and the end of each
    closed order whose marker has gone without its order being archived.

    Whoever has reacted before knows the event again. What is not told is what an item was before: an order that is
    shipped gets no belated mail that it was paid.
    """
    oldest = instant(shop.now() - timedelta(days=REMEMBERED_DAYS))

    def tell(_: Image, change: Change) -> None:
        told = [change]
        if isinstance(change.after, Order):
            told = [_reached(shop, change.after), *_ended(shop, change.after)]
        details = [events.detail(one) for one in told if one.at >= oldest]
        publish([detail for detail in details if detail])

    return _each_primary(shop, tell)


# copies ---------------------------------------------------------------------------------------------------------------
Entries = Iterable[tuple[Row[Any], Any]]


def _count_what_is_gone(shop: Shop) -> None:
    """Take off the totals what counts in them and is no more."""
    for image in _everything(shop):
        if image.get("type", {}).get("S") != COUNTED.type:
            continue
        found = counters.missed(COUNTED.read(image), shop.instant())
        if found is not None and not shop.table.batch_get([found[0]], consistent=True):
            decided_again(shop, partial(count, shop, found[1]))


class There(Exception):
    """The copy is there already, or a newer one."""


def _bring_up(shop: Shop, key: Mapping[str, Any], entries: Callable[[Any], Entries]) -> None:
    """Count the primary at this key, and write its copies as it is now and log entries, unless they are there."""

    def attempt() -> None:
        for item in shop.table.batch_get([key], consistent=True):
            row = BY_TYPE[type(item).__name__]
            if getattr(item, "status", None) == "ARCHIVING":
                return  # from here on the archive alone has it in hand
            copies = derived.copies_of(row, item)
            writes: list[Write[Any]] = [put_newer(into, copy) for into, copy in copies.values()]
            if isinstance(item, ArchivedOrder):
                _clear(shop, row, item)
            else:
                writes += _left_over(shop, row, item, copies)
                writes += [put(into, one) for into, one in entries(item) if not _has_ended(shop, one)]
            for write in writes:
                _while_unchanged(shop, row, item, write)
            if todo := counters.standing(row, item, shop.instant()):
                count(shop, todo)
            if isinstance(item, Order):
                names.bring_up(shop, item)

    decided_again(shop, attempt)


def _while_unchanged(shop: Shop, row: Row[Any], item: Any, write: Write[Any]) -> None:
    """Write a copy while its primary is as it was read: nothing is put into a partition that the archive has cleared.

    Raises Changed where it is not.
    """
    try:
        shop.table.write(unchanged(row, item), replace(write, refused=lambda _: There()))
    except There:
        return


def _clear(shop: Shop, row: Row[Any], item: ArchivedOrder) -> None:
    """Delete the copies that have no place beside this item any more."""
    types = {ended.type for ended in derived.ENDED_BY.get(row, ())}
    left = shop.table.partition(A12b, order_id=item.order_id)
    shop.table.delete([{"PK": image["PK"], "SK": image["SK"]} for image in left if image["type"]["S"] in types])


def _left_over(shop: Shop, row: Row[Any], item: Any, copies: Mapping[tuple[str, str], Any]) -> Iterator[Write[Any]]:
    """Deletes the copies beside an order that an earlier version of it had, and this one has not."""
    types = {snapshot.into.type for snapshot in derived.SNAPSHOTS if snapshot.of is row}
    beside = shop.table.partition(A12b, order_id=item.order_id) if row is ORDER else []
    for image in beside:
        if image["type"]["S"] in types and (image["PK"]["S"], image["SK"]["S"]) not in copies:
            into = BY_TYPE[image["type"]["S"]]
            yield delete_older(into, replace(into.read(image), version=item.version))


def _has_ended(shop: Shop, item: Any) -> bool:
    ttl: int | None = getattr(item, "ttl", None)
    return ttl is not None and ttl <= shop.now().timestamp()


def _entries_by_state(shop: Shop, item: Any) -> Iterator[tuple[Row[Any], Any]]:
    """The log entries of every change an order has been through, as its state and what is logged of it tell."""
    if isinstance(item, Order):
        for change in _history(item, _logged(shop, item), _noted(shop, item)):
            yield from derived.following(change).append


Logged = Mapping[int, TimelineEvent]
Noted = Mapping[int, Instant]


def _logged(shop: Shop, order: Order) -> Logged:
    """What an order's timeline tells, by version."""
    images = shop.table.partition(A12b, order_id=order.order_id)
    entries = [TIMELINE.read(image) for image in images if image["type"]["S"] == TIMELINE.type]
    return {entry.version: entry for entry in entries}


def _noted(shop: Shop, order: Order) -> Noted:
    """When it was that an order came to each version of which the customer's activity tells, by version: a reader may
    have been stopped between that and the timeline."""
    entries = shop.table.every(A5, customer_id=order.customer_id, since=order.placed_at)
    return {entry.version: entry.at for entry in entries if entry.order_id == order.order_id}


def _history(order: Order, logged: Logged, noted: Noted) -> Iterator[Change]:
    """Every change of an order, the last first. What is not logged follows from what is: it is a way of so many steps
    through the table of states, from the state before to the state after. When it came to its own the order says."""
    way: list[tuple[str, str]] = [("OrderPlaced", "PENDING") if order.total else ("OrderPaid", "PAID")]
    if 1 in logged:
        way = [(logged[1].event, logged[1].status)]
    reached = _reached_by(order)
    known = {reached: order.status, order.version: order.status}
    known |= {version: entry.status for version, entry in logged.items()}
    for version, status in sorted(known.items()):
        found = _way(way[-1][1], status, version - len(way))
        if found is None:
            raise Permanent(f"order {order.order_id} has no way of {version} versions to {status}")
        way += found
        if version in logged:
            way[-1] = (logged[version].event, status)
    at = order.updated_at
    for version in range(order.version, 0, -1):
        entry = logged.get(version)
        at = order.came_at if version == reached else noted.get(version, at)
        at = order.placed_at if version == 1 else entry.at if entry else at
        yield _past(order, version, at, *way[version - 1])


@cache
def _way(start: str, end: str, steps: int) -> tuple[tuple[str, str], ...] | None:
    """So many changes, each with the state it leads to, from one state to another; None where there is no such way."""
    if not steps:
        return () if start == end else None
    for move in ORDER_TRANSITIONS:
        if start in move.before and (rest := _way(move.reached(start), end, steps - 1)) is not None:
            return (move.change, move.reached(start)), *rest
    return None


def _past(order: Order, version: int, at: Instant, name: str, status: str) -> Change:
    """A change of an order's past, with the id it had."""
    past = replace(order, status=cast(OrderStatus, status), version=version, updated_at=at)
    change = changes.read(_record(ORDER.write(past)))
    assert change is not None, "an image without the one before it is a change"
    return replace(change, name=name)


# events ---------------------------------------------------------------------------------------------------------------
def _reached(shop: Shop, order: Order) -> Change:
    """The change by which an order came to its present state; what it has been through since leaves that as it is."""
    history = _history(order, _logged(shop, order), {})
    return next(change for change in history if change.version == _reached_by(order))


def _reached_by(order: Order) -> int:
    """The version at which an order came to its status, what the archive does to it included."""
    return order.version if order.status == "ARCHIVING" else order.reached


def _ended(shop: Shop, order: Order) -> Iterator[Change]:
    """The end of a closed order whose marker is gone, or has ended: what the archive waits for."""
    if order.status not in ENDED or shop.table.batch_get([EXPIRY.key(order_id=order.order_id)], consistent=True):
        return
    marker = Expiry(
        order_id=order.order_id,
        customer_id=order.customer_id,
        created_at=order.updated_at,
        ttl=int(shop.now().timestamp()),
    )
    removal = {"eventName": "REMOVE", "userIdentity": BY_TTL, "dynamodb": {"OldImage": EXPIRY.write(marker)}}
    if change := changes.read(removal):
        yield change


def _record(image: Image) -> Record:
    """The stream record by which an item became what it is: made, or changed from something else."""
    made = image.get("version") == {"N": "1"}
    return {"eventName": "INSERT" if made else "MODIFY", "dynamodb": {"NewImage": image}}


def _each_primary(shop: Shop, act: Callable[[Image, Change], None]) -> Recovered:
    """Scan the table and do something with each primary and the change by which it became what it is."""
    recovered = Recovered()
    for image in _everything(shop):
        row = BY_TYPE.get(image.get("type", {}).get("S", ""))
        if row is not None and row.kind != "primary":
            continue
        try:
            change = changes.read(_record(image))
            if change is not None:
                act(image, change)
        except Permanent:
            recovered.unreadable.append((image["PK"]["S"], image["SK"]["S"]))
        recovered.primaries += 1
    return recovered


def _everything(shop: Shop) -> Iterator[Image]:
    pages = shop.table.client.get_paginator("scan").paginate(TableName=shop.table.name, ConsistentRead=True)
    for page in pages:
        yield from page["Items"]
