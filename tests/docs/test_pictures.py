"""Tests that the pictures of the README show the current page: they must be made again if its navigation changes."""

import json
import re

from docs.generate import DOCS

MANIFEST = json.loads((DOCS.parent / "tests" / "browser" / "pictures.json").read_text(encoding="utf-8"))
MAX_BYTES = 2_000_000
TITLE = re.compile(r'^  \w+: \{ title: "([^"]+)"', re.MULTILINE)


def test_the_pictures_show_the_present_navigation() -> None:
    titles = TITLE.findall((DOCS.parent / "page" / "main.js").read_text(encoding="utf-8"))
    assert MANIFEST["navigation"] == titles, "the navigation has changed: run `make picture`"
    assert len(titles) > 5


def test_the_pictures_are_small_and_shown() -> None:
    pages = "".join((DOCS.parent / page).read_text(encoding="utf-8") for page in ("README.md", "docs/local.md"))
    for name in MANIFEST["pictures"]:
        assert (DOCS / name).stat().st_size < MAX_BYTES
        assert f"{name})" in pages, name
