"""Totals (ratings, best sellers, sales per minute): compute how much each order, return and review adds to each total.

The order, return or review is the source item. The amount that it adds to a total is its contribution. A total is the
sum of the contributions of all its source items, so it can be recomputed from these items.

A `Contribution` item stores the contributions of one source item, and the version of that item. It is written in the
same transaction as the totals. So a change that is delivered twice is added only once. A change is also ignored if a
later change of the same item is already added. If a contribution changes, the transaction adds only the difference from
the stored amounts.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from functions.dynamodb.keys import Instant, Row, to_instant
from functions.model import entities as e
from functions.model import pricing
from functions.model import table as t
from functions.model.changes import Change
from functions.model.retention import EFFECT_DAYS, METRIC_DAYS, SEASON_OPEN_DAYS

S = TypeVar("S")
Contributions = Mapping[str, tuple[Row[Any], Any]]
"""The amounts that one source item (order, return or review) adds to totals, by key of the total.

A key is the text "partition key / sort key". Each value is a pair: the declaration of the total's item type (a row of
model/table.py), and a total item that contains only the amounts from this source item.
"""
PlannedWrite = tuple[Row[Any], Any, Any]
"""An item to write: the declaration of its type, the stored item (None if it does not exist), and the new item."""

TOTAL_FIELDS: Mapping[Row[Any], tuple[str, ...]] = {
    t.RATING: ("reviews", "stars"),
    t.BEST_SELLER: ("pieces",),
    t.SALES_MINUTE: ("orders", "pieces", "revenue"),
}
"""The names of the fields that contain sums, for each type of total item."""


@dataclass(frozen=True)
class Counter(Generic[S]):
    """Defines which amounts the items of one source type (order, return or review) add to totals.

    `source_row`: the declaration of the source type (a row of model/table.py). `source_id`: returns the id of a source
    item. `contributions`: yields one total item for each total that the source item adds an amount to. Each total item
    contains only the amounts of this source item. A source item that was cancelled adds 0 to the same totals as before.

    `final_at`: returns the time from which changes of a source item no longer count; None if all changes count.
    """

    source_row: Row[S]
    source_id: Callable[[S], str]
    contributions: Callable[[S], Iterator[Any]]
    final_at: Callable[[S], datetime] | None = None


def season_of(at: Instant) -> str:
    """Return the season of a time. A season is a calendar month, such as 2026-11."""
    return at[:7]


def order_contributions(order: e.Order) -> Iterator[e.BestSeller | e.SalesMinute]:
    """Yield the amounts that a paid order adds to the best sellers and to the sales per minute.

    The amounts are added to the month and the minute in which the order was paid. An order that was never paid adds
    nothing. The amounts do not include dropped pieces (cancelled before shipping). The revenue does not include money
    that a bank took or that was refunded at the provider. After the whole order was cancelled, all amounts are 0.
    """
    if order.paid_at is None:
        return
    sells = order.status in e.SOLD_STATUSES
    pieces = {id: line.quantity_to_ship if sells else 0 for id, line in order.lines.items()}
    dropped = {id: line.dropped for id, line in order.lines.items()}
    revenue = max(0, order.total - pricing.paid_value(order, dropped) - order.withdrawn) if sells else 0
    yield from _sales_contributions(order.paid_at, order.order_id, order.currency, int(sells), pieces, revenue)


def return_contributions(returned: e.Return) -> Iterator[e.BestSeller | e.SalesMinute]:
    """Yield the negative amounts that returned goods add to the best sellers and to the sales per minute.

    The amounts are added to the month and the minute of the return.
    """
    pieces = {id: -quantity for id, quantity in returned.quantities.items()}
    yield from _sales_contributions(
        returned.created_at, returned.order_id, returned.currency, 0, pieces, -returned.amount - returned.owed
    )


def _sales_contributions(
    at: Instant, id: str, currency: str, orders: int, pieces: Mapping[str, int], revenue: int
) -> Iterator[e.BestSeller | e.SalesMinute]:
    minute = to_instant(datetime.fromisoformat(at).replace(second=0, microsecond=0))
    yield e.SalesMinute(
        shard=e.SALES_MINUTE_SHARDS.of(id),
        minute=minute,
        currency=currency,
        orders=orders,
        pieces=sum(pieces.values()),
        revenue=revenue,
        ttl=minute_ttl(minute),
    )
    for product_id, sold in pieces.items():
        yield e.BestSeller(product_id=product_id, season=season_of(at), pieces=sold)


def minute_ttl(minute: Instant) -> int:
    """Return the ttl (epoch seconds) of the sales totals of a minute."""
    return int((datetime.fromisoformat(minute) + timedelta(days=METRIC_DAYS)).timestamp())


def season_final_at(at: Instant) -> datetime:
    """Return the time from which changes of orders and returns no longer count in the totals of a season.

    A change counts if it was written before this time. Its stream record may be processed later, as long as the record
    is kept: up to FAILURE_DAYS + 2 * DLQ_DAYS days later. The `Contribution` item is kept even longer. A season is a
    calendar month. `at`: any time in that month.
    """
    start = datetime.fromisoformat(at).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (start + timedelta(days=31)).replace(day=1) + timedelta(days=SEASON_OPEN_DAYS)


def review_contributions(review: e.Review) -> Iterator[e.Rating]:
    yield e.Rating(product_id=review.product_id, reviews=1, stars=review.stars)


def no_contributions(review: e.DeletedReview) -> Iterator[e.Rating]:
    yield e.Rating(product_id=review.product_id, reviews=0, stars=0)


def _review_id(review: e.Review | e.DeletedReview) -> str:
    return f"{review.product_id}:{review.customer_id}"


COUNTERS: tuple[Counter[Any], ...] = (
    Counter(t.ORDER, lambda order: order.order_id, order_contributions, lambda order: season_final_at(order.paid_at)),
    Counter(
        t.RETURN, lambda goods: goods.return_id, return_contributions, lambda goods: season_final_at(goods.created_at)
    ),
    Counter(t.REVIEW, _review_id, review_contributions),
    Counter(t.DELETED_REVIEW, _review_id, no_contributions),
)
_COUNTERS_BY_ROW: Mapping[Row[Any], Counter[Any]] = {counter.source_row: counter for counter in COUNTERS}


@dataclass(frozen=True)
class ContributionChange:
    """The amounts that a source item (order, return or review) adds to totals, after a change of the item.

    `as_of`: the creation time and the version of the source item after the change, as one sortable text. `at`: the time
    of the change. `ttl`: when DynamoDB deletes the `Contribution` item, which stores these contributions (epoch
    seconds; None means never).
    """

    source_id: str
    source_type: str
    as_of: str
    at: Instant
    contributions: Contributions
    ttl: int | None = None

    @property
    def amounts(self) -> dict[str, dict[str, int]]:
        """The amounts by the key of the total and the name of the field, as the `Contribution` item stores them."""
        return {where: amounts_of(row, part) for where, (row, part) in self.contributions.items()}

    def matches(self, stored: Mapping[str, Mapping[str, int]]) -> bool:
        """Return whether a `Contribution` item with the amounts `stored` is correct.

        The sales of a minute are correct in any shard that queries read. When SALES_MINUTE_SHARDS is raised, the
        amounts of items that do not change stay in their old shards.
        """
        return {_without_shard(where): one for where, one in stored.items()} == {
            _without_shard(where): one for where, one in self.amounts.items()
        }


def contribution_change_of(change: Change) -> ContributionChange | None:
    """Return the amounts that an item adds to totals after a change of the item.

    Returns None if the totals must stay the same. For example, the change alters none of these amounts, or the totals
    are final (can no longer change), or items of this type add nothing to totals.
    """
    if change.row not in _COUNTERS_BY_ROW or change.after is None:
        return None
    if isinstance(change.before, e.ArchivedOrder):
        return None  # archiving did not change the totals, so the restore from the archive does not change them
    if change.before is not None:
        before_row = t.ROWS_BY_TYPE[type(change.before).__name__]
        if contributions_of(before_row, change.before) == contributions_of(change.row, change.after):
            return None
    return current_contribution(change.row, change.after, change.at)


def current_contribution(row: Row[Any], item: Any, at: Instant) -> ContributionChange | None:
    """Return the amounts that an item adds to totals in its current state.

    Returns None if the item adds to no total, or if its totals are final (can no longer change) at the time `at`. Also
    returns None for an order that is being archived, because its amounts depend on a status that it no longer has.
    """
    parts = {} if row not in _COUNTERS_BY_ROW or _is_archiving(item) else contributions_of(row, item)
    if not parts:
        return None
    counter, ttl = _COUNTERS_BY_ROW[row], None
    if counter.final_at is not None:
        until = counter.final_at(item)
        if datetime.fromisoformat(at) >= until:
            return None
        ttl = int((until + timedelta(days=EFFECT_DAYS)).timestamp())
    return ContributionChange(counter.source_id(item), row.type, _as_of(row, item), at, parts, ttl=ttl)


def _as_of(row: Row[Any], item: Any) -> str:
    """Return the item's creation time and its version as one sortable text.

    An item keeps its creation time, and its version only rises. This is also true if a review is deleted and written
    again: a DeletedReview item keeps both values. So the texts of an item's versions sort in the order of the versions.
    """
    return f"{getattr(item, row.created_field)}#{item.version:010}"


def _is_archiving(item: Any) -> bool:
    """Return whether the item is an order that is being archived.

    The amounts that an order adds to totals depend on its status before archiving, which the item no longer has. So the
    amounts in the totals stay unchanged.
    """
    return isinstance(item, e.Order) and item.status == "ARCHIVING"


def source_id_of(row: Row[Any], item: Any) -> str | None:
    """Return the id of an item that adds amounts to totals (order, return, review); None for other item types.

    A `Contribution` item is stored under this id. It records the amounts that the item added.
    """
    return _COUNTERS_BY_ROW[row].source_id(item) if row in _COUNTERS_BY_ROW else None


def contributions_of(row: Row[Any], item: Any) -> Contributions:
    """Return the amounts that a source item (order, return or review) adds to totals, by the key of the total."""
    parts = ((t.ROWS_BY_TYPE[type(part).__name__], part) for part in _COUNTERS_BY_ROW[row].contributions(item))
    return {total_key(into, part): (into, part) for into, part in parts}


def total_key(row: Row[Any], item: Any) -> str:
    """Return the key of a total item as one text: "partition key / sort key"."""
    key = row.key_of(item)
    return f"{key['PK']['S']} / {key['SK']['S']}"


def _without_shard(where: str) -> str:
    """Return the key of a total as text. For the sales of a minute, remove the shard if queries read this shard.

    `where`: the key as "partition key / sort key".
    """
    partition, _, sort = where.partition(" / ")
    shard = partition.removeprefix(t.SALES_MINUTE.templates("main")[0].prefix)
    if shard == partition or int(shard) >= e.SALES_MINUTE_SHARDS.read:
        return where
    return sort.removesuffix(f"#{shard}")


def obsolete_total_keys(contribution: ContributionChange, previous: e.Contribution | None) -> list[dict[str, Any]]:
    """Return the primary keys of totals to which an item added an amount before, but adds no amount any more.

    The sales of a minute are split over several totals, one for each shard (a group of orders). If the number of shards
    was raised, an order may belong to another shard than before. Then it adds its amounts to another total.

    `contribution`: the amounts that the item must add to totals now. `previous`: the stored `Contribution` item with
    the amounts that the item added so far; None if it added no amounts yet.
    """
    places = [
        where.partition(" / ")
        for where in (previous.amounts if previous else {})
        if where not in contribution.contributions
    ]
    return [{"PK": {"S": partition}, "SK": {"S": sort}} for partition, _, sort in places]


def amounts_of(row: Row[Any], total: Any) -> dict[str, int]:
    """Return the sums that a total item contains, by field name."""
    return {name: getattr(total, name) for name in TOTAL_FIELDS[row]}


def plan_total_writes(
    contribution: ContributionChange, previous: e.Contribution | None, totals: Mapping[str, Any], now: datetime
) -> Iterator[PlannedWrite]:
    """Yield the writes that add the changed amounts of a source item to the totals. Send them in one transaction.

    `contribution`: the amounts that the source item (an order, return or review) must add to totals now. `previous`:
    the stored `Contribution` item of the source item, which records the amounts that the totals already contain; None
    if the totals contain nothing from the item. `totals`: the stored totals by key ("partition key / sort key").

    Yields nothing if the totals already include this version of the source item, or a later version. A missing total is
    created only if its ttl has not passed.
    """
    if previous is not None and previous.as_of >= contribution.as_of:
        return
    before = previous.amounts if previous else {}
    after = contribution.amounts
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
        t.CONTRIBUTION,
        previous,
        e.Contribution(
            source=contribution.source_id,
            source_type=contribution.source_type,
            as_of=contribution.as_of,
            amounts=after,
            created_at=previous.created_at if previous else contribution.at,
            ttl=contribution.ttl,
            version=previous.version + 1 if previous else 1,
        ),
    )


def _difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: after.get(name, 0) - before.get(name, 0) for name in {**before, **after}}


def _add_amounts(total: Any, added: Mapping[str, int]) -> Any:
    sums = {name: getattr(total, name) + amount for name, amount in added.items()}
    return replace(total, **sums, version=total.version + 1)
