"""Staff place an order for a customer, change it by a cancellation and a new order, and find it by its phone number."""

import re

from playwright.sync_api import expect

from ops.api_client import ApiClient
from ops.scenarios import wait_until
from tests.browser.conftest import Tab, problems_at_every_width
from tests.browser.steps import be, placed, stocked


def test_staff_order_for_a_customer_and_place_the_order_again(tab: Tab, staff: ApiClient) -> None:
    page = tab.page
    customer = staff.get(f"/orders/{placed(tab)}")["customer_id"]
    email = staff.get(f"/customers/{customer}")["email"]
    be(page, "staff")
    stocked(tab)
    page.get_by_role("button", name="Add to basket: Stoneware mug").click()
    asked = page.get_by_role("form", name="Delivery")
    for label, text in {
        "Customer's e-mail address": email,
        "Name": "Alice Ash",
        "Street": "2 Oak Row",
        "Postcode": "1010",
        "City": "Wien",
        "Country": "AT",
        "Phone": "+43 1 555 0199",
        "reference": "PO 4711",
        "Note": "Ring twice",
    }.items():
        asked.get_by_label(label).fill(text)
    assert list(problems_at_every_width(page)) == []
    asked.get_by_role("button", name="Place the customer's order").click()
    head = page.locator(".order-head")
    for text in ("Your referencePO 4711", "NoteRing twice", "Placed by staff", "2 Oak Row"):
        expect(head).to_contain_text(text)

    page.get_by_role("button", name=re.compile("^Change address")).click()
    changed = page.get_by_role("dialog", name="Change the address")
    changed.get_by_label("Street").fill("3 Oak Row")
    changed.get_by_role("button", name="Save the address").click()
    expect(head).to_contain_text("3 Oak Row")

    page.get_by_role("button", name=re.compile("^Cancel and place again")).click()
    again = page.get_by_role("dialog", name="Cancel and place again")
    again.get_by_label("Reason").fill("two mugs")
    again.get_by_role("button", name="Cancel and open the shop").click()
    expect(asked.get_by_label("Customer's e-mail address")).to_have_value(email)
    expect(asked.get_by_label("Street")).to_have_value("3 Oak Row")
    page.get_by_label("Quantity of Stoneware mug").fill("2")
    page.get_by_label("Quantity of Stoneware mug").press("Enter")
    asked.get_by_role("button", name="Place the customer's order").click()
    expect(head).to_contain_text("Your referencePO 4711")
    expect(page.get_by_role("row", name="Stoneware mug")).to_contain_text("2")

    wait_until("both orders by phone", lambda: len(staff.get("/orders?phone=%2B4315550199")["items"]) == 2)
    tab.open("board")
    finding = page.get_by_role("form", name="Find an order")
    finding.get_by_label("Find by").select_option("phone")
    finding.get_by_label("Phone number").fill("+43 1 5550199")
    finding.get_by_role("button", name="Find").click()
    expect(
        page.get_by_role("table", name="Found orders").get_by_role("row").filter(has_text="Cancelled")
    ).to_be_visible()
