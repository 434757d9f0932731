"""A company and its members in the view of customers."""

from playwright.sync_api import expect

from ops.api_client import ApiClient
from tests.browser.conftest import Tab
from tests.browser.steps import placed, reload_until


def test_staff_create_a_company_and_add_a_member(tab: Tab, staff: ApiClient) -> None:
    page = tab.page
    alice = staff.get(f"/orders/{placed(tab)}")["customer_id"]
    email = staff.get(f"/customers/{alice}")["email"]
    tab.open("customers?list=companies")
    page.get_by_role("button", name="New company").click()
    asked = page.get_by_role("dialog", name="New company")
    asked.get_by_label("Id").fill("acme")
    asked.get_by_label("Name").fill("Acme & Daughters")
    asked.get_by_role("button", name="Create the company").click()
    expect(page.get_by_text("No customer buys for this company.")).to_be_visible()
    members = page.get_by_role("form", name="Add a member")
    members.get_by_label("E-mail address").fill(email)
    members.get_by_role("button", name="Add the member").click()
    expect(page.get_by_role("region", name="Members").get_by_role("row", name=email)).to_be_visible()
    tab.open("customers?list=companies")
    reload_until(page, page.get_by_role("row", name="Acme & Daughters"))
