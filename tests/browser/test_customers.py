"""The customers view: staff find customers and discount codes; a customer sees their own page."""

import re
from functools import partial

from playwright.sync_api import Locator, expect

from local.laptop.demo import DemoClients
from ops.scenarios import wait_until
from tests.browser.conftest import Tab, layout_and_accessibility_problems
from tests.browser.steps import paid, panel, placed, reload_until


def test_staff_find_a_customer_and_see_their_page(tab: Tab, people: DemoClients) -> None:
    page = tab.page
    order_id = paid(tab)
    alice = people.alice.get("/customers/me")
    tab.open("customers")
    expect(page.get_by_text("Acting as staff, not as Alice Ash")).to_be_visible()
    finding = page.get_by_role("form", name="Find a customer")
    finding.get_by_label("E-mail address").fill(alice["email"].upper())
    finding.get_by_role("button", name="Find").click()
    page.get_by_role("region", name="Customers").get_by_role("link", name=alice["name"]).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(alice["name"])
    expect(panel(page, "Profile")).to_contain_text(alice["email"])
    orders = panel(page, "Orders")
    reload_until(page, orders.get_by_role("row", name=order_id[:8]))
    orders.get_by_label("Before").fill("2020-01-01T00:00")
    orders.get_by_role("button", name="Show", exact=True).click()
    expect(orders).to_contain_text("No order in this time")

    def opened_shows(part: Locator, text: str) -> bool:  # invoices and mails are written a moment later
        part.evaluate("(details) => (details.open = false)")
        part.locator("summary").press("Enter")
        expect(part.locator(".stack").first).not_to_be_empty()
        expect(part.locator(".loading")).to_have_count(0)
        return text in part.inner_text()

    opened = page.locator("details.customer-part")
    opened.filter(has_text="Credit").locator("summary").click()
    issuing = page.get_by_role("form", name="Issue store credit")
    issuing.get_by_label("Amount").fill("12.50")
    issuing.get_by_role("button").click()
    expect(page.locator(".toast")).to_contain_text("€12.50 is issued.")
    for title, shown in (
        ("Invoices and addresses", "1 Elm Row"),
        ("Reviews", "No reviews"),
        ("Mails", order_id[:8]),
        ("Suppression of mails", "Mails to this address are sent."),
    ):
        part = opened.filter(has=page.locator("summary", has_text=re.compile(f"^{title}$")))
        assert wait_until(title, partial(opened_shows, part, shown))
    assert layout_and_accessibility_problems(page) == []


def test_a_customer_sees_and_changes_only_their_own_page(tab: Tab, people: DemoClients) -> None:
    page = tab.page
    placed(tab)
    tab.open("shop")
    page.get_by_role("link", name="My page").click()
    expect(page.get_by_role("heading", name="My page")).to_be_focused()
    expect(page.get_by_text("Acting as staff")).to_have_count(0)
    expect(page.locator("details.customer-part")).to_have_count(4)  # the part about suppressed mails is not shown
    page.get_by_text("Which mails the customer wants").first.click()
    choices = page.get_by_role("form", name="Which mails the customer wants")
    choices.get_by_label("Parcels").uncheck()
    choices.get_by_role("button", name="Save").click()
    expect(page.locator(".toast")).to_contain_text("The choice is saved.")
    assert people.alice.get("/customers/me/settings")["notifications"]["shipments"] is False
    choices.get_by_label("Parcels").check()
    choices.get_by_role("button", name="Save").click()
    expect(choices.get_by_role("button", name="Save")).not_to_have_attribute("aria-disabled", "true")
    requests = [request for request in tab.seen.requests if "/api/customers/" in request]
    assert all("/customers/me" in request for request in requests)


def test_staff_create_count_and_end_a_discount_code(tab: Tab) -> None:
    page = tab.page
    tab.open("customers?list=discounts")
    page.get_by_role("button", name="New discount code").click()
    asked = page.get_by_role("dialog", name="New discount code")
    asked.get_by_label("Code").fill("TENONLY")
    asked.get_by_label("Discount in percent").fill("10")
    asked.get_by_label("Maximum number").fill("10")
    asked.get_by_role("button", name="Create the code").click()
    row = page.get_by_role("row", name=re.compile("TENONLY"))
    reload_until(page, row)
    row.get_by_role("button", name="Show what is left of TENONLY").click()
    expect(row).to_contain_text("10 of 10 left")
    row.get_by_role("button", name="End the code TENONLY").click()
    expect(row).to_contain_text("Ended")
