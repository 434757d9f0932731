"""Make good what the stream's readers could not do: of a record that was kept, by the record; of lost ones, by state.

A record that comes back late tells what happened then, not what is now. So what is copied is read anew, and only what
the record alone knows is taken from it: the entry of the log, and the event, under the change's own id, by which
everybody who has seen it knows it again. All of it is safe to repeat, and safe beside readers and the archive at work.
"""

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any, cast

from functions.copies import count, ended_copies, to_count, unless_newer
from functions.dynamodb.images import Image
from functions.dynamodb.keys import Instant, Row, instant
from functions.dynamodb.streams import Permanent, Record
from functions.dynamodb.writes import Write, delete_older, put, put_newer, unchanged
from functions.model import changes, counters, derived, events
from functions.model.changes import Change
from functions.model.entities import ArchivedOrder, Counted, Expiry, Order, OrderStatus, TimelineEvent
from functions.model.lives import EFFECT_DAYS, NOTIFICATION_DAYS
from functions.model.patterns import A5, A12b
from functions.model.states import CLOSED, ORDER_TRANSITIONS
from functions.model.table import BY_TYPE, COUNTED, EXPIRY, ORDER, TIMELINE
from functions.relay import ENTRIES_A_CALL, entry
from functions.shop import names
from functions.shop.shop import Shop, decided_again
from ops.sweep import AfterPage, Found, sweep

Publish = Callable[[Sequence[Mapping[str, Any]]], None]
"""Publishes events, given as `events.detail` makes them. Raises Busy where the bus goes on refusing some."""
REMEMBERED_DAYS = min(EFFECT_DAYS, NOTIFICATION_DAYS)
"""What is older is not published again: those who react to it would not know that they have."""
ENDED = {*CLOSED, "ARCHIVING"}
BY_TTL = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}


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

        def attempt() -> None:
            for item in shop.table.batch_get([record["dynamodb"]["Keys"]], consistent=True):
                bring_up(shop, item, lambda _: entries)

        decided_again(shop, attempt)
    if detail := events.detail(change):
        publish([detail])


def recover_copies(shop: Shop, *, after_page: Sequence[AfterPage] = (), units_per_second: float | None = None) -> Found:
    """Bring every copy of every primary up to it, fill what is missing in the logs, and take off the totals what counts
    in them and is no more.

    Of a change that neither reader's record nor the log tells of, only the latest possible time is known: that of the
    next one that is known.
    """

    def act(image: Image) -> bool | None:
        if image.get("type", {}).get("S") == COUNTED.type:
            return _take_off(shop, COUNTED.read(image))
        change = _latest(image)
        if change is None or change.row not in derived.SOURCES:
            return None
        return bring_up(shop, change.after)

    return sweep(shop.table, act, after_page=after_page, units_per_second=units_per_second)


def recover_reactions(
    shop: Shop, publish: Publish, *, after_page: Sequence[AfterPage] = (), units_per_second: float | None = None
) -> Found:
    """Publish again the event that each primary's present state stands for, under the id it had, and the end of each
    closed order whose marker has gone without its order being archived.

    Whoever has reacted before knows the event again. What is not told is what an item was before: an order that is
    shipped gets no belated mail that it was paid.
    """
    oldest = instant(shop.now() - timedelta(days=REMEMBERED_DAYS))

    def tell(image: Image) -> bool | None:
        change = _latest(image)
        if change is None:
            return None
        told = [change]
        if isinstance(change.after, Order):
            told = [_reached(shop, change.after), *_ended(shop, change.after)]
        details = [detail for one in told if one.at >= oldest and (detail := events.detail(one))]
        publish(details)
        return bool(details)

    return sweep(shop.table, tell, after_page=after_page, units_per_second=units_per_second)


# copies ---------------------------------------------------------------------------------------------------------------
Entries = Iterable[tuple[Row[Any], Any]]


def bring_up(shop: Shop, item: Any, entries: Callable[[Any], Entries] | None = None, *, dry: bool = False) -> bool:
    """Count a primary, and write its copies as it is now, and log entries, unless they are there: which entries, if it
    is not its own state that tells. Returns whether there was anything to do; `dry`: without doing it.

    Raises Changed where the item is no more as it was read.
    """
    row = BY_TYPE[type(item).__name__]
    if getattr(item, "status", None) == "ARCHIVING":
        return False  # from here on the archive alone has it in hand
    if isinstance(item, ArchivedOrder):
        writes, ended = _missing(shop, derived.copies_of(row, item)), ended_copies(shop.table, item)
    else:
        copies = derived.copies_of(row, item)
        logged = entries(item) if entries else _entries_by_state(shop, item)
        writes = [*_missing(shop, copies), *_left_over(shop, row, item, copies)]
        writes += _unlogged(shop, [(into, one) for into, one in logged if not _has_ended(shop, one)])
        ended = []
    todo = counters.standing(row, item, shop.instant())
    counting = to_count(shop, todo) if todo else []
    renamed = names.newer(shop, item) if isinstance(item, Order) else None
    if not dry:
        for write in ended:
            unless_newer(shop.table, write)
        for write in writes:
            _while_unchanged(shop, row, item, write)
        if counting:
            shop.table.write(unchanged(row, item), *counting)
        if renamed:
            names.bear(shop, item.order_id, renamed)
    return bool(writes or ended or counting or renamed)


def _take_off(shop: Shop, mark: Counted) -> bool:
    """Take off the totals what counts in them and is no more."""
    found = counters.missed(mark, shop.instant())
    if found is None or shop.table.batch_get([found[0]], consistent=True):
        return False
    count(shop, found[1])
    return True


class There(Exception):
    """The copy is there already, or a newer one."""


def _missing(shop: Shop, copies: Mapping[tuple[str, str], tuple[Row[Any], Any]]) -> list[Write[Any]]:
    """Writes of the copies that do not lie there as they must be; a copy may be of an older version, and right."""
    there = _there(shop, copies)
    found = []
    for place, (into, copy) in copies.items():
        wanted = into.write(copy)
        if {**there.get(place, {}), "version": wanted["version"]} != wanted:
            found.append(put_newer(into, copy, again=True))
    return found


def _unlogged(shop: Shop, entries: Sequence[tuple[Row[Any], Any]]) -> list[Write[Any]]:
    """Writes of the log entries that are not there."""
    places = {derived.place(into, one): (into, one) for into, one in entries}
    there = _there(shop, places)
    return [put(into, one) for place, (into, one) in places.items() if place not in there]


def _there(shop: Shop, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Image]:
    keys = [{"PK": {"S": pk}, "SK": {"S": sk}} for pk, sk in places]
    images = shop.table.images(keys, consistent=True) if keys else []
    return {(image["PK"]["S"], image["SK"]["S"]): image for image in images}


def _while_unchanged(shop: Shop, row: Row[Any], item: Any, write: Write[Any]) -> None:
    """Write a copy while its primary is as it was read: nothing is put into a partition that the archive has cleared.

    Raises Changed where it is not.
    """
    try:
        shop.table.write(unchanged(row, item), replace(write, refused=lambda _: There()))
    except There:
        return


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
    moves = [version for version in order.told if version not in order.returns]  # to come back is no move
    known = {reached: order.status, moves[-1]: order.status}
    known |= {version: logged[version].status for version in moves if version in logged}
    for version, status in sorted(known.items()):
        found = _way(way[-1][1], status, bisect(moves, version) - len(way))
        if found is None:
            raise Permanent(f"order {order.order_id} has no way of {version} versions to {status}")
        way += found
        if version in logged:
            way[-1] = (logged[version].event, status)
    at = order.updated_at
    for version in reversed(order.told):
        entry = logged.get(version)
        name, reached_then = way[bisect(moves, version) - 1]
        if version in order.returns:
            back_at = noted.get(version, order.restored_at or at)
            yield _past(order, version, entry.at if entry else back_at, "OrderRestored", reached_then)
            continue
        at = order.came_at if version == reached else noted.get(version, at)
        at = order.placed_at if version == 1 else entry.at if entry else at
        yield _past(order, version, at, name, reached_then)


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
    past = replace(order, status=cast(OrderStatus, status), version=version, updated_at=at, restored_at=None)
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


def _latest(image: Image) -> Change | None:
    """The change by which a primary became what it is; None for what is none. Raises Permanent."""
    row = BY_TYPE.get(image.get("type", {}).get("S", ""))
    return changes.read(_record(image)) if row is None or row.kind == "primary" else None
