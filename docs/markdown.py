"""Markdown, as the generated pages are put together from it."""

import json
from collections.abc import Iterable, Sequence
from typing import Any


def render_page(title: str, source: str, parts: Iterable[str]) -> str:
    """A whole page; each part is a paragraph, a heading, a table ..."""
    notice = f"<!-- Written by `make docs` (python -m docs.generate) from {source}: change that, not this page. -->"
    return "\n\n".join([f"# {title}", notice, *(part.strip() for part in parts)]) + "\n"


def render_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def bullet_list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def json_block(value: Any) -> str:
    """A value as a block of JSON."""
    return f"```json\n{as_json(value)}\n```"


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
