"""Insight: charts of sales with round numbers and readable values, and the best sellers."""

import re
from itertools import pairwise
from typing import Any

from playwright.sync_api import Browser, expect

from local.laptop.demo import DemoClients
from tests.browser.conftest import Tab
from tests.browser.steps import panel, stocked
from tests.laptop.conftest import LaptopShop


def test_a_paid_order_is_counted_on_the_page(tab: Tab, people: DemoClients) -> None:
    page = tab.page
    stocked(tab)  # must be first, because the page offers the sample products only to a shop without products
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
    forty = r"(?:[4-9]\d|\d{3}|\d{1,3}(?:,\d{3})+)"  # or more, because other tests sell too
    chart = re.compile(rf"^Pieces per half hour, from .*: {forty} in total, the maximum is in ")
    expect(sold.get_by_role("img", name=chart)).to_be_visible()
    expect(sold.get_by_role("img", name=re.compile("^Revenue in EUR per half hour"))).to_be_visible()
    reader = sold.get_by_role("slider", name="Pieces per half hour: one value at a time")
    reader.focus()
    with page.expect_response(re.compile("/insight/sales-by-minute")):
        pass  # the page updates itself
    page.wait_for_timeout(500)
    expect(reader).to_be_focused()
    page.reload()  # the page updates itself no longer, so the charts stay while their values are read
    expect(sold.get_by_role("img", name=chart)).to_be_visible()
    reader.focus()
    shown = sold.locator(".chart-value").filter(visible=True)
    expect(shown).to_have_text(re.compile(r", \d\d:\d\d to \d\d:\d\d: \d+$"))
    last = shown.inner_text()
    expect(reader).to_have_attribute("aria-valuetext", last)
    page.keyboard.press("Home")
    expect(shown).not_to_have_text(last)
    page.keyboard.press("End")
    page.get_by_role("heading", level=1).focus()
    expect(shown).to_have_count(0)
    reader.hover()
    expect(shown).to_have_count(1)
    sold.get_by_text("Show as a table").click()
    expect(sold.get_by_role("table").get_by_role("columnheader")).to_have_text(
        ["Time", "Orders", "Pieces", "Revenue in EUR"]
    )
    page.get_by_role("button", name="Update every 5 seconds").click()
    page.wait_for_timeout(6000)  # the page updates itself in this time
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
    page.route("**/api/insight/sales-by-minute*", lambda route: route.fulfill(status=403, json={"detail": "not today"}))
    page.get_by_role("button", name="Refresh").click()
    expect(panel(page, "Sold").get_by_role("alert")).to_contain_text("not today.")
    page.unroute("**/api/insight/sales-by-minute*")
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

    assert days("2026-10-01", "2026-10-31") == [24.0] * 24 + [25.0] + [24.0] * 6  # the clocks change on October 25
    assert days("2026-10-25T00:00Z", "2026-10-25T10:00Z") == [0.25] * 40
    summed = """import('/timeBuckets.js').then(({ sumByBucket }) => sumByBucket([
        { minute: '2026-11-21T09:31:00.000Z', orders: 1, pieces: 2, currency: 'EUR', revenue: 500 },
        { minute: '2026-11-21T09:31:00.000Z', orders: 1, pieces: 1, currency: 'USD', revenue: 300 },
        { minute: '2026-11-21T10:00:00.000Z', orders: 0, pieces: -1, currency: 'EUR', revenue: -250 },
    ], ['09:00', '10:00', '11:00'].map((time) => Date.parse(`2026-11-21T${time}Z`))))"""
    hours = [(one["orders"], one["pieces"], one["revenue"]) for one in page.evaluate(summed)]
    assert hours == [(2, 3, {"EUR": 500, "USD": 300}), (0, -1, {"EUR": -250})]
    for values, ticks in (
        ([], [0, 1]),
        ([0, 3], [0, 1, 2, 3]),
        ([-3, 12], [-5, 0, 5, 10, 15]),
        ([9500], [0, 5000, 10000]),
    ):
        assert page.evaluate("(values) => import('/chart.js').then(({ ticksOf }) => ticksOf(values))", values) == ticks
    amounts = {
        (0, "EUR"): "€0",
        (1_240_000, "EUR"): "€12.4k",
        (50_000, "JPY"): "JP¥50k",
        (-250_000_000, "EUR"): "-€2.5m",
    }
    for (minor, currency), text in amounts.items():
        made = "([minor, currency]) => import('/format.js').then(({ compactMoney }) => compactMoney(minor, currency))"
        assert page.evaluate(made, [minor, currency]) == text
    context.close()
