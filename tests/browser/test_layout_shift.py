"""Tests that no view moves what the user already sees when its data arrive, in an empty and in a full shop."""

import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from local.laptop.shop_client import PROJECT
from tests.browser.conftest import Tab, open_tab, running_shop
from tests.browser.steps import VIEWS
from tests.laptop.conftest import START, LaptopShop

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("loopback_only")]
ORDERS = 500
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


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopShop]:
    """A separate shop, which is empty at first."""
    with running_shop(tmp_path_factory) as running:
        yield running


@pytest.mark.parametrize("orders", [0, ORDERS], ids=["empty", "full"])
def test_no_view_moves_when_its_data_arrive(shop: LaptopShop, chromium: Browser, orders: int) -> None:
    if orders:
        command = (*START, "--state", str(shop.state), "fill", "--orders", str(orders))
        subprocess.run(command, cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)
    too_much = {}
    for view in VIEWS:
        for width, height in SIZES:
            with open_tab(chromium, shop.page_url, allowed_origins=(shop.page_url,)) as tab:
                tab.page.set_viewport_size({"width": width, "height": height})
                shifts = _shifts_of(tab, view)
            total = sum(one["value"] for one in shifts)
            print(f"{view} at {width} px with {orders} orders: {total:.3f}, {len(_data(tab))} requests of data")
            if total >= MAX_SHIFT:
                too_much[f"{view} at {width} px"] = shifts
    assert too_much == {}


def _shifts_of(tab: Tab, view: str) -> list[dict[str, object]]:
    tab.page.add_init_script(OBSERVE)
    tab.open(view)
    expect(tab.page.locator(".loading")).to_have_count(0)
    tab.page.wait_for_timeout(SETTLED_MS)
    shifts: list[dict[str, object]] = tab.page.evaluate("window.shifts")
    return shifts


def _data(tab: Tab) -> list[str]:
    """Return the requests for data, without those that the flow repeats."""
    sent = [one for one in tab.seen.requests if "/api/" in one or "/local/" in one]
    return [one for one in sent if "/local/stream" not in one]
