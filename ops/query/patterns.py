"""Describe the access patterns, and build a query from arguments. An error names the invalid argument."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, TypeAlias

from functions.dynamodb.keys import IndexName, Instant, KeyTemplate, to_instant
from functions.dynamodb.patterns import Get, Query
from functions.dynamodb.table import highest_key_before
from functions.model.entities import complete_path
from functions.model.patterns import PATTERNS
from ops import cli_errors
from ops.terminal_text import suggest

DEFAULT_LIMIT = 50
CATEGORY_PATHS = ("path", "parent", "offered_in")
"""The arguments that are the path of a category."""
Pattern: TypeAlias = Get[Any] | Query[Any]
NOUNS = {
    "ArchivedOrder": "Order", "BestSeller": "Sale", "Campaign": "Notification", "ReactionProgress": "Reaction",
    "EmailClaim": "Customer", "Entry": "Account", "ErasedCustomer": "Customer", "ImportLines": "Import",
    "ImportPart": "Import", "InvoiceSeries": "Invoice", "SalesMinute": "Sale", "OrderNumber": "Order",
    "OrderSummary": "Order", "PaymentClaim": "Payment", "Rating": "Review", "RedemptionPool": "Discount",
    "Settings": "Customer",
}  # fmt: skip
"""The noun under which the access patterns of an item type are grouped, if it is not the name of the type."""


class InvalidArgument(cli_errors.UsageError):
    """An argument of a query is invalid. `message`: the text for the operator; if "", `field` and `reason`."""

    def __init__(self, field: str, reason: str, message: str = "") -> None:
        super().__init__(message or f"{field} {reason}")
        self.field, self.reason = field, reason


@dataclass(frozen=True, kw_only=True)
class PatternSpec:
    """The arguments that an access pattern accepts, and the items that it returns.

    `may`: the optional arguments; each requires those before it. `numbers`: the whole numbers. `range`: the field of
    `since` and `until`; "" for none. `is_time`: whether it is a time. `pages`: whether it accepts a limit and a cursor.
    `noun`: the word by which access patterns are grouped. `fields`: the attributes of its `view`; empty for whole
    items.
    """

    id: str
    question: str
    needs: Sequence[str]
    may: Sequence[str]
    numbers: Sequence[str]
    range: str
    is_time: bool
    pages: bool
    noun: str
    entities: Sequence[str]
    index: IndexName
    fields: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class PatternQuery:
    """An access pattern with its arguments, `known`. `since`, `until`: as in the sort key; "" for no bound.

    `limit`: of a page. `after`: the cursor of the previous page, or None. `all`: read all pages.
    """

    pattern: Pattern
    known: Mapping[str, Any]
    since: str = ""
    until: str = ""
    limit: int = DEFAULT_LIMIT
    after: str | None = None
    all: bool = False


# describe patterns ----------------------------------------------------------------------------------------------------
def describe_patterns() -> Iterator[PatternSpec]:
    """Yield a description of every access pattern."""
    for pattern in PATTERNS:
        may = _optional_arguments(pattern)
        range_field = next((name for name in may if _is_time(pattern, name)), may[0] if may else "")
        yield PatternSpec(
            id=pattern.id,
            question=pattern.description,
            needs=pattern.required_fields,
            may=may,
            numbers=[name for name in (*pattern.required_fields, *may) if _is_number(pattern, name)],
            range=range_field,
            is_time=bool(range_field) and _is_time(pattern, range_field),
            pages=isinstance(pattern, Query),
            noun=NOUNS.get(pattern.rows[0].type, pattern.rows[0].type),
            entities=[row.type for row in pattern.rows],
            index=index_of(pattern),
            fields=pattern.view_attributes,
        )


def pattern_fields(pattern: Pattern) -> tuple[str, ...]:
    """Return the fields of the items that an access pattern returns."""
    return pattern.view_attributes or tuple(dict.fromkeys(name for row in pattern.rows for name in row.fields))


def index_of(pattern: Pattern) -> IndexName:
    """Return the index that an access pattern reads; "main" for the table."""
    return pattern.index if isinstance(pattern, Query) else "main"


def find_pattern(id: str) -> Pattern:
    """Return the access pattern with this id, such as "A9". Raises InvalidArgument if no pattern has this id."""
    by_id = {pattern.id: pattern for pattern in PATTERNS}
    if id in by_id:
        return by_id[id]
    said = f"There is no access pattern {id}.{suggest(id, by_id)} List all with: python -m ops query"
    raise InvalidArgument("pattern", "is not an access pattern", said)


# build a query --------------------------------------------------------------------------------------------------------
def build_query(
    pattern: Pattern,
    arguments: Mapping[str, str],
    *,
    since: str = "",
    until: str = "",
    limit: int | None = None,
    after: str | None = None,
    all: bool = False,  # noqa: A002  the name of the command-line option
) -> PatternQuery:
    """Check the arguments of an access pattern, and return the query. Raises InvalidArgument, InvalidKeyValue."""
    known = _parse_arguments(pattern, arguments)
    if isinstance(pattern, Get):
        given = {"from": since, "to": until, "limit": limit, "cursor": after, "all": all}
        for name in (name for name, value in given.items() if value):
            said = f"{pattern.id} returns one item, so it does not accept --{name}"
            raise InvalidArgument(name, "is only for patterns that return several items", said)
        return PatternQuery(pattern=pattern, known=known)
    if since or until:
        since, until = _parse_range(pattern, known, since, until)
    low, high = pattern.sort_key_range(known, since, until)
    if after is not None and not (after.isprintable() and after and (pattern.whole_partition or low <= after < high)):
        why = "does not belong to this query"
        raise InvalidArgument("cursor", why, f"the cursor {why}: {pattern.description}")
    limit = DEFAULT_LIMIT if limit is None else limit
    return PatternQuery(pattern=pattern, known=known, since=since, until=until, limit=limit, after=after, all=all)


def check_fields(pattern: Pattern, names: Iterable[str]) -> None:
    """Raise InvalidArgument if the items of a pattern have no field with one of these names."""
    has = pattern_fields(pattern)
    for name in (name for name in names if name not in has):
        said = f"the items of {pattern.id} have no field {name}; their fields: {', '.join(has)}.{suggest(name, has)}"
        raise InvalidArgument("fields", f"contains {name}, which is not a field of the items of {pattern.id}", said)


def _parse_arguments(pattern: Pattern, given: Mapping[str, str]) -> dict[str, Any]:
    optional = _optional_arguments(pattern)
    for name in given:
        if name not in (*pattern.required_fields, *optional):
            takes = " ".join(format_arguments(pattern.required_fields, optional)) or "none"
            hint = suggest(name, (*pattern.required_fields, *optional))
            said = f"{pattern.id} has no argument {name}; its arguments: {takes}.{hint}"
            raise InvalidArgument(f"arguments.{name}", f"is not an argument of {pattern.id}", said)
    for name in pattern.required_fields:
        if name not in given:
            said = f"{pattern.id} ({pattern.description}) needs --arg {name}=…"
            raise InvalidArgument(f"arguments.{name}", "is required", said)
    for before, name in pairwise(optional):
        if name in given and before not in given:
            said = f"{pattern.id} accepts --arg {name}=… only together with --arg {before}=…"
            raise InvalidArgument(f"arguments.{name}", f"requires {before} too", said)
    return {name: _parse_value(pattern, name, text, f"arguments.{name}") for name, text in given.items()}


def format_arguments(required: Iterable[str], optional: Iterable[str]) -> Iterator[str]:
    """Yield the names of the arguments. Optional arguments are in brackets."""
    yield from required
    yield from (f"[{name}]" for name in optional)


def _parse_value(pattern: Pattern, name: str, text: str, field: str) -> Any:
    """Convert an argument to an int if the key has a number there, and end a category path with a slash."""
    if name in CATEGORY_PATHS:
        if not text.startswith("/"):
            why = "must start with a slash, such as /kitchen/"
            raise InvalidArgument(field, why, f"{name} {why}")
        return complete_path(text)
    if not _is_number(pattern, name):
        return text
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(field, "must be a whole number", f"{name} must be a whole number, not {text}") from None


def _optional_arguments(pattern: Pattern) -> tuple[str, ...]:
    """Return the fields of the sort key that the caller may leave out, in the order of the key.

    There are none if the pattern needs or ignores the whole key, reads by path, or reads different sort keys.
    """
    if isinstance(pattern, Get) or pattern.whole_partition or pattern.path_prefix or len(pattern.rows) > 1:
        return ()
    names = _key_templates(pattern)[1].field_names
    return tuple(name for name in names if name not in pattern.required_fields and name != "shard")


def _key_templates(pattern: Pattern) -> tuple[KeyTemplate, KeyTemplate]:
    return pattern.rows[0].templates(index_of(pattern))


def _is_number(pattern: Pattern, name: str) -> bool:
    return any(half.format_specs.get(name) for half in _key_templates(pattern))


def _is_time(pattern: Pattern, name: str) -> bool:
    return pattern.rows[0].fields.get(name) is Instant


# ranges ---------------------------------------------------------------------------------------------------------------
def _parse_range(pattern: Query[Any], known: Mapping[str, Any], since: str, until: str) -> tuple[str, str]:
    """Return the bounds of a range for the first free field of the sort key. Raises InvalidArgument."""
    left = [name for name in _optional_arguments(pattern) if name not in known]
    if not left:
        said = f"{pattern.id} does not accept a range: {pattern.description}"
        raise InvalidArgument("from" if since else "to", "is only for patterns that accept a range", said)
    if before := pattern.field_before_time(known):
        name, time = before
        said = f"{pattern.id} accepts a range of {time} only together with --arg {name}=…"
        raise InvalidArgument(f"arguments.{name}", f"is required for a range of {time}", said)
    since = since and _parse_bound(pattern, left[0], since, "from")
    until = until and _parse_bound(pattern, left[0], until, "to")
    if since and until and since >= until:
        raise InvalidArgument("from", "must be before to", "--from must be before --to")
    # The range must not include `until`, but DynamoDB's BETWEEN includes its upper bound. If the range applies to the
    # last field of the sort key (`left` has one element), a key can end with exactly `until`. To exclude this key, the
    # upper bound is the highest key before it. If more fields follow, a key with the value `until` is longer than the
    # bound. So it sorts after the bound and is excluded anyway.
    return since, highest_key_before(until) if until and len(left) == 1 else until


def _parse_bound(pattern: Query[Any], name: str, text: str, field: str) -> str:
    """Return one bound of a range, in the format that the sort key uses."""
    if _is_time(pattern, name):
        return _parse_time(text, field)
    if not text.isprintable():
        raise InvalidArgument(field, "contains a character that no key can contain")
    return format(_parse_value(pattern, name, text, field), _key_templates(pattern)[1].format_specs[name])


def _parse_time(text: str, field: str) -> Instant:
    """Parse an ISO 8601 time. A time without an offset is taken as UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return to_instant(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        example = "write 2026-11-21 or 2026-11-21T09:30:00Z"
        raise InvalidArgument(field, f"is not a time; {example}", f"{text} is not a time; {example}") from None
