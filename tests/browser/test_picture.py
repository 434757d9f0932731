"""Makes the pictures of the README with `make picture`: the flow, and an order whose reader fails and recovers."""

import json
import re
import time
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.browser.conftest import Tab
from tests.browser.steps import stocked

DOCS = Path(__file__).parents[2] / "docs"
MANIFEST = Path(__file__).with_name("pictures.json")
WIDTH, HEIGHT = 1200, 730
SHOWN_WIDTH = 900
FRAME_SECONDS = 0.2
MOST_FRAMES = 60
COLORS = 48


@pytest.fixture(autouse=True)
def _only_on_request(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--picture"):
        pytest.skip("run `make picture`")


def test_an_order_whose_reader_fails_and_recovers(tab: Tab) -> None:
    page = tab.page
    stocked(tab)
    page.emulate_media(color_scheme="light", reduced_motion="no-preference")
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    tab.open("flow")
    publisher = page.locator('[data-node="event_publisher"]')
    expect(publisher).to_contain_text("0 behind")
    answer = page.request.post(f"{tab.url}/local/chaos", data={"switch": "fail", "of": "event_publisher", "times": 3})
    assert answer.ok, answer.text()
    page.get_by_role("button", name="Place a sample order and watch").click()
    frames = _frames_until(page, re.compile(r"recovered: attempt \d"))
    page.screenshot(path=DOCS / "flow.png")
    _write_gif(frames, DOCS / "recovery.gif")
    links = page.get_by_role("navigation", name="Views").get_by_role("link")
    manifest = {"navigation": links.all_inner_texts(), "pictures": ["flow.png", "recovery.gif"]}
    MANIFEST.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _frames_until(page: Page, text: re.Pattern[str]) -> list[tuple[Image.Image, int]]:
    """Return pictures of the page, each with its duration in milliseconds, until a second after the text appears."""
    frames: list[tuple[Image.Image, int]] = []
    end = time.monotonic() + MOST_FRAMES * FRAME_SECONDS * 2
    while time.monotonic() < end and len(frames) < MOST_FRAMES:
        began = time.monotonic()
        frames.append((Image.open(BytesIO(page.screenshot())), 0))
        if text.search(page.locator(".flow-stage").inner_text()):
            end = min(end, began + 1.5)
        page.wait_for_timeout(max(0, FRAME_SECONDS - (time.monotonic() - began)) * 1000)
        frames[-1] = (frames[-1][0], round((time.monotonic() - began) * 1000))
    return frames


def _write_gif(frames: list[tuple[Image.Image, int]], file: Path) -> None:
    height = SHOWN_WIDTH * HEIGHT // WIDTH
    small = [frame.convert("RGB").resize((SHOWN_WIDTH, height)).quantize(COLORS) for frame, _ in frames]
    durations = [milliseconds for _, milliseconds in frames[:-1]] + [3000]
    small[0].save(file, save_all=True, append_images=small[1:], duration=durations, loop=0, optimize=True)
