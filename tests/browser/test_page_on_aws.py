"""Tests the page as AWS serves it: it uses no part of the local shop, and every command needs a sign-in."""

import re
import urllib.parse

import pytest
from playwright.sync_api import Page, expect

from local.laptop.demo import DemoClients
from ops.scenarios import wait_until
from tests.browser.aws import FakeCognito
from tests.browser.conftest import Tab, problems_at_every_width


def sign_in(page: Page, name: str, button: str = "Sign in") -> None:
    page.get_by_role("button", name=button, exact=True).first.click()
    page.get_by_role("link", name=name).click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def views(page: Page) -> list[str]:
    return page.get_by_role("navigation", name="Views").get_by_role("link").all_inner_texts()


def fill_address(page: Page, name: str) -> None:
    told = {"Name": name, "Street": "2 Oak Lane", "Postcode": "8010", "City": "Graz", "Country": "AT"}
    for label, text in told.items():
        page.get_by_label(label, exact=True).fill(text)


def test_a_new_visitor_browses_signs_in_orders_and_signs_out(
    aws_tab: Tab, cognito: FakeCognito, people: DemoClients, product: str
) -> None:
    page = aws_tab.page
    aws_tab.open("shop")
    page.get_by_role("button", name="Add to basket: Amber mug").first.click()
    expect(page.get_by_text("Sign in, or order as a guest.")).to_be_visible()
    assert views(page) == ["Shop", "API"]
    assert page.title().endswith(" Mugs & More")
    expect(page.get_by_role("button", name="Place order")).to_have_count(0)
    expect(page.get_by_role("button", name="Order as a guest")).to_be_visible()

    sign_in(page, "carol", "Sign in to order")
    assert page.url == f"{aws_tab.url}/#/shop", "nothing of the sign-in stays in the address"
    assert cognito.grant_types == ["authorization_code"]
    fill_address(page, "Carol Cane")
    page.get_by_role("button", name="Place order").click()  # the basket still has its products
    expect(page.get_by_role("heading", name="Order placed")).to_be_focused()
    expect(page.get_by_text("Your payment form goes here")).to_be_visible()
    expect(page.locator("#account")).to_contain_text("Carol Cane")
    order_id = page.locator(".pay .notice code").inner_text()

    page.get_by_role("link", name="See the order").click()
    head = page.locator(".order-head")
    expect(head).to_contain_text("Awaiting payment")
    expect(head).to_contain_text("2 Oak Lane")
    people.pay_order({"order_id": order_id})
    for told in ("Order placed", "Order paid"):
        look_until(page, told)
    expect(head).not_to_contain_text("Awaiting payment")
    panels = page.locator(".panel h2").all_inner_texts()
    assert panels == ["Invoice", "Parcels", "Payments and refunds"]
    aws_tab.open("shop")
    expect(page.get_by_role("region", name="My orders").first).to_contain_text(order_id[:8])
    page.get_by_role("link", name="My page").click()
    expect(page.get_by_role("region", name="Profile")).to_contain_text("Carol Cane")
    for elsewhere in ("flow", "table"):
        aws_tab.open(elsewhere)
        expect(page.get_by_role("heading", name="Shop", exact=True)).to_be_visible()
    aws_tab.open("board")
    expect(page.get_by_text("This view is only for staff")).to_be_visible()

    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
    assert cognito.grant_types[-1] == "revoke"
    assert page.evaluate("[sessionStorage.getItem('orderstream.tokens'), localStorage.length]") == [None, 0]
    assert [error for error in aws_tab.seen.errors if not error.endswith("/customers/me")] == []
    aws_tab.seen.errors.clear()  # the browser logged the 404 for a user who is not a customer yet


def look_until(page: Page, text: str) -> None:
    """Refresh the page until the timeline shows this text. Reactions to an order run later."""
    found = page.get_by_role("region", name="Timeline").get_by_text(text, exact=True)

    def is_shown() -> bool:
        page.get_by_role("button", name="Refresh").click()
        page.wait_for_timeout(250)
        return found.count() > 0

    wait_until(text, is_shown)


def test_staff_see_the_board_and_the_best_sellers(aws_tab: Tab, people: DemoClients, product: str) -> None:
    order = people.place_order(product, quantity=1)
    page = aws_tab.page
    aws_tab.open("board?status=PENDING")
    expect(page.get_by_role("heading", name="Sign in required")).to_be_visible()
    sign_in(page, "staff")
    assert page.url.endswith("#/board?status=PENDING"), "after the sign-in, the same view is shown"
    assert views(page) == ["Shop", "Board", "Records", "Customers", "Insight", "API"]
    row = page.get_by_role("row", name=order["order_id"][:8])
    expect(row.get_by_role("button", name=re.compile("^Cancel"))).to_be_visible()
    aws_tab.open(f"customers/{order['customer_id']}")
    expect(page.get_by_role("region", name="Orders", exact=True)).to_be_visible()
    expect(page.get_by_text("Acting as staff", exact=True)).to_be_visible()
    aws_tab.open("insight")
    expect(page.get_by_role("region", name="Best sellers", exact=True)).to_contain_text("Show as a table")


def test_a_token_is_renewed_before_it_expires_and_a_failed_renewal_shows_the_sign_in(
    aws_tab: Tab, cognito: FakeCognito
) -> None:
    page = aws_tab.page
    cognito.token_seconds = 60
    aws_tab.open("board")
    sign_in(page, "staff")
    expect(page.get_by_role("button", name="Refresh")).to_be_visible()
    assert "refresh_token" in cognito.grant_types
    cognito.revoke_all()
    expect(page.get_by_role("heading", name="Sign in required")).to_be_visible()  # the board updates itself every 4 s
    expect(page.get_by_role("button", name="Sign in", exact=True).first).to_be_visible()
    aws_tab.seen.errors.clear()  # the browser logged the rejected request


@pytest.mark.parametrize("answer", ["code=stolen&state=another", "code=stolen&state=", "error=access_denied&state=x"])
def test_a_sign_in_that_did_not_begin_in_this_tab_is_rejected(aws_tab: Tab, cognito: FakeCognito, answer: str) -> None:
    page = aws_tab.page
    page.goto(f"{aws_tab.url}/?{answer}")
    expect(page.locator(".toast")).to_contain_text("did not start in this tab")
    expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
    assert cognito.grant_types == []
    assert urllib.parse.urlsplit(page.url).query == ""


def test_a_code_with_another_pkce_verifier_is_rejected(aws_tab: Tab, cognito: FakeCognito) -> None:
    page = aws_tab.page
    aws_tab.open("shop")
    page.get_by_role("button", name="Sign in", exact=True).click()
    link = page.get_by_role("link", name="carol").get_attribute("href")
    page.goto(f"{aws_tab.url}/")
    page.get_by_role("button", name="Sign in", exact=True).click()
    mine = page.get_by_role("link", name="carol").get_attribute("href")
    assert link is not None
    assert mine is not None
    code, state = (urllib.parse.parse_qs(urllib.parse.urlsplit(url).query) for url in (link, mine))
    page.goto(f"{aws_tab.url}/?{urllib.parse.urlencode({'code': code['code'][0], 'state': state['state'][0]})}")
    expect(page.locator(".toast")).to_contain_text("You are not signed in")
    expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
    aws_tab.seen.errors.clear()  # the browser logged the refused request


def test_the_views_that_differ_on_aws_are_accessible_too(aws_tab: Tab, people: DemoClients, product: str) -> None:
    order = people.place_order(product, quantity=1)
    page = aws_tab.page
    aws_tab.open("shop")
    expect(page.get_by_role("button", name="Add to basket: Amber mug").first).to_be_visible()
    assert list(problems_at_every_width(page)) == []
    aws_tab.open(f"orders/{order['order_id']}")
    assert list(problems_at_every_width(page)) == []
    sign_in(page, "staff")
    expect(page.get_by_text("Order placed", exact=True)).to_be_visible()
    assert list(problems_at_every_width(page)) == []
