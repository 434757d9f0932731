"""Tests the purchase of a guest: the order without an account, its payment, its link, and the move to an account."""

import re

from playwright.sync_api import expect

from local.laptop.demo import LaptopTarget
from ops.scenarios import wait_until
from tests.browser.conftest import Tab, layout_and_accessibility_problems
from tests.browser.steps import be, stocked
from tests.laptop.conftest import LaptopShop


def mail_link(tab: Tab, order_id: str) -> str | None:
    """Return the link to the order in its latest mail, or None if no mail was sent yet."""
    mails = tab.page.request.get(f"{tab.url}/local/orders/{order_id}/mails").json()["items"]
    for mail in mails[:1]:
        text = tab.page.request.get(f"{tab.url}/local/mails/{mail['id']}").text()
        found = re.search(r'href="([^"]*#/guest/[^"]*)"', text)
        assert found is not None, text
        return found[1]
    return None


def test_a_guest_orders_pays_opens_the_link_and_joins_an_account(tab: Tab, shop: LaptopShop) -> None:
    page = tab.page
    tab.open("shop")
    be(page, "guest")
    stocked(tab)
    page.get_by_role("button", name="Add to basket: Stoneware mug").click()
    form = page.get_by_role("form", name="Delivery")
    form.get_by_label("Name").fill("Gil Gray")
    form.get_by_label("E-mail address").fill("bob@example.com")
    assert layout_and_accessibility_problems(page) == []
    page.get_by_role("button", name="Order as a guest").click()
    expect(page.get_by_role("heading", name="Order placed")).to_be_focused()
    link = page.get_by_role("link", name="See its trace")
    href = str(link.get_attribute("href"))
    order_id = href.split("/")[2].partition("?")[0]
    page.get_by_role("button", name=re.compile("^Pay ")).click()
    expect(page.get_by_text("Paid. Invoice, parcel and mails follow")).to_be_visible()
    link.click()
    expect(page.get_by_role("heading", name=re.compile("^Order "))).to_be_visible()
    expect(page.locator(".order-head")).to_contain_text("Gil Gray")
    assert layout_and_accessibility_problems(page) == []
    wait_until("the mail with the link", lambda: mail_link(tab, order_id))
    page.goto(str(mail_link(tab, order_id)))
    page.get_by_role("button", name=f"Cancel order {order_id[:8]}").click()
    page.get_by_role("button", name="Cancel the order").click()
    expect(page.locator(".order-head")).to_contain_text(re.compile("Cancel requested|Cancelled"))
    assert LaptopTarget(shop.shop()).api_client("bob").call("POST", "/customers", {"name": "Bob Birch"}).status in (
        201,
        409,
    )
    be(page, "bob")
    tab.open("customers/me")
    page.get_by_text("Orders that you placed as a guest").click()
    page.get_by_role("button", name="Add them to my orders").click()
    expect(page.locator(".toast")).to_contain_text("moved to your account")
    tab.open(f"orders/{order_id}")
    expect(page.locator(".order-head")).to_contain_text("Bob Birch")
    page.goto(f"{tab.url}/{href}")
    expect(page.get_by_text("The link to the order was revoked")).to_be_visible()
    assert all("401" in error for error in tab.seen.errors), "the browser logs the answer to the revoked link"
    tab.seen.errors.clear()
