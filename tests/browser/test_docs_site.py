"""The documentation site at /docs/ of the local shop's page, as a reader uses it."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Tab, layout_and_accessibility_problems

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("loopback_only")]


def test_a_reader_searches_the_documentation(tab: Tab) -> None:
    page = tab.page
    page.goto(f"{tab.url}/docs/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Orderstream")
    # The site searches at each keyup, and with what is typed once its index is ready; `fill` sends no keyup.
    page.get_by_label("Search", exact=True).first.press_sequentially("drift repair")
    page.locator(".md-search-result__link").first.click(timeout=120_000)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert "/docs/" in page.url


def test_the_diagrams_of_the_documentation_are_drawn(tab: Tab) -> None:
    page = tab.page
    page.goto(f"{tab.url}/docs/states/")
    expect(page.locator("div.mermaid").first).to_be_visible()


@pytest.mark.parametrize("width", [360, 1440])
def test_the_documentation_is_readable_at_every_width(tab: Tab, width: int) -> None:
    tab.page.set_viewport_size({"width": width, "height": 900})
    tab.page.goto(f"{tab.url}/docs/local/")
    assert [one for one in layout_and_accessibility_problems(tab.page) if "px too wide" in one] == []
