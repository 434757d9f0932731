"""Steps that the tests of several views share: to choose a user, to stock the shop, to place and to pay an order."""

import re
from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from ops.scenarios import wait_until
from tests.browser.conftest import Tab

VIEWS = ("flow", "shop", "board", "records", "customers", "table", "insight")


def be(page: Page, name: str) -> None:
    page.get_by_label("You are").select_option(name)


def stocked(tab: Tab) -> None:
    """Open the shop's view, and add the sample products if they are missing."""
    tab.open("shop")
    page = tab.page
    offer = page.get_by_role("button", name="Add sample products")
    expect(offer.or_(page.get_by_role("button", name=re.compile("^Add to basket"))).first).to_be_visible()
    if offer.is_visible():
        offer.click()
    elif not page.request.get(f"{tab.url}/api/products/stoneware-mug").ok:
        # Another test added products, so the page does not offer the sample products.
        page.evaluate("import('/seedProducts.js').then(({ seedProducts }) => seedProducts())")
        page.reload()
    mug = page.get_by_role("button", name="Add to basket: Stoneware mug")
    more = page.locator("button:not([aria-disabled])", has_text="Show more")
    for _ in range(20):
        expect(mug.or_(more).first).to_be_visible()
        if mug.is_visible():
            break
        more.click()
    expect(mug).to_be_visible()


def placed(tab: Tab) -> str:
    """Place an order on the page. Return its id."""
    stocked(tab)
    page = tab.page
    page.get_by_role("button", name="Add to basket: Stoneware mug").click()
    page.get_by_role("button", name="Place order").click()
    expect(page.get_by_role("heading", name="Order placed")).to_be_focused()
    link = page.get_by_role("link", name="See its trace").get_attribute("href")
    assert link is not None
    return link.rpartition("/")[2]


def paid(tab: Tab) -> str:
    order_id = placed(tab)
    tab.page.get_by_role("button", name=re.compile("^Pay ")).click()
    expect(tab.page.get_by_text("Paid. Invoice, parcel and mails follow")).to_be_visible()
    return order_id


def unchanged(page: Page, value: Callable[[], int], milliseconds: int) -> bool:
    """Return whether a value stays the same for so long."""
    before = value()
    page.wait_for_timeout(milliseconds)
    return value() == before


def reload_until(page: Page, wanted: Locator) -> None:
    """Reload the page until it shows an element, because copies and lists are written a moment later."""

    def is_shown() -> bool:
        page.reload()
        expect(page.locator(".loading")).to_have_count(0)
        return wanted.count() > 0

    wait_until(f"{wanted}", is_shown)


def panel(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)
