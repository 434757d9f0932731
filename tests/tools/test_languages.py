"""Tests the check of the languages: it finds each kind of mistake, and a new language needs only its files."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from functions.model import languages
from functions.model.languages import LANGUAGES
from tests.mails.test_mails import mail
from tools.languages import FOLDERS, Folder, find_wrong_languages


@pytest.fixture
def copied(tmp_path: Path) -> tuple[Folder, ...]:
    """Copy the files of both folders of languages. The code that uses them stays where it is."""
    copies = tuple(replace(folder, path=tmp_path / folder.code.name) for folder in FOLDERS)
    for folder, copy in zip(FOLDERS, copies, strict=True):
        shutil.copytree(folder.path, copy.path)
    return copies


def edit(file: Path, key: str, text: str | None) -> None:
    """Change a text of a language, or delete it."""
    texts = json.loads(file.read_text(encoding="utf-8")) | {key: text}
    file.write_text(json.dumps({key: text for key, text in texts.items() if text is not None}), encoding="utf-8")


def edit_all(folder: Path, key: str, text: str | None) -> None:
    for code in LANGUAGES:
        edit(folder / f"{code}.json", key, text)


MISTAKES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a missing text": (lambda folder: edit(folder / "de.json", "total", None), "de.json lacks the text total"),
    "an unknown text": (
        lambda folder: edit(folder / "de.json", "sum", "Summe"),
        "de.json has the text sum, which English lacks",
    ),
    "another placeholder": (
        lambda folder: edit(folder / "de.json", "order", "Bestellung {id}"),
        r"de.json: order has the placeholders \['id'\], but in English \['number'\]",
    ),
    "a broken placeholder": (
        lambda folder: edit(folder / "de.json", "order", "Bestellung {number"),
        r"de.json: order has the placeholders .*invalid: .*, but in English \['number'\]",
    ),
    "a text that no code uses": (
        lambda folder: edit_all(folder, "sum", "Sum"),
        "functions/en.json: no code uses the text sum",
    ),
    "a key that no language has": (
        lambda folder: edit_all(folder, "cause.DAMAGED", None),
        r"functions/en.json lacks the text cause.DAMAGED, which functions/mails/order_notifications.py:\d+ uses",
    ),
    "a language without its file": (lambda folder: (folder / "de.json").unlink(), "functions/de.json is missing"),
}


@pytest.mark.parametrize(("make", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_language_is_one_sentence(
    copied: tuple[Folder, ...], make: Callable[[Path], None], sentence: str
) -> None:
    make(copied[0].path)
    (found,) = find_wrong_languages(copied)
    assert re.fullmatch(sentence, found)


def test_a_language_is_added_by_its_two_files(copied: tuple[Folder, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in copied:
        shutil.copy(folder.path / "en.json", folder.path / "fr.json")
    edit(copied[0].path / "fr.json", "mail.greeting", "Bonjour {name},")
    assert [*find_wrong_languages(copied)] == []
    monkeypatch.setattr(languages, "FOLDER", copied[0].path)
    assert mail(language="fr").text.startswith("Bonjour Ann Ash,")
