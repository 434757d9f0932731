"""The numbers of README.md, which `make docs` writes into it."""

import re
from pathlib import Path

from docs import markdown
from docs.pages import cost
from functions.model.patterns import PATTERNS
from functions.model.table import ROWS
from ops.cost.bill import APART, bill, total

ROOT = Path(__file__).parents[2]
WRITTEN = re.compile(r"(<!-- (\w+): written by `make docs` -->\n).*?(?=<!-- /\2 -->)", re.DOTALL)


def render_readme() -> str:
    """Return README.md with the present numbers."""
    parts = {"numbers": _render_numbers, "cost": _render_cost}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return WRITTEN.sub(lambda found: f"{found[1]}{parts[found[2]]()}\n", readme)


def _render_numbers() -> str:
    life = _find(r"an order's whole life, 5 lines: units \| ([\d.]+) units", "performance.md")
    rate = _find(r"a steady mix \| order to invoice and shipment \| (\d+)", "scale.md")
    months = [f"{total(bill(cost.month('prod', orders))):,.0f}" for orders in (0, 1_000)]
    million = sum(line.amount for line in cost.lines_of_a_million() if line.service not in APART)
    seeds = _find(r"recorded runs have ([\d,]+) seeds", "guarantees.md")
    return markdown.render_table(
        ("number", "what it is"),
        [
            (
                f"**{life}**",
                "capacity units that an order of five lines uses in its life ([each](docs/performance.md))",
            ),
            (
                f"**{len(PATTERNS)}**",
                f"[access patterns](docs/access-patterns.md) of {len(ROWS)} item types, with equal units at any size",
            ),
            (
                f"**{rate}**",
                "orders a second in prod, by [a model](docs/scale.md); mails have lower quotas at first",
            ),
            (f"**{million:,.0f} USD**", "for a million orders, without users and mails ([the bill](docs/cost.md))"),
            (f"**{months[0]} to {months[1]} USD**", "a month for prod with no orders, and with 1,000 a day"),
            (f"**{seeds}**", "recorded runs of the real Lambdas with injected faults ([the proof](proof/README.md))"),
        ],
    )


def _render_cost() -> str:
    """Return what prod costs in a month, by orders a day."""
    rows = []
    for orders in (0, 1_000, 5_000, 100_000):
        month = bill(cost.month("prod", orders))
        users, mails = (sum(line.amount for line in month if line.service == one) for one in ("Cognito", "SES"))
        amounts = (total(month), users, mails, total(month) - users - mails)
        rows.append((f"{orders:,}", *(f"{amount:,.0f} USD" for amount in amounts)))
    heads = ("orders a day", "prod, for a month", "of it Cognito's users", "mails", "other services")
    return markdown.render_table(heads, rows)


def _find(pattern: str, page: str) -> str:
    found = re.search(pattern, (ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert found, f"docs/{page} has no number for README: {pattern}"
    return found[1]
