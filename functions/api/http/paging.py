"""The parameters of all list routes: page size, cursor and time range."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, TypeVar

from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from functions.api.http.fields import Listed
from functions.dynamodb.keys import to_instant
from functions.shop.lists import ListPage

T = TypeVar("T")
A = TypeVar("A")
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


def check_day(text: str) -> str:
    """Return the text if it is a valid day, such as 2026-11-21. Otherwise raise ValueError.

    The text is not converted: in the table, all timestamps of a day start with exactly this text.
    """
    try:
        date.fromisoformat(text if DAY_PATTERN.fullmatch(text) else "")
    except ValueError:
        raise ValueError("must be a day, such as 2026-11-21") from None
    return text


Day = Annotated[str, AfterValidator(check_day), Query(description="The day (UTC), such as 2026-11-21.")]
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

Order = Annotated[Literal["oldest", "newest"], Query(description="Which items come first.")]


def list_answer(page: ListPage[T], to_answer: Callable[[T], A]) -> Listed[A]:
    """Return the answer with a page of a list. `to_answer`: converts an item to its answer."""
    return Listed(items=[to_answer(item) for item in page.items], cursor=page.cursor)
