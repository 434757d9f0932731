"""Generate the pages of docs/ that git has from the model and the stack: `python -m docs.generate`, or `make docs`.

This also writes the contracts of events and stored items (docs/events, docs/items.json). If the model breaks a
contract, nothing is written.
"""

import sys
from pathlib import Path

from docs import promises
from docs.pages import asyncapi, cost, events, patterns, permissions, readme, settings, table
from local.up import synthesize_template

DOCS = Path(__file__).parent


def render_pages() -> dict[str, str]:
    """Return every file that is generated from the model and that git has, by its path in docs/.

    `make site` makes the other generated pages (docs/site.py).
    """
    return {
        "../README.md": readme.render_readme(),
        "cost.md": cost.render_page(),
        "table.md": table.render_page(),
        "access-patterns.md": patterns.render_page(),
        "events.md": events.render_page(),
        "settings.md": settings.render_page(),
        "events.json": events.render_union(),
        "asyncapi.json": asyncapi.render_document(),
        **promises.render_contracts(),
    }


def main() -> None:
    """Write all files, or none if the model breaks a contract or a setting has no description."""
    if undescribed := list(settings.find_undescribed()):
        sys.exit("\n".join(undescribed))
    written = render_pages()
    if broken := list(promises.find_breaking_changes(promises.published_contracts(DOCS), written)):
        sys.exit(
            "No file was written, because these contracts would break (see docs/upgrades.md):\n" + "\n".join(broken)
        )
    written["permissions.md"] = permissions.render_page(synthesize_template())
    for name, text in written.items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
