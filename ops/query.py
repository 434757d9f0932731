"""A question to the table and its answer, as the command line reads and tells them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote

from botocore.exceptions import BotoCoreError, ClientError

from functions.dynamodb.images import Unreadable
from functions.dynamodb.patience import Busy
from ops import place
from ops.answers import Answer, Group, Request, answer
from ops.questions import LIMIT, Choice, Misused, arguments_of, choice, forms, pattern_of, question

WIDEST = 40
"""Characters of a value that are shown where nobody chose the fields."""


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """name=value, by name; raises Misused."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise Misused(option, f"is given as name=value, not as {text}")
        if name in found:
            raise Misused(f"{option} {name}", "is given twice")
        found[name] = value
    return found


def listing() -> Iterator[str]:
    """Every pattern with its question and its arguments, those in brackets may be left out."""
    rows = [(form.id, form.question, " ".join(arguments_of(form.needs, form.may))) for form in forms()]
    yield from _aligned(("", "question", "arguments"), rows)


def told(answered: Answer, chosen: Choice) -> Iterator[str]:
    """All of an answer, line by line. Long values are shown in full where their fields were chosen."""
    yield f"{answered.id}: {answered.question}"
    yield ""
    yield from _requests(answered.requests)
    for group in answered.groups:
        yield from _table(group, whole=bool(chosen.fields))
    yield ""
    why = "; ".join(_why(answered, chosen))
    yield f"{answered.read} read, {answered.shown} shown" + (f" ({why})" if why else "")
    counted = (answered.units, "unit"), (len(answered.requests), "request"), (answered.pages, "page")
    yield ", ".join(f"{number:g} {what}" + ("" if number == 1 else "s") for number, what in counted)
    if answered.cursor is not None:
        yield f"There is more: --cursor {quote(answered.cursor)} (or --all)"


def _why(answered: Answer, chosen: Choice) -> Iterator[str]:
    """Why fewer are shown than were read, and what that saved: nothing."""
    if answered.passed_over:
        yield f"{answered.passed_over} lie behind the page's end, have expired, or are no answer"
    if chosen.where:
        yield "--where chooses among what was read, it reads no less"
    if chosen.fields:
        yield "--fields chooses what is shown, whole items were read"


def _requests(requests: Sequence[Request]) -> Iterator[str]:
    """Each request: the first whole, of the others what differs from it."""
    for number, request in enumerate(requests, 1):
        yield f"{number}. {request.operation}" + ("" if number == 1 else ", as 1 but for")
        width = max(map(len, requests[0].sent))
        for name, text in request.sent.items():
            yield f"   {name:{width}}  {'(not sent)' if text is None else text}"


def _table(group: Group, *, whole: bool) -> Iterator[str]:
    yield ""
    yield f"{group.type} ({len(group.items)})"
    yield from _aligned(group.fields, [[text if whole else _short(text) for text in item] for item in group.items])


def _aligned(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        yield "  " + "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: place.Commands) -> None:
    asking = commands.add_parser(
        "query",
        parents=[place.where()],
        help="ask an access pattern, and see the requests, the items and what it cost",
        description="Asks the shop on this machine, or the table that is named. Without a pattern: which there are.",
    )
    asking.add_argument("pattern", nargs="?", help="such as A9; all are in docs/access-patterns.md")
    asking.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="what is known; repeatable")
    asking.add_argument("--from", dest="since", default="", help="the range's first (a time, mostly)")
    asking.add_argument("--to", dest="until", default="", help="the first beyond the range")
    asking.add_argument("--limit", type=place.count, help=f"items of a page (default: {LIMIT})")
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


def ask(given: argparse.Namespace) -> None:
    """Ask an access pattern, or list them. Exits with 2 where it cannot be asked so, with 1 where nothing answers."""
    if given.pattern is None:
        print("\n".join(listing()))
        return
    try:
        pattern = pattern_of(given.pattern)
        asked = question(
            pattern,
            pairs(given.arg, "--arg"),
            since=given.since,
            until=given.until,
            limit=given.limit,
            after=given.cursor,
            all=given.all,
        )
        fields = [name for name in given.fields.split(",") if name]
        chosen = choice(pattern, pairs(given.where, "--where"), fields)
        print("\n".join(told(answer(place.table_of(given), asked, chosen), chosen)))
    except (BotoCoreError, Busy, ClientError, Unreadable) as error:
        sys.exit(f"Not answered: {error}")
