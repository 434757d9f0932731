"""Totals, as data: what each item of a primary is counted with, and where.

A total is the sum of its parts, one for each item that counts: so it can be made anew from the primaries alone. What an
item is counted with is kept beside the totals (`Counted`) and written with them in one transaction: a change that comes
again, or late, finds itself counted already, and what an item counts for no more is taken off as it was put on.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from functions.dynamodb.keys import Instant, Row, to_instant
from functions.model import amounts
from functions.model import entities as e
from functions.model import table as t
from functions.model.changes import Change
from functions.model.lives import EFFECT_DAYS, METRIC_DAYS, SEASON_OPEN_DAYS

S = TypeVar("S")
Contributions = Mapping[str, tuple[Row[Any], Any]]
"""Totals by their key, each with a part of it alone."""
PlannedWrite = tuple[Row[Any], Any, Any]
"""An item to be written: its row, as it is (None: not there), and as it shall be."""

TOTAL_FIELDS: Mapping[Row[Any], tuple[str, ...]] = {
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

    source_row: Row[S]
    source_id: Callable[[S], str]
    contributions: Callable[[S], Iterator[Any]]
    final_at: Callable[[S], datetime] | None = None
    deleted_item: Callable[[str], S] | None = None


def season_of(at: Instant) -> str:
    """The month of a moment: 2026-11."""
    return at[:7]


def order_contributions(order: e.Order) -> Iterator[e.BestSeller | e.Metric]:
    """A paid order counts when it was paid, less what is not sent after all: nothing of it, once it was cancelled."""
    if order.paid_at is None:
        return
    sells = order.status in e.SOLD_STATUSES
    pieces = {id: line.quantity_to_ship if sells else 0 for id, line in order.lines.items()}
    dropped = {id: line.dropped for id, line in order.lines.items()}
    revenue = order.total - amounts.discounted_value(order, dropped) if sells else 0
    yield from _sales_contributions(order.paid_at, order.order_id, order.currency, int(sells), pieces, revenue)


def return_contributions(returned: e.Return) -> Iterator[e.BestSeller | e.Metric]:
    """What came back is taken off when it did."""
    pieces = {id: -quantity for id, quantity in returned.quantities.items()}
    yield from _sales_contributions(
        returned.created_at, returned.order_id, returned.currency, 0, pieces, -returned.amount - returned.owed
    )


def _sales_contributions(
    at: Instant, id: str, currency: str, orders: int, pieces: Mapping[str, int], revenue: int
) -> Iterator[e.BestSeller | e.Metric]:
    minute = to_instant(datetime.fromisoformat(at).replace(second=0, microsecond=0))
    yield e.Metric(
        shard=e.shard_of(id),
        minute=minute,
        currency=currency,
        orders=orders,
        units=sum(pieces.values()),
        revenue=revenue,
        ttl=minute_ttl(minute),
    )
    for product_id, units in pieces.items():
        yield e.BestSeller(product_id=product_id, season=season_of(at), units=units)


def minute_ttl(minute: Instant) -> int:
    """The ttl of a minute's totals."""
    return int((datetime.fromisoformat(minute) + timedelta(days=METRIC_DAYS)).timestamp())


def season_final_at(at: Instant) -> datetime:
    """When the month of a moment changes no more."""
    start = datetime.fromisoformat(at).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (start + timedelta(days=31)).replace(day=1) + timedelta(days=SEASON_OPEN_DAYS)


def review_contributions(review: e.Review) -> Iterator[e.Rating]:
    yield e.Rating(product_id=review.product_id, reviews=1, stars=review.stars)


def placeholder_review(source: str) -> e.Review:
    """The review with this id, but for what it says."""
    product_id, customer_id = source.split(":")
    never = to_instant(datetime.fromtimestamp(0, UTC))
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
    Counter(t.ORDER, lambda order: order.order_id, order_contributions, lambda order: season_final_at(order.paid_at)),
    Counter(
        t.RETURN, lambda goods: goods.return_id, return_contributions, lambda goods: season_final_at(goods.created_at)
    ),
    Counter(
        t.REVIEW,
        lambda review: f"{review.product_id}:{review.customer_id}",
        review_contributions,
        deleted_item=placeholder_review,
    ),
)
_COUNTERS_BY_ROW: Mapping[Row[Any], Counter[Any]] = {counter.source_row: counter for counter in COUNTERS}


@dataclass(frozen=True)
class ContributionChange:
    """What an item counts for from some version on, to be remembered until `ttl`. `gone`: it is no more."""

    source_id: str
    source_type: str
    life_and_version: str
    at: Instant
    contributions: Contributions
    is_deleted: bool = False
    ttl: int | None = None


def contribution_change_of(change: Change) -> ContributionChange | None:
    """What is to be counted of a change; None where it changes no total, or none that is not final by then."""
    if change.row not in _COUNTERS_BY_ROW:
        return None
    if change.after is None:
        item, counter = change.before, _COUNTERS_BY_ROW[change.row]
        as_of = _life_and_version(change.row, item, item.version + 1)  # a version that it never had
        return (
            deleted_contribution(counter, counter.source_id(item), as_of, change.at) if counter.deleted_item else None
        )
    if isinstance(change.before, e.ArchivedOrder):
        return None  # what comes back counts as it did
    if change.before is not None and contributions_of(change.row, change.before) == contributions_of(
        change.row, change.after
    ):
        return None
    return current_contribution(change.row, change.after, change.at)


def current_contribution(row: Row[Any], item: Any, at: Instant) -> ContributionChange | None:
    """What an item counts for as it is; None where that is nothing, or in no total that is not final at this time."""
    parts = {} if row not in _COUNTERS_BY_ROW or _is_archiving(item) else contributions_of(row, item)
    if not parts:
        return None
    counter, ttl = _COUNTERS_BY_ROW[row], None
    if counter.final_at is not None:
        until = counter.final_at(item)
        if datetime.fromisoformat(at) >= until:
            return None
        ttl = int((until + timedelta(days=EFFECT_DAYS)).timestamp())
    return ContributionChange(
        counter.source_id(item), row.type, _life_and_version(row, item, item.version), at, parts, ttl=ttl
    )


def deleted_contribution(counter: Counter[Any], source: str, as_of: str, at: Instant) -> ContributionChange:
    """An item that was deleted counts for nothing."""
    assert counter.deleted_item is not None, "its items stay"
    parts = {
        where: (into, replace(part, **dict.fromkeys(TOTAL_FIELDS[into], 0)))
        for where, (into, part) in contributions_of(counter.source_row, counter.deleted_item(source)).items()
    }
    return ContributionChange(source, counter.source_row.type, as_of, at, parts, is_deleted=True)


def possibly_missed_deletion(mark: e.Counted, at: Instant) -> tuple[Mapping[str, Any], ContributionChange] | None:
    """Of a mark whose item may be gone without anybody having heard of it: the item's key, and what is to be counted
    if nothing lies there. None where that cannot be."""
    counter = _COUNTERS_BY_ROW[t.ROWS_BY_TYPE[mark.of]]
    if mark.gone or counter.deleted_item is None:
        return None
    later = f"{mark.as_of}+"  # than what is counted, and before whatever will be
    return counter.source_row.key_of(counter.deleted_item(mark.source)), deleted_contribution(
        counter, mark.source, later, at
    )


def _life_and_version(row: Row[Any], item: Any, version: int) -> str:
    """Text that sorts by life and version: an item that is made anew begins with version 1 again."""
    return f"{getattr(item, row.created_field)}#{version:010}"


def _is_archiving(item: Any) -> bool:
    """Whether it is not said any more what an order was before the archive took it; it counts as it did then."""
    return isinstance(item, e.Order) and item.status == "ARCHIVING"


def source_id_of(row: Row[Any], item: Any) -> str | None:
    """What an item is counted as; None where nothing of its row is."""
    return _COUNTERS_BY_ROW[row].source_id(item) if row in _COUNTERS_BY_ROW else None


def contributions_of(row: Row[Any], item: Any) -> Contributions:
    """The parts of totals that an item is."""
    parts = ((t.ROWS_BY_TYPE[type(part).__name__], part) for part in _COUNTERS_BY_ROW[row].contributions(item))
    return {total_key(into, part): (into, part) for into, part in parts}


def total_key(row: Row[Any], item: Any) -> str:
    """The key of a total, as one text."""
    key = row.key_of(item)
    return f"{key['PK']['S']} / {key['SK']['S']}"


def obsolete_total_keys(contribution: ContributionChange, previous: e.Counted | None) -> list[dict[str, Any]]:
    """The keys of totals that an item was counted in and is not any more: there are more shards since."""
    places = [
        where.partition(" / ")
        for where in (previous.amounts if previous else {})
        if where not in contribution.contributions
    ]
    return [{"PK": {"S": partition}, "SK": {"S": sort}} for partition, _, sort in places]


def amounts_of(row: Row[Any], total: Any) -> dict[str, int]:
    """What adds up in a total, or in a part of it."""
    return {name: getattr(total, name) for name in TOTAL_FIELDS[row]}


def plan_total_writes(
    contribution: ContributionChange, previous: e.Counted | None, totals: Mapping[str, Any], now: datetime
) -> Iterator[PlannedWrite]:
    """The items to be written together so that all of it is counted, once; none where it is counted already.

    `totals`: as they are, by their place. Of a total that has ended nothing is kept.
    """
    if previous is not None and previous.as_of >= contribution.life_and_version:
        return
    before = previous.amounts if previous else {}
    after = {where: amounts_of(row, part) for where, (row, part) in contribution.contributions.items()}
    for where in dict.fromkeys([*after, *before]):
        added = _difference(before.get(where, {}), after.get(where, {}))
        total = totals.get(where)
        if total is not None and any(added.values()):
            yield t.ROWS_BY_TYPE[type(total).__name__], total, _add_amounts(total, added)
        elif where in after and any(added.values()):
            row, part = contribution.contributions[where]
            if not (row.has_ttl and part.ttl <= now.timestamp()):
                yield row, None, replace(part, **added)
    yield (
        t.COUNTED,
        previous,
        e.Counted(
            source=contribution.source_id,
            of=contribution.source_type,
            as_of=contribution.life_and_version,
            amounts=after,
            created_at=previous.created_at if previous else contribution.at,
            gone=contribution.is_deleted,
            ttl=contribution.ttl,
            version=previous.version + 1 if previous else 1,
        ),
    )


def _difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: after.get(name, 0) - before.get(name, 0) for name in {**before, **after}}


def _add_amounts(total: Any, added: Mapping[str, int]) -> Any:
    sums = {name: getattr(total, name) + amount for name, amount in added.items()}
    return replace(total, **sums, version=total.version + 1)


def recompute_totals(items: Mapping[Row[Any], list[Any]]) -> dict[str, dict[str, int]]:
    """All totals made anew: what all items of the primaries add up to, by total."""
    sums: dict[str, dict[str, int]] = {}
    for row, primaries in items.items():
        for item in primaries:
            for where, (into, part) in contributions_of(row, item).items():
                total = sums.setdefault(where, dict.fromkeys(TOTAL_FIELDS[into], 0))
                for name, amount in amounts_of(into, part).items():
                    total[name] += amount
    return sums
