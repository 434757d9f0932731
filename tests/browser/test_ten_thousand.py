"""The page where there are ten thousand orders: each view opens at once, and reads one page of data."""

import re
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from functions.dynamodb.keys import Row, to_instant
from functions.dynamodb.writes import put_if_absent
from functions.model.table import ORDER, ORDER_SUMMARY, PRODUCT, STOCK
from local.demo import DemoClients
from local.shop_client import RunningShop
from tests.browser.conftest import Tab
from tests.laptop.conftest import LaptopShop
from tests.support.samples import SAMPLES

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("loopback_only")]
MANY, PRODUCTS, BATCH = 10_000, 200, 25
A_NAME = re.compile(r"/api/products/[^/?]+$")
"""The accessible name of a product in a list."""
UNNOTICED = """
    CREATE TRIGGER unnoticed BEFORE INSERT ON _stream_records WHEN NEW.keys_json LIKE '%many-%'
    BEGIN SELECT RAISE(IGNORE); END
"""
"""A trigger in the engine's database. While it exists, writes of these items make no stream record."""


@pytest.fixture(scope="module")
def many(shop: LaptopShop) -> None:
    """Alice has ordered ten thousand times, of two hundred products; all are on their way, so that none lapses."""
    running = shop.shop()
    alice, now = DemoClients(running).customer_id, datetime.now(UTC)
    items: list[tuple[Row[Any], Any]] = []
    for number in range(MANY):
        mine: dict[str, Any] = {"order_id": f"many-{number:05}", "customer_id": alice, "status": "SHIPPED"}
        mine["version"] = 4  # it was placed, paid and packed before
        mine["placed_at"] = to_instant(now - timedelta(minutes=number))
        items.append((ORDER, replace(SAMPLES[ORDER], **mine)))
        items.append((ORDER_SUMMARY, replace(SAMPLES[ORDER_SUMMARY], **mine)))
    for number in range(PRODUCTS):
        id = f"many-{number:05}"
        items.append((PRODUCT, replace(SAMPLES[PRODUCT], product_id=id, parts=1, category="/")))
        items.append((STOCK, replace(SAMPLES[STOCK], product_id=id, part=0)))
    with closing(sqlite3.connect(running.engine.database, timeout=30, isolation_level=None)) as database:
        database.execute(UNNOTICED)
        _write(running, items)
        database.execute("DROP TRIGGER unnoticed")


def _write(running: RunningShop, items: list[tuple[Row[Any], Any]]) -> None:
    client = running.engine.dynamodb()
    images = [put_if_absent(row, item).request["Item"] for row, item in items]
    for start in range(0, len(images), BATCH):
        requests: Any = [{"PutRequest": {"Item": image}} for image in images[start : start + BATCH]]
        assert not client.batch_write_item(RequestItems={running.table_name: requests})["UnprocessedItems"]


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize(
    ("view", "shows", "asks"),
    [
        ("shop", ".product", {"/products": "12", "/customers/me/orders": "10"}),
        ("board?status=SHIPPED", "tbody tr", {"/orders": "20"}),
        ("board?status=SHIPPED&order=oldest", "tbody tr", {"/orders": "20"}),
        ("flow", "tbody tr", {}),
        ("table", "form[aria-label]", {}),
        ("insight", ".insight-view .stack .stack > *", {"/insight/best-sellers": "10", "/insight/metrics": "100"}),
        ("orders/many-05000", ".story-head dl", {"/orders/many-05000/whole": "100"}),
    ],
)
def test_a_view_opens_at_once_and_reads_one_page(tab: Tab, view: str, shows: str, asks: dict[str, str]) -> None:
    page = tab.page
    tab.open(view)  # the functions are warm, and the users are registered
    page.locator(shows).first.wait_for()
    page.locator(".loading").first.wait_for(state="detached")
    page.goto("about:blank")
    tab.seen.requests.clear()
    began = time.monotonic()
    page.goto(f"{tab.url}/#/{view}")
    page.locator(shows).first.wait_for()
    milliseconds = (time.monotonic() - began) * 1000
    print(f"\n{view}: {milliseconds:.0f} ms")
    page.locator(".loading").first.wait_for(state="detached")
    asked = [urlsplit(one.split()[1]) for one in tab.seen.requests if "/api/" in one and not A_NAME.search(one)]
    found = {address.path.removeprefix("/api"): parse_qs(address.query)["limit"][0] for address in asked}
    assert found == asks
    assert len(asked) == len(found), "each list is asked for once"


@pytest.mark.usefixtures("many")
def test_pages_of_the_board_follow_each_other_without_a_gap(tab: Tab) -> None:
    page = tab.page
    tab.open("board?status=SHIPPED&order=newest")

    def shown() -> list[str]:
        page.locator("tbody tr").first.wait_for()
        return list(page.locator("tbody th a").evaluate_all("(all) => all.map((one) => one.title)"))

    seen: list[str] = []
    for number in range(1, 5):
        page.get_by_text(f"Page {number}", exact=True).wait_for()
        seen += [id for id in shown() if re.match("many-", id)]
        page.get_by_role("button", name="Next page").click()
    assert seen == [f"many-{number:05}" for number in range(len(seen))]
    assert len(seen) > 60
    page.get_by_role("button", name="Previous page").click()
    page.get_by_text("Page 4", exact=True).wait_for()
    assert shown()[-1] == seen[-1]


@pytest.mark.usefixtures("many")
def test_the_board_can_be_limited_to_a_range_of_time(tab: Tab) -> None:
    page = tab.page
    day = datetime.now().astimezone() - timedelta(days=3)
    tab.open("board?status=SHIPPED")
    page.get_by_label("Placed from").fill(f"{day:%Y-%m-%dT%H:%M}")
    page.get_by_label("Placed before").fill(f"{day + timedelta(minutes=5):%Y-%m-%dT%H:%M}")
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_role("link", name="All times").wait_for()
    page.locator("tbody tr").first.wait_for()
    assert page.locator("tbody tr").count() == 5
