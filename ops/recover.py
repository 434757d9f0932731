"""Make good what the stream's readers could not do: of a record that was kept, by the record; of lost ones, by state.

A record that comes back late tells what happened then, not what is now. So what is copied is read anew, and only what
the record alone knows is taken from it: the entry of the log, and the event, under the change's own id, by which
everybody who has seen it knows it again. All of it is safe to repeat, and safe beside readers and the archive at work.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from functions.copies import count, ended_copies, to_count, unless_newer
from functions.dynamodb.images import Image
from functions.dynamodb.keys import Row, instant
from functions.dynamodb.streams import Record
from functions.dynamodb.writes import Write, delete, put, put_newer, unchanged
from functions.model import changes, counters, derived, events
from functions.model.changes import Change
from functions.model.entities import ArchivedOrder, Counted, Expiry, Order
from functions.model.lives import REPLAYED_DAYS
from functions.model.patterns import A5, A12b
from functions.model.states import CLOSED
from functions.model.table import ACTIVITY, BY_TYPE, COUNTED, EXPIRY, TIMELINE
from functions.relay import ENTRIES_A_CALL, entry
from functions.shop import names
from functions.shop.shop import Shop, decided_again
from ops.history import became, entries, history
from ops.items import fields_of, place_of, there
from ops.kept import Kept
from ops.progress import Progress
from ops.sweep import Found, sweep

Publish = Callable[[Sequence[Mapping[str, Any]]], None]
"""Publishes events, given as `events.detail` makes them. Raises Busy where the bus goes on refusing some."""
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
                bring_up(shop, item, entries)

        decided_again(shop, attempt)
    if detail := events.detail(change):
        publish([detail])


def recover_copies(
    shop: Shop,
    *,
    dry: bool = False,
    progress: Progress | None = None,
    units_per_second: float | None = None,
    kept: Kept | None = None,
) -> Found:
    """Bring every copy of every primary up to it, fill what is missing in the logs, and take off the totals what counts
    in them and is no more.

    Of a change that neither reader's record nor the log tells of, only the latest possible time is known: that of the
    next one that is known. `dry`: find what there is to do, without doing it.
    """

    def act(image: Image) -> bool | None:
        if image.get("type", {}).get("S") == COUNTED.type:
            return _take_off(shop, COUNTED.read(image), dry=dry)
        change = _latest(image)
        if change is None or change.row not in derived.SOURCES:
            return None
        return bring_up(shop, change.after, dry=dry)

    return sweep(shop.table, act, progress=progress, units_per_second=units_per_second, kept=kept)


def recover_reactions(
    shop: Shop,
    publish: Publish,
    *,
    progress: Progress | None = None,
    units_per_second: float | None = None,
    kept: Kept | None = None,
) -> Found:
    """Publish again the event that each primary's present state stands for, under the id it had, and the end of each
    closed order whose marker has gone without its order being archived.

    Whoever has reacted before knows the event again. What is not told is what an item was before: an order that is
    shipped gets no belated mail that it was paid.
    """
    oldest = instant(shop.now() - timedelta(days=REPLAYED_DAYS))

    def tell(image: Image) -> bool | None:
        change = _latest(image)
        if change is None:
            return None
        told = [change]
        if isinstance(change.after, Order):
            told = [*_reached(shop, change.after), *_ended(shop, change.after)]
        details = [detail for one in told if one.at >= oldest and (detail := events.detail(one))]
        publish(details)
        return bool(details)

    return sweep(shop.table, tell, progress=progress, units_per_second=units_per_second, kept=kept)


# copies ---------------------------------------------------------------------------------------------------------------
Entries = Sequence[tuple[Row[Any], Any]]


def bring_up(shop: Shop, item: Any, logged: Entries | None = None, *, dry: bool = False) -> bool:
    """Count a primary, and write its copies as it is now, and log entries, unless they are there: those that a record
    tells of (`logged`), else those that its own state tells of. Returns whether there was anything to do; `dry`:
    without doing it.

    Raises Changed where the item is no more as it was read.
    """
    row = BY_TYPE[type(item).__name__]
    if getattr(item, "status", None) == "ARCHIVING":
        return False  # from here on the archive alone has it in hand
    if isinstance(item, ArchivedOrder):
        writes, ended = _missing(shop, derived.copies_of(row, item)), ended_copies(shop.table, item)
    else:
        copies = derived.copies_of(row, item)
        writes = [*_missing(shop, copies), *_unlogged(shop, item, logged)]
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


def _take_off(shop: Shop, mark: Counted, *, dry: bool) -> bool:
    """Take off the totals what counts in them and is no more."""
    found = counters.missed(mark, shop.instant())
    if found is None or shop.table.batch_get([found[0]], consistent=True):
        return False
    if not dry:
        count(shop, found[1])
    return True


class There(Exception):
    """The copy is there already, or a newer one."""


def _missing(shop: Shop, copies: Mapping[tuple[str, str], tuple[Row[Any], Any]]) -> list[Write[Any]]:
    """Writes of the copies that do not lie there as they must be; a copy may be of an older version, and right."""
    lie = there(shop, list(copies))
    found = []
    for place, (into, copy) in copies.items():
        wanted = into.write(copy)
        if {**lie.get(place, {}), "version": wanted["version"]} != wanted:
            found.append(put_newer(into, copy, again=True))
    return found


def _unlogged(shop: Shop, item: Any, logged: Entries | None) -> Iterator[Write[Any]]:
    """Writes of the log entries that are not there. When a change was, its record knows: an entry of it at another time
    was made up without the record, and goes."""
    of_record = logged is not None
    if logged is None and isinstance(item, Order):
        logged = list(entries(shop, item, shop.table.partition(A12b, order_id=item.order_id)))
    places = {derived.place(into, one): (into, one) for into, one in logged or () if not _has_ended(shop, one)}
    lie = there(shop, list(places))
    for into, one in (pair for place, pair in places.items() if place not in lie):
        if of_record:
            yield from (delete(into, other) for other in _made_up(shop, into, one))
        yield put(into, one)


def _made_up(shop: Shop, into: Row[Any], entry: Any) -> Iterator[Any]:
    """What this log tells of the same change."""
    beside = {
        TIMELINE: lambda: shop.table.partition(A12b, order_id=entry.order_id),
        ACTIVITY: lambda: shop.table.lying(A5, customer_id=entry.customer_id, since=entry.at),
    }
    for image in beside[into]():
        key = fields_of(into, place_of(image))
        if key and key["change_id"] == entry.change_id:
            yield into.read(image)


def _while_unchanged(shop: Shop, row: Row[Any], item: Any, write: Write[Any]) -> None:
    """Write a copy while its primary is as it was read: nothing is put into a partition that the archive has cleared.

    Raises Changed where it is not.
    """
    try:
        shop.table.write(unchanged(row, item), replace(write, refused=lambda _: There()))
    except There:
        return


def _has_ended(shop: Shop, item: Any) -> bool:
    ttl: int | None = getattr(item, "ttl", None)
    return ttl is not None and ttl <= shop.now().timestamp()


# events ---------------------------------------------------------------------------------------------------------------
def _reached(shop: Shop, order: Order) -> Iterator[Change]:
    """The change by which an order came to its present state; what it has been through since leaves that as it is."""
    if order.status != "ARCHIVING":  # of that nobody is told
        beside = shop.table.partition(A12b, order_id=order.order_id)
        yield from (change for change in history(shop, order, beside) if change.version == order.reached)


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


def _latest(image: Image) -> Change | None:
    """The change by which a primary became what it is; None for what is none. Raises Permanent."""
    row = BY_TYPE.get(image.get("type", {}).get("S", ""))
    return changes.read(became(image)) if row is None or row.kind == "primary" else None
