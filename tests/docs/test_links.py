"""Tests that each file and each test exists if the documentation links to it."""

import re
from functools import partial
from pathlib import Path

import pytest

from docs.generate import DOCS
from docs.pages import conformance
from docs.site import RENDERED_PAGES
from proof.conformance.probes import PROBES

ROOT = DOCS.parent
FILES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md"), ROOT / "llms.txt"])
PAGES = {page: partial(page.read_text, encoding="utf-8") for page in FILES} | {
    DOCS / name: render for name, render in RENDERED_PAGES.items()
}
"""A function that returns the text, by the path of the page. Links of rendered pages start in docs/."""
LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)[^)]*\)")
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_to_a_file_that_is_there(page: Path) -> None:
    links = LINK.findall(CODE.sub("", PAGES[page]()))
    local = [target for _, target in links if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_every_promise_names_a_test_that_is_there() -> None:
    page = DOCS / "guarantees.md"
    promises = re.split(r"^- ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert len(promises) > 30
    for promise in promises:
        shown = LINK.findall(promise.partition("<sub>")[2])
        assert shown, promise
        for name, target in shown:
            assert f"def {name}(" in (page.parent / target).read_text(encoding="utf-8"), name


def test_every_threat_names_its_protection_and_a_test_file() -> None:
    text = (DOCS / "threat-model.md").read_text(encoding="utf-8")
    table = text.partition("\n## Threats\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15
    for row in rows:
        _, protection, tests = row
        assert protection, row
        assert [target for _, target in LINK.findall(tests) if target.startswith("../tests/")], row


def test_the_page_of_the_facts_has_each_fact() -> None:
    page = conformance.render_page()
    assert [probe.name for probe in PROBES if f"| `{probe.name}` |" not in page] == []
