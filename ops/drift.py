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
from functions.dynamodb.keys import BadKey, Row
from functions.dynamodb.streams import Permanent
from functions.dynamodb.writes import Changed
from functions.model.entities import Stretch
from functions.model.patterns import A12b
from functions.model.table import ACTIVITY, COUNTED, ORDER, ORDER_SUMMARY, RETURN, REVIEW
from functions.shop.shop import Shop
from ops import place
from ops.estates import (
    Fault,
    Images,
    faults_of,
    faults_of_activity,
    faults_of_summary,
    read,
    sources_of_activity,
    sources_of_summary,
)
from ops.items import Place, fields_of, place_of, there
from ops.kept import Kept
from ops.pace import limit
from ops.progress import Progress
from ops.sweep import AfterPage, Found, Lost, anywhere, sweep
from ops.totals import Seen, faults_of_mark, faults_of_marks, reckon, seen_again, sources_of_mark

PAUSE_SECONDS = 30
"""Longer than the readers usually take: what is wrong for so long, and unchanged, is not on its way."""
LOOKS = 4
"""How often something is looked at that changes all the time, before it is left alone."""
AT_ONCE = 500
"""How many suspicions are looked at again together."""
SAMPLE = 1_000
MOST_UNSETTLED = 200
"""Of so many things that seem wrong the table remembers that they do; with more, it is gone on where these began."""
RECENT = 1_000
"""Of how many orders it is remembered that they were looked at: what belongs to one lies together."""

Tell = Callable[[Fault], None]


@dataclass
class Drift:
    """One look through the table. `told`: what is wrong, by place; `left`: what of that could not be mended.

    `moving`: how much changed each time it was looked at, and so was not judged; `final`: how many totals are final.
    `kept`: the look at everything is remembered there. What seems wrong and is not mended yet is looked at once more by
    the run that goes on with it. Only who keeps it may put a total right that others write at the same time. `progress`
    reports how far it is.
    """

    shop: Shop
    repair: bool = False
    pause_seconds: float = PAUSE_SECONDS
    tell: Tell = lambda fault: None
    kept: Kept | None = None
    progress: Progress | None = None
    found: Found = field(default_factory=Found)
    told: dict[Place, Fault] = field(default_factory=dict)
    mended: int = 0
    left: int = 0
    moving: int = 0
    final: int = 0
    _seen: Seen = field(default_factory=Seen)
    _marks: list[Fault] = field(default_factory=list)
    _waiting: list[_Suspicion] = field(default_factory=list)
    _orders: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _unsettled: dict[Place, None] = field(default_factory=dict)
    _sources: Images = field(default_factory=dict)

    def whole(self, *, units_per_second: float | None = None) -> None:
        """Look at everything, totals too. Raises InHand where somebody else has taken it over."""
        with limit(self.shop.table, units_per_second):
            if self.kept is None:
                sweep(
                    self.shop.table, self._act, found=self.found, before_page=self._read_sources, progress=self.progress
                )
            else:
                self._go_on(self.kept)
            self._finish()
            again: Any = {"after_page": self._living, "progress": self.progress}
            seen = self._seen if self._has_seen_all else seen_again(self.shop, **again)
            marks = {mark.place: mark for mark in self._marks}
            guard = (lambda: [kept.guard()]) if (kept := self.kept) else tuple
            reckoning = reckon(self.shop, seen, list(marks.values()), guard=guard, **again)
            self.moving += reckoning.moving
            self.final = reckoning.final
            for fault in reckoning.faults():
                self._say(fault)
            if self.repair:
                mended, left = reckoning.mend()
                self.mended, self.left = self.mended + mended, self.left + left

    def _go_on(self, kept: Kept) -> None:
        """The sweep from where it was stopped, with what was waiting then."""
        self.found = kept.found
        for text in kept.sweep.waiting:
            partition, _, sort = text.partition(" / ")
            with suppress(Unreadable, BadKey, Permanent):  # the sweep has listed it
                self._first(self._suspicion((partition, sort)))

        def remember(found: Found, segments: tuple[Stretch, ...]) -> None:
            if len(self._unsettled) <= MOST_UNSETTLED:
                kept.after_page(found, segments, [" / ".join(at) for at in self._unsettled])

        sweep(
            self.shop.table,
            kept.living(self._act),
            found=self.found,
            segments=kept.segments,
            before_page=self._read_sources,
            after_page=(remember,),
            progress=self.progress,
        )

    @property
    def _has_seen_all(self) -> bool:
        return self.kept is None or self.kept.since is None

    @property
    def _living(self) -> Sequence[AfterPage]:
        kept = self.kept
        return [lambda found, segments: kept.hold()] if kept else []

    def some(self, number: int, *, units_per_second: float | None = None) -> None:
        """Look at so many items and what belongs to them, from places of the table taken at random.

        No total can be judged by a part of what counts in it, and no mark be mended without its totals.
        """
        with limit(self.shop.table, units_per_second):
            for segments, most in anywhere(self.shop.table, number):
                if self.found.read >= number:
                    break
                sweep(
                    self.shop.table,
                    self._act,
                    found=self.found,
                    segments=segments,
                    before_page=self._read_sources,
                    progress=self.progress,
                    most=most,
                )
            self._finish()
        for mark in self._marks:
            self._say(mark)
        self.left += len(self._marks) if self.repair else 0

    # looking ----------------------------------------------------------------------------------------------------------
    def _read_sources(self, images: Sequence[Image]) -> None:
        """Read all that the items of a page are judged by in a few requests, and not in one for each item."""
        places: list[Place] = []
        for image in images:
            for row, find in FINDS.items():
                if fields_of(row, place_of(image)):
                    with suppress(BadKey):  # the item's own turn reports it
                        places += find.sources(image)
        self._sources = there(self.shop, places)

    def _act(self, image: Image) -> bool | None:
        """Whether anything seems to be wrong with what lies here. Raises Unreadable, BadKey, Permanent."""
        self._seen.look(image)
        suspicion = self._suspicion(place_of(image))
        return self._first(suspicion, image) if suspicion else None

    def _suspicion(self, at: Place) -> _Suspicion | None:
        """What is to be looked at for what lies at a place: an order with all that belongs to it once, by its first
        item, or the item; None for what nothing is judged by."""
        if order := fields_of(ORDER, (at[0], ORDER.main.partition(" / ")[2])):
            order_id = order["order_id"]
            if order_id in self._orders:
                return None
            self._orders[order_id] = None
            if len(self._orders) > RECENT:
                self._orders.popitem(last=False)
            return _Suspicion(at, lambda _: _look_at_order(self.shop, order_id))
        for row, find in FINDS.items():
            if fields_of(row, at):
                return _Suspicion(at, partial(self._look_at, at, find), row in LAST)
        return None

    def _look_at(self, at: Place, find: Find, image: Image | None) -> list[Fault]:
        """`image`: the item on the page that the sweep is at; None: it is read again, and what it is judged by, too."""
        if image:
            return list(find.faults(self.shop, image, self._sources))
        image = there(self.shop, [at]).get(at)
        if image is None:
            return []
        sources: Images = {}
        with suppress(BadKey):
            sources = there(self.shop, find.sources(image))
        return list(find.faults(self.shop, image, sources))

    def _first(self, suspicion: _Suspicion | None, image: Image | None = None) -> bool:
        found = suspicion.look(image) if suspicion else []
        if suspicion is None or not found:
            return False
        self._unsettled[suspicion.place] = None
        suspicion.found, suspicion.at = found, self.shop.now().timestamp()
        self._waiting.append(suspicion)
        if sum(not one.last for one in self._waiting) >= AT_ONCE:
            self._confirm([one for one in self._waiting if not one.last])
            self._waiting = [one for one in self._waiting if one.last]
        return True

    def _finish(self) -> None:
        """Look again at all that is left: last at copies of which somebody else may know better what they are."""
        for last in (False, True):
            self._confirm([one for one in self._waiting if one.last is last])

    def _confirm(self, suspicions: Sequence[_Suspicion]) -> None:
        """Look again until each is gone, or has stayed as it was for the whole pause."""
        for _ in range(LOOKS):
            if not suspicions:
                return
            due = max(one.at for one in suspicions) + self.pause_seconds
            if (seconds := due - self.shop.now().timestamp()) > 0:
                if self.kept:
                    self.kept.hold(seconds)
                if self.progress:
                    places = f"{len(suspicions):,} places seem wrong"
                    self.progress.note(f"{places}, they are checked again in {seconds:.0f} seconds")
                self.shop.table.sleep(seconds)
            suspicions = [one for number, one in enumerate(suspicions) if self._moves(one, number, len(suspicions))]
        self.moving += len(suspicions)

    def _moves(self, suspicion: _Suspicion, number: int, of: int) -> bool:
        """Tell what has stayed. Whether there is something else by now."""
        if self.kept:
            self.kept.hold()
        if self.progress:
            self.progress.note(f"{number:,} of {of:,} places are checked again", only_when_due=True)
        try:
            found = suspicion.look(None)
        except (Unreadable, BadKey, Permanent):
            return False  # the sweep has listed it, or lists it next time
        same = [fault for fault in found if fault in suspicion.found]
        settled = len(same) == len(found)
        for fault in same:
            if fault.place not in self.told and fault.kind.startswith("mark"):
                self._marks.append(fault)
                settled = False
            elif fault.place not in self.told:
                self._say(fault)
                settled = self.repair and self._mend(fault) and settled
        if settled:
            self._unsettled.pop(suspicion.place, None)
        suspicion.found, suspicion.at = found, self.shop.now().timestamp()
        return len(same) < len(found)

    def _say(self, fault: Fault) -> None:
        self.told[fault.place] = fault
        self.tell(fault)

    def _mend(self, fault: Fault) -> bool:
        try:
            fault.mend(self.shop)
        except (Changed, Lost, Permanent):
            self.left += 1
            return False
        self.mended += 1
        return True


@dataclass
class _Suspicion:
    """Something that seems to be wrong. `look` finds out, of an item given its image, if that is known. `last`: to be
    looked at when all else is known. `found`: what it was, `at`: when that was."""

    place: Place
    look: Callable[[Image | None], list[Fault]]
    last: bool = False
    found: list[Fault] = field(default_factory=list)
    at: float = 0.0


@dataclass(frozen=True)
class Find:
    """How an item is checked. `sources`: the places of the items that `faults` judges it by, and is given."""

    faults: Callable[[Shop, Image, Images], Iterable[Fault]]
    sources: Callable[[Image], Sequence[Place]]


def _look_at_order(shop: Shop, order_id: str) -> list[Fault]:
    images = shop.table.partition(A12b, order_id=order_id)
    counted = [read(one) for one in images if any(fields_of(row, place_of(one)) for row in (ORDER, RETURN))]
    return [*faults_of(shop, order_id, images), *faults_of_marks(shop, counted)]


FINDS: Mapping[Row[Any], Find] = {
    REVIEW: Find(lambda shop, image, _: faults_of_marks(shop, [read(image)]), lambda _: []),
    ORDER_SUMMARY: Find(lambda _, image, sources: faults_of_summary(image, sources), sources_of_summary),
    ACTIVITY: Find(faults_of_activity, sources_of_activity),
    COUNTED: Find(faults_of_mark, sources_of_mark),
}
"""How what does not lie with its order is looked at."""
LAST = (ACTIVITY, COUNTED)
"""What may say falsely whose it is: who it belongs to knows better."""


# the command ----------------------------------------------------------------------------------------------------------
NAMED = 3
"""How many of a kind are named."""


def command(commands: place.Commands) -> None:
    drifting = commands.add_parser(
        "drift",
        parents=[place.where(), place.pace(), place.remembered(parts=False)],
        help="is every copy, log and total as its primaries say?",
    )
    drifting.add_argument("--repair", action="store_true", help="make it so")
    some = drifting.add_mutually_exclusive_group()
    some.add_argument("--all", action="store_true", help="look at everything, totals too")
    some.add_argument(
        "--sample", type=place.count, default=SAMPLE, metavar="N", help="else at so many items (default: %(default)s)"
    )
    drifting.add_argument(
        "--pause", type=place.positive, default=PAUSE_SECONDS, metavar="SECONDS",
        help="what is wrong must stay so for this long: longer than the stream's readers take (default: %(default)s)",
    )  # fmt: skip
    drifting.set_defaults(run=run)


def run(given: argparse.Namespace) -> None:
    """Tell what has drifted, and mend it. Exits with 1 where anything is left."""
    shop = place.shop_of(given)
    drift = Drift(shop, repair=given.repair, pause_seconds=given.pause)
    if given.all:
        drift.progress = Progress(shop.table, "drift", dry=True)
        with place.kept(given, shop.table, "drift", "all", "repair" if given.repair else "look") as drift.kept:
            drift.whole(units_per_second=place.units_per_second(given))
    else:
        drift.progress = Progress(shop.table, "drift", dry=True, of=given.sample)
        drift.some(given.sample, units_per_second=place.units_per_second(given))
        drift.progress.end()
    print("\n".join(report(drift, whole=given.all)))
    if drift.left or drift.moving or drift.found.unreadable or (drift.told and not given.repair):
        sys.exit(1)


def report(drift: Drift, *, whole: bool) -> Iterator[str]:
    """What was found by kind, the first of each by name, and what to do next."""
    kinds: dict[str, list[Fault]] = {}
    for fault in drift.told.values():
        kinds.setdefault(fault.kind, []).append(fault)
    for kind, faults in sorted(kinds.items()):
        yield f"{len(faults):>7,}  {kind}"
        yield from (f"         {' / '.join(fault.place)}" for fault in faults[:NAMED])
    yield from (f"cannot be read: {at}: {why}" for at, why in list(drift.found.unreadable.items())[:NAMED])
    if drift.moving:
        yield f"{drift.moving:,} changed whenever they were looked at: look again when it is quieter."
    if drift.final:
        yield f"{drift.final:,} totals are final, and stay as they are."
    looked = f"{drift.found.read:,} items read" + ("" if whole else ", totals not (--all)")
    if not drift.told:
        yield f"{looked}: nothing {'else ' if drift.moving else ''}has drifted."
    elif drift.repair:
        again = "run it again" if whole else "marks want --all"
        left = f", {drift.left:,} left: {again}" if drift.left else ""
        yield f"{looked}: {len(drift.told):,} have drifted, {drift.mended:,} mended{left}."
    else:
        yield f"{looked}: {len(drift.told):,} have drifted. Mend them with --repair."
