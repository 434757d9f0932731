"""Reads a list of the shop to its end."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from functions.shop.lists import ListPage, ListRequest
from functions.shop.shop import Caller
from proof.support.actors import STAFF

T = TypeVar("T")


def every_page(ask: Callable[[ListRequest], ListPage[T]], limit: int, caller: Caller = STAFF) -> list[T]:
    """Return the items of all pages. Assert that no page exceeds the limit."""
    found = list[T]()
    request: ListRequest | None = ListRequest(caller, limit)
    while request:
        page = ask(request)
        assert len(page.items) <= limit
        found += page.items
        request = replace(request, cursor=page.cursor) if page.cursor else None
    return found
