"""`python -m ops COMMAND`: what an operator runs, against a table on AWS or the shop on this machine."""

from __future__ import annotations

import argparse
import json
import os
import sys
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from docs.pages import model
from functions.dynamodb.images import Unreadable
from functions.dynamodb.keys import BadKey
from functions.dynamodb.patience import Busy
from functions.dynamodb.store import Table
from functions.model.table import BY_TYPE
from functions.shop.shop import Shop
from ops import answers, hot_keys, indexes, ledger, migrate, query, questions, sweep, workbench
from ops.sweep import Progress

PATIENCE_SECONDS = 60
"""How long an operator's tool waits for items in others' hands: no customer waits for it."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m ops", description="What an operator runs.")
    commands = parser.add_subparsers(dest="command", required=True)
    _ledger(commands)
    _query(commands)
    _model(commands)
    _migrate(commands)
    _indexes(commands)
    _hot_keys(commands)
    given = parser.parse_args(arguments)
    try:
        given.run(given)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough: `python -m ops query | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.exit(130)


def _ledger(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    looking = commands.add_parser(
        "ledger", parents=[_where(required=True)], help="is every account's balance what its entries make?"
    )
    looking.add_argument(
        "--units-per-second", type=_positive, default=100, help="what it may read (default: %(default)s)"
    )
    looking.set_defaults(run=lambda given: check_ledger(_table(given), given.units_per_second))


def _query(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    asking = commands.add_parser(
        "query",
        parents=[_where(required=False)],
        help="ask an access pattern, and see the requests, the items and what it cost",
        description="Asks the shop on this machine, or the table that is named. Without a pattern: which there are.",
    )
    asking.add_argument("pattern", nargs="?", help="such as A9; all are in docs/access-patterns.md")
    asking.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="what is known; repeatable")
    asking.add_argument("--from", dest="since", default="", help="the range's first (a time, mostly)")
    asking.add_argument("--to", dest="until", default="", help="the first beyond the range")
    asking.add_argument("--limit", type=_count, help=f"items of a page (default: {questions.LIMIT})")
    pages = asking.add_mutually_exclusive_group()
    pages.add_argument("--cursor", help="where to go on, as the page before told it")
    pages.add_argument("--all", action="store_true", help="page after page, to the end")
    asking.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="show only such, of what is read; repeatable",
    )
    asking.add_argument("--fields", default="", metavar="A,B", help="show only these, in this order and in full")
    asking.set_defaults(run=ask)


def _model(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    drawing = commands.add_parser("model", help="the key table for other tools")
    which = drawing.add_mutually_exclusive_group(required=True)
    which.add_argument("--diagram", action="store_true", help="an entity diagram, as Mermaid text")
    which.add_argument(
        "--workbench",
        nargs="?",
        const="-",
        metavar="FILE",
        help="a data model for NoSQL Workbench (default: to stdout)",
    )
    drawing.set_defaults(run=draw)


def _migrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    migrating = commands.add_parser("migrate", help="make items what they are now, while the shop is open")
    tasks = migrating.add_subparsers(dest="task", required=True)
    beginning = tasks.add_parser("new", help="write the module of a new migration")
    beginning.add_argument("name", nargs="+", help="what it does, in a few words: products have a weight")
    beginning.set_defaults(run=lambda given: begin_migration(" ".join(given.name)))
    looking = tasks.add_parser("status", parents=[_where(required=False)], help="which have run, and how far they are")
    looking.set_defaults(run=lambda given: print("\n".join(migrate.listing(_shop(given), migrate.found()))))
    for task, what in (
        ("up", "run those that have not run, or have stopped; up to a version, or all"),
        ("down", "undo those above a version, the last first; or the last one"),
    ):
        doing = tasks.add_parser(task, parents=[_where(required=False)], help=what)
        which = doing.add_mutually_exclusive_group()
        which.add_argument("--to", type=_version, metavar="VERSION", help="such as 0001; down to 0000 undoes all")
        if task == "up":
            which.add_argument("--again", type=_version, metavar="VERSION", help="just this one, though it is up")
        doing.add_argument(
            "--dry-run", action="store_true", help="say what would be changed in the table as it is, write nothing"
        )
        doing.add_argument(
            "--units-per-second", type=_positive, default=100, help="what it may read and write (default: %(default)s)"
        )
        doing.add_argument(
            "--segments", type=_count, default=1, help="how many parts of the table at once (default: %(default)s)"
        )
        doing.set_defaults(run=run_migrations)


def _indexes(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    checking = commands.add_parser(
        "indexes",
        parents=[_where(required=False)],
        help="before a deploy: can the deployed table's indexes become the template's at once?",
        description="Compares the table that is named, or a stack's, or that of the shop on this machine, with a "
        "template. Ends with 1 where a deploy would fail, and says which deploys lead there.",
    )
    checking.add_argument("--stack", help="the CloudFormation stack whose table it is; none yet is fine")
    checking.add_argument(
        "--against", type=Path, metavar="FILE", help="a template, or what describe-table said, instead of a table"
    )
    checking.add_argument(
        "--template", type=Path, metavar="FILE", help="what is to be deployed (default: what the model says)"
    )
    checking.set_defaults(run=check_indexes)


def _hot_keys(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    looking = commands.add_parser(
        "hot-keys", help="which table, index or key is throttled, by CloudWatch's own figures, and why"
    )
    which = looking.add_mutually_exclusive_group(required=True)
    which.add_argument("--table", help="the table's name, as the stack tells it (TableName)")
    which.add_argument("--from", dest="kept", metavar="FILE", type=Path, help="the figures that --save has written")
    looking.add_argument("--region", help="where the table is; the one of your AWS settings if not said")
    looking.add_argument("--hours", type=_hours, default=24, help="how far back (default: %(default)s)")
    looking.add_argument("--save", metavar="FILE", type=Path, help="write the figures there, as JSON")
    looking.set_defaults(run=look_for_hot_keys)


def check_ledger(table: Table, units_per_second: float) -> None:
    """Say what is wrong with each account. Exits with 1 where anything is."""
    looked_at = wrong = 0

    def tell(account_id: str, found: Sequence[str]) -> None:
        nonlocal looked_at, wrong
        for fault in found:
            print(f"account {account_id}: {fault}", flush=True)
        looked_at, wrong = looked_at + 1, wrong + bool(found)

    pages = (Progress(table, "ledger").after_page,)
    ledger.look(table, tell, after_page=pages, units_per_second=units_per_second)
    if wrong:
        sys.exit(f"{looked_at} accounts, {wrong} not balanced.")
    print(f"{looked_at} accounts, all balanced.")


def ask(given: argparse.Namespace) -> None:
    """Ask an access pattern, or list them. Exits with 2 where it cannot be asked so, with 1 where nothing answers."""
    if given.pattern is None:
        print("\n".join(query.listing()))
        return
    try:
        pattern = questions.pattern_of(given.pattern)
        asked = questions.question(
            pattern,
            query.pairs(given.arg, "--arg"),
            since=given.since,
            until=given.until,
            limit=given.limit,
            after=given.cursor,
            all=given.all,
        )
        fields = [name for name in given.fields.split(",") if name]
        chosen = questions.choice(pattern, query.pairs(given.where, "--where"), fields)
        print("\n".join(query.told(answers.answer(_table(given), asked, chosen), chosen)))
    except (questions.Misused, BadKey) as error:
        _misused(error)
    except (BotoCoreError, Busy, ClientError, Unreadable) as error:
        sys.exit(f"Not answered: {error}")


def look_for_hot_keys(given: argparse.Namespace) -> None:
    """Say what was throttled, and why. Exits with 1 where a partition was at its limit."""
    try:
        if given.kept:
            found = hot_keys.Figures.of_json(json.loads(given.kept.read_text(encoding="utf-8")))
        else:
            cloudwatch, dynamodb = (boto3.client(name, region_name=given.region) for name in ("cloudwatch", "dynamodb"))
            until = datetime.now(UTC).replace(second=0, microsecond=0)
            since = until - timedelta(hours=given.hours)
            found = hot_keys.figures(cloudwatch, dynamodb, given.table, since, until)
        if given.save:
            given.save.write_text(json.dumps(found.as_json(), indent=1) + "\n", encoding="utf-8")
    except (BotoCoreError, ClientError, OSError) as error:
        sys.exit(f"Not looked at: {error}")
    except (LookupError, TypeError, ValueError):
        sys.exit(f"Not looked at: {given.kept} holds no figures that --save has written")
    print("\n".join(hot_keys.told(found)))
    if hot_keys.is_hot(found):
        sys.exit(1)


def draw(given: argparse.Namespace) -> None:
    """Print the model in the form that was asked for, or write it to the file that was named."""
    if given.diagram:
        print(model.diagram())
    elif given.workbench == "-":
        print(workbench.text())
    else:
        try:
            Path(given.workbench).write_text(workbench.text() + "\n", encoding="utf-8")
        except OSError as error:
            sys.exit(f"Not written: {error}")


def begin_migration(says: str) -> None:
    """Write a migration's module and say where. Exits with 2 where the words will not do."""
    try:
        print(f"{migrate.new(says)}: say which items it is about, and what becomes of one.")
    except migrate.Misused as error:
        _misused(error)


def run_migrations(given: argparse.Namespace) -> None:
    """Run what is due, one after the other. Exits with 2 where it cannot be meant so; with 1 where it is not done to
    the end, or items were passed over."""
    passed_over = 0
    try:
        shop, known = _shop(given), migrate.found()
        again = getattr(given, "again", None)
        due = migrate.due(known, migrate.state(shop, known), given.task, given.to, again)
        if not due:
            print(f"Nothing to take {given.task}.")
        for one in due:
            found = migrate.run(
                shop,
                one,
                by=sweep.who(),
                dry=given.dry_run,
                segments=given.segments,
                after_page=(Progress(shop.table, one.title, dry=given.dry_run).after_page,),
                units_per_second=given.units_per_second,
            )
            passed_over += found.passed_over
            print(f"{one.title}: {found.told(dry=given.dry_run)} ({one.migration.says})", flush=True)
            for key, why in found.unreadable.items():
                print(f"  passed over: {key}: {why}")
    except migrate.Misused as error:
        _misused(error)
    except (BotoCoreError, Busy, ClientError, sweep.InHand) as error:
        sys.exit(f"Not done to the end: {error}. The same command goes on with it.")
    if passed_over:
        sys.exit(f"{passed_over} items were passed over: nobody can read them.")


def check_indexes(given: argparse.Namespace) -> None:
    """Say what a deploy would do to the table's indexes. Exits with 1 where it would fail."""
    try:
        wanted = indexes.of_file(given.template) if given.template else indexes.of_model()
        deployed = _deployed(given)
    except (BotoCoreError, ClientError, LookupError, OSError, ValueError) as error:
        sys.exit(f"Not compared: {error}")
    if deployed is None:
        print("There is no table yet: it is made with all its indexes at once.")
        return
    plan = indexes.plan(deployed, wanted)
    print("\n".join(plan.told()))
    if not plan.fits:
        sys.exit(1)


def _deployed(given: argparse.Namespace) -> indexes.Indexes | None:
    if given.against:
        return indexes.of_file(given.against)
    if given.stack:
        return indexes.of_stack(given.stack, given.region)
    table = _table(given)
    return indexes.of_table(table.client, table.name)


def _misused(error: Exception) -> NoReturn:
    print(error, file=sys.stderr)
    sys.exit(2)


def _where(*, required: bool) -> argparse.ArgumentParser:
    where = argparse.ArgumentParser(add_help=False)
    which = where.add_mutually_exclusive_group(required=required)
    which.add_argument("--table", help="the table's name, as the stack tells it (TableName)")
    which.add_argument("--local", action="store_true", help="the shop that runs on this machine")
    where.add_argument("--region", help="where the table is; the one of your AWS settings if not said")
    return where


def _table(given: argparse.Namespace) -> Table:
    return _on_aws(given.table, given.region) if given.table else _running_here()


def _shop(given: argparse.Namespace) -> Shop:
    return Shop(table=_table(given), new_id=lambda: uuid.uuid4().hex)


def _on_aws(name: str, region: str | None) -> Table:
    return Table(boto3.client("dynamodb", region_name=region), name, BY_TYPE, budget_seconds=PATIENCE_SECONDS)


def _running_here() -> Table:
    from local.running import find  # noqa: PLC0415  whoever works on AWS needs none of the laptop's programs

    running = find()
    if running is None:
        sys.exit("The shop is not running here (or not ready yet). Start it with: make up")
    return Table(running.engine.dynamodb(), running.table_name, BY_TYPE, budget_seconds=PATIENCE_SECONDS)


def _version(text: str) -> str:
    return text.zfill(4)


def _positive(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return number


def _hours(text: str) -> int:
    number = _count(text)
    if number > hot_keys.MOST_HOURS:
        raise argparse.ArgumentTypeError(f"must be {hot_keys.MOST_HOURS} or less: CloudWatch keeps minutes no longer")
    return number


def _count(text: str) -> int:
    number = int(text)
    if not number > 0:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


if __name__ == "__main__":
    main()
