"""The languages of mails and documents: one file for each in functions/languages, with all its texts.

A text is found by its key. `python -m tools.languages` checks that all languages have the same texts.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from functions.model.money import MoneyFormat, format_amount

FOLDER = Path(__file__).parents[1] / "languages"
LANGUAGES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))
"""The codes of all languages (BCP 47), such as "en"."""


@dataclass(frozen=True)
class Language:
    """A language of mails and documents. `code`: as in LANGUAGES. `texts`: each text by its key, such as "total"."""

    code: str
    texts: Mapping[str, str]

    def text(self, key: str, **values: str) -> str:
        """Return a text. `values`: what replaces its placeholders, by name. Raises KeyError if one is missing."""
        return self.texts[key].format(**values)

    def amount(self, amount: int, currency: str) -> str:
        """Format an amount in minor units: in German, 125000 and "EUR" become "1.250,00 EUR"."""
        decimal, group = self.texts["format.decimal"], self.texts["format.group"]
        return format_amount(amount, currency, MoneyFormat(decimal, group, self.texts["format.amount"]))

    def percent(self, rate: int) -> str:
        """Format a rate in hundredths of a percent: in German, 1950 becomes "19,5 %"."""
        number = f"{rate / 100:g}".replace(".", self.texts["format.decimal"])
        return self.text("format.percent", number=number)

    def day(self, at: str) -> str:
        """Format the day of a date or time in UTC: in German, "2026-11-21T09:30:00.000Z" becomes "21.11.2026"."""
        year, month, day = at[:10].split("-")
        return self.text("format.day", year=year, month=month, day=day)


@cache
def load_language(code: str) -> Language:
    """Return a language, read from its file. Later calls use the cache. Raises FileNotFoundError for other codes."""
    return Language(code, json.loads((FOLDER / f"{code}.json").read_text(encoding="utf-8")))


def language_names() -> dict[str, str]:
    """Return the name of each language in the language itself, by its code: {"de": "Deutsch", ...}."""
    return {code: load_language(code).text("name") for code in LANGUAGES}


def choose_language(*wanted: str | None) -> Language:
    """Return the first of the wanted languages that has a file. None and languages without a file are skipped.

    A stored code may have no file any more. The last one must have one: it is the stage's language.
    """
    return load_language(next((code for code in wanted if code in LANGUAGES), wanted[-1] or ""))
