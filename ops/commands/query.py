"""The `query` command: run an access pattern (a named read of the table), or read one stored item.

It prints the requests, the returned items and the consumed capacity.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote

from ops import targets
from ops.query.patterns import (
    DEFAULT_LIMIT,
    InvalidArgument,
    build_query,
    check_fields,
    describe_patterns,
    find_pattern,
    format_arguments,
)
from ops.query.run import PatternResult, RecordedRequest, format_as_line, group_by_type, run_pattern
from ops.terminal_text import align_columns, colored

MAX_VALUE_LENGTH = 40
"""The maximum number of characters that are shown of a value. With the option `--fields`, values are shown in full."""


def parse_arguments(texts: Iterable[str]) -> dict[str, str]:
    """Parse the values of `--arg` (name=value). Raises InvalidArgument for another form, or a repeated name."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidArgument("--arg", f"must have the form name=value, not {text}")
        if name in found:
            raise InvalidArgument(f"--arg {name}", "is given twice")
        found[name] = value
    return found


def list_patterns() -> Iterator[str]:
    """Yield a line for every access pattern: its id, its data, and its arguments, in brackets if they are optional."""
    rows = [(form.id, form.question, " ".join(format_arguments(form.needs, form.may))) for form in describe_patterns()]
    yield from align_columns(("", "question", "arguments"), rows)


def format_result(result: PatternResult, fields: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of text that show a result. With `--fields`, long values are shown in full."""
    yield colored(f"{result.id}: {result.question}", "bold")
    yield ""
    yield from _format_requests(result.requests)
    for name, shown, rows in group_by_type(result.items, fields):
        yield ""
        yield colored(f"{name} ({len(rows)})", "bold")
        yield from align_columns(shown, rows if fields else [[_shorten(text) for text in row] for row in rows])
    yield ""
    why = "; ".join(_explain_counts(result, fields))
    yield f"{result.read} read, {result.shown} shown" + (f" ({why})" if why else "")
    counted = (result.units, "unit"), (len(result.requests), "request"), (result.pages, "page")
    yield ", ".join(f"{number:g} {what}" + ("" if number == 1 else "s") for number, what in counted)
    if result.cursor is not None:
        yield f"There are more items: --cursor {quote(result.cursor)} (or --all)"


def _explain_counts(result: PatternResult, fields: Sequence[str]) -> Iterator[str]:
    """Yield the reasons why fewer items or fields are shown than DynamoDB read."""
    if result.passed_over:
        yield f"{result.passed_over} are after the end of the page, have expired, or do not match"
    if fields:
        yield "--fields selects what is shown; whole items were read"


def _format_requests(requests: Sequence[RecordedRequest]) -> Iterator[str]:
    """Yield the lines that show the requests. A later request is shown as its differences from the first request."""
    for number, request in enumerate(requests, 1):
        yield colored(f"{number}. {request.operation}", "cyan") + ("" if number == 1 else ", as 1 except for")
        width = max(map(len, requests[0].sent))
        for name, text in request.sent.items():
            yield f"   {colored(f'{name:{width}}', 'dim')}  {'(not sent)' if text is None else text}"


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_VALUE_LENGTH else text[: MAX_VALUE_LENGTH - 1] + "…"


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "query",
        parents=[targets.target_options()],
        help="run an access pattern and show the requests, the items and the consumed capacity",
        description="Runs on the local shop or on the given table. Without a pattern: lists all access patterns.",
    )
    parser.add_argument("pattern", nargs="?", help="its id, such as A9; docs/access-patterns.md lists all")
    parser.add_argument(
        "--arg", action="append", default=[], metavar="NAME=VALUE", help="an argument of the pattern; repeatable"
    )
    parser.add_argument("--from", dest="since", default="", help="start of the range, usually a time (inclusive)")
    parser.add_argument("--to", dest="until", default="", help="end of the range (exclusive)")
    parser.add_argument("--limit", type=targets.positive_int, help=f"items per page (default: {DEFAULT_LIMIT})")
    pages = parser.add_mutually_exclusive_group()
    pages.add_argument("--cursor", help="continue from this cursor of the previous page")
    pages.add_argument("--all", action="store_true", help="read all pages")
    parser.add_argument(
        "--key", nargs=2, metavar=("PK", "SK"), help="instead of a pattern: print one item as it is stored"
    )
    parser.add_argument("--fields", default="", metavar="A,B", help="show only these fields, in this order and in full")
    parser.set_defaults(run=run_query)


def run_query(args: argparse.Namespace) -> None:
    """Run an access pattern, print one stored item, or list all patterns. Exits with 1 if no item has the key."""
    if args.key is not None:
        stored = targets.resolve_table(args).batch_get_raw([{"PK": {"S": args.key[0]}, "SK": {"S": args.key[1]}}])
        if not stored:
            sys.exit("No item has this key.")
        print(format_as_line(stored[0]))
        return
    if args.pattern is None:
        print("\n".join(list_patterns()))
        return
    pattern = find_pattern(args.pattern)
    query = build_query(
        pattern,
        parse_arguments(args.arg),
        since=args.since,
        until=args.until,
        limit=args.limit,
        after=args.cursor,
        all=args.all,
    )
    fields = [name for name in args.fields.split(",") if name]
    check_fields(pattern, fields)
    print("\n".join(format_result(run_pattern(targets.resolve_table(args), query), fields)))
