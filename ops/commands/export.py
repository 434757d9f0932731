"""The `export` command: write the orders, invoices, payments or refunds of a time range to one file each.

It has the rows of `POST /exports` (functions/shop/list_exports.py).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from functions.dynamodb.keys import Instant
from functions.model.entities import ListName
from functions.model.errors import InvalidInput
from functions.shop.list_exports import check_range, read_rows, to_csv, to_ndjson
from functions.shop.shop import ShopContext
from ops import targets
from ops.cli_errors import UsageError


def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "export",
        parents=[targets.target_options()],
        help="write the orders, invoices, payments or refunds of a time range to files",
        description="Writes LIST.csv and LIST.ndjson, with ids, amounts and states. Replaces files of an earlier run.",
    )
    parser.add_argument("list", choices=get_args(ListName), metavar="LIST", help="%(choices)s")
    parser.add_argument("--from", dest="since", type=targets.parse_date, metavar="DATE", required=True, help="included")
    parser.add_argument("--to", dest="until", type=targets.parse_date, metavar="DATE", required=True, help="excluded")
    parser.add_argument("--out", type=Path, metavar="DIR", default=Path(), help="the folder (default: this folder)")
    parser.set_defaults(run=run_export)


def run_export(args: argparse.Namespace) -> None:
    """Write the files, and print how many rows they have."""
    try:
        check_range(args.since, args.until)
    except InvalidInput as error:
        raise UsageError(f"--{error.field} {error.why}") from None
    args.out.mkdir(parents=True, exist_ok=True)
    rows = export_list(targets.resolve_shop(args), args.list, args.since, args.until, args.out)
    print(f"{args.out / args.list}.csv and .ndjson: rows: {rows}")


def export_list(shop: ShopContext, name: ListName, since: Instant, until: Instant, folder: Path) -> int:
    """Write the rows of a list to two files in a folder. Return how many rows they have. Safe to repeat."""
    rows, after = 0, None
    with (folder / f"{name}.csv").open("wb") as as_csv, (folder / f"{name}.ndjson").open("wb") as as_ndjson:
        while True:
            read = read_rows(shop, name, since, until, after)
            as_csv.write(to_csv(name, read.rows, has_header=after is None))
            as_ndjson.write(to_ndjson(read.rows))
            rows, after = rows + len(read.rows), read.after
            if after is None:
                return rows
