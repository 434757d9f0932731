"""What can be asked of the table, and what cannot, and why: the access patterns as questions with values filled in."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, TypeAlias

from functions.dynamodb.keys import Instant, Template, instant
from functions.dynamodb.patterns import Get, Query
from functions.dynamodb.store import just_below
from functions.model.patterns import PATTERNS
from ops import ends

LIMIT = 50
Pattern: TypeAlias = Get[Any] | Query[Any]


class Misused(ends.Misused):
    """What cannot be asked: which field of the question is wrong, why, and both in one sentence."""

    def __init__(self, field: str, why: str, said: str = "") -> None:
        super().__init__(said or f"{field} {why}")
        self.field, self.why = field, why


@dataclass(frozen=True, kw_only=True)
class Form:
    """What a question takes. `needs`: what must be known; `may`: what may be known besides, each only with those before
    it; `numbers`: which of them are whole numbers. `range`: what a range is of ("": none), and whether that is a time.
    `pages`: it has a limit and a cursor. `fields`: what its items have.
    """

    id: str
    question: str
    needs: Sequence[str]
    may: Sequence[str]
    numbers: Sequence[str]
    range: str
    is_time: bool
    pages: bool
    fields: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Question:
    """A pattern and what is known. `after`: where to go on. `all`: page after page, to the end."""

    pattern: Pattern
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


# what there is --------------------------------------------------------------------------------------------------------
def forms() -> Iterator[Form]:
    """Every pattern, with what it takes."""
    for pattern in PATTERNS:
        may = _narrowing(pattern)
        yield Form(
            id=pattern.id,
            question=pattern.question,
            needs=pattern.known,
            may=may,
            numbers=[name for name in (*pattern.known, *may) if _is_number(pattern, name)],
            range=may[0] if may else "",
            is_time=bool(may) and _is_time(pattern, may[0]),
            pages=isinstance(pattern, Query),
            fields=fields_of(pattern),
        )


def fields_of(pattern: Pattern) -> tuple[str, ...]:
    """What the items have that a pattern answers with."""
    return pattern.viewed or tuple(dict.fromkeys(name for row in pattern.rows for name in row.fields))


def pattern_of(id: str) -> Pattern:
    """Raises Misused."""
    by_id = {pattern.id: pattern for pattern in PATTERNS}
    if id in by_id:
        return by_id[id]
    like = difflib.get_close_matches(id.capitalize(), by_id, n=1)
    meant = f" (did you mean {like[0]}?)" if like else ""
    said = f"there is no access pattern {id}{meant}; without one they are listed: python -m ops query"
    raise Misused("pattern", "is no access pattern", said)


# asking it ------------------------------------------------------------------------------------------------------------
def question(
    pattern: Pattern,
    arguments: Mapping[str, str],
    *,
    since: str = "",
    until: str = "",
    limit: int | None = None,
    after: str | None = None,
    all: bool = False,  # noqa: A002  as the option is called
) -> Question:
    """What was asked, if it can be; raises Misused, BadKey."""
    known = _known(pattern, arguments)
    if isinstance(pattern, Get):
        given = {"from": since, "to": until, "limit": limit, "cursor": after, "all": all}
        for name in (name for name, value in given.items() if value):
            said = f"{pattern.id} answers with one item: it takes no --{name}"
            raise Misused(name, "is for what answers with several items", said)
        return Question(pattern=pattern, known=known)
    if since or until:
        since, until = _range(pattern, known, since, until)
    low, high = pattern.bounds(known, since, until)
    if after is not None and not (after.isprintable() and after and (pattern.whole or low <= after < high)):
        raise Misused("cursor", "is none of this question", f"the cursor is none of this question: {pattern.question}")
    limit = LIMIT if limit is None else limit
    return Question(pattern=pattern, known=known, since=since, until=until, limit=limit, after=after, all=all)


def choice(pattern: Pattern, where: Mapping[str, str], chosen: Iterable[str]) -> Choice:
    """Raises Misused where no item of the pattern has such a field."""
    made = Choice(where=where, fields=tuple(chosen))
    has = fields_of(pattern)
    for field, names in (("where", made.where), ("fields", made.fields)):
        for name in names:
            if name not in has:
                said = f"what {pattern.id} answers with has no {name}; it has {', '.join(has)}"
                raise Misused(field, f"has {name}, which is no field of what {pattern.id} answers with", said)
    return made


def _known(pattern: Pattern, given: Mapping[str, str]) -> dict[str, Any]:
    may = _narrowing(pattern)
    for name in given:
        if name not in (*pattern.known, *may):
            takes = " ".join(arguments_of(pattern.known, may)) or "none"
            said = f"{pattern.id} takes no argument {name}; its arguments: {takes}"
            raise Misused(f"arguments.{name}", f"is no argument of {pattern.id}", said)
    for name in pattern.known:
        if name not in given:
            said = f"{pattern.id} ({pattern.question}) needs --arg {name}=…"
            raise Misused(f"arguments.{name}", "is needed", said)
    for before, name in pairwise(may):
        if name in given and before not in given:
            said = f"{pattern.id} can be asked for one {name} only with --arg {before}=… too"
            raise Misused(f"arguments.{name}", f"needs {before} too", said)
    return {name: _value(pattern, name, text, f"arguments.{name}") for name, text in given.items()}


def arguments_of(needs: Iterable[str], may: Iterable[str]) -> Iterator[str]:
    """The arguments as a list of them is written: in brackets what may be left out."""
    yield from needs
    yield from (f"[{name}]" for name in may)


def _value(pattern: Pattern, name: str, text: str, field: str) -> Any:
    """The value of an argument: a number where its key pads it."""
    if not _is_number(pattern, name):
        return text
    try:
        return int(text)
    except ValueError:
        raise Misused(field, "is a whole number", f"{name} is a whole number, not {text}") from None


def _narrowing(pattern: Pattern) -> tuple[str, ...]:
    """What may be known of the sort key besides what must be, in order; nothing where several types are asked for."""
    if isinstance(pattern, Get) or pattern.whole or pattern.below or len(pattern.rows) > 1:
        return ()
    names = _halves(pattern)[1].names
    return tuple(name for name in names if name not in pattern.known and name != "shard")


def _halves(pattern: Pattern) -> tuple[Template, Template]:
    return pattern.rows[0].templates(pattern.index if isinstance(pattern, Query) else "main")


def _is_number(pattern: Pattern, name: str) -> bool:
    return any(half.specs.get(name) for half in _halves(pattern))


def _is_time(pattern: Pattern, name: str) -> bool:
    return pattern.rows[0].fields.get(name) is Instant


# ranges ---------------------------------------------------------------------------------------------------------------
def _range(pattern: Query[Any], known: Mapping[str, Any], since: str, until: str) -> tuple[str, str]:
    """The range as the table keeps what it is of: the first field of the sort key that is not known."""
    left = [name for name in _narrowing(pattern) if name not in known]
    if not left:
        why = "is for what takes a range"
        raise Misused("from" if since else "to", why, f"{pattern.id} takes no range: {pattern.question}")
    since = since and _bound(pattern, left[0], since, "from")
    until = until and _bound(pattern, left[0], until, "to")
    # Where nothing stands behind it in the key, the key that ends with `until` itself is left out, too.
    return since, just_below(until) if until and len(left) == 1 else until


def _bound(pattern: Query[Any], name: str, text: str, field: str) -> str:
    """One end of a range as the key spells it."""
    if _is_time(pattern, name):
        return _moment(text, field)
    if not text.isprintable():
        raise Misused(field, "holds what no key can hold")
    return format(_value(pattern, name, text, field), _halves(pattern)[1].specs[name])


def _moment(text: str, field: str) -> Instant:
    """A moment, UTC where nothing else is said."""
    try:
        moment = datetime.fromisoformat(text)
        return instant(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        example = "write 2026-11-21 or 2026-11-21T09:30:00Z"
        raise Misused(field, f"is no time; {example}", f"{text} is no time; {example}") from None
