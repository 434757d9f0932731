"""The order page in the language that its customer chose in the settings of their account."""

from playwright.sync_api import expect

from tests.browser.conftest import Tab, layout_and_accessibility_problems
from tests.browser.steps import be, panel, placed


def test_a_customer_chooses_german_and_sees_the_order_in_german(tab: Tab) -> None:
    page = tab.page
    be_carla(tab)
    order_id = placed(tab)
    tab.open("customers/me")
    page.get_by_text("Language of mails, invoices and orders").click()
    choice = page.get_by_role("form", name="Change the language")
    choice.get_by_label("Language").select_option("Deutsch")
    choice.get_by_role("button").click()
    expect(page.locator(".toast")).to_contain_text("The language is saved.")
    expect(page.locator("html")).to_have_attribute("lang", "en")

    tab.open(f"orders/{order_id}")
    expect(page.locator("html")).to_have_attribute("lang", "de")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Bestellung {order_id[:8]}")
    expect(page.locator(".order-state")).to_contain_text("Zahlung ausstehend")
    expect(page.locator(".order-head")).to_contain_text("Gesamtbetrag18,90 €")
    expect(panel(page, "Rechnung")).to_contain_text("sobald die Bestellung bezahlt ist")
    page.get_by_role("button", name=f"Bezahlen: Bestellung {order_id[:8]}").click()
    page.get_by_role("dialog", name="Bestellung").get_by_role("button", name="bezahlen").click()
    expect(page.get_by_role("dialog")).to_contain_text("Bezahlt. Rechnung, Paket und E-Mails folgen automatisch")
    page.get_by_role("button", name="Schließen").click()
    expect(panel(page, "Zahlungen und Erstattungen")).to_contain_text("Karte")
    expect(page.get_by_text("Bestellung bezahlt", exact=True)).to_be_visible()
    assert layout_and_accessibility_problems(page) == []

    tab.open("shop")
    expect(page.locator("html")).to_have_attribute("lang", "en")
    be(page, "staff")
    tab.open(f"orders/{order_id}")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Order {order_id[:8]}")


def be_carla(tab: Tab) -> None:
    """Act as a new user, so that the other tests keep their language."""
    tab.open("shop")
    tab.page.get_by_label("You are").select_option("Another user …")
    who = tab.page.get_by_role("dialog", name="Another user")
    who.get_by_label("Name").fill("carla")
    who.get_by_role("button", name="Continue as this user").click()
