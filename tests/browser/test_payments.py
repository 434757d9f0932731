"""Tests the payments of an order on the page: the switches of the local payment provider, and the forms of staff."""

import re

import boto3
import urllib3
from playwright.sync_api import Page, expect

from functions.adapters.payment_provider import HttpPaymentProvider
from ops.api_client import ApiClient
from ops.scenarios import wait_until
from tests.browser.conftest import Tab, problems_at_every_width, separate_shop
from tests.browser.steps import be, paid, panel, placed
from tests.laptop.conftest import LaptopShop

shop = separate_shop  # because a test disturbs its provider


def filled(page: Page, submit: str, **fields: str) -> None:
    """Fill the fields of the open dialog by their names in the API, and submit its form."""
    made = page.get_by_role("dialog").locator("form").filter(has=page.get_by_role("button", name=submit, exact=True))
    for name, text in fields.items():
        control = made.locator(f"[name={name}]")
        if control.evaluate("(one) => one.localName") == "select":
            control.select_option(text)
        else:
            control.fill(text)
    made.get_by_role("button", name=submit, exact=True).click()


def fact(page: Page, name: str, value: str) -> None:
    expect(page.locator(".order-head .facts > div").filter(has_text=name)).to_have_text(f"{name}{value}")


def unmatched(shop: LaptopShop, amount: int) -> None:
    """Make a payment whose order does not exist."""
    form = f"amount={amount}&currency=eur&metadata[order_id]=unknown&confirm=true"
    assert urllib3.request("POST", f"{shop.shop().provider_url}/v1/payment_intents", body=form).status == 200


def test_the_shop_and_the_provider_keep_the_same_money_after_a_lost_dispute(tab: Tab, shop: LaptopShop) -> None:
    page = tab.page
    tab.open("flow")
    provider_node = page.locator('[data-node="provider"]')
    provider_node.click()
    webhooks = page.get_by_role("form", name="Disturb the webhooks")
    webhooks.get_by_label("It sends each event").select_option("twice")
    webhooks.get_by_role("checkbox").uncheck()
    webhooks.get_by_role("button", name="Set the delivery").click()
    expect(provider_node).to_contain_text("events twice")

    order_id = paid(tab)
    be(page, "staff")
    tab.open(f"orders/{order_id}")
    page.get_by_role("button", name=re.compile("^Ship order")).click()
    page.get_by_role("button", name="Ship the parcel").click()
    expect(page.locator(".order-state")).to_contain_text("Shipped")

    moneys, box = panel(page, "Payments and refunds"), page.get_by_role("dialog")
    moneys.get_by_role("button", name="At the provider").click()
    box.get_by_label("Only an inquiry").check()
    filled(page, "Open the dispute", amount="5")
    box.get_by_role("button", name="Close inquiry").click()
    expect(box.get_by_text("Warning closed")).to_be_visible()
    box.get_by_label("Only an inquiry").uncheck()
    filled(page, "Open the dispute", amount="9", reason="product_not_received")
    box.get_by_role("button", name="Submit evidence").click()
    expect(box.get_by_text("Under review")).to_be_visible()
    expect(moneys).to_contain_text("Disputed")
    box.get_by_role("button", name="Lose: dispute of €9.00").click()
    expect(box.get_by_text("Lost", exact=True)).to_be_visible()
    expect(moneys).to_contain_text("Dispute, €9.00: lost, product not received")
    filled(page, "Refund", amount="1")
    expect(moneys).to_contain_text("Refund, €1.00, reason: external")
    assert list(problems_at_every_width(page)) == []
    page.keyboard.press("Escape")
    fact(page, "Paid", "€18.90")
    fact(page, "Refunded", "€10.00")

    running = shop.shop()
    secrets = boto3.client("secretsmanager", **running.aws.client_options)
    key = secrets.get_secret_value(SecretId=running.stack.outputs["ProviderSecret"])["SecretString"]
    order = running.api_client("staff").get(f"/orders/{order_id}/whole")
    [payment] = order["payments"]
    [refund] = order["refunds"]
    provider = HttpPaymentProvider(running.provider_url, key)
    assert [one.status for one in provider.refunds_of(payment["payment_id"])] == ["succeeded"]
    lost = [one["amount"] for one in payment["disputes"].values() if one["status"] == "LOST"]
    asked = urllib3.request("GET", f"{running.provider_url}/test/payments/{payment['payment_id']}/disputes").json()
    moved = sum(move["amount"] for one in asked["data"] for move in one["balance_transactions"])
    kept = provider.get_payment(payment["payment_id"]).amount + moved - refund["amount"]
    assert (lost, kept) == ([900], 890)
    assert order["order"]["paid"] - order["order"]["refunded"] == kept

    assert issue_missing_credit_note(tab, order_id, "€10.00") == ["€18.90", "€10.00"]


def issue_missing_credit_note(tab: Tab, order_id: str, amount: str) -> list[str]:
    """Issue the credit note in the records, and return the totals of the order's invoice and of its credit note."""
    page = tab.page
    tab.open("records?list=undocumented")
    page.get_by_role("button", name=f"Issue: {amount}").click()
    page.get_by_role("dialog").get_by_role("button", name="Issue the credit note").click()
    expect(page.get_by_text("Being issued", exact=True)).to_be_visible()
    assert list(problems_at_every_width(page)) == []
    page.get_by_role("row").filter(has_text="Being issued").get_by_role("link").click()
    expect(panel(page, "Invoice")).to_contain_text("Credit noteCN-")
    assert order_id in page.url
    return panel(page, "Invoice").locator("strong").all_inner_texts()


def test_staff_record_reverse_assign_refund_and_settle_payments(tab: Tab, shop: LaptopShop, staff: ApiClient) -> None:
    page = tab.page
    order_id = placed(tab)
    be(page, "staff")
    tab.open(f"orders/{order_id}")
    page.locator(".order-head").get_by_role("button", name=re.compile("^Record payment")).click()
    filled(page, "Record the payment", method="CASH", amount="5", reference="receipt 14", note="the rest comes")
    moneys = panel(page, "Payments and refunds")
    expect(moneys).to_contain_text("Cash, €5.00")
    expect(moneys).to_contain_text("reference: receipt 14")
    fact(page, "Still due", "€13.90")
    moneys.get_by_role("button", name="Reverse: €5.00").click()
    filled(page, "Reverse the payment", reason="false money")
    expect(moneys).to_contain_text("reversed: false money")
    fact(page, "Still due", "€18.90")
    page.locator(".order-head").get_by_role("button", name=re.compile("^Record payment")).click()
    filled(page, "Record the payment", amount="15.10", reference="statement 2, line 3")
    fact(page, "Still due", "€3.80")

    for amount in (380, 700):
        unmatched(shop, amount)
    wait_until("the unmatched payments", lambda: len(staff.get("/payments/unmatched")["items"]) == 2)
    tab.open("records?list=unmatched")
    page.get_by_role("button", name="Assign: €3.80").click()
    filled(page, "Assign to the order", to_order_id=order_id, reason="the number is in the receipt")
    row = page.get_by_role("row").filter(has_text="€3.80").filter(has_text="Assigned")
    expect(row.get_by_role("link")).to_be_focused()
    page.get_by_role("button", name="Send back: €7.00").click()
    filled(page, "Send back", cause="OTHER", note="unknown order")
    expect(page.get_by_text("Being sent back", exact=True)).to_be_visible()
    assert list(problems_at_every_width(page)) == []
    wait_until("the end of the list", lambda: staff.get("/payments/unmatched")["items"] == [])

    tab.open(f"orders/{order_id}")
    fact(page, "Paid", "€18.90")
    page.get_by_role("button", name=re.compile("^Refund order")).click()
    filled(page, "Refund the amount", cause="DAMAGED", note="Sorry for the handle.")
    refund = moneys.get_by_role("listitem").filter(has_text="Refund, €15.10, reason: goodwill")
    expect(refund).to_contain_text("Cause: damagedNote: Sorry for the handle.")
    refund.get_by_role("button", name="Settle").click()
    filled(page, "Settle the refund", reason="paid back by bank transfer")
    expect(refund).to_contain_text("Settled by hand")
    expect(moneys.get_by_role("listitem").filter(has_text="Refund, €3.80")).to_contain_text("Done")
    fact(page, "Refunded", "€18.90")


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
