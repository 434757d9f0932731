"""Tests sales: by product for staff, by customer for the buyer, from a time (included) to another time (excluded)."""

from dataclasses import replace

import pytest

from functions.dynamodb.writes import put_if_absent, put_if_newer
from functions.model.entities import PurchasedLine
from functions.model.errors import NotAllowed, NotFound
from functions.model.table import ORDER_SUMMARY, SALE
from functions.shop.lists import ListRequest
from functions.shop.sales import list_purchases_of_customer, list_sales_of_product
from functions.shop.shop import ShopContext
from proof.support.actors import ANN, BOB, STAFF, WAREHOUSE
from proof.support.samples import SAMPLES, moment


@pytest.fixture
def sold(shop: ShopContext) -> ShopContext:
    """A shop in which Ann bought four mugs, one each minute."""
    for number in range(4):
        sale = replace(SAMPLES[SALE], order_id=f"o{number}", placed_at=moment(number))
        shop.table.write(put_if_absent(SALE, sale))
        summary = replace(SAMPLES[ORDER_SUMMARY], order_id=f"o{number}", placed_at=moment(number))
        shop.table.write(put_if_absent(ORDER_SUMMARY, summary))
    return shop


def test_sales_of_a_product_are_for_staff_and_in_a_range_that_is_half_open(sold: ShopContext) -> None:
    found = list_sales_of_product(sold, ListRequest(STAFF, 10, since=moment(1), until=moment(3)), "mug")
    assert [sale.order_id for sale in found.items] == ["o2", "o1"]
    for caller in (ANN, WAREHOUSE):
        with pytest.raises(NotAllowed):
            list_sales_of_product(sold, ListRequest(caller, 10), "mug")


def test_purchases_are_shown_to_their_customer_and_staff_in_a_half_open_range(sold: ShopContext) -> None:
    for caller in (ANN, STAFF):
        found = list_purchases_of_customer(sold, ListRequest(caller, 10, since=moment(1), until=moment(3)), "ann")
        assert [sale.order_id for sale in found.items] == ["o2", "o1"]
    for caller in (BOB, WAREHOUSE):
        with pytest.raises(NotFound):
            list_purchases_of_customer(sold, ListRequest(caller, 10), "ann")
    assert list_purchases_of_customer(sold, ListRequest(BOB, 10), "bob").items == ()


def test_a_sale_without_sold_pieces_is_not_listed(sold: ShopContext) -> None:
    (sale,) = list_sales_of_product(sold, ListRequest(STAFF, 10, since=moment(2), until=moment(3)), "mug").items
    sold.table.write(put_if_newer(SALE, replace(sale, quantity=0, version=sale.version + 1)))
    page = list_sales_of_product(sold, ListRequest(STAFF, 2), "mug")
    assert [one.order_id for one in page.items] == ["o3"]
    rest = list_sales_of_product(sold, ListRequest(STAFF, 2, page.cursor), "mug")
    assert [one.order_id for one in rest.items] == ["o1", "o0"]


def test_an_expired_sale_is_not_listed(sold: ShopContext) -> None:
    (sale,) = list_sales_of_product(sold, ListRequest(STAFF, 10, since=moment(2), until=moment(3)), "mug").items
    ended = replace(sale, ttl=int(sold.now().timestamp()), version=sale.version + 1)
    sold.table.write(put_if_newer(SALE, ended))
    assert [one.order_id for one in list_sales_of_product(sold, ListRequest(STAFF, 10), "mug").items] == [
        "o3",
        "o1",
        "o0",
    ]


@pytest.mark.parametrize("lines", [None, {"mug": PurchasedLine(name="Mug", quantity=0, price=1250)}])
def test_an_order_without_sold_pieces_is_no_purchase(sold: ShopContext, lines: dict[str, PurchasedLine] | None) -> None:
    summary = replace(SAMPLES[ORDER_SUMMARY], order_id="o2", placed_at=moment(2), lines=lines, version=9)
    sold.table.write(put_if_newer(ORDER_SUMMARY, summary))
    page = list_purchases_of_customer(sold, ListRequest(ANN, 2), "ann")
    assert [one.order_id for one in page.items] == ["o3"]
    rest = list_purchases_of_customer(sold, ListRequest(ANN, 2, page.cursor), "ann")
    assert [one.order_id for one in rest.items] == ["o1", "o0"]


def test_a_purchase_shows_its_products_sorted_by_id_without_those_that_were_not_sold(sold: ShopContext) -> None:
    lines = {
        "pot": PurchasedLine(name="Pot", quantity=1, price=990, returned=1),
        "mug": PurchasedLine(name="Mug", quantity=2, price=1250),
        "cup": PurchasedLine(name="Cup", quantity=0, price=450),
    }
    summary = replace(SAMPLES[ORDER_SUMMARY], order_id="o2", placed_at=moment(2), lines=lines, version=9)
    sold.table.write(put_if_newer(ORDER_SUMMARY, summary))
    (purchase,) = list_purchases_of_customer(sold, ListRequest(ANN, 10, since=moment(2), until=moment(3)), "ann").items
    assert [(one.product_id, one.quantity, one.returned, one.price) for one in purchase.products] == [
        ("mug", 2, 0, 1250),
        ("pot", 1, 1, 990),
    ]
