"""Tests the shop's view as customer and as staff: categories, search, basket, and stock."""

import re
from dataclasses import replace
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, expect

from functions.api.routes.invoice_page import render_page
from functions.model.entities import Line
from functions.model.languages import load_language
from functions.model.table import INVOICE
from ops.api_client import ApiClient
from proof.support.samples import SAMPLES
from tests.browser.conftest import Tab, layout_and_accessibility_problems
from tests.browser.steps import be, reload_until, stocked


def shelved(staff: ApiClient) -> None:
    """Create a category with two categories below it, each with a product."""
    for path, name in (("/garden/", "Garden"), ("/garden/pots/", "Pots"), ("/garden/tools/", "Tools")):
        create(staff, "/categories", {"path": path, "name": name})
    for id, name, path in (("clay-pot", "Pot, clay", "/garden/pots/"), ("steel-rake", "Rake, steel", "/garden/tools/")):
        create(staff, "/products", {"product_id": id, "name": name, "price": 2050, "currency": "EUR", "category": path})
        staff.post(f"/products/{id}/receipts", {"quantity": 50}, key=f"first-{id}")


def create(staff: ApiClient, path: str, body: dict[str, Any]) -> None:
    """Create a category or product, unless an earlier test created it."""
    assert staff.call("POST", path, body).status in (201, 409)


def test_the_basket_is_seen_on_a_phone_without_scrolling(tab: Tab) -> None:
    page = tab.page
    page.set_viewport_size({"width": 360, "height": 740})
    stocked(tab)
    bar = page.locator(".shop-bar")
    expect(bar).to_be_hidden()
    page.get_by_role("button", name="Add to basket: Stoneware mug").click()
    page.get_by_role("button", name="Add to basket: Stoneware mug").click()
    expect(bar).to_contain_text("2 pieces in the basket, €37.80")
    assert layout_and_accessibility_problems(page) == []
    bar.get_by_role("button", name="Go to basket").click()
    expect(page.get_by_role("heading", name="Your basket")).to_be_focused()
    expect(page.get_by_role("heading", name="Your basket")).to_be_in_viewport()
    expect(bar).to_be_hidden()


def test_products_are_chosen_by_category_and_by_words(tab: Tab, staff: ApiClient) -> None:
    stocked(tab)
    shelved(staff)
    page = tab.page
    page.get_by_role("button", name="Add to basket: Stoneware mug").click()
    tab.open("shop?category=/garden/pots/")
    reload_until(page, page.get_by_role("button", name="Add to basket: Pot, clay"))
    page.get_by_role("navigation", name="In Garden").get_by_role("link", name="Tools").click()
    expect(page.get_by_role("button", name="Add to basket: Rake, steel")).to_be_visible()
    expect(page.get_by_role("navigation", name="In Garden").get_by_role("link", name="Tools")).to_be_focused()
    expect(page.locator(".basket-lines")).to_contain_text("Stoneware mug")
    page.go_back()
    expect(page.get_by_role("heading", name="Pots", exact=True)).to_be_visible()
    page.get_by_role("navigation", name="Categories").get_by_role("link", name="All categories").click()
    expect(page.get_by_role("button", name="Add to basket: Stoneware mug")).to_be_visible()
    page.get_by_label("Search in all products").fill("clay POT")
    page.get_by_label("Search in all products").press("Enter")
    expect(page.get_by_role("heading", name=re.compile("^1 of .* found"))).to_be_visible()
    expect(page.get_by_label("Search in all products")).to_be_focused()
    page.reload()  # the address of the page contains the search
    expect(page.locator(".product")).to_have_count(1)
    page.get_by_label("Search in all products").fill("nothing like it")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("Nothing was found")).to_be_visible()


def test_staff_change_stock_and_parts_and_end_the_sale_in_the_shop(tab: Tab, staff: ApiClient) -> None:
    stocked(tab)
    create(staff, "/products", {"product_id": "ash-tray", "name": "Ash tray", "price": 900, "currency": "EUR"})
    page = tab.page
    be(page, "staff")
    expect(page.get_by_text("Acting as staff", exact=True)).to_be_visible()
    opener = page.get_by_role("button", name="Stock and price of Ash tray")

    def change(part: str, label: str, value: str, said: str) -> None:
        opener.evaluate("(one) => one.setAttribute('data-former', '')")
        opener.click()
        section = page.get_by_role("region", name=part)
        section.get_by_label(label).fill(value)
        section.get_by_role("button").click()
        expect(page.locator(".toast")).to_contain_text(said)
        expect(page.locator("button[data-former]")).to_have_count(0)  # the products are loaded again

    change("Receive goods", "Received pieces", "12", "The goods are in stock.")
    change("Correct the stock downward", "Missing pieces", "2", "The pieces are removed from stock.")
    change("Change the product", "Stock parts", "3", "The product is saved.")
    opener.click()
    about = page.get_by_role("dialog").locator(".facts")
    expect(about).to_contain_text("Available10")
    expect(about).to_contain_text("Stock parts3")
    assert layout_and_accessibility_problems(page) == []
    ended = page.get_by_role("region", name="Change the product")
    ended.get_by_label("The sale has ended").check()
    ended.get_by_role("button", name="Save").click()
    expect(opener).to_have_count(0)
    assert staff.get("/products/ash-tray")["discontinued"] is True


def test_the_basket_keeps_goods_that_no_loaded_page_shows(tab: Tab, staff: ApiClient) -> None:
    """The vase is in a category that the page does not load, as if it were on a later page of a long list."""
    staff.call("POST", "/categories", {"path": "/rare/", "name": "Rare"})
    vase = {"product_id": "vase", "name": "Glass vase", "price": 7700, "currency": "EUR", "category": "/rare/"}
    staff.call("POST", "/products", vase)
    staff.post("/products/vase/receipts", {"quantity": 10}, key="first-vases")
    stocked(tab)
    page = tab.page
    page.evaluate("sessionStorage.setItem('orderstream.basket', JSON.stringify([['vase', 2], ['never-sold', 1]]))")
    page.reload()
    lines = page.locator(".basket-lines li")
    expect(lines).to_have_count(1)
    expect(lines).to_contain_text("Glass vase")
    expect(page.locator(".basket .sum")).to_contain_text("154.00")
    page.get_by_role("button", name="Place order").click()
    expect(page.get_by_role("heading", name="Order placed")).to_be_focused()
    assert all("/api/products/never-sold" in error for error in tab.seen.errors), (
        "a product that does not exist leaves the basket"
    )
    tab.seen.errors.clear()


def test_an_error_is_shown_beside_the_field_that_caused_it(tab: Tab) -> None:
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
    expect(page.get_by_role("alert").filter(has_text="No money was taken")).to_be_visible()
    # The browser logs rejected requests as errors. The test causes these two.
    assert len(tab.seen.errors) == 2
    assert all("/api/orders" in error for error in tab.seen.errors)
    tab.seen.errors.clear()


def test_the_shop_is_used_by_keyboard_alone(tab: Tab) -> None:
    stocked(tab)
    page = tab.page
    page.reload()  # so that no element has the focus
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
        pytest.fail(f"{name!r} cannot be reached by keyboard")

    tab_to("Add to basket: Stoneware mug")
    page.keyboard.press("Enter")
    tab_to("Place order")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Order placed")).to_be_focused()
    expect(page.get_by_role("button", name=re.compile("^Pay "))).to_be_visible()
    tab_to("Pay €")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Paid. Invoice, parcel and mails follow")).to_be_visible()


@pytest.mark.parametrize(("width", "media"), [(360, "screen"), (768, "screen"), (1440, "screen"), (640, "print")])
def test_the_columns_of_an_invoice_are_aligned(
    chromium: Browser, width: int, media: Literal["screen", "print"]
) -> None:
    lines = {
        "lamp": Line(name="Night light, brass, with a long name", price=1_234_500, quantity=100),
        "mug": Line(name="Mug, red", price=990, quantity=1),
    }
    page = chromium.new_page(viewport={"width": width, "height": 800})
    page.emulate_media(media=media)
    page.set_content(
        render_page(replace(SAMPLES[INVOICE], lines=lines, total=123_450_990), "Elm & Sons", load_language("en"))
    )
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    amounts = page.locator(".lines tr > :last-child").evaluate_all(
        "(all) => all.map((one) => Math.round(one.getBoundingClientRect().right))"
    )
    each = page.locator(".lines tr > :nth-child(3)").evaluate_all(
        "(all) => all.map((one) => Math.round(one.getBoundingClientRect().right))"
    )
    assert len(set(amounts)) == 1
    assert len(set(each)) == 1
    page.close()
