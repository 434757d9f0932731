"""Tests the lists of all orders, documents, payments and refunds, for staff."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.keys import Row
from functions.dynamodb.writes import put_if_absent
from functions.model import table as t
from functions.model.entities import FeedEntry, Order, OrderNumber
from functions.shop import feed
from functions.shop.lists import ListPage, ListRequest
from functions.shop.shop import ShopContext
from proof.support.actors import STAFF
from proof.support.samples import SAMPLES, archived_order, moment, order, payment, refund
from tests.support.pages import every_page

List = Callable[..., ListPage[Any]]


def put_orders(shop: ShopContext, *orders: Order) -> None:
    for one in orders:
        number = OrderNumber(order_id=one.order_id, placed_at=one.placed_at, version=1)
        shop.table.write(put_if_absent(t.ORDER, one), put_if_absent(t.ORDER_NUMBER, number))


def put_money(shop: ShopContext, number: int) -> None:
    items: list[tuple[Row[Any], Any]] = [
        (t.INVOICE, replace(SAMPLES[t.INVOICE], invoice_id=f"n{number}", issued_at=moment(number))),
        (t.PAYMENT, replace(payment(), payment_id=f"n{number}")),
        (t.REFUND, replace(refund(), refund_id=f"n{number}")),
        *(
            (t.FEED_ENTRY, FeedEntry(list=name, order_id="o1", id=f"n{number}", created_at=moment(number), version=1))
            for name in ("PAYMENTS", "REFUNDS")
        ),
    ]
    for row, item in items:
        shop.table.write(put_if_absent(row, item))


def read_all(shop: ShopContext, listed: List, limit: int = 2, since: str | None = None, **how: Any) -> list[Any]:
    return every_page(lambda request: listed(shop, replace(request, since=since), **how), limit)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_each_order_is_once_in_the_list_at_its_time_in_any_state(shop: ShopContext, count: int) -> None:
    states = ("DELIVERED", "PENDING", "CANCELLED")
    put_orders(shop, *(order(order_id=f"q{n}", status=states[n], placed_at=moment(n)) for n in range(count)))
    ids = [f"q{n}" for n in range(count)]
    assert [one.order_id for one in read_all(shop, feed.list_orders, oldest_first=True)] == ids
    assert [one.order_id for one in read_all(shop, feed.list_orders, oldest_first=False)] == ids[::-1]
    later = read_all(shop, feed.list_orders, oldest_first=True, since=moment(1))
    assert [one.order_id for one in later] == ids[1:]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("listed", [feed.list_documents, feed.list_payments, feed.list_refunds])
def test_each_document_payment_and_refund_is_once_in_its_list_at_its_time(
    shop: ShopContext, listed: List, count: int
) -> None:
    for number in range(count):
        put_money(shop, number)

    def ids(**how: Any) -> list[str]:
        found = read_all(shop, listed, **how)
        return [one.entry.id if isinstance(one, feed.MoneyEntry) else one.invoice_id for one in found]

    assert ids(oldest_first=True) == [f"n{number}" for number in range(count)]
    assert ids(oldest_first=False) == [f"n{number}" for number in range(count)][::-1]
    assert ids(oldest_first=True, since=moment(1)) == [f"n{number}" for number in range(1, count)]


def test_an_archived_order_stays_and_its_payments_have_only_their_ids(shop: ShopContext) -> None:
    put_orders(shop, order())
    put_money(shop, 1)
    shop.table.client.put_item(TableName=shop.table.name, Item=t.ARCHIVED_ORDER.encode(archived_order()))
    shop.table.batch_delete([t.PAYMENT.key(order_id="o1", payment_id="n1")])
    (found,) = read_all(shop, feed.list_orders, oldest_first=True)
    assert found == archived_order()
    (entry,) = read_all(shop, feed.list_payments, oldest_first=True)
    assert (entry.entry.id, entry.item) == ("n1", None)


@pytest.mark.parametrize("wanted", [0, 1, 2, 3])
def test_orders_of_a_closed_state_are_found_among_the_others(shop: ShopContext, wanted: int) -> None:
    many = [order(order_id=f"q{n}", placed_at=moment(n)) for n in range(7)]
    put_orders(shop, *(replace(one, status="DELIVERED" if n < wanted else "PENDING") for n, one in enumerate(many)))
    found = read_all(shop, feed.list_orders, status="DELIVERED", oldest_first=False)
    assert [one.order_id for one in found] == [f"q{n}" for n in range(wanted)][::-1]
    page = feed.list_orders(shop, ListRequest(STAFF, 2), "DELIVERED", oldest_first=False)
    assert page.read - page.discarded == len(page.items) == min(wanted, 2)
    assert page.read == (7 if wanted < 2 else 7 - wanted + 2), "a full page stops to read"


def test_one_request_reads_a_bounded_number_of_orders(shop: ShopContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MAX_READ", 2)
    monkeypatch.setattr(feed, "CHUNK", 1)
    put_orders(shop, *(order(order_id=f"q{n}", placed_at=moment(n)) for n in range(4)))
    page = feed.list_orders(shop, ListRequest(STAFF, 1), "DELIVERED", oldest_first=True)
    assert (page.items, page.read, page.discarded) == ((), 2, 2)
    assert page.cursor
    assert read_all(shop, feed.list_orders, status="DELIVERED", oldest_first=True) == []


def test_an_unreadable_order_does_not_hide_the_others(shop: ShopContext) -> None:
    put_orders(shop, order(), order(order_id="o2"))
    odd = {**t.ORDER.encode(order()), "total": {"S": "many"}}
    shop.table.client.put_item(TableName=shop.table.name, Item=odd)
    seen: list[Any] = []
    shop.table.on_decode_error = lambda image, error: seen.append(image)
    assert [one.order_id for one in read_all(shop, feed.list_orders, oldest_first=True)] == ["o2"]
    assert seen == [odd]
