"""The page as a person uses it: to buy, to watch an order, to work the board, to break the shop and see it recover."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from functions.model.table import PRODUCT
from local.shop_target import local_target
from ops.scan.sweep import filter_by_type
from ops.stories import wait_until
from tests.browser.conftest import PATIENCE_MS, Tab, layout_and_accessibility_problems
from tests.laptop.conftest import LaptopShop

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("loopback_only")]
expect.set_options(timeout=PATIENCE_MS)
VIEWS = ("flow", "shop", "board", "customers", "table", "insight")


def be(page: Page, name: str) -> None:
    page.get_by_label("You are").select_option(name)


def stocked(tab: Tab) -> None:
    """There is something to buy."""
    tab.open("shop")
    page = tab.page
    expect(page.get_by_role("button", name=re.compile("Add sample products|Add to basket")).first).to_be_visible()
    if page.get_by_role("button", name="Add sample products").is_visible():
        page.get_by_role("button", name="Add sample products").click()
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
def test_the_page_shows_each_step_of_an_order(tab: Tab, request: pytest.FixtureRequest) -> None:
    page = tab.page
    order_id = paid(tab)
    page.get_by_role("link", name="See its story").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(order_id[:8])
    story = page.locator(".timeline")
    for told in ("POST /orders → 201", "1.5 read, 5 write units", "OrderPaid", "invoice 2", "mail OrderPaid"):
        expect(story).to_contain_text(told)
    expect(panel(page, "Copies")).to_contain_text("All in sync")
    expect(panel(page, "Invoice")).to_contain_text("Open to print")
    expect(panel(page, "Mails").get_by_role("button")).to_have_count(2)
    panel(page, "Mails").get_by_role("button").first.click()
    expect(page.frame_locator("dialog iframe").locator("body")).to_contain_text("Stoneware mug")
    page.keyboard.press("Escape")

    be(page, "staff")
    page.get_by_role("button", name=re.compile("^Ship order")).click()
    page.get_by_role("button", name="Ship the parcel").click()
    page.get_by_role("button", name=re.compile("^Deliver order")).click()
    page.get_by_role("button", name="Mark as delivered").click()
    expect(page.locator(".story-head")).to_contain_text("Delivered")
    expect(panel(page, "Parcels")).to_contain_text("dhl, JJD")
    expect(panel(page, "Mails").get_by_role("button")).to_have_count(4)
    expect(panel(page, "Copies")).to_contain_text("All in sync")
    if picture := request.config.getoption("--picture"):
        _take(page, picture)

    tab.open("flow")
    chaos = page.get_by_role("form", name="Advance the clock")
    chaos.get_by_label("Duration").select_option("400d")
    chaos.get_by_role("button").click()
    expect(page.get_by_text("items have expired").first).to_be_visible()
    tab.open(f"orders/{order_id}")
    expect(panel(page, "Archive")).to_contain_text(f"/{order_id}/")
    expect(panel(page, "Archive")).to_contain_text("SHA-256")
    expect(story).to_contain_text(re.compile(f"archived orders/day=.*/{order_id}/"))
    expect(page.locator(".story-head")).to_contain_text("Archived")

    page.get_by_role("button", name=re.compile("^Restore order")).click()
    expect(page.locator(".toast")).to_contain_text("The order is restored. Nothing is sent or counted again.")
    expect(page.locator(".story-head")).to_contain_text("Delivered")
    expect(panel(page, "Copies")).to_contain_text("All in sync")
    expect(story).to_contain_text("OrderRestored")
    expect(page.get_by_role("button", name=re.compile("^Restore order"))).to_have_count(0)


def _take(page: Page, picture: Path) -> None:
    page.set_viewport_size({"width": 1200, "height": 820})
    page.evaluate("scrollTo(0, 0)")
    page.locator(".toast").wait_for(state="detached")
    page.screenshot(path=picture)


# asking the table -----------------------------------------------------------------------------------------------------
def test_a_query_of_the_table_is_read_page_by_page(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    page.get_by_role("link", name="Table").click()
    page.get_by_label("Access pattern", exact=True).select_option("A12")
    expect(page.get_by_label("order_id", exact=True).first).not_to_have_value("")  # an example is offered
    page.get_by_label("order_id", exact=True).first.fill(order_id)
    page.get_by_label("order_id", exact=True).first.press("Enter")
    answer = panel(page, "Result")
    expect(answer).to_contain_text("1 unit consumed")
    expect(answer).to_contain_text(f"PK'ORDER#{order_id}'")
    expect(answer.get_by_role("table", name="Order (1)").get_by_role("rowheader")).to_have_text(order_id[:8])

    page.get_by_label("Access pattern", exact=True).select_option("A12b")
    expect(answer).to_be_hidden()
    page.get_by_label("order_id", exact=True).first.fill(order_id)
    page.get_by_label("Items per page").fill("1")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(answer).to_contain_text("The next page starts after")
    following = answer.get_by_role("button", name="Next page")
    shown = [answer.locator("caption").inner_text()]
    while following.is_enabled():
        following.click()
        expect(answer).to_contain_text(f"Page {len(shown) + 1}")
        expect(answer.get_by_role("heading", level=2)).to_be_focused()
        shown.append("".join(answer.locator("caption").all_inner_texts()))
    told = [caption for caption in shown if caption in ("Order (1)", "Payment (1)")]
    assert told == ["Order (1)", "Payment (1)"]
    answer.get_by_role("button", name="Previous page").click()
    expect(answer.locator("caption")).to_have_text(shown[-2])
    page.reload()  # the question is in the address
    expect(answer).to_contain_text("Page 1")
    expect(page.get_by_label("Items per page")).to_have_value("1")


def test_a_query_is_narrowed_by_a_range_and_its_result_is_filtered(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    tab.open("table/A14")
    page.get_by_label("From (placed_at)").fill("2020-01-01T00:00")
    page.get_by_text("Filter the result").click()
    page.get_by_label("Field", exact=True).select_option("order_id")
    page.get_by_label("Is", exact=True).fill(order_id)
    page.get_by_label("status", exact=True).check()
    page.get_by_label("order_id", exact=True).nth(1).check()
    answer = panel(page, "Result")
    found = answer.get_by_role("table", name="OrderSummary (1)")

    def is_found() -> bool:  # the copy of the order follows after a moment
        page.get_by_role("button", name="Run", exact=True).click()
        page.wait_for_timeout(500)
        return found.is_visible()

    assert wait_until("the order in the list", is_found)
    expect(found.get_by_role("columnheader")).to_have_text(["order_id", "status"])
    expect(answer).to_contain_text("They do not reduce the units.")
    page.get_by_text("Filter the result").click()
    page.get_by_text("DynamoDB expressions").click()
    page.get_by_label("Filter expression").fill("total > 999999")
    page.get_by_label("Projection expression").fill("order_id,total")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(answer).to_contain_text("that it did not return. They cost units like the others.")
    answer.get_by_text("The request as code").click()
    expect(answer.locator("pre").first).to_contain_text("FilterExpression")
    expect(answer.locator("pre").last).to_contain_text("--projection-expression")
    page.reload()  # both are in the address
    expect(page.get_by_label("Filter expression")).to_have_value("total > 999999")
    page.get_by_label("Filter expression").fill("totl > 1")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_label("Filter expression")).to_be_focused()
    tab.seen.errors.clear()
    page.get_by_label("Filter expression").fill("")
    page.get_by_label("Projection expression").fill("")
    page.get_by_label("From (placed_at)").fill("2030-01-01T00:00")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(answer).to_contain_text("Nothing was found")

    page.get_by_label("customer_id", exact=True).first.fill("no#body")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_label("customer_id", exact=True).first).to_be_focused()
    expect(panel(page, "Query").get_by_role("alert")).to_contain_text("check the highlighted fields")
    assert len(tab.seen.errors) == 1, "the browser logs rejected requests"
    tab.seen.errors.clear()


# errors ---------------------------------------------------------------------------------------------------------------
def test_a_failing_reaction_is_shown_with_its_reason_and_then_with_its_effect(tab: Tab) -> None:
    page = tab.page
    tab.open("flow")
    failing = page.get_by_role("form", name="Fail deliveries")
    failing.get_by_label("Reader or reaction").select_option("fulfilment")
    failing.get_by_label("Times").fill("1")
    failing.get_by_role("button").click()
    expect(page.get_by_text("The next delivery of fulfilment will fail.").first).to_be_visible()
    order_id = paid(tab)
    tab.open(f"orders/{order_id}")
    story = page.locator(".timeline")
    expect(story).to_contain_text("fulfilment failed on OrderPaid: forced failure")
    expect(story).to_contain_text("attempt 2")
    expect(story).to_contain_text("invoice 2")


def test_a_poisoned_record_is_seen_parked_with_its_payload(tab: Tab) -> None:
    page = tab.page
    tab.open("flow")
    page.get_by_role("form", name="Poison a record").get_by_role("button").click()
    said = page.locator(".said")
    expect(said).to_contain_text("was written with an unknown schema version")
    found = re.search(r"poison-\w+", said.inner_text())
    assert found
    aside = page.get_by_role("region", name="Failures", exact=True)
    opened: list[str] = []
    for reader in ("copies_reader", "event_publisher"):
        look = aside.get_by_role("button", name=f"Open the failure of {reader}").first
        look.click()
        expect(page.get_by_role("dialog")).to_contain_text("Reason: UnknownSchema")
        expect(page.get_by_role("dialog").locator("pre")).to_contain_text(found[0])
        opened.append(page.get_by_role("dialog").locator("pre").inner_text())
        page.get_by_role("dialog").get_by_role("button", name="Redrive").click()
        expect(page.get_by_role("dialog")).to_contain_text("Not redriven: ")
        page.keyboard.press("Escape")
    assert [json.loads(text)["reader"] for text in opened] == ["copies_reader", "event_publisher"]


def test_a_parked_record_is_redriven_once_it_can_be_read(tab: Tab, shop: LaptopShop) -> None:
    stocked(tab)
    where = local_target(shop.shop())
    products = where.table.client.scan(TableName=where.table.name, **filter_by_type(PRODUCT.type))["Items"]
    image = products[0]
    record = {"eventName": "INSERT", "dynamodb": {"Keys": {"PK": image["PK"], "SK": image["SK"]}, "NewImage": image}}
    document = {"reader": "event_publisher", "reason": "Unreadable: by the code of then", "record": record}
    bucket, key = where.outputs["FailuresBucket"], "parked/event_publisher/by-hand.json"
    where.client("s3").put_object(Bucket=bucket, Key=key, Body=json.dumps(document).encode())
    page = tab.page
    tab.open("flow")
    row = (
        page.get_by_role("region", name="Failures", exact=True)
        .get_by_role("row")
        .filter(has_text="by the code of then")
    )
    row.get_by_role("button").click()
    page.get_by_role("dialog").get_by_role("button", name="Redrive").click()
    expect(page.locator(".toast")).to_contain_text("Redriven: the failed work is done")
    expect(row).to_contain_text("parked, redriven")


def test_a_failed_request_of_the_page_is_shown_and_not_repeated(tab: Tab) -> None:
    def looks() -> int:
        return sum("/whole" in request for request in tab.seen.requests)

    page = tab.page
    tab.open("flow")
    page.get_by_role("form", name="Poison a record").get_by_role("button").click()
    page.get_by_role("link", name="See its story").click()
    expect(page.locator(".timeline")).to_contain_text("copies_reader parked a record")
    expect(page.get_by_role("alert")).to_contain_text("The data was written by a version of the shop")
    page.wait_for_timeout(2000)
    settled = looks()
    page.wait_for_timeout(2000)
    assert looks() == settled
    tab.seen.errors.clear()  # the browser writes down each answer that is a fault


def test_a_hidden_tab_holds_no_connection(tab: Tab) -> None:
    def turned(hidden: str) -> None:
        page.evaluate(f"Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }})")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    page = tab.page
    tab.open("flow")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    with page.expect_event("requestfailed", lambda request: "/local/events" in request.url):
        turned("true")
    with page.expect_request(lambda request: "/local/events?after=" in request.url):
        turned("false")


def test_an_unknown_address_shows_the_first_view(tab: Tab) -> None:
    tab.open("constructor")
    expect(tab.page.get_by_role("heading", name="Flow", exact=True)).to_be_visible()


def test_a_stopped_reader_and_a_killed_process_are_seen_to_come_back(tab: Tab) -> None:
    page = tab.page
    tab.open("flow")
    reader = page.get_by_role("form", name="Stop a reader")
    reader.get_by_role("button", name="Stop the reader").click()
    expect(page.locator(".sum-line")).to_contain_text("Stopped: copies_reader")
    reader.get_by_role("button", name="Start the reader").click()
    expect(page.locator(".sum-line")).to_contain_text("All caught up")
    process = page.get_by_role("form", name="Kill a process")
    process.get_by_label("Process").select_option("dynamodb")
    process.get_by_role("button", name="Kill the process").click()
    expect(page.get_by_text("dynamodb: running, restarted")).to_be_visible()
    expect(page.get_by_text("restarted in").first).to_be_visible()
    tab.seen.errors.clear()  # the browser logged the requests that failed while the shop was down


# layout and accessibility ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
def test_every_view_is_accessible_at_every_width(tab: Tab, scheme: str, width: int) -> None:
    page = tab.page
    order_id = paid(tab)
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 900})
    for view in (*VIEWS, f"orders/{order_id}", f"table/A12b?order_id={order_id}"):
        tab.open(view)
        page.wait_for_load_state("networkidle") if view not in ("flow", f"orders/{order_id}") else None
        expect(page.locator(".loading")).to_have_count(0)
        assert layout_and_accessibility_problems(page) == [], view


def test_all_views_are_in_one_row_above_at_360_pixels(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 360, "height": 800})
    tab.open("insight")
    places = [
        link.bounding_box() for link in tab.page.get_by_role("navigation", name="Views").get_by_role("link").all()
    ]
    assert len(places) == len(VIEWS)
    assert len({place["y"] for place in places if place}) == 1
    current = tab.page.get_by_role("navigation", name="Views").get_by_role("link", name="Insight")
    expect(current).to_be_in_viewport(ratio=1)  # the row scrolls sideways to it
