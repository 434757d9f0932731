"""Writes the pages of docs/ that follow from the model and the stack: `python -m docs.generate`, or `make docs`."""

from pathlib import Path

from docs.pages import events, model, patterns, permissions, states, table
from local.up import synthesized

DOCS = Path(__file__).parent
KEPT = DOCS.parent / "build" / "docs"


def pages() -> dict[str, str]:
    """Every file that is generated from the model, by its path in docs/."""
    return {
        "table.md": table.page(),
        "model.md": model.page(),
        "access-patterns.md": patterns.page(),
        "events.md": events.page(),
        "states.md": states.page(),
        **{f"events/{name}.json": text for name, text in events.schemas().items()},
    }


def main() -> None:
    """Write them all, and remove the schemas of events that are no more."""
    KEPT.mkdir(parents=True, exist_ok=True)
    written = {**pages(), "permissions.md": permissions.page(synthesized(KEPT))}
    for path in (DOCS / "events").glob("*.json"):
        if f"events/{path.name}" not in written:
            path.unlink()
    for name, text in written.items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
