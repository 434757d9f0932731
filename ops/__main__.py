"""`python -m ops COMMAND`: what an operator runs, against a table on AWS or the shop on this machine."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from docs.pages import model
from functions.dynamodb.images import Unreadable
from functions.dynamodb.keys import BadKey
from functions.dynamodb.patience import Busy
from functions.dynamodb.store import Table
from functions.model.table import BY_TYPE
from ops import hot_keys, ledger, query, workbench


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m ops", description="What an operator runs.")
    commands = parser.add_subparsers(dest="command", required=True)
    _ledger(commands)
    _query(commands)
    _model(commands)
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
        "--units-per-second",
        type=_positive,
        default=100,
        help="what its Scan may read; what it looks at comes on top (default: %(default)s)",
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
    asking.add_argument("--limit", type=_count, help=f"items of a page (default: {query.LIMIT})")
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
    for account_id in ledger.accounts(table, units_per_second):
        found = ledger.faults(table, account_id)
        for fault in found:
            print(f"account {account_id}: {fault}", flush=True)
        looked_at, wrong = looked_at + 1, wrong + bool(found)
    if wrong:
        sys.exit(f"{looked_at} accounts, {wrong} not balanced.")
    print(f"{looked_at} accounts, all balanced.")


def ask(given: argparse.Namespace) -> None:
    """Ask an access pattern, or list them. Exits with 2 where it cannot be asked so, with 1 where nothing answers."""
    if given.pattern is None:
        print("\n".join(query.listing()))
        return
    try:
        asked = query.question(
            given.pattern,
            given.arg,
            since=given.since,
            until=given.until,
            limit=given.limit,
            after=given.cursor,
            all=given.all,
        )
        chosen = query.choice(asked.pattern, given.where, given.fields)
        print("\n".join(query.answer(_table(given), asked, chosen)))
    except (query.Misused, BadKey) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
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


def _where(*, required: bool) -> argparse.ArgumentParser:
    where = argparse.ArgumentParser(add_help=False)
    which = where.add_mutually_exclusive_group(required=required)
    which.add_argument("--table", help="the table's name, as the stack tells it (TableName)")
    which.add_argument("--local", action="store_true", help="the shop that runs on this machine")
    where.add_argument("--region", help="where the table is; the one of your AWS settings if not said")
    return where


def _table(given: argparse.Namespace) -> Table:
    return _on_aws(given.table, given.region) if given.table else _running_here()


def _on_aws(name: str, region: str | None) -> Table:
    return Table(boto3.client("dynamodb", region_name=region), name, BY_TYPE)


def _running_here() -> Table:
    from local.running import find  # noqa: PLC0415  whoever works on AWS needs none of the laptop's programs

    running = find()
    if running is None:
        sys.exit("The shop is not running here (or not ready yet). Start it with: make up")
    return Table(running.engine.dynamodb(), running.table_name, BY_TYPE)


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
