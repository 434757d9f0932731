"""Tests the trace of an order: measured spans (steps) in chapters, one for each command, and the panel of a span."""

import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import PATIENCE_MS, Tab, layout_and_accessibility_problems, problems_at_every_width
from tests.browser.steps import be, paid, panel, placed


def throw(tab: Tab, switch: str, **body: Any) -> Any:
    """Use one of the switches that break a part of the shop."""
    answer = tab.page.request.post(f"{tab.url}/local/chaos", data={"switch": switch, **body}, timeout=120_000)
    assert answer.ok, answer.text()
    return answer.json()


def chapter(page: Page, title: str) -> Locator:
    return page.get_by_role("region", name=title, exact=True)


def opened(page: Page, title: str) -> Locator:
    """Open a chapter of the trace, and return it."""
    toggle = chapter(page, title).get_by_role("button", name=title).first
    if toggle.get_attribute("aria-expanded") == "false":
        toggle.click()
    return chapter(page, title)


def row(where: Locator, name: str) -> Locator:
    return where.locator(".span-row").filter(has_text=name).first


def calm(page: Page) -> None:
    """Wait until the trace has not changed for 2 seconds. A change replaces rows, and a click on such a row is lost."""
    page.evaluate("""() => new Promise((done) => {
        let timer = setTimeout(done, 2000);
        const again = () => { clearTimeout(timer); timer = setTimeout(done, 2000); };
        new MutationObserver(again).observe(document.querySelector(".timeline"), { childList: true, subtree: true });
    })""")


# all steps of an order ------------------------------------------------------------------------------------------------
def test_the_page_shows_each_step_of_an_order(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    page.get_by_role("link", name="See its trace").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(order_id[:8])
    paid_chapter = opened(page, "Paid")
    for step in ("POST /payments/events → 200", "PENDING → PAID", "OrderPaid", "fulfilment", "mail OrderPaid"):
        expect(paid_chapter).to_contain_text(step)
    expect(opened(page, "Placed")).to_contain_text("5 R 5 W")
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
    expect(page.locator(".order-head")).to_contain_text("Delivered")
    expect(chapter(page, "Dispatched")).to_be_visible()
    expect(chapter(page, "Delivered")).to_contain_text("SHIPPED → DELIVERED")
    expect(panel(page, "Parcels")).to_contain_text("dhl, JJD")
    expect(panel(page, "Mails").get_by_role("button")).to_have_count(4)
    expect(panel(page, "Copies")).to_contain_text("All in sync")

    for step in (
        "Order placed",
        "Order paid",
        "Invoice",
        "Parcel requested",
        "Order shipped",
        "Order delivered",
        "Mail: ",
    ):
        expect(page.locator(".steps").filter(has_text=step).first).to_be_visible()

    throw(tab, "advance", by="400d")
    # All orders that other tests have placed end and are archived, too.
    expect(panel(page, "Archive")).to_contain_text(f"/{order_id}/", timeout=3 * PATIENCE_MS)
    expect(panel(page, "Archive")).to_contain_text("SHA-256")
    expect(opened(page, "Archived")).to_contain_text("archived orders/day=")
    expect(page.locator(".order-head")).to_contain_text("Archived")

    page.get_by_role("button", name=re.compile("^Restore order")).click()
    expect(page.locator(".toast")).to_contain_text("The order is restored. Nothing is sent or counted again.")
    expect(page.locator(".order-head")).to_contain_text("Delivered")
    expect(panel(page, "Copies")).to_contain_text("All in sync")
    expect(chapter(page, "Restored")).to_contain_text("OrderRestored")
    expect(page.get_by_role("button", name=re.compile("^Restore order"))).to_have_count(0)


def test_an_order_is_shown_if_its_mails_cannot_be_read(tab: Tab) -> None:
    page = tab.page
    order_id = placed(tab)
    page.route("**/local/orders/*/mails", lambda route: route.fulfill(status=409, json={}))
    tab.open(f"orders/{order_id}")
    expect(page.locator(".order-head")).to_contain_text("Awaiting payment")
    expect(panel(page, "Mails")).to_contain_text("The mails cannot be read now.")
    expect(page.locator(".steps").first).to_contain_text("Order placed")
    tab.seen.errors.clear()  # the browser logged the 409


# chapters -------------------------------------------------------------------------------------------------------------
def test_the_newest_chapter_is_open_and_fits_into_900_pixels(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    tab.open(f"orders/{order_id}")
    expect(chapter(page, "Paid")).to_contain_text("ShipmentRequested")
    expect(chapter(page, "Paid").get_by_role("button").first).to_have_attribute("aria-expanded", "true")
    expect(chapter(page, "Placed").get_by_role("button")).to_have_count(1)
    expect(chapter(page, "Placed")).to_contain_text(re.compile(r"\d (ms|s|min).*spans.*R .*W"))
    assert chapter(page, "Paid").evaluate("(one) => one.getBoundingClientRect().height") <= 900


def test_copies_are_one_row_that_opens(tab: Tab) -> None:
    page = tab.page
    order_id = placed(tab)
    tab.open(f"orders/{order_id}")
    expect(chapter(page, "Placed")).to_contain_text("mail OrderPlaced")
    calm(page)
    row(chapter(page, "Placed"), "3 copies").click()
    expect(row(chapter(page, "Placed"), "INSERT OrderSummary")).to_be_visible()
    row(chapter(page, "Placed"), "3 copies").click()
    expect(row(chapter(page, "Placed"), "INSERT OrderSummary")).to_have_count(0)


def test_a_failing_chapter_comes_first_and_its_parked_record_is_redriven(tab: Tab) -> None:
    page = tab.page
    order_id = placed(tab)
    tab.open(f"orders/{order_id}")
    expect(chapter(page, "Placed")).to_contain_text("mail OrderPlaced")
    throw(tab, "poison", order_id=order_id)
    first = page.locator(".chapter").first
    expect(first.locator(".chapter-head")).to_contain_text("failing: ")
    for reader in ("copies_reader", "event_publisher"):
        expect(first.locator(".chapter-head")).to_contain_text(f"{reader} parked a record")
    expect(page.locator(".chapter")).to_have_count(2)
    page.get_by_role("button", name="Only failures").click()
    expect(page.locator(".chapter")).to_have_count(1)
    expect(page).to_have_url(re.compile("only=failures"))
    for reader in ("copies_reader", "event_publisher"):
        calm(page)
        row(first, f"{reader} parked a record").click()
        page.locator(".span-panel").get_by_role("button", name="Mend and redrive").click()
        expect(page.locator(".toast")).to_contain_text("Redriven: the failed work is done")
        expect(row(first, f"{reader} parked a record")).to_contain_text("attempt 2 ✓")
        expect(page.locator(".span-panel").get_by_role("button", name="Mend and redrive")).to_have_count(0)
    expect(first.locator(".chapter-head")).to_contain_text("recovered")
    tab.seen.errors.clear()  # the browser logged that the API could not read the order


def test_all_chapters_share_one_axis_on_which_idle_time_is_folded(tab: Tab) -> None:
    tab.open("flow")
    script = """() => import('/traceAxis.js').then(({ axisOf, axisElement }) => {
        const span = (from, ms, state = 'working') => ({ segments: [{ state, began_at: from, ms }] });
        const placed = [span(0, 400), span(600, 400)];
        const paid = [span(61000, 1000), span(62000, 59000, 'waiting'), span(121000, 1000)];
        const chapters = [
            { id: 'a', title: 'Placed', began_at: 0, ms: 1000, spans: placed },
            { id: 'b', title: 'Paid', began_at: 61000, ms: 61000, spans: paid },
        ];
        const axis = axisOf(chapters, new Set(['b']));
        const shown = axisElement(axis, chapters);
        return {
            kinds: axis.pieces.map(({ kind }) => kind),
            widths: axis.pieces.map(({ width }) => Math.round(width * 10) / 10),
            places: [0, 1000, 61000, 122000].map((at) => Math.round(axis.place(at) * 10) / 10),
            names: [...shown.querySelectorAll('.axis-chapter')].map((one) => one.textContent),
            folds: [...shown.querySelectorAll('.axis-fold')].map((one) => one.title),
        };
    })"""
    assert tab.page.evaluate(script) == {
        "kinds": ["closed", "fold", "open", "fold", "open"],
        "widths": [5, 2.5, 45, 2.5, 45],
        "places": [0, 5, 7.5, 100],
        "names": ["Placed", "Paid"],
        "folds": ["1 min without work", "59 s without work"],
    }


# the panel ------------------------------------------------------------------------------------------------------------
def test_a_record_shows_its_changes_and_a_link_to_it_survives_a_reload(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    tab.open(f"orders/{order_id}")
    expect(opened(page, "Paid")).to_contain_text("ShipmentRequested")
    calm(page)
    row(chapter(page, "Paid"), "PENDING → PAID").click()
    details = panel(page, "Stream record: MODIFY Order")
    changed = details.locator(".diff").first
    expect(changed).to_contain_text("PENDING → PAID")
    expect(changed).to_contain_text("version1 → 2")
    expect(details).to_contain_text(re.compile(r"\d+ attributes unchanged"))
    expect(page).to_have_url(re.compile(r"\?span=record-\d+$"))
    page.reload()
    expect(details).to_contain_text("PENDING → PAID")
    expect(page.locator("[aria-pressed=true]").filter(has_text="PENDING → PAID")).to_be_focused()
    details.get_by_role("button", name=re.compile("^TransactWriteItems")).click()
    written = panel(page, "Write: TransactWriteItems")
    expect(written).to_contain_text(f"Update ORDER#{order_id} / ORDER")
    expect(written).to_contain_text("8 units")
    written.get_by_role("button", name="Close the details").click()
    expect(written).to_have_count(0)
    expect(page).to_have_url(re.compile(f"orders/{order_id}$"))


def test_a_mail_is_shown_in_a_frame_without_rights(tab: Tab) -> None:
    page = tab.page
    order_id = placed(tab)
    tab.open(f"orders/{order_id}")
    expect(chapter(page, "Placed")).to_contain_text("mail OrderPlaced")
    calm(page)
    row(chapter(page, "Placed"), "mail OrderPlaced").click()
    frame = panel(page, "Mail: mail OrderPlaced").locator("iframe")
    expect(frame).to_have_attribute("sandbox", "")
    expect(frame.content_frame.locator("body")).to_contain_text("Stoneware mug")


def test_a_trace_is_shown_as_a_list_and_as_json(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    tab.open(f"orders/{order_id}")
    expect(chapter(page, "Paid")).to_contain_text("ShipmentRequested")
    views = page.get_by_role("group", name="Ways to view")
    views.get_by_role("button", name="List").click()
    listed = page.get_by_role("region", name="Spans by time")
    expect(listed.get_by_role("row").filter(has_text="mail OrderPaid")).to_contain_text("Mail")
    views.get_by_role("button", name="JSON").click()
    expect(page.locator("pre").first).to_contain_text('"title": "Paid"')
    page.reload()
    expect(page.locator("pre").first).to_contain_text('"title": "Paid"')


# new spans ------------------------------------------------------------------------------------------------------------
def height_of(row: Locator) -> float:
    """Return how far below the start of the page a row is."""
    return float(row.evaluate("(one) => one.getBoundingClientRect().y + scrollY"))


def test_new_spans_arrive_and_the_selected_row_stays(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    be(page, "staff")
    tab.open(f"orders/{order_id}")
    expect(chapter(page, "Paid")).to_contain_text("ShipmentRequested")
    calm(page)
    row(chapter(page, "Paid"), "PENDING → PAID").click()
    expect(panel(page, "Stream record: MODIFY Order")).to_contain_text("unchanged")
    before = height_of(row(chapter(page, "Paid"), "PENDING → PAID"))
    page.get_by_role("button", name=re.compile("^Ship order")).click()
    page.get_by_role("button", name="Ship the parcel").click()
    expect(chapter(page, "Dispatched")).to_contain_text("mail OrderShipped")
    after = height_of(row(chapter(page, "Paid"), "PENDING → PAID"))
    assert abs(before - after) < 60, "only the order's own state above may change its height"
    expect(panel(page, "Stream record: MODIFY Order")).to_be_visible()


# keyboard and layout --------------------------------------------------------------------------------------------------
def test_the_rows_are_reached_by_keyboard_and_the_panel_is_announced(tab: Tab) -> None:
    page = tab.page
    order_id = placed(tab)
    tab.open(f"orders/{order_id}")
    expect(chapter(page, "Placed")).to_contain_text("mail OrderPlaced")
    calm(page)
    row(chapter(page, "Placed"), "POST /orders").focus()
    page.keyboard.press("ArrowDown")
    expect(row(chapter(page, "Placed"), "TransactWriteItems")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#announcer")).to_contain_text("Details of INSERT Order are shown.")
    expect(panel(page, "Stream record: INSERT Order")).to_be_visible()
    page.keyboard.press("Escape")
    expect(panel(page, "Stream record: INSERT Order")).to_have_count(0)
    expect(row(chapter(page, "Placed"), "INSERT Order")).to_be_focused()
    page.keyboard.press("Home")
    expect(chapter(page, "Placed").get_by_role("button").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(chapter(page, "Placed").locator(".span-row")).to_have_count(0)


def test_a_trace_is_accessible_at_every_width(tab: Tab) -> None:
    page = tab.page
    order_id = paid(tab)
    tab.open(f"orders/{order_id}")
    expect(chapter(page, "Paid")).to_contain_text("ShipmentRequested")
    calm(page)
    for name in ("PENDING → PAID", "fulfilment", "mail OrderPaid", "POST /payments"):
        row(chapter(page, "Paid"), name).click()
        expect(page.locator(".span-panel summary").last).to_be_visible()
        expect(page.locator(".loading")).to_have_count(0)
        assert layout_and_accessibility_problems(page) == [], name
    assert list(problems_at_every_width(page)) == []
    views = page.get_by_role("group", name="Ways to view")
    for view in ("List", "JSON"):
        views.get_by_role("button", name=view).click()
        assert list(problems_at_every_width(page)) == [], view
