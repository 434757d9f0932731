"""Whether every copy, log and total is as its primaries say, and how to make it so.

Only what stays wrong is told: what a look finds is looked at again after a pause longer than the readers' usual lag,
and must be as it was, primary and copy. So the shop stays open. What is mended is written while both still are.
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

from functions.dynamodb.images import Image, Unreadable
from functions.dynamodb.keys import InvalidKeyValue, Row
from functions.dynamodb.streams import Permanent
from functions.dynamodb.writes import WriteConflict
from functions.model.entities import Stretch
from functions.model.patterns import ORDER_ITEM_COLLECTION
from functions.model.table import ACTIVITY, COUNTED, ORDER, ORDER_SUMMARY, RETURN, REVIEW
from functions.shop.shop import Shop
from ops import place
from ops.estates import (
    Discrepancy,
    ImagesByKey,
    activity_sources,
    find_activity_discrepancies,
    find_order_discrepancies,
    find_summary_discrepancies,
    read_source,
    summary_sources,
)
from ops.items import ItemKey, item_key, load_existing, match_key
from ops.kept import Checkpoint
from ops.pace import limit_capacity
from ops.progress import SweepProgress
from ops.sweep import AfterPage, LostRace, SweepResult, sample_segments, sweep
from ops.totals import (
    TotalsScan,
    check_totals,
    contribution_sources,
    find_contribution_discrepancies,
    find_orphaned_contribution,
    scan_totals,
)

PAUSE_SECONDS = 30
"""Longer than the readers usually take: what is wrong for so long, and unchanged, is not on its way."""
MAX_CHECKS = 4
"""How often something is looked at that changes all the time, before it is left alone."""
RECHECK_BATCH_SIZE = 500
"""How many suspicions are looked at again together."""
DEFAULT_SAMPLE_ITEMS = 1_000
MAX_UNSETTLED = 200
"""Of so many things that seem wrong the table remembers that they do; with more, it is gone on where these began."""
MAX_RECENT_ORDERS = 1_000
"""Of how many orders it is remembered that they were looked at: what belongs to one lies together."""

ReportDiscrepancy = Callable[[Discrepancy], None]


@dataclass
class DriftCheck:
    """One look through the table. `told`: what is wrong, by place; `left`: what of that could not be mended.

    `moving`: how much changed each time it was looked at, and so was not judged; `final`: how many totals are final.
    `kept`: the look at everything is remembered there. What seems wrong and is not mended yet is looked at once more by
    the run that goes on with it. Only who keeps it may put a total right that others write at the same time. `progress`
    reports how far it is.
    """

    shop: Shop
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
    _totals_scan: TotalsScan = field(default_factory=TotalsScan)
    _contribution_discrepancies: list[Discrepancy] = field(default_factory=list)
    _suspicions: list[_Suspicion] = field(default_factory=list)
    _recent_orders: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _unsettled: dict[ItemKey, None] = field(default_factory=dict)
    _sources: ImagesByKey = field(default_factory=dict)

    def check_all(self, *, units_per_second: float | None = None) -> None:
        """Look at everything, totals too. Raises InHand where somebody else has taken it over."""
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
            marks = {mark.key: mark for mark in self._contribution_discrepancies}
            guard = (lambda: [kept.check_lock()]) if (kept := self.checkpoint) else tuple
            totals_check = check_totals(self.shop, totals_scan, list(marks.values()), guard=guard, **again)
            self.unstable += totals_check.unstable
            self.final_totals = totals_check.final_totals
            for fault in totals_check.find_discrepancies():
                self._report(fault)
            if self.repair:
                mended, left = totals_check.repair()
                self.repaired, self.unrepaired = self.repaired + mended, self.unrepaired + left

    def _resume_sweep(self, checkpoint: Checkpoint) -> None:
        """The sweep from where it was stopped, with what was waiting then."""
        self.sweep_result = checkpoint.result
        for text in checkpoint.sweep.waiting:
            partition, _, sort = text.partition(" / ")
            with suppress(Unreadable, InvalidKeyValue, Permanent):  # the sweep has listed it
                self._check_first(self._make_suspicion((partition, sort)))

        def remember(found: SweepResult, segments: tuple[Stretch, ...]) -> None:
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
        """Look at so many items and what belongs to them, from places of the table taken at random.

        No total can be judged by a part of what counts in it, and no mark be mended without its totals.
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
        for mark in self._contribution_discrepancies:
            self._report(mark)
        self.unrepaired += len(self._contribution_discrepancies) if self.repair else 0

    # looking ----------------------------------------------------------------------------------------------------------
    def _load_sources(self, images: Sequence[Image]) -> None:
        """Read all that the items of a page are judged by in a few requests, and not in one for each item."""
        places: list[ItemKey] = []
        for image in images:
            for row, find in ITEM_CHECKS.items():
                if match_key(row, item_key(image)):
                    with suppress(InvalidKeyValue):  # the item's own turn reports it
                        places += find.sources(image)
        self._sources = load_existing(self.shop, places)

    def _check_item(self, image: Image) -> bool | None:
        """Whether anything seems to be wrong with what lies here. Raises Unreadable, BadKey, Permanent."""
        self._totals_scan.add_item(image)
        suspicion = self._make_suspicion(item_key(image))
        return self._check_first(suspicion, image) if suspicion else None

    def _make_suspicion(self, at: ItemKey) -> _Suspicion | None:
        """What is to be looked at for what lies at a place: an order with all that belongs to it once, by its first
        item, or the item; None for what nothing is judged by."""
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
        """`image`: the item on the page that the sweep is at; None: it is read again, and what it is judged by, too."""
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
        """Look again at all that is left: last at copies of which somebody else may know better what they are."""
        for last in (False, True):
            self._confirm([one for one in self._suspicions if one.is_checked_last is last])

    def _confirm(self, suspicions: Sequence[_Suspicion]) -> None:
        """Look again until each is gone, or has stayed as it was for the whole pause."""
        for _ in range(MAX_CHECKS):
            if not suspicions:
                return
            due = max(one.checked_at for one in suspicions) + self.pause_seconds
            if (seconds := due - self.shop.now().timestamp()) > 0:
                if self.checkpoint:
                    self.checkpoint.extend_lock(seconds)
                if self.progress:
                    places = f"{len(suspicions):,} places seem wrong"
                    self.progress.note(f"{places}, they are checked again in {seconds:.0f} seconds")
                self.shop.table.sleep(seconds)
            suspicions = [one for number, one in enumerate(suspicions) if self._recheck(one, number, len(suspicions))]
        self.unstable += len(suspicions)

    def _recheck(self, suspicion: _Suspicion, number: int, total: int) -> bool:
        """Tell what has stayed. Whether there is something else by now."""
        if self.checkpoint:
            self.checkpoint.extend_lock()
        if self.progress:
            self.progress.note(f"{number:,} of {total:,} places are checked again", only_when_due=True)
        try:
            found = suspicion.check(None)
        except (Unreadable, InvalidKeyValue, Permanent):
            return False  # the sweep has listed it, or lists it next time
        same = [fault for fault in found if fault in suspicion.discrepancies]
        settled = len(same) == len(found)
        for fault in same:
            if fault.key not in self.discrepancies and fault.kind.startswith("mark"):
                self._contribution_discrepancies.append(fault)
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
        except (WriteConflict, LostRace, Permanent):
            self.unrepaired += 1
            return False
        self.repaired += 1
        return True


@dataclass
class _Suspicion:
    """Something that seems to be wrong. `look` finds out, of an item given its image, if that is known. `last`: to be
    looked at when all else is known. `found`: what it was, `at`: when that was."""

    key: ItemKey
    check: Callable[[Image | None], list[Discrepancy]]
    is_checked_last: bool = False
    discrepancies: list[Discrepancy] = field(default_factory=list)
    checked_at: float = 0.0


@dataclass(frozen=True)
class ItemCheck:
    """How an item is checked. `sources`: the places of the items that `faults` judges it by, and is given."""

    find_discrepancies: Callable[[Shop, Image, ImagesByKey], Iterable[Discrepancy]]
    sources: Callable[[Image], Sequence[ItemKey]]


def _check_order(shop: Shop, order_id: str) -> list[Discrepancy]:
    images = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order_id)
    counted = [read_source(one) for one in images if any(match_key(row, item_key(one)) for row in (ORDER, RETURN))]
    return [*find_order_discrepancies(shop, order_id, images), *find_contribution_discrepancies(shop, counted)]


ITEM_CHECKS: Mapping[Row[Any], ItemCheck] = {
    REVIEW: ItemCheck(lambda shop, image, _: find_contribution_discrepancies(shop, [read_source(image)]), lambda _: []),
    ORDER_SUMMARY: ItemCheck(lambda _, image, sources: find_summary_discrepancies(image, sources), summary_sources),
    ACTIVITY: ItemCheck(find_activity_discrepancies, activity_sources),
    COUNTED: ItemCheck(find_orphaned_contribution, contribution_sources),
}
"""How what does not lie with its order is looked at."""
CHECKED_LAST = (ACTIVITY, COUNTED)
"""What may say falsely whose it is: who it belongs to knows better."""


# the command ----------------------------------------------------------------------------------------------------------
MAX_NAMED = 3
"""How many of a kind are named."""


def command(commands: place.Subparsers) -> None:
    parser = commands.add_parser(
        "drift",
        parents=[place.target_options(), place.throttle_options(), place.resume_options(with_segments=False)],
        help="is every copy, log and total as its primaries say?",
    )
    parser.add_argument("--repair", action="store_true", help="make it so")
    some = parser.add_mutually_exclusive_group()
    some.add_argument("--all", action="store_true", help="look at everything, totals too")
    some.add_argument(
        "--sample",
        type=place.positive_int,
        default=DEFAULT_SAMPLE_ITEMS,
        metavar="N",
        help="else at so many items (default: %(default)s)",
    )
    parser.add_argument(
        "--pause", type=place.positive_number, default=PAUSE_SECONDS, metavar="SECONDS",
        help="what is wrong must stay so for this long: longer than the stream's readers take (default: %(default)s)",
    )  # fmt: skip
    parser.set_defaults(run=run_drift)


def run_drift(args: argparse.Namespace) -> None:
    """Tell what has drifted, and mend it. Exits with 1 where anything is left."""
    shop = place.resolve_shop(args)
    drift = DriftCheck(shop, repair=args.repair, pause_seconds=args.pause)
    if args.all:
        drift.progress = SweepProgress(shop.table, "drift", dry=True)
        with place.open_checkpoint(
            args, shop.table, "drift", "all", "repair" if args.repair else "look"
        ) as drift.checkpoint:
            drift.check_all(units_per_second=place.units_per_second(args))
    else:
        drift.progress = SweepProgress(shop.table, "drift", dry=True, sample_size=args.sample)
        drift.check_sample(args.sample, units_per_second=place.units_per_second(args))
        drift.progress.finish()
    print("\n".join(format_report(drift, whole=args.all)))
    if drift.unrepaired or drift.unstable or drift.sweep_result.unreadable or (drift.discrepancies and not args.repair):
        sys.exit(1)


def format_report(drift: DriftCheck, *, whole: bool) -> Iterator[str]:
    """What was found by kind, the first of each by name, and what to do next."""
    kinds: dict[str, list[Discrepancy]] = {}
    for fault in drift.discrepancies.values():
        kinds.setdefault(fault.kind, []).append(fault)
    for kind, faults in sorted(kinds.items()):
        yield f"{len(faults):>7,}  {kind}"
        yield from (f"         {' / '.join(fault.key)}" for fault in faults[:MAX_NAMED])
    yield from (f"cannot be read: {at}: {why}" for at, why in list(drift.sweep_result.unreadable.items())[:MAX_NAMED])
    if drift.unstable:
        yield f"{drift.unstable:,} changed whenever they were looked at: look again when it is quieter."
    if drift.final_totals:
        yield f"{drift.final_totals:,} totals are final, and stay as they are."
    looked = f"{drift.sweep_result.read:,} items read" + ("" if whole else ", totals not (--all)")
    if not drift.discrepancies:
        yield f"{looked}: nothing {'else ' if drift.unstable else ''}has drifted."
    elif drift.repair:
        again = "run it again" if whole else "marks want --all"
        left = f", {drift.unrepaired:,} left: {again}" if drift.unrepaired else ""
        yield f"{looked}: {len(drift.discrepancies):,} have drifted, {drift.repaired:,} mended{left}."
    else:
        yield f"{looked}: {len(drift.discrepancies):,} have drifted. Mend them with --repair."
