"""Load the templates of mails and pages, and keep right-to-left texts from reordering the text beside them."""

import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_eval_context, select_autoescape
from jinja2.nodes import EvalContext
from markupsafe import Markup

RIGHT_TO_LEFT = {"R", "AL", "AN"}
"""The classes of Hebrew and Arabic letters and numbers: https://www.unicode.org/reports/tr9/"""


@cache
def load_templates(folder: Path) -> Environment:
    """Return a Jinja environment for the templates of a folder.

    Values are escaped in HTML templates, and right-to-left values are isolated. Rendering raises an error if a variable
    has no value.
    """
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        finalize=_isolate_value,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def isolate(text: str) -> str:
    """Return a text for a line of plain text. Right-to-left text is put between Unicode's isolates (FSI, PDI).

    Without isolates, the words and numbers beside the text change their order: https://www.unicode.org/reports/tr9/
    """
    return f"\u2068{text}\u2069" if _has_right_to_left(text) else text


@pass_eval_context
def _isolate_value(context: EvalContext, value: Any) -> Any:
    """Isolate a right-to-left value of a template. HTML uses the element <bdi>, which is not part of copied text."""
    if not isinstance(value, str) or not _has_right_to_left(value):
        return value
    return Markup("<bdi>{}</bdi>").format(value) if context.autoescape else isolate(value)


def _has_right_to_left(text: str) -> bool:
    return not text.isascii() and any(unicodedata.bidirectional(char) in RIGHT_TO_LEFT for char in text)
