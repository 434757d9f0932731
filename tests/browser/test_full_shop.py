"""Tests the page in a shop with orders of three years: each view reads few pages of data, however many there are."""

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from ops.api_client import ApiClient
from tests.browser.conftest import PATIENCE_MS, Tab
from tests.laptop.conftest import LaptopShop, run_local

ORDERS = 1500
"""Enough for several pages of customers and of orders."""
A_NAME = re.compile(r"/products/[^/?]+$")
"""The path of one product. The list of best sellers has no names, so the page requests each product."""
MOST_NAMES = 10
MOST_PAGES_OF_SALES = 30


@pytest.fixture(scope="module")
def shop(separate_shop: LaptopShop) -> LaptopShop:
    """A shop that `make fill` filled."""
    run_local(separate_shop.state, "fill", "--orders", str(ORDERS), "--seed", "1").check_returncode()
    return separate_shop


@pytest.fixture(scope="module")
def open_order(staff: ApiClient) -> dict[str, Any]:
    order: dict[str, Any] = staff.get("/orders?status=SHIPPED&limit=1")["items"][0]
    return order


def requested_lists(tab: Tab) -> list[tuple[str, str]]:
    """Return the path and the limit of each requested list, once: the board repeats its requests."""
    addresses = {urlsplit(one.split()[1]) for one in tab.seen.requests if "/api/" in one}
    lists = [(one.path.removeprefix("/api"), parse_qs(one.query).get("limit", ["?"])[0]) for one in addresses]
    return sorted(one for one in lists if not A_NAME.search(one[0]))


def requested_names(tab: Tab) -> int:
    return sum(bool(A_NAME.search(urlsplit(one.split()[1]).path)) for one in tab.seen.requests)


CATEGORIES, MY_ORDERS = ("/categories/descendants", "100"), ("/customers/me/orders", "10")
BOARD = [*[("/orders", "100")] * 7, ("/orders", "20")]
"""The requests of the board: a count for each of the seven states, and the list."""


@pytest.mark.parametrize(
    ("view", "shows", "lists"),
    [
        # The root and Garden have no products, and Pots has too few. So the page reads four categories.
        ("shop", ".product", [CATEGORIES, MY_ORDERS, *[("/products", "12")] * 4]),
        ("shop?category=/kitchen/mugs/", ".product", [CATEGORIES, MY_ORDERS, ("/products", "12")]),
        ("shop?search=blue", ".product", [CATEGORIES, MY_ORDERS, *[("/products", "100")] * 17]),
        ("board?status=SHIPPED", "tbody tr", BOARD),
        ("board?status=SHIPPED&order=oldest", "tbody tr", BOARD),
        ("customers", "tbody tr", [("/customers", "20")]),
        ("customers?list=companies", "tbody tr", [("/companies", "20")]),
        ("customers?list=discounts", "tbody tr", [("/discounts", "20")]),
        ("customers/{customer_id}", "tbody tr", [("/customers/{customer_id}/page", "10")]),
        (
            "orders/{order_id}",
            ".order-head dl",
            [("/orders/{order_id}/diagnosis", "?"), ("/orders/{order_id}/whole", "100")],
        ),
        ("flow", "h1", []),
        ("table", "form[aria-label]", []),
    ],
)  # fmt: skip
def test_a_view_reads_few_pages_of_a_full_shop(
    tab: Tab, open_order: dict[str, Any], view: str, shows: str, lists: list[tuple[str, str]]
) -> None:
    names = {name: open_order[name] for name in ("order_id", "customer_id")}
    if view.startswith("orders"):
        tab.page.add_init_script("sessionStorage.setItem('orderstream.person', 'staff')")
    tab.open(view.format(**names))
    expect(tab.page.locator(shows).first).to_be_visible()
    expect(tab.page.locator(".loading")).to_have_count(0)
    if view.startswith("board"):
        expect(tab.page.locator(".board-count:empty")).to_have_count(0)
    assert requested_lists(tab) == [(path.format(**names), limit) for path, limit in lists]
    assert requested_names(tab) == 0


def test_an_order_without_spans_shows_its_steps(tab: Tab, open_order: dict[str, Any]) -> None:
    tab.page.add_init_script("sessionStorage.setItem('orderstream.person', 'staff')")
    tab.open(f"orders/{open_order['order_id']}")
    steps = tab.page.get_by_role("region", name="Steps without spans")
    for step in ("Order placed", "Order paid", "Invoice", "Parcel requested", "Order shipped"):
        expect(steps).to_contain_text(step)


def test_sales_of_a_month_are_read_in_pages_up_to_a_limit(tab: Tab) -> None:
    tab.open("insight?range=month")
    expect(tab.page.get_by_role("slider")).to_have_count(3, timeout=3 * PATIENCE_MS)
    expect(tab.page.locator(".loading")).to_have_count(0)
    lists = requested_lists(tab)
    pages = lists.count(("/insight/sales-by-minute", "100"))
    assert 1 <= pages <= MOST_PAGES_OF_SALES
    assert [one for one in lists if one[0] != "/insight/sales-by-minute"] == [("/insight/best-sellers", "10")]
    assert requested_names(tab) <= MOST_NAMES


def test_pages_of_customers_follow_each_other_without_a_gap(tab: Tab) -> None:
    page = tab.page
    tab.open("customers")
    rows = page.locator("tbody tr")
    for count in (20, 40, 60):
        expect(rows).to_have_count(count)
        page.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(80)
    links = rows.locator("th a").evaluate_all("(all) => all.map((one) => one.title)")
    assert len(set(links)) == 80
    newest = [int(link.removeprefix("seed-")) for link in links]
    assert newest == sorted(newest, reverse=True)


def test_the_board_can_be_limited_to_a_range_of_time(tab: Tab) -> None:
    page = tab.page
    tab.open("board?status=SHIPPED")
    expect(page.locator("tbody tr").first).to_be_visible()
    newest = page.locator("tbody time").first.get_attribute("datetime")
    assert newest is not None
    page.get_by_label("Before").fill(page.evaluate("(at) => new Date(at).toISOString().slice(0, 16)", newest))
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_role("link", name="All times").wait_for()
    expect(page.locator(".loading")).to_have_count(0)
    left = page.locator("tbody time").evaluate_all("(all) => all.map((one) => one.dateTime)")
    assert all(at < newest for at in left)
