"""The API documentation as a developer uses it, on a laptop and as AWS serves it."""

import json
import re
import uuid

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.aws import FakeCognito
from tests.browser.conftest import PATIENCE_MS, Tab, layout_and_accessibility_problems
from tests.laptop.conftest import LaptopShop

LOAD_MS = 3 * PATIENCE_MS
"""Swagger UI is a large script, which a busy machine runs slowly."""


def open_operation(tab: Tab, tag: str, name: str) -> Locator:
    """Open the documentation at an operation, as its link does."""
    tab.page.goto("about:blank")  # otherwise only the fragment of the URL changes, and nothing is loaded
    tab.page.goto(f"{tab.url}/docs.html#/{tag}/{name}")
    operation = tab.page.locator(f"#operations-{tag}-{name}")
    expect(operation.get_by_role("button", name="Execute")).to_be_visible(timeout=LOAD_MS)
    return operation


def execute(operation: Locator) -> tuple[str, str]:
    """Send the request. Return the status and the body of the response."""
    operation.get_by_role("button", name="Execute").click()
    response = operation.locator(".live-responses-table")
    expect(response.locator("tbody .response-col_status").first).to_have_text(re.compile(r"\d{3}"))
    return response.locator("tbody .response-col_status").first.inner_text().split()[0], response.inner_text()


def test_the_navigation_leads_to_the_documentation_grouped_by_resource(tab: Tab) -> None:
    tab.open("shop")
    tab.page.get_by_role("navigation", name="Views").get_by_role("link", name="API").click()
    expect(tab.page.get_by_role("heading", name="API", exact=True)).to_be_visible()
    expect(tab.page.get_by_role("heading", name=re.compile("^orders"))).to_be_visible()
    assert tab.page.title().startswith("API ")
    server = tab.page.locator("#servers").input_value()
    assert server == f"{tab.url}/api"
    tab.page.get_by_role("link", name="Shop page").click()
    expect(tab.page.get_by_role("navigation", name="Views").get_by_role("link", name="Shop")).to_be_visible()


def test_a_get_is_tried_out(tab: Tab, product: str) -> None:
    operation = open_operation(tab, "products", "product")
    operation.get_by_placeholder("product_id").fill(product)
    status, text = execute(operation)
    assert status == "200"
    assert '"name": "Amber mug"' in text
    assert f"curl -X 'GET' \\\n  '{tab.url}/api/products/{product}'" in operation.locator(".curl-command").inner_text()


def test_an_order_is_placed_as_the_chosen_user_and_its_repeat_places_no_second_one(
    tab: Tab, shop: LaptopShop, product: str
) -> None:
    operation = open_operation(tab, "orders", "place_order")
    expect(tab.page.get_by_role("button", name="Authorize")).to_have_class(re.compile("unlocked|locked"))
    tab.page.get_by_label("You are").select_option("bob")
    bob = shop.shop().api_client("bob")
    bob.call("POST", "/customers", {"name": "Bob Birch"})
    body = json.loads(operation.locator("textarea").input_value())
    body["lines"] = [{"product_id": product, "quantity": 1}]
    operation.locator("textarea").fill(json.dumps(body))
    operation.get_by_placeholder("idempotency-key").fill(uuid.uuid4().hex)
    status, text = execute(operation)
    assert status == "201", text
    found = re.search(r'"order_id": "(\w+)"', text)
    assert found
    assert bob.get(f"/orders/{found[1]}")["status"] == "PENDING", "another customer cannot read it"
    operation.get_by_role("button", name="Clear").click()
    status, again = execute(operation)
    assert (status, found[1] in again) == ("200", True)


def test_each_response_has_an_example(tab: Tab) -> None:
    operation = open_operation(tab, "orders", "order")
    responses = operation.locator(".responses-table").last
    expect(responses).to_contain_text('"status": "')
    expect(responses).to_contain_text('"type": "/docs#not-found"')


def test_the_type_of_an_error_leads_to_its_explanation(tab: Tab, shop: LaptopShop) -> None:
    page = tab.page
    page.goto(f"{shop.shop().api_url}/docs#out-of-stock")
    explanation = page.locator("#problem")
    expect(explanation).to_contain_text("There is not enough stock")
    expect(explanation).to_contain_text("HTTP status 409")
    assert re.fullmatch(re.escape(f"{tab.url}/docs.html#") + "/?out-of-stock", page.url)
    page.get_by_text("operations may answer with it").click()
    explanation.get_by_role("link", name="POST /orders", exact=True).click()
    expect(page.locator("#operations-orders-place_order").get_by_role("button", name="Execute")).to_be_visible()
    tab.seen.requests = [one for one in tab.seen.requests if not one.startswith(f"GET {shop.shop().api_url}/docs")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_documentation_is_accessible_at_every_width(tab: Tab, scheme: str) -> None:
    tab.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    open_operation(tab, "orders", "place_order")
    for width in (360, 768, 1440):
        tab.page.set_viewport_size({"width": width, "height": 900})
        assert layout_and_accessibility_problems(tab.page) == [], width


# the documentation on AWS ---------------------------------------------------------------------------------------------
def test_on_aws_a_developer_signs_in_and_tries_a_request_out(aws_tab: Tab, cognito: FakeCognito) -> None:
    page: Page = aws_tab.page
    open_operation(aws_tab, "orders", "list_orders")
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("link", name="staff").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    assert page.url == f"{aws_tab.url}/docs.html#/orders/list_orders", "the developer is back at the same operation"
    operation = page.locator("#operations-orders-list_orders")
    status, text = execute(operation)
    assert status == "200", text
    assert page.locator("#servers").input_value() == cognito.redirect_uri.removesuffix("/page/")
