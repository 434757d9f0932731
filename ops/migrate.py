"""Migrations: what items were once is made what they are now, by one sweep for each, while the shop is open.

A migration is a module of ops/migrations that says which items it is about and what becomes of one. It works on plain
values, since items may be such as no class reads any more. It raises no version: nothing has happened to the item that
anybody would want to hear of. See docs/decisions/0020.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from functions.dynamodb.images import Image, Unreadable
from functions.dynamodb.keys import ATTRIBUTES, INDEXES, BadKey, Row
from functions.model.derived import SOURCES
from functions.model.entities import Sweep
from functions.model.table import BY_TYPE
from functions.shop.shop import Shop
from ops import migrations, place
from ops.ends import Misused
from ops.kept import Kept, remembered, who
from ops.plain import image_of, item_of, untagged
from ops.progress import Progress
from ops.recover import bring_up
from ops.sweep import Act, AfterPage, Found, of_type, rewrite, sweep

Item = dict[str, Any]
Step = Callable[[Item], Item | None]
"""An item as it shall be, given as it lies there: plain values, keys and type and all; None: as it is. It does nothing
but compute. An item it fails at is one that cannot be read: it is passed over and listed."""
TOOL = "migrate"
KEPT = ("PK", "SK", "version")
NAME = re.compile(r"m(\d{4})_(\w+)")


def as_it_is(_: Item) -> None:
    """The step that changes nothing."""


@dataclass(frozen=True, kw_only=True)
class Migration:
    """`of`: the type of the items it is about. `down` undoes `up` for the code that was there before. `copies`: what is
    derived from them is derived again as it is derived now, once they are up."""

    says: str
    of: str
    up: Step = as_it_is
    down: Step = as_it_is
    copies: bool = False

    def step(self, task: str) -> Step:
        return self.up if task == "up" else self.down

    def leaves(self, task: str) -> bool:
        """Whether this task has nothing to do at any item."""
        return self.step(task) is as_it_is and not (self.copies and task == "up")


Migrations = Mapping[str, Migration]
"""All of them by version, in order."""


# to declare one -------------------------------------------------------------------------------------------------------
def rekeyed(row: Row[Any], says: str) -> Migration:
    """Every item of a row gets its index keys as the key table has them now: the backfill of an index."""
    return Migration(says=says, of=row.type, up=partial(with_keys, row))


def rederived(row: Row[Any], says: str) -> Migration:
    """All copies of a row's items are derived again: the backfill of a copy."""
    if row not in SOURCES:
        raise TypeError(f"nothing is derived from {row.type}")
    return Migration(says=says, of=row.type, copies=True)


def with_keys(row: Row[Any], item: Item) -> Item:
    """The item with its index keys as the key table has them now. Raises Unreadable, BadKey."""
    keys = {name for index in INDEXES if index != "main" for name in ATTRIBUTES[index]}
    written = row.write(row.read(image_of(item)))
    rest = {name: value for name, value in item.items() if name not in keys}
    return rest | {name: untagged(written[name]) for name in sorted(keys & written.keys())}


def found() -> Migrations:
    """The migrations of ops/migrations. Raises Misused where two have one version."""
    known: dict[str, Migration] = {}
    for module in sorted(pkgutil.iter_modules(migrations.__path__), key=lambda module: module.name):
        if not (named := NAME.fullmatch(module.name)):
            continue
        if named[1] in known:
            raise Misused(f"two migrations are number {named[1]}: give one of them the next number")
        known[named[1]] = importlib.import_module(f"{migrations.__name__}.{module.name}").MIGRATION
    return known


# to run them ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Ordered:
    """One thing to do: a migration's `task`, "up" or "down"."""

    version: str
    migration: Migration
    task: str

    @property
    def title(self) -> str:
        return f"{self.version} {self.task}"


def due(
    known: Migrations, state: Mapping[str, Sweep], task: str, to: str | None = None, again: str | None = None
) -> list[Ordered]:
    """What is to be done, in order, so that all up to version `to` are up (all, if none is named), or all above it are
    not (the last one only, if none is named). What stopped half-way is gone on with. `again`: just this one, though it
    is up: it may have passed over what is readable since. Raises Misused."""
    for version in (to, again):
        if version is not None and version not in known and not (task == "down" and version == "0000"):
            raise Misused(f"there is no migration {version}; there are {', '.join(known) or 'none'}")
    if again is not None:
        versions = [again]
    elif task == "up":
        versions = [one for one in known if (to is None or one <= to) and not is_up(state.get(one))]
    else:
        versions = [one for one in reversed([*known]) if (to is None or one > to) and not is_down(state.get(one))]
        versions = versions[:1] if to is None else versions
    return [Ordered(version=one, migration=known[one], task=task) for one in versions]


def is_up(sweep: Sweep | None) -> bool:
    return sweep is not None and sweep.task == "up" and sweep.status == "DONE"


def is_down(sweep: Sweep | None) -> bool:
    return sweep is None or (sweep.task == "down" and sweep.status == "DONE")


def run(
    shop: Shop,
    ordered: Ordered,
    *,
    by: str,
    dry: bool = False,
    segments: int = 1,
    after_page: tuple[AfterPage, ...] = (),
    progress: Progress | None = None,
    units_per_second: float | None = None,
) -> Found:
    """Do it. Remembered in the table, and gone on with there after whatever stopped it; `dry`: look only, write
    nothing. Raises InHand where somebody else does it, Busy, Misused."""
    migration = ordered.migration
    act = acting(shop, migration, ordered.task, dry=dry)
    go: dict[str, Any] = {
        "scan": of_type(migration.of),
        "after_page": after_page,
        "progress": progress,
        "units_per_second": units_per_second,
    }
    if migration.leaves(ordered.task):
        return Found() if dry else _mark(shop, ordered, by)
    if dry:
        return sweep(shop.table, act, **go)
    with Kept(shop.table, TOOL, ordered.version, ordered.task, by=by, segments=segments) as kept:
        return sweep(shop.table, act, kept=kept, **go)


def _mark(shop: Shop, ordered: Ordered, by: str) -> Found:
    """Remember that it is done, which there was nothing to do for."""
    with Kept(shop.table, TOOL, ordered.version, ordered.task, by=by):
        return Found()


def acting(shop: Shop, migration: Migration, task: str, *, dry: bool = False) -> Act:
    """What a migration's sweep does at each item."""
    step = migration.step(task)
    derives = migration.copies and task == "up"

    def act(image: Image) -> bool | None:
        if image["type"] != {"S": migration.of}:
            return None  # it has become another kind since it was found
        after = migrated(step, image)
        changed = after != image
        if changed and not dry:
            rewrite(shop.table, image, after)
        return (derives and bring_up(shop, BY_TYPE[migration.of].read(after), dry=dry)) or changed

    return act


def migrated(step: Step, image: Image) -> Image:
    """An image as it shall be. What the step leaves as it is keeps its very form. Raises Unreadable, Misused."""
    row = BY_TYPE.get(image["type"]["S"])
    schema = int(image.get("schema", {"N": "1"})["N"])
    if row is not None and schema > row.schema:
        raise Unreadable(f"{row.type} of schema {schema}; this code knows {row.schema}")
    before = item_of(image)
    try:
        after = step(deepcopy(before))
    except (Unreadable, BadKey):
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
    if after is None:
        return image
    if moved := [name for name in KEPT if after.get(name) != before.get(name)]:
        raise Misused(f"a migration leaves {', '.join(moved)} as it is")
    written, was = image_of(after), image_of(before)
    return {name: image[name] if was.get(name) == value else value for name, value in written.items()}


# to look at them ------------------------------------------------------------------------------------------------------
def state(shop: Shop, known: Migrations) -> dict[str, Sweep]:
    """What the table remembers of these migrations."""
    return remembered(shop.table, TOOL, list(known))


def listing(shop: Shop, known: Migrations) -> Iterator[str]:
    """A line for each migration, what is left of it, and the items that it passed over."""
    there, now = state(shop, known), shop.instant()
    for version, migration in known.items():
        sweep = there.get(version)
        yield f"{version}  {_standing(sweep, now)}: {migration.says}"
        if sweep is not None:
            yield from (f"      passed over: {key}: {why}" for key, why in sweep.unreadable.items())


def _standing(sweep: Sweep | None, now: str) -> str:
    if sweep is None:
        return "not up"
    counts = f"{sweep.changed:,} changed, {sweep.right:,} right already" + (
        f", {sweep.passed_over:,} passed over" if sweep.passed_over else ""
    )
    if sweep.status == "DONE":
        return f"{sweep.task} since {sweep.updated_at} by {sweep.by} ({counts})"
    going = "going" if sweep.held_until > now else "stopped half-way"
    return f"{going} {sweep.task} by {sweep.by}, last page {sweep.updated_at} ({counts} so far)"


NEW = '''"""{says}"""

from ops.migrate import Item, Migration


def up(item: Item) -> Item | None:
    """The item as it shall be; None: as it is. It does nothing but compute."""
    return None


def down(item: Item) -> Item | None:
    """The item as the code before this knew it; None: as it is."""
    return None


MIGRATION = Migration(says="{says}", of="Product", up=up, down=down)
'''


def new(says: str, folder: Path | None = None) -> Path:
    """Write the module of a new migration, with the next number. Raises Misused."""
    words = re.findall(r"[a-z0-9]+", says.lower())
    if not words or not says.isprintable() or {'"', "\\"} & set(says):
        raise Misused("say in a few plain words what the migration does, such as: products have a weight")
    folder = folder or Path(migrations.__path__[0])
    numbers = [int(named[1]) for path in folder.glob("*.py") if (named := NAME.fullmatch(path.stem))]
    path = folder / f"m{max(numbers, default=0) + 1:04}_{'_'.join(words)}.py"
    path.write_text(NEW.format(says=says), encoding="utf-8")
    return path


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: place.Commands) -> None:
    migrating = commands.add_parser("migrate", help="make items what they are now, while the shop is open")
    tasks = migrating.add_subparsers(dest="task", required=True)
    somewhere = place.where()
    beginning = tasks.add_parser("new", help="write the module of a new migration")
    beginning.add_argument("name", nargs="+", help="what it does, in a few words: products have a weight")
    beginning.set_defaults(run=lambda given: begin_migration(" ".join(given.name)))
    looking = tasks.add_parser("status", parents=[somewhere], help="which have run, and how far they are")
    looking.set_defaults(run=lambda given: print("\n".join(listing(place.shop_of(given), found()))))
    for task, what in (
        ("up", "run those that have not run, or have stopped; up to a version, or all"),
        ("down", "undo those above a version, the last first; or the last one"),
    ):
        doing = tasks.add_parser(task, parents=[somewhere, place.pace()], help=what)
        which = doing.add_mutually_exclusive_group()
        which.add_argument("--to", type=_version, metavar="VERSION", help="such as 0001; down to 0000 undoes all")
        if task == "up":
            which.add_argument("--again", type=_version, metavar="VERSION", help="just this one, though it is up")
        doing.add_argument(
            "--dry-run", action="store_true", help="say what would be changed in the table as it is, write nothing"
        )
        doing.add_argument(
            "--segments", type=place.count, default=1, help="how many parts of the table at once (default: %(default)s)"
        )
        doing.set_defaults(run=run_migrations)


def begin_migration(says: str) -> None:
    """Write a migration's module and say where. Exits with 2 where the words will not do."""
    print(f"{new(says)}: say which items it is about, and what becomes of one.")


def run_migrations(given: argparse.Namespace) -> None:
    """Run what is due, one after the other. Exits with 2 where it cannot be meant so; with 1 where it is not done to
    the end, or items were passed over."""
    passed_over = 0
    shop, known = place.shop_of(given), found()
    again = getattr(given, "again", None)
    todo = due(known, state(shop, known), given.task, given.to, again)
    if not todo:
        print(f"Nothing to take {given.task}.")
    for one in todo:
        done = run(
            shop,
            one,
            by=who(),
            dry=given.dry_run,
            segments=given.segments,
            progress=Progress(shop.table, one.title, dry=given.dry_run),
            units_per_second=place.units_per_second(given),
        )
        passed_over += done.passed_over
        print(f"{one.title}: {done.told(dry=given.dry_run)} ({one.migration.says})", flush=True)
        for key, why in done.unreadable.items():
            print(f"  passed over: {key}: {why}")
    if passed_over:
        sys.exit(f"{passed_over} items were passed over: nobody can read them.")


def _version(text: str) -> str:
    return text.zfill(4)
