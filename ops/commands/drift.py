"""The `drift` command: find copies, log entries and totals that differ from their primary items, and repair them.

A primary item is an item that commands write. Copies, log entries and totals are derived from primary items by the
Lambda functions that read the stream. These functions lag behind the table, so a copy can differ for a short time.

So if a check finds a discrepancy in an item, the item is checked again after a pause, which is longer than the usual
lag. The command reports a discrepancy only if the second check finds the same discrepancy. A repair is written only if
the wrong item and its primary item are still unchanged. So the shop can stay open during a check and a repair.
"""

from __future__ import annotations

import argparse
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from functions.dynamodb.codec import Image
from functions.dynamodb.errors import Permanent, Unreadable
from functions.dynamodb.keys import InvalidKeyValue, Row
from functions.dynamodb.writes import WriteConflict
from functions.model.entities import SweepSegment
from functions.model.patterns import ORDER_ITEM_COLLECTION
from functions.model.table import ACTIVITY, COMPANY, CONTRIBUTION, CUSTOMER, ORDER, RETURN, REVIEW
from functions.shop.shop import ShopContext
from ops import targets
from ops.item_keys import ItemKey, item_key, load_existing, match_key
from ops.repair.copy_checks import (
    SNAPSHOTS_OF_ORDERS,
    Discrepancy,
    ImagesByKey,
    activity_sources,
    company_sources,
    find_activity_discrepancies,
    find_missing_company,
    find_order_discrepancies,
    find_orphaned_snapshot,
    find_wrong_member_count,
    read_source,
    snapshot_sources,
)
from ops.repair.total_checks import (
    TotalsScan,
    check_totals,
    contribution_sources,
    find_contribution_discrepancies,
    find_orphaned_contribution,
    scan_totals,
)
from ops.scan.checkpoint import Checkpoint
from ops.scan.progress import SweepProgress
from ops.scan.sweep import sample_segments, sweep
from ops.scan.sweep_result import AfterPage, SweepResult
from ops.scan.throttle import limit_capacity

PAUSE_SECONDS = 30
"""If a check finds a discrepancy in an item, this is the pause before the second check of the item.

The pause is longer than the usual lag of the Lambda functions that read the stream and update copies. So if both checks
find the same discrepancy, it is a real error, and not a copy that these functions have not updated yet.
"""
MAX_CHECKS = 4
"""If a first check finds a discrepancy in an item, the item is checked again at most this number of times.

If each of these checks finds new discrepancies, the item counts as unstable, because it changes too often to be judged.
"""
RECHECK_BATCH_SIZE = 500
"""How many items with a discrepancy in their first check are collected before they are checked again together."""
DEFAULT_SAMPLE_ITEMS = 1_000
MAX_UNSETTLED = 200
"""The maximum number of suspicious items whose keys the checkpoint stores.

An item is suspicious from the first check that finds a discrepancy in it, until the discrepancy has disappeared or is
repaired. If there are more suspicious items, the checkpoint (the stored progress of a run) is not updated. Then a
resumed run starts at the position that was stored before, and finds the suspicious items after this position again.
"""
MAX_RECENT_ORDERS = 1_000
"""How many recently checked orders are remembered, so that an order with many items is checked only once.

A small number is enough: an order's items share a partition, so a scan returns them one after the other.
"""

ReportDiscrepancy = Callable[[Discrepancy], None]


@dataclass
class DriftCheck:
    """A check of the table for drift: copies, log entries and totals that do not agree with their primary items.

    A primary item is an item that commands write. Copies, log entries and totals are derived from primary items. If a
    check finds a discrepancy in an item, the item is suspicious: a second check must confirm the discrepancy.
    `discrepancies`: the confirmed discrepancies, by the key of the wrong or missing item.
    `repair`: whether to repair the discrepancies.
    `pause_seconds`: the pause before a suspicious item is checked again.
    `report_discrepancy`: called once with each confirmed discrepancy.
    `sweep_result`: the counts of the scan.
    `repaired`, `unrepaired`: how many discrepancies could be repaired, and how many could not.
    `unstable`: how many items and totals changed during the checks, so that they could not be judged.
    `final_totals`: how many totals were not judged, because they can no longer change.
    `unverifiable`: the keys of the totals that differ from the counted sum, but may include archived orders whose
    amounts are unknown. The command does not change them.
    `checkpoint`: the stored progress of a full check, and its lock; None if the progress is not stored. The progress
    includes the keys of suspicious items, so that a resumed run checks these items first. The lock prevents two repairs
    at the same time. If `checkpoint` is None, a total is repaired only if it has not changed since it was read.
    """

    shop: ShopContext
    repair: bool = False
    pause_seconds: float = PAUSE_SECONDS
    report_discrepancy: ReportDiscrepancy = lambda fault: None
    checkpoint: Checkpoint | None = None
    progress: SweepProgress | None = None
    sweep_result: SweepResult = field(default_factory=SweepResult)
    discrepancies: dict[ItemKey, Discrepancy] = field(default_factory=dict)
    repaired: int = 0
    unrepaired: int = 0
    unstable: int = 0
    final_totals: int = 0
    unverifiable: list[ItemKey] = field(default_factory=list)
    _totals_scan: TotalsScan = field(init=False)
    _contribution_discrepancies: dict[ItemKey, Discrepancy] = field(default_factory=dict)
    _suspicions: list[_Suspicion] = field(default_factory=list)
    _recent_orders: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _unsettled: dict[ItemKey, None] = field(default_factory=dict)
    _sources: ImagesByKey = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._totals_scan = TotalsScan.at(self.shop.now())

    def check_all(self, *, units_per_second: float | None = None) -> None:
        """Check all items and totals of the table. If `repair` is set, repair the discrepancies too.

        `units_per_second`: the limit of capacity units per second; None for no limit. Raises Locked if another run has
        taken over the checkpoint.
        """
        with limit_capacity(self.shop.table, units_per_second):
            if self.checkpoint is None:
                sweep(
                    self.shop.table,
                    self._check_item,
                    result=self.sweep_result,
                    before_page=self._load_sources,
                    progress=self.progress,
                )
            else:
                self._resume_sweep(self.checkpoint)
            self._confirm_all()
            again: Any = {"after_page": self._heartbeat_hooks, "progress": self.progress}
            totals_scan = self._totals_scan if self._has_scanned_everything else scan_totals(self.shop, **again)
            guard = (lambda: [kept.check_lock()]) if (kept := self.checkpoint) else tuple
            totals_check = check_totals(
                self.shop, totals_scan, list(self._contribution_discrepancies.values()), guard=guard, **again
            )
            self.unstable += totals_check.unstable
            self.final_totals, self.unverifiable = totals_check.final_totals, totals_check.unverifiable
            for fault in totals_check.find_discrepancies():
                self._report(fault)
            if self.repair:
                mended, left = totals_check.repair()
                self.repaired, self.unrepaired = self.repaired + mended, self.unrepaired + left

    def _resume_sweep(self, checkpoint: Checkpoint) -> None:
        """First check the items whose discrepancies the stopped run has not repaired. Then continue its scan.

        The checkpoint stores the keys of these items, and the position at which the scan continues.
        """
        self.sweep_result = checkpoint.result
        for text in checkpoint.sweep.waiting:
            partition, _, sort = text.partition(" / ")
            with suppress(Unreadable, InvalidKeyValue, Permanent):  # skip unreadable items: the next scan lists them
                self._check_first(self._make_suspicion((partition, sort)))

        def remember(found: SweepResult, segments: tuple[SweepSegment, ...]) -> None:
            if len(self._unsettled) <= MAX_UNSETTLED:
                checkpoint.save_progress(found, segments, [" / ".join(at) for at in self._unsettled])

        sweep(
            self.shop.table,
            checkpoint.with_heartbeat(self._check_item),
            result=self.sweep_result,
            segments=checkpoint.segments,
            before_page=self._load_sources,
            after_page=(remember,),
            progress=self.progress,
        )

    @property
    def _has_scanned_everything(self) -> bool:
        return self.checkpoint is None or self.checkpoint.stopped_at is None

    @property
    def _heartbeat_hooks(self) -> Sequence[AfterPage]:
        kept = self.checkpoint
        return [lambda found, segments: kept.extend_lock()] if kept else []

    def check_sample(self, number: int, *, units_per_second: float | None = None) -> None:
        """Check about `number` items from random places of the table. For an item of an order, check the whole order.

        Totals are neither checked nor repaired. A total is the sum of its contributions (items that record how much one
        item adds to totals), and a sample does not read all contributions. Contributions are checked but not repaired,
        because the repair of a contribution must also correct its totals.

        `units_per_second`: the limit of capacity units per second; None for no limit.
        """
        with limit_capacity(self.shop.table, units_per_second):
            for segments, most in sample_segments(self.shop.table, number):
                if self.sweep_result.read >= number:
                    break
                sweep(
                    self.shop.table,
                    self._check_item,
                    result=self.sweep_result,
                    segments=segments,
                    before_page=self._load_sources,
                    progress=self.progress,
                    max_items=most,
                )
            self._confirm_all()
        for mark in self._contribution_discrepancies.values():
            self._report(mark)
        self.unrepaired += len(self._contribution_discrepancies) if self.repair else 0

    # find and confirm discrepancies -----------------------------------------------------------------------------------
    def _load_sources(self, images: Sequence[Image]) -> None:
        """Read the primary items (items that commands write) from which the items on a page of the scan are derived.

        This takes a few batch requests for the page, instead of one request for each item.
        """
        places: list[ItemKey] = []
        for image in images:
            for row, find in ITEM_CHECKS.items():
                if match_key(row, item_key(image)):
                    with suppress(InvalidKeyValue):  # the check of the item itself reports this error
                        places += find.sources(image)
        self._sources = load_existing(self.shop, places)

    def _check_item(self, image: Image) -> bool | None:
        """Check an item of the scan for the first time. Return whether the check found a discrepancy.

        Returns None if this item is not checked: its type is never checked, or its order was already checked as a
        whole. Raises Unreadable, InvalidKeyValue, Permanent.
        """
        self._totals_scan.add_item(image)
        suspicion = self._make_suspicion(item_key(image))
        return self._check_first(suspicion, image) if suspicion else None

    def _make_suspicion(self, at: ItemKey) -> _Suspicion | None:
        """Return a `_Suspicion`: an object that can check the item with this key. No check has run yet.

        If the item belongs to an order, the object checks the whole order. Returns None if this order was checked
        recently, for example because of another item of the order. Also returns None if this item type is not checked.
        """
        if order := match_key(ORDER, (at[0], ORDER.main.partition(" / ")[2])):
            order_id = order["order_id"]
            if order_id in self._recent_orders:
                return None
            self._recent_orders[order_id] = None
            if len(self._recent_orders) > MAX_RECENT_ORDERS:
                self._recent_orders.popitem(last=False)
            return _Suspicion(at, lambda _: _check_order(self.shop, order_id))
        for row, find in ITEM_CHECKS.items():
            if match_key(row, at):
                return _Suspicion(at, partial(self._find_discrepancies, at, find), row in CHECKED_LAST)
        return None

    def _find_discrepancies(self, at: ItemKey, item_check: ItemCheck, image: Image | None) -> list[Discrepancy]:
        """Run a check on one item, and return the discrepancies that it finds.

        The check also needs the primary items of the item: the items from which it is derived. `at`: the key of the
        item. `image`: the item as the current page of the scan contains it. In this case, `_load_sources` has already
        read the primary items of the whole page.

        `image` is None if the item is not checked during the scan, for example when it is checked a second time. Then
        the item and its primary items are read from the table now. If the item no longer exists, it has no
        discrepancies.
        """
        if image:
            return list(item_check.find_discrepancies(self.shop, image, self._sources))
        image = load_existing(self.shop, [at]).get(at)
        if image is None:
            return []
        sources: ImagesByKey = {}
        with suppress(InvalidKeyValue):
            sources = load_existing(self.shop, item_check.sources(image))
        return list(item_check.find_discrepancies(self.shop, image, sources))

    def _check_first(self, suspicion: _Suspicion | None, image: Image | None = None) -> bool:
        found = suspicion.check(image) if suspicion else []
        if suspicion is None or not found:
            return False
        self._unsettled[suspicion.key] = None
        suspicion.discrepancies, suspicion.checked_at = found, self.shop.now().timestamp()
        self._suspicions.append(suspicion)
        if sum(not one.is_checked_last for one in self._suspicions) >= RECHECK_BATCH_SIZE:
            self._confirm([one for one in self._suspicions if not one.is_checked_last])
            self._suspicions = [one for one in self._suspicions if one.is_checked_last]
        return True

    def _confirm_all(self) -> None:
        """Check again all remaining items in which the first check found a discrepancy.

        The items of the types in `CHECKED_LAST` come last.
        """
        for last in (False, True):
            self._confirm([one for one in self._suspicions if one.is_checked_last is last])

    def _confirm(self, suspicions: Sequence[_Suspicion]) -> None:
        """After the pause, check the given items again, and report the discrepancies that stayed the same.

        The previous check of each item found discrepancies. If a check finds new discrepancies of an item, the item is
        checked once more, up to MAX_CHECKS times. If every check finds new discrepancies, the item is counted as
        unstable.
        """
        for _ in range(MAX_CHECKS):
            if not suspicions:
                return
            due = max(one.checked_at for one in suspicions) + self.pause_seconds
            if (seconds := due - self.shop.now().timestamp()) > 0:
                if self.checkpoint:
                    self.checkpoint.extend_lock(seconds)
                if self.progress:
                    items = f"{len(suspicions):,} items seem wrong"
                    self.progress.note(f"{items}; they are checked again in {seconds:.0f} seconds")
                self.shop.table.sleep(seconds)
            suspicions = [one for number, one in enumerate(suspicions) if self._recheck(one, number, len(suspicions))]
        self.unstable += len(suspicions)

    def _recheck(self, suspicion: _Suspicion, number: int, total: int) -> bool:
        """Check an item again, and report the discrepancies that the previous check found, too.

        If `repair` is set, these discrepancies are repaired. A wrong contribution (an item that records how much
        another item adds to totals) is only collected here, and is reported at the end of the whole check. Returns True
        if this check found new discrepancies, so that the item must be checked once more.
        """
        if self.checkpoint:
            self.checkpoint.extend_lock()
        if self.progress:
            self.progress.note(f"{number:,} of {total:,} items are checked again", only_when_due=True)
        try:
            found = suspicion.check(None)
        except (Unreadable, InvalidKeyValue, Permanent):
            return False  # count no discrepancy: the table scan lists each item that cannot be read
        same = [fault for fault in found if fault in suspicion.discrepancies]
        settled = len(same) == len(found)
        for fault in same:
            if fault.key not in self.discrepancies and fault.kind.startswith("contribution"):
                # Two checks can find the same wrong contribution: its own check, and the check of its source item. Keep
                # the discrepancy that was found first. It comes from the check of the source item (see `CHECKED_LAST`),
                # which knows the expected amounts.
                self._contribution_discrepancies.setdefault(fault.key, fault)
                settled = False
            elif fault.key not in self.discrepancies:
                self._report(fault)
                settled = self.repair and self._repair(fault) and settled
        if settled:
            self._unsettled.pop(suspicion.key, None)
        suspicion.discrepancies, suspicion.checked_at = found, self.shop.now().timestamp()
        return len(same) < len(found)

    def _report(self, fault: Discrepancy) -> None:
        self.discrepancies[fault.key] = fault
        self.report_discrepancy(fault)

    def _repair(self, fault: Discrepancy) -> bool:
        try:
            fault.repair(self.shop)
        except (WriteConflict, Permanent):
            self.unrepaired += 1
            return False
        self.repaired += 1
        return True


@dataclass
class _Suspicion:
    """An item to check. If the first check finds discrepancies, the item is checked again to confirm them.

    `check`: a function that returns the item's discrepancies. Its argument is the item as the scan has read it. If the
    argument is None, the function reads the item from the table.
    `is_checked_last`: whether the item is checked again only after all other items with discrepancies.
    `discrepancies`, `checked_at`: the result and the time (Unix timestamp) of the last check.
    """

    key: ItemKey
    check: Callable[[Image | None], list[Discrepancy]]
    is_checked_last: bool = False
    discrepancies: list[Discrepancy] = field(default_factory=list)
    checked_at: float = 0.0


@dataclass(frozen=True)
class ItemCheck:
    """The functions that check the items of one type.

    `sources`: returns, for an item, the keys of the primary items that `find_discrepancies` needs.
    `find_discrepancies`: yields the discrepancies of an item. Its arguments are the shop, the item, and the existing
    primary items by key.
    """

    find_discrepancies: Callable[[ShopContext, Image, ImagesByKey], Iterable[Discrepancy]]
    sources: Callable[[Image], Sequence[ItemKey]]


def _check_order(shop: ShopContext, order_id: str) -> list[Discrepancy]:
    images = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order_id)
    counted = [read_source(one) for one in images if any(match_key(row, item_key(one)) for row in (ORDER, RETURN))]
    return [*find_order_discrepancies(shop, order_id, images), *find_contribution_discrepancies(shop, counted)]


ITEM_CHECKS: Mapping[Row[Any], ItemCheck] = {
    REVIEW: ItemCheck(lambda shop, image, _: find_contribution_discrepancies(shop, [read_source(image)]), lambda _: []),
    **dict.fromkeys(
        SNAPSHOTS_OF_ORDERS,
        ItemCheck(lambda _, image, sources: find_orphaned_snapshot(image, sources), snapshot_sources),
    ),
    ACTIVITY: ItemCheck(find_activity_discrepancies, activity_sources),
    COMPANY: ItemCheck(lambda shop, image, _: find_wrong_member_count(shop, image), lambda _: []),
    CUSTOMER: ItemCheck(lambda _, image, companies: find_missing_company(image, companies), company_sources),
    CONTRIBUTION: ItemCheck(lambda _, image, sources: find_orphaned_contribution(image, sources), contribution_sources),
}
"""The checks of items that are not stored in the partition of an order, by item type.

`_check_order` checks the items in the partition of an order.
"""
CHECKED_LAST = (ACTIVITY, CONTRIBUTION)
"""The second check of items of these types comes after the second checks of all other types.

Only items with a discrepancy in their first check are checked a second time. Two checks can find that such an item is
wrong: its own check, and the check of its source (the item that it is derived from). Only the discrepancy that is found
first counts. It must come from the check of the source, which knows the correct content. The item's own check reads the
id or type of the source from the item. If this value is wrong, the item's own check finds no source, and reports that
the item should not exist.
"""


# the command ----------------------------------------------------------------------------------------------------------
MAX_NAMED = 3
"""The report prints the keys of up to this many discrepancies of each kind."""


def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "drift",
        parents=[targets.target_options(), targets.throttle_options(), targets.resume_options(with_segments=False)],
        help="check that copies, logs and totals agree with their primary items",
    )
    parser.add_argument("--repair", action="store_true", help="repair the drift that is found")
    some = parser.add_mutually_exclusive_group()
    some.add_argument("--all", action="store_true", help="check the whole table, including totals")
    some.add_argument(
        "--sample",
        type=targets.positive_int,
        default=DEFAULT_SAMPLE_ITEMS,
        metavar="N",
        help="check about N items from random places of the table (default: %(default)s)",
    )
    parser.add_argument(
        "--pause", type=targets.positive_number, default=PAUSE_SECONDS, metavar="SECONDS",
        help="pause before a second check; it should be longer than the lag of the readers (default: %(default)s)",
    )  # fmt: skip
    parser.set_defaults(run=run_drift)


def run_drift(args: argparse.Namespace) -> None:
    """Check whether copies, log entries and totals agree with the items they are derived from. Print the report.

    If `--repair` is given, repair the discrepancies. By default, only a sample is checked, without totals.
    Exits with 1 if a discrepancy is left, if an item could not be read, or if an item changed at every check.
    """
    shop = targets.resolve_shop(args)
    drift = DriftCheck(shop, repair=args.repair, pause_seconds=args.pause)
    if args.all:
        drift.progress = SweepProgress(shop.table, "drift", dry=True)
        with targets.open_checkpoint(
            args, shop.table, "drift", "all", "repair" if args.repair else "look"
        ) as drift.checkpoint:
            drift.check_all(units_per_second=targets.units_per_second(args))
    else:
        drift.progress = SweepProgress(shop.table, "drift", dry=True, sample_size=args.sample)
        drift.check_sample(args.sample, units_per_second=targets.units_per_second(args))
        drift.progress.finish()
    print("\n".join(format_report(drift, whole=args.all)))
    if drift.unrepaired or drift.unstable or drift.sweep_result.unreadable or (drift.discrepancies and not args.repair):
        sys.exit(1)


def format_report(drift: DriftCheck, *, whole: bool) -> Iterator[str]:
    """Yield the lines of the report: the discrepancies by kind, the first keys of each kind, and the next step."""
    kinds: dict[str, list[Discrepancy]] = {}
    for fault in drift.discrepancies.values():
        kinds.setdefault(fault.kind, []).append(fault)
    for kind, faults in sorted(kinds.items()):
        yield f"{len(faults):>7,}  {kind}"
        yield from (f"         {' / '.join(fault.key)}" for fault in faults[:MAX_NAMED])
    yield from (f"unreadable: {at}: {why}" for at, why in list(drift.sweep_result.unreadable.items())[:MAX_NAMED])
    if drift.unstable:
        yield f"{drift.unstable:,} changed at every check and were not judged. Run it again during fewer writes."
    if drift.final_totals:
        yield f"{drift.final_totals:,} totals are final and were not checked."
    if drift.unverifiable:
        yield f"{len(drift.unverifiable):>7,}  total unverifiable: its orders left the table; left as it is"
        yield from (f"         {' / '.join(key)}" for key in drift.unverifiable[:MAX_NAMED])
    looked = f"{drift.sweep_result.read:,} items read" + ("" if whole else ", totals not checked (use --all)")
    if not drift.discrepancies:
        yield f"{looked}: no {'other ' if drift.unstable or drift.unverifiable else ''}drift found."
    elif drift.repair:
        again = "run it again" if whole else "run it again with --all"
        left = f", {drift.unrepaired:,} not repaired: {again}" if drift.unrepaired else ""
        yield f"{looked}: {len(drift.discrepancies):,} discrepancies, {drift.repaired:,} repaired{left}."
    else:
        yield f"{looked}: {len(drift.discrepancies):,} discrepancies. Repair them with --repair."
