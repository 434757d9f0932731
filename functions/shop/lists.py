"""Read lists page by page. A cursor is valid only for the same caller, access pattern and arguments."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from functions.dynamodb import cursors
from functions.dynamodb.cursors import decode_cursor, encode_cursor
from functions.dynamodb.patterns import Query
from functions.dynamodb.table import QueryPage
from functions.model.errors import InvalidInput
from functions.shop.shop import Caller, ShopContext

T = TypeVar("T")
A = TypeVar("A")


@dataclass(frozen=True)
class ListRequest:
    """A caller's request for a page of a list. Raises InvalidInput if `since` is not before `until`.

    `limit`: the maximum number of items. `cursor`: the cursor that came with the previous page; None for the first
    page. `since` (included), `until` (excluded): the time range of the list; None means no limit.
    """

    caller: Caller
    limit: int
    cursor: str | None = None
    since: str | None = None
    until: str | None = None

    def __post_init__(self) -> None:
        if self.since and self.until and self.since >= self.until:
            raise InvalidInput("from", "must be before to")


@dataclass(frozen=True)
class ListPage(Generic[T]):
    """A page of a list. `cursor`: the cursor of the next page; None if this is the last page."""

    items: tuple[T, ...]
    cursor: str | None = None


@dataclass(frozen=True)
class PagedQuery(Generic[T]):
    """A list that a caller reads page by page: a pattern, its known fields, and values that select items."""

    shop: ShopContext
    request: ListRequest
    pattern: Query[T]
    known: Mapping[str, str]
    filters: tuple[str, ...] = ()

    @property
    def after(self) -> str | None:
        """The position after which the page starts, such as a sort key. None: the first page. Raises InvalidCursor."""
        cursor = self.request.cursor
        return None if cursor is None else decode_cursor(self._key, cursor, *self._binding)

    def query(self, limit: int) -> QueryPage[T]:
        """Query the table for a page with at most `limit` items. Raises InvalidCursor."""
        return self.query_after(self.after, limit)

    def query_after(self, after: str | None, limit: int) -> QueryPage[T]:
        """Query the table for at most `limit` items after this position. None means from the first item on."""
        return self.shop.table.query(self.pattern, limit=limit, after=after, **self._arguments)

    def page(self, items: Iterable[A], after: str | None) -> ListPage[A]:
        """Return a page with these items. `after`: the position after which the next page starts."""
        return ListPage(tuple(items), self.seal(after))

    def seal(self, after: str | None) -> str | None:
        """Return the cursor of the page that starts after this position. None means that there is no such page."""
        return None if after is None else encode_cursor(self._key, after, *self._binding)

    @property
    def _key(self) -> bytes:
        return self.shop.digest(f"cursors {cursors.KEY_VERSION}")

    @property
    def _binding(self) -> tuple[str, ...]:
        arguments = (f"{name}={value}" for name, value in sorted(self._arguments.items()))
        return (self.request.caller.id, self.pattern.id, *arguments, *self.filters)

    @property
    def _arguments(self) -> dict[str, str]:
        return {"since": self.request.since or "", "until": self.request.until or "", **self.known}


def read_page(shop: ShopContext, request: ListRequest, pattern: Query[T], *filters: str, **known: str) -> ListPage[T]:
    """Return a page of an access pattern's items, with the cursor of the next page.

    `known`: the values of the access pattern's fields. `filters`: the values by which the caller leaves out items.
    Raises InvalidCursor if the request's cursor was made for another caller or another list.
    """
    paged = PagedQuery(shop, request, pattern, known, filters)
    found = paged.query(request.limit)
    return paged.page(found.items, found.after)
