"""The documentation site at /docs/ of the local shop's page, as a reader uses it."""

import pytest
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from playwright.sync_api import expect

from tests.browser.conftest import Tab, problems_at_every_width
from tests.laptop.test_tutorial import COMMANDS

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
    "idempotency": "decisions/exactly-once",
    "settings": "settings",
    "warehouse": "warehouse-system",
    "quotas": "quotas",
    "dead letter": "runbooks/dead-letters-not-empty",
    "rotate secret": "runbooks/rotate-secrets",
    "laptop": "local",
}
"""What a reader types, and the page that answers it."""


FIRST_TWO = """expected => {
    const links = [...document.querySelectorAll(".md-search-result__item > a.md-search-result__link")];
    const pages = new Set(links.map(link => link.pathname.replace(/^.*\\/docs\\/|\\/$/g, "")));
    return [...pages].slice(0, 2).includes(expected);
}"""


def test_the_search_answers_a_question_with_one_of_its_first_two_pages(tab: Tab) -> None:
    page = tab.page
    page.goto(f"{tab.url}/docs/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Orderstream")
    field = page.get_by_role("textbox", name="Search").first
    unanswered = []
    for question, expected in QUESTIONS.items():
        field.fill("")
        field.press_sequentially(question)  # the site searches at each keyup, which `fill` does not send
        try:
            page.wait_for_function(FIRST_TWO, arg=expected)
        except PlaywrightTimeout:
            unanswered.append(question)
    assert unanswered == []


def test_the_copy_button_copies_the_commands_without_prompts_and_outputs(tab: Tab) -> None:
    page = tab.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{tab.url}/docs/tutorial/")
    block = page.locator(".highlight:has(.gp)").first
    block.hover()
    block.locator("[data-clipboard-target]").click()
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


@pytest.mark.parametrize("name", ["", "local/", "tutorial/", "states/", "how-to/storefront-checkout/"])
def test_the_documentation_is_readable_and_accessible_at_every_width_in_light_and_dark(tab: Tab, name: str) -> None:
    tab.page.goto(f"{tab.url}/docs/{name}")
    assert [*problems_at_every_width(tab.page)] == []
