"""The page as a person uses it: to buy, to watch an order, to work the board, to break the shop and see it recover."""

import re
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from local.demo import DemoClients
from tests.browser.conftest import PATIENCE_MS, Tab, layout_and_accessibility_problems
from tests.laptop.conftest import LaptopShop

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("loopback_only")]
expect.set_options(timeout=PATIENCE_MS)
VIEWS = ("flow", "shop", "board", "table", "insight")


def be(page: Page, name: str) -> None:
    page.get_by_label("You are").select_option(name)


def stocked(tab: Tab) -> None:
    """There is something to buy."""
    tab.open("shop")
    page = tab.page
    expect(page.get_by_role("button", name=re.compile("Add sample products|Add to basket")).first).to_be_visible()
    if page.get_by_role("button", name="Add sample products").is_visible():
        page.get_by_role("button", name="Add sample products").click()
    expect(page.get_by_role("button", name="Add to basket: Stoneware mug")).to_be_visible()


def placed(tab: Tab) -> str:
    """An order is placed; its id."""
    stocked(tab)
    page = tab.page
    page.get_by_role("button", name="Add to basket: Stoneware mug").click()
    page.get_by_role("button", name="Place order").click()
    expect(page.get_by_role("heading", name="Order placed")).to_be_focused()
    link = page.get_by_role("link", name="See its story").get_attribute("href")
    assert link is not None
    return link.rpartition("/")[2]


def paid(tab: Tab) -> str:
    order_id = placed(tab)
    tab.page.get_by_role("button", name=re.compile("^Pay ")).click()
    expect(tab.page.get_by_text("Paid. Invoice, parcel and mails follow")).to_be_visible()
    return order_id


def panel(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


# the whole way --------------------------------------------------------------------------------------------------------
def test_an_order_is_shipped_delivered_and_returned_at_the_board(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    be(page, "staff")
    tab.open("board?status=FULFILLING")
    row = page.get_by_role("row", name=order_id[:8])
    for _ in range(40):  # it is paid, and packed a moment later; the list is as it was when it was asked for
        page.locator(".loading").first.wait_for(state="detached")
        if row.count():
            break
        page.get_by_role("button", name="Refresh").click()
        page.wait_for_timeout(250)
    expect(row).to_be_visible()
    row.get_by_role("button", name=re.compile("^Ship")).click()
    page.get_by_role("button", name="Ship the parcel").click()
    row.get_by_role("button", name=re.compile("^Deliver")).click()
    page.get_by_role("button", name="Mark as delivered").click()
    row.get_by_role("button", name=re.compile("^Return")).click()
    page.get_by_label("Stoneware mug", exact=True).fill("1")
    page.get_by_role("button", name="Record the return").click()
    expect(row).to_contain_text("Returned")
    row.get_by_role("link").click()
    expect(panel(page, "Payments and refunds")).to_contain_text("Refund")


def test_an_order_is_found_at_the_board_by_the_number_of_its_mails(tab: Tab) -> None:
    page = tab.page
    order_id = placed(tab)
    be(page, "staff")
    tab.open("board?status=SHIPPED")
    finding = page.get_by_role("form", name="Find an order")
    row = page.get_by_role("row", name=order_id[:8])
    for _ in range(40):  # the number is found a moment after the order is placed
        finding.get_by_label("Order number").fill(order_id[:8].upper())
        finding.get_by_role("button", name="Find").click()
        expect(row.or_(page.get_by_text("No order has this number.")).first).to_be_visible()
        if row.count():
            break
        page.wait_for_timeout(250)
    expect(row).to_contain_text("Awaiting payment")
    finding.get_by_label("Order number").fill(order_id.upper())
    finding.get_by_role("button", name="Find").click()
    expect(row).to_contain_text("Awaiting payment")


def test_an_order_is_cancelled_after_a_confirmation(tab: Tab) -> None:
    page = tab.page
    order_id = placed(tab)
    be(page, "staff")
    tab.open("board?status=PENDING")
    row = page.get_by_role("row", name=order_id[:8])
    row.get_by_role("button", name=re.compile("^Cancel")).click()
    page.get_by_role("button", name="Keep the order").click()
    expect(row).to_contain_text("Awaiting payment")
    row.get_by_role("button", name=re.compile("^Cancel")).click()
    page.get_by_role("button", name="Cancel the order").click()
    expect(row).to_contain_text("Cancelled")


def test_the_basket_keeps_goods_that_no_loaded_page_shows(tab: Tab, shop: LaptopShop) -> None:
    """The vase is in another category than the page loads, as it could be on a later page of a long list."""
    staff = DemoClients(shop.shop()).staff
    staff.call("POST", "/categories", {"path": "/rare/", "name": "Rare"})
    vase = {"product_id": "vase", "name": "Glass vase", "price": 7700, "currency": "EUR", "category": "/rare/"}
    staff.call("POST", "/products", vase)
    staff.post("/products/vase/receipts", {"quantity": 10}, key="first-vases")
    stocked(tab)
    page = tab.page
    page.evaluate("sessionStorage.setItem('orderstream.basket', JSON.stringify([['vase', 2], ['never-sold', 1]]))")
    page.reload()
    lines = page.locator(".basket-lines li")
    expect(lines).to_have_count(1)
    expect(lines).to_contain_text("Glass vase")
    expect(page.locator(".basket .sum")).to_contain_text("154.00")
    page.get_by_role("button", name="Place order").click()
    expect(page.get_by_role("heading", name="Order placed")).to_be_focused()
    assert all("/api/products/never-sold" in error for error in tab.seen.errors), (
        "a product that does not exist leaves the basket"
    )
    tab.seen.errors.clear()


# best sellers ---------------------------------------------------------------------------------------------------------
def test_a_paid_order_is_counted_on_the_page(tab: Tab, shop: LaptopShop) -> None:
    page = tab.page
    stocked(tab)  # first: once the shop has a product, the page does not offer the sample products
    people = DemoClients(shop.shop())
    product = people.create_stocked_product(40)
    tab.open("insight?range=day")
    page.get_by_role("button", name="Update every 5 seconds").click()
    people.pay_order(people.place_order(product, quantity=40))
    best = panel(page, "Best sellers")
    best.get_by_text("Show as a table").click()
    expect(best.get_by_role("row").filter(has_text=product)).to_contain_text("40")
    expect(best.get_by_role("list").first.get_by_role("listitem").filter(has_text="Blue mug").first).to_contain_text(
        "40 pieces"
    )
    best.get_by_role("button", name="Blue mug, month by month").first.click()
    expect(page.get_by_role("dialog").get_by_role("listitem")).to_contain_text("40 pieces")
    page.keyboard.press("Escape")

    sold = panel(page, "Sold")
    chart = sold.get_by_role("img", name=re.compile(r"^Pieces per half hour, from .* in total, the maximum is in "))
    expect(chart).to_be_visible()
    assert int(re.findall(r": ([\d,]+) in total", chart.get_attribute("aria-label") or "")[0].replace(",", "")) >= 40
    expect(sold.get_by_role("img", name=re.compile("^Revenue in EUR per half hour"))).to_be_visible()
    sold.get_by_text("Show as a table").click()
    expect(sold.get_by_role("table").get_by_role("columnheader")).to_have_text(
        ["Time", "Orders", "Pieces", "Revenue in EUR"]
    )
    page.wait_for_timeout(6000)  # it was looked again meanwhile
    expect(sold.get_by_role("table")).to_be_visible()


def test_an_empty_range_and_a_failed_request_are_shown(tab: Tab) -> None:
    page = tab.page
    tab.open("insight?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z&best=2020-01")
    expect(panel(page, "Sold")).to_contain_text("Nothing was sold in this time")
    expect(panel(page, "Best sellers")).to_contain_text("Nothing was sold in January 2020")
    page.get_by_label("To", exact=True).fill("2019-01-01T00:00")
    assert (
        page.get_by_label("To", exact=True).evaluate("(input) => input.validationMessage")
        == "The end must be after the start."
    )
    page.route("**/api/insight/metrics*", lambda route: route.fulfill(status=403, json={"detail": "not today"}))
    page.get_by_role("button", name="Refresh").click()
    expect(panel(page, "Sold").get_by_role("alert")).to_contain_text("not today.")
    page.unroute("**/api/insight/metrics*")
    panel(page, "Sold").get_by_role("button", name="Try again").click()
    expect(panel(page, "Sold")).to_contain_text("Nothing was sold in this time")
    tab.seen.errors.clear()  # the browser logged the rejected request


def test_days_and_hours_are_the_viewers_and_charts_have_round_numbers(shop: LaptopShop, chromium: Browser) -> None:
    context = chromium.new_context(timezone_id="Europe/Vienna")
    page = context.new_page()
    page.goto(f"{shop.page_url}/#/insight")

    def days(first: str, last: str) -> Any:
        buckets = "timeBucketsOf(Date.parse(first), Date.parse(last))"
        made = f"import('/timeBuckets.js').then(({{ timeBucketsOf }}) => {buckets}.edges)"
        edges = page.evaluate(f"([first, last]) => {made}", [first, last])
        return [(later - earlier) / 3_600_000 for earlier, later in pairwise(edges)]

    assert days("2026-10-01", "2026-10-31") == [24.0] * 24 + [25.0] + [24.0] * 6  # the clock is put back on the 25th
    assert days("2026-10-25T00:00Z", "2026-10-25T10:00Z") == [0.25] * 40
    summed = """import('/timeBuckets.js').then(({ sumByBucket }) => sumByBucket([
        { minute: '2026-11-21T09:31:00.000Z', orders: 1, units: 2, currency: 'EUR', revenue: 500 },
        { minute: '2026-11-21T09:31:00.000Z', orders: 1, units: 1, currency: 'USD', revenue: 300 },
        { minute: '2026-11-21T10:00:00.000Z', orders: 0, units: -1, currency: 'EUR', revenue: -250 },
    ], ['09:00', '10:00', '11:00'].map((time) => Date.parse(`2026-11-21T${time}Z`))))"""
    hours = [(one["orders"], one["units"], one["revenue"]) for one in page.evaluate(summed)]
    assert hours == [(2, 3, {"EUR": 500, "USD": 300}), (0, -1, {"EUR": -250})]
    for values, ticks in (
        ([], [0, 1]),
        ([0, 3], [0, 1, 2, 3]),
        ([-3, 12], [-5, 0, 5, 10, 15]),
        ([9500], [0, 5000, 10000]),
    ):
        assert page.evaluate("(values) => import('/chart.js').then(({ ticksOf }) => ticksOf(values))", values) == ticks
    context.close()


# errors ---------------------------------------------------------------------------------------------------------------
def test_an_error_is_shown_beside_the_field_that_caused_it(tab: Tab) -> None:
    page = tab.page
    stocked(tab)
    page.get_by_role("button", name="Add to basket: Walnut bowl").click()
    page.get_by_label("Quantity of Walnut bowl").fill("500")
    page.get_by_label("Quantity of Walnut bowl").press("Tab")
    page.get_by_role("button", name="Place order").click()
    expect(page.get_by_role("alert").filter(has_text="of Walnut bowl left")).to_be_visible()
    page.get_by_label("Quantity of Walnut bowl").fill("1")
    page.get_by_label("Quantity of Walnut bowl").press("Tab")
    page.get_by_label("Country").fill("Z1")
    page.get_by_role("button", name="Place order").click()
    expect(page.get_by_label("Country")).to_be_focused()
    expect(page.get_by_label("Country")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Country").fill("AT")
    page.get_by_role("button", name="Place order").click()
    expect(page.get_by_role("heading", name="Order placed")).to_be_visible()
    page.get_by_label("a card that is declined", exact=False).check()
    page.get_by_role("button", name=re.compile("^Pay ")).click()
    expect(page.get_by_role("alert").filter(has_text="No money was taken")).to_be_visible()
    # The browser logs requests that the shop rejects as errors: these two were intended.
    assert len(tab.seen.errors) == 2
    assert all("/api/orders" in error for error in tab.seen.errors)
    tab.seen.errors.clear()


def test_an_unknown_address_shows_the_first_view(tab: Tab) -> None:
    tab.open("constructor")
    expect(tab.page.get_by_role("heading", name="One table, and everything that follows")).to_be_visible()


# layout and accessibility ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
def test_every_view_is_accessible_at_every_width(tab: Tab, scheme: str, width: int) -> None:
    page = tab.page
    order_id = paid(tab)
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 900})
    for view in (*VIEWS, f"orders/{order_id}"):
        tab.open(view)
        page.wait_for_load_state("networkidle") if view not in ("flow", f"orders/{order_id}") else None
        expect(page.locator(".loading")).to_have_count(0)
        assert layout_and_accessibility_problems(page) == [], view


def test_all_views_are_in_one_row_above_at_360_pixels(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 360, "height": 800})
    tab.open("insight")
    places = [
        link.bounding_box() for link in tab.page.get_by_role("navigation", name="Views").get_by_role("link").all()
    ]
    assert len(places) == len(VIEWS)
    assert len({place["y"] for place in places if place}) == 1


def test_the_shop_is_used_by_keyboard_alone(tab: Tab) -> None:
    stocked(tab)
    page = tab.page
    page.reload()  # so that the focus is nowhere
    expect(page.get_by_role("button", name="Add to basket: Stoneware mug")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()

    def tab_to(name: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            focused = page.locator("button:focus")
            if focused.count() and name in (focused.get_attribute("aria-label") or focused.inner_text()):
                return
        pytest.fail(f"{name!r} cannot be reached by keyboard")

    tab_to("Add to basket: Stoneware mug")
    page.keyboard.press("Enter")
    tab_to("Place order")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Order placed")).to_be_focused()
    tab_to("Pay €")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Paid. Invoice, parcel and mails follow")).to_be_visible()
