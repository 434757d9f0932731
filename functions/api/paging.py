"""Lists: how many, from where, and of which time."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any, TypeVar

from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from functions.api.context import shop
from functions.api.fields import Listed
from functions.dynamodb import cursors
from functions.dynamodb.keys import instant
from functions.dynamodb.patterns import Query as Question
from functions.dynamodb.store import Page
from functions.model.errors import Invalid
from functions.shop.shop import Caller

T = TypeVar("T")
A = TypeVar("A")
DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
MOMENT = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d{1,3})?(Z|[+-]\d\d:\d\d))?", re.ASCII)


def _instant(text: str) -> str:
    """A day (its first moment, UTC) or a moment of RFC 3339, as the table keeps it."""
    try:
        moment = datetime.fromisoformat(text if MOMENT.fullmatch(text) else "")
        return instant(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise ValueError("is neither a day (2026-11-21) nor a moment (2026-11-21T09:30:00Z)") from None


def _digits(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch("-?[1-9][0-9]{0,17}|0", value):
        raise ValueError("is no whole number, such as 20")
    return value


def _day(text: str) -> str:
    """A day that there is, as it begins every moment of it."""
    try:
        date.fromisoformat(text if DAY.fullmatch(text) else "")
    except ValueError:
        raise ValueError("is no day (2026-11-21)") from None
    return text


Day = Annotated[str, AfterValidator(_day), Query(description="Which day (UTC), such as 2026-11-21.")]
Moment = Annotated[str, AfterValidator(_instant)]
Digits = BeforeValidator(_digits)
"""Of a number in a query: nothing else is taken for one, such as 1.0, +1 or 1_0."""
Limit = Annotated[int, Field(ge=1, le=100), Digits, Query(description="How many at most.")]
Cursor = Annotated[
    Annotated[str, StringConstraints(max_length=1500)] | None,
    Query(description="The cursor of the page before, for the same question."),
]
Since = Annotated[Moment | None, Query(alias="from", description="From this day or moment on (UTC).")]
Until = Annotated[Moment | None, Query(alias="to", description="Up to, not including, this day or moment (UTC).")]


def between(since: str | None, until: str | None) -> tuple[str, str]:
    """The range asked for, "" where it is open. Raises Invalid."""
    if since and until and since > until:
        raise Invalid("from", "is after to")
    return since or "", until or ""


@dataclass(frozen=True)
class Asked:
    """A list as it was asked for. `known`: all that makes this question another than the same about something else."""

    caller: Caller
    question: Question[Any]
    known: tuple[str, ...]
    cursor: str | None = None

    @property
    def after(self) -> str | None:
        """Where the page starts. Raises InvalidCursor for a cursor of another caller or question."""
        return None if self.cursor is None else cursors.unseal(_secret(), self.cursor, *self._bound)

    def sealed(self, after: str | None) -> str | None:
        """The cursor of a page that ends here."""
        return None if after is None else cursors.seal(_secret(), after, *self._bound)

    @property
    def _bound(self) -> tuple[str, ...]:
        return (self.caller.id, self.question.id, *self.known)


def page(asked: Asked, ask: Callable[[str | None], Page[T]], show: Callable[[T], A]) -> Listed[A]:
    """The page of a list: asked for from where its cursor says, shown item by item, with the cursor of the next."""
    found = ask(asked.after)
    return Listed(items=[show(item) for item in found.items], cursor=asked.sealed(found.after))


def _secret() -> bytes:
    return shop().digest("cursors")
