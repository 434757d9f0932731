"""Tests orders to ten countries on the page, with the shipping method that the buyer chooses."""

from playwright.sync_api import expect

from local.laptop.demo import DemoClients
from tests.api.test_postal_addresses import TEN_COUNTRIES
from tests.browser.conftest import Tab
from tests.browser.steps import stocked

LABELS = {"country": "Country", "postcode": "Postcode", "city": "City", "region": "Region (optional)"}
METHODS = [
    {"id": id, "name": id.capitalize(), "rates": [{"destination": "*", "currency": "EUR", "price": price}]}
    for id, price in (("parcel", 490), ("express", 1290))
]


def test_orders_to_ten_countries_with_the_chosen_shipping_method(tab: Tab, people: DemoClients) -> None:
    page, staff = tab.page, people.staff
    staff.call("PUT", "/shipping-methods", {"methods": METHODS})
    try:
        for town in TEN_COUNTRIES:
            stocked(tab)  # each order loads the first products again, and the mug may be behind those of other tests
            page.get_by_role("button", name="Add to basket: Stoneware mug").click()
            page.get_by_label("Street", exact=True).fill("1 Elm Row")
            for part, label in LABELS.items():
                page.get_by_label(label, exact=True).fill(town.get(part, ""))
            page.keyboard.press("Tab")  # leave the last field, so that the page asks for the methods
            page.get_by_label("Shipping", exact=True).select_option("express")
            page.get_by_role("button", name="Place order").click()
            expect(page.get_by_role("heading", name="Order placed")).to_be_focused()
            expect(page.locator(".pay")).to_contain_text("Express, €12.90")
        stocked(tab)
        page.get_by_role("button", name="Add to basket: Stoneware mug").click()
        page.get_by_label("Country", exact=True).fill("DE")
        page.get_by_label("Postcode", exact=True).fill("1010")
        page.get_by_role("button", name="Place order").click()
        expect(page.get_by_label("Postcode", exact=True)).to_be_focused()
        expect(page.get_by_text("This field must be a postcode of DE, such as")).to_be_visible()
    finally:
        staff.call("PUT", "/shipping-methods", {"methods": []})
        tab.seen.errors.clear()  # the browser logged the rejected postcode
    orders = people.alice.get("/customers/me/orders")["items"]
    assert len(orders) >= len(TEN_COUNTRIES)
