"""The records of the shop for staff: documents, payments and refunds by time, and the import of a file."""

import re
from datetime import UTC, datetime, timedelta

from playwright.sync_api import expect

from ops.api_client import ApiClient
from ops.scenarios import wait_until
from tests.browser.conftest import Tab, problems_at_every_width
from tests.browser.steps import be, paid, panel, placed, reload_until, stocked

PRODUCTS = "product_id,name,price,currency,quantity\ny-shelf,Shelf,4900,EUR,3\nz-shelf,Tall shelf,49.00,EUR,1\n"


def test_staff_list_documents_payments_and_refunds_of_a_time_range(tab: Tab, staff: ApiClient) -> None:
    order_id = paid(tab)
    page = tab.page
    wait_until("the invoice", lambda: staff.get(f"/orders/{order_id}/invoices")["items"])
    staff.post(f"/orders/{order_id}/refunds", {"amount": 100, "cause": "OTHER"}, key=f"refund-{order_id}")
    wait_until("the refund in the list", lambda: order_id in str(staff.get("/refunds")["items"]))
    for name, amount in {"Invoices": "€18.90", "Payments": "€18.90", "Refunds": "€1.00"}.items():
        tab.open("records")
        page.get_by_role("navigation", name="Records").get_by_role("link", name=name, exact=True).click()
        row = panel(page, name).get_by_role("row").filter(has=page.get_by_role("link", name=order_id[:8]))
        expect(row.filter(has_text=amount).first).to_be_visible()
        page.get_by_label("Before").fill("2020-01-01T00:00")
        page.get_by_role("button", name="Show", exact=True).click()
        expect(panel(page, name)).to_contain_text(re.compile("^No "))
    assert list(problems_at_every_width(page)) == []


def test_staff_import_products_and_see_the_rejected_lines(tab: Tab) -> None:
    page = tab.page
    tab.open("records?list=imports")
    made = page.get_by_role("form", name="Import products")
    made.get_by_label("File").set_input_files({"name": "p.csv", "mimeType": "text/csv", "buffer": PRODUCTS.encode()})
    made.get_by_role("button", name="Import the file").click()
    shown = panel(page, "Import products")
    expect(shown).to_contain_text("Written1")
    expect(shown.get_by_role("row", name="3", exact=False).last).to_contain_text("price")
    assert list(problems_at_every_width(page)) == []


def test_staff_export_orders_and_open_the_file(tab: Tab, staff: ApiClient) -> None:
    order_id, page = placed(tab), tab.page
    wait_until("the order in the list", lambda: order_id in str(staff.get("/orders")["items"]))
    tab.open("records?list=exports")
    asked = page.get_by_role("form", name="Export a list")
    for label, days in {"From": -1, "Before": 1}.items():
        asked.get_by_label(label).fill((datetime.now(UTC) + timedelta(days)).date().isoformat())
    asked.get_by_role("button", name="Export").click()
    file = panel(page, "Exports").get_by_role("link", name="CSV", exact=True)
    expect(file).to_be_visible()
    assert list(problems_at_every_width(page)) == []
    assert order_id in page.request.get(str(file.get_attribute("href"))).text()


def test_staff_see_who_changed_a_price_and_why(tab: Tab) -> None:
    page = tab.page
    stocked(tab)
    be(page, "staff")
    page.get_by_role("button", name="Stock and price of Linen apron").click()
    changed = page.get_by_role("dialog", name="Linen apron")
    changed.get_by_label("Price in EUR").fill("43.00")
    changed.get_by_label("Why the price changes").fill("linen costs more")
    changed.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Stock and price of Linen apron").click()
    page.get_by_role("dialog").get_by_role("link", name="Who changed it").click()
    row = page.get_by_role("row").filter(has_text="linen costs more")
    reload_until(page, row)
    row.get_by_text("attribute").first.click()
    expect(row).to_contain_text("price: 4200 → 4300")
    assert list(problems_at_every_width(page)) == []
