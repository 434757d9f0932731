"""Fixtures for the page of a running shop in the local Chromium. The tests also act as the warehouse."""

import itertools
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from local.laptop.demo import DemoClients
from local.laptop.shop_client import PROJECT
from ops.api_client import ApiClient
from tests.browser.aws import FakeCognito, serve_like_aws
from tests.laptop.conftest import LaptopShop, started_shop
from tools.machine import CHROMIUM

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
AXE = PROJECT / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE_MS = 20_000
expect.set_options(timeout=PATIENCE_MS)
WIDTHS = (360, 768, 1440)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SERIOUS_IMPACTS = {"serious", "critical"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--picture", action="store_true", help="make the pictures of README")
    parser.addoption("--screenshots", type=Path, help="the folder for a picture of each view, width and theme")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test of this folder, so that only `make browser` runs it."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopShop]:
    """A running shop without a warehouse."""
    with started_shop(tmp_path_factory, "--no-warehouse") as running:
        yield running


@pytest.fixture(scope="module")
def separate_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopShop]:
    """A shop for one file, which is empty at first. The file selects it with `shop = separate_shop`."""
    with started_shop(tmp_path_factory, "--no-warehouse") as running:
        yield running


@pytest.fixture(scope="module")
def people(shop: LaptopShop) -> DemoClients:
    return DemoClients(shop.shop())


@pytest.fixture(scope="module")
def staff(people: DemoClients) -> ApiClient:
    return people.staff


@pytest.fixture(scope="module")
def product(staff: ApiClient) -> str:
    """Create a product that no other test sells out. Return its id."""
    staff.call("POST", "/products", {"product_id": "amber-mug", "name": "Amber mug", "price": 1250, "currency": "EUR"})
    staff.post("/products/amber-mug/receipts", {"quantity": 20}, key="amber-mugs")
    return "amber-mug"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    program = next((path for path in map(shutil.which, CHROMIUM) if path), None)
    if program is None:
        pytest.exit("No Chromium is installed here. On Debian and Ubuntu: apt-get install chromium", returncode=4)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


@dataclass
class BrowserLog:
    """Records the console errors and the requests of a page."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def attach(self, page: Page) -> None:
        def logged(message: ConsoleMessage) -> None:
            passing = re.search(r"status of (429|502|503|504)\b", message.text)  # the page sends these requests again
            url = str(message.location.get("url"))
            if message.type == "error" and not passing and not url.endswith("/orders/quote"):  # its address may be half
                self.errors.append(f"{message.text} at {url}")

        def asked(request: Request) -> None:
            self.requests.append(f"{request.method} {request.url}")

        page.on("console", logged)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", asked)


@dataclass
class Tab:
    """A tab with the page of the shop."""

    page: Page
    url: str
    seen: BrowserLog

    def open(self, view: str) -> None:
        """Open a view, and wait until the page shows it instead of the former view."""
        address = f"{self.url}/#/{view}"
        if self.page.url == address:
            self.page.reload()
        else:
            self.page.evaluate("document.querySelector('#main > .view')?.setAttribute('data-former', '')")
            self.page.goto(address)
        self.page.locator("#main > .view:not([data-former]) h1").wait_for()


@pytest.fixture
def tab(shop: LaptopShop, chromium: Browser) -> Iterator[Tab]:
    """A new tab with the shop's page. The test fails if the page sends requests to other origins."""
    with open_tab(chromium, shop.page_url, allowed_origins=(shop.page_url,)) as tab:
        yield tab


@pytest.fixture
def cognito(shop: LaptopShop) -> Iterator[FakeCognito]:
    with serve_like_aws(shop.shop()) as found:
        yield found


@pytest.fixture
def aws_tab(cognito: FakeCognito, chromium: Browser) -> Iterator[Tab]:
    """A tab with the page as AWS serves it. The page may request only its own origin and Cognito."""
    url = cognito.redirect_uri.rstrip("/")
    with open_tab(chromium, url, allowed_origins=(url.removesuffix("/page"), cognito.url)) as tab:
        yield tab
        assert [one for one in tab.seen.requests if "/local/" in one] == []


@contextmanager
def open_tab(chromium: Browser, url: str, *, allowed_origins: tuple[str, ...]) -> Iterator[Tab]:
    """Open a tab for the page at `url`. At the end, fail on console errors and on requests to other origins."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB", reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    seen = BrowserLog()
    seen.attach(page)
    yield Tab(page, url, seen)
    context.close()
    assert seen.errors == []
    known = (*(f"{origin}/" for origin in allowed_origins), "data:")
    assert [one for one in seen.requests if not one.split()[1].startswith(known)] == []


def problems_at_every_width(page: Page) -> Iterator[str]:
    """Yield the layout and accessibility problems of a view at each width, in light and dark."""
    for width, scheme in itertools.product(WIDTHS, SCHEMES):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        yield from (f"{width} px, {scheme}: {one}" for one in layout_and_accessibility_problems(page))


def layout_and_accessibility_problems(page: Page) -> list[str]:
    """Return the problems of a view: too wide for the window, or serious accessibility violations found by axe."""
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    told = [
        f"{one['id']}: {node['html'][:120]}"
        for one in found
        if one["impact"] in SERIOUS_IMPACTS
        for node in one["nodes"]
    ]
    return [f"{wide} px too wide", *told] if wide > 0 else told
