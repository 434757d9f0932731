"""The page Commands of the site: the targets of the Makefile, by purpose."""

import re
from collections.abc import Iterator
from pathlib import Path

from docs import markdown

MAKEFILE = Path(__file__).resolve().parents[2] / "Makefile"
TARGET = re.compile(r"^(?:##@ (?P<group>.+)|(?P<name>[a-z-]+):.*##\+? (?P<help>.+))$", re.MULTILINE)
POINTER = re.compile(r"\(docs/([\w/-]+\.md)\)")


def render_page() -> str:
    return markdown.join_page("Commands", _sections())


def _sections() -> Iterator[str]:
    yield """
`make help-all` prints this list, and `make help` the commands that users of the shop need. Each target first installs
what it needs, into this folder. Other pages list the commands of operators, `python -m ops`
([operations.md](operations.md)), and of the local shop, `python -m local` ([local.md](local.md#commands)).
"""
    for group, targets in groups().items():
        yield f"## {group}"
        yield markdown.render_table(
            ["command", "what it does"], [[f"`make {name}`", _linked(purpose)] for name, purpose in targets]
        )


def groups() -> dict[str, list[tuple[str, str]]]:
    """Return the targets of the Makefile by their group: {group: [(target, its help)]}."""
    found: dict[str, list[tuple[str, str]]] = {}
    group = None
    for line in TARGET.finditer(MAKEFILE.read_text(encoding="utf-8")):
        group = line["group"] or group
        if line["name"] and group:
            found.setdefault(group, []).append((line["name"], line["help"]))
    return found


def _linked(purpose: str) -> str:
    """Turn a pointer to a page of docs/ into a link, and mark arguments as code."""
    text = POINTER.sub(r"([how](\1))", purpose)
    return re.sub(r'\b([A-Z]+=(?:"[^"]*"|[\w./…-]+))', r"`\1`", text)
