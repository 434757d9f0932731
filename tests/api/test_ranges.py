"""Tests lists by date: the edges of their ranges, and their pages. test_cursors.py tests their cursors."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from functions.api.http.paging import Timestamp
from functions.dynamodb.keys import Instant, Row, to_instant
from functions.model import table as t
from proof.support.http_client import ANN, STAFF, ApiHarness, HandlerResponse, Token
from proof.support.samples import SAMPLES, order

SALE, SUMMARY = SAMPLES[t.SALE], SAMPLES[t.ORDER_SUMMARY]
INVOICE, ACTIVITY = SAMPLES[t.INVOICE], SAMPLES[t.ACTIVITY]
REVIEW, MAIL = SAMPLES[t.REVIEW], SAMPLES[t.NOTIFICATION]
FAR = 4_000_000_000
"""A value of the attribute `ttl` after all times of these tests."""


@dataclass(frozen=True)
class Dated:
    """A list by date: its path, its caller, the declaration of its items, and the field that identifies an item.

    `item`: makes an item from a number and a time. `query`: the filters of the list.
    """

    path: str
    token: Token
    row: Row[Any]
    item: Callable[[int, Instant], Any]
    id: str
    query: tuple[tuple[str, str], ...] = ()

    def put(self, api: ApiHarness, *moments: str) -> None:
        """Write one numbered item for each of these times."""
        for number, moment in enumerate(moments):
            item = self.item(number, Instant(moment))
            api.shop.table.client.put_item(TableName=api.shop.table.name, Item=self.row.encode(item))

    def ask(self, api: ApiHarness, **query: Any) -> HandlerResponse:
        return api.call("GET", self.path, self.token, **dict(self.query), **query)

    def found(self, api: ApiHarness, **query: Any) -> list[int]:
        """Return the numbers of the items on a page."""
        answered = self.ask(api, **query)
        assert answered.status == 200, answered.text
        return [number_of(item[self.id]) for item in answered.body["items"]]

    def pages(self, api: ApiHarness, **query: Any) -> Iterator[list[int]]:
        """Yield each page as the numbers of its items."""
        cursor: dict[str, Any] = {}
        while True:
            said = self.ask(api, **query, **cursor).body
            yield [number_of(item[self.id]) for item in said["items"]]
            if said["cursor"] is None:
                return
            cursor = {"cursor": said["cursor"]}


def number_of(id: str) -> int:
    return int(id[-5:])


LISTS = {
    "A5 activity of a customer": Dated(
        "/customers/me/activity",
        ANN,
        t.ACTIVITY,
        lambda number, at: replace(ACTIVITY, change_id=f"c{number:05}", order_id=f"o{number:05}", at=at),
        "order_id",
    ),
    "A9 reviews of a product": Dated(
        "/products/mug/reviews",
        ANN,
        t.REVIEW,
        lambda number, at: replace(REVIEW, customer_id=f"c{number:05}", text=f"text {number:05}", written_at=at),
        "text",
    ),
    "A9b reviews of a customer": Dated(
        "/customers/me/reviews",
        ANN,
        t.REVIEW,
        lambda number, at: replace(REVIEW, product_id=f"p{number:05}", written_at=at),
        "product_id",
    ),
    "A14 orders of a customer": Dated(
        "/customers/me/orders",
        ANN,
        t.ORDER_SUMMARY,
        lambda number, at: replace(SUMMARY, order_id=f"o{number:05}", placed_at=at),
        "order_id",
    ),
    "A25 notifications of a customer": Dated(
        "/customers/me/notifications",
        ANN,
        t.NOTIFICATION,
        lambda number, at: replace(MAIL, effect_id=f"e{number:05}", product_id=f"p{number:05}", at=at, ttl=FAR),
        "product_id",
    ),
    "A16 orders by status": Dated(
        "/orders",
        STAFF,
        t.ORDER,
        lambda number, at: order(order_id=f"o{number:05}", placed_at=at),
        "order_id",
        (("status", "PENDING"),),
    ),
    "A17 sales of a product": Dated(
        "/products/mug/sales",
        STAFF,
        t.SALE,
        lambda number, at: replace(SALE, order_id=f"o{number:05}", placed_at=at),
        "order_id",
    ),
    "A18 products of a customer": Dated(
        "/customers/me/bought",
        ANN,
        t.ORDER_SUMMARY,
        lambda number, at: replace(SUMMARY, order_id=f"o{number:05}", placed_at=at),
        "order_id",
    ),
    "A20 invoices of a customer": Dated(
        "/customers/me/invoices",
        ANN,
        t.INVOICE,
        lambda number, at: replace(INVOICE, invoice_id=f"2026-{number:08}", order_id=f"o{number}", issued_at=at),
        "invoice_id",
    ),
}


@pytest.fixture(params=list(LISTS.values()), ids=list(LISTS))
def dated(request: pytest.FixtureRequest) -> Dated:
    """Return one of the lists. The tests run with each list."""
    return request.param  # type: ignore[no-any-return]


# the edges of a range -------------------------------------------------------------------------------------------------
RANGES = {  # by name: the requested start and end, and the first and the last time in the range
    "a day": ("2026-11-21", "2026-11-22", "2026-11-21T00:00:00.000Z", "2026-11-21T23:59:59.999Z"),
    "a leap day": ("2028-02-29", "2028-03-01", "2028-02-29T00:00:00.000Z", "2028-02-29T23:59:59.999Z"),
    "a millisecond": (
        "2026-11-21T09:30:00.5Z", "2026-11-21T09:30:00.501Z", "2026-11-21T09:30:00.500Z", "2026-11-21T09:30:00.500Z",
    ),
    "a day elsewhere": (
        "2026-11-21T00:00:00+01:00", "2026-11-22T00:00:00+01:00",
        "2026-11-20T23:00:00.000Z", "2026-11-21T22:59:59.999Z",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("since", "until", "first", "last"), RANGES.values(), ids=RANGES)
def test_a_range_holds_its_first_millisecond_and_its_last_and_none_beside(
    api: ApiHarness, dated: Dated, since: str, until: str, first: str, last: str
) -> None:
    dated.put(api, just(first, -1), first, last, just(last, 1))
    assert dated.found(api, from_=since, to=until) == [2, 1]
    assert dated.found(api, from_=since) == [3, 2, 1]
    assert dated.found(api, to=until) == [2, 1, 0]


def just(moment: str, milliseconds: int) -> str:
    """Return the time that is this number of milliseconds after `moment`."""
    return to_instant(datetime.fromisoformat(moment) + timedelta(milliseconds=milliseconds))


@pytest.mark.parametrize("at", ["2028-02-29", "2028-02-29T09:30:00Z"])
def test_a_range_that_ends_when_or_before_it_begins_is_malformed(api: ApiHarness, dated: Dated, at: str) -> None:
    for since in (at, "2028-03-01"):
        assert dated.ask(api, from_=since, to=at).field_errors == {"from": "must be before to"}


def test_a_day_that_there_is_not_is_malformed(api: ApiHarness, dated: Dated) -> None:
    assert list(dated.ask(api, from_="2026-02-29").field_errors) == ["from"]
    assert list(dated.ask(api, to="2026-11-31").field_errors) == ["to"]


@pytest.mark.parametrize(
    "moment",
    [
        "", "yesterday", "2026-13-01", "2026-02-30", "20261121", "2026-W47-6", "2026-11-21T09:30", "2026-11-21 09Z",
        "2026-11-21T09:30:00", "2026-11-21T24:00:00Z", "2026-11-21T09:30:00.0001Z", "0000-01-01", "1",
        "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "\uff12026-11-21", "2026-11-21#",
    ],
)  # fmt: skip
def test_a_malformed_day_or_time_is_rejected(moment: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Timestamp).validate_python(moment)


def test_the_list_of_ones_own_orders_takes_a_range_too(api: ApiHarness) -> None:
    LISTS["A14 orders of a customer"].put(api, "2026-11-20T23:59:59.999Z", "2026-11-21T00:00:00.000Z")
    found = api.call("GET", "/orders", ANN, from_="2026-11-21", to="2026-11-22").body["items"]
    assert [one["order_id"] for one in found] == ["o00001"]


# pages ----------------------------------------------------------------------------------------------------------------
def test_items_of_one_instant_are_listed_once_at_every_page_size(api: ApiHarness, dated: Dated) -> None:
    dated.put(api, *["2028-02-29T23:59:59.999Z"] * 7)
    for limit in (1, 2, 3, 7):
        pages = list(dated.pages(api, limit=limit, from_="2028-02-29", to="2028-03-01"))
        assert [number for page in pages for number in page] == [6, 5, 4, 3, 2, 1, 0]
        assert all(len(page) <= limit for page in pages)


def test_a_list_of_a_range_is_one_request_per_page_regardless_of_other_items(api: ApiHarness, dated: Dated) -> None:
    dated.put(api, *(f"2028-02-{day:02}T10:00:00.000Z" for day in range(1, 30)))
    with api.record_requests() as sent:
        assert dated.found(api, from_="2028-02-29") == [28]
    assert sent == ["Query"] * (4 if dated.row is t.ORDER else 1)


FEBRUARY: dict[str, Any] = {"from_": "2028-02-01", "to": "2028-03-01"}


def test_a_cursor_continues_after_its_page_with_any_limit_and_spelling_of_its_range(
    api: ApiHarness, dated: Dated
) -> None:
    dated.put(api, *(f"2028-02-29T10:00:0{second}.000Z" for second in range(3)))
    cursor = dated.ask(api, limit=1, **FEBRUARY).body["cursor"]
    assert dated.found(api, limit=1, cursor=cursor, **FEBRUARY) == [1]
    assert dated.found(api, limit=100, cursor=cursor, **FEBRUARY) == [1, 0]
    spelled: dict[str, Any] = {"from_": "2028-02-01T01:00:00+01:00", "to": "2028-03-01T00:00:00.0Z"}
    assert dated.found(api, cursor=cursor, **spelled) == [1, 0]
