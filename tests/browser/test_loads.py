"""Tests what each view of the page loads: the requests and bytes are exact, and the first visit is small."""

import gzip
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from proof.support.recorded import Recorded
from tests.browser.conftest import Tab, separate_shop
from tests.browser.steps import VIEWS, paid, panel

RECORD = Path(__file__).parent / "recorded_loads.json"
COMMAND = 'make browser ARGS="--record -k test_loads"'
MAX_REQUESTS = 25
MAX_COMPRESSED_BYTES = 150_000


shop = separate_shop  # because the flow loads more in a shop with failures, which other tests leave


def _counted(tab: Tab) -> None:
    """Place and pay an order, and wait until the totals include it, so that each view has content."""
    paid(tab)
    tab.open("insight")
    tab.page.get_by_role("button", name="Update every 5 seconds").click()
    expect(panel(tab.page, "Best sellers")).to_contain_text("Stoneware mug")


def _open_in_a_fresh_tab(tab: Tab, view: str) -> list[str]:
    """Open a view with an empty cache, and wait until it is ready. Return the paths of its requests.

    The icon is left out, because a browser without windows does not load it.
    """
    tab.page.goto("about:blank")
    tab.seen.requests.clear()
    tab.open(view)
    if view == "table":  # the answer to the first question of the table loads after the view
        expect(panel(tab.page, "Result")).to_contain_text("ORDER#")
    expect(tab.page.locator(".loading")).to_have_count(0)
    paths = [urlsplit(one.split()[1]).path for one in tab.seen.requests]
    return [path for path in paths if path != "/icon.svg"]


def _is_file(path: str) -> bool:
    return not path.startswith(("/api/", "/local/"))


def _content(tab: Tab, path: str) -> bytes:
    return tab.page.request.get(f"{tab.url}{path}").body()


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_loads_exactly_the_recorded_files_and_data(
    tab: Tab, view: str, recorded: Callable[..., Recorded]
) -> None:
    _counted(tab)
    requested = _open_in_a_fresh_tab(tab, view)
    files = sorted({path for path in requested if _is_file(path)})
    found = {
        "files": files,
        "bytes": sum(len(_content(tab, path)) for path in files),
        "data": sorted({path for path in requested if not _is_file(path)}),
    }
    record = recorded(RECORD, command=COMMAND)
    record.check(view, found, at=f"page/{view}.js", what=f"requests and bytes of the view {view}")


def test_only_views_that_exist_are_recorded(recorded: Callable[..., Recorded]) -> None:
    recorded(RECORD).check_names(set(VIEWS))


def test_the_first_visit_is_small(tab: Tab) -> None:
    requested = list(dict.fromkeys(_open_in_a_fresh_tab(tab, "")))  # the view asks for its state every second
    compressed = sum(len(gzip.compress(_content(tab, path))) for path in {one for one in requested if _is_file(one)})
    print(f"first visit: {len(requested)} requests, {compressed:,} bytes of files compressed")
    assert len(requested) <= MAX_REQUESTS, requested
    assert compressed <= MAX_COMPRESSED_BYTES
