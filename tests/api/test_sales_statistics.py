"""Tests the best sellers, which all users see, and the sales figures, which only staff see."""

from dataclasses import replace

import pytest

from functions.dynamodb.writes import put_if_absent
from functions.model.table import BEST_SELLER, SALES_MINUTE
from functions.model.totals import season_of
from proof.support.http_client import STAFF, ApiHarness
from proof.support.samples import SAMPLES, moment


@pytest.fixture
def sold(bare: ApiHarness) -> ApiHarness:
    """Write the sales of three products in this month, of one product in an earlier month, and of three minutes."""
    season = season_of(bare.shop.now_instant())
    for number, product_id in enumerate(("pot", "mug", "cup"), 1):
        seller = replace(SAMPLES[BEST_SELLER], product_id=product_id, season=season, pieces=number)
        bare.shop.table.write(put_if_absent(BEST_SELLER, seller))
        minute = replace(SAMPLES[SALES_MINUTE], shard=str(number), minute=moment(number), pieces=number)
        bare.shop.table.write(put_if_absent(SALES_MINUTE, minute))
    bare.shop.table.write(put_if_absent(BEST_SELLER, replace(SAMPLES[BEST_SELLER], season="2020-02", pieces=9)))
    return bare


def test_all_users_see_the_best_sellers_but_not_the_units(sold: ApiHarness) -> None:
    first = sold.call("GET", "/best-sellers", limit=2).body
    assert first["items"] == [{"product_id": "cup"}, {"product_id": "mug"}]
    rest = sold.call("GET", "/best-sellers", limit=2, cursor=first["cursor"]).body
    assert rest == {"items": [{"product_id": "pot"}], "cursor": None}
    assert sold.call("GET", "/best-sellers", season="2020-02").body["items"] == [{"product_id": "mug"}]


def test_staff_sees_how_much_of_it_was_sold(sold: ApiHarness) -> None:
    found = sold.call("GET", "/insight/best-sellers", STAFF, limit=1).body
    assert found["items"] == [{"product_id": "cup", "season": season_of(sold.shop.now_instant()), "pieces": 3}]
    found = sold.call("GET", "/insight/products/mug", STAFF).body
    assert [(one["season"], one["pieces"]) for one in found["items"]] == [
        (season_of(sold.shop.now_instant()), 2),
        ("2020-02", 9),
    ]
