"""What an address needs in each country: its required parts, and the form of its postcode.

The rules are in address_rules.json, which tools/address_rules.py writes.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

LETTERS = {"street": "A", "region": "S", "city": "C", "postcode": "Z"}


@cache
def rules_by_country() -> Mapping[str, Sequence[str]]:
    """Return by country: the LETTERS of the required parts, the expression of a postcode, and an example of one.

    The countries are those of ISO 3166-1. A country without postcodes has only the letters.
    """
    rules: Mapping[str, Sequence[str]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return rules


def check_country(code: str) -> str:
    """Return a two-letter country code. Raises ValueError if ISO 3166-1 does not have it."""
    if code not in rules_by_country():
        raise ValueError("must be a two-letter country code (ISO 3166-1), such as AT")
    return code


def check_part(country: str, part: str, text: str | None) -> None:
    """Check a part of an address in a country. `part`: one of LETTERS. Raises ValueError, which says what is wrong.

    Only the form of a postcode is checked, not whether it exists.
    """
    required, *postcode = rules_by_country()[country]
    if not text:
        if LETTERS[part] in required:
            raise ValueError(f"is required in {country}")
    elif part == "postcode" and postcode and not re.fullmatch(postcode[0], text.upper()):
        raise ValueError(f"must be a postcode of {country}, such as {postcode[1]}")
