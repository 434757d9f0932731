"""Render the measurements for the terminal and as docs/performance.md."""

import os
import platform
import subprocess
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bench.measure import Figure, Spread, exact
from docs import markdown
from stacks import PROJECT

PAGE = PROJECT / "docs" / "performance.md"
HEAD = ("", "ours", "usual", "same promises", "floor", "ours of usual", "of same promises", "aim")
LEAD = """
What an order costs, and how long a customer or an effect waits. Less is better. **Usual** is the same shop as AWS's
samples and guides build it. **Same promises** is that shop, extended with published parts until it keeps our
[promises](guarantees.md).
"""
SUMMARY = {
    "Capacity units of an order of 1 line, until it is archived": "an order's whole life, 1 line",
    "Capacity units of an order of 5 lines": "an order's whole life, 5 lines",
    "Capacity units of an order of 20 lines": "an order's whole life, 20 lines",
    "Price of the units of a million orders of 5 lines": "an order's whole life, 5 lines: its units in money",
    "Requests to the table for an order of 5 lines": "an order's whole life, 5 lines: requests",
    "First answer of an API that has to start, slowest kind of request": "`api`",
    "Copying a change to all the places that show it": "copies_reader, a record: time",
    "Placing an order of 5 lines, computing time": "POST /orders, 5 lines: processor",
}
"""The rows of the page's first table: a plain description, and the beginning of the name of the figure that it shows.
If several figures match, the first counts."""
INTRODUCTION = """
We wrote the usual shop for this comparison (bench/usual). It uses boto3's resource and batch_writer, TypeDeserializer,
Powertools' resolver, batch processor and idempotency, and one item for each order line. bench/usual/promises.py names
the published part for each promise. The **floor** is a lower bound: the least cost that we know for the same work. It
does not change with our code, except for `copies_reader`. All shops keep items equally long: an order 395 days after
its end, activity 90 days, mails 180 days, totals of a minute 30 days.

Times are medians with their quartiles. The shops take turns, so a slow machine slows all of them: a ratio is valid on
another machine, a time is not. Units, requests and bytes are the same in every run. An aim is a share of the usual
shop's figure, or a value in its own unit. A cell is empty if that shop has no such work.

`make bench` measures and prints everything, `make bench ARGS="--only decode"` one section. `make bench ARGS=--write`
writes this page.
"""


@dataclass(frozen=True)
class Section:
    """A section of docs/performance.md: the title, docstring and figures of one module of bench."""

    title: str
    description: str
    figures: Sequence[Figure]


def render_text(section: Section, seconds: float) -> str:
    """Return a section as text for the terminal. `seconds`: how long its measurement took."""
    rows = [HEAD, *map(_cells, section.figures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([f"\n{section.title} ({seconds:.0f} s)", *(f"  {line}" for line in lines)])


def render_page(sections: Sequence[Section]) -> str:
    written = "<!-- Written by `make bench ARGS=--write`. -->"
    parts = [f"# Performance\n\n{written}\n{LEAD}", render_summary(sections), f"{INTRODUCTION}\n{_describe_machine()}"]
    for section in sections:
        words = describe(section.description)
        table = markdown.render_table(*_drop_empty_columns([_cells(figure) for figure in section.figures]))
        parts.append(f"## {section.title[0].upper()}{section.title[1:]}\n\n{words}\n\n{table}")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def describe(docstring: str) -> str:
    """Return a section's text on the page: the docstring of its module without the first paragraph."""
    return docstring.strip().partition("\n\n")[2].strip() or docstring.strip()


def _drop_empty_columns(rows: Sequence[Sequence[str]]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return the head and the rows of a table. Leaves out columns that are empty in every row."""
    kept = [number for number, column in enumerate(zip(*rows, strict=True)) if any(column)]
    head, *shown = [[row[number] for number in kept] for row in (HEAD, *rows)]
    return head, shown


def render_summary(sections: Sequence[Section]) -> str:
    """Return the first table of the page, in plain words. Leaves out figures that were not measured."""
    figures = [figure for section in sections for figure in section.figures]
    found = {words: [it for it in figures if it.what.startswith(what)] for words, what in SUMMARY.items()}
    rows = [[words, *_summary_cells(matching[0])] for words, matching in found.items() if matching]
    return markdown.render_table(("", *HEAD[1:4], *HEAD[5:]), rows)


def _summary_cells(figure: Figure) -> tuple[str, ...]:
    """Return a figure's medians without quartiles, and measured times with three digits."""
    unit = figure.unit.partition(" per ")[0]
    ways = (figure.ours, figure.usual, figure.promising)
    medians = (each and (each if each.low == each.high else exact(float(f"{each.median:.3g}"))) for each in ways)
    return (*(_format_spread(each, unit) for each in medians), *_cells(figure)[5:])


def render_aims(sections: Sequence[Section]) -> str:
    """Return a line of text for each aim: "reached" or "missed", the figure and the aim."""
    figures = [figure for section in sections for figure in section.figures if figure.is_reached is not None]
    rows = [(cells[7].rpartition(" ")[2], cells[0], cells[5] or cells[1], cells[7]) for cells in map(_cells, figures)]
    return "\n".join(f"{word:<8} {what}: {value} ({aim.rpartition(' ')[0]})" for word, what, value, aim in rows)


def _describe_machine() -> str:
    asked = ["git", "-C", str(PROJECT), "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    machine = f"{os.cpu_count()} processors ({platform.machine()}), Python {platform.python_version()}"
    return textwrap.fill(f"Measured {datetime.now(UTC):%Y-%m-%d} at commit {commit.strip()} on {machine}.", 120)


def _cells(figure: Figure) -> tuple[str, ...]:
    ratios = map(_format_ratio, (figure.ratio, figure.promising_ratio))
    aims = [f"≤ {figure.max_ratio:.0%}"] if figure.max_ratio is not None else []
    aims += [f"≤ {figure.max_value:g} {figure.unit}"] if figure.max_value is not None else []
    reached = figure.is_reached
    aim = " ".join([*aims, *([] if reached is None else ["reached" if reached else "missed"])])
    columns = (figure.ours, figure.usual, figure.promising, figure.floor)
    return (figure.what, *(_format_spread(way, figure.unit) for way in columns), *ratios, aim)


def _format_ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.0%}" if ratio >= 0.01 else f"{ratio:.1%}"


def _format_spread(way: Spread | None, unit: str) -> str:
    if way is None:
        return ""
    if way.low == way.high:
        return f"{way.median:g} {unit}".strip()
    digits = 0 if way.median >= 100 else 1 if way.median >= 10 else 2
    return f"{way.median:.{digits}f} {unit} ({way.low:.{digits}f} to {way.high:.{digits}f})"
