"""Webhooks on the page: staff subscribe an address, see each attempt to send an event, pause, resume and send again."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, Page, expect

from ops.scenarios import wait_until
from tests.browser.conftest import Tab, problems_at_every_width
from tests.browser.steps import paid, panel, placed
from tests.laptop.subscriber import Subscriber, run_subscriber


@pytest.fixture
def subscriber() -> Iterator[Subscriber]:
    with run_subscriber() as subscriber:
        yield subscriber


def received(subscriber: Subscriber, order_id: str) -> list[str]:
    """Return the names of the events of an order, as they arrived."""
    return [event["type"] for event in subscriber.events if event["data"]["order_id"] == order_id]


def add(tab: Tab, subscriber: Subscriber, *event_names: str, where: str = "") -> None:
    """Add a webhook on the page. The page then shows the webhook."""
    tab.open("records?list=webhooks")
    tab.page.get_by_role("button", name="Add a webhook").click()
    asked = tab.page.get_by_role("dialog", name="Add a webhook")
    asked.get_by_label("Address").fill(subscriber.url)
    asked.get_by_label("Events").select_option(event_names)
    asked.get_by_label("Attributes").fill(where)
    assert list(problems_at_every_width(tab.page)) == []
    asked.get_by_role("button", name="Add a webhook").click()
    subscriber.secret = read_secret(tab.page)
    expect(tab.page.get_by_role("heading", name=subscriber.url)).to_be_visible()


def read_secret(page: Page) -> str:
    """Return the secret that the page shows once, and close its dialog."""
    shown = page.get_by_role("dialog", name="The secret of the webhook")
    expect(shown).to_contain_text("It is not shown again.")
    expect(shown.get_by_role("button", name="Copy the secret")).to_be_visible()
    secret = shown.locator("code").inner_text()
    shown.get_by_role("button", name="Close").click()
    return secret


def wait_until_active(page: Page) -> None:
    """Wait until the webhook on the page gets events: 15 seconds after its creation."""
    active_from = page.locator(".facts div", has_text="Events from").locator("time").get_attribute("datetime")
    wait = datetime.fromisoformat(str(active_from)) - datetime.now(UTC)
    page.wait_for_timeout(max(0, wait.total_seconds()) * 1000)


def command(page: Page, name: str) -> None:
    panel(page, "Webhooks").get_by_role("button", name=name, exact=True).click()


def attempts(page: Page, order_id: str) -> Locator:
    """Load the newest deliveries, and return the rows of an order."""
    command(page, "Refresh")
    return panel(page, "Deliveries, newest first").get_by_role("row").filter(has_text=order_id)


def test_a_webhook_gets_signed_events_and_staff_see_each_attempt(tab: Tab, subscriber: Subscriber) -> None:
    page = tab.page
    add(tab, subscriber, "OrderPlaced", "OrderPaid", where="currency=EUR")
    expect(panel(page, "Webhooks")).to_contain_text("No deliveries")
    wait_until_active(page)

    here = page.url.partition("#/")[2]
    first = paid(tab)
    wait_until("the events of the order", lambda: received(subscriber, first) == ["OrderPlaced", "OrderPaid"])
    tab.open(here)
    expect(attempts(page, first)).to_have_count(2)
    expect(attempts(page, first).first).to_contain_text("OrderPaid")
    expect(attempts(page, first).get_by_text("204", exact=True)).to_have_count(2)

    subscriber.status = 500
    second = placed(tab)
    wait_until("the event that fails", lambda: received(subscriber, second))
    tab.open(here)
    expect(attempts(page, second).get_by_text("500", exact=True)).to_have_count(1)
    expect(panel(page, "Webhooks")).to_contain_text("Failures in a row1")
    command(page, "Pause")
    expect(panel(page, "Webhooks")).to_contain_text("Paused by staff")
    assert list(problems_at_every_width(page)) == []

    subscriber.status = 204
    command(page, "Resume")
    expect(panel(page, "Webhooks")).to_contain_text("StateActive")
    command(page, "Send again")
    asked = page.get_by_role("dialog", name="Send again")
    asked.get_by_label("Events from").fill(f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%dT%H:%M}")
    asked.get_by_label("Events", exact=True).select_option("OrderPaid")
    asked.get_by_role("button", name="Send the events again").click()
    expect(panel(page, "Webhooks")).to_contain_text("In progress")
    remove(page, subscriber)
    assert subscriber.mistakes == []


def remove(page: Page, subscriber: Subscriber) -> None:
    command(page, "Delete")
    asked = page.get_by_role("dialog", name=f"Delete {subscriber.url}?")
    asked.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("button", name="Add a webhook")).to_be_visible()
    expect(page.get_by_role("link", name=subscriber.url)).to_have_count(0)


def test_staff_change_a_webhook_give_it_a_new_secret_and_delete_it(tab: Tab, subscriber: Subscriber) -> None:
    page = tab.page
    add(tab, subscriber)
    command(page, "Change")
    changed = page.get_by_role("dialog", name="Change")
    changed.get_by_label("Attributes").fill("colour=red")
    changed.get_by_role("button", name="Save").click()
    expect(changed.get_by_label("Attributes")).to_have_attribute("aria-invalid", "true")
    changed.get_by_label("Attributes").fill("currency=CHF")
    changed.get_by_role("button", name="Save").click()
    expect(panel(page, "Webhooks")).to_contain_text("Attributescurrency=CHF")

    command(page, "New secret")
    page.get_by_role("dialog", name="New secret").get_by_role("button", name="New secret").click()
    assert read_secret(page) not in ("", subscriber.secret)

    remove(page, subscriber)
    tab.seen.errors.clear()  # the browser logs the answer to the unknown attribute
