"""Measure what the shop costs, how fast it is, and lower bounds for the same work: `make bench`.

Run nothing else on the machine during the measurement. The sections use the same local engine, one after the other.
"""

import argparse
import importlib
import os
import sys

from local.world import dynamodb_engine
from proof.bench import report
from proof.support.fixtures import FAKE_AWS_ENVIRONMENT

SECTIONS = {"life": "an order's whole life", "cold": "cold start"}
"""The titles of the report's sections, by the module of bench that measures the section."""


def main() -> None:
    """Measure and print each section. With `--write`, also write docs/performance.md."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="measure only these")
    parser.add_argument("--write", action="store_true", help="also write docs/performance.md; needs all sections")
    wanted = parser.parse_args()
    if wanted.write and wanted.only != list(SECTIONS):
        parser.error("docs/performance.md contains all sections: leave out --only")
    os.environ.update(FAKE_AWS_ENVIRONMENT)
    measured = []
    with dynamodb_engine.temporary_engine() as running:
        for name in wanted.only:
            print(f"{SECTIONS[name]} ...", file=sys.stderr, flush=True)
            section = importlib.import_module(f"proof.bench.{name}")
            measured.append(report.Section(SECTIONS[name], section.__doc__ or "", section.figures(running)))
            print(report.render_section(measured[-1]), flush=True)
    if wanted.write:
        report.PAGE.write_text(report.render_page(measured), encoding="utf-8")
        print(f"Written: {report.PAGE.name}. Next: review it with git diff.")


if __name__ == "__main__":
    main()
