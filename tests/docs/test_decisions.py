"""The decision records: each pointer leads to a record, and the index has all of them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.generate import DOCS

FOLDER = DOCS / "decisions"
ROOT = DOCS.parent
RECORDS = {int(file.name[:4]): file for file in sorted(FOLDER.glob("[0-9]*.md"))}
TITLES = {
    number: file.read_text(encoding="utf-8").partition("\n")[0].partition(". ")[2] for number, file in RECORDS.items()
}
INDEX = (FOLDER / "README.md").read_text(encoding="utf-8")
ENTRY = re.compile(r"^- \[(\d+)\]\(([^)]+)\): (.*)$", re.MULTILINE)
WITH_POINTERS = (".py", ".md", ".js", ".css", ".html", ".yml", ".toml", ".txt", "Makefile")
LEFT_OUT = {".git", ".venv", "node_modules", "build", ".local", ".hypothesis", "cdk.out"}
NAMED = re.compile(r"\bdecisions?[ \n]+(?:# ?)?(\d+)\b", re.IGNORECASE)
PATH = re.compile(r"\bdecisions/(\d{4})((?:-[\w-]+)?(?:\.md)?)")
LINK = re.compile(r"\[(?:[Dd]ecision )?(\d+)\]\((?:[\w./-]*/)?(\d{4})-[\w-]+\.md\)")


def files_with_pointers() -> Iterator[Path]:
    for top in sorted(ROOT.iterdir()):
        if top.name not in LEFT_OUT:
            found = top.rglob("*") if top.is_dir() else [top]
            yield from (file for file in found if file.is_file() and file.name.endswith(WITH_POINTERS))


def wrong_pointers(text: str) -> list[str]:
    """Return the pointers of a text that lead to no record, or to another one than they say."""
    wrong = [found[0] for found in NAMED.finditer(text) if int(found[1]) not in RECORDS]
    for found in PATH.finditer(text):
        name = RECORDS[int(found[1])].name if int(found[1]) in RECORDS else ""
        if not name or found[2].removesuffix(".md") not in ("", name[4:].removesuffix(".md")):
            wrong.append(found[0])
    return wrong + [found[0] for found in LINK.finditer(text) if int(found[1]) != int(found[2])]


def test_each_pointer_to_a_decision_leads_to_its_record() -> None:
    files = [*files_with_pointers()]
    wrong = {
        str(file.relative_to(ROOT)): found
        for file in files
        if file != Path(__file__) and (found := wrong_pointers(file.read_text(encoding="utf-8")))
    }
    assert wrong == {}
    assert len(files) > 500


@pytest.mark.parametrize(
    "text",
    [
        "as decision 26 says",
        "Decision\n999",
        "docs/decisions/0026",
        "docs/decisions/0001-another-title.md",
        "[2](0001-keys-are-templates.md)",
        "[decision 2](decisions/0001-keys-are-templates.md)",
    ],
)
def test_a_wrong_pointer_is_found(text: str) -> None:
    assert wrong_pointers(text)


@pytest.mark.parametrize(
    "text", ["decision 1", "docs/decisions/0001", "[1](0001-keys-are-templates.md)", "2 decisions"]
)
def test_a_right_pointer_is_not_reported(text: str) -> None:
    assert wrong_pointers(text) == []


def test_each_record_has_the_number_of_its_file_and_a_title() -> None:
    for number, file in RECORDS.items():
        assert file.read_text(encoding="utf-8").startswith(f"# {number}. "), file.name
        assert TITLES[number], file.name


def test_the_index_has_each_record_once_with_its_title() -> None:
    entries = [(int(number), path, title) for number, path, title in ENTRY.findall(INDEX)]
    assert sorted(entries) == [(number, file.name, TITLES[number]) for number, file in RECORDS.items()]


def test_each_group_of_the_index_is_a_question_with_records() -> None:
    groups = re.findall(r"^## (.*)\n\n- \[", INDEX, re.MULTILINE)
    assert len(groups) > 10
    assert [group for group in groups if not group.endswith("?")] == []


def test_the_index_names_each_number_without_a_record() -> None:
    gaps = [number for number in range(1, max(RECORDS)) if number not in RECORDS]
    (named,) = re.findall(r"needed no record: ([\d, ]+)\.", INDEX)
    assert [int(number) for number in named.split(", ")] == gaps
