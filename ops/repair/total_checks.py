"""Find and repair wrong totals, and wrong contributions of single items to totals.

A total is a sum over many items, for example a product's rating. A contribution records how much one order, return or
review (its source) adds to totals. Both change in one transaction. So the check reads the total, then all
contributions, then the total again, and does not judge a total that has changed in between.

The repair rewrites wrong contributions first, then corrects each total once. Final totals are left alone. A total may
include an archived order whose contribution has expired (`TotalsScan.unknown_orders`): it is reported, not changed.
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
from ops.item_keys import ItemKey, item_key, load_existing, match_key, parse_key
from ops.repair.copy_checks import Discrepancy, ImagesByKey, SourceItem, check_source_unchanged, replace_image
from ops.scan.progress import SweepProgress
from ops.scan.sweep import sweep
from ops.scan.sweep_result import AfterPage

RETURNED_STATES = ("PARTIALLY_RETURNED", "RETURNED")
UNSOLD_STATES = ("CANCELLED", "LAPSED")
"""The states in which an archived order adds nothing to totals, with or without a contribution."""
MAX_ATTEMPTS = 5
Amounts = dict[ItemKey, Counter[str]]
"""Amounts by the key of a total, and then by attribute name."""
GuardWrites = Callable[[], Sequence[Write[Any]]]


# contributions --------------------------------------------------------------------------------------------------------
def find_contribution_discrepancies(shop: ShopContext, items: Sequence[SourceItem]) -> Iterator[Discrepancy]:
    """Yield the missing and wrong contributions of these items, and those that must not exist beside them."""
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
    """Return the key of a contribution's order or review; [] for a return. Raises InvalidKeyValue."""
    source = _source_key(image)
    return [item_key(source[1])] if source else []


def find_orphaned_contribution(image: Image, sources: ImagesByKey) -> Iterator[Discrepancy]:
    """Yield a discrepancy if a contribution's order or review is not in `sources` (returns: `find_orphans`)."""
    source = _source_key(image)
    if source and item_key(source[1]) not in sources and (source[0] is REVIEW or _source_type(image) == ORDER.type):
        yield Discrepancy("contribution orphaned", item_key(image), image, None, source)


def _source_key(image: Image) -> tuple[Row[Any], dict[str, Any]] | None:
    """Return the row and the key of a contribution's order or review; None if the source item is a return."""
    source = _source_id(image)
    if ":" in source:
        product_id, customer_id = source.split(":")
        return REVIEW, REVIEW.key(product_id=product_id, customer_id=customer_id)
    return None if _source_type(image) == RETURN.type else (ORDER, ORDER.key(order_id=source))


def _text_attribute(image: Image, name: str) -> str:
    """Return the value of a string attribute, or "" if the item has no such attribute or if it is not a string."""
    return str(image.get(name, {}).get("S", ""))


def _source_type(image: Image) -> str:
    return _text_attribute(CONTRIBUTION.current_form(image), "source_type")


def _source_id(image: Image) -> str:
    key = match_key(CONTRIBUTION, item_key(image))
    return key["source"] if key else ""


def _is_contribution_current(contribution: Image | None, todo: totals.ContributionChange) -> bool:
    """Return whether a stored contribution has the amounts in `todo`, which its source item must add now.

    An earlier version may have the same amounts. A later one, or another item with the same key, is wrong.
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
    return same_item and found == wanted and todo.matches(_stored_amounts(contribution))


def _contribution_image(todo: totals.ContributionChange, found: Image | None) -> Image:
    """Return the correct contribution in DynamoDB JSON. Its version is one above that of the stored one, `found`."""
    return CONTRIBUTION.encode(
        Contribution(
            source=todo.source_id,
            source_type=todo.source_type,
            as_of=todo.as_of,
            amounts=todo.amounts,
            created_at=Instant(_text_attribute(found or {}, "created_at") or todo.as_of.partition("#")[0]),
            ttl=todo.ttl,
            version=_version(found) + 1,
        )
    )


def _stored_amounts(contribution: Image | None) -> Mapping[str, Mapping[str, int]]:
    """Return the stored amounts, by "PK / SK" of a total; {} if there is no contribution, or one that is unreadable."""
    try:
        return CONTRIBUTION.decode(contribution).amounts if contribution else {}
    except Unreadable:
        return {}


def _read_amounts(contribution: Image | None) -> Amounts:
    amounts = {parse_key(text): Counter(amounts) for text, amounts in _stored_amounts(contribution).items()}
    return {key: one for key, one in amounts.items() if is_total(key)}


def _amounts_delta(contribution: Discrepancy) -> Amounts:
    """Return the expected amounts of a contribution minus its stored amounts."""
    delta = _read_amounts(contribution.expected)
    for key, amounts in _read_amounts(contribution.actual).items():
        delta.setdefault(key, Counter()).subtract(amounts)
    return delta


# check and repair totals ----------------------------------------------------------------------------------------------
@dataclass
class TotalsScan:
    """The contributions, totals and returns that a scan of the table has read, totals by their key.

    `counted_since`: totals of orders that were placed before are final, and their contributions may have expired.
    `last_archived_return_at`: the latest update of any archived order with returns, and of any order in archiving; or
    "". `sold_stubs`: {id of an archived order: (time of placing, time of last change)}, if its totals can still change.
    `sources`: the ids of the source items that have a contribution.
    """

    counted_since: Instant
    sums: Amounts = field(default_factory=dict)
    totals: dict[ItemKey, Image] = field(default_factory=dict)
    return_contributions: dict[str, Image] = field(default_factory=dict)
    returns: set[str] = field(default_factory=set)
    last_archived_return_at: str = ""
    sold_stubs: dict[str, tuple[str, str]] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)

    @classmethod
    def at(cls, now: datetime) -> TotalsScan:
        """Return an empty scan that begins now. A month's total is open for 31 days and SEASON_OPEN_DAYS.

        Its contributions expire EFFECT_DAYS later.
        """
        return cls(to_instant(now - timedelta(days=31 + SEASON_OPEN_DAYS + EFFECT_DAYS)))

    def add_item(self, image: Image) -> None:
        place = item_key(image)
        if match_key(CONTRIBUTION, place):
            for key, amounts in _read_amounts(image).items():
                self.sums.setdefault(key, Counter()).update(amounts)
            self.sources.add(_source_id(image))
            if _source_type(image) == RETURN.type:
                self.return_contributions[_source_id(image)] = image
        elif is_total(place):
            self.totals[place] = image
        elif found := match_key(RETURN, place):
            self.returns.add(found["return_id"])
        elif found := match_key(ORDER, place):
            kind, status, placed_at, updated_at = (
                _text_attribute(image, name) for name in ("type", "status", "placed_at", "updated_at")
            )
            if status == "ARCHIVING" or (kind == ARCHIVED_ORDER.type and status in RETURNED_STATES):
                self.last_archived_return_at = max(self.last_archived_return_at, updated_at)
            if kind == ARCHIVED_ORDER.type and status not in UNSOLD_STATES and placed_at >= self.counted_since:
                self.sold_stubs[found["order_id"]] = placed_at, updated_at

    @property
    def unknown_orders(self) -> list[tuple[str, str]]:
        """The time of placing and of the last change of each archived order whose contribution is missing."""
        return [times for order_id, times in self.sold_stubs.items() if order_id not in self.sources]

    def find_orphans(self) -> Iterator[Discrepancy]:
        """Yield the contributions of returned goods whose return does not exist.

        A missing return may be in the archive, but is then never newer than the last update of its order. An order that
        is being archived counts as archived, because its returns are deleted first.
        """
        for source, image in self.return_contributions.items():
            created_at = _text_attribute(image, "as_of").partition("#")[0] or "~"
            if source not in self.returns and created_at > self.last_archived_return_at:
                yield Discrepancy("contribution orphaned", item_key(image), image, None, (CONTRIBUTION, None))

    def is_suspect(self, key: ItemKey) -> bool:
        """Return whether a total is not encoded as it should be, or is not the sum of its contributions."""
        image = self.totals.get(key)
        amounts = _total_amounts(image)
        is_malformed = image is not None and image != _total_image(key, amounts, _version(image))
        return is_malformed or amounts != self.sums.get(key, Counter())


@dataclass(frozen=True)
class TotalDifference:
    """The total (None if there is none) minus the sum of its contributions (None if it changed meanwhile).

    `has_contributions`: whether any adds to it, now or after the repair. A total without them should not exist.
    """

    key: ItemKey
    image: Image | None
    difference: Counter[str] | None
    has_contributions: bool

    def correct(self, image: Image | None, by: Counter[str], version: int) -> Image | None:
        """Return what the total `image` should be: less these amounts, or None if nothing adds to it."""
        if not self.has_contributions:
            return None
        amounts = _total_amounts(image)
        amounts.subtract(by)
        return _total_image(self.key, amounts, version)


@dataclass
class TotalsCheck:
    """The wrong totals, by key, and the wrong contributions to totals. `final_totals`: how many were skipped.

    `guard`: returns condition checks for each transaction of the repair, which fail if another run has taken over.
    Without them, a total is corrected only if it has not changed since the check read it.
    """

    shop: ShopContext
    contributions: list[Discrepancy]
    differences: dict[ItemKey, TotalDifference]
    final_totals: int = 0
    guard: GuardWrites = tuple
    unknown_orders: Sequence[tuple[str, str]] = ()

    @property
    def unstable(self) -> int:
        return sum(off.difference is None for off in self.differences.values())

    @property
    def unverifiable(self) -> list[ItemKey]:
        """The keys of the totals that differ, but may include orders whose contributions have expired."""
        return [fault.key for fault in self._find_wrong_totals() if self._is_unknown(fault.key)]

    def _is_unknown(self, key: ItemKey) -> bool:
        """Return whether an archived order without contribution may have added to this total."""
        found = match_key(_total_row(key), key) or {}
        at = str(found.get("season") or found.get("minute", ""))[: len("2026-11-23T09:30")]
        return bool(at) and any(since[: len(at)] <= at <= until[: len(at)] for since, until in self.unknown_orders)

    def find_discrepancies(self) -> Iterator[Discrepancy]:
        yield from self.contributions
        yield from (fault for fault in self._find_wrong_totals() if not self._is_unknown(fault.key))

    def _find_wrong_totals(self) -> Iterator[Discrepancy]:
        deltas = [_amounts_delta(mark) for mark in self.contributions]
        for key, off in self.differences.items():
            if off.difference is None:
                continue
            by = off.difference.copy()
            for delta in deltas:
                by.subtract(delta.get(key, {}))
            wanted = off.correct(off.image, by, _version(off.image))
            if any(by.values()) or (off.image is not None and off.image != wanted):
                kind = "orphaned" if not off.has_contributions else "wrong" if off.image else "missing"
                yield Discrepancy(f"total {kind}", key, off.image, wanted, (CONTRIBUTION, None))

    def repair(self) -> tuple[int, int]:
        """Rewrite wrong contributions, then correct each wrong total. Return how many were repaired, and are left."""
        faults = list(self.find_discrepancies())
        unknown = {key for key in self.differences if self._is_unknown(key)}
        mended = 0
        for mark in self.contributions:
            added = {key: by for key, by in _amounts_delta(mark).items() if key not in unknown}
            judged = [(self.differences[key].difference, by) for key, by in added.items() if key in self.differences]
            quiet = all(difference is not None for difference, _ in judged)
            if not self._write_contribution(mark, {} if quiet else added):
                continue
            mended += 1
            for difference, amounts in judged if quiet else ():
                if difference is not None:
                    difference.subtract(amounts)
        wrong = {fault.key for fault in faults if fault.kind.startswith("total")}
        for key, off in self.differences.items():
            if off.difference is not None and key not in unknown:
                mended += self._repair_total(off, off.difference) and key in wrong
        return mended, len(faults) - mended

    def _write_contribution(self, contribution: Discrepancy, added: Amounts) -> bool:
        """Replace a wrong contribution, and add `added` to totals. Return False after a change or many conflicts."""
        shop, (row, item) = self.shop, contribution.source
        for _ in range(MAX_ATTEMPTS):
            stored = load_existing(shop, list(added))
            writes = [*self.guard(), *([] if item is None else [check_source_unchanged(row, item)])]
            writes.append(replace_image(CONTRIBUTION, contribution.key, contribution.actual, contribution.expected))
            for key, amounts in added.items():
                if any(amounts.values()) and not is_final(shop, key):
                    found = stored.get(key)
                    more = _total_amounts(found)
                    more.update(amounts)
                    total = _total_image(key, more, _version(found) + 1)
                    writes.append(replace_image(_total_row(key), key, found, total))
            try:
                shop.table.write(*writes)
            except WriteConflict:
                if load_existing(shop, [contribution.key]).get(contribution.key) != contribution.actual:
                    return False
                continue
            return True
        return False

    def _repair_total(self, off: TotalDifference, by: Counter[str]) -> bool:
        """Subtract the measured difference from one total. Return whether the total is correct now."""

        def attempt() -> bool:
            found = load_existing(self.shop, [off.key]).get(off.key)
            if not any(by.values()) and found in (None, off.correct(found, by, _version(found))):
                return True
            guarded = self.guard()
            if not guarded and found != off.image:
                return False
            wanted = off.correct(found, by, _version(found) + 1)
            self.shop.table.write(*guarded, replace_image(_total_row(off.key), off.key, found, wanted))
            return True

        return retry_on_conflict(self.shop, attempt)


def check_totals(
    shop: ShopContext,
    totals_scan: TotalsScan,
    contributions: Sequence[Discrepancy],
    *,
    after_page: Sequence[AfterPage] = (),
    progress: SweepProgress | None = None,
    guard: GuardWrites = tuple,
) -> TotalsCheck:
    """Check again the totals and contributions of a first scan, and return what was confirmed."""
    found_keys = {mark.key for mark in contributions}
    candidates = [*contributions, *(one for one in totals_scan.find_orphans() if one.key not in found_keys)]
    known = {*totals_scan.sums, *totals_scan.totals}
    suspects = {key for key in known if totals_scan.is_suspect(key)}
    suspects |= {key for mark in candidates for key in _amounts_delta(mark)}
    judged = sorted(key for key in suspects if not is_final(shop, key))
    final = sum(is_final(shop, key) for key in known)
    if not judged and not candidates:
        return TotalsCheck(shop, [], {}, final, guard)
    before = load_existing(shop, judged)
    again = TotalsScan(
        totals_scan.counted_since,
        last_archived_return_at=totals_scan.last_archived_return_at,
        sold_stubs=totals_scan.sold_stubs,
    )
    if progress:
        progress.note("totals or contributions seem wrong; all contributions are read again")
    sweep(shop.table, again.add_item, scan=CONTRIBUTIONS_SCAN, after_page=after_page, progress=progress)
    after = load_existing(shop, [*judged, *(mark.key for mark in candidates)])
    orphans = {one.key for one in again.find_orphans()}
    kept = [
        mark
        for mark in candidates
        if after.get(mark.key) == mark.actual and (mark.source[1] is not None or mark.key in orphans)
    ]
    counted = {*again.sums, *(key for mark in kept for key in _read_amounts(mark.expected))}
    differences = {}
    for key in judged:
        image = after.get(key)
        by = _total_amounts(image)
        by.subtract(again.sums.get(key, {}))
        differences[key] = TotalDifference(key, image, by if image == before.get(key) else None, key in counted)
    return TotalsCheck(shop, kept, differences, final, guard, again.unknown_orders)


CONTRIBUTIONS_SCAN = {
    "FilterExpression": "#type = :return OR begins_with(PK, :mark)",
    "ExpressionAttributeNames": {"#type": "type"},
    "ExpressionAttributeValues": {
        ":return": {"S": RETURN.type},
        ":mark": {"S": CONTRIBUTION.templates("main")[0].prefix},
    },
}
"""Scan arguments that select returns and contributions, these by key, also with a wrong `type`."""


# decode and encode a total --------------------------------------------------------------------------------------------
def is_total(key: ItemKey) -> bool:
    return any(match_key(row, key) for row in totals.TOTAL_FIELDS)


def _total_row(key: ItemKey) -> Row[Any]:
    return next(row for row in totals.TOTAL_FIELDS if match_key(row, key))


def is_final(shop: ShopContext, key: ItemKey) -> bool:
    """Return whether a total can no longer change: some days after its month, or after the ttl of its minute."""
    row = _total_row(key)
    found = match_key(row, key) or {}
    if row is BEST_SELLER:
        return shop.now() >= totals.season_final_at(Instant(f"{found['season']}-01T00:00:00.000Z"))
    return row is SALES_MINUTE and totals.minute_ttl(Instant(found["minute"])) <= shop.now().timestamp()


def _total_amounts(image: Image | None) -> Counter[str]:
    """Return the stored amounts of a total, by attribute name. The result is empty if there is no total."""
    fields = totals.TOTAL_FIELDS[_total_row(item_key(image))] if image else ()
    return Counter({name: int((image or {}).get(name, {}).get("N", 0)) for name in fields})


def _version(image: Image | None) -> int:
    return int((image or {}).get("version", {}).get("N", 0))


def _total_image(key: ItemKey, amounts: Mapping[str, int], version: int) -> Image:
    """Return a total with these amounts and this version, in DynamoDB JSON."""
    row = _total_row(key)
    fields = totals.TOTAL_FIELDS[row]
    attributes: dict[str, Any] = {**(match_key(row, key) or {}), **{name: amounts.get(name, 0) for name in fields}}
    if row is SALES_MINUTE:
        attributes["ttl"] = totals.minute_ttl(attributes["minute"])
    return row.encode(row.entity(**attributes, version=version))
