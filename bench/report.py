"""Renders the measurements as lines for a terminal and as docs/performance.md."""

import os
import platform
import subprocess
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bench.measure import Figure, Spread
from docs import markdown
from stacks import PROJECT

PAGE = PROJECT / "docs" / "performance.md"
HEAD = ("", "ours", "usual", "floor", "ours of usual", "aim")
INTRODUCTION = """
**Ours** is measured beside the **usual** way, written by us as AWS's samples and the published single-table designs
have it, doing the same work (bench/usual: boto3's resource, TypeDeserializer, Powertools' resolver, batch processor and
idempotency, an item for each order line, batch_writer), and beside a **floor**, the least that is known of. Times of
cold starts, decoding, records and placing are measured in turns, so that what slows the machine slows all, and told as
medians with the quartiles around them. Units, requests and bytes are the same every time. An aim is a part of the usual
way's, or of its own unit: a ratio holds on another machine, a time does not. A column is empty where nobody of that
kind does such work.

`make bench` measures all of it anew and prints it, `make bench ARGS="--only decode"` a section, `make bench
ARGS=--write` writes this page.
"""


@dataclass(frozen=True)
class Section:
    """The measurements of a module: its title, its docstring, and the figures."""

    title: str
    description: str
    figures: Sequence[Figure]


def render_text(section: Section, seconds: float) -> str:
    """A section for the terminal."""
    rows = [HEAD, *map(_cells, section.figures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([f"\n{section.title} ({seconds:.0f} s)", *(f"  {line}" for line in lines)])


def render_page(sections: Sequence[Section]) -> str:
    """docs/performance.md."""
    parts = [f"# Performance\n\n<!-- Written by `make bench ARGS=--write`. -->\n{INTRODUCTION}\n{_where()}"]
    for section in sections:
        words = section.description.strip().partition("\n\n")[2].strip() or section.description.strip()
        table = markdown.render_table(HEAD, [list(_cells(figure)) for figure in section.figures])
        parts.append(f"## {section.title[0].upper()}{section.title[1:]}\n\n{words}\n\n{table}")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _where() -> str:
    asked = ["git", "-C", str(PROJECT), "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    machine = f"{os.cpu_count()} processors ({platform.machine()}), Python {platform.python_version()}"
    return textwrap.fill(f"Measured {datetime.now(UTC):%Y-%m-%d} at commit {commit.strip()} on {machine}.", 120)


def _cells(figure: Figure) -> tuple[str, ...]:
    ratio = "" if figure.ratio is None else f"{figure.ratio:.0%}" if figure.ratio >= 0.01 else f"{figure.ratio:.1%}"
    aims = [f"≤ {figure.max_ratio:.0%}"] if figure.max_ratio is not None else []
    aims += [f"≤ {figure.max_value:g} {figure.unit}"] if figure.max_value is not None else []
    aim = " ".join([*aims, *(["missed"] if figure.is_reached is False else [])])
    ways = (_format_spread(way, figure.unit) for way in (figure.ours, figure.usual, figure.floor))
    return (figure.what, *ways, ratio, aim)


def _format_spread(way: Spread | None, unit: str) -> str:
    if way is None:
        return ""
    if way.low == way.high:
        return f"{way.median:g} {unit}".strip()
    digits = 0 if way.median >= 100 else 1 if way.median >= 10 else 2
    return f"{way.median:.{digits}f} {unit} ({way.low:.{digits}f} to {way.high:.{digits}f})"
