"""Tests that no view moves what the user already sees when its data arrive, in an empty and in a full shop."""

from typing import Any

from playwright.sync_api import Browser, expect

from tests.browser.conftest import PATIENCE_MS, Tab, open_tab, separate_shop
from tests.browser.steps import VIEWS, panel
from tests.laptop.conftest import LaptopShop

MAX_SHIFT = 0.1
"""A cumulative layout shift below 0.1 is good: https://web.dev/articles/cls."""
SIZES = ((360, 800), (1440, 900))
OBSERVE = """
window.shifts = [];
new PerformanceObserver((found) => {
  for (const { value, sources } of found.getEntries()) {
    const moved = sources.map(({ node }) => (node?.outerHTML ?? node?.textContent ?? "").slice(0, 80));
    window.shifts.push({ value, moved });
  }
}).observe({ type: "layout-shift", buffered: true });
"""
SETTLED_MS = 1500
"""The flow asks for its state every second, so by then it shows the state and the newest activity."""


shop = separate_shop


def test_no_view_of_an_empty_shop_moves_when_its_data_arrive(shop: LaptopShop, chromium: Browser) -> None:
    assert _views_that_move(shop, chromium) == []


def test_views_of_a_seeded_shop_show_its_data_and_do_not_move(shop: LaptopShop, chromium: Browser) -> None:
    with open_tab(chromium, shop.page_url, allowed_origins=(shop.page_url,)) as tab:
        page = tab.page
        tab.open("shop")
        page.get_by_role("button", name="Seed 500 orders").click()
        expect(page.get_by_role("progressbar", name="Seeded orders")).to_be_visible()
        expect(page.locator(".product")).not_to_have_count(0, timeout=10 * PATIENCE_MS)
        tab.open("board")
        expect(page.get_by_role("link", name="All", exact=True)).to_have_attribute("aria-current", "page")
        expect(panel(page, "Orders: All").get_by_role("row").nth(2)).to_be_visible()
        tab.open("insight")
        expect(panel(page, "Sold").get_by_role("slider").first).to_be_visible()
    assert _views_that_move(shop, chromium) == []


def _views_that_move(shop: LaptopShop, chromium: Browser) -> list[str]:
    """Open each view in a new tab at each size. Return the views that shift too much, with what has moved."""
    found = []
    for view in VIEWS:
        for width, height in SIZES:
            with open_tab(chromium, shop.page_url, allowed_origins=(shop.page_url,)) as tab:
                tab.page.set_viewport_size({"width": width, "height": height})
                shifts = _shifts_of(tab, view)
            total = sum(one["value"] for one in shifts)
            print(f"{view} at {width} px: {total:.3f}")
            if total >= MAX_SHIFT:
                found.append(f"{view} at {width} px: {shifts}")
    return found


def _shifts_of(tab: Tab, view: str) -> list[dict[str, Any]]:
    tab.page.add_init_script(OBSERVE)
    tab.open(view)
    expect(tab.page.locator(".loading")).to_have_count(0)
    tab.page.wait_for_timeout(SETTLED_MS)
    shifts: list[dict[str, Any]] = tab.page.evaluate("window.shifts")
    return shifts
