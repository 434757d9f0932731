"""Tests lists by date: the edges of their ranges, results beyond one megabyte, and cursors bound to their user."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from functions.dynamodb.keys import Instant, Row, to_instant
from functions.model import table as t
from functions.model.entities import PurchasedLine
from proof.support.http_client import ANN, BOB, STAFF, ApiHarness, HandlerResponse, Token
from proof.support.samples import SAMPLES, order

SALE, SUMMARY = SAMPLES[t.SALE], SAMPLES[t.ORDER_SUMMARY]
INVOICE, ACTIVITY = SAMPLES[t.INVOICE], SAMPLES[t.ACTIVITY]
REVIEW, MAIL = SAMPLES[t.REVIEW], SAMPLES[t.NOTIFICATION]
FAR = 4_000_000_000
"""A value of the attribute `ttl` after all times of these tests."""
OTHER_STAFF = Token("staff-2", ("staff",))
FAT = "x" * 60_000
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Dated:
    """A list by date: its path, its caller, the declaration of its items, and the field that identifies an item.

    `beside`: paths and callers of other lists. `item`: makes an item from a number and a time. `fat`: a field of its
    items that can be long. `fat_value`: a long value of this field.
    """

    path: str
    token: Token
    row: Row[Any]
    item: Callable[[int, Instant], Any]
    id: str
    beside: tuple[tuple[str, Token], ...]
    query: tuple[tuple[str, str], ...] = ()
    fat: str = "name"
    fat_value: Any = FAT

    def put(self, api: ApiHarness, *moments: str, **fat: Any) -> None:
        """Write one numbered item for each of these times."""
        for number, moment in enumerate(moments):
            item = replace(self.item(number, Instant(moment)), **fat)
            api.shop.table.client.put_item(TableName=api.shop.table.name, Item=self.row.encode(item))

    def ask(self, api: ApiHarness, token: Token | None = None, **query: Any) -> HandlerResponse:
        return api.call("GET", self.path, token or self.token, **dict(self.query), **query)

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
        (("/customers/me/activity", BOB), ("/customers/ann/activity", STAFF)),
        fat="event",
    ),
    "A9 reviews of a product": Dated(
        "/products/mug/reviews",
        ANN,
        t.REVIEW,
        lambda number, at: replace(REVIEW, customer_id=f"c{number:05}", text=f"text {number:05}", written_at=at),
        "text",
        (("/products/pot/reviews", ANN),),
        fat="order_id",
    ),
    "A9b reviews of a customer": Dated(
        "/customers/me/reviews",
        ANN,
        t.REVIEW,
        lambda number, at: replace(REVIEW, product_id=f"p{number:05}", written_at=at),
        "product_id",
        (("/customers/me/reviews", BOB), ("/customers/ann/reviews", STAFF)),
        fat="text",
    ),
    "A14 orders of a customer": Dated(
        "/customers/me/orders",
        ANN,
        t.ORDER_SUMMARY,
        lambda number, at: replace(SUMMARY, order_id=f"o{number:05}", placed_at=at),
        "order_id",
        (("/customers/me/orders", BOB), ("/customers/ann/orders", STAFF)),
        fat="lines",
        fat_value={"mug": PurchasedLine(name=FAT, quantity=1, price=1250)},
    ),
    "A25 notifications of a customer": Dated(
        "/customers/me/notifications",
        ANN,
        t.NOTIFICATION,
        lambda number, at: replace(MAIL, effect_id=f"e{number:05}", product_id=f"p{number:05}", at=at, ttl=FAR),
        "product_id",
        (("/customers/me/notifications", BOB), ("/customers/ann/notifications", STAFF)),
        fat="event",
    ),
    "A16 orders by status": Dated(
        "/orders",
        STAFF,
        t.ORDER,
        lambda number, at: order(order_id=f"o{number:05}", placed_at=at),
        "order_id",
        (("/orders", OTHER_STAFF),),
        (("status", "PENDING"),),
    ),
    "A17 sales of a product": Dated(
        "/products/mug/sales",
        STAFF,
        t.SALE,
        lambda number, at: replace(SALE, order_id=f"o{number:05}", placed_at=at),
        "order_id",
        (("/products/pot/sales", STAFF), ("/products/mug/sales", OTHER_STAFF)),
    ),
    "A18 products of a customer": Dated(
        "/customers/me/bought",
        ANN,
        t.ORDER_SUMMARY,
        lambda number, at: replace(SUMMARY, order_id=f"o{number:05}", placed_at=at),
        "order_id",
        (("/customers/me/bought", BOB), ("/customers/ann/bought", STAFF)),
        fat="lines",
        fat_value={"mug": PurchasedLine(name=FAT, quantity=1, price=1250)},
    ),
    "A20 invoices of a customer": Dated(
        "/customers/me/invoices",
        ANN,
        t.INVOICE,
        lambda number, at: replace(INVOICE, invoice_id=f"2026-{number:08}", order_id=f"o{number}", issued_at=at),
        "invoice_id",
        (("/customers/me/invoices", BOB), ("/customers/ann/invoices", STAFF)),
    ),
}
FAT_LISTS = {name: dated for name, dated in LISTS.items() if dated.row is not t.ORDER}  # its index has no long fields


@pytest.fixture(params=list(LISTS.values()), ids=list(LISTS))
def dated(request: pytest.FixtureRequest) -> Dated:
    """Return one of the lists. The tests run with each list."""
    return request.param  # type: ignore[no-any-return]


# the edges of a range -------------------------------------------------------------------------------------------------
RANGES = {  # by name: the requested start and end, and the first and the last time in the range
    "a day": ("2026-11-21", "2026-11-22", "2026-11-21T00:00:00.000Z", "2026-11-21T23:59:59.999Z"),
    "a month of 30 days": ("2026-11-01", "2026-12-01", "2026-11-01T00:00:00.000Z", "2026-11-30T23:59:59.999Z"),
    "a month of 31 days": ("2026-12-01", "2027-01-01", "2026-12-01T00:00:00.000Z", "2026-12-31T23:59:59.999Z"),
    "a february": ("2026-02-01", "2026-03-01", "2026-02-01T00:00:00.000Z", "2026-02-28T23:59:59.999Z"),
    "a february with a leap day": (
        "2028-02-01", "2028-03-01", "2028-02-01T00:00:00.000Z", "2028-02-29T23:59:59.999Z",
    ),
    "a leap day": ("2028-02-29", "2028-03-01", "2028-02-29T00:00:00.000Z", "2028-02-29T23:59:59.999Z"),
    "a year": ("2028-01-01", "2029-01-01", "2028-01-01T00:00:00.000Z", "2028-12-31T23:59:59.999Z"),
    "a minute": (
        "2026-11-21T09:30:00Z", "2026-11-21T09:31:00Z", "2026-11-21T09:30:00.000Z", "2026-11-21T09:30:59.999Z",
    ),
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


def test_days_that_follow_each_other_hold_everything_once(api: ApiHarness, dated: Dated) -> None:
    moments = [
        "2028-02-28T23:59:59.999Z", "2028-02-29T00:00:00.000Z", "2028-02-29T12:00:00.000Z",
        "2028-02-29T23:59:59.999Z", "2028-03-01T00:00:00.000Z", "2028-03-01T23:59:59.999Z",
    ]  # fmt: skip
    dated.put(api, *moments)
    days = ["2028-02-28", "2028-02-29", "2028-03-01", "2028-03-02"]
    assert [dated.found(api, from_=one, to=next_) for one, next_ in pairwise(days)] == [[0], [3, 2, 1], [5, 4]]


@pytest.mark.parametrize("at", ["2026-11-21", "2026-11-21T09:30:00Z"])
def test_a_range_that_begins_where_it_ends_is_malformed(api: ApiHarness, dated: Dated, at: str) -> None:
    assert list(dated.ask(api, from_=at, to=at).field_errors) == ["from"]


@pytest.mark.parametrize("moment", ["2026-02-29", "2026-11-31", "2026-11-21T24:00:00Z", "2028-02-30"])
def test_a_day_that_there_is_not_is_malformed(api: ApiHarness, dated: Dated, moment: str) -> None:
    assert list(dated.ask(api, from_=moment).field_errors) == ["from"]
    assert list(dated.ask(api, to=moment).field_errors) == ["to"]


def test_a_range_that_ends_before_it_begins_is_malformed(api: ApiHarness, dated: Dated) -> None:
    assert dated.ask(api, from_="2028-03-01", to="2028-02-29").field_errors == {"from": "must be before to"}


def test_the_list_of_ones_own_orders_takes_a_range_too(api: ApiHarness) -> None:
    LISTS["A14 orders of a customer"].put(api, "2026-11-20T23:59:59.999Z", "2026-11-21T00:00:00.000Z")
    found = api.call("GET", "/orders", ANN, from_="2026-11-21", to="2026-11-22").body["items"]
    assert [one["order_id"] for one in found] == ["o00001"]


# lists of more than a megabyte ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", FAT_LISTS)
def test_beyond_a_megabyte_every_item_of_a_range_comes_once(api: ApiHarness, name: str) -> None:
    dated = FAT_LISTS[name]
    minutes = [f"2028-02-29T23:{minute:02}:59.999Z" for minute in range(60)]
    dated.put(api, "2028-02-28T23:59:59.999Z", *minutes, "2028-03-01T00:00:00.000Z", **{dated.fat: dated.fat_value})
    pages = list(dated.pages(api, limit=100, from_="2028-02-29", to="2028-03-01"))
    assert [number for page in pages for number in page] == list(range(60, 0, -1))
    assert 60 * len(FAT) > 3 * MEGABYTE
    assert len(pages) > 3
    assert max(map(len, pages)) * len(FAT) <= MEGABYTE


def test_items_of_one_instant_are_listed_once_at_every_page_size(api: ApiHarness, dated: Dated) -> None:
    dated.put(api, *["2028-02-29T23:59:59.999Z"] * 7)
    for limit in (1, 2, 3, 7):
        pages = list(dated.pages(api, limit=limit, from_="2028-02-29", to="2028-03-01"))
        assert [number for page in pages for number in page] == [6, 5, 4, 3, 2, 1, 0]
        assert all(len(page) <= limit for page in pages)


def test_an_item_written_during_paging_moves_no_page(api: ApiHarness, dated: Dated) -> None:
    dated.put(api, *(f"2028-02-29T10:00:0{second}.000Z" for second in range(5)))
    pages = dated.pages(api, limit=2)
    seen = next(pages)
    late = dated.item(5, Instant("2028-02-29T10:00:09.000Z"))
    api.shop.table.client.put_item(TableName=api.shop.table.name, Item=dated.row.encode(late))
    assert seen + [number for page in pages for number in page] == [4, 3, 2, 1, 0]


def test_a_list_of_a_range_is_one_request_per_page_regardless_of_other_items(api: ApiHarness, dated: Dated) -> None:
    dated.put(api, *(f"2028-02-{day:02}T10:00:00.000Z" for day in range(1, 30)))
    with api.record_requests() as sent:
        assert dated.found(api, from_="2028-02-29") == [28]
    assert sent == ["Query"] * (4 if dated.row is t.ORDER else 1)


# cursors --------------------------------------------------------------------------------------------------------------
@pytest.fixture
def cursor(api: ApiHarness, dated: Dated) -> str:
    """Return the cursor of a first page. More pages follow."""
    dated.put(api, *(f"2028-02-29T10:00:0{second}.000Z" for second in range(3)))
    return str(dated.ask(api, limit=1, **FEBRUARY).body["cursor"])


FEBRUARY: dict[str, Any] = {"from_": "2028-02-01", "to": "2028-03-01"}


def test_a_cursor_continues_after_its_page_with_any_limit(api: ApiHarness, dated: Dated, cursor: str) -> None:
    assert dated.found(api, limit=1, cursor=cursor, **FEBRUARY) == [1]
    assert dated.found(api, limit=100, cursor=cursor, **FEBRUARY) == [1, 0]


@pytest.mark.parametrize(
    "range_",
    [
        {},
        {"from_": "2028-02-01"},
        {"to": "2028-03-01"},
        {"from_": "2028-02-01", "to": "2028-03-02"},
        {"from_": "2028-01-31", "to": "2028-03-01"},
        {"from_": "2028-02-01", "to": "2028-03-01T00:00:00.001Z"},
    ],
    ids=str,
)
def test_a_cursor_is_of_no_other_range(api: ApiHarness, dated: Dated, cursor: str, range_: dict[str, Any]) -> None:
    assert list(dated.ask(api, cursor=cursor, **range_).field_errors) == ["cursor"]


def test_a_cursor_is_of_its_range_however_that_is_spelled(api: ApiHarness, dated: Dated, cursor: str) -> None:
    spelled: dict[str, Any] = {"from_": "2028-02-01T01:00:00+01:00", "to": "2028-03-01T00:00:00.0Z"}
    assert dated.found(api, cursor=cursor, **spelled) == [1, 0]


def test_a_cursor_is_of_no_other_caller_and_of_nothing_else(api: ApiHarness, dated: Dated, cursor: str) -> None:
    for path, token in dated.beside:
        other = api.call("GET", path, token, cursor=cursor, **dict(dated.query), **FEBRUARY)
        assert list(other.field_errors) == ["cursor"]


def test_a_cursor_is_of_no_other_list(api: ApiHarness, dated: Dated, cursor: str) -> None:
    for other in LISTS.values():
        if other is not dated and other.token is dated.token:
            assert list(other.ask(api, cursor=cursor, **FEBRUARY).field_errors) == ["cursor"]
    if dated.row is t.ORDER:
        assert list(api.call("GET", dated.path, STAFF, status="PAID", cursor=cursor, **FEBRUARY).field_errors) == [
            "cursor"
        ]
        oldest = dated.ask(api, order="oldest", cursor=cursor, **FEBRUARY)
        assert list(oldest.field_errors) == ["cursor"]


def test_a_cursor_that_was_changed_anywhere_is_refused(api: ApiHarness, dated: Dated, cursor: str) -> None:
    for place in range(0, len(cursor), 7):
        changed = cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]
        assert list(dated.ask(api, cursor=changed, **FEBRUARY).field_errors) == ["cursor"]
    for other in ("", "x", cursor[:-4], cursor * 2, "\N{SNOWMAN}"):
        assert list(dated.ask(api, cursor=other, **FEBRUARY).field_errors) == ["cursor"]
