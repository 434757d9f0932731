"""Tests the view of the table: access patterns, links of keys, pages, and an item with the items derived from it."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, Page, expect

from functions.model.table import ACTIVITY
from ops.scenarios import wait_until
from proof.support.samples import SAMPLES
from tests.browser.conftest import Tab, layout_and_accessibility_problems, problems_at_every_width
from tests.browser.steps import paid, panel, placed
from tests.laptop.conftest import LaptopShop


def result(page: Page) -> Locator:
    return panel(page, "Result")


def run(page: Page) -> None:
    page.get_by_role("button", name="Run", exact=True).click()


def rows(page: Page) -> Locator:
    return result(page).locator("tr.item")


def sort_keys(page: Page) -> list[str]:
    return result(page).locator("tr.item th.sk").all_inner_texts()


def collection_of(tab: Tab, order_id: str) -> None:
    """Open the item collection of a paid order, with its invoice and its shipment."""

    def is_complete() -> bool:
        tab.open("shop")  # another view, so that the address changes
        tab.open(f"table?pk=ORDER%23{order_id}")
        rows(tab.page).first.wait_for()
        return rows(tab.page).count() == 5

    assert wait_until("invoice and shipment", is_complete)


# questions ------------------------------------------------------------------------------------------------------------
def test_the_first_view_shows_the_items_of_an_order_without_a_click(tab: Tab) -> None:
    paid(tab)
    page = tab.page
    page.get_by_role("link", name="Table").click()
    expect(page.get_by_role("heading", name="A12b: order with all its items").first).to_be_visible()
    expect(result(page).get_by_role("rowheader", name="Open the item ORDER")).to_be_visible()


def test_a_question_is_found_by_its_noun_by_words_and_by_its_id(tab: Tab) -> None:
    page = tab.page
    tab.open("table")
    questions = page.get_by_role("navigation", name="Questions")
    expect(questions.get_by_role("heading", name="Customer", exact=True)).to_be_visible()
    search = page.get_by_label("Find a question")
    for words, found in (
        ("orders newest customer", ["A3", "A14", "A16", "C6"]),
        ("OrderSummary date", ["A18"]),
        ("a27b", ["A27b"]),
        ("tracking", ["A21b"]),
    ):
        search.fill(words)
        expect(questions.locator("a:visible code")).to_have_text(found)
    expect(questions.locator("h3:visible")).to_have_text(["Shipment"])
    search.fill("weather")
    expect(page.get_by_text("No question has these words.")).to_be_visible()
    search.fill("reviews product newest")
    questions.get_by_role("link", name=re.compile("^A9 ")).click()
    expect(page.get_by_role("heading", name="A9: reviews of a product, newest first")).to_be_focused()
    expect(questions.locator("a[aria-current=page]")).to_contain_text("A9")
    assert page.url.endswith("#/table/A9")
    page.go_back()
    expect(page.get_by_role("heading", name="A12b: order with all its items").first).to_be_visible()


def test_a_question_is_answered_page_by_page_and_its_address_can_be_shared(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    tab.open("table/A12")
    page.get_by_label("order_id", exact=True).first.fill(order_id)
    page.get_by_label("order_id", exact=True).first.press("Enter")
    expect(result(page)).to_contain_text("1 read unit")
    expect(result(page)).to_contain_text("$0.125 for a million such reads (on-demand, us-east-1")
    expect(rows(page)).to_have_count(1)
    assert page.url.endswith(f"#/table/A12?order_id={order_id}")

    collection_of(tab, order_id)
    whole = sort_keys(page)
    tab.open(f"table/A12b?order_id={order_id}&limit=2")
    following, seen = result(page).get_by_role("button", name="Next page"), []
    for number in range(1, 9):
        expect(result(page)).to_contain_text(f"Page {number}")
        seen += sort_keys(page)
        if not following.is_enabled():
            break
        following.click()
        expect(result(page).get_by_role("heading", level=2)).to_be_focused()
    assert seen == whole
    result(page).get_by_role("button", name="Previous page").click()
    expect(result(page)).to_contain_text(f"Page {number - 1}")
    page.reload()  # the address of the page contains the question
    expect(result(page)).to_contain_text("Page 1")
    expect(page.get_by_label("Items per page")).to_have_value("2")


# keys -----------------------------------------------------------------------------------------------------------------
def test_any_key_of_the_table_is_read_whole_and_by_its_sort_key(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    collection_of(tab, order_id)
    expect(result(page).get_by_role("heading", level=2)).to_have_text(f"Item collection ORDER#{order_id}")
    whole = sort_keys(page)
    assert whole == sorted(whole)
    page.get_by_label("Sort key (SK)").select_option("BETWEEN")
    page.get_by_label("Value", exact=True).fill("INVOICE#")
    page.get_by_label("To, inclusive").fill("P")
    run(page)
    found = [key for key in whole if "INVOICE#" <= key <= "P"]
    expect(result(page).locator("tr.item th.sk")).to_have_text(found)
    page.reload()
    expect(page.get_by_label("Value", exact=True)).to_have_value("INVOICE#")
    expect(result(page).locator("tr.item th.sk")).to_have_text(found)
    tab.open("table/A9")
    page.get_by_role("link", name="Any key").click()
    page.get_by_label("Read", exact=True).select_option("GSI2")
    expect(page.get_by_label("Partition key (GSI2PK)")).to_be_visible()
    suggested = page.locator("datalist").first.locator("option").evaluate_all("(all) => all.map((one) => one.value)")
    assert "STATUS#PENDING#0" in suggested


# the item collection --------------------------------------------------------------------------------------------------
def test_an_item_collection_has_one_cell_for_its_partition_and_a_tint_for_each_type(tab: Tab) -> None:
    page = tab.page
    collection_of(tab, paid(tab))
    count = rows(page).count()
    expect(result(page).locator("tbody th.pk")).to_have_count(1)
    expect(result(page).locator("tbody th.pk")).to_have_attribute("rowspan", str(count))
    types = result(page).locator("tr.item .type").all_inner_texts()
    assert {"Order", "Payment", "Invoice", "Shipment"} <= set(types)
    tints = rows(page).evaluate_all(
        "(all) => all.map((row) => getComputedStyle(row.cells[row.cells.length - 1]).backgroundColor)"
    )
    assert len(set(tints)) == len(set(types))
    order = rows(page).filter(has=page.get_by_role("button", name="Open the item ORDER", exact=True))
    expect(order).to_contain_text("total 1890")
    expect(order.locator("td.number")).to_have_text(re.compile(r"^\d+ bytes$"))


def test_the_keys_stay_when_the_collection_is_scrolled_sideways(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    for width, keys in ((900, "th.pk, tr.item th.sk"), (360, ".pk-row .pk-text, tr.item th.sk")):
        page.set_viewport_size({"width": width, "height": 900})
        collection_of(tab, order_id)
        if page.get_by_role("button", name=re.compile("^GSI1")).get_attribute("aria-pressed") == "false":
            page.get_by_role("button", name=re.compile("^GSI1")).click()
        region = result(page).get_by_role("region")
        region.evaluate("(region) => { region.scrollLeft = 300; }")
        assert region.evaluate("(region) => region.scrollLeft") > 100
        inside = region.bounding_box()
        assert inside is not None
        for key in region.locator(keys).all():
            box = key.bounding_box()
            assert box is None or box["x"] >= inside["x"] - 1, "a hidden cell has no box"
        assert layout_and_accessibility_problems(page) == []


def test_a_switch_shows_the_keys_of_an_index_which_open_its_item_collection(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    collection_of(tab, order_id)
    switch = page.get_by_role("button", name=re.compile("^GSI1 · 1 item"))
    if switch.get_attribute("aria-pressed") == "true":
        switch.click()
    expect(result(page).get_by_role("columnheader", name="GSI1")).to_have_count(0)
    switch.click()
    expect(switch).to_be_focused()
    expect(result(page).get_by_role("columnheader", name="GSI1")).to_be_visible()
    invoice = rows(page).filter(has_text="INVOICE#").first
    invoice.locator("td.key a").click()
    expect(result(page).get_by_role("heading", level=2)).to_contain_text("Item collection in GSI1 INVOICE#2")
    assert re.search(r"#/table\?index=GSI1&pk=INVOICE%23", page.url)
    expect(result(page).get_by_role("columnheader")).to_contain_text(["GSI1PK", "GSI1SK", "PK / SK"])
    expect(result(page).locator("tr.item th.sk")).to_have_text(["INVOICE"])
    rows(page).get_by_role("link", name=f"ORDER#{order_id}").click()
    expect(result(page).get_by_role("heading", level=2)).to_have_text(f"Item collection ORDER#{order_id}")


# one item -------------------------------------------------------------------------------------------------------------
def test_an_item_opens_whole_and_leads_to_its_source_and_to_its_copies(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    collection_of(tab, order_id)
    page.get_by_role("button", name="Open the item ORDER", exact=True).click()
    item = page.get_by_role("dialog", name="ORDER")
    expect(item).to_contain_text("GetItem: 1 read unit")
    attributes = item.get_by_role("table", name="Attributes")
    expect(attributes.get_by_role("row", name="total N 1890", exact=True)).to_be_visible()
    expect(attributes.get_by_role("row", name=re.compile("^lines M "))).to_contain_text('"quantity": 1')
    assert layout_and_accessibility_problems(page) == []
    item.get_by_role("listitem").filter(has_text="OrderSummary").get_by_role("link").click()
    expect(item).to_have_count(0)
    expect(rows(page)).to_have_count(1)  # the rows of the source may still be shown
    expect(rows(page)).to_contain_text("snapshot of Order")
    rows(page).get_by_role("button").click()
    copy = page.get_by_role("dialog")
    expect(copy).to_contain_text("snapshot of Order")
    copy.get_by_role("link", name=f"ORDER#{order_id} / ORDER").click()
    expect(result(page).locator("tr.item th.sk")).to_have_text(["ORDER"])
    expect(result(page).get_by_role("heading", level=2)).to_have_text(f"Item collection ORDER#{order_id}")


# expressions ----------------------------------------------------------------------------------------------------------
def test_conditions_and_attributes_are_composed_and_shown_before_and_after_the_run(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    tab.open("table/A14")
    page.get_by_label("From (placed_at)").fill("2020-01-01T00:00")
    page.get_by_text("Conditions and attributes").click()
    page.get_by_role("button", name="Add a condition").click()
    page.get_by_label("Attribute", exact=True).fill("order_id")
    page.get_by_label("Value", exact=True).fill(order_id)
    page.get_by_role("button", name="Add a condition").click()
    page.get_by_label("Attribute", exact=True).nth(1).fill("total")
    page.get_by_label("Operator").nth(1).select_option("between")
    page.get_by_label("Value", exact=True).nth(1).fill("100")
    page.get_by_label("To, inclusive").nth(1).fill("999999")
    expect(page.get_by_label("Filter expression")).to_have_value(
        f"order_id = '{order_id}' AND total BETWEEN 100 AND 999999"
    )
    page.get_by_label("status", exact=True).check()
    expect(page.get_by_label("Projection expression")).to_have_value("status")
    preview = page.get_by_role("status", name="Expressions")
    expect(preview).to_contain_text("FilterExpression#order_id = :order_id AND #total BETWEEN :total AND :total2")
    expect(preview).to_contain_text('{"N":"999999"}')
    assert not result(page).is_visible(), "nothing was sent yet"

    def is_found() -> bool:  # the copy of the order is written a moment later
        run(page)
        page.wait_for_timeout(500)
        return rows(page).count() == 1

    assert wait_until("the order in the list", is_found)
    expect(rows(page).locator(".attribute")).to_have_text([re.compile("^status ")])
    expect(result(page).get_by_role("columnheader", name="size returned")).to_be_visible()
    result(page).get_by_text("The request, with its expressions").click()
    expect(result(page)).to_contain_text("ProjectionExpression#status, #PK, #SK, #type")
    page.get_by_label("Combine").select_option("one must be true")
    page.get_by_role("button", name="Remove the condition").first.click()
    expect(page.get_by_label("Filter expression")).to_have_value("total BETWEEN 100 AND 999999")


def test_a_filter_says_what_it_read_and_did_not_return(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    collection_of(tab, order_id)
    page.get_by_text("Conditions and attributes").click()
    page.get_by_label("Filter expression").fill("attribute_exists(carrier) OR total > 1")
    run(page)
    expect(result(page)).to_contain_text("that it did not return. They cost units like the others.")
    page.reload()  # the address of the page contains the filter
    expect(page.get_by_label("Filter expression")).to_have_value("attribute_exists(carrier) OR total > 1")
    page.get_by_label("Filter expression").fill("total > 99999999")
    run(page)
    expect(result(page)).to_contain_text("No item is shown")


@pytest.mark.parametrize("copied", ["boto3", "AWS CLI"])
def test_the_request_can_be_copied_as_code(tab: Tab, copied: str) -> None:
    page = tab.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    order_id = placed(tab)
    tab.open(f"table?pk=ORDER%23{order_id}")
    result(page).get_by_text("The request as code").click()
    result(page).get_by_role("button", name=f"Copy as {copied}").click()
    expect(page.locator(".toast")).to_have_text(f"Copied as {copied}")
    start = {"boto3": 'boto3.client("dynamodb").query(', "AWS CLI": "aws dynamodb query"}[copied]
    code = page.evaluate("navigator.clipboard.readText()")
    assert code.startswith(start)
    assert f"ORDER#{order_id}" in code


def test_a_mistake_is_shown_at_its_field(tab: Tab) -> None:
    page = tab.page
    tab.open("table/A14")
    page.get_by_text("Conditions and attributes").click()
    for label, wrong, right in (
        ("Filter expression", "totl > 1", ""),
        ("Filter expression", "SET total = 1", ""),
        ("Projection expression", "colour", ""),
        ("customer_id", "no#body", "nobody"),
    ):
        field = page.get_by_label(label, exact=True).first
        field.fill(wrong)
        run(page)
        expect(field).to_be_focused()
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(panel(page, "Query").get_by_role("alert")).to_contain_text("check the highlighted fields")
        field.fill(right)
    run(page)
    expect(result(page)).to_contain_text("Nothing was found")
    assert len(tab.seen.errors) == 4, "the browser logs rejected requests"
    tab.seen.errors.clear()


def test_an_item_shows_its_time_left_and_its_texts_stay_texts(tab: Tab, shop: LaptopShop) -> None:
    page, text, running = tab.page, "<img src=x onerror=alert(1)>", shop.shop()
    ends = datetime.now(UTC) + timedelta(days=394)
    entry = replace(SAMPLES[ACTIVITY], customer_id="hostile", event=text, ttl=int(ends.timestamp()))
    running.engine.dynamodb().put_item(TableName=running.table_name, Item=ACTIVITY.encode(entry))
    tab.open("table?pk=CUSTOMER%23hostile")
    expect(rows(page)).to_contain_text(text)
    expect(rows(page)).to_contain_text("log entry of Order")
    left = rows(page).locator("time")
    expect(left).to_have_text(re.compile("^in 394 days"))
    expect(left.locator(".moment")).to_be_hidden()
    left.focus()
    expect(left.locator(".moment")).to_have_text(re.compile(r"^\d+ \w+ 20\d\d, \d\d:\d\d:\d\d$"))
    rows(page).get_by_role("button").click()
    expect(page.get_by_role("dialog")).to_contain_text(text)


# layout and accessibility ---------------------------------------------------------------------------------------------
def test_the_table_is_accessible_at_every_width(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    collection_of(tab, order_id)
    for view in ("table", f"table?pk=ORDER%23{order_id}&filter=total>1", "table?index=GSI2&pk=STATUS%23PAID%230"):
        tab.open(view)
        expect(result(page)).to_be_visible()
        for summary in page.locator("main summary").all():
            if summary.locator("..").get_attribute("open") is None:
                summary.click()
        page.wait_for_load_state("networkidle")
        assert list(problems_at_every_width(page)) == [], view
