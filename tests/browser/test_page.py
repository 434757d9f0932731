"""The page as a person uses it: to buy, to watch an order, to work the board, to break the shop and see it recover."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import AXE, PATIENCE_MS, Tab

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("loopback_only")]
expect.set_options(timeout=PATIENCE_MS)
VIEWS = ("shop", "board", "stream")
SERIOUS = {"serious", "critical"}


def be(page: Page, name: str) -> None:
    page.get_by_label("You are").select_option(name)


def stocked(tab: Tab) -> None:
    """There is something to buy."""
    tab.open("shop")
    page = tab.page
    expect(page.get_by_role("button", name=re.compile("Stock the shop|Add to basket")).first).to_be_visible()
    if page.get_by_role("button", name="Stock the shop").is_visible():
        page.get_by_role("button", name="Stock the shop").click()
    expect(page.get_by_role("button", name="Add to basket: Stoneware mug")).to_be_visible()


def placed(tab: Tab) -> str:
    """An order is placed; its id."""
    stocked(tab)
    page = tab.page
    page.get_by_role("button", name="Add to basket: Stoneware mug").click()
    page.get_by_role("button", name="Place order").click()
    expect(page.get_by_role("heading", name="Order placed")).to_be_focused()
    link = page.get_by_role("link", name="See its story").get_attribute("href")
    assert link is not None
    return link.rpartition("/")[2]


def paid(tab: Tab) -> str:
    order_id = placed(tab)
    tab.page.get_by_role("button", name=re.compile("^Pay ")).click()
    expect(tab.page.get_by_text("Paid. Invoice, parcel and mails follow")).to_be_visible()
    return order_id


def panel(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


# the whole way --------------------------------------------------------------------------------------------------------
def test_an_order_goes_all_the_way_before_ones_eyes(tab: Tab, request: pytest.FixtureRequest) -> None:
    page = tab.page
    order_id = paid(tab)
    page.get_by_role("link", name="See its story").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(order_id[:8])
    story = page.locator(".timeline")
    for told in ("POST /orders → 201", "3 read, 5 write units", "OrderPaid", "invoice 2", "mail OrderPaid"):
        expect(story).to_contain_text(told)
    expect(panel(page, "Copies")).to_contain_text("All in sync")
    expect(panel(page, "Invoice")).to_contain_text("Open to print")
    expect(panel(page, "Mails").get_by_role("button")).to_have_count(2)
    panel(page, "Mails").get_by_role("button").first.click()
    expect(page.frame_locator("dialog iframe").locator("body")).to_contain_text("Stoneware mug")
    page.keyboard.press("Escape")

    be(page, "staff")
    page.get_by_role("button", name=re.compile("^Ship order")).click()
    page.get_by_role("button", name="Ship it").click()
    page.get_by_role("button", name=re.compile("^Deliver order")).click()
    page.get_by_role("button", name="It is delivered").click()
    expect(page.locator(".story-head")).to_contain_text("Delivered")
    expect(panel(page, "Parcels")).to_contain_text("dhl, JJD")
    expect(panel(page, "Mails").get_by_role("button")).to_have_count(4)
    expect(panel(page, "Copies")).to_contain_text("All in sync")
    if picture := request.config.getoption("--picture"):
        _take(page, picture)

    tab.open("stream")
    chaos = page.get_by_role("form", name="Advance the clock")
    chaos.get_by_label("By").select_option("400d")
    chaos.get_by_role("button").click()
    expect(page.get_by_text("items have expired").first).to_be_visible()
    tab.open(f"orders/{order_id}")
    expect(panel(page, "Archive")).to_contain_text(f"orders/{order_id}/")
    expect(panel(page, "Archive")).to_contain_text("SHA-256")
    expect(story).to_contain_text(f"archived orders/{order_id}/")
    expect(page.locator(".story-head")).to_contain_text("Archived")


def _take(page: Page, picture: Path) -> None:
    page.set_viewport_size({"width": 1200, "height": 820})
    page.evaluate("scrollTo(0, 0)")
    page.locator(".toast").wait_for(state="detached")
    page.screenshot(path=picture)


def test_an_order_is_shipped_delivered_and_returned_at_the_board(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    be(page, "staff")
    tab.open("board?status=FULFILLING")
    row = page.get_by_role("row", name=order_id[:8])
    for _ in range(40):  # it is paid, and packed a moment later; the list is as it was when it was asked for
        page.locator(".loading").first.wait_for(state="detached")
        if row.count():
            break
        page.get_by_role("button", name="Look again").click()
        page.wait_for_timeout(250)
    expect(row).to_be_visible()
    row.get_by_role("button", name=re.compile("^Ship")).click()
    page.get_by_role("button", name="Ship it").click()
    row.get_by_role("button", name=re.compile("^Deliver")).click()
    page.get_by_role("button", name="It is delivered").click()
    row.get_by_role("button", name=re.compile("^Return")).click()
    page.get_by_label("Stoneware mug", exact=True).fill("1")
    page.get_by_role("button", name="Take it back").click()
    expect(row).to_contain_text("Returned")
    row.get_by_role("link").click()
    expect(panel(page, "Payments and refunds")).to_contain_text("Refund")


def test_an_order_is_cancelled_after_a_question(tab: Tab) -> None:
    page = tab.page
    order_id = placed(tab)
    be(page, "staff")
    tab.open("board?status=PENDING")
    row = page.get_by_role("row", name=order_id[:8])
    row.get_by_role("button", name=re.compile("^Cancel")).click()
    page.get_by_role("button", name="Keep it").click()
    expect(row).to_contain_text("Awaiting payment")
    row.get_by_role("button", name=re.compile("^Cancel")).click()
    page.get_by_role("button", name="Cancel the order").click()
    expect(row).to_contain_text("Cancelled")


# what goes wrong ------------------------------------------------------------------------------------------------------
def test_what_cannot_be_is_said_where_it_was_asked_for(tab: Tab) -> None:
    page = tab.page
    stocked(tab)
    page.get_by_role("button", name="Add to basket: Walnut bowl").click()
    page.get_by_label("Quantity of Walnut bowl").fill("500")
    page.get_by_label("Quantity of Walnut bowl").press("Tab")
    page.get_by_role("button", name="Place order").click()
    expect(page.get_by_role("alert").filter(has_text="of Walnut bowl left")).to_be_visible()
    page.get_by_label("Quantity of Walnut bowl").fill("1")
    page.get_by_label("Quantity of Walnut bowl").press("Tab")
    page.get_by_label("Country").fill("Z1")
    page.get_by_role("button", name="Place order").click()
    expect(page.get_by_label("Country")).to_be_focused()
    expect(page.get_by_label("Country")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Country").fill("AT")
    page.get_by_role("button", name="Place order").click()
    expect(page.get_by_role("heading", name="Order placed")).to_be_visible()
    page.get_by_label("a card that is declined", exact=False).check()
    page.get_by_role("button", name=re.compile("^Pay ")).click()
    expect(page.get_by_role("alert").filter(has_text="Nothing was taken")).to_be_visible()
    # What the shop refuses the browser writes down as an error of its own: these two were asked for.
    assert len(tab.seen.errors) == 2
    assert all("/api/orders" in error for error in tab.seen.errors)
    tab.seen.errors.clear()


def test_a_failing_reaction_is_told_with_its_reason_and_then_its_effect(tab: Tab) -> None:
    page = tab.page
    tab.open("stream")
    failing = page.get_by_role("form", name="Fail deliveries")
    failing.get_by_label("Of").select_option("fulfilment")
    failing.get_by_label("Times").fill("1")
    failing.get_by_role("button").click()
    expect(page.get_by_text("The next delivery of fulfilment will fail.").first).to_be_visible()
    order_id = paid(tab)
    tab.open(f"orders/{order_id}")
    story = page.locator(".timeline")
    expect(story).to_contain_text("fulfilment failed at OrderPaid: made to fail")
    expect(story).to_contain_text("attempt 2")
    expect(story).to_contain_text("invoice 2")


def test_a_poisoned_record_is_seen_parked_with_its_payload(tab: Tab) -> None:
    page = tab.page
    tab.open("stream")
    page.get_by_role("form", name="Poison a record").get_by_role("button").click()
    said = page.locator(".said")
    expect(said).to_contain_text("has a schema that nobody knows")
    found = re.search(r"poison-\w+", said.inner_text())
    assert found
    aside = page.get_by_role("region", name="Put aside", exact=True)
    opened: list[str] = []
    for reader in ("copies", "relay"):
        look = aside.get_by_role("button", name=f"Open what {reader} put aside").first
        look.click()
        expect(page.get_by_role("dialog")).to_contain_text("Reason: UnknownSchema")
        expect(page.get_by_role("dialog").locator("pre")).to_contain_text(found[0])
        opened.append(page.get_by_role("dialog").locator("pre").inner_text())
        page.keyboard.press("Escape")
    assert [json.loads(text)["reader"] for text in opened] == ["copies", "relay"]


def test_a_look_that_fails_is_not_repeated_because_it_is_told(tab: Tab) -> None:
    def looks() -> int:
        return sum("/whole" in request for request in tab.seen.requests)

    page = tab.page
    tab.open("stream")
    page.get_by_role("form", name="Poison a record").get_by_role("button").click()
    page.get_by_role("link", name="See its story").click()
    expect(page.locator(".timeline")).to_contain_text("copies put a record aside")
    expect(page.get_by_role("alert")).to_contain_text("It was written by a version of the shop")
    page.wait_for_timeout(2000)
    settled = looks()
    page.wait_for_timeout(2000)
    assert looks() == settled
    tab.seen.errors.clear()  # the browser writes down each answer that is a fault


def test_a_tab_that_nobody_looks_at_holds_no_connection(tab: Tab) -> None:
    def turned(hidden: str) -> None:
        page.evaluate(f"Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }})")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    page = tab.page
    tab.open("stream")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    with page.expect_event("requestfailed", lambda request: "/local/events" in request.url):
        turned("true")
    with page.expect_request(lambda request: "/local/events?after=" in request.url):
        turned("false")


def test_an_address_that_names_no_view_is_the_shop(tab: Tab) -> None:
    tab.open("constructor")
    expect(tab.page.get_by_role("heading", name="Shop", exact=True)).to_be_visible()


def test_a_stopped_reader_and_a_killed_process_are_seen_to_come_back(tab: Tab) -> None:
    page = tab.page
    tab.open("stream")
    reader = page.get_by_role("form", name="Stop a reader")
    reader.get_by_role("button", name="Stop it").click()
    expect(page.locator(".sum-line")).to_contain_text("Stopped: copies")
    reader.get_by_role("button", name="Let it run again").click()
    expect(page.locator(".sum-line")).to_contain_text("All caught up")
    process = page.get_by_role("form", name="Kill a process")
    process.get_by_label("Process").select_option("dynamodb")
    process.get_by_role("button", name="Kill it").click()
    expect(page.get_by_text("dynamodb: running, started again")).to_be_visible()
    expect(page.get_by_text("is back after").first).to_be_visible()
    tab.seen.errors.clear()  # while the shop was away the browser wrote down what it was not answered


# for everybody --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
def test_every_view_is_for_everybody_at_every_width(tab: Tab, scheme: str, width: int) -> None:
    page = tab.page
    order_id = paid(tab)
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 900})
    for view in (*VIEWS, f"orders/{order_id}"):
        tab.open(view)
        page.wait_for_load_state("networkidle") if view not in ("stream", f"orders/{order_id}") else None
        expect(page.locator(".loading")).to_have_count(0)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{view} is {wide} px too wide at {width} px"
        page.evaluate(AXE.read_text())
        found = page.evaluate("axe.run()")["violations"]
        told = [(one["id"], node["html"][:120]) for one in found if one["impact"] in SERIOUS for node in one["nodes"]]
        assert told == [], view


def test_the_shop_is_used_by_keyboard_alone(tab: Tab) -> None:
    stocked(tab)
    page = tab.page
    page.reload()  # so that the focus is nowhere
    expect(page.get_by_role("button", name="Add to basket: Stoneware mug")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()

    def tab_to(name: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            focused = page.locator("button:focus")
            if focused.count() and name in (focused.get_attribute("aria-label") or focused.inner_text()):
                return
        pytest.fail(f"nobody comes to {name!r} by keyboard")

    tab_to("Add to basket: Stoneware mug")
    page.keyboard.press("Enter")
    tab_to("Place order")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Order placed")).to_be_focused()
    tab_to("Pay €")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Paid. Invoice, parcel and mails follow")).to_be_visible()
