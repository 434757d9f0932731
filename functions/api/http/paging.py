"""The parameters of all list routes: page size, cursor and time range."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any, TypeVar

from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from functions.api.http.context import shop
from functions.api.http.fields import Listed
from functions.dynamodb import cursors
from functions.dynamodb.keys import to_instant
from functions.dynamodb.patterns import Query as Question
from functions.dynamodb.table import QueryPage
from functions.model.errors import InvalidInput
from functions.shop.shop import Caller

T = TypeVar("T")
A = TypeVar("A")
CURSOR_KEY_VERSION = 1
"""A part of the key that seals cursors. A higher number invalidates all earlier cursors: clients start lists again."""
DAY_PATTERN = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
TIMESTAMP_PATTERN = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d{1,3})?(Z|[+-]\d\d:\d\d))?", re.ASCII)


def _parse_timestamp(text: str) -> str:
    """Convert a day or an RFC 3339 timestamp to the table's time format. A day is converted to its start in UTC."""
    try:
        moment = datetime.fromisoformat(text if TIMESTAMP_PATTERN.fullmatch(text) else "")
        return to_instant(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise ValueError("must be a day (2026-11-21) or a time (2026-11-21T09:30:00Z)") from None


def _check_whole_number(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch("-?[1-9][0-9]{0,17}|0", value):
        raise ValueError("must be a whole number, such as 20")
    return value


def _check_day(text: str) -> str:
    """Return the text if it is a valid day, such as 2026-11-21. Otherwise raise ValueError.

    The text is not converted: in the table, all timestamps of a day start with exactly this text.
    """
    try:
        date.fromisoformat(text if DAY_PATTERN.fullmatch(text) else "")
    except ValueError:
        raise ValueError("must be a day, such as 2026-11-21") from None
    return text


Day = Annotated[str, AfterValidator(_check_day), Query(description="The day (UTC), such as 2026-11-21.")]
Timestamp = Annotated[str, AfterValidator(_parse_timestamp)]
WholeNumber = BeforeValidator(_check_whole_number)
"""A validator for whole numbers in a query. It rejects other formats that pydantic would accept, such as 1.0 or +1."""
Limit = Annotated[int, Field(ge=1, le=100), WholeNumber, Query(description="The maximum number of items.")]
Cursor = Annotated[
    Annotated[str, StringConstraints(max_length=1500)] | None,
    Query(description="The cursor of the previous page. All parameters except limit and fields must be the same."),
]
Since = Annotated[
    Timestamp | None, Query(alias="from", description="The start of the time range: a day or a time (UTC), included.")
]
Until = Annotated[
    Timestamp | None, Query(alias="to", description="The end of the time range: a day or a time (UTC), excluded.")
]


def check_time_range(since: str | None, until: str | None) -> tuple[str, str]:
    """Return the time range as a pair (since, until). Raises InvalidInput if `since` is not before `until`.

    If `since` or `until` is None, the range is open on that side, and the pair contains "" instead of None.
    """
    if since and until and since >= until:
        raise InvalidInput("from", "must be before to")
    return since or "", until or ""


@dataclass(frozen=True)
class ListRequest:
    """A request for a page of a list.

    `arguments`: the values that identify the list, such as a customer id. `cursor`: the text that the API returned with
    the previous page, or None for the first page. A cursor is valid only for the same caller, query and arguments.
    """

    caller: Caller
    query: Question[Any]
    arguments: tuple[str, ...]
    cursor: str | None = None

    @property
    def after(self) -> str | None:
        """Return the position in the list after which the page starts, or None for the first page.

        Raises InvalidCursor if the cursor was made for another caller or another list.
        """
        return None if self.cursor is None else cursors.decode_cursor(_cursor_key(), self.cursor, *self._cursor_binding)

    def seal_cursor(self, after: str | None) -> str | None:
        """Return the cursor of the next page, which starts after the position `after`.

        Returns None if `after` is None, because then there is no next page.
        """
        return None if after is None else cursors.encode_cursor(_cursor_key(), after, *self._cursor_binding)

    @property
    def _cursor_binding(self) -> tuple[str, ...]:
        return (self.caller.id, self.query.id, *self.arguments)


def paginate(
    request: ListRequest, fetch: Callable[[str | None], QueryPage[T]], to_answer: Callable[[T], A]
) -> Listed[A]:
    """Return a page of a list: fetch the items, convert them to answers, and add the cursor of the next page."""
    found = fetch(request.after)
    return Listed(items=[to_answer(item) for item in found.items], cursor=request.seal_cursor(found.after))


def _cursor_key() -> bytes:
    return shop().digest(f"cursors {CURSOR_KEY_VERSION}")
