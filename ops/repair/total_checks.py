"""Find and repair wrong totals, and wrong contributions of single items to totals.

A total is an item with a sum over many items, for example the rating of a product. A contribution is an item of the
type Contribution. It records how much one order, return or review adds to totals. This order, return or review is its
source item.

The shop changes a total and a contribution in one transaction. So normal use of the shop never changes the difference
between a total and the sum of its contributions. The check measures this difference: it reads the total, then all
contributions, then the total again. If the total has changed between its two reads, the check does not judge the total.

A contribution is compared only with its source item. The repair rewrites wrong contributions first, then corrects each
total once. Final totals, such as those of a month that has ended, are neither checked nor repaired.

A total can also differ because it includes an archived order whose contribution has expired. Nothing in the table says
how much such an order (`TotalsScan.unknown_orders`) added. So the total is unverifiable: it is reported, not changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from functions.dynamodb.codec import Image
from functions.dynamodb.errors import Unreadable
from functions.dynamodb.keys import Instant, Row, to_instant
from functions.dynamodb.writes import Write, WriteConflict
from functions.model import totals
from functions.model.entities import Contribution
from functions.model.retention import EFFECT_DAYS, SEASON_OPEN_DAYS
from functions.model.table import ARCHIVED_ORDER, BEST_SELLER, CONTRIBUTION, ORDER, RETURN, REVIEW, SALES_MINUTE
from functions.shop.shop import ShopContext, retry_on_conflict
from ops.item_keys import ItemKey, item_key, load_existing, match_key
from ops.repair.copy_checks import (
    Discrepancy,
    ImagesByKey,
    SourceItem,
    check_source_unchanged,
    find_order,
    replace_image,
)
from ops.scan.progress import SweepProgress
from ops.scan.sweep import sweep
from ops.scan.sweep_result import AfterPage

RETURNED_STATES = ("PARTIALLY_RETURNED", "RETURNED")
UNSOLD_STATES = ("CANCELLED", "LAPSED")
"""The states in which an archived order adds nothing to totals, with or without a contribution."""
Amounts = Mapping[str, Mapping[str, int]]
GuardWrites = Callable[[], Sequence[Write[Any]]]


# contributions --------------------------------------------------------------------------------------------------------
def find_contribution_discrepancies(shop: ShopContext, items: Sequence[SourceItem]) -> Iterator[Discrepancy]:
    """Yield the missing, wrong and orphaned contributions of these orders, returns and reviews to totals.

    A contribution is an item that records how much one order, return or review (its source item) adds to totals. Here,
    a contribution is orphaned if its source item exists, but must not add anything to totals.
    """
    now = shop.now_instant()
    counting = {source: (row, item) for row, item in items if (source := totals.source_id_of(row, item)) is not None}
    contributions = load_existing(shop, [item_key(CONTRIBUTION.key(source=source)) for source in counting])
    for source, (row, item) in counting.items():
        place = item_key(CONTRIBUTION.key(source=source))
        mark = contributions.get(place)
        todo = totals.current_contribution(row, item, now)
        if todo is not None and not _is_contribution_current(mark, todo):
            wanted = _contribution_image(todo, mark)
            yield Discrepancy(f"contribution {'wrong' if mark else 'missing'}", place, mark, wanted, (row, item))
        elif mark is not None and not totals.contributions_of(row, item) and getattr(item, "status", "") != "ARCHIVING":
            yield Discrepancy("contribution orphaned", place, mark, None, (row, item))


def contribution_sources(image: Image) -> list[ItemKey]:
    """Return a list with the key of the order or review from which a contribution to totals was computed.

    A contribution records how much one order, return or review adds to totals. `find_orphaned_contribution` checks
    whether the order or review with this key exists. The list is empty for the contribution of a return, because the
    contribution does not store the key of the return. Raises InvalidKeyValue.
    """
    source = _contribution_source(image)
    if ":" in source:
        return [item_key(_review_key(source))]
    return [item_key(ORDER.key(order_id=source))] if _source_type(image) != RETURN.type else []


def find_orphaned_contribution(image: Image, sources: ImagesByKey) -> Iterator[Discrepancy]:
    """Yield a discrepancy if a contribution to totals exists, but its order or review does not exist.

    A contribution records how much one order, return or review adds to totals. The contribution of a return does not
    store the key of the return. So contributions of returns are not checked here, but in `TotalsScan.find_orphans`.

    `image`: the contribution in DynamoDB JSON. `sources`: the existing orders and reviews, by key.
    """
    place, source = item_key(image), _contribution_source(image)
    source_type = _source_type(image)
    if source_type != RETURN.type and ":" not in source:
        row, item = find_order(sources, source)
        if isinstance(item, Mapping) and source_type == ORDER.type:
            yield Discrepancy("contribution orphaned", place, image, None, (row, item))
    elif ":" in source:
        key = _review_key(source)
        if item_key(key) not in sources:
            yield Discrepancy("contribution orphaned", place, image, None, (REVIEW, key))


def _review_key(source: str) -> dict[str, Any]:
    product_id, customer_id = source.split(":")
    return REVIEW.key(product_id=product_id, customer_id=customer_id)


def _text_attribute(image: Image, name: str) -> str:
    """Return the value of a string attribute, or "" if the item has no such attribute or if it is not a string."""
    return str(image.get(name, {}).get("S", ""))


def _source_type(image: Image) -> str:
    return _text_attribute(CONTRIBUTION.current_form(image), "source_type")


def _contribution_source(image: Image) -> str:
    key = match_key(CONTRIBUTION, item_key(image))
    return key["source"] if key else ""


def _is_contribution_current(contribution: Image | None, todo: totals.ContributionChange) -> bool:
    """Return whether a stored contribution has the correct content.

    A contribution is an item that records how much one order, return or review (its source item) adds to totals. It is
    correct if it has the amounts in `todo`, which the source item must add now. It may have been written for an earlier
    version of the source item, because not every change of the source item changes the amounts. It is wrong if it was
    written for a later version, or for a deleted item that had the same key.
    """
    if contribution is None:
        return False
    as_of = _text_attribute(contribution, "as_of")
    same_item = as_of.partition("#")[0] == todo.as_of.partition("#")[0] and as_of <= todo.as_of
    free = ("as_of", "version", "created_at", "amounts")
    found, wanted = (
        {name: value for name, value in image.items() if name not in free}
        for image in (CONTRIBUTION.current_form(contribution), _contribution_image(todo, contribution))
    )
    return same_item and found == wanted and todo.matches(read_amounts(contribution))


def _contribution_image(todo: totals.ContributionChange, found: Image | None) -> Image:
    """Return the correct contribution in DynamoDB JSON. Its version is one above the stored version.

    A contribution is an item that records how much one order, return or review (its source item) adds to totals.
    `todo`: the amounts that the source item must add. `found`: the stored contribution. If no contribution is stored,
    `found` is None and the new version is 1.
    """
    version = int(found.get("version", {}).get("N", 0)) + 1 if found else 1
    return CONTRIBUTION.encode(
        Contribution(
            source=todo.source_id,
            source_type=todo.source_type,
            as_of=todo.as_of,
            amounts=todo.amounts,
            created_at=Instant(_text_attribute(found or {}, "created_at") or todo.as_of.partition("#")[0]),
            ttl=todo.ttl,
            version=version,
        )
    )


def read_amounts(image: Image | None) -> dict[str, Counter[str]]:
    """Return the amounts that a contribution adds to totals, by the key of the total and then by attribute name.

    A contribution is an item that records how much one order, return or review adds to totals. `image`: the
    contribution in DynamoDB JSON; None if there is none. Returns {} if there is no contribution, or if it cannot be
    decoded.
    """
    if image is None:
        return {}
    try:
        return {where: Counter(one) for where, one in CONTRIBUTION.decode(image).amounts.items()}
    except Unreadable:
        return {}


# check and repair totals ----------------------------------------------------------------------------------------------
@dataclass
class TotalsScan:
    """The contributions, totals and returns that a scan of the table has read.

    A contribution is an item that records how much one order, return or review adds to totals. Keys of totals are texts
    in the form "PK / SK".
    `sums`: the sum of all contributions, by the key of the total.
    `totals`: the stored totals, by key.
    `return_contributions`: the contributions of returns, by return id.
    `returns`: the ids of the returns in the table.
    `last_archived_return_at`: the latest update time of any archived order that had returns, and of any order that is
    being archived; "" if there is none.
    `counted_since`: contributions of orders that were placed before this time may have expired, but their totals are
    final.
    `sold_stubs`: {id of an archived order: (time of placing, time of last change)}, for the orders that add to totals
    that can still change.
    """

    counted_since: Instant
    sums: dict[str, Counter[str]] = field(default_factory=dict)
    totals: dict[str, Image] = field(default_factory=dict)
    return_contributions: dict[str, Image] = field(default_factory=dict)
    returns: set[str] = field(default_factory=set)
    last_archived_return_at: str = ""
    sold_stubs: dict[str, tuple[str, str]] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)

    @classmethod
    def at(cls, now: datetime) -> TotalsScan:
        """Return an empty scan that begins now.

        A monthly total can change during its month (at most 31 days) and for SEASON_OPEN_DAYS after it. Its
        contributions expire EFFECT_DAYS later.
        """
        return cls(to_instant(now - timedelta(days=31 + SEASON_OPEN_DAYS + EFFECT_DAYS)))

    def add_item(self, image: Image) -> None:
        place = item_key(image)
        if match_key(CONTRIBUTION, place):
            for where, amounts in read_amounts(image).items():
                self.sums.setdefault(where, Counter()).update(amounts)
            self.sources.add(_contribution_source(image))
            if _source_type(image) == RETURN.type:
                self.return_contributions[_contribution_source(image)] = image
        elif total_row(place):
            self.totals[" / ".join(place)] = image
        elif key := match_key(RETURN, place):
            self.returns.add(key["return_id"])
        elif key := match_key(ORDER, place):
            kind, status, placed_at, updated_at = (
                _text_attribute(image, name) for name in ("type", "status", "placed_at", "updated_at")
            )
            if status == "ARCHIVING" or (kind == ARCHIVED_ORDER.type and status in RETURNED_STATES):
                self.last_archived_return_at = max(self.last_archived_return_at, updated_at)
            if kind == ARCHIVED_ORDER.type and status not in UNSOLD_STATES and placed_at >= self.counted_since:
                self.sold_stubs[key["order_id"]] = placed_at, updated_at

    @property
    def unknown_orders(self) -> list[tuple[str, str]]:
        """The time of placing and of the last change of each archived order whose contribution is missing."""
        return [times for order_id, times in self.sold_stubs.items() if order_id not in self.sources]

    def find_orphans(self) -> Iterator[Discrepancy]:
        """Yield the contributions of returned goods whose return does not exist.

        A contribution is an item that records how much one order, return or review adds to totals. If a return is not
        in the table, it may be in the archive. The archive is not read here. But an archived return is never newer than
        the last update of its order. So a contribution is yielded only if its return is not in the table, and if the
        contribution was created after the last update of every archived order with returns. An order that is being
        archived counts as archived, because its returns are deleted before it becomes a stub.
        """
        for source, image in self.return_contributions.items():
            if (
                source not in self.returns
                and (_text_attribute(image, "created_at") or "~") > self.last_archived_return_at
            ):
                yield Discrepancy("contribution orphaned", item_key(image), image, None, (CONTRIBUTION, None))


@dataclass(frozen=True)
class TotalDifference:
    """The difference between a total and the sum of its contributions.

    A contribution is an item that records how much one order, return or review adds to totals.
    `image`: the total in DynamoDB JSON; None if there is no total.
    `difference`: the total minus the sum, by attribute; None if the total changed while the contributions were read.
    `has_contributions`: whether any contribution adds to the total, either now or after wrong contributions are
    repaired. A total without contributions should not exist.
    """

    image: Image | None
    difference: Counter[str] | None
    has_contributions: bool


@dataclass
class TotalsCheck:
    """The result of a check of the totals: the wrong totals, and the wrong contributions to totals.

    A contribution is an item that records how much one order, return or review adds to totals. A total should be the
    sum of its contributions. So this class repairs totals and contributions together.
    `contributions`: the wrong contributions.
    `differences`: by key of a total, the difference between the total and the sum of its contributions. A total is
    compared only if a first scan found a difference, or if a wrong contribution adds to it.
    `final_totals`: how many totals were skipped because they can no longer change.
    `unknown_orders`: see `TotalsScan.unknown_orders`.
    `guard`: a function that returns condition checks. Each transaction of the repair includes these checks. A check
    fails if another run has taken over this run's checkpoint (its stored progress and lock). So two runs never repair
    totals at the same time. If this run has no checkpoint, `guard` returns no checks. Then `repair` corrects a total
    only if it has not changed since the check read it.
    """

    shop: ShopContext
    contributions: list[Discrepancy]
    differences: dict[str, TotalDifference]
    final_totals: int = 0
    guard: GuardWrites = tuple
    unknown_orders: Sequence[tuple[str, str]] = ()

    @property
    def unstable(self) -> int:
        return sum(off.difference is None for off in self.differences.values())

    @property
    def unverifiable(self) -> list[ItemKey]:
        """The keys of the totals that are not their sum, but may include orders whose contributions have expired."""
        wrong = {fault.key for fault in self._find_wrong_totals()}
        return [key for where in self.differences if (key := _parse_key(where)) in wrong and self._is_unknown(where)]

    def _is_unknown(self, where: str) -> bool:
        """Return whether an archived order without contribution may have added to a total. `where`: the total's key.

        An order adds to the totals of the minute and month of its payment. A return adds to the totals of the minute
        and month in which it was recorded. Both times are between the placing and the last change of the order.
        """
        key = match_key(_require_total_row(where), _parse_key(where)) or {}
        at = str(key.get("season") or key.get("minute", ""))[: len("2026-11-23T09:30")]
        return bool(at) and any(since[: len(at)] <= at <= until[: len(at)] for since, until in self.unknown_orders)

    def find_discrepancies(self) -> Iterator[Discrepancy]:
        yield from self.contributions
        unverifiable = set(self.unverifiable)
        yield from (fault for fault in self._find_wrong_totals() if fault.key not in unverifiable)

    def _find_wrong_totals(self) -> Iterator[Discrepancy]:
        for where, off in self.differences.items():
            if off.difference is not None:
                by = off.difference.copy()
                for mark in self.contributions:
                    _add_amounts(by, _amounts_delta(mark).get(where, {}), -1)
                wanted = (
                    total_image(where, _subtract_amounts(total_amounts(off.image), by), _version(off.image))
                    if off.has_contributions
                    else None
                )
                if any(by.values()) or (off.image is not None and off.image != wanted):
                    kind = (
                        "wrong"
                        if off.image and off.has_contributions
                        else "missing"
                        if off.has_contributions
                        else "orphaned"
                    )
                    yield Discrepancy(f"total {kind}", _parse_key(where), off.image, wanted, (CONTRIBUTION, None))

    def repair(self) -> tuple[int, int]:
        """Rewrite the wrong contributions, then correct each wrong total once.

        A contribution is an item that records how much one order, return or review adds to totals. An unverifiable
        total is not changed, also if a contribution to it is rewritten. Returns how many discrepancies were repaired,
        and how many are left.
        """
        faults = list(self.find_discrepancies())
        unknown = {where for where in self.differences if self._is_unknown(where)}
        mended = 0
        for mark in self.contributions:
            added = {where: by for where, by in _amounts_delta(mark).items() if where not in unknown}
            quiet = all(
                where not in self.differences or self.differences[where].difference is not None for where in added
            )
            if not _write_contribution(self.shop, mark, {} if quiet else added, self.guard):
                continue
            mended += 1
            for where, amounts in added.items() if quiet else ():
                if where in self.differences and (by := self.differences[where].difference) is not None:
                    _add_amounts(by, amounts, -1)
        wrong = {fault.key for fault in faults if fault.kind.startswith("total")}
        for where, off in self.differences.items():
            if off.difference is not None and where not in unknown:
                mended += self._repair_total(where, off) and _parse_key(where) in wrong
        return mended, len(faults) - mended

    def _repair_total(self, where: str, off: TotalDifference) -> bool:
        """Subtract the measured difference from one total. Returns whether the total is correct now.

        `where`: the key of the total. `off`: the difference between the total and the sum of its contributions. A
        contribution is an item that records how much one order, return or review adds to totals.
        """

        def attempt() -> bool:
            found = load_existing(self.shop, [_parse_key(where)]).get(_parse_key(where))
            by: Mapping[str, int] = off.difference or {}
            wanted = (
                total_image(where, _subtract_amounts(total_amounts(found), by), _version(found) + 1)
                if off.has_contributions
                else None
            )
            if not any(by.values()) and (found is None or {**found, "version": {"N": f"{_version(wanted)}"}} == wanted):
                return True
            guarded = self.guard()
            if not guarded and found != off.image:
                return False
            self.shop.table.write(*guarded, replace_image(_require_total_row(where), _parse_key(where), found, wanted))
            return True

        return retry_on_conflict(self.shop, attempt)


def scan_totals(
    shop: ShopContext, *, after_page: Sequence[AfterPage] = (), progress: SweepProgress | None = None
) -> TotalsScan:
    """Scan the whole table and return its totals, contributions and returns.

    A total is a sum over many items, such as the rating of a product. A contribution is an item that records how much
    one order, return or review adds to totals. The returns (goods that customers sent back) show which contributions of
    returns are still needed.

    The `drift` command, which checks copies and totals, usually collects these items in its own scan. If it resumes a
    stopped run, its own scan starts in the middle of the table and misses some items. Then it calls this function.
    """
    seen = TotalsScan.at(shop.now())
    sweep(shop.table, seen.add_item, after_page=after_page, progress=progress)
    return seen


def check_totals(
    shop: ShopContext,
    totals_scan: TotalsScan,
    contributions: Sequence[Discrepancy],
    *,
    after_page: Sequence[AfterPage] = (),
    progress: SweepProgress | None = None,
    guard: GuardWrites = tuple,
) -> TotalsCheck:
    """Check again the totals and contributions in which a first scan found discrepancies. Return what was confirmed.

    A contribution is an item that records how much one order, return or review adds to totals. This function scans all
    contributions a second time. It reads the totals before and after this second scan, to find the totals that changed
    meanwhile.

    `totals_scan`: the result of the first scan. `contributions`: the wrong contributions that the first scan found.
    `guard`: see `TotalsCheck`.
    """
    candidates = [
        *contributions,
        *(one for one in totals_scan.find_orphans() if one.key not in {mark.key for mark in contributions}),
    ]
    touched = {where for mark in candidates for where in _amounts_delta(mark)}
    suspects = {
        where for where in {*totals_scan.sums, *totals_scan.totals} if _is_suspect(where, totals_scan)
    } | touched
    judged = sorted(where for where in suspects if total_row(_parse_key(where)) and not is_final(shop, where))
    final = sum(
        is_final(shop, where) for where in {*totals_scan.sums, *totals_scan.totals} if total_row(_parse_key(where))
    )
    if not judged and not candidates:
        return TotalsCheck(shop, [], {}, final, guard)
    before = load_existing(shop, [_parse_key(where) for where in judged])
    again = TotalsScan(
        totals_scan.counted_since,
        last_archived_return_at=totals_scan.last_archived_return_at,
        sold_stubs=totals_scan.sold_stubs,
    )
    if progress:
        progress.note("totals or contributions seem wrong; all contributions are read again")
    sweep(shop.table, again.add_item, scan=CONTRIBUTIONS_SCAN, after_page=after_page, progress=progress)
    after = load_existing(shop, [_parse_key(where) for where in judged])
    lie = load_existing(shop, [mark.key for mark in candidates])
    orphans = {one.key for one in again.find_orphans()}
    kept = [
        mark
        for mark in candidates
        if lie.get(mark.key) == mark.actual and (mark.source[1] is not None or mark.key in orphans)
    ]
    offs = {}
    for where in judged:
        image, was = after.get(_parse_key(where)), before.get(_parse_key(where))
        by = Counter(total_amounts(image))
        _add_amounts(by, again.sums.get(where, {}), -1)
        counts = where in again.sums or any(where in read_amounts(mark.expected) for mark in kept)
        offs[where] = TotalDifference(image, by if image == was else None, counts)
    return TotalsCheck(shop, kept, offs, final, guard, again.unknown_orders)


CONTRIBUTIONS_SCAN = {
    "FilterExpression": "#type = :return OR begins_with(PK, :mark)",
    "ExpressionAttributeNames": {"#type": "type"},
    "ExpressionAttributeValues": {
        ":return": {"S": RETURN.type},
        ":mark": {"S": CONTRIBUTION.templates("main")[0].prefix},
    },
}
"""Scan arguments that select the returns and the contributions.

A contribution records how much one order, return or review adds to totals. It is selected by its key prefix, so an item
with a former or a wrong `type` attribute is selected too.
"""


def _is_suspect(where: str, totals_scan: TotalsScan) -> bool:
    image = totals_scan.totals.get(where)
    if total_row(_parse_key(where)) is None:
        return False
    if image is not None and image != total_image(where, total_amounts(image), _version(image)):
        return True
    there_are, counted = total_amounts(image), totals_scan.sums.get(where, Counter[str]())
    return any(there_are.get(name, 0) != counted[name] for name in {*there_are, *counted})


def _write_contribution(shop: ShopContext, contribution: Discrepancy, added: Amounts, guard: GuardWrites) -> bool:
    """Correct a wrong contribution, and add the amounts in `added` to totals, in one transaction.

    A contribution is an item that records how much one order, return or review (its source item) adds to totals.

    `contribution`: the wrong contribution and its expected content. `added`: the amounts to add, by the key of the
    total; {} if the totals are corrected separately.

    Returns whether the transaction was written. It is not written if the contribution or its source item has changed
    since the check read it. It is also not written if each of MAX_ATTEMPTS attempts had a write conflict.
    """
    row, item = contribution.source
    for _ in range(MAX_ATTEMPTS):
        stored = load_existing(shop, [_parse_key(where) for where in added])
        writes = [*guard(), *([] if item is None else [check_source_unchanged(row, item)])]
        writes.append(replace_image(CONTRIBUTION, contribution.key, contribution.actual, contribution.expected))
        for where, amounts in added.items():
            found = stored.get(_parse_key(where))
            if any(amounts.values()) and total_row(_parse_key(where)) and not is_final(shop, where):
                more = Counter(total_amounts(found))
                _add_amounts(more, amounts, 1)
                writes.append(
                    replace_image(
                        _require_total_row(where),
                        _parse_key(where),
                        found,
                        total_image(where, more, _version(found) + 1),
                    )
                )
        try:
            shop.table.write(*writes)
        except WriteConflict:
            if load_existing(shop, [contribution.key]).get(contribution.key) != contribution.actual:
                return False
            continue
        return True
    return False


MAX_ATTEMPTS = 5


def _amounts_delta(contribution: Discrepancy) -> dict[str, Counter[str]]:
    """Return the expected amounts of a contribution minus its stored amounts, by the key of the total.

    A contribution is an item that records how much one order, return or review adds to totals.
    """
    added = read_amounts(contribution.expected)
    for where, amounts in read_amounts(contribution.actual).items():
        _add_amounts(added.setdefault(where, Counter()), amounts, -1)
    return added


def _add_amounts(amounts: Counter[str], by: Mapping[str, int], times: int) -> None:
    for name, amount in by.items():
        amounts[name] += times * amount


def _subtract_amounts(amounts: Mapping[str, int], by: Mapping[str, int]) -> dict[str, int]:
    return {name: amounts.get(name, 0) - by.get(name, 0) for name in {**amounts, **by}}


# decode and encode a total --------------------------------------------------------------------------------------------
def total_row(place: ItemKey) -> Row[Any] | None:
    return next((row for row in totals.TOTAL_FIELDS if match_key(row, place)), None)


def _require_total_row(where: str) -> Row[Any]:
    row = total_row(_parse_key(where))
    assert row is not None, where
    return row


def _parse_key(where: str) -> ItemKey:
    partition, _, sort = where.partition(" / ")
    return partition, sort


def is_final(shop: ShopContext, where: str) -> bool:
    """Return whether a total can no longer change. `where`: the primary key of the total as "PK / SK".

    The total of a best seller is final some days after its month has ended. The sales total of a minute is final when
    its ttl has passed. A rating is never final.
    """
    row = _require_total_row(where)
    key = match_key(row, _parse_key(where)) or {}
    if row is BEST_SELLER:
        return shop.now() >= totals.season_final_at(Instant(f"{key['season']}-01T00:00:00.000Z"))
    return row is SALES_MINUTE and totals.minute_ttl(Instant(key["minute"])) <= shop.now().timestamp()


def total_amounts(image: Image | None) -> dict[str, int]:
    """Return the stored amounts of a total, by attribute name.

    `image`: the total in DynamoDB JSON. Returns {} if it is None or is not a total.
    """
    if image is None or (row := total_row(item_key(image))) is None:
        return {}
    return {name: int(image.get(name, {}).get("N", 0)) for name in totals.TOTAL_FIELDS[row]}


def _version(image: Image | None) -> int:
    return int((image or {}).get("version", {}).get("N", 0))


def total_image(where: str, amounts: Mapping[str, int], version: int) -> Image:
    """Return a total with these amounts and this version, in DynamoDB JSON. `where`: its primary key as "PK / SK"."""
    row = _require_total_row(where)
    attributes: dict[str, Any] = {
        **(match_key(row, _parse_key(where)) or {}),
        **dict.fromkeys(totals.TOTAL_FIELDS[row], 0),
    }
    attributes |= {name: amount for name, amount in amounts.items() if name in totals.TOTAL_FIELDS[row]}
    if row is SALES_MINUTE:
        attributes["ttl"] = totals.minute_ttl(attributes["minute"])
    return row.encode(row.entity(**attributes, version=version))
