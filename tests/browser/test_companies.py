"""The list of companies in the customers view."""

import pytest
from playwright.sync_api import expect

from local.laptop.demo import DemoClients
from ops.scenarios import wait_until
from tests.browser.conftest import Tab
from tests.browser.test_customers import is_listed
from tests.laptop.conftest import LaptopShop

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("loopback_only")]


def test_companies_have_a_list(tab: Tab, shop: LaptopShop) -> None:
    DemoClients(shop.shop()).staff.post("/companies", {"company_id": "acme", "name": "Acme & Daughters"})
    assert wait_until("the company", lambda: is_listed(tab, "companies", "Acme & Daughters"))
    tab.page.get_by_role("link", name="Acme & Daughters").click()
    expect(tab.page.get_by_text("No customer buys for this company.")).to_be_visible()
