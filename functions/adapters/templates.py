"""Load and render the templates of mails and pages, and keep right-to-left texts from reordering their neighbours."""

import unicodedata
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_eval_context, select_autoescape
from jinja2.nodes import EvalContext
from markupsafe import Markup, escape

from functions.model.languages import Language

RIGHT_TO_LEFT = {"R", "AL", "AN"}
"""The classes of Hebrew and Arabic letters and numbers: https://www.unicode.org/reports/tr9/"""


@cache
def load_templates(folder: Path) -> Environment:
    """Return a Jinja environment for the templates of a folder. Rendering raises an error if a variable has no value.

    Values are escaped in HTML templates, and right-to-left values are isolated.
    """
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        finalize=_isolate_value,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render_template(folder: Path, name: str, language: Language, values: Mapping[str, Any]) -> str:
    """Render a template of a folder. Beside `values`, it has `language`, and the function `text` for its texts."""
    template = load_templates(folder).get_template(name)
    return template.render(values, language=language, text=_text_function(language))


def isolate(text: str) -> str:
    """Return a text for a line of plain text. Right-to-left text is put between Unicode's isolates (FSI, PDI).

    Without isolates, the words and numbers beside the text change their order: https://www.unicode.org/reports/tr9/
    """
    return f"\u2068{text}\u2069" if _has_right_to_left(text) else text


class _Isolated(str):
    """A plain text whose right-to-left parts are isolated already."""

    __slots__ = ()


def _text_function(language: Language) -> Callable[..., str]:
    """Return the function `text` of templates: Language.text with values escaped and isolated as the template's."""

    @pass_eval_context
    def text(context: EvalContext, key: str, **values: str) -> str:
        isolated = {name: _isolate_value(context, value) for name, value in values.items()}
        if context.autoescape:
            return escape(language.texts[key]).format(**isolated)
        return _Isolated(language.text(key, **isolated))

    return text


@pass_eval_context
def _isolate_value(context: EvalContext, value: Any) -> Any:
    """Isolate a right-to-left value of a template. HTML uses the element <bdi>, which is not part of copied text."""
    if not isinstance(value, str) or isinstance(value, (Markup, _Isolated)) or not _has_right_to_left(value):
        return value
    return Markup("<bdi>{}</bdi>").format(value) if context.autoescape else isolate(value)


def _has_right_to_left(text: str) -> bool:
    return not text.isascii() and any(unicodedata.bidirectional(char) in RIGHT_TO_LEFT for char in text)
