"""`python -m ops COMMAND`: what an operator runs, against a table on AWS or the shop on this machine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import boto3

from functions.dynamodb.store import Table
from functions.model.table import BY_TYPE
from ops import ledger


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m ops", description="What an operator runs.")
    where = argparse.ArgumentParser(add_help=False)
    which = where.add_mutually_exclusive_group(required=True)
    which.add_argument("--table", help="the table's name, as the stack tells it (TableName)")
    which.add_argument("--local", action="store_true", help="the shop that runs on this machine")
    where.add_argument("--region", help="where the table is; the one of your AWS settings if not said")
    commands = parser.add_subparsers(dest="command", required=True)
    looking = commands.add_parser("ledger", parents=[where], help="is every account's balance what its entries make?")
    looking.add_argument(
        "--units-per-second",
        type=_positive,
        default=100,
        help="what its Scan may read; what it looks at comes on top (default: %(default)s)",
    )
    given = parser.parse_args(arguments)
    check_ledger(_running_here() if given.local else _on_aws(given.table, given.region), given.units_per_second)


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


if __name__ == "__main__":
    main()
