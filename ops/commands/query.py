"""The `query` command: run an access pattern (a named read of the table), or query any key.

It prints the requests, the returned items and the consumed capacity. With a filter or a projection of DynamoDB, it also
prints the request as code.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote

from ops import targets
from ops.query.expressions import Composition, compose_for_key, compose_for_pattern
from ops.query.patterns import (
    DEFAULT_LIMIT,
    InvalidArgument,
    build_query,
    check_fields,
    describe_patterns,
    find_pattern,
    format_arguments,
)
from ops.query.run import ItemGroup, PatternResult, RecordedRequest, run_key_query, run_pattern
from ops.terminal_text import align_columns, colored

MAX_VALUE_LENGTH = 40
"""The maximum number of characters that are shown of a value. With the option `--fields`, values are shown in full."""


def parse_arguments(texts: Iterable[str]) -> dict[str, str]:
    """Parse the values of `--arg`, which have the form name=value, into a dict.

    Raises InvalidArgument if a text does not have the form name=value, or if two texts have the same name.
    """
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


def format_result(result: PatternResult, composition: Composition, fields: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of text that show a result. With `--fields` or `--project`, long values are shown in full.

    With a composition, the first request is shown as code, too.
    """
    yield colored(f"{result.id}: {result.question}", "bold")
    yield ""
    yield from _format_requests(result.requests)
    if composition:
        for text in (result.boto3, result.cli):
            yield ""
            yield from text.splitlines()
    for group in result.groups:
        yield from _format_group(group, in_full=bool(fields or composition.shown))
    yield ""
    why = "; ".join(_explain_counts(result, composition, fields))
    yield f"{result.read} read, {result.shown} shown" + (f" ({why})" if why else "")
    counted = (result.units, "unit"), (len(result.requests), "request"), (result.pages, "page")
    yield ", ".join(f"{number:g} {what}" + ("" if number == 1 else "s") for number, what in counted)
    if result.cursor is not None:
        yield f"There are more items: --cursor {quote(result.cursor)} (or --all)"


def _explain_counts(result: PatternResult, composition: Composition, fields: Sequence[str]) -> Iterator[str]:
    """Yield the reasons why fewer items or fields are shown than DynamoDB read."""
    passed_over = result.passed_over
    if composition.filter:
        passed_over -= result.filtered
        yield f"the filter read {result.filtered} that it did not return, and they cost units like the others"
    if composition.projection:
        yield "the projection saves bytes and no units"
    if passed_over:
        yield f"{passed_over} are after the end of the page, have expired, or do not match"
    if fields:
        yield "--fields selects what is shown; whole items were read"


def _format_requests(requests: Sequence[RecordedRequest]) -> Iterator[str]:
    """Yield the lines that show the requests. A later request is shown as its differences from the first request."""
    for number, request in enumerate(requests, 1):
        yield colored(f"{number}. {request.operation}", "cyan") + ("" if number == 1 else ", as 1 except for")
        width = max(map(len, requests[0].sent))
        for name, text in request.sent.items():
            yield f"   {colored(f'{name:{width}}', 'dim')}  {'(not sent)' if text is None else text}"


def _format_group(group: ItemGroup, *, in_full: bool) -> Iterator[str]:
    yield ""
    yield colored(f"{group.type} ({len(group.items)})", "bold")
    yield from align_columns(
        group.fields, [[text if in_full else _shorten(text) for text in item] for item in group.items]
    )


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
        "--filter",
        action="append",
        default=[],
        metavar="CONDITION",
        help="let DynamoDB return only items that fulfil this, such as 'status = SHIPPED AND total > 1000'; repeatable",
    )
    parser.add_argument(
        "--project", default="", metavar="A,B", help="let DynamoDB return only these attributes, such as address.city"
    )
    parser.add_argument(
        "--key",
        metavar="CONDITION",
        help="instead of a pattern: query any key, such as 'PK = ORDER#o1 AND begins_with(SK, PAYMENT#)'",
    )
    parser.add_argument("--fields", default="", metavar="A,B", help="show only these fields, in this order and in full")
    parser.set_defaults(run=run_query)


def run_query(args: argparse.Namespace) -> None:
    """Run an access pattern and print the result. Without a pattern, list all access patterns.

    Exits with 2 for wrong usage.
    """
    if args.pattern is None and args.key is None:
        if args.filter or args.project:
            raise InvalidArgument("pattern", "is missing", "--filter and --project need a pattern or --key")
        print("\n".join(list_patterns()))
        return
    print("\n".join(_run_key(args) if args.key is not None else _run_named(args)))


def _run_key(args: argparse.Namespace) -> Iterator[str]:
    """Query any key, and yield the lines that show the result."""
    said = {"a pattern": args.pattern, "--arg": args.arg, "--from": args.since, "--to": args.until}
    said |= {"--fields": args.fields}
    for name in (name for name, value in said.items() if value):
        raise InvalidArgument("key", f"cannot be combined with {name}", f"--key cannot be combined with {name}")
    composition = compose_for_key(args.key, args.filter, args.project.split(","))
    result = run_key_query(targets.resolve_table(args), composition, args.limit, after=args.cursor, all_pages=args.all)
    yield from format_result(result, composition)


def _run_named(args: argparse.Namespace) -> Iterator[str]:
    """Run an access pattern, and yield the lines that show the result."""
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
    composition = compose_for_pattern(pattern, args.filter, args.project.split(","))
    yield from format_result(run_pattern(targets.resolve_table(args), query, fields, composition), composition, fields)
