"""Tests that the documentation site is complete, that its links lead somewhere, and that it needs no other site."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generate import DOCS
from docs.site import RENDERED_PAGES, write_pages

pytestmark = pytest.mark.slow  # `make site` builds the site, too
ROOT = DOCS.parent
LOADED = re.compile(r"""<(?:script|img|link|iframe)[^>]*?(?:src|href)=["']?(?:https?:)?//[^"' >]+""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` builds it: a broken link or anchor fails the build."""
    if not (ROOT / "node_modules" / "@mermaid-js").exists():
        pytest.skip("the library of the diagrams is installed by `make setup`")
    folder = tmp_path_factory.mktemp("site")
    write_pages(folder / "build" / "docs")
    shutil.copyfile(ROOT / "mkdocs.yml", folder / "mkdocs.yml")
    build = (sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict")
    done = subprocess.run(
        build, cwd=folder, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "build" / "site"


def test_each_page_is_reached_from_the_front_page(site: Path) -> None:
    front = (site / "index.html").read_text(encoding="utf-8")
    for page in [*(page.relative_to(DOCS) for page in DOCS.rglob("*.md")), *map(Path, RENDERED_PAGES)]:
        folder = page.parent if page.stem == "README" else page.with_suffix("")
        assert f'href="{folder.as_posix()}/"' in front, page


def test_a_link_to_the_source_of_a_rendered_page_leads_to_the_page(site: Path) -> None:
    for page, link in {"guarantees": "states", "threat-model": "personal-data", "contributing": "glossary"}.items():
        text = (site / page / "index.html").read_text(encoding="utf-8").partition("<article")[2]
        assert f'href="../{link}/' in text


def test_a_numbered_list_with_code_between_its_items_is_one_list(site: Path) -> None:
    for name, items in {"first-deploy": [10], "ci": [2, 5], "prove": [3], "runbooks/rotate-secrets": [4, 4, 6]}.items():
        text = (site / name / "index.html").read_text(encoding="utf-8").partition("<article")[2]
        lists = re.findall(r"<ol>.*?</ol>", text, re.DOTALL)
        assert [len(re.findall("<li>", re.sub(r"<ul>.*?</ul>", "", one, flags=re.DOTALL))) for one in lists] == items


def test_no_page_loads_anything_from_another_site(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    assert [
        (page.name, LOADED.findall(page.read_text(encoding="utf-8")))
        for page in pages
        if LOADED.search(page.read_text(encoding="utf-8"))
    ] == []


def test_a_page_with_diagrams_marks_them_for_their_library(site: Path) -> None:
    assert '<div class="diagram">' in (site / "model" / "index.html").read_text(encoding="utf-8")
