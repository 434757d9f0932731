"""What a view of the page loads: its requests and its bytes are exact, and the first visit is small."""

import gzip
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Tab
from tests.browser.steps import VIEWS, paid
from tests.support.recorded import Recorded

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("loopback_only")]
RECORD = Path(__file__).parent / "recorded_loads.json"
MAX_REQUESTS = 25
MAX_COMPRESSED_BYTES = 150_000


def _open_in_a_fresh_tab(tab: Tab, view: str) -> list[str]:
    """Open a view with an empty cache, wait until it is ready, and return the paths of the requests until then."""
    tab.page.goto("about:blank")
    tab.seen.requests.clear()
    tab.open(view)
    expect(tab.page.locator(".loading")).to_have_count(0)
    return [urlsplit(one.split()[1]).path for one in tab.seen.requests]


def _is_file(path: str) -> bool:
    return not path.startswith(("/api/", "/local/"))


def _content(tab: Tab, path: str) -> bytes:
    return tab.page.request.get(f"{tab.url}{path}").body()


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_loads_exactly_the_recorded_files_and_data(
    tab: Tab, view: str, recorded: Callable[..., Recorded]
) -> None:
    paid(tab)  # so that each view has something to show
    requested = _open_in_a_fresh_tab(tab, view)
    files = sorted({path for path in requested if _is_file(path)})
    found = {
        "files": files,
        "bytes": sum(len(_content(tab, path)) for path in files),
        "data": sorted({path for path in requested if not _is_file(path)}),
    }
    recorded(RECORD).check(view, found, at=f"page/{view}.js", what=f"requests and bytes of the view {view}")


def test_only_views_that_exist_are_recorded(recorded: Callable[..., Recorded]) -> None:
    recorded(RECORD).check_names(set(VIEWS))


def test_the_first_visit_is_small(tab: Tab) -> None:
    requested = _open_in_a_fresh_tab(tab, "")
    compressed = sum(len(gzip.compress(_content(tab, path))) for path in {one for one in requested if _is_file(one)})
    print(f"first visit: {len(requested)} requests, {compressed:,} bytes of files compressed")
    assert len(requested) <= MAX_REQUESTS, requested
    assert compressed <= MAX_COMPRESSED_BYTES
