"""Tests the flow view: a person watches an order, breaks a part of the shop, and sees it recover."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from functions.model.table import PRODUCT
from local.laptop.shop_target import local_target
from ops.scan.sweep import filter_by_type
from ops.scenarios import wait_until
from tests.browser.conftest import PATIENCE_MS, Tab, layout_and_accessibility_problems, problems_at_every_width
from tests.browser.steps import stocked, unchanged
from tests.laptop.conftest import LaptopShop


def node(page: Page, name: str) -> Locator:
    return page.locator(f'[data-node="{name}"]')


def opened(tab: Tab, name: str) -> Locator:
    """Open the panel of a node in the flow. Return the panel."""
    if "#/flow" not in tab.page.url:
        tab.open("flow")
    node(tab.page, name).click()
    expect(tab.page.locator("#flow-panel-title")).to_be_focused()
    return tab.page.locator("#flow-panel")


def switch(panel: Locator, form: str, button: str, *, order: bool = False) -> Locator:
    """Use a switch of a node. Return its form."""
    found = panel.get_by_role("form", name=form)
    also = found.get_by_role("checkbox")
    if also.count():
        also.set_checked(order)
    found.get_by_role("button", name=button).click()
    return found


def status(page: Page) -> Locator:
    return page.locator(".sum-line")


def order_of(form: Locator) -> str:
    """Return the id of the order that a switch has placed."""
    link = form.get_by_role("link", name="See the trace of its order").get_attribute("href")
    assert link is not None
    return link.rpartition("/")[2]


# the view without failures --------------------------------------------------------------------------------------------
def test_a_sample_order_is_placed_and_moves_along_the_edges(tab: Tab) -> None:
    page = tab.page
    page.emulate_media(reduced_motion="no-preference")
    tab.open("flow")
    expect(status(page)).to_contain_text("All caught up", timeout=3 * PATIENCE_MS)
    page.get_by_role("button", name="Place a sample order and watch").click()
    page.wait_for_selector(".flow-dot", state="attached")
    watched = page.locator(".flow-watched")
    expect(watched).to_contain_text("is placed and paid.")
    expect(watched).to_contain_text(re.compile(r"\d+ stream records, \d+ events, \d+ effects so far"))
    watched.get_by_role("link", name="See its trace").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Order")


def test_with_reduced_motion_edges_and_nodes_light_up_and_nothing_moves(tab: Tab) -> None:
    page = tab.page
    tab.open("flow")
    expect(node(page, "schedules")).to_contain_text("jobs")
    page.evaluate(
        "window.dots = 0; new MutationObserver(() => { window.dots += document.querySelectorAll('.flow-dot').length })"
        ".observe(document.querySelector('.flow-edges'), { childList: true })"
    )
    page.get_by_role("button", name="Place a sample order and watch").click()
    page.wait_for_selector(".flow-edge.is-lit", state="attached")
    page.wait_for_selector(".flow-node.is-lit")
    expect(page.locator(".flow-watched")).to_contain_text("effects so far")
    assert page.evaluate("window.dots") == 0


def test_a_node_is_opened_and_closed_by_keyboard(tab: Tab) -> None:
    page = tab.page
    panel = opened(tab, "refund")
    expect(panel).to_contain_text("Refunds money through the payment provider")
    panel.get_by_text("What it is, reads and writes").click()
    for told in ("functions/handlers/refund_worker.py", "Maximum receive count", "RefundRequested", "SecretsProvider"):
        expect(panel).to_contain_text(told)
    page.keyboard.press("Shift+Tab")
    panel.get_by_role("button", name="Close refund").press("Enter")
    expect(panel).to_have_count(0)
    expect(node(page, "refund")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#flow-panel-title")).to_be_focused()
    expect(node(page, "refund")).to_have_attribute("aria-expanded", "true")


def test_the_last_calls_of_a_node_are_shown_with_their_log_lines(tab: Tab) -> None:
    page = tab.page
    tab.open("flow")
    page.get_by_role("button", name="Place a sample order and watch").click()
    expect(page.locator(".flow-watched")).to_contain_text("effects so far")
    panel = opened(tab, "copies_reader")
    expect(panel).to_contain_text("OrderSummary from Order")
    panel.get_by_text("Last calls and their log lines").click()
    expect(panel.locator(".flow-call").first).to_contain_text("INFO copies_updated")
    expect(panel.locator(".entries")).to_contain_text("copies updated after")


# failures and their recovery ------------------------------------------------------------------------------------------
def test_a_failing_reaction_recovers_with_the_attempt_and_the_time_that_it_took(tab: Tab) -> None:
    page = tab.page
    panel = opened(tab, "fulfilment")
    page.evaluate("""() => { // the failure is shown for some seconds
        const one = document.querySelector('[data-node="fulfilment"]');
        const isFailing = () => one.dataset.tone === "bad" && one.textContent.includes("failing: attempt ");
        const everything = { attributes: true, childList: true, subtree: true, characterData: true };
        new MutationObserver(() => (window.seenFailing ||= isFailing())).observe(one, everything);
    }""")
    panel.get_by_label("Times").fill("2")
    form = switch(panel, "Fail deliveries", "Make them fail", order=True)
    expect(form).to_contain_text("The next 2 deliveries of fulfilment will fail.")
    assert wait_until("the failure", lambda: page.evaluate("window.seenFailing"))
    recovered = re.compile(r"recovered: attempt 3, after (about )?[\d.]+ s")
    expect(node(page, "fulfilment")).to_contain_text(recovered)
    expect(panel.locator(".flow-recovered")).to_contain_text(recovered)
    tab.open(f"orders/{order_of(form)}")
    trace = page.locator(".timeline")
    expect(trace).to_contain_text(re.compile(r"recovered: attempt 3, after [\d.]+ s"))


def test_a_message_that_is_delivered_twice_has_one_effect(tab: Tab, shop: LaptopShop) -> None:
    panel = opened(tab, "fulfilment")
    form = switch(panel, "Deliver twice", "Deliver twice", order=True)
    expect(form).to_contain_text("fulfilment gets the next message twice.")
    expect(panel.locator(".entries")).to_contain_text("fulfilment gets OrderPaid twice")
    expect(panel.locator(".flow-recovered")).to_contain_text("recovered: both deliveries processed, after about ")
    expect(status(tab.page)).to_contain_text("All caught up", timeout=3 * PATIENCE_MS)
    invoices = shop.shop().api_client("staff").get(f"/orders/{order_of(form)}/invoices")["items"]
    assert len(invoices) == 1


def test_a_poisoned_record_is_counted_where_it_is_parked_until_it_is_mended_and_redriven(tab: Tab) -> None:
    page = tab.page
    form = switch(opened(tab, "table"), "Poison a record", "Write a poison record")
    expect(form).to_contain_text("was written with the unknown schema version")
    order_id = order_of(form)
    aside = page.get_by_role("region", name="Failures", exact=True)
    for reader in ("copies_reader", "event_publisher"):
        expect(node(page, reader)).to_contain_text("1 parked")
        expect(status(page)).to_contain_text(f"{reader} (1)")
        aside.get_by_role("button", name=f"Open the failure of {reader}").first.click()
        expect(page.get_by_role("dialog")).to_contain_text("Reason: UnknownSchema")
        expect(page.get_by_role("dialog").locator("pre")).to_contain_text(order_id)
        page.get_by_role("dialog").get_by_role("button", name="Redrive").click()
        expect(page.locator(".toast")).to_contain_text("Not redriven: ")
        page.keyboard.press("Escape")
    for reader in ("copies_reader", "event_publisher"):
        panel = opened(tab, reader)
        panel.get_by_role("button", name=re.compile("^Mend and redrive")).click()
        expect(page.locator(".toast")).to_contain_text("Redriven: the failed work is done")
        expect(node(page, reader)).not_to_contain_text("parked")
        expect(node(page, reader)).to_contain_text("recovered: redriven, after ")
        expect(panel).not_to_contain_text("Stored here")
    expect(status(page)).to_contain_text("All caught up", timeout=3 * PATIENCE_MS)
    tab.open(f"orders/{order_id}")
    expect(page.get_by_role("region", name="Copies", exact=True)).to_contain_text("All in sync")


def test_failures_of_one_reader_and_reason_are_redriven_together(tab: Tab, shop: LaptopShop) -> None:
    stocked(tab)
    where = local_target(shop.shop())
    image = where.table.client.scan(TableName=where.table.name, **filter_by_type(PRODUCT.type))["Items"][0]
    record = {"eventName": "INSERT", "dynamodb": {"Keys": {"PK": image["PK"], "SK": image["SK"]}, "NewImage": image}}
    for name, reason in (("one", "Unreadable: chosen"), ("two", "Unreadable: chosen"), ("three", "Unreadable: other")):
        document = json.dumps({"reader": "event_publisher", "reason": reason, "record": record})
        key = f"parked/event_publisher/together-{name}.json"
        where.client("s3").put_object(Bucket=where.outputs["FailuresBucket"], Key=key, Body=document.encode())
    page = tab.page
    tab.open("flow")
    failures = page.get_by_role("region", name="Failures", exact=True)
    failures.get_by_role("button", name="Redrive several").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Stored since").fill("2026-01-01T00:00")
    dialog.get_by_label("Reader or reaction").select_option("event_publisher")
    dialog.get_by_label("Reason contains").fill("CHOSEN")
    dialog.get_by_role("button", name="Count").click()
    expect(dialog).to_contain_text("2 failures can be redriven.")
    assert layout_and_accessibility_problems(page) == []
    dialog.get_by_role("button", name="Redrive 2").click()
    expect(page.locator(".toast")).to_contain_text("Redriven: 2.")
    chosen = failures.get_by_role("listitem").filter(has_text="Unreadable: chosen")
    expect(chosen).to_contain_text(["parked, redriven"] * 2)
    other = failures.get_by_role("listitem").filter(has_text="Unreadable: other")
    expect(other).not_to_contain_text("redriven")
    other.get_by_role("button").click()
    dialog.get_by_role("button", name="Redrive").click()
    expect(other).to_contain_text("parked, redriven")


def test_a_late_older_answer_does_not_replace_a_newer_one(tab: Tab) -> None:
    tab.open("flow")
    script = """() => import('/ui.js').then(async ({ fill }) => {
        const place = document.createElement('div');
        let answerOlder;
        const older = fill(place, 'the list', () => new Promise((resolve) => { answerOlder = resolve; }));
        await fill(place, 'the list', async () => ['newer']);
        answerOlder(['older']);
        await older;
        return place.textContent;
    })"""
    assert tab.page.evaluate(script) == "newer"


CALM: dict[str, Any] = {
    "readers": [{"name": "copies_reader", "running": True}],
    "queues": [{"name": "fulfilment", "kind": "reaction"}],
    "processes": [{"name": "aws", "running": True}],
    "behind": [],
    "failures": {},
}


STATES: list[tuple[dict[str, Any], str]] = [
    ({}, "All caught up"),
    ({"failures": {"event_publisher": 2}}, "Failed and stored: event_publisher (2)"),
    ({"failures": {"schedules": 1}}, "Failed and stored: schedules (1)"),
    ({"queues": [{"name": "warehouse", "kind": "foreign", "dead": 1}]}, "Failed and stored: warehouse (1)"),
    ({"failures": None}, "The readers are restarting"),
    ({"queues": []}, "The readers are restarting"),
    ({"readers": [{"name": "copies_reader", "running": False}]}, "Stopped: copies_reader"),
    ({"queues": [{"name": "fulfilment", "kind": "reaction", "in_flight": 1}]}, "Working"),
    (
        {"queues": [{"name": "fulfilment", "kind": "reaction", "in_flight": 1, "returning": 1}]},
        "Some deliveries failed and will be retried",
    ),
    ({"queues": [{"name": "fulfilment", "kind": "reaction", "delayed": 1}]}, "Some deliveries failed"),
    ({"behind": ["fulfilment is 9 s behind: 1 waiting"]}, "This machine is behind with the orders: fulfilment"),
    (
        {"behind": ["fulfilment is 9 s behind: 1 waiting"], "faults": {"mail": "quota", "provider": 0}},
        "Fault switched on: the mail service refuses: quota",
    ),
    (
        {"readers": [{"name": "copies_reader", "running": True, "fail_next": 2}]},
        "Fault switched on: the next 2 deliveries of copies_reader will fail",
    ),
]
"""What differs from CALM, and what the page then says."""


def test_all_caught_up_is_never_said_while_a_failure_is_stored(tab: Tab) -> None:
    tab.open("flow")
    said = """(now) => import('/flowNodes.js').then(({ inShort, Activity }) => inShort(now, new Activity()).text)"""
    for change, text in STATES:
        assert tab.page.evaluate(said, CALM | change).startswith(text), change


def test_a_recovery_is_measured_from_the_first_failure_to_the_success(tab: Tab) -> None:
    tab.open("flow")
    told = """(entries) => import('/flowNodes.js').then(({ Activity }) => {
        const activity = new Activity();
        activity.add(entries.map((entry, id) => ({ id, at: `2026-11-25T00:00:0${entry.second}.000Z`, ...entry })));
        return ['fulfilment', 'copies_reader', 'table'].map((id) => activity.recovery(id)?.text ?? null);
    })"""
    failed = {"kind": "failed", "reaction": "fulfilment", "order_id": "a"}
    done = {"kind": "effect", "reaction": "fulfilment", "order_id": "a", "attempt": 3, "second": 5}
    attempts = [failed | {"second": 1, "attempt": 1}, failed | {"second": 3, "attempt": 2}]
    other = done | {"order_id": "b"}
    assert tab.page.evaluate(told, [*attempts, done]) == ["recovered: attempt 3, after 4 s", None, None]
    assert tab.page.evaluate(told, [*attempts, other]) == [None, None, None]
    stopped = {"kind": "chaos", "switch": "reader", "node": "copies_reader"}
    caught_up = {"kind": "delivery", "reader": "copies_reader", "outcome": "done", "attempt": 1, "lag_ms": 2500}
    stop = [stopped | {"running": False, "second": 1}, stopped | {"running": True, "second": 2}]
    assert tab.page.evaluate(told, [*stop, caught_up | {"second": 3}])[1] == "recovered: attempt 1, after 2.5 s"
    settled = """(entries) => import('/flowNodes.js').then(({ Activity }) => {
        const activity = new Activity();
        activity.add(entries.map((entry) => ({ ...entry, at: new Date(1000 * entry.second).toISOString() })));
        const looks = [[true, 4], [false, 5], [true, 6], [true, 8]];
        for (const [isIdle, second] of looks) activity.settle('fulfilment', isIdle, 1000 * second);
        const before = activity.recovery('fulfilment') ?? null;
        activity.settle('fulfilment', true, 9500);
        return [before, activity.recovery('fulfilment').text];
    })"""
    assert tab.page.evaluate(settled, attempts) == [None, "recovered: attempt 3, after about 5 s"]
    killed = [
        {"kind": "process", "process": "dynamodb", "running": runs, "second": at}
        for at, runs in ((1, False), (3, True))
    ]
    assert tab.page.evaluate(told, killed)[2] == "recovered: after 2 s"


def test_a_slow_provider_and_refused_mails_are_seen_at_their_nodes(tab: Tab) -> None:
    for name, label, form, button, faults in (
        ("provider", "Delay of each answer", "Slow the provider", "Set the delay", {"3": "slow: 3 s", "0": "answers"}),
        ("mail", "SES refuses", "Refuse mails", "Refuse mails", {"rate": "1 mail a second", "none": "accepts mails"}),
    ):
        panel = opened(tab, name)
        for choice, shown in faults.items():
            panel.get_by_label(label).select_option(choice)
            switch(panel, form, button)
            expect(node(tab.page, name)).to_contain_text(shown)


def test_a_stopped_reader_and_a_killed_process_are_seen_to_come_back(tab: Tab) -> None:
    page = tab.page
    panel = opened(tab, "copies_reader")
    switch(panel, "Stop a reader", "Stop the reader", order=True)
    expect(status(page)).to_contain_text("Stopped: copies_reader")
    expect(node(page, "copies_reader")).to_contain_text(re.compile(r"stopped, \d+ waiting"))
    panel.get_by_role("button", name="Start the reader").click()
    expect(node(page, "copies_reader")).to_contain_text(re.compile(r"recovered: attempt 1, after [\d.]+ "))
    expect(status(page)).to_contain_text("All caught up", timeout=3 * PATIENCE_MS)
    switch(opened(tab, "table"), "Kill the local DynamoDB", "Kill now", order=True)
    expect(node(page, "table")).to_contain_text("recovered: after ")
    expect(page.get_by_text("restarted in").first).to_be_visible()
    expect(status(page)).to_contain_text("All caught up", timeout=3 * PATIENCE_MS)
    tab.seen.errors.clear()  # the browser logged the requests that failed while the shop was down


def test_a_failed_request_of_the_page_is_shown_and_not_repeated(tab: Tab) -> None:
    def looks() -> int:
        return sum("/whole" in request for request in tab.seen.requests)

    def both_parked() -> bool:
        found = page.request.get(f"{tab.url}/local/orders/{order_id}/entries").json()["entries"]
        return {one["reader"] for one in found if one["kind"] == "parked"} == {"copies_reader", "event_publisher"}

    page = tab.page
    form = switch(opened(tab, "table"), "Poison a record", "Write a poison record")
    order_id = order_of(form)
    form.get_by_role("link", name="See the trace of its order").click()
    parked = re.compile("(copies_reader|event_publisher) parked a record")  # a chapter names the one that was first
    expect(page.locator(".timeline")).to_contain_text(parked)
    expect(page.get_by_role("alert")).to_contain_text("The data was written by a version of the shop")
    assert wait_until("both parked records", both_parked)
    assert wait_until("the end of the requests", lambda: unchanged(page, looks, 2500))
    tab.seen.errors.clear()  # the browser logs each error response
    for reader in ("copies_reader", "event_publisher"):
        opened(tab, reader).get_by_role("button", name=re.compile("^Mend and redrive")).click()
        expect(node(page, reader)).not_to_contain_text("parked")


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


# layout and accessibility ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("width", [768, 1440])
def test_the_heading_and_the_whole_drawing_are_in_the_first_screen(tab: Tab, width: int) -> None:
    page = tab.page
    page.set_viewport_size({"width": width, "height": 900})
    tab.open("flow")
    expect(status(page)).to_contain_text("All caught up", timeout=3 * PATIENCE_MS)
    expect(page.locator(".flow-edge").first).to_be_attached()
    expect(node(page, "schedules")).to_contain_text("jobs")
    bottoms = page.locator(".flow-node").evaluate_all("all => all.map((one) => one.getBoundingClientRect().bottom)")
    assert max(bottoms) <= 900
    assert page.evaluate("scrollY") == 0


def test_the_flow_is_accessible_at_every_width(tab: Tab) -> None:
    page = tab.page
    for name in ("order_notification", "table"):
        panel = opened(tab, name)
        panel.get_by_text("What it is, reads and writes").click()
        expect(page.locator(".loading")).to_have_count(0)
        assert list(problems_at_every_width(page)) == [], name
    boxes = page.locator(".flow-node").evaluate_all(
        "all => all.map((one) => [one.scrollWidth - one.clientWidth, one.scrollHeight - one.clientHeight])"
    )
    assert [box for box in boxes if max(box) > 1] == [], "a text is larger than its node"
