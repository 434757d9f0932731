"""The documentation site at /docs/ of the local shop's page, as a reader uses it."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Tab, layout_and_accessibility_problems
from tests.laptop.test_tutorial import COMMANDS

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("loopback_only")]

QUESTIONS = {
    "GDPR": "personal-data",
    "delete a customer's data": "personal-data",
    "rename shop": "how-to/rename-the-shop",
    "add a field": "how-to/add-a-field",
    "gift message": "how-to/add-a-field",
    "import customers": "imports",
    "import products": "imports",
    "rollback": "how-to/roll-back",
    "roll back a deploy": "how-to/roll-back",
    "checkout": "how-to/storefront-checkout",
    "change mail text": "how-to/change-texts",
    "SES sandbox": "how-to/leave-the-ses-sandbox",
    "no mail": "how-to/order-without-mail",
    "restore order": "how-to/restore-one-order",
    "cost": "cost",
    "reduce cost": "how-to/lower-the-cost",
    "slack": "how-to/alarms-to-chat",
    "subscribe to events": "how-to/subscribe-another-team",
    "stream handler": "how-to/only-the-stream",
    "backup": "runbooks/restore-table",
    "access patterns": "access-patterns",
    "idempotency": "guarantees",
    "settings": "settings",
    "warehouse": "warehouse-system",
    "quotas": "quotas",
    "dead letter": "runbooks/dead-letters-not-empty",
    "rotate secret": "runbooks/rotate-secrets",
    "kill -9": "local",
}
"""What a reader types, and the page that answers it."""


def search(page: Page, words: str) -> list[str]:
    """Type the words into the search, and return the pages of the results, best first."""
    field = page.get_by_label("Search", exact=True).first
    field.fill("")
    field.press_sequentially(words)  # the site searches at each keyup, which `fill` does not send
    results = page.locator(".md-search-result__item > a.md-search-result__link")
    expect(page.locator(".md-search-result__meta")).to_contain_text(re.compile(r"\d+ match"), timeout=120_000)
    links = [str(link.get_attribute("href")) for link in results.all()[:2]]
    return [re.sub(r"[?#].*", "", link).partition("/docs/")[2].strip("/") for link in links]


def test_the_search_answers_a_question_with_one_of_its_first_two_pages(tab: Tab) -> None:
    tab.page.goto(f"{tab.url}/docs/")
    expect(tab.page.get_by_role("heading", level=1)).to_contain_text("Orderstream")
    found = {question: search(tab.page, question) for question in QUESTIONS}
    assert {question: pages for question, pages in found.items() if QUESTIONS[question] not in pages} == {}


def test_the_copy_button_copies_the_commands_without_prompts_and_outputs(tab: Tab) -> None:
    page = tab.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{tab.url}/docs/tutorial/")
    page.locator(".language-console").first.hover()
    page.locator(".language-console button.md-clipboard, .language-console [data-clipboard-target]").first.click()
    first = [command.text for command in COMMANDS if command.step == "Before you begin"]
    page.wait_for_function("() => navigator.clipboard.readText().then(text => text.length > 0)")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert [line.strip() for line in copied.splitlines() if line] == [
        line.strip() for command in first for line in command.splitlines()
    ]


def test_the_diagrams_of_the_documentation_are_drawn(tab: Tab) -> None:
    page = tab.page
    page.goto(f"{tab.url}/docs/states/")
    expect(page.locator("div.diagram svg").first).to_be_visible()


@pytest.mark.parametrize("width", [360, 1440])
@pytest.mark.parametrize("name", ["", "local/", "tutorial/", "how-to/storefront-checkout/"])
def test_the_documentation_is_readable_and_accessible_at_every_width(tab: Tab, width: int, name: str) -> None:
    tab.page.set_viewport_size({"width": width, "height": 900})
    tab.page.goto(f"{tab.url}/docs/{name}")
    assert [one for one in layout_and_accessibility_problems(tab.page) if "px too wide" in one] == []
