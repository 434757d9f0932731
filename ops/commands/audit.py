"""The `audit` command: print the audit trail of an item or of a person as JSON lines.

`GET /audit` shows the same entries to staff. The output of this command is also the export: redirect it to a file.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from functions.dynamodb.keys import to_instant
from functions.model.entities import hash_person
from functions.model.patterns import AUDIT_OF_ITEM, AUDIT_OF_PERSON
from ops import targets
from ops.commands.failures import parse_time


def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "audit",
        parents=[targets.target_options()],
        help="print what staff and operators did to an item, or what a person did, newest first",
        description="One JSON object a line, so that the output can be kept as a file.",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("item", nargs="?", help="such as ORDER:o1, PRODUCT:mug, CUSTOMER:c1, or REDRIVE")
    which.add_argument("--by", metavar="PERSON", help="such as staff:c1, or ops:eve")
    parser.add_argument("--since", metavar="WHEN", default="3650d", help="as 3d, 12h, or 2026-11-21T09:30Z")
    parser.set_defaults(run=print_entries)


def print_entries(args: argparse.Namespace) -> None:
    """Print the entries, newest first, one JSON object a line. Raises UsageError if `--since` is not a time."""
    shop = targets.resolve_shop(args)
    since = to_instant(parse_time(args.since, shop.now()))
    entries = (
        shop.table.query_all(AUDIT_OF_PERSON, since=since, person=hash_person(args.by))
        if args.by
        else shop.table.query_all(AUDIT_OF_ITEM, since=since, item=args.item)
    )
    for entry in entries:
        print(json.dumps(asdict(entry), ensure_ascii=False))
