"""The `drift` command: find copies, log entries and totals that differ from their primary items, and repair them.

It also reports each account whose balance is not the sum of its ledger entries, but repairs no balance.

Lambda functions derive copies, log entries and totals from primary items with a lag. So an item that differs is checked
again after a pause, and reported only if the second check finds the same. A repair is written only if the wrong item
and its primary item are unchanged. So the shop can stay open.
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
from functions.model.table import ACCOUNT, ACTIVITY, CONTRIBUTION, FEED_ENTRY, ORDER, RETURN, REVIEW
from functions.shop.shop import ShopContext
from ops import targets
from ops.item_keys import ItemKey, item_key, load_existing, match_key, parse_key
from ops.repair.account_checks import ACCOUNTS_SCAN, UNBALANCED, find_unbalanced_account
from ops.repair.company_checks import COMPANY_CHECKS
from ops.repair.copy_checks import (
    SNAPSHOTS_OF_ORDERS,
    Discrepancy,
    ImagesByKey,
    ItemCheck,
    activity_sources,
    feed_entry_sources,
    find_activity_discrepancies,
    find_order_discrepancies,
    find_orphaned_feed_entry,
    find_orphaned_snapshot,
    read_source,
    snapshot_sources,
)
from ops.repair.total_checks import (
    TotalsScan,
    check_totals,
    contribution_sources,
    find_contribution_discrepancies,
    find_orphaned_contribution,
)
from ops.scan.checkpoint import Checkpoint
from ops.scan.progress import SweepProgress
from ops.scan.sweep import sample_segments, sweep
from ops.scan.sweep_result import SweepResult
from ops.scan.throttle import limit_capacity
from ops.terminal_text import colored

PAUSE_SECONDS = 30
"""The pause before the second check of an item. It is longer than the usual lag of the functions that update copies."""
MAX_CHECKS = 4
"""How often a suspicious item is checked again. If each check finds new discrepancies, it is unstable: not judged."""
RECHECK_BATCH_SIZE = 500
"""How many suspicious items are collected before they are checked again together."""
DEFAULT_SAMPLE_ITEMS = 1_000
MAX_UNSETTLED = 200
"""The maximum number of items with unrepaired discrepancies whose keys the checkpoint stores.

With more, it is not updated: a resumed run finds the items again.
"""
MAX_RECENT_PARTITIONS = 1_000
"""How many checked partitions are remembered. A scan returns the items of a partition one after the other."""


@dataclass
class DriftCheck:
    """A check of the table for drift.

    `discrepancies`: the confirmed ones, by the key of the wrong or missing item; `report_discrepancy` gets each.
    `unstable`, `final_totals`: what was not judged: items that changed during the checks, and totals that cannot
    change. `unverifiable`: the unchanged totals that may include archived orders with unknown amounts. `checkpoint`:
    the stored progress of a full check, and its lock against a second repair. Without it, a total is repaired only if
    it has not changed since it was read.
    """

    shop: ShopContext
    repair: bool = False
    pause_seconds: float = PAUSE_SECONDS
    report_discrepancy: Callable[[Discrepancy], None] = lambda fault: None
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
    _recent_partitions: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _unsettled: dict[ItemKey, None] = field(default_factory=dict)
    _sources: ImagesByKey = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._totals_scan = TotalsScan.at(self.shop.now())

    def check_all(self) -> None:
        """Check all items, totals and accounts, and perhaps repair them. Raises Locked if another run took over."""
        if self.checkpoint is None:
            self._sweep()
        else:
            self._resume_sweep(self.checkpoint)
        self._confirm_all()
        again: Any = {"after_page": [self._extend_lock], "progress": self.progress}
        resumed = self.checkpoint is not None and self.checkpoint.stopped_at is not None
        if resumed:  # the scan has begun in the middle of the table
            self._totals_scan = TotalsScan.at(self.shop.now())
            sweep(self.shop.table, self._totals_scan.add_item, **again)
        guard = (lambda: [kept.check_lock()]) if (kept := self.checkpoint) else tuple
        totals_check = check_totals(
            self.shop, self._totals_scan, list(self._contribution_discrepancies.values()), guard=guard, **again
        )
        self.unstable += totals_check.unstable
        self.final_totals, self.unverifiable = totals_check.final_totals, totals_check.unverifiable
        for fault in totals_check.find_discrepancies():
            self._report(fault)
        if self.repair:
            mended, left = totals_check.repair()
            self.repaired, self.unrepaired = self.repaired + mended, self.unrepaired + left

    def _resume_sweep(self, checkpoint: Checkpoint) -> None:
        """Check the items whose discrepancies the stopped run has not repaired. Then scan the rest of the table."""
        self.sweep_result = checkpoint.result
        for text in checkpoint.sweep.waiting:
            with suppress(Unreadable, InvalidKeyValue, Permanent):  # skip unreadable items: the next scan lists them
                self._check_first(self._make_suspicion(parse_key(text)))

        def remember(found: SweepResult, segments: tuple[SweepSegment, ...]) -> None:
            if len(self._unsettled) <= MAX_UNSETTLED:
                checkpoint.save_progress(found, segments, [" / ".join(at) for at in self._unsettled])

        self._sweep(segments=checkpoint.segments, after_page=(remember,))

    def _sweep(self, **settings: Any) -> None:
        """Check the items of a scan for the first time. `settings`: further arguments of `sweep`."""
        settings |= {"result": self.sweep_result, "before_page": self._load_sources, "progress": self.progress}
        sweep(self.shop.table, self._check_item, **settings)

    def _extend_lock(self, *_: object, seconds: float = 0) -> None:
        if self.checkpoint:
            self.checkpoint.extend_lock(seconds)

    def check_accounts(self) -> None:
        """Check all accounts and nothing else, with half of the read units of a scan, and those of the entries."""
        self._sweep(scan=ACCOUNTS_SCAN)
        self._confirm_all()

    def check_sample(self, number: int) -> None:
        """Check about `number` items from random places of the table, and the whole order or account of each.

        A sample does not read all contributions, so totals and contributions are left out.
        """
        for segments, most in sample_segments(self.shop.table, number):
            if self.sweep_result.read >= number:
                break
            self._sweep(segments=segments, max_items=most)
        self._confirm_all()
        for mark in self._contribution_discrepancies.values():
            self._report(mark)
        self.unrepaired += len(self._contribution_discrepancies) if self.repair else 0

    # find and confirm discrepancies -----------------------------------------------------------------------------------
    def _load_sources(self, images: Sequence[Image]) -> None:
        """Read the primary items of the items on a page of the scan in a few batch requests."""
        places: list[ItemKey] = []
        for image in images:
            for row, find in ITEM_CHECKS.items():
                if match_key(row, item_key(image)):
                    with suppress(InvalidKeyValue):  # the check of the item itself reports this error
                        places += find.sources(image)
        self._sources = load_existing(self.shop, places)

    def _check_item(self, image: Image) -> bool | None:
        """Return whether a first check finds a discrepancy; None without a check. Raises Unreadable or Permanent."""
        self._extend_lock()
        self._totals_scan.add_item(image)
        suspicion = self._make_suspicion(item_key(image))
        return self._check_first(suspicion, image) if suspicion else None

    def _make_suspicion(self, at: ItemKey) -> _Suspicion | None:
        """Return what checks this item, or its order or account; None if that was checked recently, or never is."""
        for row, check in PARTITION_CHECKS.items():
            if key := match_key(row, (at[0], row.main.partition(" / ")[2])):
                if at[0] in self._recent_partitions:
                    return None
                self._recent_partitions[at[0]] = None
                if len(self._recent_partitions) > MAX_RECENT_PARTITIONS:
                    self._recent_partitions.popitem(last=False)
                (id,) = key.values()
                return _Suspicion(at, partial(_check_partition, check, self.shop, id))
        for row, find in ITEM_CHECKS.items():
            if match_key(row, at):
                return _Suspicion(at, partial(self._find_discrepancies, at, find), row in CHECKED_LAST)
        return None

    def _find_discrepancies(self, at: ItemKey, item_check: ItemCheck, image: Image | None) -> list[Discrepancy]:
        """Return the discrepancies of an item on the current page. If it is None, it is read now with its primaries."""
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
        """Check all remaining suspicious items again, those of the types in `CHECKED_LAST` last."""
        for last in (False, True):
            self._confirm([one for one in self._suspicions if one.is_checked_last is last])

    def _confirm(self, suspicions: Sequence[_Suspicion]) -> None:
        """After the pause, check these items again, up to MAX_CHECKS times, and report what stayed the same."""
        for _ in range(MAX_CHECKS):
            if not suspicions:
                return
            due = max(one.checked_at for one in suspicions) + self.pause_seconds
            if (seconds := due - self.shop.now().timestamp()) > 0:
                self._extend_lock(seconds=seconds)
                if self.progress:
                    items = f"{len(suspicions):,} items seem wrong"
                    self.progress.note(f"{items}; they are checked again in {seconds:.0f} seconds")
                self.shop.table.sleep(seconds)
            suspicions = [one for number, one in enumerate(suspicions) if self._recheck(one, number, len(suspicions))]
        self.unstable += len(suspicions)

    def _recheck(self, suspicion: _Suspicion, number: int, total: int) -> bool:
        """Report and perhaps repair what an item's previous check found, too. Return whether to check once more.

        A wrong contribution is only collected here.
        """
        self._extend_lock()
        if self.progress:
            self.progress.update(number / total, f"{number:,} of {total:,} items are checked again")
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

    @property
    def is_drift_left(self) -> bool:
        """Whether a discrepancy is not repaired, or something could not be judged."""
        left = [fault for fault in self.discrepancies.values() if fault.errors or not self.repair]
        return bool(left or self.unrepaired or self.unstable or self.sweep_result.unreadable)

    def _report(self, fault: Discrepancy) -> None:
        self.discrepancies[fault.key] = fault
        self.report_discrepancy(fault)

    def _repair(self, fault: Discrepancy) -> bool:
        if fault.errors:
            return False
        try:
            fault.repair(self.shop)
        except (WriteConflict, Permanent):
            self.unrepaired += 1
            return False
        self.repaired += 1
        return True


@dataclass
class _Suspicion:
    """An item to check, or a whole order or account.

    `check`: returns the discrepancies of the item as the scan has read it, or as it is now (None). `is_checked_last`:
    whether it is checked again only after all others. `checked_at`: the Unix timestamp of the last check.
    """

    key: ItemKey
    check: Callable[[Image | None], list[Discrepancy]]
    is_checked_last: bool = False
    discrepancies: list[Discrepancy] = field(default_factory=list)
    checked_at: float = 0.0


def _check_order(shop: ShopContext, order_id: str) -> Iterator[Discrepancy]:
    images = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order_id)
    counted = [read_source(one) for one in images if any(match_key(row, item_key(one)) for row in (ORDER, RETURN))]
    yield from find_order_discrepancies(shop, order_id, images)
    yield from find_contribution_discrepancies(shop, counted)


def _check_partition(
    check: Callable[[ShopContext, str], Iterable[Discrepancy]], shop: ShopContext, id: str, _: Image | None
) -> list[Discrepancy]:
    return list(check(shop, id))


PARTITION_CHECKS: Mapping[Row[Any], Callable[[ShopContext, str], Iterable[Discrepancy]]] = {
    ORDER: _check_order,
    ACCOUNT: find_unbalanced_account,
}
"""The checks of whole partitions, by the type of the item that the partition belongs to."""

ITEM_CHECKS: Mapping[Row[Any], ItemCheck] = {
    REVIEW: ItemCheck(lambda shop, image, _: find_contribution_discrepancies(shop, [read_source(image)])),
    **dict.fromkeys(
        SNAPSHOTS_OF_ORDERS,
        ItemCheck(lambda _, image, sources: find_orphaned_snapshot(image, sources), snapshot_sources),
    ),
    FEED_ENTRY: ItemCheck(lambda _, image, sources: find_orphaned_feed_entry(image, sources), feed_entry_sources),
    ACTIVITY: ItemCheck(find_activity_discrepancies, activity_sources),
    **COMPANY_CHECKS,
    CONTRIBUTION: ItemCheck(lambda _, image, sources: find_orphaned_contribution(image, sources), contribution_sources),
}
"""The checks of single items in all other partitions, by item type."""
CHECKED_LAST = (ACTIVITY, CONTRIBUTION)
"""Suspicious items of these types are checked again after all others.

Their own check reads the source from the item, which may be wrong. The check of the source knows the content.
"""


# the command ----------------------------------------------------------------------------------------------------------
MAX_NAMED = 3
"""The report prints the keys of up to this many discrepancies of each kind."""


def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "drift",
        parents=[targets.target_options(), targets.throttle_options(), targets.resume_options(with_segments=False)],
        help="check that copies, logs and totals agree with their primary items, and balances with their entries",
    )
    parser.add_argument("--repair", action="store_true", help="repair the drift that is found")
    some = parser.add_mutually_exclusive_group()
    some.add_argument("--all", action="store_true", help="check the whole table, including totals")
    some.add_argument("--only", choices=["accounts"], help="check all balances, and nothing else")
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
    """Check a sample, the table or all accounts, perhaps repair, and print the report.

    Exits with 1 if a discrepancy is left, if an item could not be read, or if an item changed at every check.
    """
    shop = targets.resolve_shop(args)
    drift = DriftCheck(shop, repair=args.repair, pause_seconds=args.pause)
    scope = "all" if args.all else args.only or "sample"
    drift.progress = SweepProgress(
        shop.table, "drift", dry=True, sample_size=args.sample if scope == "sample" else None
    )
    task = "repair" if args.repair else "look"
    if args.repair:
        targets.record_run(args, shop, f"drift --repair of {scope}", "DRIFT")
    with limit_capacity(shop.table, targets.units_per_second(args)):
        if scope == "all":
            with targets.open_checkpoint(args, shop.table, "drift", "all", task) as drift.checkpoint:
                drift.check_all()
        elif scope == "accounts":
            drift.check_accounts()
        else:
            drift.check_sample(args.sample)
    print("\n".join(format_report(drift, scope)))
    if drift.is_drift_left:
        sys.exit(1)


def format_report(drift: DriftCheck, scope: str = "all") -> Iterator[str]:
    """Yield the lines of the report of this `scope` ("all", "accounts" or "sample"), with the next step."""
    kinds: dict[str, list[Discrepancy]] = {}
    for fault in drift.discrepancies.values():
        kinds.setdefault(fault.kind, []).append(fault)
    for kind, faults in sorted(kinds.items()):
        yield colored(f"{len(faults):>7,}  {kind}", "red")
        for fault in faults[: None if kind == UNBALANCED else MAX_NAMED]:
            yield f"         {' / '.join(fault.key)}"
            yield from (f"           {error}" for error in fault.errors)
    yield from (f"unreadable: {at}: {why}" for at, why in list(drift.sweep_result.unreadable.items())[:MAX_NAMED])
    if drift.unstable:
        yield f"{drift.unstable:,} changed at every check and were not judged. Run it again during fewer writes."
    if drift.final_totals:
        yield f"{drift.final_totals:,} totals are final and were not checked."
    if drift.unverifiable:
        yield f"{len(drift.unverifiable):>7,}  total unverifiable: its orders left the table; left as it is"
        yield from (f"         {' / '.join(key)}" for key in drift.unverifiable[:MAX_NAMED])
    read = f"{drift.sweep_result.read:,} items read"
    looked = {
        "all": read,
        "sample": f"{read}, totals not checked (use --all)",
        "accounts": f"{drift.sweep_result.matched:,} accounts checked",
    }[scope]
    if not drift.discrepancies:
        other = "other " if drift.unstable or drift.unverifiable else ""
        yield colored(f"{looked}: no {other}drift found.", "green")
    elif drift.repair:
        again = "run it again" if scope == "all" else "run it again with --all"
        left = f", {drift.unrepaired:,} not repaired: {again}" if drift.unrepaired else ""
        yield f"{looked}: {len(drift.discrepancies):,} discrepancies, {drift.repaired:,} repaired{left}."
    else:
        hint = "" if kinds.keys() == {UNBALANCED} else " Repair them with --repair."
        yield f"{looked}: {len(drift.discrepancies):,} discrepancies.{hint}"
    if UNBALANCED in kinds:
        yield "No command repairs a balance: compare the entries of the account with its payments and refunds."
