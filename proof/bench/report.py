"""Render the measurements for the terminal and as docs/performance.md."""

import os
import platform
import subprocess
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from docs import markdown
from proof.bench.measure import Figure, Spread, exact
from stacks import PROJECT

PAGE = PROJECT / "docs" / "performance.md"
HEAD = ("", "measured", "floor", "aim")
SUMMARY = {
    "A million orders of 1 line, from placement to archive": "an order's whole life, 1 line: money",
    "A million orders of 5 lines": "an order's whole life, 5 lines: money",
    "A million orders of 20 lines": "an order's whole life, 20 lines: money",
    "Capacity units of an order of 5 lines": "an order's whole life, 5 lines: units",
    "Requests to the table for an order of 5 lines": "an order's whole life, 5 lines: requests",
    "First answer of an API that has to start, slowest kind of request": "`api`",
    "Copying a change to all the places that show it": "copies_reader, a record: time",
    "Placing an order of 5 lines, computing time": "POST /orders, 5 lines: processor",
}
"""The rows of the page's first table: a plain description, and how the name of the row's figure begins. If several
figures match, the row shows the first figure."""
INTRODUCTION = """
The money is the price of the capacity units of the table and its indexes, on demand in us-east-1. Units, requests and
bytes are the same in every run. Times are medians with their quartiles. They are valid for this machine only. The
**floor** is a lower bound: the least cost that we know for the same work. The floors of `copies_reader` and "boto3
alone" depend on our code; the others do not.

`make bench` measures and prints everything. `make bench ARGS="--only life"` measures one section.
`make bench ARGS=--write` writes this page.
"""
RIVAL = """
## The conventional implementation

Until November 2026 the benchmark compared this shop with the same shop as AWS's samples and guides build it: boto3's
resource and batch_writer, TypeDeserializer, Powertools' resolver, batch processor and idempotency, and one item for
each order line. "Same promises" is that shop, extended with published parts until it keeps our
[promises](guarantees.md). The code of both was removed later. To measure them again, check out commit eadb275 and run
`make bench`. On 2026-11-24, that commit measured the units of an order, and the cost of a million orders:

| lines | this shop | usual | same promises |
| --- | --- | --- | --- |
| 1 | 51.12 USD, 93 units | 64.31 USD, 110.5 units | 67.50 USD, 116 units |
| 5 | 69.12 USD, 125 units | 92.12 USD, 157 units | 102.88 USD, 175 units |
| 20 | 150.62 USD, 269 units | 200.56 USD, 340.5 units | 239.38 USD, 403 units |
"""
"""The last section of the page: a dated footnote. No aim depends on it."""


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
    lead = "This page shows what an order costs, and how long a customer or an effect waits. Lower figures are better."
    parts = [
        f"# Performance\n\n{written}\n\n{lead}",
        render_summary(sections),
        f"{INTRODUCTION}\n{_describe_machine()}",
    ]
    for section in sections:
        words = describe(section.description)
        table = markdown.render_table(*_drop_empty_columns([_cells(figure) for figure in section.figures]))
        parts.append(f"## {section.title[0].upper()}{section.title[1:]}\n\n{words}\n\n{table}")
    return "\n\n".join(part.strip() for part in [*parts, RIVAL]) + "\n"


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
    return markdown.render_table((HEAD[0], HEAD[1], HEAD[3]), rows)


def _summary_cells(figure: Figure) -> tuple[str, str]:
    """Return the median without quartiles, and the aim. Measured times have three digits."""
    value = figure.value
    if value and value.low != value.high:
        value = exact(float(f"{value.median:.3g}"))
    return _format_spread(value, figure.unit.partition(" per ")[0]), _cells(figure)[3]


def render_aims(sections: Sequence[Section]) -> str:
    """Return a line for each aim: "reached" or "missed", the figure and the aim."""
    rows = [_cells(it) for section in sections for it in section.figures if it.is_reached is not None]
    return "\n".join(
        f"{aim.rpartition(' ')[2]:<8} {what}: {value} ({aim.rpartition(' ')[0]})" for what, value, _, aim in rows
    )


def _describe_machine() -> str:
    asked = ["git", "-C", str(PROJECT), "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    machine = f"{os.cpu_count()} processors ({platform.machine()}), Python {platform.python_version()}"
    return textwrap.fill(f"Measured {datetime.now(UTC):%Y-%m-%d} at commit {commit.strip()} on {machine}.", 120)


def _cells(figure: Figure) -> tuple[str, ...]:
    aim = f"≤ {figure.max_value:g} {figure.unit}" if figure.max_value is not None else ""
    if figure.is_reached is not None:
        aim += " reached" if figure.is_reached else " missed"
    return figure.what, *(_format_spread(one, figure.unit) for one in (figure.value, figure.floor)), aim


def _format_spread(value: Spread | None, unit: str) -> str:
    if value is None:
        return ""
    if value.low == value.high:
        return f"{value.median:g} {unit}".strip()
    digits = 0 if value.median >= 100 else 1 if value.median >= 10 else 2
    return f"{value.median:.{digits}f} {unit} ({value.low:.{digits}f} to {value.high:.{digits}f})"
