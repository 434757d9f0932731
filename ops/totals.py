"""What is wrong with totals, and with the marks of what counts in them: whatever is not final yet is added up anew.

A total and the marks of what is counted in it change in one transaction. So what a total is off by stays the same
whatever the shop does meanwhile, and is known to the piece where the total had one version before all marks were read
and after. One that was in motion all that time is not judged. A mark is judged as any copy, by its primary alone, and
written anew without its totals: what these are off by then is put right at the end, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from functions.dynamodb.images import Image, Unreadable
from functions.dynamodb.keys import Instant, Row
from functions.dynamodb.writes import Changed, Write
from functions.model import counters
from functions.model.entities import Counted
from functions.model.table import ARCHIVED_ORDER, BEST_SELLER, COUNTED, METRIC, ORDER, RETURN, REVIEW
from functions.shop.shop import Shop, decided_again
from ops.estates import Fault, Images, Source, as_it_was, instead, order_in
from ops.items import Place, fields_of, place_of, there
from ops.progress import Progress
from ops.sweep import AfterPage, sweep

CAME_BACK = ("PARTIALLY_RETURNED", "RETURNED")
Amounts = Mapping[str, Mapping[str, int]]
Guard = Callable[[], Sequence[Write[Any]]]


# marks ----------------------------------------------------------------------------------------------------------------
def faults_of_marks(shop: Shop, items: Sequence[Source]) -> Iterator[Fault]:
    """What is wrong with the marks of these primaries, in totals that are not final."""
    now = shop.instant()
    counting = {source: (row, item) for row, item in items if (source := counters.source_of(row, item)) is not None}
    marks = there(shop, [place_of(COUNTED.key(source=source)) for source in counting])
    for source, (row, item) in counting.items():
        place = place_of(COUNTED.key(source=source))
        mark = marks.get(place)
        todo = counters.standing(row, item, now)
        if todo is not None and not _counts(mark, todo):
            wanted = _mark(todo, mark)
            yield Fault(f"mark {'wrong' if mark else 'missing'}", place, mark, wanted, (row, item))
        elif mark is not None and not counters.parts_of(row, item) and getattr(item, "status", "") != "ARCHIVING":
            yield Fault("mark orphaned", place, mark, None, (row, item))


def sources_of_mark(image: Image) -> list[Place]:
    """The place of the order or the review by which `faults_of_mark` judges a mark. Raises BadKey."""
    source = _source(image)
    if ":" in source:
        return [place_of(REVIEW.key_of(counters.review_of(source)))]
    return [place_of(ORDER.key(order_id=source))] if _text(image, "of") not in (REVIEW.type, RETURN.type) else []


def faults_of_mark(shop: Shop, image: Image, sources: Images) -> Iterator[Fault]:
    """Whether a mark is of an order or a review that there is none of. (Of returns it tells no order: see `Seen`.)"""
    place, source = place_of(image), _source(image)
    of = _text(image, "of")
    if of not in (REVIEW.type, RETURN.type) and ":" not in source:
        row, item = order_in(sources, source)
        if isinstance(item, Mapping) and of == ORDER.type:
            yield Fault("mark orphaned", place, image, None, (row, item))
    elif ":" in source:
        key = REVIEW.key_of(counters.review_of(source))
        if place_of(key) in sources:
            return
        wanted = None
        try:
            mark = COUNTED.read(image)
            if (found := counters.missed(mark, shop.instant())) is not None:
                wanted = _mark(found[1], image)
        except (Unreadable, KeyError):
            wanted = None
        else:
            if wanted is None and mark.gone and not any(n for one in mark.amounts.values() for n in one.values()):
                return
        yield Fault("mark orphaned", place, image, wanted, (REVIEW, key))


def _text(image: Image, name: str) -> str:
    """An attribute as it lies there, whatever it says; nothing where it is no text."""
    return str(image.get(name, {}).get("S", ""))


def _source(image: Image) -> str:
    key = fields_of(COUNTED, place_of(image))
    return key["source"] if key else ""


def _counts(mark: Image | None, todo: counters.Counting) -> bool:
    """Whether a mark says what an item counts for, since then or before."""
    if mark is None:
        return False
    wanted = _mark(todo, mark)
    as_of = _text(mark, "as_of")
    same_life = as_of.partition("#")[0] == todo.as_of.partition("#")[0] and as_of <= todo.as_of
    free = ("as_of", "version", "created_at")
    return same_life and {n: v for n, v in mark.items() if n not in free} == {
        n: v for n, v in wanted.items() if n not in free
    }


def _mark(todo: counters.Counting, found: Image | None) -> Image:
    """The mark of what an item counts for, in the place of the one that was found."""
    version = int(found.get("version", {}).get("N", 0)) + 1 if found else 1
    return COUNTED.write(
        Counted(
            source=todo.source,
            of=todo.of,
            as_of=todo.as_of,
            amounts={where: counters.amounts_of(row, part) for where, (row, part) in todo.parts.items()},
            created_at=Instant(_text(found or {}, "created_at") or todo.as_of.partition("#")[0]),
            gone=todo.gone,
            ttl=todo.ttl,
            version=version,
        )
    )


def amounts_in(image: Image | None) -> dict[str, Counter[str]]:
    """What a mark says, as far as anybody can read it."""
    if image is None:
        return {}
    try:
        return {where: Counter(one) for where, one in COUNTED.read(image).amounts.items()}
    except Unreadable:
        return {}


# totals ---------------------------------------------------------------------------------------------------------------
@dataclass
class Seen:
    """What a sweep has seen that counts. `sums`: what all marks add up to, by total; `totals`: these as they are.

    `of_returns`: the marks of returns, `returns`: those there are, `came_back`: when the last was that is archived.
    """

    sums: dict[str, Counter[str]] = field(default_factory=dict)
    totals: dict[str, Image] = field(default_factory=dict)
    of_returns: dict[str, Image] = field(default_factory=dict)
    returns: set[str] = field(default_factory=set)
    came_back: str = ""

    def look(self, image: Image) -> None:
        place = place_of(image)
        if fields_of(COUNTED, place):
            for where, amounts in amounts_in(image).items():
                self.sums.setdefault(where, Counter()).update(amounts)
            if _text(image, "of") == RETURN.type:
                self.of_returns[_source(image)] = image
        elif row_of(place):
            self.totals[" / ".join(place)] = image
        elif key := fields_of(RETURN, place):
            self.returns.add(key["return_id"])
        elif _text(image, "type") == ARCHIVED_ORDER.type and _text(image, "status") in CAME_BACK:
            self.came_back = max(self.came_back, _text(image, "updated_at"))

    def orphans(self) -> Iterator[Fault]:
        """Marks of returns that are not there, and that no order in the archive can have had."""
        for source, image in self.of_returns.items():
            if source not in self.returns and (_text(image, "created_at") or "~") > self.came_back:
                yield Fault("mark orphaned", place_of(image), image, None, (COUNTED, None))


@dataclass(frozen=True)
class Off:
    """What a total is off by: more than all marks in it add up to. None: it was in motion, and nobody knows. `counts`:
    there is anything that counts in it, or once did."""

    image: Image | None
    by: Counter[str] | None
    counts: bool


@dataclass
class Reckoning:
    """Totals and marks, judged together. `final`: how many totals were passed over because they are.

    `guard`: what each write holds on, so that nobody else takes off what a total is off by, too, nor this one what
    somebody else has taken off since it was measured. Without one only what is as it was measured is put right.
    """

    shop: Shop
    marks: list[Fault]
    offs: dict[str, Off]
    final: int = 0
    guard: Guard = tuple

    @property
    def moving(self) -> int:
        return sum(off.by is None for off in self.offs.values())

    def faults(self) -> Iterator[Fault]:
        yield from self.marks
        for where, off in self.offs.items():
            if off.by is not None:
                by = off.by.copy()
                for mark in self.marks:
                    _move(by, _added(mark).get(where, {}), -1)
                wanted = total(where, _less(amounts_of(off.image), by), _version(off.image)) if off.counts else None
                if any(by.values()) or (off.image is not None and off.image != wanted):
                    kind = "wrong" if off.image and off.counts else "missing" if off.counts else "orphaned"
                    yield Fault(f"total {kind}", _place(where), off.image, wanted, (COUNTED, None))

    def mend(self) -> tuple[int, int]:
        """Write the marks anew, and then the totals, each once. How many faults are mended, and how many are left."""
        faults = list(self.faults())
        mended = 0
        for mark in self.marks:
            added = _added(mark)
            quiet = all(where not in self.offs or self.offs[where].by is not None for where in added)
            if not _written(self.shop, mark, {} if quiet else added, self.guard):
                continue
            mended += 1
            for where, amounts in added.items() if quiet else ():
                if where in self.offs and (by := self.offs[where].by) is not None:
                    _move(by, amounts, -1)
        wrong = {fault.place for fault in faults if fault.kind.startswith("total")}
        for where, off in self.offs.items():
            if off.by is not None:
                mended += self._put_right(where, off) and _place(where) in wrong
        return mended, len(faults) - mended

    def _put_right(self, where: str, off: Off) -> bool:
        """Whether it is right now."""

        def attempt() -> bool:
            found = there(self.shop, [_place(where)]).get(_place(where))
            by: Mapping[str, int] = off.by or {}
            wanted = total(where, _less(amounts_of(found), by), _version(found) + 1) if off.counts else None
            if not any(by.values()) and (found is None or {**found, "version": {"N": f"{_version(wanted)}"}} == wanted):
                return True
            guarded = self.guard()
            if not guarded and found != off.image:
                return False
            self.shop.table.write(*guarded, instead(_row(where), _place(where), found, wanted))
            return True

        return decided_again(self.shop, attempt)


def seen_again(shop: Shop, *, after_page: Sequence[AfterPage] = (), progress: Progress | None = None) -> Seen:
    """What counts, for a sweep that has not seen all of it."""
    seen = Seen()
    sweep(shop.table, seen.look, after_page=after_page, progress=progress)
    return seen


def reckon(
    shop: Shop,
    seen: Seen,
    marks: Sequence[Fault],
    *,
    after_page: Sequence[AfterPage] = (),
    progress: Progress | None = None,
    guard: Guard = tuple,
) -> Reckoning:
    """Judge all totals that seem to be wrong after a sweep, by another one over all marks."""
    candidates = [*marks, *(one for one in seen.orphans() if one.place not in {mark.place for mark in marks})]
    touched = {where for mark in candidates for where in _added(mark)}
    suspects = {where for where in {*seen.sums, *seen.totals} if _seems_wrong(where, seen)} | touched
    judged = sorted(where for where in suspects if row_of(_place(where)) and not is_final(shop, where))
    final = sum(is_final(shop, where) for where in {*seen.sums, *seen.totals} if row_of(_place(where)))
    if not judged and not candidates:
        return Reckoning(shop, [], {}, final, guard)
    before = there(shop, [_place(where) for where in judged])
    again = Seen(came_back=seen.came_back)
    if progress:
        progress.note("totals or marks seem wrong, all of them are read once more")
    sweep(shop.table, again.look, scan=COUNTING, after_page=after_page, progress=progress)
    after = there(shop, [_place(where) for where in judged])
    lie = there(shop, [mark.place for mark in candidates])
    orphans = {one.place for one in again.orphans()}
    kept = [
        mark
        for mark in candidates
        if lie.get(mark.place) == mark.found and (mark.source[1] is not None or mark.place in orphans)
    ]
    offs = {}
    for where in judged:
        image, was = after.get(_place(where)), before.get(_place(where))
        by = Counter(amounts_of(image))
        _move(by, again.sums.get(where, {}), -1)
        counts = where in again.sums or any(where in amounts_in(mark.wanted) for mark in kept)
        offs[where] = Off(image, by if image == was else None, counts)
    return Reckoning(shop, kept, offs, final, guard)


COUNTING = {
    "FilterExpression": "#type IN (:counted, :return) OR begins_with(PK, :mark)",
    "ExpressionAttributeNames": {"#type": "type"},
    "ExpressionAttributeValues": {
        ":counted": {"S": COUNTED.type},
        ":return": {"S": RETURN.type},
        ":mark": {"S": COUNTED.templates("main")[0].prefix},
    },
}
"""A `scan` of marks, whatever they say that they are, and of what they may be of."""


def _seems_wrong(where: str, seen: Seen) -> bool:
    image = seen.totals.get(where)
    if row_of(_place(where)) is None:
        return False
    if image is not None and image != total(where, amounts_of(image), _version(image)):
        return True
    there_are, counted = amounts_of(image), seen.sums.get(where, Counter[str]())
    return any(there_are.get(name, 0) != counted[name] for name in {*there_are, *counted})


def _written(shop: Shop, mark: Fault, added: Amounts, guard: Guard) -> bool:
    """Write a mark anew, and add to totals in the same transaction, while it and its primary are as they were read."""
    row, item = mark.source
    for _ in range(TRIES):
        totals = there(shop, [_place(where) for where in added])
        writes = [*guard(), *([] if item is None else [as_it_was(row, item)])]
        writes.append(instead(COUNTED, mark.place, mark.found, mark.wanted))
        for where, amounts in added.items():
            found = totals.get(_place(where))
            if any(amounts.values()) and row_of(_place(where)) and not is_final(shop, where):
                more = Counter(amounts_of(found))
                _move(more, amounts, 1)
                writes.append(instead(_row(where), _place(where), found, total(where, more, _version(found) + 1)))
        try:
            shop.table.write(*writes)
        except Changed:
            if there(shop, [mark.place]).get(mark.place) != mark.found:
                return False
            continue
        return True
    return False


TRIES = 5


def _added(mark: Fault) -> dict[str, Counter[str]]:
    """What writing a mark anew would add to totals."""
    added = amounts_in(mark.wanted)
    for where, amounts in amounts_in(mark.found).items():
        _move(added.setdefault(where, Counter()), amounts, -1)
    return added


def _move(amounts: Counter[str], by: Mapping[str, int], times: int) -> None:
    for name, amount in by.items():
        amounts[name] += times * amount


def _less(amounts: Mapping[str, int], by: Mapping[str, int]) -> dict[str, int]:
    return {name: amounts.get(name, 0) - by.get(name, 0) for name in {**amounts, **by}}


# a total by its place -------------------------------------------------------------------------------------------------
def row_of(place: Place) -> Row[Any] | None:
    return next((row for row in counters.AMOUNTS if fields_of(row, place)), None)


def _row(where: str) -> Row[Any]:
    row = row_of(_place(where))
    assert row is not None, where
    return row


def _place(where: str) -> Place:
    partition, _, sort = where.partition(" / ")
    return partition, sort


def is_final(shop: Shop, where: str) -> bool:
    """Whether a total changes no more: it is sealed, or has ended."""
    row = _row(where)
    key = fields_of(row, _place(where)) or {}
    if row is BEST_SELLER:
        return shop.now() >= counters.season_final(Instant(f"{key['season']}-01T00:00:00.000Z"))
    return row is METRIC and counters.minute_ends(Instant(key["minute"])) <= shop.now().timestamp()


def amounts_of(image: Image | None) -> dict[str, int]:
    """What adds up in a total, as it lies there."""
    if image is None or (row := row_of(place_of(image))) is None:
        return {}
    return {name: int(image.get(name, {}).get("N", 0)) for name in counters.AMOUNTS[row]}


def _version(image: Image | None) -> int:
    return int((image or {}).get("version", {}).get("N", 0))


def total(where: str, amounts: Mapping[str, int], version: int) -> Image:
    """The whole image of a total."""
    row = _row(where)
    told: dict[str, Any] = {**(fields_of(row, _place(where)) or {}), **dict.fromkeys(counters.AMOUNTS[row], 0)}
    told |= {name: amount for name, amount in amounts.items() if name in counters.AMOUNTS[row]}
    if row is METRIC:
        told["ttl"] = counters.minute_ends(told["minute"])
    return row.write(row.entity(**told, version=version))
