"""Totals, as data: what each item of a primary is counted with, and where.

A total is the sum of its parts, one for each item that counts: so it can be made anew from the primaries alone. What an
item is counted with is kept beside the totals (`Counted`) and written with them in one transaction: a change that comes
again, or late, finds itself counted already, and what an item counts for no more is taken off as it was put on.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from functions.dynamodb.keys import Instant, Row, instant
from functions.model import amounts
from functions.model import entities as e
from functions.model import table as t
from functions.model.changes import Change
from functions.model.lives import EFFECT_DAYS, METRIC_DAYS, SEASON_OPEN_DAYS

S = TypeVar("S")
Parts = Mapping[str, tuple[Row[Any], Any]]
"""Totals by their key, each with a part of it alone."""
Step = tuple[Row[Any], Any, Any]
"""An item to be written: its row, as it is (None: not there), and as it shall be."""

AMOUNTS: Mapping[Row[Any], tuple[str, ...]] = {
    t.RATING: ("reviews", "stars"),
    t.BEST_SELLER: ("units",),
    t.METRIC: ("orders", "units", "revenue"),
}
"""What adds up in each total."""


@dataclass(frozen=True)
class Counter(Generic[S]):
    """What each item of a primary adds to totals.

    `source`: the item's id. `parts`: every total it is counted in, each with the item's part alone, for ever the same
    totals: of what does not count any more the part is 0. `counts_until`: when its totals are final; None: never.
    `gone`: an item may be deleted, and then counts for nothing: this makes one of its id, as far as its key and its
    totals go.
    """

    of: Row[S]
    source: Callable[[S], str]
    parts: Callable[[S], Iterator[Any]]
    counts_until: Callable[[S], datetime] | None = None
    gone: Callable[[str], S] | None = None


def season_of(at: Instant) -> str:
    """The month of a moment: 2026-11."""
    return at[:7]


def sold(order: e.Order) -> Iterator[e.BestSeller | e.Metric]:
    """A paid order counts when it was paid, less what is not sent after all: nothing of it, once it was cancelled."""
    if order.paid_at is None:
        return
    sells = order.status in e.SOLD
    pieces = {id: line.to_send if sells else 0 for id, line in order.lines.items()}
    dropped = {id: line.dropped for id, line in order.lines.items()}
    revenue = order.total - amounts.worth(order, dropped) if sells else 0
    yield from _at(order.paid_at, order.order_id, order.currency, int(sells), pieces, revenue)


def came_back(goods: e.Return) -> Iterator[e.BestSeller | e.Metric]:
    """What came back is taken off when it did."""
    pieces = {id: -quantity for id, quantity in goods.quantities.items()}
    yield from _at(goods.created_at, goods.order_id, goods.currency, 0, pieces, -goods.amount - goods.owed)


def _at(
    at: Instant, id: str, currency: str, orders: int, pieces: Mapping[str, int], revenue: int
) -> Iterator[e.BestSeller | e.Metric]:
    minute = instant(datetime.fromisoformat(at).replace(second=0, microsecond=0))
    yield e.Metric(
        shard=e.shard_of(id),
        minute=minute,
        currency=currency,
        orders=orders,
        units=sum(pieces.values()),
        revenue=revenue,
        ttl=minute_ends(minute),
    )
    for product_id, units in pieces.items():
        yield e.BestSeller(product_id=product_id, season=season_of(at), units=units)


def minute_ends(minute: Instant) -> int:
    """The ttl of a minute's totals."""
    return int((datetime.fromisoformat(minute) + timedelta(days=METRIC_DAYS)).timestamp())


def season_final(at: Instant) -> datetime:
    """When the month of a moment changes no more."""
    start = datetime.fromisoformat(at).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (start + timedelta(days=31)).replace(day=1) + timedelta(days=SEASON_OPEN_DAYS)


def reviewed(review: e.Review) -> Iterator[e.Rating]:
    yield e.Rating(product_id=review.product_id, reviews=1, stars=review.stars)


def review_of(source: str) -> e.Review:
    """The review with this id, but for what it says."""
    product_id, customer_id = source.split(":")
    never = instant(datetime.fromtimestamp(0, UTC))
    return e.Review(
        product_id=product_id,
        customer_id=customer_id,
        order_id="",
        stars=0,
        text="",
        written_at=never,
        created_at=never,
        updated_at=never,
    )


COUNTERS: tuple[Counter[Any], ...] = (
    Counter(t.ORDER, lambda order: order.order_id, sold, lambda order: season_final(order.paid_at)),
    Counter(t.RETURN, lambda goods: goods.return_id, came_back, lambda goods: season_final(goods.created_at)),
    Counter(t.REVIEW, lambda review: f"{review.product_id}:{review.customer_id}", reviewed, gone=review_of),
)
_OF: Mapping[Row[Any], Counter[Any]] = {counter.of: counter for counter in COUNTERS}


@dataclass(frozen=True)
class Counting:
    """What an item counts for from some version on, to be remembered until `ttl`. `gone`: it is no more."""

    source: str
    of: str
    as_of: str
    at: Instant
    parts: Parts
    gone: bool = False
    ttl: int | None = None


def counting(change: Change) -> Counting | None:
    """What is to be counted of a change; None where it changes no total, or none that is not final by then."""
    if change.row not in _OF:
        return None
    if change.after is None:
        item, counter = change.before, _OF[change.row]
        as_of = _as_of(change.row, item, item.version + 1)  # a version that it never had
        return gone(counter, counter.source(item), as_of, change.at) if counter.gone else None
    if isinstance(change.before, e.ArchivedOrder):
        return None  # what comes back counts as it did
    if change.before is not None and parts_of(change.row, change.before) == parts_of(change.row, change.after):
        return None
    return standing(change.row, change.after, change.at)


def standing(row: Row[Any], item: Any, at: Instant) -> Counting | None:
    """What an item counts for as it is; None where that is nothing, or in no total that is not final at this time."""
    parts = {} if row not in _OF or _is_archiving(item) else parts_of(row, item)
    if not parts:
        return None
    counter, ttl = _OF[row], None
    if counter.counts_until is not None:
        until = counter.counts_until(item)
        if datetime.fromisoformat(at) >= until:
            return None
        ttl = int((until + timedelta(days=EFFECT_DAYS)).timestamp())
    return Counting(counter.source(item), row.type, _as_of(row, item, item.version), at, parts, ttl=ttl)


def gone(counter: Counter[Any], source: str, as_of: str, at: Instant) -> Counting:
    """An item that was deleted counts for nothing."""
    assert counter.gone is not None, "its items stay"
    parts = {
        where: (into, replace(part, **dict.fromkeys(AMOUNTS[into], 0)))
        for where, (into, part) in parts_of(counter.of, counter.gone(source)).items()
    }
    return Counting(source, counter.of.type, as_of, at, parts, gone=True)


def missed(mark: e.Counted, at: Instant) -> tuple[Mapping[str, Any], Counting] | None:
    """Of a mark whose item may be gone without anybody having heard of it: the item's key, and what is to be counted
    if nothing lies there. None where that cannot be."""
    counter = _OF[t.BY_TYPE[mark.of]]
    if mark.gone or counter.gone is None:
        return None
    later = f"{mark.as_of}+"  # than what is counted, and before whatever will be
    return counter.of.key_of(counter.gone(mark.source)), gone(counter, mark.source, later, at)


def _as_of(row: Row[Any], item: Any, version: int) -> str:
    """Text that sorts by life and version: an item that is made anew begins with version 1 again."""
    return f"{getattr(item, row.since)}#{version:010}"


def _is_archiving(item: Any) -> bool:
    """Whether it is not said any more what an order was before the archive took it; it counts as it did then."""
    return isinstance(item, e.Order) and item.status == "ARCHIVING"


def source_of(row: Row[Any], item: Any) -> str | None:
    """What an item is counted as; None where nothing of its row is."""
    return _OF[row].source(item) if row in _OF else None


def parts_of(row: Row[Any], item: Any) -> Parts:
    """The parts of totals that an item is."""
    parts = ((t.BY_TYPE[type(part).__name__], part) for part in _OF[row].parts(item))
    return {place(into, part): (into, part) for into, part in parts}


def place(row: Row[Any], item: Any) -> str:
    """The key of a total, as one text."""
    key = row.key_of(item)
    return f"{key['PK']['S']} / {key['SK']['S']}"


def elsewhere(todo: Counting, so_far: e.Counted | None) -> list[dict[str, Any]]:
    """The keys of totals that an item was counted in and is not any more: there are more shards since."""
    places = [where.partition(" / ") for where in (so_far.amounts if so_far else {}) if where not in todo.parts]
    return [{"PK": {"S": partition}, "SK": {"S": sort}} for partition, _, sort in places]


def amounts_of(row: Row[Any], total: Any) -> dict[str, int]:
    """What adds up in a total, or in a part of it."""
    return {name: getattr(total, name) for name in AMOUNTS[row]}


def counted(todo: Counting, so_far: e.Counted | None, totals: Mapping[str, Any], now: datetime) -> Iterator[Step]:
    """The items to be written together so that all of it is counted, once; none where it is counted already.

    `totals`: as they are, by their place. Of a total that has ended nothing is kept.
    """
    if so_far is not None and so_far.as_of >= todo.as_of:
        return
    before = so_far.amounts if so_far else {}
    after = {where: amounts_of(row, part) for where, (row, part) in todo.parts.items()}
    for where in dict.fromkeys([*after, *before]):
        added = _difference(before.get(where, {}), after.get(where, {}))
        total = totals.get(where)
        if total is not None and any(added.values()):
            yield t.BY_TYPE[type(total).__name__], total, _plus(total, added)
        elif where in after and any(added.values()):
            row, part = todo.parts[where]
            if not (row.expires and part.ttl <= now.timestamp()):
                yield row, None, replace(part, **added)
    yield (
        t.COUNTED,
        so_far,
        e.Counted(
            source=todo.source,
            of=todo.of,
            as_of=todo.as_of,
            amounts=after,
            created_at=so_far.created_at if so_far else todo.at,
            gone=todo.gone,
            ttl=todo.ttl,
            version=so_far.version + 1 if so_far else 1,
        ),
    )


def _difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: after.get(name, 0) - before.get(name, 0) for name in {**before, **after}}


def _plus(total: Any, added: Mapping[str, int]) -> Any:
    sums = {name: getattr(total, name) + amount for name, amount in added.items()}
    return replace(total, **sums, version=total.version + 1)


def folded(items: Mapping[Row[Any], list[Any]]) -> dict[str, dict[str, int]]:
    """All totals made anew: what all items of the primaries add up to, by total."""
    sums: dict[str, dict[str, int]] = {}
    for row, primaries in items.items():
        for item in primaries:
            for where, (into, part) in parts_of(row, item).items():
                total = sums.setdefault(where, dict.fromkeys(AMOUNTS[into], 0))
                for name, amount in amounts_of(into, part).items():
                    total[name] += amount
    return sums
