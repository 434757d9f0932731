"""Tests the board of staff: live lists, counts, the search for orders, and commands."""

import re
from functools import partial
from typing import Any

from playwright.sync_api import expect

from local.laptop.demo import DemoClients
from ops.scenarios import wait_until
from tests.browser.conftest import Tab
from tests.browser.steps import be, paid, panel, placed


def test_the_board_shows_changes_without_moving_what_is_read(tab: Tab, people: DemoClients) -> None:
    page = tab.page
    first = placed(tab)
    tab.open("board?status=PENDING")
    expect(page.get_by_text("Acting as staff, not as Alice Ash")).to_be_visible()
    row = page.get_by_role("row", name=first[:8])
    row.get_by_role("link").first.focus()
    second = people.place_order(people.create_stocked_product(5), quantity=1)["order_id"]
    newer = page.get_by_role("button", name=re.compile("^Show .* new order"))
    expect(newer).to_be_visible()
    expect(page.get_by_role("row", name=second[:8])).to_have_count(0)
    people.staff.post(f"/orders/{first}/cancel", None)
    expect(row).to_contain_text("Cancelled")  # the row stays, although the order left the list
    expect(row.get_by_role("link").first).to_be_focused()
    newer.click()
    expect(page.get_by_role("row", name=second[:8])).to_be_visible()
    expect(row).to_have_count(0)


def test_the_board_begins_with_all_orders_and_keeps_the_filter_in_its_address(tab: Tab, people: DemoClients) -> None:
    page = tab.page
    ids = [people.place_order(people.create_stocked_product(5), quantity=1)["order_id"] for _ in range(2)]
    people.staff.post(f"/orders/{ids[0]}/cancel", None)
    wait_until(
        "the orders in the list", lambda: {one["order_id"] for one in people.staff.get("/orders")["items"]} >= {*ids}
    )
    tab.open("board")
    expect(page.get_by_role("link", name="All", exact=True)).to_have_attribute("aria-current", "page")
    orders = panel(page, "Orders: All")
    expect(orders.get_by_role("row", name=ids[0][:8])).to_contain_text("Cancelled")
    expect(orders.get_by_role("row", name=ids[1][:8])).to_contain_text(re.compile(r"Awaiting payment.* ago"))
    page.get_by_label("Closed status").select_option("CANCELLED")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("row", name=ids[1][:8])).to_have_count(0)
    expect(panel(page, "Orders: Cancelled").get_by_role("row", name=ids[0][:8])).to_be_visible()
    expect(page.get_by_text(re.compile(r"orders? read, \d+ with another status"))).to_be_visible()
    assert "status=CANCELLED" in page.url


def test_the_board_shows_more_pages_of_all_orders_and_what_needs_a_person(tab: Tab) -> None:
    """The API's answers are replaced: a first page whose order needs a person, and a second page."""
    page = tab.page
    order: dict[str, Any] = {
        "customer_id": "ann",
        "status": "RETURNED",
        "placed_at": "2026-01-01T00:00:00.000Z",
        "currency": "EUR",
    }
    order |= {"total": 1, "version": 1, "archived": False}

    def answer(route: Any) -> None:
        is_second = "cursor=next" in route.request.url
        shown = {**order, "order_id": "second-page" if is_second else "first-page"}
        shown["attention"] = [] if is_second else ["UNDOCUMENTED"]
        route.fulfill(json={"items": [shown], "cursor": None if is_second else "next"})

    page.route(re.compile(r"/api/orders\?order=newest&limit=20"), answer)
    tab.open("board")
    expect(page.get_by_role("row", name="first-page")).to_contain_text("Check: a credit note is missing")
    page.get_by_role("button", name="Next page").click()
    expect(page.get_by_role("row", name="second-page")).to_be_visible()
    expect(page.get_by_text("Check:")).to_have_count(0)


def test_the_board_lists_the_open_orders_of_all_states(tab: Tab, people: DemoClients) -> None:
    ids = [people.place_order(people.create_stocked_product(5), quantity=1)["order_id"] for _ in range(2)]
    people.pay_order(people.staff.get(f"/orders/{ids[0]}"))
    # The page reads a list of each state. An order that changes its state meanwhile can be in none of them.
    wait_until("the parcel", lambda: people.staff.get(f"/orders/{ids[0]}")["status"] == "FULFILLING")
    tab.open("board?status=OPEN")
    orders = panel(tab.page, "Orders: All open")
    for id in ids:
        expect(orders.get_by_role("row", name=id[:8])).to_be_visible()
    states = tab.page.get_by_role("navigation", name="Status").get_by_role("link")
    expect(states.filter(has_text="Awaiting payment")).to_have_text(re.compile(r" [1-9]\d*\+?$"))
    sent = [one for one in tab.seen.requests if "/api/orders?" in one]
    assert len(sent) == 7


def test_orders_are_found_at_the_board_by_number_parcel_and_e_mail_address(tab: Tab, people: DemoClients) -> None:
    order = people.place_order(people.create_stocked_product(5), quantity=1)
    people.pay_order(order)
    path, number = f"/orders/{order['order_id']}/shipments", f"JJD-{order['order_id'][:8]}"

    def parcels() -> list[dict[str, Any]]:
        return list(people.staff.get(path)["items"])

    parcel = wait_until("the request to the warehouse", parcels)[0]
    sent = {"carrier": "DHL", "tracking_number": number}
    people.staff.post(f"{path}/{parcel['shipment_id']}/dispatched", sent)
    page = tab.page
    tab.open("board")
    finding = page.get_by_role("form", name="Find an order")
    row = page.get_by_role("row", name=order["order_id"][:8])

    def found(way: str, label: str, text: str) -> bool:  # copies are written a moment later
        finding.get_by_label("Find by").select_option(way)
        finding.get_by_label(label).fill(text)
        finding.get_by_role("button", name="Find").click()
        said = finding.get_by_role("alert").locator(".notice")
        expect(page.get_by_role("heading", name="Found").or_(said).first).to_be_visible()
        return row.count() == 1

    assert wait_until("the parcel", lambda: found("tracking", "Tracking number", number))
    expect(row).to_contain_text("Shipped")
    for text in (order["order_id"][:8].upper(), order["order_id"].upper()):
        assert wait_until("the order of the number", partial(found, "number", "Order number", text))
    email = people.staff.get(f"/customers/{order['customer_id']}")["email"]
    tab.open("board?status=PAID")
    assert wait_until("the orders of the customer", lambda: found("email", "E-mail address", email.upper()))
    finding.get_by_label("E-mail address").fill("stranger@example.com")
    finding.get_by_role("button", name="Find").click()
    expect(page.get_by_text("No customer has this e-mail address.")).to_be_visible()


def test_an_order_is_shipped_delivered_and_returned_at_the_board(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    be(page, "staff")
    tab.open("board?status=FULFILLING")
    row = page.get_by_role("row", name=order_id[:8])
    for _ in range(40):  # the paid order is fulfilled a moment later, and the list changes only with a refresh
        page.locator(".loading").first.wait_for(state="detached")
        if row.count():
            break
        page.get_by_role("button", name="Refresh").click()
        page.wait_for_timeout(250)
    expect(row).to_be_visible()
    row.get_by_role("button", name=re.compile("^Ship")).click()
    page.get_by_role("button", name="Ship the parcel").click()
    row.get_by_role("button", name=re.compile("^Deliver")).click()
    page.get_by_role("button", name="Mark as delivered").click()
    row.get_by_role("button", name=re.compile("^Return")).click()
    page.get_by_label("Stoneware mug", exact=True).fill("1")
    page.get_by_role("button", name="Record the return").click()
    expect(row).to_contain_text("Returned")
    row.get_by_role("link").first.click()
    expect(panel(page, "Payments and refunds")).to_contain_text("Refund")
