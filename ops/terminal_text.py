"""Format text for a terminal: colours (unless NO_COLOR is set), tables, and suggestions for misspelled words."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

COLORS = {"dim": 2, "bold": 1, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}


def is_terminal(out: TextIO | None = None) -> bool:
    """Return whether `out` (default: stdout) is a terminal that can move its cursor and show colours."""
    return (out or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def colored(text: str, color: str, out: TextIO | None = None) -> str:
    """Return the text in this colour, or unchanged if `out` (default: stdout) is no terminal or NO_COLOR is set."""
    if not is_terminal(out) or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{COLORS[color]}m{text}\x1b[0m"


def align_columns(head: Sequence[str], rows: Iterable[Sequence[str]], indent: str = "  ") -> Iterator[str]:
    """Yield the lines of a table: the head, then each row, with columns of equal width."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for number, line in enumerate(lines):
        text = indent + "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        yield text if number else colored(text, "dim")


def suggest(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean X?" for the most similar known word, in upper or lower case, or "" if none is similar."""
    by_lower = {one.lower(): one for one in known}
    similar = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return f" Did you mean {by_lower[similar[0]]}?" if similar else ""
