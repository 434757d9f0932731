"""The decisions: each pointer leads to a section, and the index has all sections."""

import re
from collections.abc import Iterator
from pathlib import Path

from docs.generate import DOCS

FOLDER = DOCS / "decisions"
ROOT = DOCS.parent
CHAPTERS = {file.name: file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("*.md"))}
INDEX = CHAPTERS.pop("README.md")
SECTION = re.compile(r'^## (\d+)\. ([^\n]+) <a id="d(\d+)"></a>\n(.*?)(?=^## |\Z)', re.DOTALL | re.MULTILINE)
SECTIONS = [(name, *found.groups()) for name, text in CHAPTERS.items() for found in SECTION.finditer(text)]
CHAPTER_OF = {int(number): name for name, number, *_ in SECTIONS}
QUESTION = re.compile(r"^- \[(.+)\]\(([\w-]+\.md)\)$", re.MULTILINE)
MAX_LINES = 14
WITH_A_LONG_TABLE = {69, 104}
WITH_POINTERS = (".py", ".md", ".js", ".css", ".html", ".yml", ".toml", ".txt", "Makefile")
LEFT_OUT = {".git", ".venv", "node_modules", "build", ".local", ".hypothesis", "cdk.out", "mkdocs.yml"}
"""mkdocs.yml lists whole chapters, without their sections."""
NAMED = re.compile(r"\bdecisions?[ \n]+(?:# ?)?(\d+)\b", re.IGNORECASE)
PATH = re.compile(r"\bdecisions/(\d{4}|(?!README)[\w-]+\.md)(?:#(\w+))?")
LINK = re.compile(r"\[(?:[Dd]ecision\s)?(\d+)\]\((?:[\w./-]*/)?([\w-]+\.md)?#d(\d+)\)")


def files_with_pointers() -> Iterator[Path]:
    for top in sorted(ROOT.iterdir()):
        if top.name not in LEFT_OUT:
            found = top.rglob("*") if top.is_dir() else [top]
            yield from (file for file in found if file.is_file() and file.name.endswith(WITH_POINTERS))


def wrong_pointers(text: str, chapter: str = "") -> list[str]:
    """Return the pointers of a text that lead to no section, or to another section than the pointer's text says.

    `chapter`: the name of the text's file if it is a chapter.
    """
    wrong = [found[0] for found in NAMED.finditer(text) if int(found[1]) not in CHAPTER_OF]
    anchors = {f"{name}#d{number}" for number, name in CHAPTER_OF.items()}
    wrong += [found[0] for found in PATH.finditer(text) if f"{found[1]}#{found[2]}" not in anchors]
    for found in LINK.finditer(text):
        if found[1] != found[3] or CHAPTER_OF.get(int(found[1])) != (found[2] or chapter):
            wrong.append(found[0])
    return wrong


def test_each_pointer_to_a_decision_leads_to_its_section() -> None:
    files = [*files_with_pointers()]
    wrong = {}
    for file in files:
        chapter = file.name if file.parent == FOLDER else ""
        found = wrong_pointers(file.read_text(encoding="utf-8"), chapter)
        if file != Path(__file__) and found:
            wrong[str(file.relative_to(ROOT))] = found
    assert wrong == {}
    assert len(files) > 500


def test_each_heading_of_a_chapter_is_a_decision_with_the_anchor_of_its_number() -> None:
    headings = [line for text in CHAPTERS.values() for line in text.splitlines() if line.startswith("## ")]
    assert len(headings) == len(SECTIONS) == len(CHAPTER_OF)
    assert [number for _, number, _, anchor, _ in SECTIONS if number != anchor] == []


def test_each_decision_is_short() -> None:
    lines = {int(number): len([line for line in body.splitlines() if line]) for _, number, _, _, body in SECTIONS}
    assert {number: count for number, count in lines.items() if count > MAX_LINES}.keys() <= WITH_A_LONG_TABLE


def test_the_index_has_each_chapter_once_with_its_question() -> None:
    questions = [(name, text.partition("\n")[0].removeprefix("# ")) for name, text in CHAPTERS.items()]
    assert sorted((name, question) for question, name in QUESTION.findall(INDEX)) == questions
    assert [question for _, question in questions if not question.endswith("?")] == []
