"""Tests the diagnosis on the page of an order: staff see what the order waits for, with the button that helps."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Tab, problems_at_every_width
from tests.browser.steps import be, panel, placed
from tests.browser.test_payments import filled

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("loopback_only")]


def test_staff_see_what_an_order_waits_for_and_settle_its_failed_refund(tab: Tab) -> None:
    page, diagnosis = tab.page, panel(tab.page, "Diagnosis")
    order_id = placed(tab)
    tab.open(f"orders/{order_id}")
    expect(page.locator(".order-state")).to_contain_text("Awaiting payment")
    expect(diagnosis).to_have_count(0)
    be(page, "staff")
    tab.open(f"orders/{order_id}")
    expect(diagnosis).to_contain_text("Nothing is wrong The customer pays the order. Until ")
    page.get_by_role("button", name=re.compile("^Record payment")).click()
    filled(page, "Record the payment", method="CASH", reference="receipt 14")
    expect(diagnosis).to_have_text("Nothing is wrong The warehouse sends the goods.")
    page.get_by_role("button", name=re.compile("^Refund order")).click()
    filled(page, "Refund the amount")
    expect(diagnosis).to_contain_text("refund failed The refund failed.")
    expect(diagnosis).to_contain_text("Retry the refund, or settle it.")
    assert list(problems_at_every_width(page)) == []
    diagnosis.get_by_role("button", name="Settle this refund").click()
    filled(page, "Settle the refund", reason="paid back in cash")
    expect(diagnosis).to_have_text("Nothing is wrong The warehouse sends the goods.")
