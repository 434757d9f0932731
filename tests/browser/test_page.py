"""Tests what all views of the page share: addresses, navigation, accessibility and keyboard."""

import itertools
from pathlib import Path

import pytest
from playwright.sync_api import Error, Page, expect

from local.world.dynamodb_engine import BLOCKED_PORTS
from tests.browser.conftest import SCHEMES, WIDTHS, Tab, problems_at_every_width
from tests.browser.steps import VIEWS, paid


def test_an_unknown_address_shows_the_first_view(tab: Tab) -> None:
    tab.open("constructor")
    expect(tab.page.get_by_role("heading", name="One table, and everything that follows")).to_be_visible()


def test_a_right_to_left_name_does_not_reorder_the_text_beside_it(tab: Tab) -> None:
    tab.open("shop")
    text = "2 \u00d7 \u05d3\u05d5\u05d3 \u05d4, 3"
    made = "import('/ui.js').then(({ el }) => el('p', { title: text }, text).outerHTML)"
    shown = tab.page.evaluate(f"(text) => {made}", text)
    assert shown == f'<p title="{text}">2 \u00d7 <bdi>\u05d3\u05d5\u05d3 \u05d4</bdi>, 3</p>'


def test_the_browser_connects_to_no_port_of_dynamodb(tab: Tab) -> None:
    for port in BLOCKED_PORTS:
        with pytest.raises(Error, match="ERR_UNSAFE_PORT"):
            tab.page.goto(f"http://127.0.0.1:{port}/")
    tab.seen.requests.clear()


def test_the_requests_of_a_view_share_one_token(tab: Tab) -> None:
    tab.open("board")
    expect(tab.page.locator(".board-count:empty")).to_have_count(0)
    assert [one for one in tab.seen.requests if "/local/tokens" in one] == [f"POST {tab.url}/local/tokens"]


def test_a_request_of_a_former_view_ends_without_an_error(tab: Tab) -> None:
    """The tab fails the test if the page has an unhandled error."""
    tab.page.route("**/local/failures?*", lambda _: None)  # does not answer
    tab.open("flow")
    with tab.page.expect_request("**/local/failures?*"):
        tab.page.locator("[data-node=table]").click()
    tab.open("customers")


def test_every_view_is_accessible_at_every_width(tab: Tab, request: pytest.FixtureRequest) -> None:
    """With --screenshots FOLDER, this also writes a picture of each view (`make screenshots`)."""
    page = tab.page
    order_id = paid(tab)
    page.get_by_role("button", name="Add to basket: Stoneware mug").click()
    for view in (*VIEWS, f"orders/{order_id}"):
        tab.open(view)
        page.wait_for_load_state("networkidle") if view not in ("flow", f"orders/{order_id}") else None
        expect(page.locator(".loading")).to_have_count(0)
        assert list(problems_at_every_width(page)) == [], view
        if folder := request.config.getoption("--screenshots"):
            _take_screenshots(page, folder, view.partition("/")[0])
    for view in ("customers?list=companies", "customers?list=discounts", "customers/me"):
        tab.open(view)
        page.locator(".loading").first.wait_for(state="detached")
        assert list(problems_at_every_width(page)) == [], view


def _take_screenshots(page: Page, folder: Path, view: str) -> None:
    for width, scheme in itertools.product(WIDTHS, SCHEMES):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.screenshot(path=folder / f"{view}-{width}-{scheme}.png", full_page=True)


def test_all_views_are_in_one_row_above_at_360_pixels(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 360, "height": 800})
    tab.open("insight")
    places = [
        link.bounding_box() for link in tab.page.get_by_role("navigation", name="Views").get_by_role("link").all()
    ]
    assert len(places) == len((*VIEWS, "API", "Docs"))
    assert len({place["y"] for place in places if place}) == 1
    current = tab.page.get_by_role("navigation", name="Views").get_by_role("link", name="Insight")
    expect(current).to_be_in_viewport(ratio=1)
