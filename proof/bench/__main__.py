"""Measure what the shop costs, how fast it is, and lower bounds for the same work: `make bench`.

Run nothing else on the machine during the measurement. The sections use the same local engine, one after the other.
"""

import argparse
import importlib
import os
import sys
import time

from local.world import dynamodb_engine
from proof.bench import growth, report
from proof.support.fixtures import FAKE_AWS_ENVIRONMENT

SECTIONS = {
    "life": "an order's whole life",
    "cold": "cold start",
    "records": "1,000 records through the stream's readers",
    "placing": "placing an order",
    "laptop": "the whole shop on this machine",
    "growth": "growth",
    "size": "what is deployed",
}
"""The titles of the report's sections, by the module of bench that measures the section."""


def main() -> None:
    """Measure and print each section, then print each aim. With `--write`, also write docs/performance.md."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="measure only these")
    parser.add_argument("--write", action="store_true", help="also write docs/performance.md; needs all sections")
    parser.add_argument("--million", action="store_true", help="measure growth up to a million items; takes minutes")
    wanted = parser.parse_args()
    if wanted.million:
        growth.SIZES.append(growth.MILLION)
    if wanted.write and wanted.only != list(SECTIONS):
        parser.error("docs/performance.md contains all sections: leave out --only")
    os.environ.update(FAKE_AWS_ENVIRONMENT)
    measured, started = [], time.monotonic()
    with dynamodb_engine.temporary_engine() as running:
        for name in wanted.only:
            print(f"{SECTIONS[name]} ...", file=sys.stderr, flush=True)
            began = time.monotonic()
            section = importlib.import_module(f"proof.bench.{name}")
            measured.append(report.Section(SECTIONS[name], section.__doc__ or "", section.figures(running)))
            print(report.render_text(measured[-1], time.monotonic() - began), flush=True)
    if wanted.write:
        report.PAGE.write_text(report.render_page(measured), encoding="utf-8")
        print(f"Written: {report.PAGE.name}. Next: review it with git diff.")
    print(f"\n{report.render_aims(measured)}\nAll took {time.monotonic() - started:.0f} s.")


if __name__ == "__main__":
    main()
