"""Tests the best sellers and figures for staff, merged from all shards, and the sales of products and to customers."""

from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.writes import put_if_absent, put_if_newer
from functions.model.entities import SALES_MINUTE_SHARDS, SEASON_SHARDS, PurchasedLine, SalesMinute
from functions.model.table import BEST_SELLER, ORDER_SUMMARY, SALE, SALES_MINUTE
from functions.shop import sales_statistics
from functions.shop.lists import ListPage, ListRequest
from functions.shop.sales import list_purchases_of_customer, list_sales_of_product
from functions.shop.sales_statistics import MinuteSales
from functions.shop.shop import ShopContext
from proof.support.actors import ANN, STAFF
from proof.support.samples import SAMPLES, TTL, moment
from tests.support.pages import every_page

SEASON = SAMPLES[BEST_SELLER].season


def all_points(shop: ShopContext, limit: int, since: str = "", until: str = "") -> list[MinuteSales]:
    def read(request: ListRequest) -> ListPage[MinuteSales]:
        return sales_statistics.list_sales_minutes(shop, replace(request, since=since, until=until))

    return every_page(read, limit)


def part(shard: int, minute: int, currency: str = "EUR", **changed: Any) -> SalesMinute:
    numbers = {"orders": 1, "pieces": shard + 1, "revenue": 100 * (shard + 1)}
    return SalesMinute(shard=str(shard), minute=moment(minute), currency=currency, **{**numbers, "ttl": TTL, **changed})


def test_best_sellers_come_best_first_from_all_shards_page_after_page(shop: ShopContext) -> None:
    for pieces in range(1, 31):
        one = replace(SAMPLES[BEST_SELLER], product_id=f"p{pieces:02}", pieces=pieces * 5)
        shop.table.write(put_if_absent(BEST_SELLER, one))
    shop.table.write(
        put_if_absent(BEST_SELLER, replace(SAMPLES[BEST_SELLER], product_id="other month", season="2020-01"))
    )
    assert len({replace(SAMPLES[BEST_SELLER], product_id=f"p{n:02}").shard for n in range(1, 31)}) == SEASON_SHARDS.read
    found = every_page(lambda request: sales_statistics.list_best_sellers_with_pieces(shop, request, SEASON), 7)
    assert [(one.product_id, one.pieces) for one in found] == [
        (f"p{pieces:02}", pieces * 5) for pieces in range(30, 0, -1)
    ]


def test_a_product_with_more_returns_than_sales_is_not_listed(shop: ShopContext) -> None:
    for product_id, pieces in (("sold", 1), ("evens out", 0), ("came back", -2)):
        seller = replace(SAMPLES[BEST_SELLER], product_id=product_id, pieces=pieces)
        shop.table.write(put_if_absent(BEST_SELLER, seller))
    assert [one.product_id for one in sales_statistics.list_best_sellers(shop, ListRequest(ANN, 10), SEASON).items] == [
        "sold"
    ]
    assert sales_statistics.list_pieces_of_product(shop, ListRequest(STAFF, 10), "came back").items[0].pieces == -2


def test_a_product_shows_its_months_newest_first(shop: ShopContext) -> None:
    for season in ("2025-12", "2026-02", "2026-01"):
        shop.table.write(put_if_absent(BEST_SELLER, replace(SAMPLES[BEST_SELLER], season=season)))
    found = sales_statistics.list_pieces_of_product(shop, ListRequest(STAFF, 10), "mug").items
    assert [one.season for one in found] == ["2026-02", "2026-01", "2025-12"]


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
def test_the_parts_of_a_minute_are_one_point_wherever_a_page_ends(shop: ShopContext, limit: int) -> None:
    for minute in range(9):
        for shard in range(SALES_MINUTE_SHARDS.read):
            if minute % 3 or shard == minute % SALES_MINUTE_SHARDS.read:
                shop.table.write(put_if_absent(SALES_MINUTE, part(shard, minute)))
    shop.table.write(put_if_absent(SALES_MINUTE, part(2, 4, "USD")))
    found = all_points(shop, limit)
    assert [(point.minute, point.currency) for point in found] == sorted(
        [*((moment(minute), "EUR") for minute in range(9)), (moment(4), "USD")]
    )
    shards = SALES_MINUTE_SHARDS.read
    pieces = shards * (shards + 1) // 2  # 1 piece in the first shard, 2 in the second, and so on
    assert found[1] == MinuteSales(moment(1), "EUR", orders=shards, pieces=pieces, revenue=100 * pieces)


def test_two_orders_of_one_minute_are_both_counted_and_a_range_takes_its_first_minute_only(
    shop: ShopContext,
) -> None:
    for minute in range(4):
        shop.table.write(put_if_absent(SALES_MINUTE, part(0, minute)), put_if_absent(SALES_MINUTE, part(3, minute)))
    found = all_points(shop, 10, since=moment(1), until=moment(3))
    assert [(point.minute, point.orders) for point in found] == [(moment(1), 2), (moment(2), 2)]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_expired_points_that_still_exist_are_ignored(shop: ShopContext, limit: int) -> None:
    for minute in range(40):
        for shard in range(SALES_MINUTE_SHARDS.read):
            # One shard's items expire later. The pages of the other shards are empty, and end at other positions.
            shop.table.write(
                put_if_absent(SALES_MINUTE, part(shard, minute, ttl=TTL if minute > 30 or shard == 1 else 1))
            )
    found = all_points(shop, limit)
    assert [point.minute for point in found] == [moment(minute) for minute in range(40)]
    assert [point.orders for point in found] == [1] * 31 + [SALES_MINUTE_SHARDS.read] * 9


# sales and purchases --------------------------------------------------------------------------------------------------
@pytest.fixture
def sold(shop: ShopContext) -> ShopContext:
    """A shop in which Ann bought four mugs, one each minute."""
    for number in range(4):
        sale = replace(SAMPLES[SALE], order_id=f"o{number}", placed_at=moment(number))
        shop.table.write(put_if_absent(SALE, sale))
        summary = replace(SAMPLES[ORDER_SUMMARY], order_id=f"o{number}", placed_at=moment(number))
        shop.table.write(put_if_absent(ORDER_SUMMARY, summary))
    return shop


def test_a_sale_without_sold_pieces_is_not_listed(sold: ShopContext) -> None:
    (sale,) = list_sales_of_product(sold, ListRequest(STAFF, 10, since=moment(2), until=moment(3)), "mug").items
    sold.table.write(put_if_newer(SALE, replace(sale, quantity=0, version=sale.version + 1)))
    page = list_sales_of_product(sold, ListRequest(STAFF, 2), "mug")
    assert [one.order_id for one in page.items] == ["o3"]
    rest = list_sales_of_product(sold, ListRequest(STAFF, 2, page.cursor), "mug")
    assert [one.order_id for one in rest.items] == ["o1", "o0"]


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
