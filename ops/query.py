"""Any access pattern, asked as the shop asks it: the requests that go out, the items that come back, what it cost.

The requests are watched at the client, so what is shown is what was sent. Reads only.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import UTC, datetime
from itertools import pairwise
from shlex import quote
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from functions.dynamodb.images import Unreadable
from functions.dynamodb.keys import BadKey, Instant, Template, instant
from functions.dynamodb.patience import Busy
from functions.dynamodb.patterns import Get, Query
from functions.dynamodb.store import Table, just_below
from functions.dynamodb.units import Units
from functions.model.patterns import PATTERNS
from ops import place

LIMIT = 50
WIDEST = 40
"""Characters of a value that are shown where nobody chose the fields."""
FIRST_OF_A_REQUEST = ("TableName", "IndexName", "Key", "KeyConditionExpression", "FilterExpression")
TOKENS = ("Key", "ExpressionAttributeNames", "ExpressionAttributeValues")


class Misused(Exception):
    """What cannot be asked, in one sentence."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A pattern and what is known. `after`: where to go on. `all`: page after page, to the end."""

    pattern: Get[Any] | Query[Any]
    known: Mapping[str, Any]
    since: str = ""
    until: str = ""
    limit: int = LIMIT
    after: str | None = None
    all: bool = False


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which of the items that were read are shown, and which of their fields. Changes nothing about the requests."""

    where: Mapping[str, str]
    fields: Sequence[str]

    def takes(self, item: Any) -> bool:
        return all(_text(getattr(item, name, None)) == value for name, value in self.where.items())


# what may be asked ----------------------------------------------------------------------------------------------------
def listing() -> Iterator[str]:
    """Every pattern with its question and its arguments, those in brackets may be left out."""
    rows = [(pattern.id, pattern.question, " ".join(_arguments(pattern))) for pattern in PATTERNS]
    yield from _aligned(("", "question", "arguments"), rows)


def pattern_of(id: str) -> Get[Any] | Query[Any]:
    """Raises Misused."""
    by_id = {pattern.id: pattern for pattern in PATTERNS}
    if id in by_id:
        return by_id[id]
    like = difflib.get_close_matches(id.capitalize(), by_id, n=1)
    meant = f" (did you mean {like[0]}?)" if like else ""
    raise Misused(f"there is no access pattern {id}{meant}; without one they are listed: python -m ops query")


def question(
    id: str,
    arguments: Iterable[str],
    *,
    since: str = "",
    until: str = "",
    limit: int | None = None,
    after: str | None = None,
    all: bool = False,  # noqa: A002  as the option is called
) -> Question:
    """What was asked on the command line, if it can be; raises Misused, BadKey."""
    pattern = pattern_of(id)
    known = _known(pattern, pairs(arguments, "--arg"))
    if isinstance(pattern, Get):
        given = {"--from": since, "--to": until, "--limit": limit, "--cursor": after, "--all": all}
        if told := [option for option, value in given.items() if value]:
            raise Misused(f"{id} answers with one item: it takes no {told[0]}")
        return Question(pattern=pattern, known=known)
    if since or until:
        since, until = _range(pattern, known, since, until)
    low, high = pattern.bounds(known, since, until)
    if after is not None and (not after or (not pattern.whole and not low <= after < high)):
        raise Misused(f"the cursor is none of this question: {pattern.question}")
    limit = LIMIT if limit is None else limit
    return Question(pattern=pattern, known=known, since=since, until=until, limit=limit, after=after, all=all)


def choice(pattern: Get[Any] | Query[Any], where: Iterable[str], chosen: str) -> Choice:
    """Raises Misused where no item of the pattern has such a field."""
    has = pattern.viewed or tuple(dict.fromkeys(name for row in pattern.rows for name in row.fields))
    made = Choice(where=pairs(where, "--where"), fields=tuple(name for name in chosen.split(",") if name))
    for name in (*made.where, *made.fields):
        if name not in has:
            raise Misused(f"what {pattern.id} answers with has no {name}; it has {', '.join(has)}")
    return made


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """name=value, by name; raises Misused."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise Misused(f"{option} is given as name=value, not as {text}")
        if name in found:
            raise Misused(f"{option} {name} is given twice")
        found[name] = value
    return found


def _known(pattern: Get[Any] | Query[Any], given: Mapping[str, str]) -> dict[str, Any]:
    may = _narrowing(pattern)
    for name in given:
        if name not in (*pattern.known, *may):
            takes = " ".join(_arguments(pattern)) or "none"
            raise Misused(f"{pattern.id} takes no argument {name}; its arguments: {takes}")
    for name in pattern.known:
        if name not in given:
            raise Misused(f"{pattern.id} ({pattern.question}) needs --arg {name}=…")
    for before, name in pairwise(may):
        if name in given and before not in given:
            raise Misused(f"{pattern.id} can be asked for one {name} only with --arg {before}=… too")
    return {name: _value(pattern, name, text) for name, text in given.items()}


def _value(pattern: Get[Any] | Query[Any], name: str, text: str) -> Any:
    """The value of an argument: a number where its key pads it."""
    if not any(half.specs.get(name) for half in _halves(pattern)):
        return text
    try:
        return int(text)
    except ValueError:
        raise Misused(f"{name} is a whole number, not {text}") from None


def _narrowing(pattern: Get[Any] | Query[Any]) -> tuple[str, ...]:
    """What may be known of the sort key besides what must be, in order; nothing where several types are asked for."""
    if isinstance(pattern, Get) or pattern.whole or pattern.below or len(pattern.rows) > 1:
        return ()
    names = _halves(pattern)[1].names
    return tuple(name for name in names if name not in pattern.known and name != "shard")


def _halves(pattern: Get[Any] | Query[Any]) -> tuple[Template, Template]:
    return pattern.rows[0].templates(pattern.index if isinstance(pattern, Query) else "main")


def _arguments(pattern: Get[Any] | Query[Any]) -> Iterator[str]:
    yield from pattern.known
    yield from (f"[{name}]" for name in _narrowing(pattern))


def _range(pattern: Query[Any], known: Mapping[str, Any], since: str, until: str) -> tuple[str, str]:
    """The range as the table keeps what it is of: the first field of the sort key that is not known."""
    left = [name for name in _narrowing(pattern) if name not in known]
    if not left:
        raise Misused(f"{pattern.id} takes no range: {pattern.question}")
    since, until = since and _bound(pattern, left[0], since), until and _bound(pattern, left[0], until)
    # Where nothing stands behind it in the key, the key that ends with `until` itself is left out, too.
    return since, just_below(until) if until and len(left) == 1 else until


def _bound(pattern: Query[Any], name: str, text: str) -> str:
    """One end of a range as the key spells it."""
    if pattern.rows[0].fields.get(name) is Instant:
        return _moment(text)
    return format(_value(pattern, name, text), _halves(pattern)[1].specs[name])


def _moment(text: str) -> Instant:
    """A moment, UTC where nothing else is said."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Misused(f"{text} is no time; write 2026-11-21 or 2026-11-21T09:30:00Z") from None
    return instant(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


# asking ---------------------------------------------------------------------------------------------------------------
class Tap:
    """What goes over a client's wire: each request as it is sent, again where the client tries again."""

    def __init__(self, client: Any) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.read = 0
        self.units = Units()
        self.units.watch(client)
        client.meta.events.register("before-send.dynamodb", self._sent)
        client.meta.events.register("after-call.dynamodb", self._answered)

    def _sent(self, request: Any, event_name: str, **_: Any) -> None:
        self.requests.append((event_name.rpartition(".")[2], json.loads(request.body)))

    def _answered(self, parsed: Mapping[str, Any], **_: Any) -> None:
        self.read += parsed.get("ScannedCount", int("Item" in parsed))


def answer(table: Table, asked: Question, chosen: Choice) -> Iterator[str]:
    """Ask, and tell it all, line by line. Raises BadKey, Busy, Unreadable and what the client raises."""
    tap = Tap(table.client)
    items, pages, after = _ask(table, asked)
    shown = [item for item in items if chosen.takes(item)]
    yield f"{asked.pattern.id}: {asked.pattern.question}"
    yield ""
    yield from _requests(tap.requests)
    yield from _tables(shown, chosen.fields)
    yield ""
    yield f"{tap.read} read, {len(shown)} shown" + _why(tap.read, len(items), chosen)
    units = tap.units.taken()["read"]
    yield f"{_counted(units, 'unit')}, {_counted(len(tap.requests), 'request')}, {_counted(pages, 'page')}"
    if after is not None:
        yield f"There is more: --cursor {quote(after)} (or --all)"


def _ask(table: Table, asked: Question) -> tuple[list[Any], int, str | None]:
    """The items, how many pages they came in, and where the next would start."""
    if isinstance(asked.pattern, Get):
        item = table.get(asked.pattern, **asked.known)
        return [] if item is None else [item], 1, None
    items: list[Any] = []
    pages, after = 0, asked.after
    while True:
        page = table.query(
            asked.pattern, limit=asked.limit, after=after, since=asked.since, until=asked.until, **asked.known
        )
        items += page.items
        pages, after = pages + 1, page.after
        if after is None or not asked.all:
            return items, pages, after


def _why(read: int, answered: int, chosen: Choice) -> str:
    """Why fewer are shown than were read."""
    reasons = []
    if read > answered:
        reasons.append(f"{read - answered} lie behind the page's end, have expired, or are no answer")
    if chosen.where:
        reasons.append("--where chooses among what was read, it reads no less")
    if chosen.fields:
        reasons.append("--fields chooses what is shown, whole items were read")
    return f" ({'; '.join(reasons)})" if reasons else ""


def _counted(number: float, what: str) -> str:
    return f"{number:g} {what}" + ("" if number == 1 else "s")


# showing --------------------------------------------------------------------------------------------------------------
def _requests(requests: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """Each request: the first whole, of the others what differs from it."""
    first: dict[str, str] = {}
    for number, (operation, body) in enumerate(requests, 1):
        told = dict(_told(body))
        first = first or told
        differs = {name: text for name, text in told.items() if number == 1 or first.get(name) != text}
        differs |= dict.fromkeys((name for name in first if name not in told), "(not sent)")
        yield f"{number}. {operation}" + ("" if number == 1 else ", as 1 but for")
        width = max(map(len, first))
        yield from (f"   {name:{width}}  {text}" for name, text in differs.items())


def _told(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in sorted(body, key=lambda name: (*FIRST_OF_A_REQUEST, name).index(name)):
        if name in TOKENS:
            yield from ((token, _sent(value)) for token, value in body[name].items())
        else:
            yield name, _text(body[name])


def _sent(value: Any) -> str:
    """A name, or a value without its tag: text in quotes, with escapes for what cannot be seen."""
    if isinstance(value, str):
        return value
    ((tag, untagged),) = value.items()
    return repr(untagged) if tag == "S" else str(untagged)


def _tables(items: Sequence[Any], chosen: Sequence[str]) -> Iterator[str]:
    """The items by type, in the order they came. Where no fields are chosen, what none of them has is left out."""
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(type(item).__name__, []).append(item)
    for name, group in groups.items():
        has = [field.name for field in fields(group[0])]
        texts = {column: [_text(getattr(item, column)) for item in group] for column in has}
        columns = [column for column in chosen if column in has] or [column for column in has if any(texts[column])]
        short = [[text if chosen else _short(text) for text in texts[column]] for column in columns]
        yield ""
        yield f"{name} ({len(group)})"
        yield from _aligned(columns, zip(*short, strict=True))


def _aligned(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        yield "  " + "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def _text(value: Any) -> str:
    """A value in one line; what a customer wrote cannot move the terminal's cursor."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value if value.isprintable() else json.dumps(value)
    return json.dumps(value, default=_plain, ensure_ascii=False, separators=(", ", ": "))


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else sorted(value)


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: place.Commands) -> None:
    asking = commands.add_parser(
        "query",
        parents=[place.where(required=False)],
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
        asked = question(
            given.pattern,
            given.arg,
            since=given.since,
            until=given.until,
            limit=given.limit,
            after=given.cursor,
            all=given.all,
        )
        chosen = choice(asked.pattern, given.where, given.fields)
        print("\n".join(answer(place.table_of(given), asked, chosen)))
    except (Misused, BadKey) as error:
        place.misused(error)
    except (BotoCoreError, Busy, ClientError, Unreadable) as error:
        sys.exit(f"Not answered: {error}")
