"""Tests the best sellers and figures for staff: merged from all shards, in pages without losses and repeats."""

from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.writes import put_if_absent
from functions.model.entities import SALES_MINUTE_SHARDS, SEASON_SHARDS, SalesMinute
from functions.model.errors import NotAllowed
from functions.model.table import BEST_SELLER, SALES_MINUTE
from functions.shop import sales_statistics
from functions.shop.lists import ListRequest
from functions.shop.sales_statistics import MinuteSales
from functions.shop.shop import ShopContext
from proof.support.actors import ANN, STAFF, WAREHOUSE
from proof.support.samples import SAMPLES, TTL, moment

SEASON = SAMPLES[BEST_SELLER].season


def all_points(shop: ShopContext, limit: int, since: str = "", until: str = "") -> list[MinuteSales]:
    found: list[MinuteSales] = []
    cursor = None
    while True:
        page = sales_statistics.list_sales_minutes(shop, ListRequest(STAFF, limit, cursor, since=since, until=until))
        assert len(page.items) <= limit
        found += page.items
        if (cursor := page.cursor) is None:
            return found


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
    found: list[tuple[str, int]] = []
    cursor = None
    while True:
        page = sales_statistics.list_best_sellers_with_pieces(shop, ListRequest(STAFF, 7, cursor), SEASON)
        found += [(one.product_id, one.pieces) for one in page.items]
        if (cursor := page.cursor) is None:
            break
    assert found == [(f"p{pieces:02}", pieces * 5) for pieces in range(30, 0, -1)]


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


def test_two_orders_of_one_minute_are_both_counted_and_f23_a_range_takes_its_first_minute_only(
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


def test_figures_are_for_staff(shop: ShopContext) -> None:
    for caller in (ANN, WAREHOUSE):
        with pytest.raises(NotAllowed):
            sales_statistics.list_best_sellers_with_pieces(shop, ListRequest(caller, 10), SEASON)
        with pytest.raises(NotAllowed):
            sales_statistics.list_pieces_of_product(shop, ListRequest(caller, 10), "mug")
        with pytest.raises(NotAllowed):
            sales_statistics.list_sales_minutes(shop, ListRequest(caller, 10))
