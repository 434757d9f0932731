"""The `migrate` command: change stored items to the format that the current code writes, while the shop is open.

A migration is a module of ops/migrations with a function that transforms one item as plain values, because the entity
classes may no longer be able to read old items. It scans the whole table once, and raises no version, because consumers
of the stream must not react to the new format (docs/decisions/change.md#d20).
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from functions.dynamodb.codec import Image
from functions.dynamodb.errors import Unreadable
from functions.dynamodb.keys import InvalidKeyValue
from functions.model.entities import Sweep
from functions.model.table import ROWS_BY_TYPE
from functions.shop.shop import ShopContext
from ops import migrations, targets
from ops.cli_errors import UsageError
from ops.item_codec import decode_item, encode_item
from ops.migration import Migration, TransformItem
from ops.repair.rebuild import refresh_copies
from ops.scan.checkpoint import Checkpoint, current_operator, load_sweeps
from ops.scan.progress import SweepProgress
from ops.scan.sweep import filter_by_type, rewrite_item, sweep
from ops.scan.sweep_result import AfterPage, ItemAction, SweepResult
from ops.terminal_text import colored

TOOL = "migrate"
IMMUTABLE_ATTRIBUTES = ("PK", "SK", "version")
MODULE_NAME = re.compile(r"m(\d{4})_(\w+)")


Migrations = Mapping[str, Migration]
"""All migrations by version number, such as "0001", in ascending order."""


def load_migrations() -> Migrations:
    """Load the migrations by version. Raises UsageError if two have the same, or a module is no migration."""
    modules: dict[str, str] = {}
    for module in sorted(module.name for module in pkgutil.iter_modules(migrations.__path__)):
        if not (named := MODULE_NAME.fullmatch(module)):
            path = f"ops/migrations/{module}.py"
            raise UsageError(f"{path}: the name has no number: rename the module, such as m0002_{module}.")
        if named[1] in modules:
            raise UsageError(f"Two migrations have the number {named[1]}: give one of them the next free number.")
        modules[named[1]] = module
    return {version: _load_migration(module) for version, module in modules.items()}


def _load_migration(module: str) -> Migration:
    loaded = importlib.import_module(f"{migrations.__name__}.{module}")
    if not hasattr(loaded, "MIGRATION"):
        path = f"ops/migrations/{module}.py"
        raise UsageError(f"{path}:1: the module has no MIGRATION: add one as `python -m ops migrate new WORDS` writes.")
    return cast(Migration, loaded.MIGRATION)


# run migrations -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class PlannedMigration:
    """A migration that is about to run. `task`: "up" to apply the migration, "down" to undo it."""

    version: str
    migration: Migration
    task: str

    @property
    def title(self) -> str:
        return f"{self.version} {self.task}"


def plan_migrations(
    known: Migrations, state: Mapping[str, Sweep], task: str, to: str | None = None, again: str | None = None
) -> list[PlannedMigration]:
    """Return the migrations to run, in their order. Raises UsageError if a given version does not exist.

    `state`: the stored progress by version. `task`: "up" selects the migrations that are not applied, the lowest
    version first, "down" the applied ones, the highest first, and both those that were stopped. `to`: the last version
    to apply (None: all), or the version to return to (None: undo only the latest). `again`: run only this version, even
    if it is done.
    """
    for version in (to, again):
        if version is not None and version not in known and not (task == "down" and version == "0000"):
            raise UsageError(f"There is no migration {version}. Known migrations: {', '.join(known) or 'none'}.")
    if again is not None:
        versions = [again]
    elif task == "up":
        versions = [one for one in known if (to is None or one <= to) and not is_up(state.get(one))]
    else:
        versions = [one for one in reversed([*known]) if (to is None or one > to) and not is_down(state.get(one))]
        versions = versions[:1] if to is None else versions
    return [PlannedMigration(version=one, migration=known[one], task=task) for one in versions]


def is_up(sweep: Sweep | None) -> bool:
    return sweep is not None and sweep.task == "up" and sweep.status == "DONE"


def is_down(sweep: Sweep | None) -> bool:
    return sweep is None or (sweep.task == "down" and sweep.status == "DONE")


def run_migration(
    shop: ShopContext,
    planned: PlannedMigration,
    *,
    by: str,
    dry: bool = False,
    segments: int = 1,
    after_page: tuple[AfterPage, ...] = (),
    progress: SweepProgress | None = None,
    units_per_second: float | None = None,
) -> SweepResult:
    """Run a migration and return the counts of its items. A stopped run can be resumed.

    `by`: the user, as user@host. `dry`: write nothing. `segments`: how many to scan in parallel. Raises Locked if
    another run of this migration is active, TableBusy and UsageError.
    """
    migration = planned.migration
    act = build_migration_action(shop, migration, planned.task, dry=dry)
    sweep_options: dict[str, Any] = {
        "scan": filter_by_type(*migration.item_types),
        "after_page": after_page,
        "progress": progress,
        "units_per_second": units_per_second,
    }
    if migration.has_nothing_to_do(planned.task):
        return SweepResult() if dry else _mark_done(shop, planned, by)
    if dry:
        return sweep(shop.table, act, **sweep_options)
    with Checkpoint(shop.table, TOOL, planned.version, planned.task, by=by, segments=segments) as checkpoint:
        if checkpoint.stopped_at is not None and progress is not None:
            print(f"{planned.title}: {checkpoint.resume_message}", flush=True)
        return sweep(shop.table, act, checkpoint=checkpoint, **sweep_options)


def _mark_done(shop: ShopContext, planned: PlannedMigration, by: str) -> SweepResult:
    """Store in the table that a migration is done. No scan is needed, because this migration changes no item."""
    with Checkpoint(shop.table, TOOL, planned.version, planned.task, by=by):
        return SweepResult()


def build_migration_action(shop: ShopContext, migration: Migration, task: str, *, dry: bool = False) -> ItemAction:
    """Return the function that a migration ("up" or "down") runs on each item: it transforms and writes it."""
    step = migration.transform_for(task)
    derives, deletes = (task == "up" and given for given in (migration.rederives_copies, migration.deletes_items))

    def act(image: Image) -> bool | None:
        if image["type"].get("S") not in migration.item_types:
            return None  # another writer has changed the type of the item since the scan read it
        if deletes:
            if not dry:
                shop.table.batch_delete([{"PK": image["PK"], "SK": image["SK"]}])
            return True
        after = migrate_image(step, image)
        changed = after != image
        if changed and not dry:
            rewrite_item(shop.table, image, after)
        return (derives and refresh_copies(shop, ROWS_BY_TYPE[after["type"]["S"]].decode(after), dry=dry)) or changed

    return act


def migrate_image(step: TransformItem, image: Image) -> Image:
    """Return the migrated item in DynamoDB JSON, with the stored form of values that do not change.

    `step` gets plain Python values. Raises Unreadable if it fails, and UsageError if it changes key or version.
    """
    row = ROWS_BY_TYPE.get(image["type"]["S"])
    schema = int(image.get("schema", {"N": "1"})["N"])
    if row is not None and schema > row.schema:
        raise Unreadable(f"{row.type} of schema {schema}; this code knows {row.schema}")
    before = decode_item(image)
    try:
        after = step(deepcopy(before))
    except (Unreadable, InvalidKeyValue):
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
    if after is None:
        return image
    if changed_attributes := [name for name in IMMUTABLE_ATTRIBUTES if after.get(name) != before.get(name)]:
        raise UsageError(f"A migration must not change {', '.join(changed_attributes)}.")
    written, was = encode_item(after), encode_item(before)
    return {name: image[name] if was.get(name) == value else value for name, value in written.items()}


# show migrations ------------------------------------------------------------------------------------------------------
def load_state(shop: ShopContext, known: Migrations) -> dict[str, Sweep]:
    """Return the stored progress of these migrations, by version."""
    return load_sweeps(shop.table, TOOL, list(known))


def describe_migrations(shop: ShopContext, known: Migrations) -> Iterator[str]:
    """Yield a line with the state of each migration, and a line for each item that the migration skipped."""
    sweeps, now = load_state(shop, known), shop.now_instant()
    if not known:
        yield "There are no migrations."
    for version, migration in known.items():
        sweep = sweeps.get(version)
        color = "green" if sweep and sweep.status == "DONE" and sweep.task == "up" else "yellow"
        yield f"{colored(version, color)}  {_describe_sweep(sweep, now)}: {migration.description}"
        if sweep is not None:
            yield from (f"      skipped: {key}: {why}" for key, why in sweep.unreadable.items())


def _describe_sweep(sweep: Sweep | None, now: str) -> str:
    if sweep is None:
        return "not applied"
    counts = f"{sweep.changed:,} changed, {sweep.right:,} already correct" + (
        f", {sweep.passed_over:,} skipped" if sweep.passed_over else ""
    )
    if sweep.status == "DONE":
        done = "applied" if sweep.task == "up" else "undone"
        return f"{done} at {sweep.updated_at} by {sweep.by} ({counts})"
    state = "running" if sweep.held_until > now else "stopped"
    return f"{sweep.task} is {state}, by {sweep.by}, last page {sweep.updated_at} ({counts} so far)"


MODULE_TEMPLATE = '''"""{description}"""

from ops.migration import Item, Migration


def up(item: Item) -> Item | None:
    """Return the item in the new format; None if it needs no change. The function must have no side effects."""
    return None


def down(item: Item) -> Item | None:
    """Return the item in the format of the previous code; None if it needs no change."""
    return None


MIGRATION = Migration(description="{description}", item_types=("Product",), up=up, down=down)
'''


def write_migration_module(description: str, folder: Path | None = None) -> Path:
    """Write the module of a new migration, with the next free number, and return its path.

    Raises UsageError if the description has no word, or has quotes, backslashes or control characters.
    """
    words = re.findall(r"[a-z0-9]+", description.lower())
    if not words or not description.isprintable() or {'"', "\\"} & set(description):
        raise UsageError("Describe in a few plain words what the migration does, such as: products have a weight")
    folder = folder or Path(migrations.__path__[0])
    numbers = [int(named[1]) for path in folder.glob("*.py") if (named := MODULE_NAME.fullmatch(path.stem))]
    path = folder / f"m{max(numbers, default=0) + 1:04}_{'_'.join(words)}.py"
    path.write_text(MODULE_TEMPLATE.format(description=description), encoding="utf-8")
    return path


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "migrate", help="migrate stored items to the format of the current code, while the shop is open"
    )
    tasks = parser.add_subparsers(dest="task", required=True)
    target_options = targets.target_options()
    new_parser = tasks.add_parser("new", help="write the module of a new migration")
    new_parser.add_argument("name", nargs="+", help="what the migration does, in a few words: products have a weight")
    new_parser.set_defaults(run=lambda given: create_migration(" ".join(given.name)))
    status_parser = tasks.add_parser(
        "status", parents=[target_options], help="show which migrations are applied, and their progress"
    )
    status_parser.set_defaults(
        run=lambda given: print("\n".join(describe_migrations(targets.resolve_shop(given), load_migrations())))
    )
    for task, what in (
        ("up", "apply migrations that are not applied or were stopped: all, or up to a version"),
        ("down", "undo the last migration, or all above a version, the last one first"),
    ):
        run_parser = tasks.add_parser(task, parents=[target_options, targets.throttle_options()], help=what)
        which = run_parser.add_mutually_exclusive_group()
        which.add_argument(
            "--to", type=_pad_version, metavar="VERSION", help="a version such as 0001; `down --to 0000` undoes all"
        )
        done = "applied" if task == "up" else "undone"
        which.add_argument(
            "--again", type=_pad_version, metavar="VERSION", help=f"only this migration, even if it is {done}"
        )
        if task == "down":
            run_parser.add_argument("--yes", action="store_true", help="do not ask before items are changed")
        run_parser.add_argument("--dry-run", action="store_true", help="print what would be changed, write nothing")
        run_parser.add_argument(
            "--segments",
            type=targets.positive_int,
            default=1,
            help="segments of the table to scan in parallel (default: %(default)s)",
        )
        run_parser.set_defaults(run=run_migrations)


def create_migration(description: str) -> None:
    """Write the module of a new migration and print its path. Exits with 2 if the description cannot be used."""
    print(f"{write_migration_module(description)}: now set the item types, and write up and down.")


def run_migrations(args: argparse.Namespace) -> None:
    """Run the planned migrations, and print their counts. Exits with 1 if one was interrupted or skipped items."""
    passed_over = 0
    shop, known = targets.resolve_shop(args), load_migrations()
    todo = plan_migrations(known, load_state(shop, known), args.task, args.to, args.again)
    if not todo:
        print(f"No migration to {'apply' if args.task == 'up' else 'undo'}.")
    if args.task == "down" and not (args.dry_run or args.yes):
        confirm_undo([one for one in todo if not one.migration.has_nothing_to_do("down")])
    for one in todo:
        targets.record_run(args, shop, f"migrate {args.task} {one.title}", "MIGRATE")
        done = run_migration(
            shop,
            one,
            by=current_operator(),
            dry=args.dry_run,
            segments=args.segments,
            progress=SweepProgress(shop.table, one.title, dry=args.dry_run),
            units_per_second=targets.units_per_second(args),
        )
        passed_over += done.passed_over
        print(f"{one.title}: {done.summary(dry=args.dry_run)} ({one.migration.description})", flush=True)
        for key, why in done.unreadable.items():
            print(f"  skipped: {key}: {why}")
    if passed_over:
        sys.exit(f"{passed_over} items were skipped because they cannot be read or written.")


def confirm_undo(todo: Sequence[PlannedMigration]) -> None:
    """Ask before `down`, which may lose values. Exits with 1 without a yes. Raises UsageError without a terminal."""
    for one in todo:
        print(
            f"{one.title} changes back every {', '.join(one.migration.item_types)}, also those that newer code wrote "
            f"and the migration never changed ({one.migration.description})."
        )
    if not todo:
        return
    if not sys.stdin.isatty():
        raise UsageError("Look at `migrate down --dry-run` first. Then add --yes.")
    print("Undo? Type yes to go on: ", end="", flush=True)
    if sys.stdin.readline().strip().lower() != "yes":
        sys.exit("Nothing was changed.")


def _pad_version(text: str) -> str:
    return text.zfill(4)
