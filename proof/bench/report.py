"""Render the measurements as docs/performance.md."""

import os
import platform
import subprocess
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from docs import markdown
from proof.bench.measure import Figure, Spread
from stacks import PROJECT

PAGE = PROJECT / "docs" / "performance.md"
HEAD = ("", "measured", "floor", "aim")
INTRODUCTION = """
The money is the price of the capacity units of the table and its indexes, on demand in us-east-1. Units, requests and
bytes are the same in every run. Times are medians with their quartiles. They are valid for this machine only. The
**floor** is a lower bound: the least cost that we know for the same work. The floor of a cold start uses the bundle's
boto3. The others do not depend on our code.

`make bench` measures and prints everything. `make bench ARGS="--only life"` measures one section.
`make bench ARGS=--write` writes this page. `make load` measures how long effects take in a running shop
([throughput](local.md#throughput)). Tests check that an access pattern uses the same units in a table of any size.
"""


@dataclass(frozen=True)
class Section:
    """A section of docs/performance.md: the title, docstring and figures of one module of bench."""

    title: str
    description: str
    figures: Sequence[Figure]


def render_section(section: Section) -> str:
    table = markdown.render_table(*_drop_empty_columns([_cells(figure) for figure in section.figures]))
    return f"## {section.title[0].upper()}{section.title[1:]}\n\n{describe(section.description)}\n\n{table}"


def render_page(sections: Sequence[Section]) -> str:
    written = "<!-- Written by `make bench ARGS=--write`. -->"
    lead = "This page shows what an order costs, and how long a function takes to start. Lower figures are better."
    parts = [f"# Performance\n\n{written}\n\n{lead}", f"{INTRODUCTION}\n{_describe_machine()}"]
    parts += map(render_section, sections)
    return "\n\n".join(part.strip() for part in parts) + "\n"


def describe(docstring: str) -> str:
    """Return a section's text on the page: the docstring of its module without the first paragraph."""
    return docstring.strip().partition("\n\n")[2].strip() or docstring.strip()


def _drop_empty_columns(rows: Sequence[Sequence[str]]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return the head and the rows of a table. Leaves out columns that are empty in every row."""
    kept = [number for number, column in enumerate(zip(*rows, strict=True)) if any(column)]
    head, *shown = [[row[number] for number in kept] for row in (HEAD, *rows)]
    return head, shown


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
